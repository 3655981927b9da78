"""What the tasks' live comments were last made to say, so that none is edited for nothing and none stays wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import col, func, select, update

from bot.db.database import Database, hold
from bot.db.tables import DeliveryRow, TaskRow, TellingRow
from bot.domain.task import Lease, State, Task

DOUBT = timedelta(minutes=2)
"""How long after its beginning an edit whose outcome nobody knows may still arrive."""


@dataclass(frozen=True, kw_only=True)
class Telling:
    """`edits` counts what was begun; `gist` and `digest` are of what GitHub has taken last, empty and None while
    nobody knows; at `again_at` it has to be told once more: an edit that was lost sight of may have come later."""

    edits: int
    gist: str
    digest: str | None
    edited_at: datetime
    again_at: datetime | None


class Told(Database):
    """The part of the store that knows what people were told."""

    async def telling(self, task_id: str) -> Telling | None:
        async with self._read() as session:
            row = await session.get(TellingRow, task_id)
            return _telling(row) if row else None

    async def tellings(self) -> dict[str, Telling]:
        """All of them, by their tasks."""
        async with self._read() as session:
            return {row.task_id: _telling(row) for row in await session.exec(select(TellingRow))}

    async def begin_telling(
        self, task_id: str, *, now: datetime, lease: Lease | None = None, edits: int | None = None
    ) -> bool:
        """An edit is about to be sent, by the task's lease where there is one. False where `edits` is given and
        others were begun since: whoever did that knows better. If one before it has not ended, nobody knows when it
        will arrive: then it has to be told again."""
        async with self._write("telling begun") as session:
            # One at a time, also where there is no row yet.
            await session.exec(select(TaskRow.id).where(TaskRow.id == task_id).with_for_update())
            if lease is not None:
                await hold(session, lease)
            row = await session.get(TellingRow, task_id)
            if edits is not None and edits != (row.edits if row else 0):
                return False
            if row is None:
                session.add(TellingRow(task_id=task_id, edits=1, edited_at=now))
                return True
            if row.again_at is not None and row.again_at <= now:
                row.again_at = None
            if row.digest is None:
                row.again_at = now + DOUBT
            row.edits += 1
            row.gist, row.digest, row.edited_at = "", None, now
            session.add(row)
            return True

    async def end_telling(self, task_id: str, *, gist: str, digest: str | None) -> None:
        """GitHub has taken it, or (with what was known before) surely has not."""
        async with self._write("telling ended") as session:
            mine = col(TellingRow.task_id) == task_id
            await session.exec(update(TellingRow).where(mine).values(gist=gist, digest=digest))

    async def waiting_longer(self, task: Task) -> int:
        """How many tasks have waited longer than this one for a sandbox of the same kind."""
        alike = (State.VERIFYING,) if task.state is State.VERIFYING else (State.QUEUED, State.WORKING)
        query = select(func.count()).where(
            col(TaskRow.needs_slot),
            col(TaskRow.state).in_(alike),
            col(TaskRow.id) != task.id,
            col(TaskRow.updated_at) < task.updated_at,
        )
        async with self._read() as session:
            return (await session.exec(query)).one()

    async def conversation_of(self, comment_id: int) -> int | None:
        """The number of the issue or pull request that a comment was made on which brought us a command."""
        async with self._read() as session:
            query = select(DeliveryRow.payload).where(DeliveryRow.subject == f"comment {comment_id}")
            payload = (await session.exec(query)).first()
            return None if payload is None else payload.get("number")


def _telling(row: TellingRow) -> Telling:
    return Telling(**row.model_dump(exclude={"task_id"}))
