"""The App's identity: tokens for one repository and one purpose, minted for a block of work and revoked after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import Field

from bot.domain.errors import GitHubError, UserError
from bot.github.client import Repository
from bot.github.http import PATIENCE_S, Answer, Connection, Method, Session, Shape, Sleep, read, route
from bot.github.pace import Pace

REVOKE_S = 10.0
"""How long giving back a token may hold up the end of a block; one that isn't given back ends within the hour."""
LATE_S = 10.0
"""How long a cancelled block waits for a token that is on its way, to give it back."""
JWT_BACK = timedelta(seconds=60)
JWT_AHEAD = timedelta(minutes=9)
"""GitHub takes no JWT that is of the future, or that is good for more than ten minutes by GitHub's clock."""

log = structlog.get_logger()


class _Token(Shape):
    token: str


class Registration(Shape):
    """The App as it is registered; what an installation has accepted of it may be less."""

    slug: str
    permissions: Mapping[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class App:
    """A GitHub App on one GitHub (`api_url` is github.com's API, or an Enterprise Server's `…/api/v3`). A key or an
    address that can't be one is a UserError at once. No token is kept: each block has its own. `learn` hears of each
    at once, so that whoever takes secrets out of texts knows it. All calls of one installation keep one pace, and
    those of the App itself another: each has limits of its own."""

    def __init__(
        self,
        app_id: int,
        private_key: str,
        api_url: str,
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], datetime] = _utc_now,
        learn: Callable[[str], None] | None = None,
    ) -> None:
        self._private_key = _key(private_key)
        self._app_id = app_id
        self._api_url = _address(api_url)
        self._sleep = sleep
        self._clock = clock
        self._learn = learn or (lambda _: None)
        self._skew = timedelta()
        self._own_pace = self._new_pace()
        self._paces: dict[int, Pace] = {}
        self._owed: dict[int, list[str]] = {}
        """By installation, the tokens that are still to be given back."""
        self._login: str | None = None

    @property
    def app_id(self) -> int:
        return self._app_id

    async def login(self) -> str:
        """The App's own account as it signs comments, `SLUG[bot]`; GitHub is asked once."""
        if self._login is None:
            self._login = f"{(await self.registration()).slug}[bot]"
        return self._login

    async def registration(self) -> Registration:
        about = "the App itself"
        return read(Registration, (await self.as_app("GET", route("app"), about)).content, about)

    def clones_from(self, owner: str, name: str, url: str) -> bool:
        """Whether an address is this GitHub's for cloning that repository: a token must go to no other."""
        try:
            given = httpx.URL(url)
        except httpx.InvalidURL:
            return False
        home = httpx.URL(self.origin)
        path = f"/{owner}/{name}".casefold()
        plain = str(given) == url and not given.userinfo and not given.query and not given.fragment
        at_home = (given.scheme, given.host, given.port) == (home.scheme, home.host, home.port)
        return plain and at_home and given.path.casefold() in (path, f"{path}.git")

    @property
    def origin(self) -> str:
        """Where this GitHub's repositories are, without a slash at the end: `https://github.com`."""
        api = httpx.URL(self._api_url)
        host = api.host if api.path.rstrip("/").endswith("/api/v3") else api.host.removeprefix("api.")
        return str(httpx.URL(scheme=api.scheme, host=host, port=api.port)).rstrip("/")

    @asynccontextmanager
    async def token(
        self, installation_id: int, repository: str | int, permissions: Mapping[str, str]
    ) -> AsyncIterator[str]:
        """A token for one repository (its name, or its id) with these permissions and no others. It is revoked when
        the block ends, however it ends; it is good for an hour at most."""
        token = await self._minted(installation_id, repository, permissions)
        try:
            yield token
        finally:
            await self._give_back(installation_id, token)

    @asynccontextmanager
    async def repository(
        self,
        installation_id: int,
        owner: str,
        name: str,
        *,
        permissions: Mapping[str, str],
        repository_id: int | None = None,
    ) -> AsyncIterator[Repository]:
        """A client for one repository, with a token as `token` gives it, for the repository of that id where the name
        may be an old one; one that ran out is replaced unnoticed."""

        async def mint() -> str:
            return await self._minted(installation_id, repository_id or name, permissions)

        async with Connection(self._api_url, self._pace(installation_id), sleep=self._sleep) as connection:
            session = Session(connection, await mint(), mint)
            try:
                yield Repository(session, owner, name, app_id=self._app_id, app_login=self.login)
            finally:
                await self._give_back(installation_id, session.token, *session.replaced)

    async def _minted(self, installation_id: int, repository: str | int, permissions: Mapping[str, str]) -> str:
        """A new token. Cancelled while it is on its way, it is waited for and given back: nobody else knows of it."""
        # While the installation may ask for nothing, a token is of no use.
        about = f"a token of installation {installation_id}"
        await self._pace(installation_id).turn(about, content=False, patience_s=PATIENCE_S)
        minting = asyncio.create_task(self._mint(installation_id, repository, permissions))
        try:
            return await asyncio.shield(minting)
        except asyncio.CancelledError:
            await asyncio.wait({minting}, timeout=LATE_S)
            minting.cancel()
            with contextlib.suppress(GitHubError, asyncio.CancelledError):
                await self._give_back(installation_id, await minting)
            raise

    async def _mint(self, installation_id: int, repository: str | int, permissions: Mapping[str, str]) -> str:
        about = f"a token of installation {installation_id} for the repository {repository}"
        scope = {"repositories": [repository]} if isinstance(repository, str) else {"repository_ids": [repository]}
        path = route("app", "installations", installation_id, "access_tokens")
        answer = await self.as_app("POST", path, about, json={**scope, "permissions": dict(permissions)})
        token = read(_Token, answer.content, about).token
        self._learn(token)
        return token

    async def as_app(
        self,
        method: Method,
        path: str,
        about: str,
        *,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
    ) -> Answer:
        """A call of the App itself, as `Connection.call`. Where this machine's clock is wrong, GitHub's own is gone
        by, from then on."""
        async with Connection(self._api_url, self._own_pace, sleep=self._sleep) as connection:
            try:
                return await connection.call(method, path, about, token=self._jwt(), json=json, params=params)
            except GitHubError as exc:
                there = connection.refused_at
                if exc.status != 401 or there is None:
                    raise
                skew = there - self._clock()
                if abs(skew - self._skew) < JWT_BACK / 2:
                    raise  # it was not for the time
                log.warning("this machine's clock is not GitHub's", seconds=round(skew.total_seconds()))
                self._skew = skew
            return await connection.call(method, path, about, token=self._jwt(), json=json, params=params)

    def _jwt(self) -> str:
        now = self._clock() + self._skew
        claims = {"iss": str(self._app_id), "iat": now - JWT_BACK, "exp": now + JWT_AHEAD}
        return jwt.encode(claims, self._private_key, algorithm="RS256")

    async def _give_back(self, installation_id: int, *tokens: str) -> None:
        """Revokes them, also while this task is being cancelled, and cancelled again. What GitHub can't be asked to
        revoke now, because of a limit, is revoked together with the next ones."""
        owed = self._owed.pop(installation_id, [])
        revoking = asyncio.gather(*(self._revoke(installation_id, token) for token in (*tokens, *owed)))
        try:
            await asyncio.shield(revoking)
        except asyncio.CancelledError:
            await asyncio.wait({revoking})
            raise

    async def _revoke(self, installation_id: int, token: str) -> None:
        connection = Connection(self._api_url, self._pace(installation_id), sleep=self._sleep, patience_s=0)
        try:
            async with asyncio.timeout(REVOKE_S), connection:
                await connection.call("DELETE", route("installation", "token"), "giving back a token", token=token)
        except GitHubError as exc:
            if exc.retry_after_s is not None:
                self._owed.setdefault(installation_id, []).append(token)
            elif exc.status != 401:  # 401: it has run out already
                log.warning("a token was not given back", reason=str(exc))
        except TimeoutError:
            log.warning("a token was not given back", reason="GitHub took too long")

    def _pace(self, installation_id: int) -> Pace:
        if installation_id not in self._paces:
            self._paces[installation_id] = self._new_pace()
        return self._paces[installation_id]

    def _new_pace(self) -> Pace:
        return Pace(clock=self._clock, sleep=self._sleep)


def _key(private_key: str) -> RSAPrivateKey:
    """The key as RS256 needs it, read once: that takes longer than signing. In one line of an environment file its
    newlines are written as backslash and n."""
    pem = private_key.replace("\\n", "\n").strip() + "\n"
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
        if isinstance(key := load_pem_private_key(pem.encode(), password=None), RSAPrivateKey):
            return key
    # What was given stays out of the message, and the parser's error with it: it may be the key but for one letter.
    raise UserError(
        "GITHUB_PRIVATE_KEY is not a PEM private key. Take the file that GitHub made for the App: "
        "it begins with `-----BEGIN RSA PRIVATE KEY-----`."
    )


def _address(api_url: str) -> str:
    with contextlib.suppress(httpx.InvalidURL):
        url = httpx.URL(api_url)
        if url.scheme in ("http", "https") and url.host:
            return api_url
    raise UserError("GITHUB_API_URL is not an address such as https://api.github.com.")
