"""A pull request of ours to which somebody else has pushed: it says that its receipt is for an earlier commit."""

from __future__ import annotations

import structlog

from bot.domain import pull_request
from bot.domain.errors import GitHubError
from bot.domain.task import State, Task
from bot.github.client import Repository
from bot.pipeline.deps import Deps

PERMISSIONS = {"pull_requests": "write"}

log = structlog.get_logger()


async def look(deps: Deps, task_id: str) -> None:
    """Brings the text of a task's pull request up to date with its branch, whatever we have missed. Nothing is done
    where there is none, or where we may be moving its branch ourselves right now."""
    task = await deps.store.task(task_id)
    if task.pull_request is None or not _is_still(task):
        return
    try:
        async with deps.github.repository(
            task.installation_id, task.owner, task.name, permissions=PERMISSIONS
        ) as repository:
            await mark(repository, task, await _verified(deps, task))
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("the text of a pull request is not up to date", task=task.id, reason=str(exc))


async def _verified(deps: Deps, task: Task) -> str | None:
    """The commit that the pull request's receipt is for."""
    episodes = await deps.store.episodes(task.id)
    return next((each.published for each in reversed(episodes) if each.published), task.head_sha)


async def mark(repository: Repository, task: Task, verified: str | None) -> None:
    """Says on top of the pull request whether its branch has something else than what the receipt is for. Said once;
    the commit that it is for keeps its check run."""
    assert task.pull_request is not None, "asked of a published task"
    assert verified is not None, "a pull request has a head"
    pull = await repository.pull(task.pull_request)
    if pull.state == "closed":
        return
    if pull.head_sha == verified:
        body = pull_request.no_earlier(pull.body)
    else:
        body = pull_request.earlier(pull.body, verified)
    if body != pull.body.replace("\r\n", "\n"):
        log.info("a pull request has moved on", task=task.id, verified=verified, head=pull.head_sha)
        await repository.update_pull(pull.number, body=body)


def _is_still(task: Task) -> bool:
    return task.is_open and task.state not in (State.VERIFYING, State.AWAITING_APPROVAL)
