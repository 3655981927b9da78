"""The engine for one process: stages run as asyncio tasks, what is due stands in the database."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from bot.domain.errors import GitHubError, InfraError, LeaseLost, UserError
from bot.domain.task import Job, Postponed, Stage
from bot.engine.protocol import Jobs

ATTEMPTS = 5
LONGEST_WAIT = timedelta(seconds=30)
"""How long the loop sleeps at most before it looks again for what is due."""

log = structlog.get_logger()


@contextlib.contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """Holds the home's lock, so that a second engine on the same database refuses to start."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "engine.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.seek(0)
            raise UserError(
                f"Another coder-bot (process {file.read().strip() or 'unknown'}) is running on {home}; "
                "stop it, or set CODER_HOME to another folder."
            ) from exc
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


class EmbeddedEngine:
    """`run` does a stage, or says until when it is postponed; `give_up` is told of a job that failed for good, and
    must not raise.

    A job that fails retryably waits longer each time, `ATTEMPTS` times in all. One that GitHub's limits have stopped
    waits until they let it, as often as it takes: that is no failure, and what was paid for must not be lost by it.
    Any other exception is a bug or a dead end: the job is given up at once."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        run: Callable[[Job], Awaitable[Postponed | None]],
        give_up: Callable[[Job, Exception], Awaitable[None]],
        clock: Callable[[], datetime],
        workers: int = 4,
    ) -> None:
        self._jobs = jobs
        self._run = run
        self._give_up = give_up
        self._clock = clock
        self._workers = workers
        self._running: dict[str, asyncio.Task[None]] = {}
        self._preempted: set[asyncio.Task[None]] = set()
        self._postponed: set[tuple[Stage, str]] = set()
        self._freed = False
        self._news = asyncio.Event()

    async def enqueue(self, stage: Stage, key: str, run_at: datetime | None = None) -> None:
        await self._jobs.add_job(stage, key, run_at or self._clock())
        self.wake()

    def wake(self) -> None:
        self._news.set()

    def freed(self) -> None:
        self._freed = True
        self.wake()

    async def preempt(self, key: str) -> None:
        running = self._running.get(key)
        if running is not None and running is not asyncio.current_task():
            self._preempted.add(running)
            running.cancel()
            await asyncio.wait([running])
            self._preempted.discard(running)

    async def recover(self) -> None:
        """To be called once, before anything is run: what an earlier process left half done is due again."""
        if recovered := await self._jobs.recover_jobs(self._clock()):
            log.info("going on with interrupted work", jobs=recovered)

    async def serve(self) -> None:
        """Runs what is due until it is cancelled; then ends what runs, which `recover` makes due again."""
        try:
            while True:
                self._news.clear()
                await self._start_due()
                await self._sleep()
        finally:
            await self._end_running()

    async def settle(self) -> None:
        """Runs what is due, and what becomes due by that, until nothing is."""
        while True:
            self._news.clear()
            await self._start_due()
            if not self._running:
                if self._news.is_set():
                    continue  # one ended while we looked, and may have left something due
                return
            await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _start_due(self) -> None:
        if self._freed:
            self._freed = False
            while self._postponed:
                await self._jobs.hasten_job(*self._postponed.pop(), self._clock())
        while len(self._running) < self._workers:
            job = await self._jobs.start_job(self._clock(), busy=tuple(self._running))
            if job is None:
                return
            task = asyncio.create_task(self._do(job), name=f"{job.stage} {job.key}")
            self._running[job.key] = task
            task.add_done_callback(self._ended)

    def _ended(self, ended: asyncio.Task[None]) -> None:
        for key in [key for key, task in self._running.items() if task is ended]:
            del self._running[key]
        self.wake()

    async def _sleep(self) -> None:
        due = await self._jobs.next_run()
        wait = LONGEST_WAIT if due is None or len(self._running) >= self._workers else due - self._clock()
        if self._running and due is not None and due <= self._clock():
            wait = LONGEST_WAIT  # it waits for its own key, whose end wakes us
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(wait, LONGEST_WAIT).total_seconds())):
                await self._news.wait()

    async def _end_running(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _do(self, job: Job) -> None:
        with structlog.contextvars.bound_contextvars(stage=str(job.stage), key=job.key):
            try:
                if postponed := await self._run(job):
                    await self._jobs.postpone_job(job, postponed.until, counted=False)
                    self._postponed.add((job.stage, job.key))
                    return
            except asyncio.CancelledError:
                if asyncio.current_task() in self._preempted:
                    await self._jobs.end_job(job)  # it is over; at a shutdown it stays, to be gone on with
                raise
            except LeaseLost:
                log.info("taken over by a newer run")
            except InfraError as exc:
                told = exc.retry_after_s if isinstance(exc, GitHubError) else None
                if exc.retryable and (told is not None or job.attempts < ATTEMPTS):
                    wait = timedelta(seconds=max(2**job.attempts, told or 0))
                    log.warning("stage failed, trying again", reason=str(exc), wait_s=wait.total_seconds())
                    await self._jobs.postpone_job(job, self._clock() + wait, counted=told is None)
                    return
                log.error("stage failed", reason=str(exc))
                await self._give_up(job, exc)
            except Exception as exc:  # the engine's root: a bug in one stage must not end the others
                log.exception("stage crashed")
                await self._give_up(job, exc)
            await self._jobs.end_job(job)
