"""The only SQL, `sandboxes` included: values in, values out. Every write is one transaction with a name, a save point
work goes on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, delete, select, update
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.counts import Counts
from bot.db.database import hold
from bot.db.receipts import Receipts, dumped
from bot.db.receipts import SavedReceipt as SavedReceipt
from bot.db.sandboxes import Checkpoint as Checkpoint
from bot.db.sandboxes import Sandboxes
from bot.db.sandboxes import SandboxRecord as SandboxRecord
from bot.db.sandboxes import SlotRecord as SlotRecord
from bot.db.sandboxes import SnapshotRecord as SnapshotRecord
from bot.db.tables import BriefingRow, DeliveryRow, EpisodeRow, JobRow, ReceiptRow, StepRow, TaskRow, ToolCallRow
from bot.domain.budget import Usage
from bot.domain.episode import Code, Episode
from bot.domain.event import Commented, Event, Ignored, Marked
from bot.domain.receipt import Receipt
from bot.domain.task import Decision, Job, Lease, Stage, State, Task
from bot.domain.transcript import Call, Step

NANOS = 1_000_000_000

DUPLICATE = "duplicate of another delivery"
FAILED = "failed"
"""How the outcome of a delivery begins whose intake was given up: delivered again, it is tried again."""

_DELIVERIES_LOCK, _REFUSALS_LOCK = 7_304, 7_305

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


class Store(Sandboxes, Receipts, Counts):
    """One database, SQLite or Postgres by its URL. Close it when done; methods are safe to call concurrently."""

    # Deliveries

    async def accept(self, guid: str, name: str, event: Event, *, now: datetime) -> bool:
        """Records a delivery and makes its intake due, in one transaction. False where it is known already, unless
        its intake has failed: then it is tried anew. What is about the same as another delivery is only recorded."""
        row = DeliveryRow(guid=guid, name=name, payload=_events.dump_python(event, mode="json"), received_at=now)
        try:
            async with self._write("delivery accepted") as session:
                if isinstance(event, Commented | Marked):
                    await self._alone(session, _DELIVERIES_LOCK)
                    row.subject = event.subject
                known = await session.get(DeliveryRow, guid)
                if known is not None and not known.outcome.startswith(FAILED):
                    return False
                if known is not None:
                    known.outcome = ""
                    session.add(known)
                elif isinstance(event, Ignored):
                    row.outcome = f"ignored: {event.reason}"
                elif await _is_taken(session, row.subject):
                    row.subject, row.outcome = None, DUPLICATE
                if known is None:
                    session.add(row)
                    await session.flush()
                if not row.outcome:
                    await _enqueue(session, Stage.INTAKE, guid, now)
        except IntegrityError:
            return False
        return True

    async def delivery(self, guid: str) -> Delivery | None:
        async with self._read() as session:
            row = await session.get(DeliveryRow, guid)
            return _delivery(row) if row else None

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

    async def decide(
        self,
        guid: str,
        decide: Callable[[Task | None, Episode | None], Decision],
        *,
        repository_id: int,
        number: int,
        comment_id: int | None,
        now: datetime,
    ) -> Decision | None:
        """Loads the open task of an issue or pull request, lets `decide` say what happens, saves that and makes the
        next stage due, all in one transaction. None where the delivery, or another one about the same comment, has
        been decided already."""
        async with self._write("intake decided") as session:
            delivery = await session.get_one(DeliveryRow, guid, with_for_update=True)
            if delivery.outcome:
                return None
            if comment_id is not None and await _is_handled(session, comment_id):
                delivery.outcome = DUPLICATE
                session.add(delivery)
                return None
            row = await _open_task(session, repository_id, number)
            last = await _last_episode(session, row.id) if row else None
            decision = decide(_task(row) if row else None, _episode(last) if last else None)
            delivery.outcome, delivery.answer = "decided", decision.answer
            if decision.task is not None:
                delivery.task_id = decision.task.id
                await _decided(session, row, decision, now)
            elif row is not None:
                delivery.task_id = row.id
            session.add(delivery)
            return decision

    # Tasks

    async def task(self, task_id: str) -> Task:
        async with self._read() as session:
            return _task(await session.get_one(TaskRow, task_id))

    async def tasks(self, *, only_open: bool = False) -> list[Task]:
        """All of them, the newest first."""
        query = select(TaskRow).order_by(col(TaskRow.created_at).desc())
        if only_open:
            query = query.where(TaskRow.state != State.CLOSED)
        async with self._read() as session:
            return [_task(row) for row in await session.exec(query)]

    async def open_tasks_of(self, installation_id: int, repository_ids: Sequence[int] | None) -> list[Task]:
        """Open tasks of an installation, in these repositories or in all."""
        query = select(TaskRow).where(TaskRow.installation_id == installation_id, TaskRow.state != State.CLOSED)
        if repository_ids is not None:
            query = query.where(col(TaskRow.repository_id).in_(repository_ids))
        async with self._read() as session:
            return [_task(row) for row in await session.exec(query)]

    async def lease(self, task_id: str) -> Lease:
        """Takes the task over: from now on no older lease of it can write."""
        async with self._write("lease taken") as session:
            row = await session.get_one(TaskRow, task_id, with_for_update=True)
            row.epoch += 1
            session.add(row)
            return Lease(task_id=task_id, epoch=row.epoch)

    async def save(
        self,
        lease: Lease,
        task: Task,
        episode: Episode,
        *,
        stage: Stage | None = None,
        now: datetime,
    ) -> None:
        """Saves both and makes the next stage due, in one transaction."""
        async with self._write(f"task {task.state}" + (f", {stage} due" if stage else "")) as session:
            await hold(session, lease)
            await session.merge(_task_row(task, lease.epoch))
            await session.merge(EpisodeRow(**asdict(episode)))
            if stage is not None:
                await _enqueue(session, stage, task.id, now)

    async def set_comment(self, task_id: str, comment_id: int) -> None:
        """Remembers which comment is the task's live one."""
        async with self._write("status comment known") as session:
            await session.exec(update(TaskRow).where(col(TaskRow.id) == task_id).values(comment_id=comment_id))

    async def set_needs_slot(self, task_id: str, needs: bool) -> None:
        """Remembers whether the task waits for a free sandbox."""
        async with self._write("wait for a sandbox over" if not needs else "waits for a sandbox") as session:
            await session.exec(update(TaskRow).where(col(TaskRow.id) == task_id).values(needs_slot=needs))

    async def last_episode(self, task_id: str) -> Episode:
        async with self._read() as session:
            row = await _last_episode(session, task_id)
            assert row is not None, "a task is made with its first episode"
            return _episode(row)

    async def episodes(self, task_id: str) -> list[Episode]:
        """All of a task's, the first one first."""
        query = select(EpisodeRow).where(EpisodeRow.task_id == task_id).order_by(col(EpisodeRow.number))
        async with self._read() as session:
            return [_episode(row) for row in await session.exec(query)]

    async def is_finishing(self, episode_id: str) -> bool:
        async with self._read() as session:
            return (await session.get_one(EpisodeRow, episode_id)).finishing

    async def briefing(self, episode_id: str) -> str | None:
        """What the model was told at the beginning of an episode, None where it was told nothing yet."""
        async with self._read() as session:
            row = await session.get(BriefingRow, episode_id)
            return row.text if row else None

    async def put_briefing(self, lease: Lease, episode_id: str, text: str) -> None:
        async with self._write("briefing saved") as session:
            await hold(session, lease)
            await session.merge(BriefingRow(episode_id=episode_id, text=text))

    # Steps

    async def steps(self, task_id: str, *, episode_id: str | None = None) -> tuple[Step, ...]:
        """The steps of a task's episodes in order, or of one of them."""
        query = (
            select(StepRow)
            .join(EpisodeRow, col(EpisodeRow.id) == col(StepRow.episode_id))
            .where(EpisodeRow.task_id == task_id)
            .order_by(col(EpisodeRow.number), col(StepRow.number))
        )
        if episode_id is not None:
            query = query.where(StepRow.episode_id == episode_id)
        async with self._read() as session:
            rows = (await session.exec(query)).all()
            calls: dict[int, list[Call]] = {}
            wanted = select(ToolCallRow).where(col(ToolCallRow.step_id).in_([row.id for row in rows]))
            for call in await session.exec(wanted.order_by(col(ToolCallRow.step_id), col(ToolCallRow.position))):
                calls.setdefault(call.step_id, []).append(_call(call))
            return tuple(_step(row, tuple(calls.get(row.id or 0, ()))) for row in rows)

    async def add_step(
        self,
        lease: Lease,
        episode_id: str,
        *,
        number: int,
        note: str | None,
        reply: dict[str, Any],
        usage: Usage,
        cost: Decimal | None,
        duration_s: float,
    ) -> Step:
        """Saves a reply before any of its calls is run; the episode's feedback, now told, is cleared with it."""
        row = StepRow(
            episode_id=episode_id,
            number=number,
            note=note,
            reply=reply,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost_nanos=None if cost is None else int(cost * NANOS),
            duration_s=duration_s,
        )
        async with self._write("step saved") as session:
            await hold(session, lease)
            session.add(row)
            if note is not None:
                await session.exec(update(EpisodeRow).where(col(EpisodeRow.id) == episode_id).values(feedback=None))
            await session.flush()
            return _step(row, ())

    async def add_call(self, lease: Lease, step_id: int, call: Call) -> None:
        async with self._write("tool call saved") as session:
            await hold(session, lease)
            session.add(ToolCallRow(step_id=step_id, **asdict(call)))

    # Receipts

    async def add_receipt(
        self,
        lease: Lease,
        receipt: Receipt,
        *,
        checkpoint_id: int,
        task: Task,
        episode: Episode,
        stage: Stage | None,
        now: datetime,
    ) -> None:
        """Saves the verdict and what follows from it in one transaction; `episode.attempts` numbers the receipt."""
        async with self._write(f"receipt {receipt.verdict.name}, task {task.state}") as session:
            await hold(session, lease)
            session.add(
                ReceiptRow(
                    episode_id=episode.id,
                    attempt=episode.attempts,
                    verdict=receipt.verdict.name,
                    evidence=dumped(receipt.evidence),
                    document=receipt.to_dict(),
                    checkpoint_id=checkpoint_id,
                )
            )
            await session.merge(_task_row(task, lease.epoch))
            await session.merge(EpisodeRow(**asdict(episode)))
            if stage is not None:
                await _enqueue(session, stage, task.id, now)

    # Jobs

    async def add_job(self, stage: Stage, key: str, run_at: datetime) -> None:
        """Makes a stage due; one that waits already is brought forward if it was to run later."""
        async with self._write(f"{stage} due") as session:
            await _enqueue(session, stage, key, run_at)

    async def start_job(self, now: datetime, *, busy: Sequence[str]) -> Job | None:
        """Starts the job that has been due the longest, of none of the busy keys."""
        due = (
            select(JobRow)
            .where(col(JobRow.started_at).is_(None), col(JobRow.run_at) <= now, col(JobRow.key).not_in(busy))
            .order_by(col(JobRow.run_at), col(JobRow.id))
            .limit(1)
        )
        async with self._read() as session:
            if (await session.exec(due)).first() is None:
                return None
        async with self._write("job started") as session:
            row = (await session.exec(due)).first()
            if row is None:
                return None
            row.started_at = now
            row.attempts += 1
            session.add(row)
            assert row.id is not None
            return Job(id=row.id, stage=Stage(row.stage), key=row.key, attempts=row.attempts)

    async def end_job(self, job: Job) -> None:
        async with self._write("job ended") as session:
            await session.exec(delete(JobRow).where(col(JobRow.id) == job.id))

    async def postpone_job(self, job: Job, run_at: datetime, *, counted: bool = True) -> None:
        """Lets a started job wait again; where the same stage became due meanwhile, that one serves for both. The
        attempt is `counted` unless it was none: it only found that it is not yet its turn."""
        async with self._write("job postponed") as session:
            if await _waiting(session, job.stage, job.key):
                await session.exec(delete(JobRow).where(col(JobRow.id) == job.id))
            else:
                attempts = job.attempts if counted else job.attempts - 1
                values = {"started_at": None, "run_at": run_at, "attempts": attempts}
                await session.exec(update(JobRow).where(col(JobRow.id) == job.id).values(**values))

    async def hasten_job(self, stage: Stage, key: str, run_at: datetime) -> None:
        """Brings a waiting job forward; makes none where none waits."""
        waiting = (
            col(JobRow.stage) == stage,
            col(JobRow.key) == key,
            col(JobRow.started_at).is_(None),
            col(JobRow.run_at) > run_at,
        )
        async with self._write("job hastened") as session:
            await session.exec(update(JobRow).where(*waiting).values(run_at=run_at))

    async def recover_jobs(self, now: datetime) -> int:
        """At start-up: what was running when the process died waits again. Says how many those were."""
        async with self._read() as session:
            rows = (await session.exec(select(JobRow).where(col(JobRow.started_at).is_not(None)))).all()
        for row in rows:
            assert row.id is not None
            await self.postpone_job(Job(id=row.id, stage=Stage(row.stage), key=row.key, attempts=row.attempts), now)
        return len(rows)

    async def next_run(self) -> datetime | None:
        """When the next waiting job is due."""
        query = select(JobRow.run_at).where(col(JobRow.started_at).is_(None)).order_by(col(JobRow.run_at)).limit(1)
        async with self._read() as session:
            return (await session.exec(query)).first()

    async def jobs(self) -> list[tuple[Stage, str]]:
        """All that wait or run."""
        async with self._read() as session:
            return [(Stage(row.stage), row.key) for row in await session.exec(select(JobRow))]


async def _waiting(session: AsyncSession, stage: Stage, key: str) -> JobRow | None:
    query = select(JobRow).where(JobRow.stage == stage, JobRow.key == key, col(JobRow.started_at).is_(None))
    return (await session.exec(query)).first()


async def _enqueue(session: AsyncSession, stage: Stage, key: str, run_at: datetime) -> None:
    row = await _waiting(session, stage, key)
    if row is None:
        row = JobRow(stage=stage, key=key, run_at=run_at)
    row.run_at = min(row.run_at, run_at)
    session.add(row)


async def _is_taken(session: AsyncSession, subject: str | None) -> bool:
    """Whether another delivery about the same is decided, or will be; one whose intake has failed gives way."""
    if subject is None:
        return False
    first = (await session.exec(select(DeliveryRow).where(DeliveryRow.subject == subject))).first()
    if first is None or not first.outcome.startswith(FAILED):
        return first is not None
    first.subject = None
    session.add(first)
    await session.flush()
    return False


async def _is_handled(session: AsyncSession, comment_id: int) -> bool:
    query = select(EpisodeRow.id).where(EpisodeRow.comment_id == comment_id)
    return (await session.exec(query)).first() is not None


async def _open_task(session: AsyncSession, repository_id: int, number: int) -> TaskRow | None:
    query = (
        select(TaskRow)
        .where(TaskRow.repository_id == repository_id, TaskRow.state != State.CLOSED)
        .where((col(TaskRow.number) == number) | (col(TaskRow.pull_request) == number))
        .with_for_update()
    )
    return (await session.exec(query)).first()


async def _last_episode(session: AsyncSession, task_id: str) -> EpisodeRow | None:
    query = select(EpisodeRow).where(EpisodeRow.task_id == task_id).order_by(col(EpisodeRow.number).desc())
    return (await session.exec(query.limit(1))).first()


async def _decided(session: AsyncSession, row: TaskRow | None, decision: Decision, now: datetime) -> None:
    assert decision.task is not None
    epoch = row.epoch if row else 0
    if decision.stage is Stage.CLEANUP:
        # Whatever runs or waits for this task is over: the new epoch stops what runs.
        epoch += 1
        waiting = delete(JobRow).where(col(JobRow.key) == decision.task.id, col(JobRow.started_at).is_(None))
        await session.exec(waiting)
    await session.merge(_task_row(decision.task, epoch))
    await session.flush()
    if decision.episode is not None:
        await session.merge(EpisodeRow(**asdict(decision.episode)))
    if decision.stage is not None:
        await _enqueue(session, decision.stage, decision.task.id, now)


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(
        guid=row.guid,
        name=row.name,
        event=_events.validate_python(row.payload),
        received_at=row.received_at,
        outcome=row.outcome,
        answer=row.answer,
        task_id=row.task_id,
    )


def _task(row: TaskRow) -> Task:
    values = row.model_dump(exclude={"epoch"})
    return Task(**{**values, "state": State(row.state)})


def _task_row(task: Task, epoch: int) -> TaskRow:
    return TaskRow(**asdict(task), epoch=epoch)


def _episode(row: EpisodeRow) -> Episode:
    return Episode(**{**row.model_dump(), "code": Code(row.code) if row.code else None})


def _call(row: ToolCallRow) -> Call:
    return Call(**row.model_dump(exclude={"step_id"}))


def _step(row: StepRow, calls: tuple[Call, ...]) -> Step:
    assert row.id is not None
    return Step(
        id=row.id,
        number=row.number,
        note=row.note,
        reply=row.reply,
        usage=Usage(input_tokens=row.input_tokens, output_tokens=row.output_tokens, cached_tokens=row.cached_tokens),
        cost=None if row.cost_nanos is None else Decimal(row.cost_nanos) / NANOS,
        duration_s=row.duration_s,
        calls=calls,
    )
