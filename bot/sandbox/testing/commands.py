"""Clauses about what a command gets, and what comes back of it."""

from __future__ import annotations

import asyncio

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import OUTPUT_LIMIT, WORKSPACE, Sandbox
from bot.sandbox.testing.fixtures import LONG_S, MEMORY, Growth

BOTH = pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "fast"])


class CommandClauses:
    @BOTH
    async def test_an_exit_code_comes_back_as_it_was(self, sandbox: Sandbox, trusted: bool) -> None:
        for code in (0, 1, 3, 126, 127, 128, 255):
            result = await sandbox.exec(["sh", "-c", f"exit {code}"], timeout_s=LONG_S, trusted_status=trusted)
            assert (result.exit_code, result.timed_out, result.ok) == (code, False, code == 0)

    @BOTH
    async def test_a_signal_is_128_and_its_number(self, sandbox: Sandbox, trusted: bool) -> None:
        for number in (9, 15):
            argv = ["sh", "-c", f"kill -{number} $$"]
            assert (await sandbox.exec(argv, timeout_s=LONG_S, trusted_status=trusted)).exit_code == 128 + number

    @BOTH
    async def test_what_can_not_be_started_is_a_result(self, sandbox: Sandbox, trusted: bool) -> None:
        await sandbox.write("plain.txt", b"no program")
        missing = await sandbox.exec(["no-such-program"], timeout_s=LONG_S, trusted_status=trusted)
        plain = await sandbox.exec(["./plain.txt"], timeout_s=LONG_S, trusted_status=trusted)
        nowhere = await sandbox.exec(["true"], cwd=f"{WORKSPACE}/nowhere", timeout_s=LONG_S, trusted_status=trusted)
        assert (missing.exit_code, plain.exit_code, nowhere.exit_code) == (127, 126, 126)
        assert b"no-such-program" in missing.stderr
        assert missing.stdout == plain.stdout == b""

    @BOTH
    async def test_argv_arrives_word_for_word(self, sandbox: Sandbox, trusted: bool) -> None:
        words = ["a b", "", "'\"", "line\nline", "$HOME `id` $(id)", "*", "-n", "\\", "ünï", "|;&>", " ", "~", "a=b"]
        asking = ["python3", "-c", "import sys; print(ascii(sys.argv[1:]))", *words]
        result = await sandbox.exec(asking, timeout_s=LONG_S, trusted_status=trusted)
        assert result.stdout.decode().strip() == ascii(words)

    async def test_a_word_that_no_program_could_get_is_refused(self, sandbox: Sandbox) -> None:
        for argv in ([], ["echo", "a\0b"], ["echo", "\udc80"]):
            with pytest.raises(SandboxError) as raised:
                await sandbox.exec(argv, timeout_s=LONG_S)
            assert raised.value.reason == "invalid_input"

    @BOTH
    async def test_stdin_is_read_to_its_end(self, sandbox: Sandbox, trusted: bool) -> None:
        data = bytes(range(256)) * 8192
        counting = ["python3", "-c", "import sys; print(sum(sys.stdin.buffer.read()))"]
        counted = await sandbox.exec(counting, stdin=data, timeout_s=LONG_S, trusted_status=trusted)
        assert counted.stdout == b"%d\n" % sum(data)
        assert (await sandbox.exec(["cat"], timeout_s=LONG_S, trusted_status=trusted)).stdout == b""

    async def test_stdin_that_nobody_reads_does_not_hold_a_command(self, sandbox: Sandbox) -> None:
        data = b"x" * 1024**2
        assert (await sandbox.exec(["true"], stdin=data, timeout_s=LONG_S)).exit_code == 0
        closing = await sandbox.exec(["sh", "-c", "exec <&-; exit 3"], stdin=data, timeout_s=LONG_S)
        assert (closing.exit_code, closing.timed_out) == (3, False)

    @BOTH
    async def test_folder_and_environment_are_the_ones_asked_for(self, sandbox: Sandbox, trusted: bool) -> None:
        await sandbox.write("below/x", b"")
        asking = ["sh", "-c", 'pwd; echo "$A:$FROM_SPEC"; touch "$HOME/written"']
        result = await sandbox.exec(
            asking, cwd="below", env={"A": "1 $B\n"}, timeout_s=LONG_S, trusted_status=trusted
        )
        assert (result.exit_code, result.stdout) == (0, f"{WORKSPACE}/below\n1 $B\n:spec's\n".encode())

    async def test_one_commands_folder_and_environment_are_not_the_next_ones(self, sandbox: Sandbox) -> None:
        await sandbox.write("below/x", b"")
        await sandbox.exec(["sh", "-c", "cd below; export B=2"], env={"A": "1"}, timeout_s=LONG_S)
        result = await sandbox.exec(["sh", "-c", 'pwd; echo "$A$B"'], timeout_s=LONG_S)
        assert result.stdout == f"{WORKSPACE}\n\n".encode()

    async def test_the_two_streams_stay_apart(self, sandbox: Sandbox) -> None:
        result = await sandbox.exec(["sh", "-c", "echo out; echo err >&2"], timeout_s=LONG_S)
        assert (result.stdout, result.stderr, result.truncated) == (b"out\n", b"err\n", False)

    @BOTH
    async def test_of_much_output_head_and_tail_are_kept(self, sandbox: Sandbox, trusted: bool) -> None:
        argv = ["sh", "-c", "echo first; seq 1000000; echo last; echo err >&2"]
        result = await sandbox.exec(argv, timeout_s=LONG_S, trusted_status=trusted)
        assert result.truncated
        assert len(result.stdout) <= OUTPUT_LIMIT
        assert result.stdout.startswith(b"first\n1\n")
        assert result.stdout.endswith(b"1000000\nlast\n")
        assert b"left out" in result.stdout
        assert result.stderr == b"err\n"

    async def test_a_gibibyte_of_output_takes_little_memory(self, sandbox: Sandbox) -> None:
        with Growth() as growth:
            result = await sandbox.exec(
                ["sh", "-c", "echo first; head -c 1G /dev/zero; echo last"], timeout_s=2 * LONG_S
            )
        assert growth.bytes < MEMORY
        assert (result.exit_code, result.timed_out, result.truncated) == (0, False, True)
        assert result.stdout.startswith(b"first\n\0")
        assert result.stdout.endswith(b"\0last\n")
        assert len(result.stdout) <= OUTPUT_LIMIT

    @BOTH
    async def test_output_need_not_be_text(self, sandbox: Sandbox, trusted: bool) -> None:
        argv = ["python3", "-c", "import os; os.write(1, bytes(range(256))); os.write(2, b'\\xff\\0\\r\\n')"]
        result = await sandbox.exec(argv, timeout_s=LONG_S, trusted_status=trusted)
        assert (result.stdout, result.stderr) == (bytes(range(256)), b"\xff\0\r\n")

    async def test_commands_side_by_side_give_their_own_results(self, sandbox: Sandbox) -> None:
        async def one(number: int) -> None:
            argv = ["sh", "-c", f"read line; echo $line; echo {number} >&2; exit {number}"]
            result = await sandbox.exec(
                argv, stdin=b"line %d\n" % number, timeout_s=LONG_S, trusted_status=number % 4 == 0
            )
            assert (result.exit_code, result.timed_out) == (number, False)
            assert (result.stdout, result.stderr) == (b"line %d\n" % number, b"%d\n" % number)

        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(one(number))

    async def test_a_command_is_waited_for_though_it_closed_its_streams(self, sandbox: Sandbox) -> None:
        closing = "exec >&- 2>&-; sleep 1; echo > written; exit 3"
        result = await sandbox.exec(["sh", "-c", closing], timeout_s=LONG_S)
        assert (result.exit_code, result.timed_out, result.duration_s >= 1) == (3, False, True)
        assert await sandbox.read("written", max_bytes=10) == b"\n"
