"""What no live task owns is found on the engine and ended; everything else is left alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from bot.db.store import SandboxRecord, SnapshotRecord
from bot.domain.task import State, Task
from bot.pipeline import reconcile
from bot.pipeline.reconcile import GRACE, Leftover
from bot.sandbox.docker import DockerProvider
from bot.sandbox.protocol import Kind, SandboxSpec
from tests.stories.harness import IMAGE, Story, fix, story, submit


@asynccontextmanager
async def deployment(name: str) -> AsyncIterator[DockerProvider]:
    """Another bot's sandboxes on the same engine."""
    folder = Path(tempfile.mkdtemp(prefix="coder-"))
    provider = DockerProvider(deployment=name, egress_dir=folder)
    try:
        yield provider
    finally:
        for info in await provider.list():
            await provider.kill(info.id)
        for snapshot in await provider.snapshots():
            await provider.drop_snapshot(snapshot.id)
        await provider.aclose()
        shutil.rmtree(folder, ignore_errors=True)


def spec(name: str, task: str, kind: Kind = "work") -> SandboxSpec:
    return SandboxSpec(
        name=name, kind=kind, task=task, image=IMAGE, lifetime_s=3600, memory=128 * 2**20, cpus=0.5, disk=2**28
    )


async def made(provider: DockerProvider, name: str, task: str, kind: Kind = "work") -> str:
    """A sandbox that only the engine knows."""
    sandbox = await provider.create(spec(name, task, kind))
    await sandbox.aclose()
    return sandbox.id


async def reap(bot: Story, *, dry_run: bool = False) -> list[Leftover]:
    deps = bot.bot.deps
    return await reconcile.reap(deps.store, deps.provider, now=bot.clock(), dry_run=dry_run)


async def ids(bot: Story) -> set[str]:
    return {info.id for info in await bot.bot.deps.provider.list()}


async def queued(bot: Story) -> Task:
    """A task that is at work, with nothing made for it yet."""
    await bot.comment("/coder fix")
    job = await bot.bot.deps.store.start_job(bot.clock(), busy=())
    assert job is not None
    await bot.bot.engine._run(job)  # intake alone
    await bot.bot.deps.store.end_job(job)
    [task] = await bot.bot.deps.store.tasks()
    assert task.state is State.QUEUED
    return task


async def test_sandboxes_of_no_task_or_a_closed_one_are_ended_and_another_deployments_are_not() -> None:
    async with story() as bot, deployment(bot.settings.coder_deployment + "-b") as other:
        bot.script(fix(), submit())
        await bot.comment("/coder fix")
        await bot.settle()
        [task] = await bot.bot.deps.store.tasks()
        docker = bot.bot.deps.provider._provider
        assert isinstance(docker, DockerProvider)
        [own] = await ids(bot)
        stray = await made(docker, "stray", "nobody")
        theirs = await made(other, "stray", task.id)
        assert [(item.id, item.why) for item in await reap(bot, dry_run=True)] == [(stray, "no task of that id")]
        assert await ids(bot) == {own, stray}
        assert [item.id for item in await reap(bot)] == [stray]
        assert await ids(bot) == {own}
        await bot.github.close_issue(bot.repository, bot.issue, author="maintainer")
        await bot.github.close_pull(bot.repository, task.pull_request or 0, author="maintainer")
        await bot.settle()
        late = await made(docker, "late", task.id)
        assert [(item.id, item.why) for item in await reap(bot)] == [(late, "its task is closed")]
        assert await reap(bot) == []
        assert [info.id for info in await other.list()] == [theirs]


async def test_what_is_just_being_made_is_not_touched_and_what_came_too_late_is_ended() -> None:
    async with story() as bot:
        task = await queued(bot)
        docker = bot.bot.deps.provider._provider
        assert isinstance(docker, DockerProvider)
        late = await made(docker, f"{task.id}-work-of-a-timed-out-call", task.id)
        assert await reap(bot) == []
        bot.clock.ahead += GRACE - timedelta(seconds=60)
        assert await reap(bot) == []
        bot.clock.ahead += timedelta(seconds=60)
        assert [item.id for item in await reap(bot, dry_run=True)] == [late]
        assert [(item.what, item.id, item.task) for item in await reap(bot)] == [("sandbox", late, task.id)]
        assert await reap(bot) == []
        assert await bot.bot.deps.store.strays() == {}


async def test_what_a_task_at_work_has_recorded_is_never_touched() -> None:
    async with story() as bot:
        task = await queued(bot)
        deps = bot.bot.deps
        sandbox = await deps.provider.create(spec("w", task.id))
        fetch = await deps.provider.create(spec("f", task.id, "fetch"))  # known by its slot alone
        lease = await deps.store.lease(task.id)
        record = SandboxRecord(name="w", task_id=task.id, kind="work", provider="docker", provider_id=sandbox.id)
        await deps.store.put_sandbox(lease, record)
        bot.clock.ahead += timedelta(minutes=30)
        assert await reap(bot) == []
        bot.clock.ahead += timedelta(days=400)  # at work, retention does not count
        found = [item for item in await reap(bot) if item.what == "sandbox"]
        assert found == []
        assert sandbox.id in await ids(bot)
        await sandbox.aclose()
        await fetch.aclose()


async def test_a_paused_sandbox_is_kept_as_long_as_retention_says() -> None:
    async with story() as bot:
        bot.script(fix(), submit())
        await bot.comment("/coder fix")
        await bot.settle()
        [kept] = await ids(bot)
        bot.clock.ahead += timedelta(days=13)
        assert await reap(bot) == []
        bot.clock.ahead += timedelta(days=2)
        assert [(item.id, item.why) for item in await reap(bot)] == [
            (kept, "it was kept as long as `sandbox.retention` says")
        ]
        [task] = await bot.bot.deps.store.tasks()
        assert await bot.bot.deps.store.sandboxes(task.id) == []
        bot.script(fix("return a + b", "return b + a"), submit())
        await bot.comment("/coder fix the other way round")
        await bot.settle()  # a new one is made, and goes on from what was saved
        assert await bot.code() == "VERIFIED"


async def test_slots_without_a_sandbox_are_freed_and_those_with_one_are_not() -> None:
    async with story() as bot:
        task = await queued(bot)
        store = bot.bot.deps.store
        now = bot.clock()

        async def take(name: str, sandbox_id: str | None) -> None:
            end = now + timedelta(hours=3)
            await store.take_slot(name, "work", sandbox_id=sandbox_id, fits=lambda _: True, now=now, expires_at=end)

        await take("asked for", None)
        await take("ended", "0123456789ab")
        sandbox = await bot.bot.deps.provider.create(spec("runs", task.id))
        assert await reap(bot) == []
        bot.clock.ahead += GRACE
        assert sorted((item.what, item.id) for item in await reap(bot)) == [("slot", "asked for"), ("slot", "ended")]
        assert [slot.name for slot in await store.slots()] == ["runs"]
        await sandbox.aclose()


def snapshot(snapshot_id: str, now: datetime) -> SnapshotRecord:
    return SnapshotRecord(
        id=snapshot_id,
        key=snapshot_id,
        installation_id=1,
        repository_id=1,
        image_id="i",
        commit="c",
        size=None,
        created_at=now,
        used_at=now,
    )


async def test_snapshots_and_their_rows_are_brought_together() -> None:
    async with story() as bot, deployment(bot.settings.coder_deployment + "-b") as other:
        deps = bot.bot.deps
        docker = deps.provider._provider
        assert isinstance(docker, DockerProvider)
        known = await docker.snapshot(await made(docker, "a", "t", "setup"))
        orphan = await docker.snapshot(await made(docker, "b", "t", "setup"))
        theirs = await other.snapshot(await made(other, "c", "t", "setup"))
        await deps.store.put_snapshot(snapshot(known.id, bot.clock()))
        await deps.store.put_snapshot(snapshot("gone", bot.clock()))
        assert await reap(bot) == []
        bot.clock.ahead += GRACE
        found = [(item.what, item.id) for item in await reap(bot)]
        assert sorted(found) == [("record", "gone"), ("snapshot", orphan.id)]
        assert [item.id for item in await docker.snapshots()] == [known.id]
        assert [item.id for item in await deps.store.snapshots()] == [known.id]
        assert [item.id for item in await other.snapshots()] == [theirs.id]
        await docker.drop_snapshot(known.id)


async def test_a_snapshot_that_a_sandbox_lives_on_stays_until_that_has_ended() -> None:
    async with story() as bot:
        task = await queued(bot)
        deps = bot.bot.deps
        docker = deps.provider._provider
        assert isinstance(docker, DockerProvider)
        orphan = await docker.snapshot(await made(docker, "a", task.id, "setup"))
        living = await deps.provider.create(replace(spec("w", task.id), snapshot=orphan.id))
        await living.aclose()
        await reap(bot)
        bot.clock.ahead += GRACE
        assert await reap(bot) == []
        await deps.provider.kill(living.id)
        assert [item.id for item in await reap(bot)] == [orphan.id]
