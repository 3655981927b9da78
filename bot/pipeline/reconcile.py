"""At start-up and every few minutes: what the rows say is due becomes due, what nobody owns is ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, assert_never

import structlog

from bot.db.store import SandboxRecord, SlotRecord, SnapshotRecord, Store
from bot.domain.errors import SandboxError
from bot.domain.task import STAGE_OF, Task
from bot.pipeline import progress
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps
from bot.sandbox.protocol import SandboxInfo, SandboxProvider

GRACE = timedelta(minutes=10)
"""How long nobody may know of something before it counts as nobody's: longer than any making of a sandbox or a
snapshot takes until it is recorded."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Something that no live task owns, and was ended. `record` is a row whose snapshot is gone."""

    what: Literal["sandbox", "snapshot", "record", "slot"]
    id: str
    task: str | None
    why: str


async def run(deps: Deps) -> None:
    """Safe at any time; touches only this deployment's tasks and sandboxes."""
    due = await deps.store.jobs()
    for task in await deps.store.tasks(only_open=True):
        stage = STAGE_OF.get(task.state)
        if stage is not None and not any(key == task.id for _, key in due):
            log.warning("work was due but not queued", task=task.id, stage=str(stage))
            await deps.engine.enqueue(stage, task.id)
    found = await reap(deps.store, deps.provider, now=deps.clock())
    for leftover in found:
        log.warning("ended a leftover", what=leftover.what, id=leftover.id, task=leftover.task, why=leftover.why)
    if found:
        deps.engine.freed()
    await progress.put_right(deps)


async def reap(store: Store, provider: SandboxProvider, *, now: datetime, dry_run: bool = False) -> list[Leftover]:
    """Ends what no live task owns, and says what that was; with `dry_run` it only says so.

    What belongs to a task at work, or to another deployment, is never touched. What no row knows at all may be just
    being made: it is ended once it has been seen so for as long as GRACE, over as many calls as that takes."""
    look = await _look(store, provider, now)
    strays = {stray.id: stray for stray in look.strays()}
    if not strays and not await store.strays():
        since = {}
    elif dry_run:
        since = await store.strays()
    else:
        since = await store.see_strays(strays.keys(), now)
    found = look.leftovers(now)
    found += [stray for stray in strays.values() if stray.id in since and now - since[stray.id] >= GRACE]
    if dry_run:
        return found
    return [leftover for leftover in found if await _end(store, provider, look, leftover)]


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What the provider lists and what the rows say; `over` are the tasks whose sandboxes were kept long enough."""

    infos: Sequence[SandboxInfo]
    snapshot_ids: frozenset[str]
    tasks: Mapping[str, Task]
    records: Sequence[SandboxRecord]
    slots: Sequence[SlotRecord]
    snapshots: Sequence[SnapshotRecord]
    over: frozenset[str]

    def strays(self) -> list[Leftover]:
        """What the provider lists of live tasks, and snapshots, without any row that knows it."""
        known = {record.provider_id for record in self.records} | {slot.sandbox_id for slot in self.slots}
        late = "no record of it: it was made when nobody waited for it any more"
        return [
            Leftover(what="sandbox", id=info.id, task=info.task, why=late)
            for info in self.infos
            if info.task in self.tasks and self.tasks[info.task].is_open and info.id not in known
        ] + [
            Leftover(what="snapshot", id=snapshot_id, task=None, why="no record of it")
            for snapshot_id in sorted(self.snapshot_ids - {record.id for record in self.snapshots})
        ]

    def leftovers(self, now: datetime) -> list[Leftover]:
        """What is nobody's beyond doubt."""
        running = {info.id for info in self.infos if info.running}
        return [
            *(
                Leftover(what="sandbox", id=info.id, task=info.task, why=why)
                for info in self.infos
                if (why := self._useless(info)) is not None
            ),
            *(
                Leftover(what="record", id=record.id, task=None, why="its snapshot is gone")
                for record in self.snapshots
                if record.id not in self.snapshot_ids and now - record.created_at >= GRACE
            ),
            *(
                Leftover(what="slot", id=slot.name, task=None, why="its sandbox does not run")
                for slot in self.slots
                if slot.sandbox_id not in running and now - slot.taken_at >= GRACE
            ),
        ]

    def _useless(self, info: SandboxInfo) -> str | None:
        owner = self.tasks.get(info.task)
        if owner is None:
            return "no task of that id"
        if not owner.is_open:
            return "its task is closed"
        if owner.is_busy:
            return None
        if info.kind != "work":
            return "its task has no use for it any more"
        return "it was kept as long as `sandbox.retention` says" if owner.id in self.over else None


async def _look(store: Store, provider: SandboxProvider, now: datetime) -> _Look:
    # The provider first: what is recorded or ended while we look is then seen in the rows.
    infos = await provider.list()
    snapshot_ids = frozenset(info.id for info in await provider.snapshots())
    tasks = {task.id: task for task in await store.tasks()}
    records = []
    over = set()
    for task in tasks.values():
        if not task.is_open or not (own := await store.sandboxes(task.id)):
            continue
        records += own
        rules = recorded.of(await store.last_episode(task.id))
        if not task.is_busy and now - task.updated_at > timedelta(seconds=rules.sandbox.retention):
            over.add(task.id)
    return _Look(
        infos=infos,
        snapshot_ids=snapshot_ids,
        tasks=tasks,
        records=records,
        slots=[slot for slot in await store.slots() if slot.expires_at > now],
        snapshots=await store.snapshots(),
        over=frozenset(over),
    )


async def _end(store: Store, provider: SandboxProvider, look: _Look, leftover: Leftover) -> bool:
    """False where it is in use after all."""
    match leftover.what:
        case "sandbox":
            owner = look.tasks.get(leftover.task or "")
            if owner is not None and await store.task(owner.id) != owner:
                return False  # somebody goes on with it right now
            await provider.kill(leftover.id)
            await store.free_slot(leftover.id)
            for record in look.records:
                if record.provider_id == leftover.id:
                    await store.forget_sandbox(record.name)
        case "snapshot":
            try:
                await provider.drop_snapshot(leftover.id)
            except SandboxError as exc:
                if exc.reason != "limit_exceeded":
                    raise
                return False  # a sandbox lives on it
        case "record":
            await store.forget_snapshot(leftover.id)
        case "slot":
            [slot] = [slot for slot in look.slots if slot.name == leftover.id]
            return await store.free_slot(slot.name, taken_at=slot.taken_at)
        case _ as never:
            assert_never(never)
    return True
