"""The check run `coder` on a published commit. Its permission may be missing; then all else goes on without it."""

from __future__ import annotations

from dataclasses import replace

import structlog

from bot.db.store import SavedReceipt
from bot.domain import check_run
from bot.domain.check_run import CheckRun, Files
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError
from bot.domain.receipt import of_commit
from bot.domain.task import State, Task
from bot.github.client import Repository
from bot.pipeline.deps import Deps
from bot.sandbox import workspace

PERMISSIONS = {"checks": "write", "contents": "read"}
"""Asked for apart: GitHub gives no token at all where one permission of several was not granted."""

log = structlog.get_logger()


async def are_allowed(deps: Deps, task: Task) -> bool:
    """Whether check runs may be written there: said to the operator where they may not."""
    try:
        async with deps.github.token(task.installation_id, task.name, PERMISSIONS):
            return True
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning(
            "no check runs can be written",
            task=task.id,
            repository=task.full_name,
            reason=str(exc),
            hint="give the App `checks: write`, and accept that for its installation",
        )
        return False


async def report(deps: Deps, task: Task, episode: Episode) -> None:
    """Brings the check run of the last published commit up to date; made once, however often this runs."""
    saved = await deps.store.receipt(task.id)
    if task.state is not State.IN_REVIEW or episode.code not in (Code.VERIFIED, Code.UNVERIFIED):
        return
    if saved is None or saved.envelope is None or task.head_sha is None:
        return
    try:
        async with deps.github.repository(
            task.installation_id, task.owner, task.name, permissions=PERMISSIONS
        ) as repository:
            run = await _check_run(deps, repository, task, episode, saved, task.head_sha)
            await repository.report(task.head_sha, check_run.NAME, run)
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("a check run was not written", task=task.id, repository=task.full_name, reason=str(exc))


async def _check_run(
    deps: Deps, repository: Repository, task: Task, episode: Episode, saved: SavedReceipt, head: str
) -> CheckRun:
    receipt = of_commit(deps.redactor.clean(saved.document), head)
    run = check_run.check_run(
        check_run.external_id(task.id, episode.number, receipt["tree"]),
        receipt,
        saved.evidence,
        saved.envelope,
        Files(await repository.paths(head), workspace.REPO),
    )
    redact = deps.redactor.redact
    annotations = tuple(replace(each, message=redact(each.message)) for each in run.annotations)
    return replace(run, title=redact(run.title), summary=redact(run.summary), annotations=annotations)
