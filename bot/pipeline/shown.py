"""A task's change as people read it in a comment, beside what GitHub itself has as the base."""

from __future__ import annotations

from bot.db.store import Checkpoint
from bot.domain.comment import Diff
from bot.domain.errors import UserError
from bot.domain.patch import unified
from bot.github.client import Repository


async def change(repository: Repository, checkpoint: Checkpoint, limit: int) -> Diff:
    """As much of it as `limit` characters take."""
    changes, lines, size = checkpoint.patch.changes, list[str](), 0
    for files, each in enumerate(changes):
        for line in unified(each, await _before(repository, each.path, checkpoint.base_sha)):
            size += len(line) + 1
            if size > limit:
                left = f"{files} of {len(changes)} files are whole"
                return Diff(text="\n".join(lines), files=len(changes), left_out=left)
            lines.append(line)
    return Diff(text="\n".join(lines), files=len(changes))


async def _before(repository: Repository, path: str, base: str) -> bytes | None:
    try:
        return await repository.read_file(path, base)
    except UserError as exc:  # a link, or a file that is too large
        return f"({exc})".encode()
