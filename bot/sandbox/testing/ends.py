"""Clauses about the end of commands: their time, their children, and the command after them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import ExecResult, Sandbox, SandboxProvider, SandboxSpec
from bot.sandbox.testing.commands import BOTH
from bot.sandbox.testing.fixtures import LONG_S, exists, left, mark, runs, until

# Processes that try to outlive the command that began them: a session of its own, deaf to TERM, orphaned by a double
# fork, without an environment, standing still. Each has the mark, this program's last word, in its command line.
HOSTILE_TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        deaf = "trap '' TERM HUP INT; while :; do sleep 1; done"
        os.execve("/bin/sh", ["stubborn", "-c", deaf, sys.argv[1]], {})
    os._exit(0)
if os.fork() == 0:
    os.setpgid(0, 0)
    time.sleep(1000)
if os.fork() == 0:
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)
print("begun", flush=True)
open("begun", "w").close()
time.sleep(1000)
"""

FORK_BOMB = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.1)"

KILLS_ITS_PARENT = """
import os, signal, sys, time
parent = os.getppid()
if os.fork() == 0:
    os.setsid()
    try:
        os.kill(parent, signal.SIGKILL)
    except OSError:
        pass  # it is another user's, or out of sight
    open("begun", "w").close()
    time.sleep(1000)
time.sleep(1000)
"""

KILLS_EVERYBODY = """
import os, sys, time
open("begun", "w").close()
while True:
    try:
        os.kill(-1, 9)
    except OSError:
        pass
"""


class EndClauses:
    @BOTH
    async def test_a_time_out_ends_everything_the_command_began(self, sandbox: Sandbox, trusted: bool) -> None:
        marked = mark()
        result = await sandbox.exec(["python3", "-c", HOSTILE_TREE, marked], timeout_s=3, trusted_status=trusted)
        assert (result.timed_out, result.ok, result.stdout) == (True, False, b"begun\n")
        assert await left(sandbox, marked) == 0
        await _goes_on(sandbox)

    @BOTH
    async def test_a_time_out_at_once_leaves_nothing_behind(self, sandbox: Sandbox, trusted: bool) -> None:
        marked = mark()
        result = await sandbox.exec(["sh", "-c", "sleep 1000; :", marked], timeout_s=0.001, trusted_status=trusted)
        assert (result.timed_out, result.ok) == (True, False)
        assert await left(sandbox, marked) == 0
        await _goes_on(sandbox)

    @BOTH
    async def test_a_cancelled_command_ends_with_everything_it_began(self, sandbox: Sandbox, trusted: bool) -> None:
        marked = mark()
        argv = ["python3", "-c", HOSTILE_TREE, marked]
        running = asyncio.create_task(sandbox.exec(argv, timeout_s=LONG_S, trusted_status=trusted))
        await until(lambda: exists(sandbox, "begun"))
        assert await left(sandbox, marked) >= 3
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await left(sandbox, marked) == 0
        await _goes_on(sandbox)

    @BOTH
    async def test_a_fork_bomb_ends_with_its_time(self, sandbox: Sandbox, trusted: bool) -> None:
        marked = mark()
        result = await sandbox.exec(["python3", "-c", FORK_BOMB, marked], timeout_s=2, trusted_status=trusted)
        assert (result.timed_out, result.ok) == (True, False)
        assert await left(sandbox, marked) == 0
        await _goes_on(sandbox)

    @pytest.mark.parametrize("program", [KILLS_ITS_PARENT, KILLS_EVERYBODY], ids=["its parent", "everybody"])
    @BOTH
    async def test_who_kills_those_that_watch_it_ends_too(
        self, provider: SandboxProvider, sandbox: Sandbox, program: str, trusted: bool
    ) -> None:
        marked = mark()
        await sandbox.write("kept", b"still here")
        with contextlib.suppress(SandboxError):  # a broken helper may be said, or mended unseen
            result = await sandbox.exec(["python3", "-c", program, marked], timeout_s=3, trusted_status=trusted)
            assert not result.ok
        assert await left(sandbox, marked) == 0
        await _goes_on(sandbox)
        assert await sandbox.read("kept", max_bytes=100) == b"still here"

    async def test_commands_can_not_end_their_sandbox(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        with contextlib.suppress(SandboxError):
            await sandbox.exec(["sh", "-c", "kill -9 -1; kill -9 1; kill 1"], timeout_s=LONG_S)
        assert [info.running for info in await provider.list(task=spec.task)] == [True]
        await _goes_on(sandbox)

    @BOTH
    async def test_a_background_process_outlives_its_command_and_does_not_hold_it(
        self, sandbox: Sandbox, trusted: bool
    ) -> None:
        marked = mark()
        argv = ["sh", "-c", 'sh -c "sleep 1000; :" "$0" & echo started; exit 7', marked]
        result = await sandbox.exec(argv, timeout_s=15, trusted_status=trusted)
        assert (result.exit_code, result.stdout, result.timed_out) == (7, b"started\n", False)
        await _goes_on(sandbox)
        assert await left(sandbox, marked) == 1

    @BOTH
    async def test_a_chatty_background_process_does_not_hold_its_command(
        self, sandbox: Sandbox, trusted: bool
    ) -> None:
        argv = ["sh", "-c", "yes & sleep 0.2; exit 5"]
        result = await sandbox.exec(argv, timeout_s=15, trusted_status=trusted)
        assert (result.exit_code, result.timed_out) == (5, False)
        await _goes_on(sandbox)

    @pytest.mark.parametrize("program", ["import time; time.sleep(1000)", KILLS_EVERYBODY], ids=["mild", "deadly"])
    async def test_a_time_out_makes_no_false_success_of_what_runs_beside_it(
        self, sandbox: Sandbox, program: str
    ) -> None:
        async def beside(number: int) -> ExecResult | None:
            argv = ["sh", "-c", f"sleep 4; echo {number} done; exit {number}"]
            try:
                return await sandbox.exec(argv, timeout_s=LONG_S, trusted_status=number == 0)
            except SandboxError:
                return None

        others = [asyncio.create_task(beside(number)) for number in range(3)]
        await asyncio.sleep(0.5)
        with contextlib.suppress(SandboxError):
            assert not (await sandbox.exec(["python3", "-c", program], timeout_s=1)).ok
        for number, result in enumerate(await asyncio.gather(*others)):
            done = b"%d done\n" % number
            if result and not result.timed_out and result.exit_code <= 128:
                assert (result.exit_code, result.stdout) == (number, done)
        await _goes_on(sandbox)

    async def test_ending_a_command_does_not_end_its_sandbox(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        assert (await sandbox.exec(["sleep", "1000"], timeout_s=0.5)).timed_out
        assert await runs(provider, spec.task)


async def _goes_on(sandbox: Sandbox) -> None:
    """The next command, asked for at once, gives its own result."""
    result = await sandbox.exec(["sh", "-c", "echo on; exit 3"], timeout_s=LONG_S)
    assert (result.exit_code, result.stdout, result.timed_out) == (3, b"on\n", False)
