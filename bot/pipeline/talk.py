"""What the bot says on GitHub: one live comment per task, found again by its marker, and answers to commands."""

from __future__ import annotations

from bot.domain import comment, transcript
from bot.domain.episode import Episode
from bot.domain.task import Task
from bot.domain.transcript import spend
from bot.github.client import Repository
from bot.pipeline.deps import Deps


async def tell(deps: Deps, task: Task, episode: Episode) -> None:
    """Brings the task's live comment up to date, making it if it isn't there."""
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions={"issues": "write"}
    ) as repository:
        await update(deps, repository, task, episode)


async def update(deps: Deps, repository: Repository, task: Task, episode: Episode) -> None:
    """The same with a client that is open already."""
    steps = await deps.store.steps(task.id)
    saved = await deps.store.receipt(task.id)
    lost = transcript.losses(steps, episode.feedback)
    notices = (transcript.replaced(lost), transcript.blocked_hosts(transcript.blocked(steps)))
    status = comment.status(
        task, episode, spend(steps), saved.document if saved else None, [notice for notice in notices if notice]
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


async def answer(deps: Deps, repository: Repository, number: int, guid: str, text: str) -> None:
    """Posts an answer to one delivery, once."""
    body = deps.redactor.redact(comment.answer(guid, text))
    if await repository.find_comment(number, comment.answer_marker(guid)) is None:
        await repository.create_comment(number, body)
