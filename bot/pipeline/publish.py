"""From a `Passed` to a pull request: blobs, tree, commit, ref, each found if it is there already.

Where somebody has to approve it, it is shown on the issue first, and only the tree that was approved is published."""

from __future__ import annotations

from dataclasses import replace

import structlog

from bot.db.store import Checkpoint
from bot.domain import comment, gate, paths
from bot.domain.comment import Diff
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError, UserError
from bot.domain.patch import Patch, unified
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.tree import Entry, publishable
from bot.domain.verification import Passed, judge
from bot.github.client import IssueComment, Repository, TreeEntry
from bot.pipeline import audit, talk
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end

log = structlog.get_logger()

PERMISSIONS = {"contents": "write", "issues": "write", "pull_requests": "write"}
DIFF_LIMIT = 40_000
"""Characters of a change that are shown for approval."""


class PublishRefused(UserError):
    """The result can't be published as it was verified; the message says why."""


async def run(deps: Deps, task_id: str) -> None:
    """Leaves the task `in_review` with its pull request, `awaiting_approval` with the change shown, or ended with a
    code. Running it again changes nothing."""
    lease = await deps.store.lease(task_id)
    task = await deps.store.task(task_id)
    if task.state not in (State.VERIFYING, State.AWAITING_APPROVAL):
        return
    episode = await deps.store.last_episode(task_id)
    saved = await deps.store.receipt(task_id)
    checkpoint = await deps.store.checkpoint(task_id)
    assert saved is not None, "publishing is due only once a receipt was saved"
    assert checkpoint is not None, "a receipt names its checkpoint"
    verdict = judge(saved.evidence)
    if not isinstance(verdict, Passed) or saved.checkpoint_id != checkpoint.id:
        await end(deps, lease, task, episode, Code.UNVERIFIED, "The newest change has no passing receipt.")
        return
    rules = recorded.of(episode)
    findings = (*saved.evidence.findings, *gate.inspect_names(checkpoint.patch, rules))
    if refused := gate.refused(findings):
        await end(deps, lease, task, episode, Code.POLICY_REFUSED, comment.refusal_reasons(refused))
        return
    is_held = rules.pull_request.publish == "after_approval" or gate.is_held(findings)
    if is_held and episode.approved_tree != verdict.tree:
        if episode.shown_tree != verdict.tree:
            await _show(deps, lease, task, episode, checkpoint, saved.document)
        return
    workflows = [path for path in checkpoint.patch.paths if paths.is_workflow(path)]
    permissions = {**PERMISSIONS, "workflows": "write"} if workflows else PERMISSIONS
    try:
        async with deps.github.repository(
            task.installation_id, task.owner, task.name, permissions=permissions
        ) as repository:
            told = replace(task, title=deps.redactor.redact(task.title))
            receipt = deps.redactor.clean(saved.document)
            published = await publish(repository, told, episode, checkpoint, verdict, rules, receipt)
            task = replace(published, title=task.title)
            done = replace(episode, code=Code.VERIFIED, detail=" ".join(verdict.reasons))
            task = replace(task, state=State.IN_REVIEW, updated_at=deps.clock())
            await _save(deps, lease, task, done)
            try:
                await talk.update(deps, repository, task, done)
            except GitHubError as exc:
                if exc.closed is None:
                    raise
                log.warning("a result could not be told", task=task.id, reason=str(exc))  # its pull request tells it
    except PublishRefused as exc:
        await end(deps, lease, task, episode, Code.WRITE_REFUSED, str(exc))
    except GitHubError as exc:
        if exc.retryable or not workflows or exc.status not in (403, 404, 422) or task.state is State.IN_REVIEW:
            raise
        # The approval is spent, the result is not: it waits to be approved again.
        unapproved = replace(episode, approved_tree=None, approved_by=None)
        detail = comment.workflows_refused(workflows, str(exc))
        waits = State.AWAITING_APPROVAL
        await end(deps, lease, task, unapproved, Code.WRITE_REFUSED, detail, state=waits)


async def _show(
    deps: Deps, lease: Lease, task: Task, episode: Episode, checkpoint: Checkpoint, receipt: dict[str, object]
) -> None:
    """The change and its receipt as a comment, once; from then on it can be approved."""
    tree = str(receipt["tree"])
    marker = comment.approval_marker(task.id, episode.number, tree)
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions={"contents": "read", "issues": "write"}
    ) as repository:
        shown = await _find(repository, task.number, marker)
        if shown is None:
            body = comment.approval(task, episode, receipt, await _diff(repository, checkpoint))
            await repository.create_comment(task.number, deps.redactor.redact(body))
            shown = await _find(repository, task.number, marker)
    if shown is None:
        raise GitHubError("GitHub does not show the comment with the change yet.", retryable=True)
    log.info("waits for approval", task=task.id, tree=tree)
    waiting = replace(task, state=State.AWAITING_APPROVAL, updated_at=deps.clock())
    asked = replace(episode, shown_tree=tree, shown_at=shown.created_at, approved_tree=None, approved_by=None)
    await deps.store.save(lease, waiting, asked, stage=Stage.CLEANUP, now=deps.clock())
    deps.engine.wake()


async def _find(repository: Repository, number: int, marker: str) -> IssueComment | None:
    found = await repository.comments(number)
    return next((each for each in found if each.by_this_app and marker in each.body), None)


async def _diff(repository: Repository, checkpoint: Checkpoint) -> Diff:
    """As much of the change as a comment takes, beside what GitHub itself has as the base."""
    changes, lines, size = checkpoint.patch.changes, list[str](), 0
    for files, change in enumerate(changes):
        for line in unified(change, await _before(repository, change.path, checkpoint.base_sha)):
            size += len(line) + 1
            if size > DIFF_LIMIT:
                left = f"{files} of {len(changes)} files are whole; look at the rest before you approve it"
                return Diff(text="\n".join(lines), files=len(changes), left_out=left)
            lines.append(line)
    return Diff(text="\n".join(lines), files=len(changes))


async def _before(repository: Repository, path: str, base: str) -> bytes | None:
    try:
        return await repository.read_file(path, base)
    except UserError as exc:  # a link, or a file that is too large
        return f"({exc})".encode()


async def _save(deps: Deps, lease: Lease, task: Task, episode: Episode) -> None:
    audit.note(
        "published",
        task=task.id,
        repository=task.full_name,
        pull_request=task.pull_request,
        head=task.head_sha,
        by=episode.requester,
        approved_by=episode.approved_by,
    )
    await deps.store.save(lease, task, episode, stage=Stage.CLEANUP, now=deps.clock())
    deps.engine.wake()


async def publish(
    repository: Repository,
    task: Task,
    episode: Episode,
    checkpoint: Checkpoint,
    verdict: Passed,
    rules: Config,
    receipt: dict[str, object],
) -> Task:
    """Moves the task's branch to a commit with exactly the verified tree, from the head that was expected, and opens
    the pull request if there is none. Takes a `Passed`: there is no way here without one."""
    branch = task.head_branch or rules.pull_request.branch.format(number=task.number)
    head = await repository.branch(branch)
    commit = await repository.commit(head) if head is not None else None
    if head is None or commit is None or commit.tree != verdict.tree or commit.sha == task.base_sha:
        if head != task.head_sha:
            raise PublishRefused(
                f"The branch `{branch}` is not where I left it. "
                "Delete it, or name another under `pull_request.branch`."
            )
        tree = await _tree(repository, task.base_sha, checkpoint.patch)
        if tree != verdict.tree:
            raise PublishRefused(f"GitHub's tree is {tree}, the verified one {verdict.tree}; nothing was published.")
        message = comment.commit_message(task, episode)
        made = await repository.create_commit(message, tree, [task.head_sha or task.base_sha])
        if head is None:
            await repository.create_branch(branch, made.sha)
        else:
            await repository.move_branch(branch, made.sha)
        head = made.sha
    pull = await repository.find_pull(branch)
    if pull is None:
        pull = await repository.create_pull(
            title=comment.pull_request_title(task, episode),
            body=comment.pull_request_body(task, episode, receipt),
            head=branch,
            base=task.base_branch,
            draft=rules.pull_request.draft,
        )
    else:
        await repository.update_pull(pull.number, body=comment.pull_request_body(task, episode, receipt))
    await _decorate(repository, pull.number, rules)
    return replace(task, head_branch=branch, head_sha=head, pull_request=pull.number, pull_request_url=pull.url)


async def _tree(repository: Repository, base: str, patch: Patch) -> str:
    start = await repository.commit(base)
    entries = []
    for entry in publishable(patch):
        sha = await repository.create_blob(entry.upload) if entry.upload is not None else None
        entries.append(_entry(entry, sha))
    return await repository.create_tree(start.tree, entries)


def _entry(entry: Entry, uploaded: str | None) -> TreeEntry:
    return TreeEntry(path=entry.path, mode=entry.mode, sha=uploaded or entry.sha, content=entry.content)


async def _decorate(repository: Repository, number: int, rules: Config) -> None:
    """Labels and reviewers are wishes: a label or a person that isn't there must not undo a published result."""
    try:
        if rules.pull_request.labels:
            await repository.add_labels(number, rules.pull_request.labels)
        if rules.pull_request.reviewers:
            await repository.request_reviewers(number, rules.pull_request.reviewers)
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("labels or reviewers could not be set", pull_request=number, reason=str(exc))
