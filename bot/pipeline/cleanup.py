"""After an episode or a task has ended: its end is told, sandboxes are paused or ended."""

from __future__ import annotations

import structlog

from bot.domain.episode import Episode
from bot.domain.errors import GitHubError, SandboxError
from bot.domain.task import Task
from bot.pipeline import rules as recorded
from bot.pipeline import talk
from bot.pipeline.deps import Deps
from bot.pipeline.episode import connect

log = structlog.get_logger()


async def run(deps: Deps, task_id: str) -> None:
    """Work sandboxes of an open task are paused and stay for `retention`; everything else is ended. People are told
    first: they must not wait for an engine that does not answer."""
    await deps.store.lease(task_id)  # whatever ran for this task can no longer write
    task = await deps.store.task(task_id)
    episode = await deps.store.last_episode(task_id)
    untold: GitHubError | None = None
    try:
        await talk.tell(deps, task, episode)
    except GitHubError as exc:
        untold = exc
    await _put_away(deps, task, episode)
    if untold is not None and untold.retryable:
        raise untold
    if untold is not None:
        # The App may have been removed, or the issue deleted; there is nobody left to tell.
        log.warning("the end of an episode could not be told", task=task.id, reason=str(untold))


async def _put_away(deps: Deps, task: Task, episode: Episode) -> None:
    for info in await deps.provider.list(task=task.id):
        if not task.is_open or info.kind != "work":
            await deps.provider.kill(info.id)
    for record in await deps.store.sandboxes(task.id):
        if not task.is_open or record.kind != "work":
            await deps.store.forget_sandbox(record.name)
    if task.is_busy or not task.is_open:
        return
    rules = recorded.of(episode)
    try:
        sandbox = await connect(deps, task, rules)
        await sandbox.pause()
        await sandbox.aclose()
    except SandboxError as exc:
        if exc.reason != "gone":
            raise
