"""What the clauses of the contract are asked with: fixtures, a small web server, and a look at what still runs."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from bot.domain.errors import SandboxError, SandboxReason
from bot.sandbox.protocol import WORKSPACE, ExecResult, Sandbox, SandboxProvider, SandboxSpec, SnapshotInfo

LONG_S = 60.0
"""For commands that are to end by themselves."""

MEMORY = 64 * 1024**2
"""Bytes by which the bot's process may grow, whatever a command does."""

FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except OSError as exc:
    sys.exit(f"no way: {exc}")
"""

# The mark comes backwards and on stdin, so that whoever asks does not find itself.
_LEFT = """
import os, sys
mark = sys.stdin.buffer.read()[::-1]
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/" + pid + "/cmdline", "rb") as file:
            if mark in file.read():
                print(pid)
    except OSError:
        pass
"""

Who = Literal["same", "stranger", "cautious", "unreachable"]
"""Which provider: another one of this deployment, as another process of the bot would make it; one of another
deployment; one of this deployment whose operator lists no private hosts; one that reaches nobody."""

Another = Callable[[Who], SandboxProvider]


class Make(Protocol):
    """Makes one more sandbox as `spec` says but for the changes, with a name of its own; the fixture ends it."""

    async def __call__(self, **changes: Any) -> Sandbox: ...


class SandboxFixtures:
    """The fixtures of the contract. Two are the inheriting class's to give: `provider`, and `another` (an `Another`),
    which makes one more provider on the same service and closes it at the end."""

    image = "coder-bot-sandbox:latest"

    @pytest.fixture
    def spec(self) -> SandboxSpec:
        return SandboxSpec(
            name=f"contract-{secrets.token_hex(6)}",
            kind="work",
            task=f"task-{secrets.token_hex(6)}",
            image=self.image,
            lifetime_s=300,
            memory=1024**3,
            cpus=1.0,
            env={"FROM_SPEC": "spec's"},
        )

    @pytest.fixture
    async def make(self, provider: SandboxProvider, spec: SandboxSpec) -> AsyncIterator[Make]:
        made: list[str] = []

        async def make(**changes: Any) -> Sandbox:
            sandbox = await provider.create(replace(spec, **{"name": f"contract-{secrets.token_hex(6)}", **changes}))
            made.append(sandbox.id)
            return sandbox

        yield make
        for info in await provider.list():
            if info.id in made:
                await provider.kill(info.id)

    @pytest.fixture
    async def sandbox(self, make: Make, spec: SandboxSpec) -> Sandbox:
        return await make(name=spec.name)

    @pytest.fixture
    async def snapshot(self, provider: SandboxProvider, make: Make, spec: SandboxSpec) -> AsyncIterator[SnapshotInfo]:
        """Of a workspace that holds `file`, `folder/run.sh`, which can be run, and `link` to the first."""
        origin = await make()
        await origin.write("file", b"prepared")
        await origin.write("folder/run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
        assert (await origin.exec(["ln", "-s", "file", "link"], timeout_s=LONG_S)).ok
        kept = await provider.snapshot(origin.id)
        yield kept
        for info in await provider.list(task=spec.task):
            await provider.kill(info.id)
        await provider.drop_snapshot(kept.id)

    @pytest.fixture
    async def web(self) -> AsyncIterator[Web]:
        async with Web() as server:
            yield server

    @pytest.fixture
    async def other_web(self) -> AsyncIterator[Web]:
        async with Web() as server:
            yield server


class Web:
    """A web server on this machine's loopback that says hello and counts."""

    def __init__(self) -> None:
        self.requests = 0
        self.host = ""
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"http://{self.host}/"

    async def __aenter__(self) -> Web:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = writer
        task.add_done_callback(self._open.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            await writer.drain()
        writer.close()


class Growth:
    """By how many bytes this process was larger, at its largest, than when the block began (Linux)."""

    def __enter__(self) -> Growth:
        Path("/proc/self/clear_refs").write_text("5")  # resets the mark below
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = _status("VmHWM") - self._before


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))


def mark() -> str:
    """A word by which `left` finds the processes that have it in their command lines."""
    return f"mark-{secrets.token_hex(8)}"


async def left(sandbox: Sandbox, marked: str) -> int:
    """How many processes with that mark are alive in the sandbox, whoever's they are."""
    result = await sandbox.exec(["python3", "-c", _LEFT], stdin=marked[::-1].encode(), timeout_s=LONG_S)
    assert result.ok, result
    return len(result.stdout.split())


async def fetch(sandbox: Sandbox, url: str, *, proxied: bool = True) -> ExecResult:
    env = sandbox.proxy_env if proxied else {}
    return await sandbox.exec(["python3", "-c", FETCH, url], env=env, timeout_s=LONG_S)


async def exists(sandbox: Sandbox, name: str) -> bool:
    return any(entry.name == name for entry in await sandbox.list(WORKSPACE))


async def runs(provider: SandboxProvider, task: str) -> bool:
    return any(info.running for info in await provider.list(task=task))


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LONG_S):
        while not await holds():  # noqa: ASYNC110 - nobody tells when another process has done something
            await asyncio.sleep(0.05)


@contextlib.contextmanager
def refused(reason: SandboxReason) -> Iterator[None]:
    """The block must end in a SandboxError for that reason."""
    with pytest.raises(SandboxError) as raised:
        yield
    assert raised.value.reason == reason, raised.value
