"""Clauses about who holds a sandbox: a process whose lease was taken over can do nothing in it any more."""

from __future__ import annotations

import contextlib

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import Sandbox, SandboxProvider
from bot.sandbox.testing.fixtures import LONG_S, Another, Make, refused


class EpochClauses:
    async def test_after_a_later_epoch_connected_an_earlier_one_runs_nothing_and_changes_no_file(
        self, another: Another, make: Make
    ) -> None:
        zombie = await make(epoch=3)
        await zombie.write("file", b"before")
        holder = await another("same").connect(zombie.id, lifetime_s=300, epoch=4)
        await _is_fenced_off(zombie)
        assert await holder.read("file", max_bytes=100) == b"before"
        assert [entry.name for entry in await holder.list(".") if not entry.name.startswith(".")] == ["file"]
        await holder.write("file", b"after")
        assert (await holder.exec(["cat", "file"], timeout_s=LONG_S)).stdout == b"after"

    async def test_who_was_connected_by_this_same_process_is_fenced_off_too(
        self, provider: SandboxProvider, make: Make
    ) -> None:
        zombie = await make(epoch=1)
        holder = await provider.connect(zombie.id, lifetime_s=300, epoch=2)
        await _is_fenced_off(zombie)
        assert (await holder.exec(["true"], timeout_s=LONG_S)).ok

    async def test_a_lower_epoch_can_not_connect_and_the_same_one_can(
        self, another: Another, provider: SandboxProvider, make: Make
    ) -> None:
        made = await make(epoch=5)
        later = another("same")
        with refused("permission_denied"):
            await later.connect(made.id, lifetime_s=300, epoch=4)
        assert (await made.exec(["true"], timeout_s=LONG_S)).ok
        again = await later.connect(made.id, lifetime_s=300, epoch=5)
        assert (await again.exec(["true"], timeout_s=LONG_S)).ok
        with refused("permission_denied"):
            await provider.connect(made.id, lifetime_s=300, epoch=0)

    async def test_an_epoch_outlasts_a_pause(self, another: Another, provider: SandboxProvider, make: Make) -> None:
        zombie = await make(epoch=1)
        holder = await another("same").connect(zombie.id, lifetime_s=300, epoch=7)
        await holder.pause()
        with refused("permission_denied"):
            await provider.connect(zombie.id, lifetime_s=300, epoch=6)
        resumed = await another("same").connect(zombie.id, lifetime_s=300, epoch=7)
        await _is_fenced_off(zombie)
        assert (await resumed.exec(["true"], timeout_s=LONG_S)).ok

    async def test_commands_can_not_bring_an_earlier_epoch_back(self, another: Another, make: Make) -> None:
        zombie = await make(epoch=1)
        holder = await another("same").connect(zombie.id, lifetime_s=300, epoch=2)
        wiping = (
            "find / -xdev -user $(id -u) -type f -exec rm -f {} + 2>/dev/null; rm -rf /tmp/* /dev/shm/*; kill -9 -1"
        )
        with contextlib.suppress(SandboxError):
            await holder.exec(["sh", "-c", wiping], timeout_s=LONG_S)
        await _is_fenced_off(zombie)
        assert (await holder.exec(["echo", "on"], timeout_s=LONG_S)).stdout == b"on\n"


async def _is_fenced_off(zombie: Sandbox) -> None:
    for trusted in (True, False):
        with refused("permission_denied"):
            await zombie.exec(["touch", "by-the-zombie"], timeout_s=LONG_S, trusted_status=trusted)
    with refused("permission_denied"):
        await zombie.write("by-the-zombie", b"x")
    with refused("permission_denied"):
        await zombie.remove("file")
