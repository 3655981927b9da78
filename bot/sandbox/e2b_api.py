"""Calls of E2B's SDK: each with a deadline of ours, and with every way it can fail turned into one of our errors."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from bot.domain.errors import SandboxError

if TYPE_CHECKING:
    import e2b
    from e2b import AsyncSandbox, SandboxInfo, SnapshotInfo

API_URL = "https://api.e2b.app"
SANDBOX_URL = "https://sandbox.e2b.app"
CALL_S = 60.0
SLOW_S = 300.0
"""For what copies a disk: to make, resume, pause and snapshot a sandbox, and to move large files."""
GRACE_S = 10.0
"""Between the SDK's own limit on a call and ours around it."""
ANSWER_LIMIT = 4 * 1024**2

T = TypeVar("T")


class NotThere(Exception):
    """The service says that it knows no such sandbox, or that it does not run: which of both, `info` can tell."""


class E2BApi:
    """One account of the service. Nothing is read from the environment: the SDK is told every option it looks up."""

    def __init__(self, *, api_key: str, api_url: str | None, sandbox_url: str | None) -> None:
        self._options: dict[str, Any] = {
            "api_key": api_key,
            "api_url": api_url or API_URL,
            "sandbox_url": sandbox_url or SANDBOX_URL,
            "domain": "e2b.app",
            "debug": False,
            "http_version": "2",
            "retries": 2,
        }

    @functools.cached_property
    def sdk(self) -> e2b.E2B:
        client: e2b.E2B = self.module.E2B(**self._options)
        return client

    @functools.cached_property
    def module(self) -> Any:
        # Not at the top: only whoever uses E2B needs its package, and importing it reads the environment.
        try:
            import e2b
        except ImportError as exc:
            raise SandboxError(
                "invalid_config", "Sandboxes on E2B need one more package: pip install 'coder-bot[e2b]'"
            ) from exc
        return e2b

    async def call(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        *,
        limit_s: float = CALL_S,
        changes: bool = False,
    ) -> T:
        """What the call returns. Raises NotThere, or SandboxError; with `changes`, a call that may have happened or
        not is `unknown_outcome`, else it is `unreachable`."""
        try:
            return await within(limit_s + GRACE_S, make())
        except SandboxError:
            raise
        except Exception as exc:  # the SDK raises bare ones, its parsers' and its transports'
            raise self._ours(exc, changes=changes) from exc

    def _ours(self, exc: Exception, *, changes: bool) -> Exception:
        e2b = self.module
        match exc:
            case e2b.SandboxNotFoundException() | e2b.SandboxNotRunningException():
                return NotThere()
            case e2b.AuthenticationException():
                return SandboxError(
                    "authentication", "E2B does not take this key: set E2B_API_KEY to one of the account's."
                )
            case e2b.RateLimitException():
                return SandboxError(
                    "rate_limited",
                    "E2B takes no more calls or sandboxes of this account at the moment.",
                    retryable=True,
                )
            case e2b.ServiceBusyException() if not changes:
                return SandboxError("unreachable", "E2B has no room or is busy at the moment.", retryable=True)
            case e2b.NotEnoughSpaceException():
                return SandboxError("limit_exceeded", "The sandbox's disk is full.")
            case e2b.FileNotFoundException():
                return FileNotFoundError()
            case e2b.InvalidArgumentException():
                return SandboxError("invalid_config", "E2B refuses a call as one that it can't understand.")
            case e2b.SandboxException() if exc.status_code == 403:
                return SandboxError("permission_denied", "E2B does not let this account do that.")
            case e2b.SandboxException() if exc.status_code is not None and 400 <= exc.status_code < 500:
                return Refusal(exc.status_code)
            case httpx.ConnectError() | httpx.ConnectTimeout() | ConnectionRefusedError():
                return _unreachable()
            case _ if changes:
                return SandboxError(
                    "unknown_outcome", "E2B took a call and gave no usable answer; it may have happened or not."
                )
            case _:
                return _unreachable()

    # Sandboxes

    async def info(self, sandbox_id: str) -> SandboxInfo:
        return await self.call(lambda: self.sdk.AsyncSandbox.get_info(sandbox_id, request_timeout=CALL_S))

    async def list(self, metadata: Mapping[str, str]) -> Sequence[SandboxInfo]:
        """Running and paused ones that have all of it, from every page."""
        states = [self.module.SandboxState.RUNNING, self.module.SandboxState.PAUSED]
        query = self.module.SandboxQuery(metadata=dict(metadata), state=states)

        async def pages() -> list[SandboxInfo]:
            paginator = self.sdk.AsyncSandbox.list(query=query, limit=100, request_timeout=CALL_S)
            found: list[SandboxInfo] = []
            while paginator.has_next:
                found += await paginator.next_items()
            return found

        return await self.call(pages, limit_s=SLOW_S)

    async def snapshots(self) -> Sequence[SnapshotInfo]:
        """The account's, from every page."""

        async def pages() -> list[SnapshotInfo]:
            paginator = self.sdk.AsyncSandbox.list_snapshots(limit=100, request_timeout=CALL_S)
            found: list[SnapshotInfo] = []
            while paginator.has_next:
                found += await paginator.next_items()
            return found

        return await self.call(pages, limit_s=SLOW_S)

    async def guest(self, raw: AsyncSandbox, command: str, *, env: Mapping[str, str], limit_s: float) -> Any:
        """What our program in the sandbox, run as root, answers: its one line of JSON. A cut is `unreachable`
        although the program may have run: it is made to be asked again."""
        pieces: list[str] = []
        size = 0

        def take(text: str) -> None:
            nonlocal size
            size += len(text)
            if size > ANSWER_LIMIT:
                raise ValueError("more than any answer of our program")
            pieces.append(text)

        async def run() -> int:
            try:
                done = await raw.commands.run(
                    command,
                    user="root",
                    cwd="/",
                    envs=dict(env),
                    on_stdout=take,
                    stdin=False,
                    timeout=limit_s,
                    request_timeout=min(limit_s, CALL_S),
                    retain_output=False,
                )
            except self.module.CommandExitException as exc:
                return int(exc.exit_code)
            return done.exit_code

        code = await self.call(run, limit_s=limit_s)
        if code in (126, 127):
            raise SandboxError(
                "invalid_config", "The template has no python3 on its PATH: make one with `scripts/e2b-template`."
            )
        try:
            answer = json.loads("".join(pieces))
        except (ValueError, RecursionError) as exc:
            raise SandboxError(
                "unreachable", "The sandbox's own program gave no usable answer.", retryable=True
            ) from exc
        if not isinstance(answer, dict):
            raise SandboxError("unreachable", "The sandbox's own program gave no usable answer.", retryable=True)
        return answer

    async def upload(self, raw: AsyncSandbox, path: str, content: bytes) -> None:
        await self.call(lambda: raw.files.write(path, content, user="root", request_timeout=SLOW_S), limit_s=SLOW_S)

    async def download(self, raw: AsyncSandbox, path: str) -> bytes:
        """FileNotFoundError where there is none."""
        return bytes(
            await self.call(
                lambda: raw.files.read(path, format="bytes", user="root", request_timeout=SLOW_S), limit_s=SLOW_S
            )
        )


class Refusal(Exception):
    """A status between 400 and 499 that no other error says more of."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


async def within(limit_s: float, work: Coroutine[Any, Any, T]) -> T:
    """TimeoutError after that long. A task of its own: the SDK turns cancellations into errors of other kinds."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=limit_s)
        if task.done():
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE_S)
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that nobody is told that nobody did


def _unreachable() -> SandboxError:
    return SandboxError(
        "unreachable",
        "E2B does not answer, or not in time. Its status page, status.e2b.dev, may say why.",
        retryable=True,
    )
