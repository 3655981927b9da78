"""Clauses about what commands can't take: the system, the disk, the memory."""

from __future__ import annotations

import contextlib

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import Sandbox, SandboxProvider
from bot.sandbox.testing.fixtures import LONG_S, Make

# At most 200 MB in small files, then a success that nobody may see. What it wrote stays.
FILLING = """
import sys, time
block = bytes(range(256)) * 40960
for number in range(20):
    with open("part-%d" % number, "wb") as file:
        file.write(block)
    time.sleep(0.1)
time.sleep(20)
"""


class WallClauses:
    async def test_commands_are_not_root_and_can_not_change_the_system(self, sandbox: Sandbox) -> None:
        assert (await sandbox.exec(["id", "-u"], timeout_s=LONG_S)).stdout.strip() != b"0"
        for path in ("/etc/passwd", "/usr/bin/new", "/new"):
            assert not (await sandbox.exec(["sh", "-c", f"echo x >>{path}"], timeout_s=LONG_S)).ok
        assert (await sandbox.exec(["sh", "-c", "echo x >/tmp/new"], timeout_s=LONG_S)).ok

    async def test_what_fills_the_workspace_fails_or_is_ended_and_can_be_removed(
        self, provider: SandboxProvider, make: Make
    ) -> None:
        sandbox = await make(disk=40 * 1024**2)
        await sandbox.write("kept", b"still here")
        with contextlib.suppress(SandboxError):
            assert not (await sandbox.exec(["python3", "-c", FILLING], timeout_s=LONG_S)).ok
        # Where the offender was the whole sandbox, connecting goes on with what it kept.
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert await again.read("kept", max_bytes=100) == b"still here"
        parts = [entry.name for entry in await again.list(".") if entry.name.startswith("part-")]
        assert parts
        for name in parts:
            await again.remove(name)
        assert (await again.exec(["echo", "on"], timeout_s=LONG_S)).stdout == b"on\n"
        await again.write("other", b"x" * 1024**2)
        assert (await again.exec(["wc", "-c", "other"], timeout_s=LONG_S)).ok

    async def test_a_full_sandbox_leaves_another_one_alone(self, make: Make) -> None:
        other, full = await make(), await make(disk=40 * 1024**2)
        with contextlib.suppress(SandboxError):
            assert not (await full.exec(["python3", "-c", FILLING], timeout_s=LONG_S)).ok
        await other.write("file", b"x" * 50 * 1024**2)
        assert (await other.exec(["echo", "on"], timeout_s=LONG_S)).stdout == b"on\n"
