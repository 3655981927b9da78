"""How quick sandboxes are, as ratios against peers and the raw operation on the same container in the same run.

    make bench        (or: python -m benchmarks.sandbox [--rounds N])

Peers: the engine's own exec over its socket, the `docker` command, and SWE-ReX's server and client inside the very
same container (its transport is HTTP on the container's loopback there, which favours it). What stands in one row is
measured turn by turn, so that whatever else the machine does meets all of it alike. Milliseconds are medians of this
machine at this moment; the ratios are what may be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

from bot.sandbox.docker import DockerProvider
from bot.sandbox.docker_api import DockerApi
from bot.sandbox.protocol import WORKSPACE, Sandbox, SandboxSpec
from bot.sandbox.workspace import REPO

IMAGE = "coder-bot-sandbox:latest"
SOCKET = "unix:///var/run/docker.sock"
SWE_REX = "swe-rex==1.4.0"
GIB = 1024**3
IN_A_ROW = 10

Op = Callable[[], Awaitable[object]]


async def main(rounds: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="coder-"))
    provider = DockerProvider(deployment=f"bench-{secrets.token_hex(4)}", egress_dir=home, docker_host=SOCKET)
    try:
        sandbox = await provider.create(_spec("exec"))
        print(_versions())
        await _commands(sandbox, rounds)
        await _files(sandbox, rounds)
        await _output(sandbox)
        await _warm(provider)
    finally:
        for info in await provider.list():
            await provider.kill(info.id)
        for kept in await provider.snapshots():
            await provider.drop_snapshot(kept.id)
        await provider.aclose()
        shutil.rmtree(home)


def _spec(name: str, snapshot: str | None = None) -> SandboxSpec:
    return SandboxSpec(name=name, kind="work", task="bench", image=IMAGE, lifetime_s=1800, snapshot=snapshot)


def _versions() -> str:
    engine = subprocess.run(
        ["docker", "version", "-f", "docker {{.Client.Version}}, engine {{.Server.Version}}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return f"{engine.stdout.strip()}, Python {sys.version.split()[0]}, {SWE_REX}"


async def _turns(rounds: int, ops: dict[str, Op]) -> dict[str, float]:
    """Median milliseconds of each, measured turn by turn, a few in a row each time."""
    times: dict[str, list[float]] = {name: [] for name in ops}
    for turn in range(rounds // IN_A_ROW + 1):
        for name, op in ops.items():
            for _ in range(IN_A_ROW):
                began = time.perf_counter()
                await op()
                if turn:
                    times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(each) for name, each in times.items()}


def _row(title: str, medians: dict[str, float]) -> None:
    ours = next(iter(medians.values()))
    parts = [f"{name} {value:8.2f} ms ({value / ours:5.1f}x)" for name, value in medians.items()]
    print(f"{title:24}" + "  ".join(parts), flush=True)


async def _commands(sandbox: Sandbox, rounds: int) -> None:
    api = DockerApi(SOCKET)
    peer = await _SweRex.start(sandbox, api)

    async def command_line() -> None:
        process = await asyncio.create_subprocess_exec("docker", "exec", sandbox.id, "true")
        assert await process.wait() == 0

    async def raw() -> None:
        body = {"Cmd": ["true"], "AttachStdout": True, "AttachStderr": True}
        made = await api.call("POST", f"/containers/{sandbox.id}/exec", body=body)
        async with api.exec_stream(made["Id"]) as stream:
            await stream.drain(_Nothing(), _Nothing())  # type: ignore[arg-type]
        assert (await api.call("GET", f"/exec/{made['Id']}/json"))["ExitCode"] == 0

    try:
        medians = await _turns(
            rounds,
            {
                "coder-bot": lambda: sandbox.exec(["true"], timeout_s=60),
                "coder-bot, engine's status": lambda: sandbox.exec(["true"], timeout_s=60, trusted_status=True),
                "raw docker exec": raw,
                "docker CLI": command_line,
                "SWE-ReX": peer.true,
            },
        )
    finally:
        await peer.end()
        await api.aclose()
    _row("no-op command", medians)


class _Nothing:
    size = 0

    def add(self, piece: bytes) -> None:
        pass


def _packages() -> bytes:
    """SWE-ReX and what it needs, as a tar of the folder `peer`."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - read by another user in the container
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-qq", "--target", folder, SWE_REX, "aiohttp"], check=True
        )
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(folder, arcname="peer")
        return archive.getvalue()


class _SweRex:
    """SWE-ReX's server and client in the container; each line to the client is one command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, sandbox: Sandbox, api: DockerApi) -> _SweRex:
        archive = await asyncio.to_thread(_packages)
        await api.call("PUT", f"/containers/{sandbox.id}/archive", params={"path": WORKSPACE}, archive=archive)
        client = (resources.files(__package__) / "swe_rex_client.py").read_text()
        env = ["-e", f"PYTHONPATH={WORKSPACE}/peer", "-e", f"HOME={WORKSPACE}/.home", "-u", "1000:1000"]
        process = await asyncio.create_subprocess_exec(
            "docker", "exec", "-i", *env, sandbox.id, "python3", "-c", client,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        peer = cls(process)
        assert await peer._line() == "ready", "SWE-ReX did not start"
        return peer

    async def true(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        assert await self._line() == "0"

    async def _line(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def _files(sandbox: Sandbox, rounds: int) -> None:
    content = secrets.token_bytes(4096)
    await sandbox.write("4k", content)

    async def command_line() -> None:
        process = await asyncio.create_subprocess_exec(
            "docker", "exec", sandbox.id, "cat", f"{WORKSPACE}/4k", stdout=subprocess.PIPE
        )
        out, _ = await process.communicate()
        assert out == content

    _row(
        "read 4 KB",
        await _turns(
            rounds, {"coder-bot": lambda: sandbox.read("4k", max_bytes=4096), "docker CLI, cat": command_line}
        ),
    )

    async def copy() -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            process = await asyncio.create_subprocess_exec(
                "docker", "cp", "-q", file.name, f"{sandbox.id}:{WORKSPACE}/4k-copied", stderr=subprocess.DEVNULL
            )
            assert await process.wait() == 0

    _row(
        "write 4 KB",
        await _turns(rounds, {"coder-bot": lambda: sandbox.write("4k", content), "docker CLI, cp": copy}),
    )


async def _output(sandbox: Sandbox) -> None:
    before = _memory("VmRSS")
    # Linux forgets a process's peak on this word, so that what follows is the peak of this command alone.
    Path("/proc/self/clear_refs").write_text("5")  # noqa: ASYNC240 - no disk
    began = time.perf_counter()
    result = await sandbox.exec(["head", "-c", str(GIB), "/dev/zero"], timeout_s=600)
    took = time.perf_counter() - began
    grown = _memory("VmHWM") - before
    assert result.ok
    assert result.truncated
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        "docker", "exec", sandbox.id, "head", "-c", str(GIB), "/dev/zero", stdout=subprocess.DEVNULL
    )
    await process.wait()
    peer = time.perf_counter() - began
    print(
        f"{'1 GiB of output':24}coder-bot {took:.2f} s, worker's peak memory +{grown:.1f} MiB; "
        f"docker CLI {peer:.2f} s ({peer / took:.1f}x)",
        flush=True,
    )


def _memory(name: str) -> float:
    """A line of this process's status, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


# Stands for clone and install: files in the number and size of a JavaScript project's dependencies and a virtual
# environment, written rather than fetched, which is quicker than any registry.
_INSTALL = """
import os
for n in range(28_000):
    folder = f"node_modules/p{n // 40}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{n}.js", "wb") as file:
        file.write(os.urandom(64) * 406)
"""


async def _warm(provider: DockerProvider) -> None:
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@example.org"]

    async def run(sandbox: Sandbox, *argv: str, cwd: str = REPO) -> None:
        result = await sandbox.exec(argv, cwd=cwd, timeout_s=600)
        assert result.ok, result.stderr

    began = time.perf_counter()
    cold = await provider.create(_spec("cold"))
    await run(cold, "git", "init", "-q", REPO, cwd=WORKSPACE)
    await cold.write(f"{REPO}/file", b"first")
    await cold.write(f"{REPO}/.gitignore", b"node_modules\n")
    await run(cold, *git, "add", "-A")
    await run(cold, *git, "commit", "-qm", "first")
    await run(cold, "python3", "-c", _INSTALL)
    took = time.perf_counter() - began
    kept = await provider.snapshot(cold.id)
    assert kept.size is not None

    # The next commit, as a bundle.
    other = await provider.create(_spec("next", kept.id))
    await other.write(f"{REPO}/file", b"second")
    await run(other, *git, "commit", "-qam", "second")
    await run(other, "git", "bundle", "create", "-q", f"{WORKSPACE}/next", "HEAD~1..HEAD")
    bundle = await other.read("next", max_bytes=10_000_000)
    await provider.kill(other.id)

    warm, made = [], []
    for turn in range(5):
        began = time.perf_counter()
        sandbox = await provider.create(_spec(f"warm-{turn}", kept.id))
        made.append(time.perf_counter() - began)
        await sandbox.write("next", bundle)
        await run(sandbox, "git", "fetch", "-q", f"{WORKSPACE}/next", "HEAD")
        await run(sandbox, "git", "reset", "-q", "--hard", "FETCH_HEAD")
        warm.append(time.perf_counter() - began)
        assert await sandbox.read(f"{REPO}/file", max_bytes=10) == b"second"
        await provider.kill(sandbox.id)
    median = statistics.median(warm)
    print(
        f"{'warm start':24}coder-bot {median:.2f} s with the new commit, of it {statistics.median(made):.2f} s until "
        f"the sandbox is there, {kept.size / 1e6:.0f} MB of dependencies; "
        f"clone + install {took:.2f} s ({took / median:.1f}x)",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    asyncio.run(main(parser.parse_args().rounds))
