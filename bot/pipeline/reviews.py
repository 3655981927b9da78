"""Reviews of our pull requests: what one asks for, and the answer that each of its threads gets once."""

from __future__ import annotations

import structlog

from bot.domain import review
from bot.domain.episode import Episode
from bot.domain.errors import GitHubError
from bot.domain.event import Reviewed
from bot.domain.review import Asked, Inline
from bot.domain.task import Task
from bot.github.client import Repository
from bot.pipeline.deps import Deps

PERMISSIONS = {"contents": "read", "pull_requests": "write"}

log = structlog.get_logger()


async def read(repository: Repository, event: Reviewed) -> Asked | None:
    """What a review asks of us, all of it as GitHub has it now: its parts are told of one by one, in any order."""
    found = await repository.review(event.number, event.review_id)
    if found is None or found.author.id != event.actor.id or found.state in ("dismissed", "pending"):
        return None
    inline = [
        Inline(
            id=each.id,
            root_id=each.reply_to or each.id,
            path=each.path,
            line=each.line,
            hunk=each.hunk,
            text=each.body,
            author=each.author.login,
        )
        for each in await repository.inline_comments(event.number)
        if each.review_id == found.id and each.author.id == found.author.id
    ]
    return review.asked(
        found.body,
        wants_changes=found.state == "changes_requested",
        inline=inline,
        login=await repository.login(),
    )


async def acknowledge(deps: Deps, repository: Repository, event: Reviewed, task_id: str) -> None:
    """The sign that they were seen, on the inline comments that are worked on: a review itself takes none."""
    episode = await deps.store.last_episode(task_id)
    if episode.review_id != event.review_id:
        return
    for thread in episode.threads:
        await repository.react_inline(thread.comment_id, "eyes")


async def answer(deps: Deps, task: Task) -> None:
    """Gives each thread of a task's ended episodes its answer, where it has none yet. A thread that takes none (it
    was deleted, or nobody may write there any more) is passed by."""
    due = [each for each in await deps.store.episodes(task.id) if each.threads and each.code and not each.answered]
    if not due or task.pull_request is None:
        return
    if task.is_open:
        async with deps.github.repository(
            task.installation_id, task.owner, task.name, permissions=PERMISSIONS
        ) as repository:
            for episode in due:
                await _answer(deps, repository, task, episode)
    for episode in due:
        await deps.store.set_answered(episode.id)


async def _answer(deps: Deps, repository: Repository, task: Task, episode: Episode) -> None:
    assert task.pull_request is not None, "only asked with one"
    assert episode.code is not None, "only asked of one that has ended"
    commit, changed = await _published(repository, episode)
    replies = {place: deps.redactor.redact(text) for place, text in episode.replies.items()}
    known = [each.body for each in await repository.inline_comments(task.pull_request) if each.by_this_app]
    for thread, body in review.answers(
        episode.id, episode.threads, replies, code=episode.code, commit=commit, changed=changed
    ):
        marker = review.thread_marker(episode.id, thread.comment_id)
        if any(body.rstrip().endswith(marker) for body in known):
            continue
        try:
            await repository.reply(task.pull_request, thread.root_id, body)
        except GitHubError as exc:
            if exc.retryable:
                raise
            log.warning("a thread could not be answered", task=task.id, comment=thread.comment_id, reason=str(exc))


async def _published(repository: Repository, episode: Episode) -> tuple[str | None, frozenset[str]]:
    """The commit that an episode has published, and the paths that it changes; None where it has published none."""
    sha = episode.published
    if sha is None:
        return None, frozenset()
    commit = await repository.commit(sha)
    before, after = await repository.states(commit.parents[0]), await repository.states(sha)
    return sha, frozenset(path for path in {*before, *after} if before.get(path) != after.get(path))
