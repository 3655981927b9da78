"""At start-up and every few minutes: what the rows say is due becomes due, what nobody owns is ended."""

from __future__ import annotations

from datetime import timedelta

import structlog

from bot.domain.task import STAGE_OF, State
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps

log = structlog.get_logger()


async def run(deps: Deps) -> None:
    """Safe at any time; touches only this deployment's tasks and sandboxes."""
    due = await deps.store.jobs()
    tasks = {task.id: task for task in await deps.store.tasks()}
    for task in tasks.values():
        stage = STAGE_OF.get(task.state)
        if stage is not None and not any(key == task.id for _, key in due):
            log.warning("work was due but not queued", task=task.id, stage=str(stage))
            await deps.engine.enqueue(stage, task.id)
    for info in await deps.provider.list():
        owner = tasks.get(info.task)
        if owner is None or not owner.is_open or (info.kind != "work" and not owner.is_busy):
            log.warning("ending a sandbox that no live task owns", sandbox=info.id, task=info.task)
            await deps.provider.kill(info.id)
    for task in tasks.values():
        if task.state is State.WAITING and await deps.store.sandboxes(task.id):
            episode = await deps.store.last_episode(task.id)
            rules = recorded.of(episode)
            if deps.clock() - task.updated_at > timedelta(seconds=rules.sandbox.retention):
                log.info("retention is over", task=task.id)
                for record in await deps.store.sandboxes(task.id):
                    if record.provider_id:
                        await deps.provider.kill(record.provider_id)
                    await deps.store.forget_sandbox(record.name)
