"""The App's identity: tokens for one repository and one purpose, minted for a block of work and revoked after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from bot.domain.errors import GitHubError, UserError
from bot.github.client import Repository
from bot.github.http import Connection, Session, Shape, Sleep, read, route

REVOKE_S = 10.0
"""How long giving back a token may hold up the end of a block; one that isn't given back ends within the hour."""

log = structlog.get_logger()


class _Token(Shape):
    token: str


class _Self(Shape):
    slug: str


class App:
    """A GitHub App on one GitHub (`api_url` is github.com's API, or an Enterprise Server's `…/api/v3`). A key or an
    address that can't be one is a UserError at once."""

    def __init__(self, app_id: int, private_key: str, api_url: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self._app = (app_id, _pem(private_key))
        self._app_id = app_id
        self._api_url = _address(api_url)
        self._sleep = sleep
        self._login: str | None = None

    async def login(self) -> str:
        """The App's own account as it signs comments, `SLUG[bot]`; GitHub is asked once."""
        if self._login is None:
            about = "the App itself"
            async with Connection(self._api_url, app=self._app, sleep=self._sleep) as connection:
                content = await connection.call("GET", route("app"), about)
            self._login = f"{read(_Self, content, about).slug}[bot]"
        return self._login

    @asynccontextmanager
    async def token(
        self, installation_id: int, repository: str | int, permissions: Mapping[str, str]
    ) -> AsyncIterator[str]:
        """A token for one repository (its name, or its id) with these permissions and no others. It is revoked when
        the block ends, however it ends; it is good for an hour at most."""
        token = await self._mint(installation_id, repository, permissions)
        try:
            yield token
        finally:
            await self._give_back(token)

    @asynccontextmanager
    async def repository(
        self, installation_id: int, owner: str, name: str, *, permissions: Mapping[str, str]
    ) -> AsyncIterator[Repository]:
        """A client for one repository, with a token as `token` gives it; one that ran out is replaced unnoticed."""

        async def mint() -> str:
            return await self._mint(installation_id, name, permissions)

        async with Connection(self._api_url, sleep=self._sleep) as connection:
            session = Session(connection, await mint(), mint)
            try:
                yield Repository(session, owner, name, app_id=self._app_id, app_login=self.login)
            finally:
                await self._give_back(session.token)

    async def _mint(self, installation_id: int, repository: str | int, permissions: Mapping[str, str]) -> str:
        about = f"a token of installation {installation_id} for the repository {repository}"
        scope = {"repositories": [repository]} if isinstance(repository, str) else {"repository_ids": [repository]}
        async with Connection(self._api_url, app=self._app, sleep=self._sleep) as connection:
            content = await connection.call(
                "POST",
                route("app", "installations", installation_id, "access_tokens"),
                about,
                json={**scope, "permissions": dict(permissions)},
            )
        return read(_Token, content, about).token

    async def _give_back(self, token: str) -> None:
        """Revokes it, also while this task is being cancelled, and cancelled again."""
        revoking = asyncio.create_task(self._revoke(token))
        try:
            await asyncio.shield(revoking)
        except asyncio.CancelledError:
            await asyncio.wait({revoking})
            raise

    async def _revoke(self, token: str) -> None:
        try:
            async with asyncio.timeout(REVOKE_S), Connection(self._api_url, sleep=self._sleep) as connection:
                await connection.call("DELETE", route("installation", "token"), "giving back a token", token=token)
        except GitHubError as exc:
            if exc.status != 401:  # 401: it has run out already
                log.warning("a token was not given back", reason=str(exc))
        except TimeoutError:
            log.warning("a token was not given back", reason="GitHub took too long")


def _pem(private_key: str) -> str:
    """The key as RS256 needs it. In one line of an environment file its newlines are written as backslash and n."""
    pem = private_key.replace("\\n", "\n").strip() + "\n"
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
        if isinstance(load_pem_private_key(pem.encode(), password=None), RSAPrivateKey):
            return pem
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
