"""A running container as a sandbox: quick by the helper that lives in it, honest by the engine where that matters."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.domain.errors import SandboxError
from bot.sandbox import guest
from bot.sandbox.command_words import SURROUNDINGS, below, folder, must_be_exact
from bot.sandbox.docker_api import DockerApi, EngineRefusal
from bot.sandbox.docker_container import Container
from bot.sandbox.docker_folder import Folder, superseded
from bot.sandbox.docker_link import Asked, Link, LinkBroken, Reply
from bot.sandbox.egress import EgressProxy
from bot.sandbox.file_answers import entries, file_error
from bot.sandbox.guest import agent
from bot.sandbox.guest.output import Output
from bot.sandbox.protocol import OUTPUT_LIMIT, WORKSPACE, Entry, ExecResult
from bot.sandbox.to_the_end import to_the_end

EGRESS = "/run/egress"
PROXY_PORT = 3128
LIST_LIMIT = 8 * 1024**2
FILE_TIMEOUT_S = 60.0
GRACE_S = 10.0
"""How much longer than a command's own time-out the helper may take to end it before the engine is asked to."""
ATTEMPTS = 3
NO_PYTHON = 127
LINE_FOR_LEFT_OUT = 64
"""Bytes of the kept output that the line in its middle may take."""
_KEEP = OUTPUT_LIMIT - LINE_FOR_LEFT_OUT
_KILLED = 128 + signal.SIGKILL

Reason = Literal["time", "disk", "helper"]
"""Why everything that ran was ended."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What a command came to, before it is told."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    truncated: bool = False


class DockerSandbox:
    """One container. Commands run side by side; where the helper can't end one, all of them are ended with it."""

    def __init__(
        self,
        api: DockerApi,
        sandbox_id: str,
        folder: Folder,
        *,
        python: str,
        env: Mapping[str, str],
        disk: int,
        epoch: int,
        private_hosts: frozenset[str],
        credentials: Mapping[str, str],
        on_close: Callable[[DockerSandbox], None],
    ) -> None:
        self._api = api
        self._id = sandbox_id
        self._folder = folder
        self._container = Container(api, sandbox_id, python)
        self._disk = disk
        self._epoch = epoch
        self._on_close = on_close
        self._proxy = EgressProxy(
            folder.socket, sandbox=sandbox_id, private_hosts=private_hosts, credentials=credentials
        )
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self._sweeping = asyncio.Lock()
        self._sweeps: list[Reason] = []
        self._env = {
            **SURROUNDINGS,
            **env,
        }

    @property
    def id(self) -> str:
        return self._id

    @property
    def proxy_env(self) -> Mapping[str, str]:
        address = f"http://127.0.0.1:{PROXY_PORT}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return {**dict.fromkeys(names, address), "no_proxy": "", "NO_PROXY": ""}

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        return self._proxy.refused

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
        started = time.monotonic()
        pairs = {**self._env, **(env or {})}
        must_be_exact(argv, pairs)
        place = folder(cwd)
        sweeps = len(self._sweeps)
        by = self._by_engine if trusted_status else self._by_helper
        with self._proxy.during(" ".join(argv)):
            run = await by(argv, place, pairs, stdin, timeout_s)
        timed_out, stderr = run.timed_out, run.stderr
        if run.exit_code == _KILLED and not timed_out:
            for reason in self._sweeps[sweeps:]:  # ended along with another one
                timed_out = timed_out or reason == "time"
                stderr += self._said(reason)
        return ExecResult(
            exit_code=run.exit_code,
            stdout=run.stdout,
            stderr=stderr,
            timed_out=timed_out,
            truncated=run.truncated,
            duration_s=time.monotonic() - started,
        )

    async def _by_engine(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes, timeout_s: float
    ) -> _Run:
        await self._linked()  # it watches the disk
        self._must_hold()
        stdout, stderr = (Output(head=_KEEP // 2, tail=_KEEP // 2) for _ in range(2))
        code, timed_out = await self._container.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_s=timeout_s,
            stdout=stdout,
            stderr=stderr,
            on_end=lambda: self._sweeps.append("time"),
        )
        if code == _KILLED and not timed_out:
            await self._container.must_live()  # else it ended with its container, which says nothing of the command
        return _Run(
            exit_code=code,
            stdout=stdout.bytes(),
            stderr=stderr.bytes(),
            timed_out=timed_out,
            truncated=bool(stdout.left_out or stderr.left_out),
        )

    async def _by_helper(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes, timeout_s: float
    ) -> _Run:
        request = {
            "verb": "exec",
            "argv": list(argv),
            "env": dict(env),
            "cwd": cwd,
            "timeout_s": timeout_s,
            "keep": _KEEP,
        }
        for attempt in range(ATTEMPTS):
            link = await self._linked()
            sweeps = len(self._sweeps)
            asked = link.begin(most=2 * OUTPUT_LIMIT)
            try:
                async with asyncio.timeout(timeout_s + GRACE_S):
                    await link.send(asked, request, stdin)
                    reply = await asyncio.shield(asked.answer)
            except TimeoutError:
                await to_the_end(self._end_all("time", sweeps))
                return _Run(exit_code=_KILLED, timed_out=True)
            except asyncio.CancelledError:
                await to_the_end(self._cancel(link, asked, sweeps))
                raise
            except LinkBroken:
                await self._container.must_live()
                ended = len(self._sweeps) > sweeps or await self._container.was_killed(link.exec_id)
                if attempt or asked.taken:
                    await to_the_end(self._end_all("helper", sweeps))
                    await self._container.must_run()  # it may have been ended just then
                if not asked.taken:
                    continue  # an earlier command ended the helper; this one was not begun
                if not ended:
                    raise SandboxError(
                        "unknown_outcome",
                        f"The connection to sandbox {self._id} broke while a command ran there; it was ended.",
                        retryable=True,
                    ) from None
                return _Run(exit_code=_KILLED)
            finally:
                link.forget(asked)
            return await self._told(reply, argv[0], cwd, sweeps)
        raise self._deaf()

    async def _told(self, reply: Reply, program: str, cwd: str, sweeps: int) -> _Run:
        out, err = reply.streams
        truncated = max(reply.sizes) > _KEEP
        match reply.became:
            case agent.DONE:
                return _Run(exit_code=reply.code & 255, stdout=out, stderr=err, truncated=truncated)
            case agent.TIMED_OUT:
                return _Run(exit_code=_KILLED, stdout=out, stderr=err, truncated=truncated, timed_out=True)
            case agent.NO_START:
                absent = reply.code == errno.ENOENT
                why = "no such program" if absent else "can not be started"
                return _Run(exit_code=127 if absent else 126, stderr=f"{program}: {why}\n".encode())
            case agent.NO_FOLDER:
                return _Run(exit_code=126, stderr=f"there is no folder {cwd}\n".encode())
            case agent.NO_PROCESS:
                return _Run(exit_code=126, stderr=b"the sandbox has no room for another process\n")
            case agent.STALE:
                raise superseded()
            case _:
                # Over time and not to be ended, or the process that watched over it was.
                await to_the_end(self._end_all("time" if reply.code else "helper", sweeps))
                return _Run(exit_code=_KILLED, stdout=out, stderr=err, truncated=truncated)

    async def _cancel(self, link: Link, asked: Asked, sweeps: int) -> None:
        try:
            async with asyncio.timeout(GRACE_S):
                await link.send(asked, {"verb": "end"}, b"")
                if (await asyncio.shield(asked.answer)).became != agent.SURVIVED:
                    return
        except (LinkBroken, TimeoutError):
            pass
        await self._end_all("time", sweeps)

    async def _end_all(self, reason: Reason, sweeps: int) -> None:
        """Ends every command and the helper, unless that was done since there were so many sweeps."""
        async with self._sweeping:
            if len(self._sweeps) > sweeps:
                return
            self._sweeps.append(reason)
            await self._container.end_all()

    async def _on_full(self) -> None:
        await self._end_all("disk", len(self._sweeps))

    def _said(self, reason: Reason) -> bytes:
        match reason:
            case "time":
                return b""
            case "disk":
                return f"coder-bot: the sandbox holds more than {self._disk} bytes; all it ran was ended\n".encode()
            case "helper":
                return b"coder-bot: a command ended the sandbox's helper; all that ran was ended\n"

    def _must_hold(self) -> None:
        if self._folder.epoch() > self._epoch:
            raise superseded()

    # The helper

    async def start(self) -> int:
        """Starts the helper; what it says of the sandbox (`agent.READY`, …), NO_PYTHON where there is none."""
        self._link, said = await self._new_link()
        return said

    async def _linked(self) -> Link:
        async with self._linking:
            if self._link is not None and self._link.is_open:
                return self._link
            self._must_hold()
            for _ in range(ATTEMPTS):
                if self._link is not None:
                    await self._link.aclose()
                self._link, said = await self._new_link()
                if said == agent.READY:
                    return self._link
                await self._container.must_run()
                await to_the_end(self._end_all("helper", len(self._sweeps)))
            raise self._deaf()

    def _deaf(self) -> SandboxError:
        return SandboxError("unknown_outcome", f"What runs in sandbox {self._id} keeps it from taking commands.")

    async def _new_link(self) -> tuple[Link, int]:
        program = guest.source("agent", "output", "files", "usage", "disk")
        arguments = [WORKSPACE, str(PROXY_PORT), f"{EGRESS}/epoch", str(self._epoch), str(self._disk)]
        try:
            exec_id = await self._container.prepare(
                [self._container.python, "-IS", "-c", program, *arguments], cwd="/", env={}, stdin=True
            )
            link = Link(self._api, exec_id, on_full=self._on_full)
            said = await link.open()
            if said == agent.DEAF and await self._container.never_started(exec_id):
                await self._container.must_run()  # in one that is ending, nothing starts
                said = NO_PYTHON
            return link, said
        except EngineRefusal as exc:
            raise self._container.lost(exc) from exc

    # Files

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await self._file("read", path, max_bytes, most=max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._file("write", path, mode, content=content)

    async def list(self, path: str) -> list[Entry]:
        listed = await self._file("list", path, most=LIST_LIMIT)
        try:
            return entries(listed)
        except ValueError as exc:
            raise SandboxError("unknown_outcome", f"The sandbox's list of {path!r} is none.") from exc

    async def remove(self, path: str) -> None:
        await self._file("remove", path)

    async def _file(self, verb: str, path: str, number: int = 0, *, content: bytes = b"", most: int = 0) -> bytes:
        name = os.fsencode(below(path))
        request = {"verb": verb, "number": number, "path_size": len(name)}
        for _ in range(ATTEMPTS):
            # Each of these may be done twice: nobody else is meant to have changed the file in between.
            sweeps = len(self._sweeps)
            try:
                reply = await self._ask(request, name + content, most)
                break
            except LinkBroken:
                await self._container.must_live()
                await to_the_end(self._end_all("helper", sweeps))
        else:
            raise self._deaf()
        if reply.became == agent.STALE:
            raise superseded()
        if reply.code:
            raise file_error(reply.code, verb, path, number)
        return reply.streams[0]

    async def _ask(self, request: Mapping[str, object], content: bytes, most: int) -> Reply:
        link = await self._linked()
        asked = link.begin(most=most)
        try:
            async with asyncio.timeout(FILE_TIMEOUT_S):
                await link.send(asked, request, content)
                return await asyncio.shield(asked.answer)
        except TimeoutError as exc:
            raise LinkBroken from exc  # a command can stop the helper
        finally:
            link.forget(asked)

    # Life

    async def allow(self, hosts: frozenset[str]) -> None:
        self._must_hold()
        await self._proxy.allow(hosts)

    async def extend(self, lifetime_s: int) -> None:
        self._must_hold()
        await self._container.must_run()
        self._folder.set_deadline(lifetime_s)

    async def pause(self) -> None:
        self._must_hold()
        await self.aclose()
        await self._container.stop()

    async def aclose(self) -> None:
        self._on_close(self)
        if self._link is not None:
            await self._link.aclose()
        await self._proxy.aclose()
