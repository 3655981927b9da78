"""The Docker provider keeps the contract, and what is true of Docker alone."""

from __future__ import annotations

import asyncio
import io
import json
import os
import secrets
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.register_assert_rewrite("bot.sandbox.testing")

from bot.domain.errors import SandboxError  # noqa: E402 - after the line that makes the contract's asserts speak
from bot.sandbox.docker import DockerProvider  # noqa: E402
from bot.sandbox.docker_sandbox import DockerSandbox  # noqa: E402
from bot.sandbox.guest.output import Output  # noqa: E402
from bot.sandbox.protocol import WORKSPACE, SandboxSpec  # noqa: E402
from bot.sandbox.testing import FETCH, Another, SandboxContract, Web, Who  # noqa: E402
from tests.runtime import known as runtimes  # noqa: E402

IMAGE = "coder-bot-sandbox:latest"


@pytest.fixture
def deployment() -> str:
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def egress_dir() -> Iterator[Path]:
    # Not pytest's own folder: its path may be too long for a socket.
    path = Path(tempfile.mkdtemp(prefix="egress-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def engine() -> AsyncIterator[httpx.AsyncClient]:
    """The engine itself, asked past our provider."""
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    async with httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=120) as client:
        yield client


@pytest.fixture
async def provider(deployment: str, egress_dir: Path, engine: httpx.AsyncClient) -> AsyncIterator[DockerProvider]:
    made = DockerProvider(deployment=deployment, egress_dir=egress_dir, private_hosts=frozenset({"127.0.0.1"}))
    yield made
    left = await made.list()
    for info in left:
        await made.kill(info.id)
    for kept in await made.snapshots():
        await made.drop_snapshot(kept.id)
    await made.aclose()
    assert await _of(engine, deployment) == []
    assert os.listdir(egress_dir) == []


@pytest.fixture
def spec() -> SandboxSpec:
    return SandboxSpec(
        name=f"docker-{secrets.token_hex(6)}",
        kind="verify",
        task="t",
        image=IMAGE,
        lifetime_s=300,
        memory=512 * 1024**2,
    )


@pytest.fixture
async def sandbox(provider: DockerProvider, spec: SandboxSpec) -> DockerSandbox:
    return await provider.create(spec)


async def _of(engine: httpx.AsyncClient, deployment: str) -> list[str]:
    """All that the engine has of a deployment, containers and volumes."""
    params = {"filters": json.dumps({"label": [f"coder-bot.deployment={deployment}"]})}
    containers = (await engine.get("/containers/json", params={"all": "1"} | params)).json()
    volumes = (await engine.get("/volumes", params=params)).json()["Volumes"] or []
    return [f"container {one['Names'][0]}" for one in containers] + [f"volume {one['Name']}" for one in volumes]


async def _image(engine: httpx.AsyncClient, files: dict[str, bytes], path: str, params: dict[str, str]) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    headers = {"Content-Type": "application/x-tar"}
    answer = await engine.post(path, params=params, content=archive.getvalue(), headers=headers)
    assert "error" not in answer.text, answer.text


class TestDockerSandbox(SandboxContract):
    image = IMAGE

    @pytest.fixture
    async def another(self, deployment: str, egress_dir: Path) -> AsyncIterator[Another]:
        made = []

        def another(who: Who) -> DockerProvider:
            nobody = f"unix://{egress_dir}/none.sock"
            provider = DockerProvider(
                deployment="somebody-else" if who == "stranger" else deployment,
                egress_dir=egress_dir,
                private_hosts=frozenset() if who == "cautious" else frozenset({"127.0.0.1"}),
                **({"docker_host": nobody} if who == "unreachable" else {}),
            )
            made.append(provider)
            return provider

        yield another
        for provider in made:
            await provider.aclose()


# What Docker has to be told


async def test_a_sandbox_is_hardened(sandbox: DockerSandbox, engine: httpx.AsyncClient) -> None:
    status = (await sandbox.exec(["cat", "/proc/self/status"], timeout_s=60)).stdout.decode()
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {key: facts[key].strip() for key in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")} == {
        "CapEff": "0" * 16,
        "CapBnd": "0" * 16,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }
    limits = (await sandbox.exec(["sh", "-c", "ulimit -c; ulimit -n; ulimit -f"], timeout_s=60)).stdout.split()
    assert limits == [b"0", b"16384", str(5 * 1024**3 // 512).encode()]
    host = (await engine.get(f"/containers/{sandbox.id}/json")).json()["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 512 * 1024**2
    assert (host["CpuQuota"], host["CpuPeriod"], host["NetworkMode"]) == (200_000, 100_000, "none")
    assert 0 < host["PidsLimit"] <= 1024


async def test_every_runtime_says_in_the_same_words_what_can_not_be_started(
    deployment: str,
    egress_dir: Path,
    spec: SandboxSpec,
    engine: httpx.AsyncClient,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("says", f"runtimes that this engine has and sandboxes were tried on: {', '.join(runtimes())}")
    said = set()
    for runtime in runtimes():
        provider = DockerProvider(deployment=deployment, egress_dir=egress_dir, runtime=runtime)
        sandbox = await provider.create(spec)
        host = (await engine.get(f"/containers/{sandbox.id}/json")).json()["HostConfig"]
        assert host["Runtime"] == runtime
        await sandbox.write("plain.txt", b"no program")
        results = [
            await sandbox.exec(argv, cwd=cwd, timeout_s=60, trusted_status=True)
            for argv, cwd in (
                (["no-such-program"], WORKSPACE),
                (["./plain.txt"], WORKSPACE),
                (["true"], f"{WORKSPACE}/nowhere"),
                (["sh", "-c", "kill -9 $$"], WORKSPACE),
            )
        ]
        said.add(tuple((result.exit_code, result.stderr) for result in results))
        kept = await provider.snapshot(sandbox.id)
        warm = await provider.create(replace(spec, snapshot=kept.id))
        assert await warm.read("plain.txt", max_bytes=100) == b"no program"
        await provider.kill(warm.id)
        await provider.drop_snapshot(kept.id)
        await provider.aclose()
    assert said == {
        (
            (127, b"no-such-program: no such program\n"),
            (126, b"./plain.txt: can not be started\n"),
            (126, b"there is no folder /workspace/nowhere\n"),
            (137, b""),
        )
    }


async def test_a_runtime_that_the_engine_lacks_is_refused_by_name(
    deployment: str, egress_dir: Path, spec: SandboxSpec
) -> None:
    provider = DockerProvider(deployment=deployment, egress_dir=egress_dir, runtime="nope")
    try:
        with pytest.raises(SandboxError, match=r"CODER_DOCKER_RUNTIME is 'nope', .*it has: .*runc") as raised:
            await provider.create(spec)
        assert raised.value.reason == "invalid_config"
    finally:
        await provider.aclose()


async def test_commands_can_not_move_their_deadline(sandbox: DockerSandbox) -> None:
    attempt = "echo 9999999999 >/run/egress/deadline || rm /run/egress/deadline || touch /run/egress/proxy.sock"
    assert not (await sandbox.exec(["sh", "-c", attempt], timeout_s=60)).ok


async def test_labels_are_on_container_and_volume_and_both_go(
    provider: DockerProvider, sandbox: DockerSandbox, engine: httpx.AsyncClient, deployment: str
) -> None:
    assert await _of(engine, deployment) == [f"container /{sandbox.id}", f"volume {sandbox.id}"]
    await provider.kill(sandbox.id)
    assert await _of(engine, deployment) == []


async def test_a_volume_without_its_container_is_listed_and_ended(
    provider: DockerProvider, sandbox: DockerSandbox, engine: httpx.AsyncClient, deployment: str
) -> None:
    await engine.delete(f"/containers/{sandbox.id}", params={"force": "1"})
    assert [(info.id, info.running) for info in await provider.list(task="t")] == [(sandbox.id, False)]
    with pytest.raises(SandboxError) as raised:
        await provider.connect(sandbox.id, lifetime_s=60)
    assert raised.value.reason == "gone"
    await provider.kill(sandbox.id)
    assert await _of(engine, deployment) == []


async def test_a_helper_that_was_left_does_not_hold_what_is_to_be_ended(
    provider: DockerProvider, sandbox: DockerSandbox, engine: httpx.AsyncClient, deployment: str
) -> None:
    """One that measured or copied a workspace when its bot was killed; it runs on."""
    volume = (await engine.get(f"/volumes/{sandbox.id}")).json()
    mounts = [{"Type": "volume", "Source": sandbox.id, "Target": "/from"}]
    body = {
        "Image": IMAGE,
        "Entrypoint": ["sleep", "600"],
        "Labels": volume["Labels"],
        "HostConfig": {"Mounts": mounts, "NetworkMode": "none"},
    }
    helper = f"coder-{secrets.token_hex(8)}"
    assert (await engine.post("/containers/create", params={"name": helper}, json=body)).status_code == 201
    assert (await engine.post(f"/containers/{helper}/start")).status_code == 204
    await provider.kill(sandbox.id)
    assert await _of(engine, deployment) == []


async def test_another_deployment_neither_sees_nor_ends_it(
    provider: DockerProvider, sandbox: DockerSandbox, egress_dir: Path
) -> None:
    stranger = DockerProvider(deployment="somebody-else", egress_dir=egress_dir)
    try:
        assert sandbox.id not in [info.id for info in await stranger.list()]
        with pytest.raises(SandboxError) as raised:
            await stranger.connect(sandbox.id, lifetime_s=60)
        assert raised.value.reason == "gone"
        await stranger.kill(sandbox.id)
        assert [info.running for info in await provider.list(task="t")] == [True]
        assert (await sandbox.exec(["true"], timeout_s=60)).ok
    finally:
        await stranger.aclose()


async def test_another_process_finds_it_again(
    provider: DockerProvider, sandbox: DockerSandbox, deployment: str, egress_dir: Path
) -> None:
    await sandbox.write("kept", b"still here")
    later = DockerProvider(deployment=deployment, egress_dir=egress_dir)
    try:
        again = await later.connect(sandbox.id, lifetime_s=60)
        assert await again.read("kept", max_bytes=100) == b"still here"
    finally:
        await later.aclose()


async def test_a_command_that_ends_every_sweep_is_ended_with_its_container(sandbox: DockerSandbox) -> None:
    await sandbox.write("kept", b"still here")
    deadly = "import os, time\nwhile True:\n  try: os.kill(-1, 9)\n  except OSError: pass"
    assert (await sandbox.exec(["python3", "-c", deadly, "deadly"], timeout_s=1)).exit_code == 137
    assert (await sandbox.exec(["pgrep", "-f", "deadl[y]"], timeout_s=60)).stdout == b""
    assert await sandbox.read("kept", max_bytes=100) == b"still here"


async def test_a_fork_bomb_ends_with_its_time(sandbox: DockerSandbox) -> None:
    bomb = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.1)"
    assert (await sandbox.exec(["python3", "-c", bomb, "ticking"], timeout_s=2)).timed_out
    assert (await sandbox.exec(["pgrep", "-c", "-f", "tickin[g]"], timeout_s=60)).stdout == b"0\n"


async def test_a_command_takes_no_more_memory_than_the_sandbox_has(sandbox: DockerSandbox) -> None:
    greedy = await sandbox.exec(["python3", "-c", "b = bytearray(600 * 1024**2)"], timeout_s=60)
    assert greedy.exit_code in (1, 137)
    assert (await sandbox.exec(["echo", "on"], timeout_s=60)).stdout == b"on\n"


async def test_an_environment_of_the_repository_reaches_commands_only(
    provider: DockerProvider, spec: SandboxSpec
) -> None:
    sandbox = await provider.create(replace(spec, env={"LD_PRELOAD": "/workspace/evil.so", "PATH": "/nowhere"}))
    await sandbox.write("file", b"x")
    assert await sandbox.read("file", max_bytes=1) == b"x"
    assert (await sandbox.exec(["ls"], timeout_s=60)).exit_code == 127
    assert b"evil.so" in (await sandbox.exec(["/bin/ls"], timeout_s=60)).stderr


async def test_a_private_address_needs_the_operator(
    deployment: str, provider: DockerProvider, egress_dir: Path, spec: SandboxSpec
) -> None:
    strict = DockerProvider(deployment=deployment, egress_dir=egress_dir)
    try:
        sandbox = await strict.create(spec)
        async with Web() as web:
            await sandbox.allow(frozenset({web.host}))
            result = await sandbox.exec(["python3", "-c", FETCH, web.url], env=dict(sandbox.proxy_env), timeout_s=60)
            assert (result.ok, web.requests, sandbox.refused_hosts) == (False, 0, (web.host,))
    finally:
        await strict.aclose()


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_command_that_ends_with_its_container_has_no_result(
    provider: DockerProvider, sandbox: DockerSandbox, engine: httpx.AsyncClient, trusted: bool
) -> None:
    line = ["sh", "-c", "touch begun; sleep 1000"]
    running = asyncio.create_task(sandbox.exec(line, timeout_s=60, trusted_status=trusted))
    while "begun" not in [entry.name for entry in await sandbox.list(".")]:
        await asyncio.sleep(0.05)
    assert (await engine.post(f"/containers/{sandbox.id}/kill")).status_code == 204
    with pytest.raises(SandboxError) as raised:
        await running
    assert raised.value.retryable
    again = await provider.connect(sandbox.id, lifetime_s=60)
    assert (await again.exec(["true"], timeout_s=60, trusted_status=trusted)).ok


# Images


def _with_libraries(*programs: str) -> dict[str, bytes]:
    """Programs of this machine with the libraries that they load, as files of an image."""
    paths = set()
    for program in programs:
        said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
        paths |= {word for word in said.split() if word.startswith("/")}
    files = {path.lstrip("/"): Path(path).read_bytes() for path in paths}
    return files | {f"bin/{Path(program).name}": Path(program).read_bytes() for program in programs}


async def test_an_image_with_no_more_than_a_shell_is_lent_python_and_git(
    provider: DockerProvider, spec: SandboxSpec, engine: httpx.AsyncClient, deployment: str
) -> None:
    files = _with_libraries("/bin/sh", "/bin/true", "/bin/chown")
    await _image(engine, files, "/images/create", {"fromSrc": "-", "repo": "test-shell", "tag": deployment})
    try:
        sandbox = await provider.create(replace(spec, image=f"test-shell:{deployment}"))
        await sandbox.write("file", b"x")
        assert await sandbox.read("file", max_bytes=1) == b"x"
        for trusted in (False, True):
            result = await sandbox.exec(["sh", "-c", "echo $0; exit 3"], timeout_s=60, trusted_status=trusted)
            assert (result.exit_code, result.stdout) == (3, b"sh\n")
        for argv in (
            ["git", "init", "-q", "r"],
            ["git", "-C", "r", "status"],
            ["python3", "-c", "import ssl, ctypes"],
        ):
            result = await sandbox.exec(argv, timeout_s=60)
            assert result.ok, result.stderr
        version = await sandbox.exec(["git", "ls-remote", "https://127.0.0.1:1/x"], timeout_s=60)
        assert b"Failed to connect" in version.stderr  # its helper for https runs
        assert (await sandbox.exec(["sleep", "60"], timeout_s=60, trusted_status=True)).exit_code == 127
        assert (await sandbox.exec(["sh", "-c", "while :; do :; done"], timeout_s=1)).timed_out
        await sandbox.pause()
        again = await provider.connect(sandbox.id, lifetime_s=60)
        assert await again.read("file", max_bytes=1) == b"x"
        kept = await provider.snapshot(sandbox.id)
        warm = await provider.create(replace(spec, image=f"test-shell:{deployment}", snapshot=kept.id))
        assert await warm.read("file", max_bytes=1) == b"x"
        await provider.kill(warm.id)
    finally:
        await engine.delete(f"/images/test-shell:{deployment}", params={"force": "1"})


async def test_an_image_without_a_shell_is_refused_by_name(
    provider: DockerProvider, spec: SandboxSpec, engine: httpx.AsyncClient, deployment: str
) -> None:
    await _image(
        engine, {"etc/hostname": b"x"}, "/images/create", {"fromSrc": "-", "repo": "test-empty", "tag": deployment}
    )
    try:
        with pytest.raises(SandboxError) as raised:
            await provider.create(replace(spec, image=f"test-empty:{deployment}"))
        assert raised.value.reason == "invalid_config"
        assert f"test-empty:{deployment}" in str(raised.value)
        assert "/bin/sh" in str(raised.value)
        assert await _of(engine, deployment) == []
    finally:
        await engine.delete(f"/images/test-empty:{deployment}")


@pytest.mark.parametrize("image", ["", "../info", "a/../../info", "a?b", "a b", "-a", "a\n"])
async def test_what_is_no_name_of_an_image_is_not_asked_for(provider: DockerProvider, image: str) -> None:
    with pytest.raises(SandboxError) as raised:
        await provider.image_id(image)
    assert raised.value.reason == "invalid_config"
    assert "not the name" in str(raised.value)


async def test_an_image_without_a_workspace_gets_one_that_commands_can_write(
    provider: DockerProvider, spec: SandboxSpec, engine: httpx.AsyncClient, deployment: str
) -> None:
    recipe = f"FROM {IMAGE}\nUSER 0:0\nWORKDIR /\nRUN rmdir /workspace\n".encode()
    await _image(engine, {"Dockerfile": recipe}, "/build", {"t": f"test-bare:{deployment}", "forcerm": "1"})
    try:
        sandbox = await provider.create(replace(spec, image=f"test-bare:{deployment}"))
        await sandbox.write("file", b"x")
        assert (await sandbox.exec(["touch", "other"], timeout_s=60)).ok
        await provider.kill(sandbox.id)
    finally:
        await engine.delete(f"/images/test-bare:{deployment}")


# Engines


async def test_a_dead_engine_is_unreachable_and_says_how_to_start_it(egress_dir: Path, spec: SandboxSpec) -> None:
    provider = DockerProvider(deployment="d", egress_dir=egress_dir, docker_host=f"unix://{egress_dir}/no.sock")
    try:
        for call in (
            lambda: provider.create(spec),
            provider.list,
            lambda: provider.connect("coder-" + "0" * 16, lifetime_s=1),
        ):
            with pytest.raises(SandboxError) as raised:
                await call()
            assert (raised.value.reason, raised.value.retryable) == ("unreachable", True)
            assert "docker-up" in str(raised.value)
    finally:
        await provider.aclose()


@pytest.mark.parametrize("docker_host", ["tcp://10.0.0.1:2375", "ssh://host", "", "unix://relative"])
def test_an_engine_elsewhere_is_refused(docker_host: str, egress_dir: Path) -> None:
    with pytest.raises(SandboxError) as raised:
        DockerProvider(deployment="d", egress_dir=egress_dir, docker_host=docker_host)
    assert raised.value.reason == "invalid_config"


def test_a_folder_too_deep_for_a_socket_is_refused_at_once() -> None:
    with pytest.raises(SandboxError, match="12 bytes shorter"):
        DockerProvider(deployment="d", egress_dir=Path("/" + "x" * 84))


# Output


def _output(pieces: list[bytes], *, head: int, tail: int) -> Output:
    output = Output(head=head, tail=tail)
    for piece in pieces:
        output.add(piece)
    return output


@pytest.mark.parametrize(
    ("pieces", "kept", "left_out"),
    [
        ([], b"", 0),
        ([b"abc", b"def"], b"abcdef", 0),
        ([b"abcdef", b"g"], b"abc\n[... 1 bytes left out ...]\nefg", 1),
        ([bytes([n]) for n in b"abcdefghij"], b"abc\n[... 4 bytes left out ...]\nhij", 4),
    ],
)
def test_output_keeps_head_and_tail(pieces: list[bytes], kept: bytes, left_out: int) -> None:
    output = _output(pieces, head=3, tail=3)
    assert (output.bytes(), output.left_out) == (kept, left_out)


def test_output_is_held_in_bounded_memory() -> None:
    output: Any = Output(head=100, tail=100)
    held = 0
    for _ in range(500):
        output.add(b"x" * 65536)
        held = max(held, len(output._head) + len(output._tail))
    assert (output.size, len(output.bytes()) < 300, held < 200_000) == (500 * 65536, True, True)
