"""One container seen through its engine: commands with the engine's own exit status, and the end of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from bot.domain.errors import SandboxError
from bot.sandbox import guest
from bot.sandbox.docker_api import DockerApi, EngineRefusal, ExecStream
from bot.sandbox.guest.main import NO_ROOM
from bot.sandbox.guest.output import Output
from bot.sandbox.to_the_end import to_the_end

COMMANDS = "1000:1000"
CALL_TIMEOUT_S = 60.0
SWEEP_TIMEOUT_S = 10.0

# As runc and crun say it, in small letters.
_NOT_FOUND = (b"executable file not found", b"no such file or directory")
_NO_FOLDER = (b"chdir to cwd", b"chdir `")

T = TypeVar("T")


class Container:
    """A container that runs, or ran. Raises SandboxError only."""

    def __init__(self, api: DockerApi, sandbox_id: str, python: str) -> None:
        self._api = api
        self.id = sandbox_id
        self.python = python

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_s: float,
        stdout: Output,
        stderr: Output,
        on_end: Callable[[], None],
    ) -> tuple[int, bool]:
        """The engine's exit code, and whether the time was over first. Then, as after a cancellation, every process
        of the commands' user is ended, which `on_end` tells beforehand."""
        try:
            exec_id = await self.prepare(argv, cwd=cwd, env=env, stdin=bool(stdin))
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._start(exec_id, argv[0], cwd, stdin, stdout, stderr), False
            except TimeoutError:
                on_end()
                await to_the_end(self.end_all(exec_id))
                return 128 + signal.SIGKILL, True
            except asyncio.CancelledError:
                on_end()
                await to_the_end(self.end_all(exec_id))
                raise
        except EngineRefusal as exc:
            raise self.lost(exc) from exc

    async def prepare(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bool) -> str:
        """The id of an exec that is yet to be started. Raises EngineRefusal."""
        body = {
            "Cmd": list(argv),
            "User": COMMANDS,
            "WorkingDir": cwd,
            "Env": [f"{key}={value}" for key, value in env.items()],
            "AttachStdin": stdin,
            "AttachStdout": True,
            "AttachStderr": True,
        }
        return str((await self._api.call("POST", f"/containers/{self.id}/exec", body=body))["Id"])

    async def _start(self, exec_id: str, program: str, cwd: str, stdin: bytes, stdout: Output, stderr: Output) -> int:
        try:
            async with self._api.exec_stream(exec_id) as stream:
                end = await self._follow(exec_id, stream, stdin, stdout, stderr)
        except EngineRefusal as exc:
            # Some engines say by a status what others write into the stream.
            end = await self._api.call("GET", f"/exec/{exec_id}/json")
            if not _could_not_start(end):
                raise
            stdout.add(exc.text.encode())
        if not _could_not_start(end):
            return int(end["ExitCode"])
        said = stdout.bytes().lower()
        stdout.clear()
        if any(text in said for text in _NO_FOLDER):
            stderr.add(f"there is no folder {cwd}\n".encode())
            return 126
        absent = any(text in said for text in _NOT_FOUND)
        stderr.add(f"{program}: {'no such program' if absent else 'can not be started'}\n".encode())
        return 127 if absent else 126

    async def never_started(self, exec_id: str) -> bool:
        """Whether there was no such program."""
        return _could_not_start(await self._api.call("GET", f"/exec/{exec_id}/json"))

    async def was_killed(self, exec_id: str) -> bool:
        """Whether a started exec ended by a signal; not so where it runs on or nobody knows it."""
        for _ in range(40):
            try:
                end = await self._api.call("GET", f"/exec/{exec_id}/json")
            except EngineRefusal:
                return False
            if not end["Running"]:
                return bool(end["ExitCode"] == 128 + signal.SIGKILL)
            await asyncio.sleep(0.05)
        return False

    async def _follow(
        self, exec_id: str, stream: ExecStream, stdin: bytes, stdout: Output, stderr: Output
    ) -> dict[str, Any]:
        """Takes the output until the command itself has ended, whoever else still holds its pipes; how it ended."""
        taking = asyncio.create_task(stream.drain(stdout, stderr))
        feeding = asyncio.create_task(stream.feed(stdin)) if stdin else None
        pause = 0.02
        try:
            while True:
                # The end of the output nearly always is the end of the command; else it is asked for now and then.
                if taking.done():
                    await asyncio.sleep(pause)
                else:
                    await asyncio.wait({taking}, timeout=max(pause, 0.1))
                end: dict[str, Any] = await self._api.call("GET", f"/exec/{exec_id}/json")
                # Before it begins, it is not running either, but has no exit code.
                if not end["Running"] and end["ExitCode"] is not None:
                    break
                pause = min(pause * 1.5, 0.5)
            # What the command wrote is on its way; what its children will write is not waited for.
            for _ in range(10):
                size = stdout.size + stderr.size
                await asyncio.wait({taking}, timeout=0.1)
                if taking.done() or stdout.size + stderr.size == size:
                    break
            return end
        finally:
            tasks = [task for task in (taking, feeding) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CALL_TIMEOUT_S)

    async def end_all(self, exec_id: str | None = None) -> None:
        """Ends every process of the commands' user. The engine's own list of processes says whether that was done;
        where a command defends itself, the container is started anew, which nothing survives but the workspace.
        `exec_id` is one that may be on its way still."""
        nothing = Output(head=0, tail=0)
        try:
            if exec_id is not None:
                await self._begun(exec_id)
            for _ in range(3):
                with contextlib.suppress(TimeoutError):
                    sweep = await self.prepare(
                        [self.python, "-IS", "-c", guest.source("sweep")], cwd="/", env={}, stdin=False
                    )
                    async with asyncio.timeout(SWEEP_TIMEOUT_S):
                        await self._start(sweep, self.python, "/", b"", nothing, nothing)
                if not await self._leftovers():
                    return
            await self._api.call("POST", f"/containers/{self.id}/restart", params={"t": "0"})
        except EngineRefusal as exc:
            if exc.status not in (404, 409):  # a sandbox that stands still or is gone has no processes
                raise SandboxError("unknown_outcome", "A command may still run: the engine did not end it.") from exc

    async def _begun(self, exec_id: str) -> None:
        """Waits for a command that is on its way: swept before it has a process, it would run afterwards."""
        for waited in range(100):
            found = await self._api.call("GET", f"/exec/{exec_id}/json")
            on_its_way = found["Running"] or (found["ExitCode"] is None and waited < 5)
            if found["Pid"] or not on_its_way:
                return
            await asyncio.sleep(0.05)

    async def _leftovers(self) -> bool:
        """Whether any process is alive that is not of the first one's user."""
        state = await self.state()
        listed = await self._api.call("GET", f"/containers/{self.id}/top", params={"ps_args": "-eo pid,uid,stat"})
        rows = [row[:3] for row in listed["Processes"] or ()]
        first = next((uid for pid, uid, _ in rows if pid == str(state["Pid"])), None)
        return any(uid != first and not stat.startswith("Z") for _, uid, stat in rows)

    async def state(self) -> dict[str, Any]:
        """The engine's `State`; `gone` where there is no such container."""
        try:
            container = await self._api.call("GET", f"/containers/{self.id}/json")
        except EngineRefusal as exc:
            if exc.status == 404:
                raise gone(self.id) from exc
            raise SandboxError("unreachable", "The Docker engine could not say what became of a sandbox.") from exc
        state: dict[str, Any] = container["State"]
        return state

    async def must_run(self) -> None:
        """Raises what there is to say where it doesn't."""
        state = await self.state()
        if not state["Running"]:
            raise no_room(self.id) if state["ExitCode"] == NO_ROOM else stopped(self.id)

    async def must_live(self) -> None:
        """The same where something in it was killed: of a container that ends, the engine first tells the end of what
        ran in it, and for a while calls it running still."""
        nothing = Output(head=0, tail=0)
        code = None
        with contextlib.suppress(EngineRefusal):
            probe = await self.prepare(["/bin/sh", "-c", ":"], cwd="/", env={}, stdin=False)
            code = await self._start(probe, "/bin/sh", "/", b"", nothing, nothing)
        for _ in range(1 if code == 0 else 30):  # else it is ending, or too full for one more process
            await self.must_run()
            await asyncio.sleep(0 if code == 0 else 0.1)

    async def stop(self) -> None:
        try:
            await self._api.call("POST", f"/containers/{self.id}/stop", params={"t": "0"})
        except EngineRefusal as exc:
            raise self.lost(exc) from exc

    def lost(self, refusal: EngineRefusal) -> SandboxError:
        match refusal.status:
            case 404:
                return gone(self.id)
            case 409:
                return stopped(self.id)
            case _:
                return SandboxError("unknown_outcome", f"The Docker engine failed in a call for sandbox {self.id}.")


def _could_not_start(end: Mapping[str, Any]) -> bool:
    """The engine gives an exit code to what never had a process."""
    return not end["Pid"] and end["ExitCode"] in (126, 127)


def gone(sandbox_id: str) -> SandboxError:
    return SandboxError("gone", f"Sandbox {sandbox_id} no longer exists.")


def stopped(sandbox_id: str) -> SandboxError:
    return SandboxError(
        "limit_exceeded",
        f"Sandbox {sandbox_id} does not run: it was paused, or its lifetime is over. Connecting resumes it.",
        retryable=True,
    )


def no_room(sandbox_id: str) -> SandboxError:
    return SandboxError(
        "limit_exceeded",
        f"Sandbox {sandbox_id} was ended because the engine's disk is nearly full. Free some of it "
        "(`coder-bot sandboxes reap`, `docker system df`), then connect again.",
    )
