"""What the bot says on GitHub: one live comment per task, found again by its marker, and answers to commands."""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from bot.db.store import Checkpoint, SavedReceipt
from bot.domain import comment, gate, transcript
from bot.domain.comment import Unpublished
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError
from bot.domain.task import State, Task
from bot.domain.transcript import spend
from bot.domain.verification import CheckResult, Evidence
from bot.github.client import Repository
from bot.pipeline import rules as recorded
from bot.pipeline import shown
from bot.pipeline.deps import Deps

TALK = {"issues": "write"}
DIFF_LIMIT = 20_000
"""Characters shown of a change that was not published."""
OUTPUT_LIMIT = 3_000
"""Of what one failing check has printed, its end."""

log = structlog.get_logger()


async def tell(deps: Deps, task: Task, episode: Episode) -> None:
    """Brings the task's live comment up to date, making it if it isn't there."""
    permissions = {**TALK, "contents": "read"} if _has_failed(task, episode) else TALK
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions=permissions
    ) as repository:
        await update(deps, repository, task, episode)


async def update(deps: Deps, repository: Repository, task: Task, episode: Episode) -> None:
    """The same with a client that is open already."""
    steps = await deps.store.steps(task.id)
    saved = await deps.store.receipt(task.id)
    lost = transcript.losses(steps, episode.feedback)
    notices = (transcript.replaced(lost), transcript.blocked_hosts(transcript.blocked(steps)))
    left = await _unpublished(deps, repository, task, episode, saved) if _has_failed(task, episode) else None
    status = comment.status(
        task,
        episode,
        spend(steps),
        saved.document if saved else None,
        [notice for notice in notices if notice],
        left,
    )
    body = deps.redactor.redact(status)
    comment_id = task.comment_id
    if comment_id is None:
        comment_id = await repository.find_comment(task.number, comment.task_marker(task.id))
    if comment_id is None:
        comment_id = await repository.create_comment(task.number, body)
    else:
        await repository.update_comment(comment_id, body)
    if task.comment_id is None:
        await deps.store.set_comment(task.id, comment_id)


def _has_failed(task: Task, episode: Episode) -> bool:
    """Whether an episode of work has ended and brought nothing to GitHub."""
    is_over = task.state is State.WAITING and episode.code not in (None, Code.NO_CHANGE)
    return episode.kind == "fix" and is_over


async def _unpublished(
    deps: Deps, repository: Repository, task: Task, episode: Episode, saved: SavedReceipt | None
) -> Unpublished | None:
    """What there is of its change, and why it failed; None where nothing was changed."""
    checkpoint = await deps.store.checkpoint(task.id)
    if checkpoint is None or not checkpoint.patch:
        return None
    outputs: dict[str, str] = {}
    if saved is not None and saved.checkpoint_id == checkpoint.id and episode.attempts:
        for check in _failing(saved.evidence):
            outputs.setdefault(_named(check), check.output[-OUTPUT_LIMIT:])
    if _has_secret(deps, checkpoint, recorded.of(episode)):
        kept = "The change is not shown here: it has what looks like a secret."
        return Unpublished(outputs=outputs, diff=None, kept=kept)
    try:
        diff = await shown.change(repository, checkpoint, DIFF_LIMIT)
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("a change could not be shown", task=task.id, reason=str(exc))
        return Unpublished(outputs=outputs, diff=None, kept="The change is kept for `/coder retry`.")
    return Unpublished(outputs=outputs, diff=diff)


def _failing(evidence: Evidence) -> Iterator[CheckResult]:
    """Checks of the change, with its own tests and with those from before, that did not end well."""
    for run in evidence.runs:
        if run.kind in ("candidate", "old_tests"):
            yield from (check for check in run.checks if check.exit_code or check.timed_out or check.is_red)


def _named(check: CheckResult) -> str:
    ended = "time-out" if check.timed_out else f"exit code {check.exit_code}"
    return f"{check.name}, {ended}"


def _has_secret(deps: Deps, checkpoint: Checkpoint, rules: Config) -> bool:
    """Whether the gate would refuse it for a secret, taking every line of it for a new one."""
    found = gate.inspect(checkpoint.patch, (), {}, rules, gate.kinds(deps.redactor.redact))
    return any(each.kind == "secret" for each in gate.refused(found))


async def answer(deps: Deps, repository: Repository, number: int, guid: str, text: str) -> None:
    """Posts an answer to one delivery, once."""
    body = deps.redactor.redact(comment.answer(guid, text))
    if await repository.find_comment(number, comment.answer_marker(guid)) is None:
        await repository.create_comment(number, body)
