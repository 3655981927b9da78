"""A call to the REST API as its handlers see it, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

from bot.demo.shapes import Object, Shapes
from bot.demo.state import Comment, Issue, Pull, Reaction, Repository, ReviewComment, Token
from bot.demo.webhooks import Webhooks
from bot.demo.world import World

COMMENT_LIMIT = 65536
PAGE_LIMIT = 100


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One call as it was answered; `operation` is GitHub's own name for it, None where it is no call we know."""

    method: str
    path: str
    status: int
    operation: str | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`body` is JSON, or a text that is sent as it is: a page, as servers in trouble answer with."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """A call that ends with an error status."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Object] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.headers = headers or {}
        self.status = status
        self.message = message
        self.errors = errors


class Moved(Refused):
    """What is asked for is elsewhere. Only who reads may take it for granted that this stays so."""

    def __init__(self, url: str, method: str) -> None:
        lasting = method == "GET"
        message = "Moved Permanently" if lasting else "Temporary Redirect"
        super().__init__(301 if lasting else 307, message, headers={"Location": url})
        self.url = url


@dataclass(frozen=True, kw_only=True)
class Needs:
    """One of these permissions at this level, on the repository that the path names."""

    permissions: tuple[str, ...]
    level: Literal["read", "write"]


Access = Literal["anybody", "app", "token"] | Needs
"""Whoever asks, the App itself by its JWT, any live installation token, or one that reaches and may."""

METADATA = Needs(permissions=("metadata",), level="read")
READ_CODE = Needs(permissions=("contents",), level="read")
WRITE_CODE = Needs(permissions=("contents",), level="write")
EITHER = ("issues", "pull_requests")
READ_TALK = Needs(permissions=EITHER, level="read")
TALK = Needs(permissions=EITHER, level="write")
READ_PULLS = Needs(permissions=("pull_requests",), level="read")
WRITE_PULLS = Needs(permissions=("pull_requests",), level="write")
READ_ACTIONS = Needs(permissions=("actions",), level="read")
READ_CHECKS = Needs(permissions=("checks",), level="read")
WRITE_CHECKS = Needs(permissions=("checks",), level="write")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that was let in."""

    world: World
    shapes: Shapes
    webhooks: Webhooks
    method: str
    path: str
    variables: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    token: Token | None

    @property
    def me(self) -> str:
        """Who the App is to others."""
        return self.world.app.login

    @property
    def repository(self) -> Repository:
        return self.world.repositories[f"{self.variables['owner']}/{self.variables['repo']}"]

    def issue(self, name: str = "issue_number") -> Issue:
        number = int(self.variables[name])
        if number in self.repository.gone:
            raise self._gone(self.repository.gone[number])
        if number not in self.repository.issues:
            raise Refused(404, "Not Found")
        return self.repository.issues[number]

    def _gone(self, to: tuple[int, int] | None) -> Refused:
        """For an issue that was here."""
        new = self.world.repository(to[0]) if to is not None else None
        if to is None or new is None or self.token is None or not self.token.reaches(new):
            return Refused(410, "This issue was deleted")
        tail = self.path.split("/issues/", 1)[-1].partition("/")[2]
        return Moved(f"{self.shapes.api_url}/repositories/{to[0]}/issues/{to[1]}{tail and f'/{tail}'}", self.method)

    def pull(self) -> tuple[Issue, Pull]:
        issue = self.issue("pull_number")
        for known, pull in self.repository.pulls():
            if known is issue:
                return issue, pull
        raise Refused(404, "Not Found")

    def comment(self) -> tuple[Issue, Comment]:
        found = self.repository.comment(int(self.variables["comment_id"]))
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def review_comment(self) -> tuple[Issue, ReviewComment]:
        found = self.repository.review_comment(int(self.variables["comment_id"]))
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def react(self, given: list[Reaction]) -> Answer:
        """Adds the reaction that is asked for, once."""
        for reaction in given:
            if (reaction.login, reaction.content) == (self.me, self.body["content"]):
                return Answer(body=self.shapes.reaction(reaction))
        number, now = self.world.next_id(), self.world.clock()
        reaction = Reaction(id=number, login=self.me, content=self.body["content"], created_at=now)
        given.append(reaction)
        return Answer(status=201, body=self.shapes.reaction(reaction))

    def text(self, resource: str) -> str:
        """The body of a comment."""
        text = str(self.body["body"])
        if not text.strip():
            raise invalid(resource, "body", "missing_field")
        if len(text) > COMMENT_LIMIT:
            message = f"body is too long (maximum is {COMMENT_LIMIT} characters)"
            raise invalid(resource, "body", "custom", message)
        return text

    def page(self, items: Sequence[Object]) -> Answer:
        """The part of a list that was asked for, with links to its neighbours."""
        size = min(max(int(self.query.get("per_page", 30)), 1), PAGE_LIMIT)
        number = max(int(self.query.get("page", 1)), 1)
        last = max((len(items) + size - 1) // size, 1)
        wanted = {"first": 1, "prev": number - 1} if number > 1 else {}
        wanted |= {"next": number + 1, "last": last} if number < last else {}
        links = [
            f'<{self.shapes.api_url}{self.path}?{urlencode({**self.query, "page": there})}>; rel="{name}"'
            for name, there in wanted.items()
        ]
        part = list(items[(number - 1) * size : number * size])
        return Answer(body=part, headers={"Link": ", ".join(links)} if links else {})


Handler = Callable[[Call], Answer]

Operations = Mapping[str, tuple[Access, Handler]]
"""By GitHub's name for each: who may, and what answers."""


def invalid(resource: str, name: str, code: str = "invalid", message: str | None = None) -> Refused:
    error = {"resource": resource, "field": name, "code": code}
    return Refused(422, "Validation Failed", [{**error, "message": message} if message else error])
