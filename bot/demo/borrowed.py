"""A repository somebody names to us, read through a git directory of our own.

Git started in a repository does what that repository's configuration says: it runs programs for `core.fsmonitor`,
for filters, hooks and missing objects. So git is never started in one that we did not make: ours borrows its objects
and has its names for commits, and nothing of its configuration, hooks or attributes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.domain.errors import UserError

CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[gc]\n\tauto = 0\n"
POINTER_LIMIT = 4096
"""Bytes of a file that says where a git directory is."""


@dataclass(frozen=True, kw_only=True)
class Borrowed:
    """`git_dir` is ours and may be written to; `work_tree` is theirs (of a bare repository: the repository)."""

    git_dir: Path
    work_tree: Path

    @property
    def environment(self) -> dict[str, str]:
        """What points git there; no object that is missing is fetched, none stands in for another."""
        return {
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.work_tree),
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }


@asynccontextmanager
async def borrowed(repo: Path) -> AsyncIterator[Borrowed]:
    """The repository at a path, or around it, until the block ends. UserError where there is none."""
    with tempfile.TemporaryDirectory(prefix="coder-") as scratch:
        try:
            ours = await asyncio.to_thread(_borrow, repo, Path(scratch, "git"))
        except (OSError, shutil.Error, UnicodeDecodeError) as exc:
            raise UserError(f"{repo} can't be read as a git repository.") from exc
        yield ours


def _borrow(repo: Path, ours: Path) -> Borrowed:
    work_tree, theirs = _found(repo)
    common = _pointed(theirs / "commondir", "") or theirs
    objects = str((common / "objects").resolve())
    if "\n" in objects:
        raise UserError("A path with a line end in it can't be worked with.")
    (ours / "objects" / "info").mkdir(parents=True)
    (ours / "objects" / "info" / "alternates").write_text(objects + "\n")
    (ours / "config").write_text(CONFIG)
    # Links are taken over as links: what they lead to is not copied.
    shutil.copytree(common / "refs", ours / "refs", symlinks=True)
    for file in (theirs / "HEAD", common / "packed-refs", common / "shallow", theirs / "index"):
        if file.is_file():
            shutil.copy2(file, ours)  # of an index, the time counts
    for file in theirs.glob("sharedindex.*"):
        shutil.copy2(file, ours, follow_symlinks=False)
    return Borrowed(git_dir=ours, work_tree=work_tree)


def _found(repo: Path) -> tuple[Path, Path]:
    """The work tree and its git directory, as git would find them."""
    around = (repo.resolve(), *repo.resolve().parents) if repo.is_dir() else ()
    for folder in around:
        theirs = _pointed(folder / ".git", "gitdir: ") or folder / ".git"
        if (theirs / "HEAD").is_file():
            return folder, theirs
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
            return folder, folder
    raise UserError(f"{repo} is not a git repository with a commit.")


def _pointed(file: Path, prefix: str) -> Path | None:
    """Where a file says that a directory is."""
    if not file.is_file() or file.stat().st_size > POINTER_LIMIT:
        return None
    return file.parent / file.read_text().removeprefix(prefix).rstrip("\n")
