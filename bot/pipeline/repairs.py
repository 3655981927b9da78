"""Failing CI on a commit that we have published: as many episodes as the repository allows try to mend it."""

from __future__ import annotations

from bot.db.store import Delivery
from bot.domain.errors import GitHubError
from bot.domain.event import ChecksEnded
from bot.domain.task import Decision, Task, Trusted, repair
from bot.pipeline.asking import rules_of
from bot.pipeline.deps import Deps

READ_CODE = {"contents": "read"}
READ_CHECKS = {"checks": "read"}


async def take(deps: Deps, delivery: Delivery, event: ChecksEnded) -> Decision | None:
    """What the end of a program's checks does to the task whose commit they were of."""
    if delivery.outcome:
        return None
    task = await deps.store.open_task_at(event.repository.id, event.head_sha)
    if task is None or event.app_id == deps.github.app_id:
        await deps.store.conclude(delivery.guid, "ignored: not for a commit of ours")
        return None
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions=READ_CODE
    ) as repository:
        rules = await rules_of(deps, repository, event.repository.default_branch)
    allowed = rules.config.pull_request.repair_ci if rules.config is not None and rules.config.enabled else 0
    if not allowed:
        await deps.store.conclude(delivery.guid, "ignored: `pull_request.repair_ci` asks for nothing")
        return None
    if not await _has_failed(deps, task, event.head_sha):
        await deps.store.conclude(delivery.guid, "ignored: nothing has failed, or not all has ended")
        return None
    trusted = Trusted(branch=task.base_branch, sha=rules.sha, base_sha=task.base_sha, config_text=rules.text)
    done = sum(each.repairs is not None for each in await deps.store.episodes(task.id))
    episode_id = deps.new_id()
    return await deps.store.decide(
        delivery.guid,
        lambda task, last: repair(
            event,
            task=task,
            last=last,
            done=done,
            allowed=allowed,
            trusted=trusted,
            episode_id=episode_id,
            now=deps.clock(),
        ),
        repository_id=event.repository.id,
        number=task.number,
        comment_id=None,
        now=deps.clock(),
    )


async def _has_failed(deps: Deps, task: Task, sha: str) -> bool:
    """Whether other programs' checks fail on a commit. Which of several runs of a workflow counts is known for sure
    only where the App may read those; GitHub gives no token for what it was not granted."""
    try:
        async with deps.github.repository(
            task.installation_id, task.owner, task.name, permissions={**READ_CHECKS, "actions": "read"}
        ) as repository:
            return await repository.has_failed(sha)
    except GitHubError as exc:
        if exc.status not in (403, 422):
            raise
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions=READ_CHECKS
    ) as repository:
        return await repository.has_failed(sha)
