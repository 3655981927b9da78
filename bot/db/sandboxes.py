"""What is known of sandboxes: those asked for, the slots they hold, the snapshots they start from, and the
checkpoints that outlive them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from sqlmodel import col, delete, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.database import Database, hold
from bot.db.tables import CheckpointRow, EpisodeRow, ReceiptRow, SandboxRow, SlotRow, SnapshotRow, StrayRow
from bot.domain.patch import Change, Patch
from bot.domain.task import Lease

KEPT_CHECKPOINTS = 3
"""Of each task, beside those a receipt rests on."""

_SLOTS_LOCK, _SNAPSHOTS_LOCK, _STRAYS_LOCK = 7_301, 7_302, 7_303
"""Any numbers will do, as long as nothing else in this database uses them."""


@dataclass(frozen=True, kw_only=True)
class SandboxRecord:
    """A sandbox we asked for; `provider_id` is None while nobody knows whether it was made, `snapshot_id` where it
    was started from nothing."""

    name: str
    task_id: str
    kind: Literal["work", "verify", "fetch", "setup"]
    provider: str
    provider_id: str | None = None
    image_id: str = ""
    ready: bool = False
    snapshot_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    """A prepared file system that sandboxes may start from: `key` says what went into it, `commit` what of the
    repository; `size` in bytes, None where the provider does not say."""

    id: str
    key: str
    installation_id: int
    repository_id: int
    image_id: str
    commit: str
    size: int | None
    created_at: datetime
    used_at: datetime


@dataclass(frozen=True, kw_only=True)
class SlotRecord:
    """The right of one sandbox to run; `sandbox_id` is None while nobody knows whether it was made."""

    name: str
    kind: str
    sandbox_id: str | None
    taken_at: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The task's patch at a moment, relative to `base_sha`."""

    id: int
    base_sha: str
    patch: Patch


class Sandboxes(Database):
    """The part of the store that knows sandboxes."""

    # Sandboxes

    async def put_sandbox(self, lease: Lease, record: SandboxRecord) -> None:
        state = "ready" if record.ready else "made" if record.provider_id else "asked for"
        async with self._write(f"{record.kind} sandbox {state}") as session:
            await hold(session, lease)
            await session.merge(SandboxRow(**asdict(record)))

    async def sandboxes(self, task_id: str) -> list[SandboxRecord]:
        async with self._read() as session:
            rows = await session.exec(select(SandboxRow).where(SandboxRow.task_id == task_id))
            return [SandboxRecord(**row.model_dump()) for row in rows]

    async def forget_sandbox(self, name: str) -> None:
        """To be called once the provider has ended it."""
        async with self._write("sandbox ended") as session:
            await session.exec(delete(SandboxRow).where(col(SandboxRow.name) == name))

    # Slots

    async def take_slot(
        self,
        name: str,
        kind: str,
        *,
        sandbox_id: str | None,
        fits: Callable[[Sequence[str]], bool],
        now: datetime,
        expires_at: datetime,
    ) -> int | None:
        """Gives a sandbox the right to run if it `fits` beside the kinds that do, or renews the one that it has by
        its name or id; None where that was done, else how many are in use. One at a time over all processes."""
        async with self._write("slot taken") as session:
            await self._alone(session, _SLOTS_LOCK)
            mine = col(SlotRow.name) == name
            if sandbox_id is not None:
                mine = mine | (col(SlotRow.sandbox_id) == sandbox_id)
            held = (await session.exec(select(SlotRow).where(mine, col(SlotRow.expires_at) > now))).first()
            if held is not None:
                # Made anew under the same name, it is another sandbox: the old one ends first.
                held.sandbox_id, held.taken_at, held.expires_at = sandbox_id, now, expires_at
                session.add(held)
                return None
            await session.exec(delete(SlotRow).where(col(SlotRow.expires_at) <= now))
            running = (await session.exec(select(SlotRow.kind))).all()
            if not fits(running):
                return len(running)
            session.add(SlotRow(name=name, kind=kind, sandbox_id=sandbox_id, taken_at=now, expires_at=expires_at))
            return None

    async def fill_slot(self, name: str, sandbox_id: str) -> None:
        """The sandbox of that name was made."""
        async with self._write("slot filled") as session:
            await session.exec(update(SlotRow).where(col(SlotRow.name) == name).values(sandbox_id=sandbox_id))

    async def extend_slot(self, sandbox_id: str, expires_at: datetime) -> None:
        async with self._write("slot extended") as session:
            mine = col(SlotRow.sandbox_id) == sandbox_id
            await session.exec(update(SlotRow).where(mine).values(expires_at=expires_at))

    async def free_slot(self, key: str, *, taken_at: datetime | None = None) -> bool:
        """The sandbox of that name or id runs no more. Whether it held a slot (taken then, and not renewed since)."""
        mine = (col(SlotRow.name) == key) | (col(SlotRow.sandbox_id) == key)
        if taken_at is not None:
            mine = mine & (col(SlotRow.taken_at) == taken_at)
        async with self._write("slot freed") as session:
            return bool((await session.exec(delete(SlotRow).where(mine))).rowcount)

    async def used_slots(self, now: datetime) -> Sequence[str]:
        """The kinds that hold one."""
        async with self._read() as session:
            return (await session.exec(select(SlotRow.kind).where(col(SlotRow.expires_at) > now))).all()

    async def slots(self) -> list[SlotRecord]:
        async with self._read() as session:
            return [SlotRecord(**row.model_dump()) for row in await session.exec(select(SlotRow))]

    # Strays

    async def see_strays(self, ids: Collection[str], now: datetime) -> dict[str, datetime]:
        """These sandboxes and snapshots, and no others, are at the provider and known to no row. Since when each has
        been seen so."""
        async with self._write("strays seen") as session:
            await self._alone(session, _STRAYS_LOCK)
            await session.exec(delete(StrayRow).where(col(StrayRow.id).not_in(list(ids))))
            since = {row.id: row.seen_at for row in await session.exec(select(StrayRow))}
            session.add_all(StrayRow(id=new, seen_at=now) for new in set(ids) - since.keys())
            return {stray: since.get(stray, now) for stray in ids}

    async def strays(self) -> dict[str, datetime]:
        """What was seen so last, and since when."""
        async with self._read() as session:
            return {row.id: row.seen_at for row in await session.exec(select(StrayRow))}

    # Snapshots

    async def put_snapshot(self, record: SnapshotRecord) -> str | None:
        """From now on sandboxes may start from it. The id of the one that had the same key before, now nobody's."""
        async with self._write("snapshot recorded") as session:
            await self._alone(session, _SNAPSHOTS_LOCK)
            old = (await session.exec(select(SnapshotRow).where(SnapshotRow.key == record.key))).first()
            replaced = old.id if old is not None and old.id != record.id else None
            if old is not None and replaced is not None:
                await session.delete(old)
                await session.flush()  # before its successor comes with the same key
            await session.merge(SnapshotRow(**asdict(record)))
            return replaced

    async def newest_snapshot(self, installation_id: int, repository_id: int, image_id: str) -> SnapshotRecord | None:
        query = (
            select(SnapshotRow)
            .where(SnapshotRow.installation_id == installation_id, SnapshotRow.repository_id == repository_id)
            .where(SnapshotRow.image_id == image_id)
            .order_by(col(SnapshotRow.created_at).desc())
            .limit(1)
        )
        async with self._read() as session:
            row = (await session.exec(query)).first()
            return SnapshotRecord(**row.model_dump()) if row else None

    async def snapshots(self) -> list[SnapshotRecord]:
        """All of them, those that were not used for the longest time first."""
        async with self._read() as session:
            rows = await session.exec(select(SnapshotRow).order_by(col(SnapshotRow.used_at)))
            return [SnapshotRecord(**row.model_dump()) for row in rows]

    async def use_snapshot(self, snapshot_id: str, now: datetime) -> None:
        """Something was started from it."""
        async with self._write("snapshot used") as session:
            await session.exec(update(SnapshotRow).where(col(SnapshotRow.id) == snapshot_id).values(used_at=now))

    async def forget_snapshot(self, snapshot_id: str) -> None:
        """From now on nothing starts from it."""
        async with self._write("snapshot forgotten") as session:
            await session.exec(delete(SnapshotRow).where(col(SnapshotRow.id) == snapshot_id))

    # Checkpoints

    async def add_checkpoint(self, lease: Lease, base_sha: str, patch: Patch) -> int:
        """The id of the newest checkpoint, which holds this patch: a new one, or the last if it is the same and
        no receipt rests on it (a patch handed over again is judged again). Of the older ones a few are kept, and
        those that a receipt rests on."""
        async with self._write("checkpoint saved") as session:
            await hold(session, lease)
            return await keep_checkpoint(session, lease.task_id, base_sha, patch)

    async def checkpoint(self, task_id: str) -> Checkpoint | None:
        """The newest one."""
        query = select(CheckpointRow).where(CheckpointRow.task_id == task_id).order_by(col(CheckpointRow.id).desc())
        async with self._read() as session:
            row = (await session.exec(query.limit(1))).first()
            if row is None:
                return None
            assert row.id is not None
            return Checkpoint(id=row.id, base_sha=row.base_sha, patch=_unpack(row.patch))


async def keep_checkpoint(session: AsyncSession, task_id: str, base_sha: str, patch: Patch) -> int:
    """As `Sandboxes.add_checkpoint`, within a transaction that holds the task."""
    packed = _pack(patch)
    of_task = select(CheckpointRow).where(CheckpointRow.task_id == task_id)
    newest = (await session.exec(of_task.order_by(col(CheckpointRow.id).desc()).limit(1))).first()
    judging = (
        select(ReceiptRow.checkpoint_id)
        .join(EpisodeRow, col(EpisodeRow.id) == col(ReceiptRow.episode_id))
        .where(EpisodeRow.task_id == task_id)
    )
    judged = set((await session.exec(judging)).all())
    if newest is not None and (newest.base_sha, newest.patch) == (base_sha, packed):
        assert newest.id is not None
        if newest.id not in judged:
            return newest.id
    row = CheckpointRow(task_id=task_id, base_sha=base_sha, patch=packed)
    session.add(row)
    await session.flush()
    assert row.id is not None
    kept = (
        select(CheckpointRow.id)
        .where(CheckpointRow.task_id == task_id)
        .order_by(col(CheckpointRow.id).desc())
        .limit(KEPT_CHECKPOINTS)
    )
    needed = {*(await session.exec(kept)).all(), *judged}
    old = delete(CheckpointRow).where(col(CheckpointRow.task_id) == task_id, col(CheckpointRow.id).not_in(needed))
    await session.exec(old)
    return row.id


def _pack(patch: Patch) -> bytes:
    changes = [[c.path, c.mode, base64.b64encode(c.content).decode()] for c in patch.changes]
    return zlib.compress(json.dumps(changes).encode())


def _unpack(data: bytes) -> Patch:
    return Patch.of(
        *(
            Change(path=path, mode=mode, content=base64.b64decode(content))
            for path, mode, content in json.loads(zlib.decompress(data))
        )
    )
