"""From a verdict that may be published to a pull request: blobs, tree, commit, ref, each found if it is there.

Where somebody has to approve it, it is shown on the issue first, and only the tree that was approved is published."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import structlog

from bot.db.store import Checkpoint
from bot.domain import branches, comment, gate, lfs, paths, pull_request, pull_template
from bot.domain import receipt as receipts
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError, UserError
from bot.domain.patch import Patch
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.tree import Entry, batches, publishable
from bot.domain.verification import Draft, Passed, Publishable, judge
from bot.github.client import IssueComment, Repository, TreeEntry
from bot.pipeline import audit, checks, integrate, rebuild, shown, talk
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end

log = structlog.get_logger()

PERMISSIONS = {"contents": "write", "issues": "write", "pull_requests": "write"}
DIFF_LIMIT = 40_000
"""Characters of a change that are shown for approval."""

Sign = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Signs a receipt that names its commit, and keeps that."""


class PublishRefused(UserError):
    """The result can't be published as it was verified; the message says why."""


class NobodyAsks(UserError):
    """Whoever asked for the result, or approved it, may no longer write there."""


class Moved(GitHubError):
    """Somebody has moved the branch right now: what they pushed is to be looked at first."""

    def __init__(self) -> None:
        super().__init__("The pull request's branch has moved meanwhile.", retryable=True)


class NothingChanged(UserError):
    """The verified tree is the one that is there already."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What is to be published. `receipt` is its document, redacted; `checked`: the App may write check runs. The
    `verdict` is one of two that only `judge` makes: there is no way from here to a branch without one."""

    task: Task
    episode: Episode
    checkpoint: Checkpoint
    verdict: Publishable
    rules: Config
    receipt: dict[str, Any]
    checked: bool


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
    if not isinstance(verdict, Passed | Draft) or saved.checkpoint_id != checkpoint.id:
        await end(deps, lease, task, episode, Code.UNVERIFIED, "The newest change has no passing receipt.")
        return
    rules = recorded.of(episode)
    findings = (*saved.evidence.findings, *gate.inspect_names(checkpoint.patch, rules))
    if refused := gate.refused(findings):
        await end(deps, lease, task, episode, Code.POLICY_REFUSED, comment.refusal_reasons(refused))
        return
    if await integrate.begin(deps, lease, task, episode, checkpoint, verdict):
        return
    if await rebuild.begin(deps, lease, task, episode, checkpoint, rules):
        return
    is_held = rules.pull_request.publish == "after_approval" or gate.is_held(findings)
    if is_held and episode.approved_tree != verdict.tree:
        if episode.shown_tree != verdict.tree:
            await _show(deps, lease, task, episode, checkpoint, saved.document)
        return
    result = Result(
        task=replace(task, title=deps.redactor.redact(task.title)),
        episode=episode,
        checkpoint=checkpoint,
        verdict=verdict,
        rules=rules,
        receipt=deps.redactor.clean(saved.document),
        checked=await checks.are_allowed(deps, task),
    )
    await _publish(deps, lease, task, result)


async def _publish(deps: Deps, lease: Lease, task: Task, result: Result) -> None:
    episode, checkpoint = result.episode, result.checkpoint
    workflows = [path for path in checkpoint.patch.paths if paths.is_workflow(path)]
    permissions = {**PERMISSIONS, "workflows": "write"} if workflows else PERMISSIONS

    async def sign(document: Mapping[str, Any]) -> None:
        await deps.store.sign_receipt(lease, deps.signer.sign(dict(document)))

    try:
        async with deps.github.repository(
            task.installation_id, task.owner, task.name, permissions=permissions
        ) as repository:
            await _must_still_be_asked(repository, episode)
            published = await publish(repository, result, sign=sign, redact=deps.redactor.redact)
            code = Code.VERIFIED if isinstance(result.verdict, Passed) else Code.UNVERIFIED
            new = published.head_sha if published.head_sha != task.head_sha else None
            done = replace(episode, code=code, detail=" ".join(result.receipt["reasons"]), published=new)
            task = replace(published, title=task.title, state=State.IN_REVIEW, updated_at=deps.clock())
            await _save(deps, lease, task, done)
            try:
                await talk.cheer(repository, done)
                await talk.update(deps, repository, task, done)
            except GitHubError as exc:
                if exc.closed is None:
                    raise
                log.warning("a result could not be told", task=task.id, reason=str(exc))  # its pull request tells it
    except NothingChanged as exc:
        await end(deps, lease, task, episode, Code.NO_CHANGE, str(exc))
    except NobodyAsks as exc:
        await end(deps, lease, task, episode, Code.PERMISSION_DENIED, str(exc))
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


async def _must_still_be_asked(repository: Repository, episode: Episode) -> None:
    """A permission that was taken away while the work went on counts. An App's is that the rules list it."""
    login = episode.approved_by or episode.requester
    if not login.endswith("[bot]") and not (await repository.permission(login)).allows("write"):
        raise NobodyAsks(
            f"{login} asked for this, and may no longer write here, so it is not published. "
            "It is kept: `/coder retry` by somebody who may goes on with it."
        )


async def _show(
    deps: Deps, lease: Lease, task: Task, episode: Episode, checkpoint: Checkpoint, receipt: dict[str, object]
) -> None:
    """The change and its receipt as a comment, once; from then on it can be approved."""
    tree = str(receipt["tree"])
    marker = comment.approval_marker(task.id, episode.number, tree)
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions={"contents": "read", **talk.TALK}
    ) as repository:
        found = await _find(repository, task.number, marker)
        if found is None:
            diff = await shown.change(repository, checkpoint, DIFF_LIMIT)
            body = comment.approval(task, episode, receipt, diff)
            await repository.create_comment(task.number, deps.redactor.redact(body))
            found = await _find(repository, task.number, marker)
    if found is None:
        raise GitHubError("GitHub does not show the comment with the change yet.", retryable=True)
    log.info("waits for approval", task=task.id, tree=tree)
    waiting = replace(task, state=State.AWAITING_APPROVAL, updated_at=deps.clock())
    asked = replace(episode, shown_tree=tree, shown_at=found.created_at, approved_tree=None, approved_by=None)
    await deps.store.save(lease, waiting, asked, stage=Stage.CLEANUP, now=deps.clock())
    deps.engine.wake()


async def _find(repository: Repository, number: int, marker: str) -> IssueComment | None:
    found = await repository.comments(number)
    return next((each for each in found if each.by_this_app and marker in each.body), None)


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


async def publish(repository: Repository, result: Result, *, sign: Sign, redact: Callable[[str], str]) -> Task:
    """Moves the task's branch to a commit with exactly the verified tree, from the head that was expected, and opens
    the pull request if there is none. The receipt is signed for that commit before any ref moves."""
    _must_have_names(result.checkpoint.patch)
    task, rules = result.task, result.rules
    branch, head = await _head(repository, result)
    commit = await repository.commit(head) if head is not None else None
    is_merged = task.merges is None or (commit is not None and task.merges in commit.parents)
    if commit is not None and commit.tree == result.verdict.tree and commit.sha != task.base_sha and is_merged:
        made = commit
        await sign(receipts.of_commit(result.receipt, made.sha))
    else:
        tree = await _tree(repository, result)
        message = pull_request.commit_message(task, result.episode)
        made = await repository.create_commit(message, tree, _parents(task))
        await sign(receipts.of_commit(result.receipt, made.sha))
        if head is None:
            await repository.create_branch(branch, made.sha)
        else:
            await _move(repository, branch, head, made.sha)
    pull = await repository.find_pull(branch)
    published = await _published(repository, result, branch, made.sha)
    receipt = receipts.of_commit(result.receipt, made.sha)
    verified = isinstance(result.verdict, Passed)
    if pull is None:
        title = pull_request.title(task, result.episode, verified=verified)
        body = pull_request.body(task, result.episode, receipt, published)
        try:
            pull = await repository.create_pull(
                title=redact(title),
                body=redact(body),
                head=branch,
                base=task.base_branch,
                draft=rules.pull_request.draft or not verified,
            )
        except GitHubError as exc:
            if verified or exc.retryable:
                raise
            raise PublishRefused(
                f"The change is on the branch `{branch}`, but GitHub opened no draft for it; some repositories have "
                f"none. `verification: {{unverified: comment, weakened: refuse}}` asks for none. {exc}"
            ) from exc
    else:
        published = replace(published, notes=(*published.notes, *_about_draft(result, is_draft=pull.is_draft)))
        body = pull_request.updated(pull.body, task, result.episode, receipt, published)
        title = pull_request.retitled(pull.title, verified=verified)
        await repository.update_pull(pull.number, title=title, body=redact(body))
    await _decorate(repository, pull.number, rules)
    return replace(
        task,
        head_branch=branch,
        head_sha=made.sha,
        merges=None,
        pull_request=pull.number,
        pull_request_url=pull.url,
    )


async def _move(repository: Repository, branch: str, head: str, sha: str) -> None:
    try:
        await repository.move_branch(branch, sha)
    except GitHubError as exc:
        if not exc.retryable and await repository.branch(branch) != head:
            raise Moved from exc
        raise


def _must_have_names(patch: Patch) -> None:
    for path in patch.paths:
        try:
            path.encode()
        except UnicodeEncodeError as exc:
            raise PublishRefused(
                f"`{gate.shown(path)}` has a name that is not UTF-8: GitHub's API has no way to say it."
            ) from exc


async def _head(repository: Repository, result: Result) -> tuple[str, str | None]:
    """The task's branch and where it is (None: it is to be made). What an earlier run of this has published already
    is found again; whatever else is not where it was left is left alone."""
    task, tree = result.task, result.verdict.tree
    if task.head_branch is None:
        return await _place(repository, result)
    head = await repository.branch(task.head_branch)
    there = await repository.commit(head) if head is not None and head != task.head_sha else None
    is_ours = there is not None and (there.tree, there.parents) == (tree, _parents(task))
    if head != task.head_sha and not is_ours:
        raise Moved
    return task.head_branch, head


def _parents(task: Task) -> tuple[str, ...]:
    """What the next commit comes after: what the pull request has, and the commit of its base that is brought in."""
    return (task.head_sha or task.base_sha, *([task.merges] if task.merges else []))


async def _place(repository: Repository, result: Result) -> tuple[str, str | None]:
    """A name for the branch that is free, or the branch that an earlier run of this has made."""
    task = result.task
    base = await repository.commit(task.base_sha)
    if base.tree == result.verdict.tree:
        raise NothingChanged("The change comes to nothing: its tree is the one that it starts from.")
    wanted = result.rules.pull_request.branch.format(number=task.number)
    for stem in branches.stems(wanted):
        taken = await repository.branches(stem)
        for name in branches.numbered(stem):
            if name in taken:
                commit = await repository.commit(taken[name])
                if (commit.tree, commit.parents) == (result.verdict.tree, (task.base_sha,)):
                    return name, commit.sha
        for folder in branches.folders(stem):
            if (sha := await repository.branch(folder)) is not None:
                taken[folder] = sha
        if (free := branches.free(stem, taken)) is not None:
            return free, None
    raise PublishRefused(
        f"`{wanted}` and the names next to it are all taken. Delete such branches, or name others under "
        "`pull_request.branch` in `.github/coder.yml`."
    )


async def _tree(repository: Repository, result: Result) -> str:
    """The change's tree on GitHub, put there in as many calls as it takes; it has to be the verified one."""
    made = (await repository.commit(result.task.base_sha)).tree
    for batch in batches(publishable(result.checkpoint.patch)):
        entries = []
        for entry in batch:
            sha = await repository.create_blob(entry.upload) if entry.upload is not None else None
            entries.append(_entry(entry, sha))
        made = await repository.create_tree(made, entries)
    if made != result.verdict.tree:
        raise PublishRefused(
            f"GitHub's tree is {made}, the verified one {result.verdict.tree}; nothing was published."
        )
    return made


def _entry(entry: Entry, uploaded: str | None) -> TreeEntry:
    return TreeEntry(path=entry.path, mode=entry.mode, sha=uploaded or entry.sha, content=entry.content)


async def _published(repository: Repository, result: Result, branch: str, commit: str) -> pull_request.Published:
    """What the pull request says of the repository it is in."""
    task, rules = result.task, result.rules
    wanted = rules.pull_request.branch.format(number=task.number)
    page = task.clone_url.removesuffix(".git")
    there = frozenset(await repository.paths(task.base_sha))
    found = lfs.inspect(result.checkpoint.patch, await _attributes(repository, result, there))
    named = () if branch == wanted else (f"The branch is `{branch}`, because `{wanted}` could not be had.",)
    return pull_request.Published(
        commit=commit,
        link=await _link(repository, result),
        checks_url=f"{page}/commit/{commit}/checks" if result.checked else None,
        notes=(*named, *await _about_base(repository, task), *(each.text for each in found)),
        template=await _template(repository, result, there),
    )


async def _about_base(repository: Repository, task: Task) -> tuple[str, ...]:
    """A base that is no commit of the base branch is one that others have pushed to the pull request."""
    if task.pull_request is None:
        return ()
    stands = await repository.comparison(task.base_branch, task.base_sha)
    if stands.status in ("behind", "identical"):
        return ()
    return (
        f"The receipt's base is `{task.base_sha[:12]}`, which others have pushed to this branch: what was in the "
        "pull request by then is not judged anew. It has its own receipt in the check of the commit before.",
    )


async def _link(repository: Repository, result: Result) -> Literal["Fixes", "Refs"]:
    return "Fixes" if (await repository.info()).default_branch == result.task.base_branch else "Refs"


async def _template(repository: Repository, result: Result, there: frozenset[str]) -> str | None:
    """The repository's own, from its default branch; one that can't be read is as good as none."""
    trusted = result.episode.config_sha
    try:
        path = pull_template.find(there if trusted == result.task.base_sha else await repository.paths(trusted))
        content = await repository.read_file(path, trusted) if path is not None else None
    except UserError as exc:
        log.warning("the template for pull requests is not read", task=result.task.id, reason=str(exc))
        return None
    return None if content is None else content.decode("utf-8", "replace")


async def _attributes(repository: Repository, result: Result, there: frozenset[str]) -> dict[str, str]:
    """The `.gitattributes` that say something of the change, as they are with it."""
    changed = {change.path: change for change in result.checkpoint.patch.changes}
    found = {}
    for folder in lfs.folders(result.checkpoint.patch):
        path = f"{folder}/{lfs.FILE}" if folder else lfs.FILE
        if path in changed:
            found[folder] = changed[path].content.decode("utf-8", "replace")
        elif path in there:
            with contextlib.suppress(UserError):  # a link, which git does not follow there either
                content = await repository.read_file(path, result.task.base_sha)
                found[folder] = (content or b"").decode("utf-8", "replace")
    return found


def _about_draft(result: Result, *, is_draft: bool) -> tuple[str, ...]:
    """Only people can make a draft of a pull request, or take it back: the REST API has no call for it."""
    verified = isinstance(result.verdict, Passed)
    if verified and is_draft and not result.rules.pull_request.draft:
        return ("This is verified now, and can be marked as ready for review. I can't do that myself.",)
    if not verified and not is_draft:
        return ("This is not verified any more, and should be a draft. I can't make it one myself.",)
    return ()


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
