"""After an episode or a task has ended: its end is told, sandboxes are paused or ended."""

from __future__ import annotations

import structlog

from bot.domain import config
from bot.domain.errors import GitHubError, SandboxError
from bot.domain.task import State
from bot.pipeline import talk
from bot.pipeline.deps import Deps
from bot.pipeline.episode import connect

log = structlog.get_logger()


async def run(deps: Deps, task_id: str) -> None:
    """Work sandboxes of an open task are paused and stay for `retention`; everything else is ended."""
    await deps.store.lease(task_id)  # whatever ran for this task can no longer write
    task = await deps.store.task(task_id)
    episode = await deps.store.last_episode(task_id)
    keep = task.is_open
    for info in await deps.provider.list(task=task.id):
        if not keep or info.kind != "work":
            await deps.provider.kill(info.id)
    for record in await deps.store.sandboxes(task.id):
        if not keep or record.kind != "work":
            await deps.store.forget_sandbox(record.name)
    if keep and not task.is_busy:
        await _pause(deps, task_id)
    try:
        await talk.tell(deps, task, episode)
    except GitHubError as exc:
        if task.state is State.CLOSED and not exc.retryable:
            # The App may have been removed, or the issue deleted; there is nobody left to tell.
            log.info("the end of a task could not be told", task=task.id, reason=str(exc))
            return
        raise


async def _pause(deps: Deps, task_id: str) -> None:
    task = await deps.store.task(task_id)
    episode = await deps.store.last_episode(task_id)
    rules = config.parse(episode.config_text.encode() if episode.config_text is not None else None)
    try:
        sandbox = await connect(deps, task, rules)
        await sandbox.pause()
        await sandbox.aclose()
    except SandboxError as exc:
        if exc.reason != "gone":
            raise
