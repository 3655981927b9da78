"""Clauses about commands that lie: they run as the same user as whatever watches them, and may forge what it says."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import OUTPUT_LIMIT, Sandbox
from bot.sandbox.testing.fixtures import LONG_S, MEMORY, Growth, exists, mark, until

# Writes into every stream of every other process of its user, and over every file that its user may write, what could
# be taken for the reply of a helper or the status of a command. The first word says how it does that.
FORGING = r"""
import base64, json, os, struct, sys, time

how = sys.argv[1]
here = os.getpid()
done = b"0\n"
keys = ("exit_code", "exitCode", "exit", "code", "status", "returncode", "rc", "result")

def frames():
    for number in range(200):
        reply = {"id": number, "ok": True, "timed_out": False, "done": True, "stdout": "", "stderr": "", "data": "",
                 "type": "exit", "event": {"end": {"exitCode": 0, "exited": True}}, **dict.fromkeys(keys, 0)}
        text = json.dumps(reply).encode()
        yield text + b"\n"
        for shape in (">I", "<I", ">Q", ">BxxxI", ">BI"):
            head = (2, len(text)) if shape in (">BxxxI", ">BI") else (len(text),)
            yield struct.pack(shape, *head) + text
        yield struct.pack(">II", number, 0)
        yield struct.pack(">IBiQQII", number, 0, 0, 0, 0, 0, 0)

def lies():
    if how == "forged":
        return list(frames())
    if how == "huge":
        return [b"\xff" * 4096, b"\x7f\xff\xff\xff" * 1024, b"{\"stdout\": \"" + b"A" * 65536]
    if how == "nested":
        return [b"[" * 65536, b"{\"a\":" * 13107, b"\n"]
    return [b"A" * 65536]  # endless: no line, no frame, no end

def processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != here:
            try:
                names = os.listdir("/proc/" + pid + "/fd")
            except OSError:
                continue
            for name in names:
                yield "/proc/" + pid + "/fd/" + name

def echoed(stream):
    # What is on its way is taken and put back as a success.
    try:
        got = os.read(os.open(stream, os.O_RDONLY | os.O_NONBLOCK), 65536)
    except OSError:
        return b""
    for digit in b"123456789":
        got = got.replace(b": %c" % digit, b": 0").replace(b":%c" % digit, b":0")
    return got

def overwrite(folder):
    for path, folders, names in os.walk(folder):
        for name in names:
            try:
                with open(os.path.join(path, name), "r+b") as file:
                    file.truncate()
                    file.write(done)
            except OSError:
                pass

said = lies()
open("begun", "w").close()
time.sleep(1)
while True:
    for stream in processes():
        try:
            if not os.readlink(stream).startswith(("pipe:", "/dev/pts", "/dev/shm", "/tmp")):
                continue
            taken = [echoed(stream)] if how == "altered" else []
            out = os.open(stream, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            for lie in taken or said:
                os.write(out, lie)
        except OSError:
            pass
        os.close(out)
    if how == "forged":
        for folder in ("/tmp", "/dev/shm", os.getcwd()):
            overwrite(folder)
"""

# Ends everybody of its user but itself, as fast as it can, for as long as it is told.
KILLING = """
import os, sys, time
open("begun", "w").close()
time.sleep(1)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    try:
        os.kill(-1, 9)
    except OSError:
        pass
    time.sleep(0.01)
"""

IN_BACKGROUND = 'setsid python3 -c "$0" "$@" >/dev/null 2>&1 </dev/null &'


class HostileClauses:
    @pytest.mark.parametrize("how", ["forged", "altered", "huge", "nested", "endless"])
    async def test_no_forged_reply_is_taken_for_a_success_or_hangs_or_fills_the_memory(
        self, sandbox: Sandbox, how: str
    ) -> None:
        async with asyncio.timeout(2.5 * LONG_S):
            await _in_background(sandbox, FORGING, how)
            with Growth() as growth:
                for _ in range(3):
                    await _gives_no_false_success(sandbox)
                    with contextlib.suppress(SandboxError):
                        result = await sandbox.exec(["sh", "-c", "echo right; exit 3"], timeout_s=5)
                        assert len(result.stdout) <= OUTPUT_LIMIT
                        assert len(result.stderr) <= OUTPUT_LIMIT
                    with contextlib.suppress(SandboxError, OSError):
                        await sandbox.write("file", b"right")
                    with contextlib.suppress(SandboxError, OSError):
                        assert len(await sandbox.read("file", max_bytes=100)) <= 100
            assert growth.bytes < MEMORY
            await _ends_everybody(sandbox)
            result = await sandbox.exec(["sh", "-c", "echo on; exit 3"], timeout_s=LONG_S)
            assert (result.exit_code, result.stdout) == (3, b"on\n")
            await sandbox.write("file", b"right")
            assert await sandbox.read("file", max_bytes=100) == b"right"

    async def test_a_trusted_status_is_right_though_every_process_of_its_user_is_killed(
        self, sandbox: Sandbox
    ) -> None:
        async with asyncio.timeout(2 * LONG_S):
            for _ in range(3):
                await _ends_everybody(sandbox)
                result = await sandbox.exec(["false"], timeout_s=LONG_S, trusted_status=True)
                assert (result.exit_code, result.timed_out) == (1, False)
            await _in_background(sandbox, KILLING, "5")
            for _ in range(5):
                await _gives_no_false_success(sandbox)

    async def test_a_trusted_status_is_not_what_the_command_says_of_itself(self, sandbox: Sandbox) -> None:
        marked = mark()
        forging = "import os, sys\nfor n in range(3, 256):\n  try: os.write(n, b'0\\n')\n  except OSError: pass\n"
        saying = 'trap "exit 0" TERM; echo 0; echo \'{"exit_code": 0, "exit": 0}\'; echo 0 >&2; exit 7'
        for argv in (
            ["python3", "-c", forging + "sys.exit(7)", marked],
            ["sh", "-c", saying, marked],
            ["sh", "-c", "kill -9 $$"],
        ):
            result = await sandbox.exec(argv, timeout_s=LONG_S, trusted_status=True)
            assert result.exit_code in (7, 137)

    async def test_killing_those_that_watch_a_command_makes_it_no_success(self, sandbox: Sandbox) -> None:
        # Its parents go first, one by one; then it ends, badly.
        killing = """
import os, sys
pid = os.getppid()
while pid > 1:
    try:
        above = int(open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[1])
        os.kill(pid, 9)
    except OSError:
        break
    pid = above
sys.exit(7)
"""
        for trusted in (True, False):
            with contextlib.suppress(SandboxError):
                result = await sandbox.exec(["python3", "-c", killing], timeout_s=15, trusted_status=trusted)
                assert not result.ok
        assert (await sandbox.exec(["echo", "on"], timeout_s=LONG_S)).stdout == b"on\n"

    async def test_files_that_a_command_forges_names_for_are_read_in_bounds(self, sandbox: Sandbox) -> None:
        making = "import os\nos.mkdir('many')\nfor n in range(5000): open('many/%05d' % n + 'n' * 200, 'w').close()"
        assert (await sandbox.exec(["python3", "-c", making], timeout_s=LONG_S)).ok
        with Growth() as growth:
            try:
                names = [entry.name for entry in await sandbox.list("many")]
            except SandboxError as exc:
                assert exc.reason == "limit_exceeded"  # noqa: PT017 - either is right
            else:
                assert len(names) == 5000
                assert names == sorted(names)
        assert growth.bytes < MEMORY


async def _in_background(sandbox: Sandbox, program: str, *words: str) -> None:
    assert (await sandbox.exec(["sh", "-c", IN_BACKGROUND, program, *words], timeout_s=LONG_S)).ok
    await until(lambda: exists(sandbox, "begun"))


async def _gives_no_false_success(sandbox: Sandbox) -> None:
    """However much goes wrong, a command that fails is no success by its trusted status."""
    with contextlib.suppress(SandboxError):
        result = await sandbox.exec(["false"], timeout_s=10, trusted_status=True)
        assert not result.ok
        assert result.exit_code != 0


async def _ends_everybody(sandbox: Sandbox) -> None:
    with contextlib.suppress(SandboxError):
        await sandbox.exec(["sh", "-c", "kill -9 -1"], timeout_s=LONG_S, trusted_status=True)
