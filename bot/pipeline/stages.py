"""Which function does which stage, and what happens to a task whose stage failed for good."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import assert_never

import structlog

from bot.domain.errors import GitHubError, SandboxError, UserError
from bot.domain.event import Repository
from bot.domain.task import Job, Postponed, Stage, State
from bot.pipeline import cleanup, episode, intake, names, provision, publish, talk, verify
from bot.pipeline.deps import Deps
from bot.pipeline.ending import code_of, end
from bot.sandbox.pool import PoolFull
from bot.sandbox.protocol import Kind

POSTPONED_FOR = timedelta(seconds=15)
"""How long a stage without a free sandbox waits at most: sandboxes also end in other processes, which wake nobody
here."""

_NEEDS: dict[Stage, Kind] = {Stage.PROVISION: "work", Stage.EPISODE: "work", Stage.VERIFY: "verify"}

_AGAIN = frozenset({Stage.PROVISION, Stage.EPISODE, Stage.VERIFY, Stage.PUBLISH, Stage.CLEANUP})
"""These can simply be begun again: they make their sandboxes anew, ending what an earlier run has left, or go on from
the last call that was saved."""

_PASSING = frozenset({"gone", "unreachable", "unknown_outcome", "rate_limited"})
"""What goes wrong with machinery and may be over in a moment."""

log = structlog.get_logger()


async def run(deps: Deps, job: Job) -> Postponed | None:
    """Does one stage, or says that it has to wait for a free sandbox. Raises only what the engine may try again, or
    what it has to give up."""
    try:
        if job.stage in _NEEDS:
            await cleanup.end_leftovers(deps, job.key)
        if not await _may_begin(deps, job):
            return Postponed(until=deps.clock() + POSTPONED_FOR)
        match job.stage:
            case Stage.INTAKE:
                return await intake.run(deps, job.key)
            case Stage.PROVISION:
                await provision.run(deps, job.key)
            case Stage.EPISODE:
                await episode.run(deps, job.key)
            case Stage.VERIFY:
                await verify.run(deps, job.key)
            case Stage.PUBLISH:
                await publish.run(deps, job.key)
            case Stage.CLEANUP:
                await cleanup.run(deps, job.key)
            case _ as never:
                assert_never(never)
    except PoolFull as exc:
        log.info("no sandbox is free", reason=str(exc))
        await _wait(deps, job)
        return Postponed(until=deps.clock() + POSTPONED_FOR)
    except SandboxError as exc:
        if job.stage in _AGAIN and exc.reason in _PASSING:
            raise SandboxError(exc.reason, str(exc), retryable=True) from exc
        raise
    except GitHubError as exc:
        if job.stage in _NEEDS and exc.retryable and exc.retry_after_s is not None:
            await cleanup.rest(deps, job.key, exc.retry_after_s)
        if job.stage is not Stage.INTAKE and exc.status in names.GONE and await _is_renamed(deps, job.key):
            raise GitHubError("The repository has another name now.", retryable=True) from exc
        raise
    except UserError as exc:
        await give_up(deps, job, exc)
    return None


async def _may_begin(deps: Deps, job: Job) -> bool:
    """A task that was told to wait is not begun, and not told otherwise, before there is room for it."""
    kind = _NEEDS.get(job.stage)
    if kind is None or not (await deps.store.task(job.key)).needs_slot:
        return True
    if not await deps.provider.has_room(kind):
        return False
    await deps.store.set_needs_slot(job.key, False)
    return True


async def _is_renamed(deps: Deps, task_id: str) -> bool:
    task = await deps.store.task(task_id)
    known = Repository(
        id=task.repository_id, owner=task.owner, name=task.name, default_branch="", clone_url=task.clone_url
    )
    return await names.learn(deps, task.installation_id, known) is not None


async def _wait(deps: Deps, job: Job) -> None:
    lease = await deps.store.lease(job.key)
    task = await deps.store.task(job.key)
    if not task.is_busy:
        return
    episode = await deps.store.last_episode(task.id)
    told = True
    try:
        await talk.tell(deps, task.waiting_for_slot(deps.clock()), episode)
    except GitHubError as exc:
        log.warning("that a task waits could not be told", task=task.id, reason=str(exc))
        told = False  # the next run of this stage tries again
    waiting = replace((await deps.store.task(task.id)).waiting_for_slot(deps.clock()), needs_slot=told)
    await deps.store.save(lease, waiting, episode, now=deps.clock())


async def give_up(deps: Deps, job: Job, error: Exception) -> None:
    """Ends the task of a stage that can't be done, with a code and a sentence for people. A delivery whose intake
    failed is marked so; it can be replayed."""
    if job.stage is Stage.INTAKE:
        await deps.store.conclude(job.key, f"failed: {type(error).__name__}")
        return
    if job.stage is Stage.CLEANUP:
        return  # reconcile ends what is left
    lease = await deps.store.lease(job.key)
    task = await deps.store.task(job.key)
    if not task.is_open:
        return
    code, detail = code_of(error, job.stage)
    closed = error.closed if isinstance(error, GitHubError) else None
    if closed is not None:
        log.warning("nothing can be written here", task=task.id, code=str(code), reason=closed)
        task = replace(task, closed_reason=closed)
    state = State.WAITING if closed is None else State.CLOSED
    await end(deps, lease, task, await deps.store.last_episode(job.key), code, detail, state=state)
