"""One call to GitHub: what is tried again, and which of our errors each thing that goes wrong becomes."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx
from githubkit import GitHub, Response, UnauthAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import RateLimitExceeded, RequestError, RequestFailed, RequestTimeout
from pydantic import BaseModel, ConfigDict, ValidationError

from bot.domain.errors import GitHubError, UserError

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Sleep = Callable[[float], Awaitable[None]]

SILENCE_S = 20.0
"""How long GitHub may take to connect, and between two pieces of an answer."""
CALL_S = 60.0
"""How long one answer may take in all."""
PATIENCE_S = 30.0
"""The longest wait for a rate limit in here; a longer one is the engine's to wait."""
TRIES = 3

# The version that github.com and every supported Enterprise Server know; a server refuses one it doesn't know.
_HEADERS = {"X-GitHub-Api-Version": "2022-11-28"}

_UNNUMBERED_WAIT_S = 60.0
"""What GitHub's documentation asks for where a rate limit comes without a time."""

_REASONS = (
    ("is archived", "the repository is archived"),
    ("was archived", "the repository is archived"),
    ("is locked", "the conversation is locked"),
    ("not accessible by integration", "the App lacks a permission for it"),
    ("fast forward", "the branch has moved"),
    ("fast-forward", "the branch has moved"),
    ("already exists", "it exists already"),
    ("`workflows` permission", "the App may not change workflow files"),
    ("protected branch", "the branch is protected"),
    ("repository rule violations", "a rule of the repository forbids it"),
)
"""Words of GitHub's refusals, and what we say instead: its own text is written for somebody else."""


_CLOSED = ("the repository is archived", "the conversation is locked")


class Shape(BaseModel):
    """The part of an answer that we read; what else GitHub says is none of our business."""

    # Without hiding it, a validation error would show the beginning of the answer, which may hold a token.
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


ShapeT = TypeVar("ShapeT", bound=BaseModel)


def read(shape: type[ShapeT], content: bytes, about: str) -> ShapeT:
    """An answer in our words; GitHubError where it is something else, such as a proxy's page."""
    try:
        return shape.model_validate_json(content)
    except ValidationError as exc:
        raise GitHubError(f"GitHub's answer for {about} is not the JSON that it documents.") from exc


def route(*segments: str | int) -> str:
    """A path below the API's address, each segment escaped. A segment that would lead elsewhere is a UserError."""
    for segment in segments:
        if str(segment) in ("", ".", ".."):
            raise UserError(
                f"`{'/'.join(map(str, segments))}` can't be asked of GitHub: it has an empty or dotted part."
            )
    return "/" + "/".join(quote(str(segment), safe="") for segment in segments)


@cache
def _trust() -> ssl.SSLContext:
    """Read once: reading all the authorities takes longer than most calls, and blocks everything else meanwhile."""
    return httpx.create_ssl_context()


class _Elsewhere(Exception):
    """GitHub has answered with the address of another server."""


class Connection:
    """An open connection to one GitHub, with the token (or the App's JWT) that each call brings: it remembers none.
    To be opened in the task that uses it; a call outside of that works, but connects anew."""

    def __init__(self, api_url: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self._origin = _origin(httpx.URL(api_url))
        # Its cache is its own: githubkit's default cache is one for the whole process, whatever the server.
        # `auto_retry` would repeat a POST after a 5xx, and wait for a rate limit without a bound.
        self._github: GitHub[UnauthAuthStrategy] = GitHub(
            UnauthAuthStrategy(),
            base_url=api_url,
            user_agent="coder-bot",
            cache_strategy=MemCacheStrategy(),
            http_cache=False,
            timeout=SILENCE_S,
            ssl_verify=_trust(),
            auto_retry=False,
            async_event_hooks={"request": [self._must_stay]},
        )
        self._sleep = sleep
        self.refused_at: datetime | None = None
        """GitHub's own clock when it last refused something, where it said so."""

    async def __aenter__(self) -> Self:
        await self._github.__aenter__()  # type: ignore[no-untyped-call]  # githubkit leaves it without types
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._github.__aexit__(kind, error, trace)

    async def call(
        self,
        method: Method,
        path: str,
        about: str,
        *,
        token: str | None = None,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
    ) -> bytes:
        """The body of a successful answer. What went wrong is a `GitHubError` that names `about`, after a few tries:
        a rate limit was refused before anything was done, so any call is repeated after it; what GitHub may have done
        already (a POST that got no answer, or a 5xx) is not repeated here."""
        for attempt in itertools.count(1):
            try:
                return await self._once(method, path, about, token=token, json=json, params=params)
            except GitHubError as exc:
                wait_s = _wait_s(exc, method, attempt)
                if wait_s is None:
                    raise
            await self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _once(
        self,
        method: Method,
        path: str,
        about: str,
        *,
        token: str | None,
        json: Any,
        params: Mapping[str, str | int] | None,
    ) -> bytes:
        headers = _HEADERS if token is None else {**_HEADERS, "Authorization": f"Bearer {token}"}
        try:
            async with asyncio.timeout(CALL_S):
                answer = await self._github.arequest(method, path, params=params, json=json, headers=headers)
        except (RequestTimeout, TimeoutError) as exc:
            raise GitHubError(f"GitHub did not answer in time for {about}.", retryable=True) from exc
        except RequestFailed as exc:
            self.refused_at = _date(exc.response.headers.get("date"))
            raise _refusal(exc, about) from exc
        except RequestError as exc:
            if isinstance(exc.exc, _Elsewhere):
                raise GitHubError(
                    f"GitHub redirects {about} to another server, which was not asked. Is GITHUB_API_URL right?"
                ) from exc
            lost = isinstance(exc.exc, httpx.TransportError)
            raise GitHubError(f"GitHub could not be reached for {about}.", retryable=lost) from exc
        except ValueError as exc:
            # githubkit reads the header as a number; a proxy in front of the server may have put a date there.
            raise GitHubError(
                f"GitHub's rate limit is reached for {about}, and when it ends could not be read.",
                retryable=True,
                retry_after_s=_UNNUMBERED_WAIT_S,
            ) from exc
        if answer.raw_request.method != method:
            # A redirect of 301 or 302 turns a write into a read, which then looks like a success.
            raise GitHubError(f"GitHub redirects {about}; has the repository been renamed?", status=301)
        return answer.content

    async def _must_stay(self, request: httpx.Request) -> None:
        """Redirects are followed on the same server only: what another one answers is not GitHub's word."""
        if _origin(request.url) != self._origin:
            raise _Elsewhere


class Session:
    """Calls with one token. When GitHub no longer takes it, a new one is minted and the call repeated, once."""

    def __init__(self, connection: Connection, token: str, mint: Callable[[], Awaitable[str]]) -> None:
        self.token = token
        self.replaced: list[str] = []
        """Tokens that were refused. They may be good all the same: they are to be given back like the last one."""
        self._connection = connection
        self._mint = mint
        self._minting = asyncio.Lock()

    async def call(
        self,
        method: Method,
        path: str,
        about: str,
        *,
        json: Any = None,
        params: Mapping[str, str | int] | None = None,
    ) -> bytes:
        """As `Connection.call`."""
        used = self.token
        try:
            return await self._connection.call(method, path, about, token=used, json=json, params=params)
        except GitHubError as exc:
            if exc.status != 401:
                raise
        async with self._minting:
            if self.token == used:
                self.token = await self._mint()
                self.replaced.append(used)
        return await self._connection.call(method, path, about, token=self.token, json=json, params=params)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _date(header: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(header or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


def _wait_s(error: GitHubError, method: Method, attempt: int) -> float | None:
    """Seconds until the same call may be made again, None where it must not be made from here."""
    if not error.retryable or attempt == TRIES:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= PATIENCE_S else None
    return None if method == "POST" else 2**attempt / 8


def _refusal(error: RequestFailed, about: str) -> GitHubError:
    answer: Response[Any] = error.response
    status = answer.status_code
    text = answer.text[:10_000].lower()
    wait_s: float | None = None
    if isinstance(error, RateLimitExceeded):
        wait_s = error.retry_after.total_seconds()
    elif status == 429 or (status == 403 and "secondary rate" in text):
        wait_s = _UNNUMBERED_WAIT_S
    if wait_s is not None:
        return GitHubError(
            f"GitHub's rate limit is reached for {about}; it asks to wait {wait_s:.0f} seconds.",
            status=status,
            retryable=True,
            retry_after_s=wait_s,
        )
    reason = next((ours for theirs, ours in _REASONS if theirs in text), None) if status in (403, 409, 422) else None
    said = f"GitHub answered {status} for {about}" + (f": {reason}." if reason else ".")
    closed = reason if reason in _CLOSED else None
    return GitHubError(said, status=status, retryable=status >= 500, closed=closed)
