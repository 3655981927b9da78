"""What is known of deliveries: recorded once, decided once, and made due again where their intake has failed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.database import Database
from bot.db.tables import DeliveryRow, JobRow
from bot.domain.event import Commented, Event, Ignored, Marked, Reviewed
from bot.domain.task import Stage

DUPLICATE = "duplicate of another delivery"
FAILED = "failed"
"""How the outcome of a delivery begins whose intake was given up: delivered again, it is tried again."""
FORGOTTEN = Ignored(reason="it was decided long ago, and what it said is no longer kept")

Reopening = Literal["due", "waiting", "duplicate", "decided", "unknown"]
"""What came of the wish to have a delivery's intake tried again: it is `due`, or was so before (`waiting`); another
one about the same has come meanwhile (`duplicate`); there is nothing left to decide (`decided`); it never came."""

_DELIVERIES_LOCK, _REFUSALS_LOCK = 7_304, 7_305
_AT_ONCE = 500
"""How many values one statement names; the databases have limits."""

_events: TypeAdapter[Event] = TypeAdapter(Event)


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A webhook call as it was recorded; `outcome` is empty until intake has decided."""

    guid: str
    name: str
    event: Event
    received_at: datetime
    outcome: str
    answer: str | None
    task_id: str | None


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A delivery without what it said."""

    guid: str
    name: str
    received_at: datetime
    outcome: str
    task_id: str | None


class Deliveries(Database):
    """The part of the store that knows deliveries."""

    async def accept(self, guid: str, name: str, event: Event, *, now: datetime) -> bool:
        """Records a delivery and makes its intake due, in one transaction. False where it is known already, unless
        its intake has failed: then it is tried anew. What is about the same as another delivery is only recorded."""
        try:
            async with self._write("delivery accepted") as session:
                if _subject(event) is not None:
                    await self._alone(session, _DELIVERIES_LOCK)
                row = await session.get(DeliveryRow, guid, with_for_update=True)
                if row is None:
                    payload = _events.dump_python(event, mode="json")
                    row = DeliveryRow(guid=guid, name=name, payload=payload, received_at=now)
                elif not row.outcome.startswith(FAILED):
                    return False
                await _open(session, row, event, now)
        except IntegrityError:
            return False
        return True

    async def reopen(self, guid: str, *, now: datetime) -> Reopening:
        """Makes the intake of a delivery due again if it has failed, or was lost before it decided."""
        async with self._write("delivery reopened") as session:
            await self._alone(session, _DELIVERIES_LOCK)
            row = await session.get(DeliveryRow, guid, with_for_update=True)
            if row is None:
                return "unknown"
            if row.outcome and not row.outcome.startswith(FAILED):
                return "decided"
            if not row.outcome and await _is_due(session, guid):
                return "waiting"
            await _open(session, row, _events.validate_python(row.payload), now)
            return "duplicate" if row.outcome else "due"

    async def delivery(self, guid: str) -> Delivery | None:
        async with self._read() as session:
            row = await session.get(DeliveryRow, guid)
            return _delivery(row) if row else None

    async def deliveries(self, *, limit: int, only_failed: bool = False) -> list[Listed]:
        """The newest ones, the newest first; or of those whose intake has failed."""
        query = select(DeliveryRow).order_by(col(DeliveryRow.received_at).desc(), col(DeliveryRow.guid)).limit(limit)
        if only_failed:
            query = query.where(col(DeliveryRow.outcome).startswith(FAILED))
        async with self._read() as session:
            return [
                Listed(
                    guid=row.guid,
                    name=row.name,
                    received_at=row.received_at,
                    outcome=row.outcome,
                    task_id=row.task_id,
                )
                for row in await session.exec(query)
            ]

    async def known_deliveries(self, guids: Collection[str]) -> frozenset[str]:
        """Those of them that were recorded, whatever became of them."""
        wanted, found = sorted(guids), set[str]()
        async with self._read() as session:
            for start in range(0, len(wanted), _AT_ONCE):
                part = col(DeliveryRow.guid).in_(wanted[start : start + _AT_ONCE])
                found.update(await session.exec(select(DeliveryRow.guid).where(part)))
        return frozenset(found)

    async def forget_payloads(self, *, before: datetime) -> None:
        """What deliveries said that were decided and came before then; that they came, and what became of them, is
        kept: GitHub can deliver them again for a while."""
        said = (
            col(DeliveryRow.received_at) < before,
            col(DeliveryRow.outcome) != "",
            ~col(DeliveryRow.outcome).startswith(FAILED),
            col(DeliveryRow.payload)["kind"].as_string() != FORGOTTEN.kind,
        )
        async with self._read() as session:
            if (await session.exec(select(DeliveryRow.guid).where(*said).limit(1))).first() is None:
                return
        payload = _events.dump_python(FORGOTTEN, mode="json")
        async with self._write("old payloads forgotten") as session:
            await session.exec(update(DeliveryRow).where(*said).values(payload=payload))

    async def conclude(self, guid: str, outcome: str, *, answer: str | None = None, once: str | None = None) -> None:
        """Ends the intake of a delivery that changes no task, if it has not ended yet; `answer` is then posted by
        whoever reads it back. With `once` there is no answer if there was one by that key before."""
        async with self._write("delivery concluded") as session:
            row = await session.get_one(DeliveryRow, guid, with_for_update=True)
            if row.outcome:
                return
            if once is not None:
                await self._alone(session, _REFUSALS_LOCK)
                said = (await session.exec(select(DeliveryRow.guid).where(DeliveryRow.refused == once))).first()
                answer = None if said else answer
            row.outcome, row.answer, row.refused = outcome, answer, once
            session.add(row)


async def _is_due(session: AsyncSession, guid: str) -> bool:
    """Whether its intake waits or runs."""
    query = select(JobRow.id).where(JobRow.stage == Stage.INTAKE, JobRow.key == guid)
    return (await session.exec(query)).first() is not None


async def waiting(session: AsyncSession, stage: Stage, key: str) -> JobRow | None:
    """The job that waits for that stage of that task or delivery, if one does."""
    query = select(JobRow).where(JobRow.stage == stage, JobRow.key == key, col(JobRow.started_at).is_(None))
    return (await session.exec(query)).first()


async def enqueue(session: AsyncSession, stage: Stage, key: str, run_at: datetime) -> None:
    """Makes a stage due; one that waits already is brought forward if it was to run later."""
    row = await waiting(session, stage, key)
    if row is None:
        row = JobRow(stage=stage, key=key, run_at=run_at)
    row.run_at = min(row.run_at, run_at)
    session.add(row)


def _subject(event: Event) -> str | None:
    return event.subject if isinstance(event, Commented | Marked | Reviewed) else None


async def _open(session: AsyncSession, row: DeliveryRow, event: Event, now: datetime) -> None:
    """Makes the intake of a delivery due, unless there is nothing to decide: it says nothing of use, or another one
    about the same is decided or will be."""
    subject, outcome = _subject(event), ""
    if isinstance(event, Ignored):
        outcome = f"ignored: {event.reason}"
    elif await _is_taken(session, row.guid, subject):
        subject, outcome = None, DUPLICATE
    row.subject, row.outcome = subject, outcome
    session.add(row)
    await session.flush()
    if not row.outcome:
        await enqueue(session, Stage.INTAKE, row.guid, now)


async def _is_taken(session: AsyncSession, guid: str, subject: str | None) -> bool:
    """Whether another delivery about the same is decided, or will be; one whose intake has failed gives way."""
    if subject is None:
        return False
    others = select(DeliveryRow).where(DeliveryRow.subject == subject, DeliveryRow.guid != guid)
    first = (await session.exec(others)).first()
    if first is None or not first.outcome.startswith(FAILED):
        return first is not None
    first.subject = None
    session.add(first)
    await session.flush()
    return False


def _delivery(row: DeliveryRow) -> Delivery:
    values: dict[str, Any] = row.model_dump(include={"guid", "name", "received_at", "outcome", "answer", "task_id"})
    return Delivery(**values, event=_events.validate_python(row.payload))
