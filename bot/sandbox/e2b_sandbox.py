"""One sandbox on E2B: commands, files, network and life."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import logging
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from bot.domain.errors import SandboxError
from bot.sandbox import guest
from bot.sandbox.command_words import SURROUNDINGS, below, folder, must_be_exact
from bot.sandbox.e2b_api import SLOW_S, NotThere, Refusal
from bot.sandbox.file_answers import entries, file_error
from bot.sandbox.protocol import OUTPUT_LIMIT, WORKSPACE, Entry, ExecResult
from bot.sandbox.to_the_end import to_the_end

if TYPE_CHECKING:
    from e2b import AsyncSandbox

    from bot.sandbox.e2b import E2BProvider

BASE = "/var/lib/coder-bot"
REQUEST = "CODER_BOT_REQUEST"
PATH = f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{WORKSPACE}/.npm-global/bin"

WAIT_S = 20.0
"""How long one call waits for a command's end."""
CALL_S = 40.0
"""What a call of our program may take beyond that."""
PATIENCE_S = 90.0
"""How long a sandbox that does not answer is asked again about a running command."""
LATE_S = 60.0
"""How long a command may overrun its time before it is ended from here."""
IN_ENVIRONMENT = 64 * 1024
"""Bytes of a request that goes along in the environment; a larger one is uploaded first."""
LIST_LIMIT = 8 * 1024**2
LINE_FOR_LEFT_OUT = 64

_log = logging.getLogger(__name__)
T = TypeVar("T")


class E2BSandbox:
    """One sandbox. A command that runs into its time-out takes with it whatever else runs here at that moment.

    Exit codes are always trustworthy: a process of root's watches over each command, and no command can touch it or
    what it writes down. Hosts that were refused are not told by this service.
    """

    def __init__(self, provider: E2BProvider, raw: AsyncSandbox, *, epoch: int | None) -> None:
        self.raw = raw
        self._provider = provider
        self._api = provider.api
        self._epoch = epoch
        self._disk = 0
        self._env: Mapping[str, str] = {}

    async def install(self, verb: str, wish: Mapping[str, Any], *, first: bool = False) -> Mapping[str, Any]:
        """Runs our program for the first time in this connection, having brought it where it isn't yet."""
        env = {REQUEST: json.dumps(wish)}
        if not first:
            try:
                return await self.ask(verb, env=env)
            except SandboxError as exc:
                if not exc.retryable:
                    raise
        path, text = _program()
        await self.there(lambda: self._api.upload(self.raw, path, text))
        return await self.ask(verb, env=env)

    def begin(self, *, env: Mapping[str, str], disk: int) -> None:
        """What commands get, and how much they may write."""
        self._disk = disk
        self._env = {
            "PATH": PATH,
            **SURROUNDINGS,
            **env,
        }

    @property
    def id(self) -> str:
        return str(self.raw.sandbox_id)

    @property
    def proxy_env(self) -> Mapping[str, str]:
        return {}

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        return ()

    # Commands

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = WORKSPACE,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float,
        trusted_status: bool = False,
    ) -> ExecResult:
        """As the protocol says; the exit code is always of the trusted kind. `limit_exceeded` where the command has
        filled the disk."""
        started = time.monotonic()
        pairs = {**self._env, **(env or {})}
        must_be_exact(argv, pairs)
        wish = {
            "argv": list(argv),
            "env": pairs,
            "cwd": folder(cwd),
            "timeout_s": timeout_s,
            "keep": OUTPUT_LIMIT - LINE_FOR_LEFT_OUT,
            "disk": self._disk,
        }
        job = secrets.token_hex(8)
        try:
            answer = await self._follow(job, wish, stdin, timeout_s)
        except asyncio.CancelledError:
            await to_the_end(self._stop_quietly(job))
            raise
        if answer["left"]:
            await self._restart()
        if answer["full"]:
            raise SandboxError(
                "limit_exceeded", f"A command was ended: the workspace grew by more than {self._disk} bytes."
            )
        stdout, stderr = (base64.b64decode(text) for text in answer["streams"])
        return ExecResult(
            exit_code=int(answer["code"]),
            stdout=stdout,
            stderr=stderr,
            timed_out=bool(answer["timed_out"]),
            truncated=bool(answer["truncated"]),
            duration_s=time.monotonic() - started,
        )

    async def _follow(self, job: str, wish: Mapping[str, Any], stdin: bytes, timeout_s: float) -> Mapping[str, Any]:
        """Begins a job and waits for its end. A call that is cut is made again: a job begins once, whatever comes."""
        prepare = await self._upload_large(job, wish, "stdin", stdin)
        end_by = time.monotonic() + timeout_s + LATE_S
        verb, stopped = "run", False
        while True:
            answer = await self._ask_again(verb, job, WAIT_S, env=prepare if verb == "run" else {})
            match answer.get("state"):
                case "ended":
                    return answer
                case "running" if time.monotonic() < end_by:
                    verb = "wait"
                case "running" if not stopped:
                    verb, stopped = "wait", True
                    await self._stop(job)
                    end_by = time.monotonic() + LATE_S
                case "running":
                    await self._restart()
                case "refused":
                    raise superseded(self.id)
                case _:
                    raise SandboxError(
                        "unknown_outcome", "A command's end is not known: its sandbox was started anew meanwhile."
                    )

    async def _ask_again(self, verb: str, job: str, wait_s: float, *, env: Mapping[str, str]) -> Mapping[str, Any]:
        give_up = time.monotonic() + PATIENCE_S
        pause = 0.2
        while True:
            try:
                return await self.ask(f"{verb} {job} {wait_s:.3f}", env=env, limit_s=wait_s + CALL_S)
            except SandboxError as exc:
                if not exc.retryable:
                    raise
                if time.monotonic() > give_up:
                    raise SandboxError(
                        "unknown_outcome", "A command's end is not known: its sandbox stopped answering."
                    ) from exc
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads calls, keeps no secret
            pause = min(pause * 2, 5.0)

    async def _stop(self, job: str) -> None:
        answer = await self._ask_again("stop", job, 0.0, env={})
        if answer.get("left"):
            await self._restart()

    async def _stop_quietly(self, job: str) -> None:
        try:
            await self._stop(job)
        except SandboxError as exc:
            # The cancellation is what the caller has to hear; a sandbox that is gone runs nothing.
            _log.warning("sandbox %s: a cancelled command may still run (%s)", self.id, exc.reason)

    async def _restart(self) -> None:
        """The last resort, which no process survives."""
        _log.warning("sandbox %s: commands survived being ended; it starts anew", self.id)
        async with self._provider.lock(self.id):
            info = await self._provider.find(self.id)
            left = max(1, int((info.end_at - datetime.now(UTC)).total_seconds()))
            await self._provider.pause_raw(self.id)
            await self._provider.resume_raw(self.id, left)

    async def _upload_large(self, job: str, wish: Mapping[str, Any], name: str, data: bytes) -> dict[str, str]:
        """The environment that carries the request; what is too large for it is in the sandbox when this returns."""
        uploaded = len(data) > IN_ENVIRONMENT // 2
        if uploaded:
            await self.there(lambda: self._api.upload(self.raw, f"{BASE}/in/{job}.{name}", data))
        text = json.dumps(
            {
                **wish,
                "epoch": self._epoch,
                name: "" if uploaded else base64.b64encode(data).decode(),
                f"{name}_file": uploaded,
            }
        )
        if len(text) <= IN_ENVIRONMENT:
            return {REQUEST: text}
        await self.there(lambda: self._api.upload(self.raw, f"{BASE}/in/{job}.json", text.encode()))
        return {}

    async def ask(self, words: str, *, env: Mapping[str, str], limit_s: float = CALL_S) -> Mapping[str, Any]:
        """What our program answers."""
        program, _ = _program()
        # bash reads profiles of the home folder it is told: one that no command can write.
        ours = {"HOME": BASE, "BASH_ENV": "", **env}
        answer: Mapping[str, Any] = await self.there(
            lambda: self._api.guest(self.raw, f"exec python3 -IS {program} {words}", env=ours, limit_s=limit_s)
        )
        return answer

    async def there(self, act: Callable[[], Awaitable[T]]) -> T:
        """With what "not there" means: gone, or paused. Right after resuming, the way there may not be open yet."""
        for pause in (0.3, 1.0, 2.0):
            try:
                return await act()
            except NotThere:
                await self._provider.must_run(self.id)
                await asyncio.sleep(pause)
            except Refusal as exc:
                raise SandboxError("unknown_outcome", f"E2B refuses a call for sandbox {self.id}.") from exc
        raise SandboxError("unreachable", f"Sandbox {self.id} runs, but can't be reached.", retryable=True)

    # Files

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await self._file("read", path, max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._file("write", path, mode, content=content)

    async def list(self, path: str) -> list[Entry]:
        return entries(await self._file("list", path))

    async def remove(self, path: str) -> None:
        await self._file("remove", path)

    async def _file(self, verb: str, path: str, number: int = 0, *, content: bytes = b"") -> bytes:
        name = base64.b64encode(os.fsencode(below(path))).decode()
        job = secrets.token_hex(8)
        wish = {"verb": verb, "path": name, "number": number}
        try:
            env = await self._upload_large(job, wish, "content", content)
            answer = await self.ask(f"file {job}", env=env, limit_s=SLOW_S)
        except SandboxError as exc:
            if exc.retryable and verb in ("write", "remove"):
                raise SandboxError(
                    "unknown_outcome", f"The sandbox did not say what became of {verb} {path!r}."
                ) from exc
            raise
        if answer.get("state") == "refused":
            raise superseded(self.id)
        code = int(answer.get("code", -1))
        if code:
            raise file_error(code, verb, path, number)
        if "out" in answer:
            return base64.b64decode(answer["out"])
        most = number if verb == "read" else LIST_LIMIT
        if int(answer["size"]) > most:
            raise SandboxError("limit_exceeded", f"{path!r} is larger than {most} bytes.")
        try:
            return await self.there(lambda: self._api.download(self.raw, f"{BASE}/out/{job}"))
        except FileNotFoundError as exc:
            raise SandboxError("unknown_outcome", f"What was read of {path!r} is gone.") from exc

    # Network and life

    async def allow(self, hosts: frozenset[str]) -> None:
        """As the protocol says, without a proxy: connections of all programs are matched by name on ports 80 and 443.
        A `host:port` with another port can only be an IPv4 address, and opens all its ports: `invalid_config` for
        others. Names are looked up only where a wildcard needs it."""
        network = self._provider.rules(hosts)
        names = json.dumps({"epoch": self._epoch, "names": network.names})
        answer = await self.ask("names", env={REQUEST: names})
        if answer.get("state") == "refused":
            raise superseded(self.id)
        await self.there(lambda: self._provider.set_network(self.raw, network))

    async def extend(self, lifetime_s: int) -> None:
        """As the protocol says, but never beyond the plan's ceiling for one run, counted from creating or resuming:
        what is left of that is granted, and `limit_exceeded` raised when nothing is."""
        self._provider.check_lifetime(lifetime_s)
        async with self._provider.lock(self.id):
            await self._provider.extend(self.id, lifetime_s)

    async def pause(self) -> None:
        async with self._provider.lock(self.id):
            await self._provider.must_run(self.id)
            answer = await self.ask("settle", env={REQUEST: json.dumps({"epoch": self._epoch})})
            if answer.get("state") == "refused":
                raise superseded(self.id)
            await self._provider.pause_raw(self.id)

    async def aclose(self) -> None:
        """Holds nothing: each call is a connection of its own."""


@functools.cache
def _program() -> tuple[str, bytes]:
    """Our program, and where it lies: under a name of its own for each version of it."""
    text = guest.source("job", "files", "usage", "output", "root", "watch").encode()
    return f"{BASE}/job-{hashlib.sha256(text).hexdigest()[:16]}.py", text


def superseded(sandbox_id: str) -> SandboxError:
    return SandboxError(
        "permission_denied", f"Sandbox {sandbox_id} belongs to a later run of its task: this one must stop."
    )
