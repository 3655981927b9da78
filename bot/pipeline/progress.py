"""The live comments between the stages' own words: what a stage is doing, and comments that are wrong put right."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from bot.db.store import Telling
from bot.domain.errors import CoderError, GitHubError
from bot.domain.task import Lease
from bot.domain.verification import Run
from bot.pipeline import talk
from bot.pipeline.deps import Deps

QUIET = timedelta(seconds=10)
"""How long after an edit the same comment is left alone, unless a stage begins or ends."""
TROUBLED = timedelta(minutes=1)
"""The same after an edit that GitHub did not take."""
REFRESH = timedelta(minutes=5)
"""How long a comment stands while nothing new is heard of a stage that goes on."""
LOOK_S = 1.0
"""How often it is asked whether it was quiet for long enough."""
EDIT_S = 5.0
"""How long one edit may take: the stage's end waits for it."""
LOOKED_BACK = timedelta(days=3)
"""Comments of tasks at rest are put right if the task was touched since."""

T = TypeVar("T")

log = structlog.get_logger()


class Watch:
    """Tells what a stage is doing beside it: soon after it was heard of, and never too often. What goes wrong with
    that is the stage's least trouble: it is logged, and the stage goes on."""

    def __init__(self, deps: Deps, lease: Lease) -> None:
        self._deps = deps
        self._lease = lease
        self._runs: list[Run] = []
        self._wake = asyncio.Event()
        self._is_new = True
        self._is_over = False
        self._quiet_until = deps.clock()

    def heard(self) -> None:
        """The rows of the task say something new."""
        self._is_new = True
        self._wake.set()

    def ran(self, run: Run) -> None:
        """A run of the verification has ended."""
        self._runs.append(run)
        self.heard()

    async def during(self, work: Awaitable[T]) -> T:
        """Does the work. When this returns, no edit is on its way: what the stage tells next comes last."""
        watching = asyncio.create_task(self._watch())
        try:
            return await work
        finally:
            self._is_over = True
            self._wake.set()
            try:
                await asyncio.wait({watching})
            finally:
                watching.cancel()
            if error := watching.exception():
                log.error("what a task does can't be told", task=self._lease.task_id, exc_info=error)

    async def _watch(self) -> None:
        self._quiet_until = await self._since_last()
        while not self._is_over:
            quiet_since = self._deps.clock() - self._quiet_until
            if quiet_since >= (timedelta() if self._is_new else REFRESH):
                self._is_new = False
                quiet = await self._tell()
                self._quiet_until = self._deps.clock() + quiet
                continue
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()

    async def _since_last(self) -> datetime:
        """Until when nothing is told. A comment that does not say what the rows say waits for nothing: an earlier run
        died before it could tell, or it waited for a sandbox."""
        last = await self._deps.store.telling(self._lease.task_id)
        task = await self._deps.store.task(self._lease.task_id)
        episode = await self._deps.store.last_episode(task.id)
        if last is None or last.gist != await talk.gist(self._deps, task, episode):
            return self._deps.clock()
        return last.edited_at + QUIET

    async def _tell(self) -> timedelta:
        """How long it is quiet after it."""
        try:
            async with asyncio.timeout(EDIT_S):
                await talk.progress(self._deps, self._lease, runs=tuple(self._runs))
        except (CoderError, TimeoutError) as exc:
            log.warning("what a task does could not be told", task=self._lease.task_id, reason=str(exc) or "too slow")
            self._is_new = True
            return TROUBLED
        return QUIET


async def put_right(deps: Deps) -> None:
    """Tells every task anew whose live comment says something else than the rows do, or may do so: a process has died
    between saving and telling, or GitHub was away. What can't be told for good is logged once."""
    told, due = await deps.store.tellings(), {key for _, key in await deps.store.jobs()}
    troubled: set[int] = set()
    for seen in await deps.store.tasks():
        is_old = not seen.is_busy and deps.clock() - seen.updated_at > LOOKED_BACK
        if is_old or seen.installation_id in troubled:
            continue
        if seen.comment_id is None and seen.id in due:
            continue  # its own stage is about to make it, and two would make two
        try:
            await _put_right(deps, seen.id, told.get(seen.id))
        except GitHubError as exc:
            log.warning("a live comment is out of date", task=seen.id, reason=str(exc))
            troubled.add(seen.installation_id)


async def _put_right(deps: Deps, task_id: str, last: Telling | None) -> None:
    # Read after what was told last: whoever saves and tells something else from here on is found out.
    task, episode = await deps.store.task(task_id), await deps.store.last_episode(task_id)
    gist = await talk.gist(deps, task, episode)
    if last is not None and last.gist == gist and not _is_doubtful(deps, last):
        return
    log.info("puts a live comment right", task=task.id)
    try:
        await talk.tell(deps, task, episode, edits=last.edits if last else 0)
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("a live comment can't be put right", task=task.id, reason=str(exc))
        if await deps.store.begin_telling(task.id, now=deps.clock()):
            await deps.store.end_telling(task.id, gist=gist, digest="")


def _is_doubtful(deps: Deps, last: Telling) -> bool:
    return last.again_at is not None and last.again_at <= deps.clock()
