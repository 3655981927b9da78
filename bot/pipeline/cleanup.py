"""After an episode or a task has ended: its end is told where people look, sandboxes are paused or ended."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

import structlog

from bot.domain.episode import Episode
from bot.domain.errors import GitHubError, SandboxError
from bot.domain.task import Lease, Task
from bot.pipeline import checks, later_commits, reviews, talk
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps

log = structlog.get_logger()


async def run(deps: Deps, task_id: str) -> None:
    """Work sandboxes of an open task are paused and stay for `retention`; everything else is ended. People are told
    first: they must not wait for an engine that does not answer."""
    lease = await deps.store.lease(task_id)  # whatever ran for this task can no longer write
    task = await deps.store.task(task_id)
    episode = await deps.store.last_episode(task_id)
    untold = [
        error
        for error in (
            await _tried(talk.tell(deps, task, episode)),
            await _tried(checks.report(deps, task, episode)),
            await _tried(later_commits.look(deps, task_id)),
            await _tried(reviews.answer(deps, task)),
        )
        if error is not None
    ]
    await _put_away(deps, lease, task, episode)
    for error in untold:
        if error.retryable:
            raise error
        # The App may have been removed, or the issue deleted; there is nobody left to tell.
        log.warning("the end of an episode could not be told", task=task.id, reason=str(error))


async def _tried(telling: Awaitable[None]) -> GitHubError | None:
    try:
        await telling
    except GitHubError as exc:
        return exc
    return None


async def _put_away(deps: Deps, lease: Lease, task: Task, episode: Episode) -> None:
    records = await deps.store.sandboxes(task.id)
    kept = {
        record.provider_id: record.name
        for record in records
        if task.is_open and record.kind == "work" and record.ready and record.provider_id
    }
    running = []
    for info in await deps.provider.list(task=task.id):
        if info.id not in kept:
            await deps.provider.kill(info.id)
        elif info.running:
            running.append(info.id)  # what is paused already is not woken for this
    for record in records:
        if record.provider_id not in kept:
            await deps.store.forget_sandbox(record.name)
            if await deps.store.free_slot(record.name):
                deps.engine.freed()
    if not task.is_busy:
        await _pause(deps, lease, episode, {sandbox_id: kept[sandbox_id] for sandbox_id in running})


async def end_leftovers(deps: Deps, task_id: str) -> None:
    """Ends what an earlier run of a stage has left when its process died: all but the work sandbox belongs to one
    run, and holds a place that the task itself may be waiting for."""
    left = [record for record in await deps.store.sandboxes(task_id) if record.kind != "work"]
    if not left:
        return
    for info in await deps.provider.list(task=task_id):
        if info.kind != "work":
            await deps.provider.kill(info.id)
    for record in left:
        log.warning("ended a leftover of an earlier run", task=task_id, sandbox=record.name)
        await deps.store.forget_sandbox(record.name)
        if await deps.store.free_slot(record.name):
            deps.engine.freed()


async def rest(deps: Deps, task_id: str, wait_s: float) -> None:
    """Pauses the work sandbox of a task that has to wait for something else, where that takes longer than `idle`."""
    episode = await deps.store.last_episode(task_id)
    if wait_s <= recorded.of(episode).sandbox.idle:
        return
    lease = await deps.store.lease(task_id)
    records = {
        record.provider_id: record.name
        for record in await deps.store.sandboxes(task_id)
        if record.kind == "work" and record.ready and record.provider_id
    }
    running = {info.id for info in await deps.provider.list(task=task_id) if info.running}
    log.info("the sandbox is paused while the task waits", task=task_id, wait_s=wait_s)
    await _pause(deps, lease, episode, {id_: name for id_, name in records.items() if id_ in running})


async def _pause(deps: Deps, lease: Lease, episode: Episode, sandboxes: Mapping[str, str]) -> None:
    lifetime = recorded.of(episode).sandbox.lifetime
    for sandbox_id, name in sandboxes.items():
        try:
            sandbox = await deps.provider.connect(sandbox_id, lifetime_s=lifetime, epoch=lease.epoch)
            try:
                await sandbox.pause()
            finally:
                await sandbox.aclose()
        except SandboxError as exc:
            if exc.reason != "gone":
                raise
            await deps.store.forget_sandbox(name)
