"""A verified change that no longer merges with its base: made again on the tip, once, before it is published."""

from __future__ import annotations

from dataclasses import replace

import structlog

from bot.db.store import Checkpoint
from bot.domain import comment
from bot.domain.config import Config
from bot.domain.episode import Episode
from bot.domain.errors import UserError
from bot.domain.merging import conflicts
from bot.domain.task import Lease, Stage, State, Task
from bot.github.client import Repository
from bot.pipeline import shown
from bot.pipeline.deps import Deps

DIFF_LIMIT = 20_000
"""Characters of the former change that the model is shown."""

log = structlog.get_logger()


async def begin(
    deps: Deps, lease: Lease, task: Task, episode: Episode, checkpoint: Checkpoint, rules: Config
) -> bool:
    """Whether the task was sent back to be done on the tip. A base that has moved on does not matter as long as the
    change merges with it; nor, once, does one that it does not merge with: GitHub then shows the conflict."""
    steps = await deps.store.steps(task.id, episode_id=episode.id)
    told = any(comment.is_rebuild(step.note) for step in steps)
    if task.head_sha is not None or told or episode.attempts >= rules.limits.attempts:
        return False
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions={"contents": "read"}
    ) as repository:
        tip = await repository.branch(task.base_branch)
        if tip is None or tip == task.base_sha:
            return False
        clashing = await _conflicts(repository, checkpoint, tip)
        if not clashing:
            return False
        former = await shown.change(repository, checkpoint, DIFF_LIMIT)
    log.info("the change is made again on the tip", task=task.id, base=task.base_sha, tip=tip, paths=clashing)
    for record in await deps.store.sandboxes(task.id):
        if record.kind == "work":
            if record.provider_id is not None:
                await deps.provider.kill(record.provider_id)
            await deps.store.forget_sandbox(record.name)
    feedback = deps.redactor.redact(comment.rebuild(clashing, former))
    moved = replace(task, state=State.QUEUED, base_sha=tip, updated_at=deps.clock())
    again = replace(episode, feedback=feedback)
    await deps.store.save(lease, moved, again, stage=Stage.PROVISION, now=deps.clock())
    deps.engine.wake()
    return True


async def _conflicts(repository: Repository, checkpoint: Checkpoint, tip: str) -> tuple[str, ...]:
    before, now = await repository.states(checkpoint.base_sha), await repository.states(tip)
    touched = [path for path in checkpoint.patch.paths if before.get(path) != now.get(path)]
    old = {path: await _content(repository, path, checkpoint.base_sha, before) for path in touched}
    new = {path: await _content(repository, path, tip, now) for path in touched}
    return conflicts(checkpoint.patch, old, new)


async def _content(repository: Repository, path: str, ref: str, states: dict[str, str]) -> bytes | None:
    try:
        return await repository.read_file(path, ref)
    except UserError:
        return f"\0{states.get(path)}".encode()  # a link or something huge: merges only with what is the same
