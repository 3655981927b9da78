"""How the calls on one repository are made; what they are stands in the classes that build on this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from bot.domain.errors import GitHubError
from bot.domain.event import Person
from bot.github import answers
from bot.github.http import Session, read, route
from bot.github.webhook import GHOST

ShapeT = TypeVar("ShapeT", bound=BaseModel)


class Calls:
    """One repository, by its names and a session whose token is good for it. Every failure is a `GitHubError` that
    names what was asked for; `retryable` there says whether asking again may help."""

    def __init__(
        self, session: Session, owner: str, name: str, *, app_id: int, app_login: Callable[[], Awaitable[str]]
    ) -> None:
        self._session = session
        self._owner = owner
        self._name = name
        self._app_id = app_id
        self._app_login = app_login

    @property
    def full_name(self) -> str:
        return f"{self._owner}/{self._name}"

    async def login(self) -> str:
        """The App's own account, `SLUG[bot]`."""
        return await self._app_login()

    async def is_own(self, author: Person, via_app: int | None) -> bool:
        """Whether our App did it: its own account, or anybody through it."""
        return via_app == self._app_id or await self.is_own_account(author)

    async def is_own_account(self, somebody: Person) -> bool:
        """Whether that is the account of our App, whose name no person can take."""
        return somebody.is_bot and somebody.login == await self._app_login()

    async def _is_ours(self, user: answers.User | None, via_app: answers.Numbered | None) -> bool:
        """By the App's id where GitHub says through which App something came, for an id outlives a rename; else by
        the App's own account. The id alone would not do: it is also on what a person writes through the App with a
        token of their own."""
        author = person(user)
        if not author.is_bot:
            return False
        if via_app is not None:
            return via_app.id == self._app_id
        return await self.is_own_account(author)

    async def _get(
        self, shape: type[ShapeT], about: str, segments: Sequence[str | int], **params: str | int
    ) -> ShapeT:
        content = await self._call("GET", about, segments, params=params or None)
        return read(shape, content, about)

    async def _find(self, shape: type[ShapeT], about: str, segments: Sequence[str | int]) -> ShapeT | None:
        try:
            return await self._get(shape, about, segments)
        except GitHubError as exc:
            if exc.status == 404:
                return None
            raise

    async def _post(self, shape: type[ShapeT], about: str, segments: Sequence[str | int], body: Any) -> ShapeT:
        content = await self._call("POST", about, segments, json=body)
        return read(shape, content, about)

    async def _call(
        self,
        method: Literal["GET", "POST", "PATCH", "DELETE"],
        about: str,
        segments: Sequence[str | int],
        *,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
    ) -> bytes:
        path = route("repos", self._owner, self._name, *segments)
        return await self._session.call(method, path, about, json=json, params=params)


def person(user: answers.User | None) -> Person:
    return Person(id=user.id, login=user.login, is_bot=user.type == "Bot") if user else GHOST
