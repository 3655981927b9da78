"""Processes as envd keeps them: no group of their own, output for who listens now, the exit for who asks later."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import IO, Any

from .errors import Refused
from .users import User

PIECE = 32 * 1024
BACKLOG = 16
FORK_PATIENCE_S = 20.0

Event = dict[str, Any]


class Process:
    """One process. Whoever listens gets events from then on; one who is slow slows the process."""

    def __init__(self, popen: subprocess.Popen[bytes], config: Mapping[str, Any], tag: str | None) -> None:
        self.pid = popen.pid
        self.config = config
        self.tag = tag
        self.end: Event | None = None
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.stdin: asyncio.StreamWriter | None = None
        self._popen = popen
        self._listeners: set[asyncio.Queue[Event]] = set()
        self._cut = asyncio.Event()

    def listen(self) -> asyncio.Queue[Event]:
        queue: asyncio.Queue[Event] = asyncio.Queue(BACKLOG)
        if self.end:
            queue.put_nowait(self.end)
        self._listeners.add(queue)
        return queue

    def leave(self, queue: asyncio.Queue[Event]) -> None:
        self._listeners.discard(queue)
        while not queue.empty():
            queue.get_nowait()

    def signal(self, number: int) -> None:
        """To this pid alone. KILL and TERM also end the reading of its output, which a child of it may hold open."""
        if not self.exited.done():
            os.kill(self.pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._cut.set()

    async def feed(self, data: bytes) -> None:
        if self.stdin is None or self.stdin.is_closing():
            raise Refused("internal", "error writing to stdin: stdin not enabled or closed")
        try:
            self.stdin.write(data)
            await self.stdin.drain()
        except OSError as exc:
            raise Refused("internal", f"error writing to stdin: {exc.strerror}") from exc

    async def run(self, timeout_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        if self._popen.stdin:
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._popen.stdin)
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        timer = None if timeout_s is None else loop.call_later(timeout_s, self.signal, signal.SIGKILL)
        assert self._popen.stdout
        assert self._popen.stderr
        output = asyncio.gather(self._pump("stdout", self._popen.stdout), self._pump("stderr", self._popen.stderr))
        cut = asyncio.ensure_future(self._cut.wait())
        pending: set[asyncio.Future[Any]] = {output, cut}
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        status = await self.exited
        for future in pending:
            future.cancel()
        await asyncio.wait(pending)
        if timer:
            timer.cancel()
        if self.stdin:
            self.stdin.close()
        self.end = {"event": {"end": _outcome(status)}}
        await self._tell(self.end)

    async def _pump(self, name: str, pipe: IO[bytes]) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(PIECE)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            while piece := await reader.read(PIECE):
                await self._tell({"event": {"data": {name: base64.b64encode(piece).decode()}}})
        finally:
            transport.close()

    async def _tell(self, event: Event) -> None:
        for queue in list(self._listeners):
            await queue.put(event)


def _outcome(status: int) -> Event:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        text = f"signal: {'killed' if code == -9 else signal.strsignal(-code) or -code}".lower()
        return {"exitCode": -1, "exited": False, "status": text, "error": text}
    outcome: Event = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
    return outcome | ({"error": f"exit status {code}"} if code else {})


class Processes:
    """All processes that envd started, and how those that ended came out."""

    def __init__(self, envs: Mapping[str, str]) -> None:
        self._envs = envs
        self._running: dict[int, Process] = {}
        self._ended: dict[int, Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def _reap(self) -> None:
        # Also what lost its parent: this is the container's first process.
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                process = self._running.get(found[0])
                if process:
                    process.exited.set_result(found[1])

    async def start(self, body: Mapping[str, Any], user: User, timeout_s: float | None) -> Process:
        config = body.get("process") or {}
        cwd = user.resolve(config.get("cwd", ""))
        if not os.path.isdir(cwd):
            raise Refused("invalid_argument", f"cwd '{cwd}' does not exist")
        own = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        envs = {**os.environ, **own, **self._envs, **(config.get("envs") or {})}
        with_stdin = body.get("stdin", True)
        popen = await self._spawn([config.get("cmd", ""), *(config.get("args") or [])], cwd, envs, with_stdin, user)
        process = Process(popen, config, body.get("tag"))
        self._running[popen.pid] = process
        self._ended.pop(popen.pid, None)
        task = asyncio.create_task(self._follow(process, timeout_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return process

    async def _spawn(
        self, argv: list[str], cwd: str, envs: Mapping[str, str], with_stdin: bool, user: User
    ) -> subprocess.Popen[bytes]:
        until = asyncio.get_running_loop().time() + FORK_PATIENCE_S
        while True:
            try:
                popen = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=envs,
                    bufsize=0,
                    stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    user=user.uid,
                    group=user.gid,
                    extra_groups=os.getgrouplist(user.name, user.gid),
                )
            except BlockingIOError:
                # A fork bomb has all the processes there may be; in a machine of its own root still gets one.
                if asyncio.get_running_loop().time() > until:
                    raise Refused("resource_exhausted", "error starting process: no process is left") from None
                await asyncio.sleep(0.01)
                continue
            except OSError as exc:
                raise Refused("invalid_argument", f"error starting process: {exc.strerror}") from exc
            popen.returncode = 0  # reaped here, and not by the object
            with contextlib.suppress(OSError), open(f"/proc/{popen.pid}/oom_score_adj", "w") as file:
                file.write("500")
            return popen

    async def _follow(self, process: Process, timeout_s: float | None) -> None:
        await process.run(timeout_s)
        assert process.end
        self._running.pop(process.pid, None)
        self._ended[process.pid] = process.end

    def find(self, selector: Mapping[str, Any]) -> Process:
        pid, tag = selector.get("pid"), selector.get("tag")
        for process in self._running.values():
            if process.pid == pid if pid is not None else process.tag == tag:
                return process
        raise Refused("not_found", f"process with pid {pid} not found")

    def outcome(self, selector: Mapping[str, Any]) -> tuple[int, Event] | None:
        """Pid and end of one that is over."""
        pid = selector.get("pid", 0)
        end = self._ended.get(pid)
        return (pid, end) if end and pid not in self._running else None

    async def list(self, _: Mapping[str, Any]) -> Event:
        return {
            "processes": [
                {"pid": process.pid, "config": process.config} | ({"tag": process.tag} if process.tag else {})
                for process in self._running.values()
            ]
        }

    async def send_signal(self, body: Mapping[str, Any]) -> Event:
        process = self.find(body.get("process") or {})
        number = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}.get(body.get("signal", ""))
        if number is None:
            raise Refused("unimplemented", "invalid signal")
        process.signal(number)
        return {}

    async def send_input(self, body: Mapping[str, Any]) -> Event:
        data = base64.b64decode((body.get("input") or {}).get("stdin", ""))
        await self.find(body.get("process") or {}).feed(data)
        return {}

    async def close_stdin(self, body: Mapping[str, Any]) -> Event:
        process = self.find(body.get("process") or {})
        if process.stdin is None:
            raise Refused("internal", "error closing stdin: stdin not enabled or closed")
        process.stdin.close()
        return {}
