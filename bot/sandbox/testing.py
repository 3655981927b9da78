"""The contract that every provider of sandboxes keeps, as tests to inherit.

    class TestMySandbox(SandboxContract):
        @pytest.fixture
        async def provider(self): ...

The provider must have been made with `private_hosts` holding `127.0.0.1`, and is closed by the fixture that made it.
Its image needs Python 3 and a POSIX shell. `asyncio_mode = "auto"` is expected of pytest.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import OUTPUT_LIMIT, WORKSPACE, ExecResult, Sandbox, SandboxProvider, SandboxSpec

LONG_S = 60.0
"""For commands that are to end by themselves."""

# Processes that try to outlive the command that began them: a session of its own, deaf to TERM, orphaned, unnamed.
HOSTILE_TREE = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["stubborn", "-c", "trap '' TERM HUP; while :; do sleep 1; done"], {})
    os._exit(0)
if os.fork() == 0:
    os.setpgid(0, 0)
    time.sleep(1000)
print("begun", flush=True)
time.sleep(1000)
"""

FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except OSError as exc:
    sys.exit(f"no way: {exc}")
"""


class SandboxContract:
    """What the bot relies on, clause by clause."""

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
    async def sandbox(self, provider: SandboxProvider, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        made = await provider.create(spec)
        yield made
        await provider.kill(made.id)

    # Commands

    @pytest.mark.parametrize("code", [0, 1, 3, 126, 127, 255])
    async def test_an_exit_code_comes_back_as_it_was(self, sandbox: Sandbox, code: int) -> None:
        result = await sandbox.exec(["sh", "-c", f"exit {code}"], timeout_s=LONG_S, trusted_status=True)
        assert (result.exit_code, result.timed_out, result.ok) == (code, False, code == 0)

    async def test_a_signal_is_128_and_its_number(self, sandbox: Sandbox) -> None:
        assert (await sandbox.exec(["sh", "-c", "kill -9 $$"], timeout_s=LONG_S)).exit_code == 137

    async def test_what_can_not_be_started_is_a_result(self, sandbox: Sandbox) -> None:
        await sandbox.write("plain.txt", b"no program")
        missing = await sandbox.exec(["no-such-program"], timeout_s=LONG_S)
        plain = await sandbox.exec(["./plain.txt"], timeout_s=LONG_S)
        nowhere = await sandbox.exec(["true"], cwd=f"{WORKSPACE}/nowhere", timeout_s=LONG_S)
        assert (missing.exit_code, plain.exit_code, nowhere.exit_code) == (127, 126, 126)
        assert b"no-such-program" in missing.stderr
        assert missing.stdout == plain.stdout == b""

    async def test_argv_arrives_word_for_word(self, sandbox: Sandbox) -> None:
        words = ["a b", "", "'\"", "line\nline", "$HOME `id` $(id)", "*", "-n", "\\", "ünï", "|;&>", " "]
        result = await sandbox.exec(
            ["python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *words], timeout_s=LONG_S
        )
        assert result.stdout.decode().strip() == ascii(words)

    async def test_a_word_that_no_program_could_get_is_refused(self, sandbox: Sandbox) -> None:
        for argv in ([], ["echo", "a\0b"], ["echo", "\udc80"]):
            with pytest.raises(SandboxError) as raised:
                await sandbox.exec(argv, timeout_s=LONG_S)
            assert raised.value.reason == "invalid_input"

    async def test_stdin_is_read_to_its_end(self, sandbox: Sandbox) -> None:
        data = bytes(range(256)) * 8192
        counting = ["python3", "-c", "import sys; print(sum(sys.stdin.buffer.read()))"]
        assert (await sandbox.exec(counting, stdin=data, timeout_s=LONG_S)).stdout == b"%d\n" % sum(data)
        assert (await sandbox.exec(["cat"], timeout_s=LONG_S)).stdout == b""
        assert (await sandbox.exec(["true"], stdin=data, timeout_s=LONG_S)).exit_code == 0

    async def test_folder_and_environment_are_the_ones_asked_for(self, sandbox: Sandbox) -> None:
        await sandbox.write("below/x", b"")
        asking = ["sh", "-c", 'pwd; echo "$A:$FROM_SPEC"; touch "$HOME/written"']
        result = await sandbox.exec(asking, cwd="below", env={"A": "1 $B"}, timeout_s=LONG_S)
        assert (result.exit_code, result.stdout) == (0, f"{WORKSPACE}/below\n1 $B:spec's\n".encode())
        assert (
            await sandbox.exec(["sh", "-c", "pwd; echo $A"], timeout_s=LONG_S)
        ).stdout == f"{WORKSPACE}\n\n".encode()

    async def test_the_two_streams_stay_apart(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["sh", "-c", "echo out; echo err >&2"], timeout_s=LONG_S)
        assert (result.stdout, result.stderr, result.truncated) == (b"out\n", b"err\n", False)

    async def test_of_much_output_head_and_tail_are_kept(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["sh", "-c", "echo first; seq 1000000; echo last"], timeout_s=LONG_S)
        assert result.truncated
        assert len(result.stdout) <= OUTPUT_LIMIT
        assert result.stdout.startswith(b"first\n1\n")
        assert result.stdout.endswith(b"1000000\nlast\n")
        assert b"left out" in result.stdout
        assert result.stderr == b""

    async def test_output_need_not_be_text(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(
            ["python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)))"], timeout_s=LONG_S
        )
        assert result.stdout == bytes(range(256))

    # The end of commands

    async def test_a_time_out_ends_everything_the_command_began(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["python3", "-c", HOSTILE_TREE], timeout_s=3)
        assert (result.timed_out, result.ok, result.stdout) == (True, False, b"begun\n")
        assert await _commands(sandbox) == []
        assert (await sandbox.exec(["echo", "on"], timeout_s=LONG_S)).stdout == b"on\n"

    async def test_a_time_out_at_once_leaves_nothing_behind(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["sleep", "1000"], timeout_s=0.001)
        assert result.timed_out
        assert await _commands(sandbox) == []

    async def test_a_cancelled_command_ends_too(self, sandbox: Sandbox) -> None:
        running = asyncio.create_task(sandbox.exec(["sh", "-c", "echo > begun; sleep 1000"], timeout_s=LONG_S))
        await _until(lambda: _exists(sandbox, "begun"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await _commands(sandbox) == []

    async def test_a_background_process_outlives_its_command_and_does_not_hold_it(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["sh", "-c", "sleep 1000 & echo started; exit 7"], timeout_s=30)
        assert (result.exit_code, result.stdout, result.timed_out) == (7, b"started\n", False)
        assert await _commands(sandbox) == ["sleep"]

    async def test_a_chatty_background_process_does_not_hold_its_command(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["sh", "-c", "yes & sleep 0.2; exit 5"], timeout_s=30)
        assert (result.exit_code, result.timed_out) == (5, False)

    # Files

    async def test_files_keep_every_byte(self, sandbox: Sandbox) -> None:
        for content in (b"", bytes(range(256)), b"\0\n\r\n\0", secrets.token_bytes(5 * 1024**2)):
            await sandbox.write("deep/er/file", content)
            assert await sandbox.read("deep/er/file", max_bytes=len(content)) == content
        assert await sandbox.read(f"{WORKSPACE}/deep/./er//file", max_bytes=5 * 1024**2) == content

    async def test_a_larger_file_is_not_read(self, sandbox: Sandbox) -> None:
        await sandbox.write("four", b"1234")
        with pytest.raises(SandboxError) as raised:
            await sandbox.read("four", max_bytes=3)
        assert raised.value.reason == "limit_exceeded"

    async def test_a_written_file_has_its_mode_and_belongs_to_the_commands(self, sandbox: Sandbox) -> None:
        await sandbox.write("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
        assert (await sandbox.exec(["./run.sh"], timeout_s=LONG_S)).stdout == b"ran\n"
        await sandbox.write("run.sh", b"#!/bin/sh\n", mode=0o644)
        assert (await sandbox.exec(["stat", "-c", "%a", "run.sh"], timeout_s=LONG_S)).stdout == b"644\n"
        assert (await sandbox.exec(["sh", "-c", "echo more >>run.sh"], timeout_s=LONG_S)).exit_code == 0

    async def test_nothing_leads_out_of_the_workspace(self, sandbox: Sandbox) -> None:
        setting = (
            "mkdir real; echo x >real/file; ln -s real inside; ln -s /etc out; ln -s real/file link; ln -s / root"
        )
        assert (await sandbox.exec(["sh", "-c", setting], timeout_s=LONG_S)).ok
        paths = [
            "../etc/passwd",
            "real/../../etc/passwd",
            "/etc/passwd",
            f"{WORKSPACE}/../etc/passwd",
            "/workspaces/x",
        ]
        paths += ["out/passwd", "root/etc/passwd", "inside/file", "link"]
        for path in paths:
            with pytest.raises(ValueError, match=r"."):
                await sandbox.read(path, max_bytes=10_000)
            with pytest.raises(ValueError, match=r"."):
                await sandbox.write(path, b"overwritten")
        for path in ("..", "/etc", "out", "inside", "root/etc"):
            with pytest.raises(ValueError, match=r"."):
                await sandbox.list(path)
        for path in ("../x", "/etc/passwd", "inside/file"):
            with pytest.raises(ValueError, match=r"."):
                await sandbox.remove(path)
        assert await sandbox.read("real/file", max_bytes=10) == b"x\n"

    async def test_what_is_no_file_is_neither_read_nor_waited_for(self, sandbox: Sandbox) -> None:
        assert (await sandbox.exec(["sh", "-c", "mkfifo pipe; mkdir folder"], timeout_s=LONG_S)).ok
        for path in ("pipe", "folder", WORKSPACE):
            with pytest.raises(IsADirectoryError):
                await sandbox.read(path, max_bytes=10)
            with pytest.raises(IsADirectoryError):
                await sandbox.write(path, b"x")
        for path in ("absent", "absent/too"):
            with pytest.raises(FileNotFoundError):
                await sandbox.read(path, max_bytes=10)

    async def test_a_folder_is_listed_by_name_with_kinds_and_sizes(self, sandbox: Sandbox) -> None:
        setting = (
            "mkdir d d/sub; printf 123 >d/file; ln -s nowhere d/alink; mkfifo d/pipe; touch \"$(printf 'd/\\377')\""
        )
        assert (await sandbox.exec(["sh", "-c", setting], timeout_s=LONG_S)).ok
        rows = [(entry.name, entry.kind, entry.size) for entry in await sandbox.list("d")]
        assert rows == [
            ("alink", "link", 0),
            ("file", "file", 3),
            ("pipe", "other", 0),
            ("sub", "dir", 0),
            ("\udcff", "file", 0),
        ]
        assert await sandbox.read("d/\udcff", max_bytes=1) == b""
        with pytest.raises(NotADirectoryError):
            await sandbox.list("d/file")
        with pytest.raises(FileNotFoundError):
            await sandbox.list("absent")

    async def test_removing_takes_a_file_or_the_link_itself(self, sandbox: Sandbox) -> None:
        assert (await sandbox.exec(["sh", "-c", "echo x >file; ln -s file link; mkdir d"], timeout_s=LONG_S)).ok
        await sandbox.remove("link")
        assert await sandbox.read("file", max_bytes=10) == b"x\n"
        await sandbox.remove("file")
        with pytest.raises(FileNotFoundError):
            await sandbox.remove("file")
        with pytest.raises(IsADirectoryError):
            await sandbox.remove("d")

    # Life

    async def test_a_new_sandbox_is_empty_and_listed_by_its_task(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        assert [entry for entry in await sandbox.list(WORKSPACE) if not entry.name.startswith(".")] == []
        (info,) = await provider.list(task=spec.task)
        assert (info.id, info.kind, info.task, info.running) == (sandbox.id, spec.kind, spec.task, True)
        assert info in await provider.list()
        assert await provider.list(task="another") == []

    async def test_a_paused_sandbox_goes_on_with_its_files(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.write("kept", b"still here", mode=0o600)
        await sandbox.pause()
        assert [info.running for info in await provider.list(task=spec.task)] == [False]
        with pytest.raises(SandboxError):
            await sandbox.exec(["true"], timeout_s=LONG_S)
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert again.id == sandbox.id
        assert await again.read("kept", max_bytes=100) == b"still here"
        assert (await again.exec(["sh", "-c", "echo $FROM_SPEC"], timeout_s=LONG_S)).stdout == b"spec's\n"

    async def test_a_running_sandbox_is_connected_to_as_it_is(
        self, provider: SandboxProvider, sandbox: Sandbox
    ) -> None:
        await sandbox.exec(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"], timeout_s=LONG_S)
        await sandbox.aclose()
        await sandbox.aclose()
        assert await _commands(await provider.connect(sandbox.id, lifetime_s=300)) == ["sleep"]

    async def test_a_sandbox_ends_with_its_lifetime_and_keeps_its_files(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.write("kept", b"still here")
        await sandbox.extend(1)
        await _until(lambda: _stands_still(provider, spec.task))
        with pytest.raises(SandboxError):
            await sandbox.exec(["true"], timeout_s=LONG_S)
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert await again.read("kept", max_bytes=100) == b"still here"

    async def test_a_killed_sandbox_is_gone_and_killing_again_is_harmless(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await provider.kill(sandbox.id)
        await provider.kill(sandbox.id)
        assert await provider.list(task=spec.task) == []
        for act in (lambda: provider.connect(sandbox.id, lifetime_s=60), lambda: sandbox.exec(["true"], timeout_s=9)):
            with pytest.raises(SandboxError) as raised:
                await act()
            assert raised.value.reason == "gone"

    async def test_an_id_that_never_was_is_gone(self, provider: SandboxProvider) -> None:
        for nonsense in ("no-such-sandbox", "../containers", ""):
            await provider.kill(nonsense)
            with pytest.raises(SandboxError) as raised:
                await provider.connect(nonsense, lifetime_s=60)
            assert raised.value.reason == "gone"

    async def test_making_one_of_the_same_name_ends_the_older(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.write("old", b"")
        newer = await provider.create(spec)
        try:
            assert newer.id != sandbox.id
            assert [info.id for info in await provider.list(task=spec.task)] == [newer.id]
            with pytest.raises(FileNotFoundError):
                await newer.read("old", max_bytes=1)
        finally:
            await provider.kill(newer.id)

    async def test_an_image_has_one_id_and_a_missing_one_is_named(
        self, provider: SandboxProvider, spec: SandboxSpec
    ) -> None:
        assert await provider.image_id(self.image) == await provider.image_id(self.image) != ""
        with pytest.raises(SandboxError) as raised:
            await provider.image_id("no-such-image:at-all")
        assert raised.value.reason == "invalid_config"
        assert "no-such-image:at-all" in str(raised.value)

    # Walls

    async def test_a_new_sandbox_is_offline(self, sandbox: Sandbox, web: Web) -> None:
        direct = await _fetch(sandbox, web.url, proxied=False)
        proxied = await _fetch(sandbox, web.url, proxied=True)
        assert (direct.ok, proxied.ok, web.requests) == (False, False, 0)

    async def test_only_a_listed_host_can_be_reached(self, sandbox: Sandbox, web: Web, other_web: Web) -> None:
        await sandbox.allow(frozenset({web.host}))
        allowed = await _fetch(sandbox, web.url, proxied=True)
        assert (allowed.stdout, allowed.exit_code) == (b"hello\n", 0)
        assert not (await _fetch(sandbox, other_web.url, proxied=True)).ok
        assert not (await _fetch(sandbox, web.url, proxied=False)).ok
        await sandbox.allow(frozenset({other_web.host}))
        assert not (await _fetch(sandbox, web.url, proxied=True)).ok
        assert (await _fetch(sandbox, other_web.url, proxied=True)).ok
        await sandbox.allow(frozenset())
        assert not (await _fetch(sandbox, other_web.url, proxied=True)).ok
        assert (web.requests, other_web.requests) == (1, 1)

    async def test_connecting_closes_what_was_open(
        self, provider: SandboxProvider, sandbox: Sandbox, web: Web
    ) -> None:
        await sandbox.allow(frozenset({web.host}))
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert not (await _fetch(again, web.url, proxied=True)).ok
        assert web.requests == 0

    async def test_commands_are_not_root_and_can_not_change_the_system(self, sandbox: Sandbox) -> None:
        assert (await sandbox.exec(["id", "-u"], timeout_s=LONG_S)).stdout.strip() != b"0"
        for path in ("/etc/passwd", "/usr/bin/new", "/new"):
            assert not (await sandbox.exec(["sh", "-c", f"echo x >>{path}"], timeout_s=LONG_S)).ok
        assert (await sandbox.exec(["sh", "-c", "echo x >/tmp/new"], timeout_s=LONG_S)).ok

    async def test_commands_can_not_end_their_sandbox(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.exec(["sh", "-c", "kill -9 -1; kill -9 1; kill 1"], timeout_s=LONG_S)
        assert [info.running for info in await provider.list(task=spec.task)] == [True]
        assert (await sandbox.exec(["echo", "on"], timeout_s=LONG_S)).stdout == b"on\n"

    # What is reached

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

    @property
    def url(self) -> str:
        return f"http://{self.host}/"

    async def __aenter__(self) -> Web:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            await writer.drain()
        writer.close()


async def _fetch(sandbox: Sandbox, url: str, *, proxied: bool) -> ExecResult:
    env = sandbox.proxy_env if proxied else {}
    return await sandbox.exec(["python3", "-c", FETCH, url], env=env, timeout_s=LONG_S)


async def _commands(sandbox: Sandbox) -> list[str]:
    """Names of the processes of the commands' user, but for the one that asks."""
    asking = """
import os
for pid in os.listdir("/proc"):
    try:
        if pid.isdigit() and int(pid) != os.getpid() and os.stat("/proc/" + pid).st_uid == os.getuid():
            print(open("/proc/" + pid + "/comm").read().strip())
    except OSError:
        pass
"""
    result = await sandbox.exec(["python3", "-c", asking], timeout_s=LONG_S)
    assert result.ok
    return sorted(result.stdout.decode().split())


async def _exists(sandbox: Sandbox, name: str) -> bool:
    return any(entry.name == name for entry in await sandbox.list(WORKSPACE))


async def _stands_still(provider: SandboxProvider, task: str) -> bool:
    return [info.running for info in await provider.list(task=task)] == [False]


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LONG_S):
        while not await holds():  # noqa: ASYNC110 - nobody tells when another process has done something
            await asyncio.sleep(0.05)
