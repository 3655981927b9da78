"""Clauses about snapshots: what later sandboxes start from, and that nobody changes."""

from __future__ import annotations

import asyncio

from bot.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec, SnapshotInfo
from bot.sandbox.testing.fixtures import LONG_S, Another, Make, left, mark, refused

NONSENSE = ("no-such-snapshot", "../volumes", "", "a b", "coder-0123456789abcdef", "x" * 5000)


class SnapshotClauses:
    async def test_a_sandbox_made_from_a_snapshot_has_its_files(self, make: Make, snapshot: SnapshotInfo) -> None:
        await _is_as_prepared(await make(snapshot=snapshot.id))

    async def test_a_snapshots_sandbox_is_gone_and_the_snapshot_listed(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.write("file", b"prepared")
        kept = await provider.snapshot(sandbox.id)
        try:
            assert kept in await provider.snapshots()
            assert await provider.list(task=spec.task) == []
            with refused("gone"):
                await provider.connect(sandbox.id, lifetime_s=60)
            with refused("gone"):
                await sandbox.exec(["true"], timeout_s=LONG_S)
            with refused("gone"):
                await provider.snapshot(sandbox.id)
            await provider.kill(sandbox.id)
            assert kept in await provider.snapshots()
        finally:
            await provider.drop_snapshot(kept.id)
        assert kept not in await provider.snapshots()

    async def test_changes_show_neither_in_another_sandbox_nor_in_the_snapshot(
        self, make: Make, snapshot: SnapshotInfo
    ) -> None:
        one, other = await asyncio.gather(make(snapshot=snapshot.id), make(snapshot=snapshot.id))
        changing = "printf more >>file; rm -r folder link; echo new >new; ln -s / link"
        assert (await one.exec(["sh", "-c", changing], timeout_s=LONG_S)).ok
        await one.write("file", b"rewritten")
        await _is_as_prepared(other)
        await _is_as_prepared(await make(snapshot=snapshot.id))
        assert await one.read("file", max_bytes=100) == b"rewritten"
        names = [entry.name for entry in await one.list(".") if not entry.name.startswith(".")]
        assert names == ["file", "link", "new"]

    async def test_a_sandbox_made_from_a_snapshot_pauses_and_goes_on(
        self, provider: SandboxProvider, another: Another, make: Make, snapshot: SnapshotInfo
    ) -> None:
        sandbox = await make(snapshot=snapshot.id)
        await sandbox.write("new", b"mine")
        await sandbox.remove("file")
        await sandbox.pause()
        again = await another("same").connect(sandbox.id, lifetime_s=300)
        assert await again.read("new", max_bytes=9) == b"mine"
        names = [entry.name for entry in await again.list(".") if not entry.name.startswith(".")]
        assert names == ["folder", "link", "new"]
        assert (await again.exec(["folder/run.sh"], timeout_s=LONG_S)).stdout == b"ran\n"

    async def test_a_snapshot_of_what_began_from_one_holds_both(
        self, provider: SandboxProvider, make: Make, snapshot: SnapshotInfo
    ) -> None:
        middle = await make(snapshot=snapshot.id)
        await middle.write("new", b"mine")
        upper = await provider.snapshot(middle.id)
        try:
            sandbox = await make(snapshot=upper.id)
            assert await sandbox.read("new", max_bytes=9) == b"mine"
            assert await sandbox.read("file", max_bytes=9) == b"prepared"
            assert (await sandbox.exec(["folder/run.sh"], timeout_s=LONG_S)).stdout == b"ran\n"
            await provider.kill(sandbox.id)
        finally:
            await provider.drop_snapshot(upper.id)

    async def test_nothing_that_ran_before_a_snapshot_runs_on(
        self, provider: SandboxProvider, make: Make, spec: SandboxSpec
    ) -> None:
        origin, marked = await make(), mark()
        writing = 'sh -c "while :; do date >>ticks; sleep 0.05; done" "$0" >/dev/null 2>&1 &'
        assert (await origin.exec(["sh", "-c", writing, marked], timeout_s=LONG_S)).ok
        assert await left(origin, marked) >= 1
        kept = await provider.snapshot(origin.id)
        try:
            sandbox = await make(snapshot=kept.id)
            assert await left(sandbox, marked) == 0
            size = {entry.name: entry.size for entry in await sandbox.list(".")}.get("ticks")
            await provider.kill(sandbox.id)
            sandbox = await make(snapshot=kept.id)
            assert {entry.name: entry.size for entry in await sandbox.list(".")}.get("ticks") == size
            await provider.kill(sandbox.id)
        finally:
            await provider.drop_snapshot(kept.id)

    async def test_a_dropped_snapshot_is_gone_and_dropping_again_is_harmless(
        self, provider: SandboxProvider, make: Make, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        kept = await provider.snapshot(sandbox.id)
        await provider.drop_snapshot(kept.id)
        await provider.drop_snapshot(kept.id)
        with refused("gone"):
            await make(snapshot=kept.id)
        assert await provider.list(task=spec.task) == []

    async def test_a_snapshot_that_a_sandbox_lives_on_is_not_dropped(
        self, provider: SandboxProvider, make: Make, snapshot: SnapshotInfo
    ) -> None:
        sandbox = await make(snapshot=snapshot.id)
        with refused("limit_exceeded"):
            await provider.drop_snapshot(snapshot.id)
        await _is_as_prepared(sandbox)
        await sandbox.pause()
        with refused("limit_exceeded"):
            await provider.drop_snapshot(snapshot.id)
        await _is_as_prepared(await provider.connect(sandbox.id, lifetime_s=300))

    async def test_a_snapshot_that_never_was_is_gone(
        self, provider: SandboxProvider, make: Make, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        for nonsense in (*NONSENSE, sandbox.id):
            await provider.drop_snapshot(nonsense)
            with refused("gone"):
                await make(snapshot=nonsense)
        assert [info.id for info in await provider.list(task=spec.task)] == [sandbox.id]
        assert (await sandbox.exec(["true"], timeout_s=LONG_S)).ok

    async def test_another_deployment_neither_sees_nor_drops_nor_uses_a_snapshot(
        self, another: Another, make: Make, snapshot: SnapshotInfo, spec: SandboxSpec
    ) -> None:
        stranger = another("stranger")
        assert snapshot.id not in [info.id for info in await stranger.snapshots()]
        await stranger.drop_snapshot(snapshot.id)
        with refused("gone"):
            await stranger.create(
                SandboxSpec(
                    name=spec.name, kind="work", task=spec.task, image=spec.image, lifetime_s=60, snapshot=snapshot.id
                )
            )
        await _is_as_prepared(await make(snapshot=snapshot.id))


async def _is_as_prepared(sandbox: Sandbox) -> None:
    """The workspace is as the fixture `snapshot` left it, and can be written."""
    rows = [(entry.name, entry.kind) for entry in await sandbox.list(".") if not entry.name.startswith(".")]
    assert rows == [("file", "file"), ("folder", "dir"), ("link", "link")]
    assert await sandbox.read("file", max_bytes=100) == b"prepared"
    assert (await sandbox.exec(["folder/run.sh"], timeout_s=LONG_S)).stdout == b"ran\n"
    assert (await sandbox.exec(["readlink", "link"], timeout_s=LONG_S)).stdout == b"file\n"
    writing = "touch folder/mine && rm folder/mine && test -O file"
    assert (await sandbox.exec(["sh", "-c", writing], timeout_s=LONG_S)).ok
