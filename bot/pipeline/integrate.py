"""A pull request of ours on whose branch others work as well: what they push is brought in, and never undone.

No branch is ever moved but forward, from the commit that was expected. Work that meets other people's lines in the
same place stops, is kept, and people are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import structlog

from bot.db.store import Checkpoint
from bot.domain import comment
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError, UserError
from bot.domain.merging import File, Merge, merge
from bot.domain.patch import Patch
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.tree import blob_id
from bot.domain.verification import Publishable
from bot.github.client import Repository
from bot.pipeline import shown
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end

PERMISSIONS = {"contents": "read"}
DIFF_LIMIT = 20_000
"""Characters of a former change that the model is shown."""

log = structlog.get_logger()


class _Lost(Exception):
    """The branch is not what it was; the message says to people how, and what they can do."""


async def catch_up(deps: Deps, lease: Lease, task: Task, episode: Episode) -> Task | None:
    """Before a round of work on a pull request begins: the task as it is with all that others have pushed, whoever
    has moved the branch and however. None where that was the end of the round."""
    if task.head_branch is None or task.head_sha is None:
        return task
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions=PERMISSIONS
    ) as repository:
        head = await repository.branch(task.head_branch)
        if head is None:
            await end(deps, lease, task, episode, Code.WRITE_REFUSED, _deleted(task))
            return None
        if head != task.head_sha:
            log.info("others have pushed", task=task.id, left=task.head_sha, head=head)
            task, episode = await _adopt(deps, lease, task, episode, repository, head)
        if episode.kind == "fix" and task.merges is None:
            task = await _merge_base(deps, lease, task, episode, repository, head)
    return task


async def begin(
    deps: Deps, lease: Lease, task: Task, episode: Episode, checkpoint: Checkpoint, verdict: Publishable
) -> bool:
    """Before a result is published: whether it was not, because others have pushed meanwhile. Then their commits and
    ours are one tree now, which is verified anew; or, where they don't go together, the round has ended."""
    if task.head_branch is None or task.head_sha is None:
        return False
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions=PERMISSIONS
    ) as repository:
        head = await repository.branch(task.head_branch)
        if head == task.head_sha:
            return False
        try:
            if head is None:
                raise _Lost(_deleted(task))
            there = await repository.commit(head)
            if there.tree == verdict.tree and task.head_sha in there.parents:
                return False  # ours: published by an earlier run of this
            if (await repository.comparison(task.head_sha, head)).status != "ahead":
                raise _Lost(_rewritten(task))
            if task.merges is not None:
                raise _Lost(_met(task, checkpoint.patch.paths))
            merged = await _onto(repository, task, checkpoint, head)
            if merged.clashing:
                raise _Lost(_met(task, merged.clashing))
        except _Lost as exc:
            await end(deps, lease, task, episode, Code.WRITE_REFUSED, str(exc))
            return True
    log.info("brought together with what others have pushed", task=task.id, left=task.head_sha, head=head)
    await _drop_sandbox(deps, task)
    moved = replace(task, base_sha=head, head_sha=head, state=State.VERIFYING, updated_at=deps.clock())
    await deps.store.save(lease, moved, episode, stage=Stage.VERIFY, patch=merged.patch, now=deps.clock())
    deps.engine.wake()
    return True


async def _adopt(
    deps: Deps, lease: Lease, task: Task, episode: Episode, repository: Repository, head: str
) -> tuple[Task, Episode]:
    """The task on top of a head that others have made; what is not published yet goes with it, or is shown to the
    model, to be done again there."""
    checkpoint = await deps.store.checkpoint(task.id)
    patch, feedback = Patch(), episode.feedback
    if checkpoint is not None and checkpoint.base_sha == task.base_sha:
        clashing = checkpoint.patch.paths
        try:
            if task.merges is None:
                merged = await _onto(repository, task, checkpoint, head)
                patch, clashing = merged.patch, merged.clashing
        except GitHubError as exc:
            if exc.retryable or exc.status not in (404, 422):
                raise  # else what we have published is no longer there to be compared with
        if clashing:
            former = await shown.change(repository, checkpoint, DIFF_LIMIT)
            feedback = deps.redactor.redact(comment.met(clashing, former))
    await _drop_sandbox(deps, task)
    moved = replace(task, base_sha=head, head_sha=head, merges=None, updated_at=deps.clock())
    again = replace(episode, feedback=feedback)
    await deps.store.save(lease, moved, again, patch=patch, now=deps.clock())
    return moved, again


async def _merge_base(
    deps: Deps, lease: Lease, task: Task, episode: Episode, repository: Repository, head: str
) -> Task:
    """Where the pull request no longer merges with its base branch, and all our work is in it: the task on the tip of
    that branch, with all of the pull request done to it. The files that conflict hold both versions, for the model to
    make one of them."""
    tip = await repository.branch(task.base_branch)
    if tip is None:
        return task
    fork = (await repository.comparison(tip, head)).merge_base
    if fork == tip:
        return task
    old, ours, theirs = [await repository.states(sha, whole=True) for sha in (fork, head, tip)]
    paths = [path for path in {*old, *ours} if old.get(path) != ours.get(path)]
    before, mine = _Side(repository, fork, old), _Side(repository, head, ours)
    merged = await _merge(before, mine, _Side(repository, tip, theirs), paths, marked=True)
    checkpoint = await deps.store.checkpoint(task.id)
    if not merged.clashing or (checkpoint is not None and await _is_ahead(repository, task, checkpoint)):
        return task
    log.info("the base is brought in", task=task.id, base=tip, head=head, paths=merged.clashing)
    await _drop_sandbox(deps, task)
    moved = replace(task, base_sha=tip, merges=tip, updated_at=deps.clock())
    told = comment.base_conflicts(merged.clashing, task.base_branch)
    feedback = "\n\n".join(filter(None, (deps.redactor.redact(told), episode.feedback)))
    again = replace(episode, feedback=feedback)
    await deps.store.save(lease, moved, again, patch=merged.patch, now=deps.clock())
    return moved


async def _is_ahead(repository: Repository, task: Task, checkpoint: Checkpoint) -> bool:
    """Whether there is work that is not published yet: it is gone on with, and the base waits for the next round."""
    if checkpoint.base_sha != task.base_sha or task.head_sha is None:
        return False
    own = await _onto(repository, task, checkpoint, task.head_sha)
    return bool(own.patch)


async def _onto(repository: Repository, task: Task, checkpoint: Checkpoint, head: str) -> Merge:
    """What the checkpoint has that we have not published, as a patch on a head that others have made."""
    assert task.head_sha is not None, "only asked of a published task"
    old, base, theirs = [
        await repository.states(sha, whole=True) for sha in (task.head_sha, checkpoint.base_sha, head)
    ]
    touched = {change.path: change for change in checkpoint.patch.changes}
    ours = dict(base)
    for path, change in touched.items():
        ours[path] = f"{change.mode} {blob_id(change.content)}"
        if change.mode is None:
            del ours[path]
    paths = [path for path in {*old, *ours} if old.get(path) != ours.get(path)]
    mine = _Side(repository, checkpoint.base_sha, ours, checkpoint.patch)
    return await _merge(_Side(repository, task.head_sha, old), mine, _Side(repository, head, theirs), paths)


@dataclass(frozen=True)
class _Side:
    """A commit's files, with a patch on top of them; `states` are those of all of it."""

    repository: Repository
    sha: str
    states: Mapping[str, str]
    patch: Patch = field(default_factory=Patch)

    async def file(self, path: str) -> File | None:
        """A link's content is not asked for: where it is not ours, it only has to be told from others."""
        state = self.states.get(path)
        if state is None:
            return None
        changed = next((change for change in self.patch.changes if change.path == path), None)
        mode, _, sha = state.partition(" ")
        if changed is not None:
            content: bytes | None = changed.content
        else:
            try:
                content = await self.repository.read_file(path, self.sha)
            except UserError:
                return File(mode="120000", content=f"\0{sha}".encode())
        assert content is not None, "the states name it"
        return File(
            mode="100755" if mode == "100755" else "120000" if mode == "120000" else "100644", content=content
        )


async def _merge(old: _Side, ours: _Side, theirs: _Side, paths: list[str], *, marked: bool = False) -> Merge:
    files: list[dict[str, File | None]] = [{}, {}, {}]
    for path in sorted(paths):
        untouched = theirs.states.get(path) == old.states.get(path)
        files[1][path] = await ours.file(path)
        # What they have not touched need not be read: nothing there compares with ours.
        files[0][path] = files[2][path] = None
        if untouched and files[1][path] is None:
            files[0][path] = files[2][path] = await old.file(path)
        elif not untouched:
            files[0][path], files[2][path] = await old.file(path), await theirs.file(path)
    return merge(*files, marked=marked)


async def _drop_sandbox(deps: Deps, task: Task) -> None:
    """The task's work sandbox is on another commit now: the next one begins where the task is."""
    for record in await deps.store.sandboxes(task.id):
        if record.kind == "work":
            if record.provider_id is not None:
                await deps.provider.kill(record.provider_id)
            await deps.store.forget_sandbox(record.name)


def _deleted(task: Task) -> str:
    return (
        f"The branch `{task.head_branch}` is gone. Restore it on the pull request's page and say `/coder retry`, or "
        "close the pull request and say `/coder fix` on the issue."
    )


def _rewritten(task: Task) -> str:
    return (
        f"Somebody has rewritten the branch `{task.head_branch}` while I was at work, and I never force a branch. "
        "My change is kept. `/coder retry` has me do it on the branch as it is now."
    )


def _met(task: Task, paths: tuple[str, ...]) -> str:
    named = ", ".join(f"`{path}`" for path in paths[:5])
    return (
        f"Somebody has pushed to `{task.head_branch}` while I was at work, and has changed the same lines of "
        f"{named}. I leave their commit as it is, and my change is kept. `/coder retry` has me do it on top of "
        "theirs; `/coder fix …` says what to do with both."
    )
