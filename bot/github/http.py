"""One call to GitHub: what is tried again, and which of our errors each thing that goes wrong becomes."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx
from githubkit import GitHub, UnauthAuthStrategy
from githubkit.cache import MemCacheStrategy
from pydantic import BaseModel, ConfigDict, ValidationError

from bot.domain.errors import GitHubError, UserError
from bot.github.pace import Pace, kind_of, makes_content, moment

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Sleep = Callable[[float], Awaitable[None]]

SILENCE_S = 20.0
"""How long GitHub may take to connect, and between two pieces of an answer."""
CALL_S = 60.0
"""How long one answer may take in all."""
PATIENCE_S = 30.0
"""The longest wait for a rate limit in here; a longer one is the engine's to wait."""
TRIES = 3
HOPS = 3
"""Redirects that are followed, one after the other."""

# The version that github.com and every supported Enterprise Server know; a server refuses one it doesn't know.
_HEADERS = {"X-GitHub-Api-Version": "2022-11-28"}

_LIMITS = ("secondary rate limit", "abuse detection", "submitted too quickly", "rate limit exceeded")
"""Words that tell a refusal for a limit from others. What comes too quickly may even be called a failed validation:
https://github.com/cli/cli/issues/4801"""

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
def trust() -> ssl.SSLContext:
    """Read once: reading all the authorities takes longer than most calls, and blocks everything else meanwhile."""
    return httpx.create_ssl_context()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`link` is the header of that name, by which GitHub says where more of a list is."""

    content: bytes
    link: str | None


class Elsewhere(GitHubError):
    """GitHub answered with an address that is not of its API, and that was not asked: what is there is not GitHub's
    word, and no token goes there. `address` is None where asking would be less safe than asking GitHub is."""

    def __init__(self, message: str, address: str | None) -> None:
        super().__init__(message)
        self.address = address


class Connection:
    """An open connection to one GitHub, with the token (or the App's JWT) that each call brings: it remembers none.
    It keeps the pace that is given, and waits for it up to `patience_s`. To be opened in the task that uses it; a
    call outside of that works, but connects anew.

    No request is conditional: an `ETag` is good for the token alone that it was given to, and each block of work has
    one of its own (https://github.com/eclipse-csi/otterdog/issues/201). A task makes some 25 reads, 10 of them of
    what it has read before, where an hour allows for 5,000."""

    def __init__(
        self, api_url: str, pace: Pace, *, sleep: Sleep = asyncio.sleep, patience_s: float = PATIENCE_S
    ) -> None:
        self._origin = _origin(httpx.URL(api_url))
        self._root = httpx.URL(api_url).path.rstrip("/") + "/"
        # Its cache is its own: githubkit's default cache is one for the whole process, whatever the server. Calls go
        # to its client directly: its own way to make them repeats a POST after a 5xx, waits for a rate limit without
        # a bound, and fails where a proxy has written a `Retry-After` that is no number.
        self._github: GitHub[UnauthAuthStrategy] = GitHub(
            UnauthAuthStrategy(),
            base_url=api_url,
            user_agent="coder-bot",
            cache_strategy=MemCacheStrategy(),
            http_cache=False,
            timeout=SILENCE_S,
            ssl_verify=trust(),
            follow_redirects=False,
        )
        self._pace = pace
        self._sleep = sleep
        self._patience_s = patience_s
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
    ) -> Answer:
        """A successful answer. What went wrong is a `GitHubError` that names `about`, after a few tries:
        a rate limit was refused before anything was done, so any call is repeated after it; what GitHub may have done
        already (a POST that got no answer, or a 5xx) is not repeated here. Where the wait is longer than a moment, or
        nothing may be asked now, the error has `retry_after_s`."""
        content, kind = makes_content(method, path), kind_of(method, path)
        for attempt in itertools.count(1):
            await self._pace.turn(about, content=content, patience_s=self._patience_s)
            try:
                answer = await self._once(kind, method, path, about, token=token, json=json, params=params)
            except GitHubError as exc:
                if not exc.retryable or attempt == TRIES:
                    raise
                if exc.retry_after_s is None:
                    if method == "POST" or exc.status == 301:
                        raise
                    await self._sleep(2**attempt / 8)
                elif exc.retry_after_s > self._patience_s:
                    raise
            else:
                self._pace.succeeded(kind)
                return answer
        raise AssertionError("the last try returns or raises")

    async def _once(
        self,
        kind: str,
        method: Method,
        path: str,
        about: str,
        *,
        token: str | None,
        json: Any,
        params: Mapping[str, str | int] | None,
    ) -> Answer:
        headers = _HEADERS if token is None else {**_HEADERS, "Authorization": f"Bearer {token}"}
        try:
            async with asyncio.timeout(CALL_S), self._github.get_async_client() as client:
                answer = await client.request(method, path, params=params, json=json, headers=headers)
                hops = 0
                while (there := answer.next_request) is not None:
                    hops += 1
                    self._must_follow(there, about, is_write=method != "GET", hops=hops)
                    answer = await client.send(there)
        except (httpx.TimeoutException, TimeoutError) as exc:
            raise GitHubError(f"GitHub did not answer in time for {about}.", retryable=True) from exc
        except httpx.RequestError as exc:
            lost = isinstance(exc, httpx.TransportError)
            raise GitHubError(f"GitHub could not be reached for {about}.", retryable=lost) from exc
        if not answer.is_success:
            self.refused_at = moment(answer.headers.get("date"))
            raise self._refusal(kind, answer, about)
        if _is_page(answer):
            raise _page(about)
        return Answer(content=answer.content, link=answer.headers.get("link"))

    def _must_follow(self, there: httpx.Request, about: str, *, is_write: bool, hops: int) -> None:
        """Refuses a redirect to another server, whose answer is not GitHub's word, and that of a write: followed, a
        POST becomes a read, which then looks like a success. Under the new name it may be tried again."""
        if _origin(there.url) != self._origin or not there.url.path.startswith(self._root):
            is_safe = there.url.scheme in ("https", self._origin[0])
            raise Elsewhere(
                f"GitHub redirects {about} to another server, which was not asked. Is GITHUB_API_URL right?",
                str(there.url) if is_safe else None,
            )
        if is_write:
            raise GitHubError(
                f"GitHub redirects {about}; has the repository been renamed?", status=301, retryable=True
            )
        if hops > HOPS:
            raise GitHubError(f"GitHub redirects {about} again and again.")

    def _refusal(self, kind: str, answer: httpx.Response, about: str) -> GitHubError:
        status = answer.status_code
        text = answer.text[:10_000].lower()
        reason = next((ours for theirs, ours in _REASONS if theirs in text), None)
        if _is_limit(answer, text, known=reason is not None):
            wait_s = self._pace.refused(kind, answer.headers)
            return GitHubError(
                f"GitHub's rate limit is reached for {about}; it has to wait {wait_s:.0f} seconds.",
                status=status,
                retryable=True,
                retry_after_s=wait_s,
            )
        if status < 500 and _is_page(answer):
            return _page(about)
        if status not in (403, 409, 422):
            reason = None
        said = f"GitHub answered {status} for {about}" + (f": {reason}." if reason else ".")
        closed = reason if reason in _CLOSED else None
        return GitHubError(said, status=status, retryable=status >= 500, closed=closed)


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
        """The body of what `Connection.call` gives."""
        used = self.token
        try:
            return (await self._connection.call(method, path, about, token=used, json=json, params=params)).content
        except GitHubError as exc:
            if exc.status != 401:
                raise
        async with self._minting:
            if self.token == used:
                self.token = await self._mint()
                self.replaced.append(used)
        answer = await self._connection.call(method, path, about, token=self.token, json=json, params=params)
        return answer.content


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_limit(answer: httpx.Response, text: str, *, known: bool) -> bool:
    """Whether a refusal is for having asked too much. The last call of an hour may be refused for a `known` reason of
    its own, with nothing remaining."""
    if answer.status_code == 429 or (answer.status_code in (403, 422) and any(word in text for word in _LIMITS)):
        return True
    if answer.status_code != 403 or known:
        return False
    return "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"


def _is_page(answer: httpx.Response) -> bool:
    return "html" in answer.headers.get("content-type", "") or answer.content.lstrip()[:1] == b"<"


def _page(about: str) -> GitHubError:
    """A proxy's page, or one that GitHub shows when it is ill, is no answer of the API, whatever its status: not even
    a 404 says that something isn't there."""
    return GitHubError(
        f"GitHub's answer for {about} is a web page, not the JSON that it documents. Is a proxy in the way?",
        retryable=True,
    )
