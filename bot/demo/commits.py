"""Which trees the commits of somebody's repository have, by what the commits themselves hash to: a repository can say
anything else of itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.demo.borrowed import Borrowed, borrowed
from bot.demo.repository import git
from bot.domain.errors import UserError

REFS_LIMIT = 10_000
OBJECT_ID = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Commit:
    id: str
    tree: str


async def read(repo: Path, names: Sequence[str]) -> Mapping[str, Commit]:
    """The commits that these ids and refs name, without those that there are not. UserError where a commit is not
    what its id says; objects that stand in for others are not looked at."""
    async with borrowed(repo) as ours:
        return await _read(ours, names)


async def read_refs(repo: Path) -> Mapping[str, Commit]:
    """The commits of HEAD and of every branch, tag and other ref."""
    async with borrowed(repo) as ours:
        query = ("for-each-ref", f"--count={REFS_LIMIT}", "--format=%(refname)")
        return await _read(ours, ["HEAD", *(await git(ours, *query)).decode("utf-8", "surrogateescape").split()])


async def _read(ours: Borrowed, names: Sequence[str]) -> dict[str, Commit]:
    # An id is asked for as it is: a tag's is not its commit's, and git's own way through a commit goes by what lies
    # beside the commits to be quicker.
    asked = "".join(f"{name}\n" if OBJECT_ID.fullmatch(name) else f"{name}^{{commit}}\n" for name in names)
    left = await git(ours, "cat-file", "--batch", stdin=asked.encode("utf-8", "surrogateescape"))
    found = {}
    for name in names:
        line, _, left = left.partition(b"\n")
        match line.split():
            case [sha, kind, size]:
                content, left = left[: int(size)], left[int(size) + 1 :]
                if kind == b"commit":
                    found[name] = _commit(sha.decode(), content, ours)
    return found


def _commit(sha: str, content: bytes, ours: Borrowed) -> Commit:
    kind = "sha1" if len(sha) == 40 else "sha256"
    if hashlib.new(kind, b"commit %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest() != sha:
        raise UserError(f"The object {sha} in {ours.work_tree} is not what its id says; `git fsck` tells more.")
    return Commit(id=sha, tree=content.partition(b"\n")[0].removeprefix(b"tree ").decode())
