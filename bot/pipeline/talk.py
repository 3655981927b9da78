"""What the bot says on GitHub: one live comment per task, found again by its marker, and answers to commands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from bot.db.store import Checkpoint, SavedReceipt, Telling
from bot.domain import comment, doing, gate, transcript
from bot.domain.budget import Allowance
from bot.domain.comment import SoFar, Unpublished
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError
from bot.domain.task import Lease, State, Task
from bot.domain.transcript import Step, spend
from bot.domain.verification import CheckResult, Evidence, Run
from bot.github.client import Repository
from bot.pipeline import rules as recorded
from bot.pipeline import shown
from bot.pipeline.deps import Deps

TALK = {"issues": "write", "pull_requests": "write"}
DIFF_LIMIT = 20_000
"""Characters shown of a change that was not published."""
OUTPUT_LIMIT = 3_000
"""Of what one failing check has printed, its end."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class _Said:
    """The live comment as it is to be. `gist` tells whether it must be told, `digest` whether it is another text."""

    body: str
    gist: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body.encode()).hexdigest()


async def tell(deps: Deps, task: Task, episode: Episode, *, edits: int | None = None) -> None:
    """Brings the task's live comment up to date, making it if it isn't there. With `edits` (of its `Telling`) nothing
    is done if it was told anything since."""
    permissions = {**TALK, "contents": "read"} if _has_failed(task, episode) else TALK
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions=permissions
    ) as repository:
        await update(deps, repository, task, episode, edits=edits)


async def update(
    deps: Deps, repository: Repository, task: Task, episode: Episode, *, edits: int | None = None
) -> None:
    """The same with a client that is open already."""
    steps = await deps.store.steps(task.id)
    saved = await deps.store.receipt(task.id)
    left = await _unpublished(deps, repository, task, episode, saved) if _has_failed(task, episode) else None
    said = await _said(deps, task, episode, steps, saved, left)
    last = await deps.store.telling(task.id)
    is_doubtful = last is not None and last.again_at is not None and last.again_at <= deps.clock()
    if last is not None and last.digest == said.digest and task.comment_id is not None and not is_doubtful:
        return
    if not await deps.store.begin_telling(task.id, now=deps.clock(), edits=edits):
        return
    try:
        comment_id = await _put(repository, task, said.body)
    except GitHubError as exc:
        await _untold(deps, task, last, exc)
        raise
    if comment_id != task.comment_id:
        await deps.store.set_comment(task.id, comment_id)
    await deps.store.end_telling(task.id, gist=said.gist, digest=said.digest)


async def progress(deps: Deps, lease: Lease, *, runs: Sequence[Run] = ()) -> None:
    """Tells what is going on inside of a stage, if that is anything new, in the comment that there is; `runs` are
    those of the verification that have ended. GitHub is asked for nothing else."""
    task = await deps.store.task(lease.task_id)
    if task.comment_id is None:
        return
    episode = await deps.store.last_episode(task.id)
    steps, saved = await deps.store.steps(task.id), await deps.store.receipt(task.id)
    said = await _said(deps, task, episode, steps, saved, None, runs=runs)
    last = await deps.store.telling(task.id)
    if last is not None and last.digest == said.digest:
        return
    async with deps.github.repository(task.installation_id, task.owner, task.name, permissions=TALK) as repository:
        await deps.store.begin_telling(task.id, now=deps.clock(), lease=lease)
        try:
            await repository.update_comment(task.comment_id, said.body)
        except GitHubError as exc:
            await _untold(deps, task, last, exc)
            raise
        await deps.store.end_telling(task.id, gist=said.gist, digest=said.digest)


async def gist(deps: Deps, task: Task, episode: Episode) -> str:
    """What the live comment must say, as `Telling` has it."""
    return comment.gist(task, episode, ahead=await _ahead(deps, task), now=deps.clock())


async def cheer(repository: Repository, episode: Episode) -> None:
    """The reaction to what asked for a work that is published now. A comment that is gone takes none."""
    if not episode.comment_id:
        return
    try:
        await repository.react(episode.comment_id, "rocket")
    except GitHubError as exc:
        log.warning("a reaction could not be given", comment=episode.comment_id, reason=str(exc))


async def _put(repository: Repository, task: Task, body: str) -> int:
    """The comment's id: the one that we know, or one that an earlier run has made, or a new one where people have
    deleted it."""
    if task.comment_id is not None:
        try:
            await repository.update_comment(task.comment_id, body)
        except GitHubError as exc:
            if exc.status not in (404, 410):
                raise
        else:
            return task.comment_id
    found = await repository.find_comment(task.number, comment.task_marker(task.id))
    if found is None or found == task.comment_id:
        return await repository.create_comment(task.number, body)
    await repository.update_comment(found, body)
    return found


async def _untold(deps: Deps, task: Task, last: Telling | None, error: GitHubError) -> None:
    """Where GitHub has surely not done it, the comment still says what it said."""
    if error.retry_after_s is not None or (error.status is not None and error.status < 500):
        gist, digest = (last.gist, last.digest) if last else ("", "")
        await deps.store.end_telling(task.id, gist=gist, digest=digest)


async def _said(
    deps: Deps,
    task: Task,
    episode: Episode,
    steps: tuple[Step, ...],
    saved: SavedReceipt | None,
    left: Unpublished | None,
    *,
    runs: Sequence[Run] = (),
) -> _Said:
    lost = transcript.losses(steps, episode.feedback)
    notices = (transcript.replaced(lost), transcript.blocked_hosts(transcript.blocked(steps)))
    so_far = await _so_far(deps, task, episode, steps, runs)
    status = comment.status(
        task, episode, so_far, saved.document if saved else None, [notice for notice in notices if notice], left
    )
    # What is cut can't be redacted any more, and the marker must not be.
    body = comment.marked(deps.redactor.redact(status), comment.task_marker(task.id))
    return _Said(body=body, gist=comment.gist(task, episode, ahead=so_far.ahead, now=so_far.now))


async def _so_far(deps: Deps, task: Task, episode: Episode, steps: tuple[Step, ...], runs: Sequence[Run]) -> SoFar:
    limits = recorded.of(episode).limits
    own = await deps.store.steps(task.id, episode_id=episode.id)
    now_doing = ""
    if task.state is State.WORKING:
        now_doing = doing.step(own, limits.steps, deps.redactor.redact, is_told=bool(episode.feedback))
    elif task.state is State.VERIFYING:
        now_doing = doing.verification(runs)
    return SoFar(
        now=deps.clock(),
        spent=spend(steps),
        own=spend(own),
        allowed=Allowance(
            steps=limits.steps,
            tool_calls=limits.tool_calls,
            tokens=limits.tokens,
            duration_s=limits.duration,
            cost=limits.cost,
        ),
        attempts=limits.attempts,
        doing=now_doing,
        ahead=await _ahead(deps, task),
        request=await _request(deps, task, episode),
    )


async def _ahead(deps: Deps, task: Task) -> int:
    return await deps.store.waiting_longer(task) if task.needs_slot and task.is_busy else 0


async def _request(deps: Deps, task: Task, episode: Episode) -> str | None:
    """The address of the comment or review that asked for an episode, where that is known."""
    page = task.clone_url.removesuffix(".git")
    if episode.review_id is not None and task.pull_request is not None:
        return f"{page}/pull/{task.pull_request}#pullrequestreview-{episode.review_id}"
    number = await deps.store.conversation_of(episode.comment_id) if episode.comment_id else None
    if number is None:
        return None
    # Under `issues`, GitHub finds any other pull request as well.
    kind = "pull" if number == task.pull_request else "issues"
    return f"{page}/{kind}/{number}#issuecomment-{episode.comment_id}"


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
    body = comment.answer(guid, deps.redactor.redact(text))
    if await repository.find_comment(number, comment.answer_marker(guid)) is None:
        await repository.create_comment(number, body)
