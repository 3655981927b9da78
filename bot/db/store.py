"""The only SQL, `sandboxes` included: values in, values out. Every write is one transaction with a name, a save point
work goes on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlmodel import col, delete, select, update
from sqlmodel.ext.asyncio.session import AsyncSession
from sqlmodel.sql.expression import SelectOfScalar

from bot.db.counts import Counts
from bot.db.database import hold
from bot.db.deliveries import DUPLICATE, Deliveries, enqueue, waiting
from bot.db.deliveries import Delivery as Delivery
from bot.db.receipts import Receipts, dumped
from bot.db.receipts import SavedReceipt as SavedReceipt
from bot.db.sandboxes import Checkpoint as Checkpoint
from bot.db.sandboxes import Sandboxes, keep_checkpoint
from bot.db.sandboxes import SandboxRecord as SandboxRecord
from bot.db.sandboxes import SlotRecord as SlotRecord
from bot.db.sandboxes import SnapshotRecord as SnapshotRecord
from bot.db.tables import BriefingRow, DeliveryRow, EpisodeRow, JobRow, ReceiptRow, StepRow, TaskRow, ToolCallRow
from bot.db.told import Telling as Telling
from bot.db.told import Told
from bot.domain.budget import Usage
from bot.domain.episode import Code, Episode, Thread
from bot.domain.patch import Patch
from bot.domain.receipt import Receipt
from bot.domain.task import Decision, Job, Lease, Stage, State, Task
from bot.domain.transcript import Call, Step

NANOS = 1_000_000_000


class Store(Deliveries, Sandboxes, Receipts, Told, Counts):
    """One database, SQLite or Postgres by its URL. Close it when done; methods are safe to call concurrently."""

    # Deliveries

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
        been decided already; what is to be decided later is left as it is."""
        async with self._write("intake decided") as session:
            delivery = await session.get_one(DeliveryRow, guid, with_for_update=True)
            if delivery.outcome:
                return None
            if comment_id is not None and await _is_handled(session, comment_id):
                delivery.outcome = DUPLICATE
                session.add(delivery)
                return None
            query = _open_task(repository_id, number).with_for_update()
            row = (await session.exec(query)).first()
            last = await _last_episode(session, row.id) if row else None
            decision = decide(_task(row) if row else None, _episode(last) if last else None)
            if decision.later:
                return decision
            delivery.outcome, delivery.answer = "decided", decision.answer
            if decision.task is not None:
                delivery.task_id = decision.task.id
                await _decided(session, row, decision, now)
            elif row is not None:
                delivery.task_id = row.id
            session.add(delivery)
            return decision

    async def amend(
        self, task_id: str, change: Callable[[Task, Episode], Decision], *, now: datetime
    ) -> Decision | None:
        """What GitHub does to an open task by nobody's command, in one transaction, whoever is at work on it. None
        where it is closed already."""
        async with self._write("task amended") as session:
            row = await session.get_one(TaskRow, task_id, with_for_update=True)
            last = await _last_episode(session, task_id)
            assert last is not None, "a task is made with its first episode"
            if row.state == State.CLOSED:
                return None
            decision = change(_task(row), _episode(last))
            await _decided(session, row, decision, now)
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

    async def open_task(self, repository_id: int, number: int) -> Task | None:
        """The open one of an issue or pull request, by the number of either."""
        async with self._read() as session:
            row = (await session.exec(_open_task(repository_id, number))).first()
            return _task(row) if row else None

    async def open_task_at(self, repository_id: int, head_sha: str) -> Task | None:
        """The open one whose pull request we have left at that commit."""
        query = select(TaskRow).where(TaskRow.repository_id == repository_id, TaskRow.state != State.CLOSED)
        async with self._read() as session:
            row = (await session.exec(query.where(TaskRow.head_sha == head_sha))).first()
            return _task(row) if row else None

    async def rename(
        self, repository_id: int, *, installation_id: int, owner: str, name: str, clone_url: str
    ) -> None:
        """The repository's open tasks go by these names from now on, whatever a running stage still calls it."""
        values = {"installation_id": installation_id, "owner": owner, "name": name, "clone_url": clone_url}
        mine = (col(TaskRow.repository_id) == repository_id, col(TaskRow.state) != State.CLOSED)
        async with self._write("repository renamed") as session:
            await session.exec(update(TaskRow).where(*mine).values(**values))

    async def set_answered(self, episode_id: str) -> None:
        """Remembers that an episode's threads have their answers."""
        async with self._write("threads answered") as session:
            await session.exec(update(EpisodeRow).where(col(EpisodeRow.id) == episode_id).values(answered=True))

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
        patch: Patch | None = None,
        now: datetime,
    ) -> None:
        """Saves both and makes the next stage due, in one transaction; with `patch` as the task's checkpoint on the
        base that it has now."""
        async with self._write(f"task {task.state}" + (f", {stage} due" if stage else "")) as session:
            await hold(session, lease)
            await _put(session, task, lease.epoch)
            await session.merge(EpisodeRow(**asdict(episode)))
            if patch is not None:
                await keep_checkpoint(session, task.id, task.base_sha, patch)
            if stage is not None:
                await enqueue(session, stage, task.id, now)

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
            await _put(session, task, lease.epoch)
            await session.merge(EpisodeRow(**asdict(episode)))
            if stage is not None:
                await enqueue(session, stage, task.id, now)

    # Jobs

    async def add_job(self, stage: Stage, key: str, run_at: datetime) -> None:
        """Makes a stage due; one that waits already is brought forward if it was to run later."""
        async with self._write(f"{stage} due") as session:
            await enqueue(session, stage, key, run_at)

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
            if await waiting(session, job.stage, job.key):
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


async def _is_handled(session: AsyncSession, comment_id: int) -> bool:
    query = select(EpisodeRow.id).where(EpisodeRow.comment_id == comment_id)
    return (await session.exec(query)).first() is not None


def _open_task(repository_id: int, number: int) -> SelectOfScalar[TaskRow]:
    return (
        select(TaskRow)
        .where(TaskRow.repository_id == repository_id, TaskRow.state != State.CLOSED)
        .where((col(TaskRow.number) == number) | (col(TaskRow.pull_request) == number))
    )


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
    await _put(session, decision.task, epoch)
    await session.flush()
    if decision.episode is not None:
        await session.merge(EpisodeRow(**asdict(decision.episode)))
    if decision.stage is not None:
        await enqueue(session, decision.stage, decision.task.id, now)


def _task(row: TaskRow) -> Task:
    values = row.model_dump(exclude={"epoch"})
    return Task(**{**values, "state": State(row.state)})


_NAMES = frozenset({"installation_id", "owner", "name", "clone_url"})
"""What `rename` alone changes: whoever saves a task may still hold the old ones."""


async def _put(session: AsyncSession, task: Task, epoch: int) -> None:
    row = await session.get(TaskRow, task.id)
    if row is None:
        row = TaskRow(**asdict(task), epoch=epoch)
    for name, value in {**asdict(task), "epoch": epoch}.items():
        if name not in _NAMES:
            setattr(row, name, value)
    session.add(row)


def _episode(row: EpisodeRow) -> Episode:
    threads = tuple(Thread(**each) for each in row.threads)
    return Episode(**{**row.model_dump(), "code": Code(row.code) if row.code else None, "threads": threads})


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
