"""What the product needs of an engine, and what an engine needs of the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from bot.domain.task import Job, Stage


class Engine(Protocol):
    """Runs stages: each at least once, and never two at a time for one key. Stages read where to go on from rows."""

    async def enqueue(self, stage: Stage, key: str, run_at: datetime | None = None) -> None:
        """That stage of that task (or delivery) runs soon, or then."""
        ...

    def wake(self) -> None:
        """Something became due in a transaction of somebody else's."""
        ...

    def freed(self) -> None:
        """A sandbox has stopped: what was postponed for want of one is due now."""
        ...

    async def preempt(self, key: str) -> None:
        """Ends the stage that runs for this key, if one does, and waits until it has ended."""
        ...


class Jobs(Protocol):
    """The due stages in the database."""

    async def add_job(self, stage: Stage, key: str, run_at: datetime) -> None: ...

    async def start_job(self, now: datetime, *, busy: Sequence[str]) -> Job | None: ...

    async def end_job(self, job: Job) -> None: ...

    async def postpone_job(self, job: Job, run_at: datetime, *, counted: bool = True) -> None: ...

    async def hasten_job(self, stage: Stage, key: str, run_at: datetime) -> None: ...

    async def recover_jobs(self, now: datetime) -> int: ...

    async def next_run(self) -> datetime | None: ...
