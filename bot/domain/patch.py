"""A task's result as bytes: which paths change, to which content and mode. Git's own words for modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["100644", "100755", "120000"]
"""A regular file, an executable file, a symbolic link (its content is the target)."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One path's new state; `mode` None means that the path is deleted (and `content` is empty)."""

    path: str
    mode: Mode | None
    content: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Patch:
    """Changes sorted by path (as UTF-8 bytes), each path once."""

    changes: tuple[Change, ...] = ()

    @classmethod
    def of(cls, *changes: Change) -> Patch:
        """Sorted; a path named twice is a ValueError."""
        ordered = tuple(sorted(changes, key=lambda change: change.path.encode()))
        if len({change.path for change in ordered}) != len(ordered):
            raise ValueError("a patch names each path once")
        return cls(changes=ordered)

    @property
    def size(self) -> int:
        """Bytes of new content over all paths."""
        return sum(len(change.content) for change in self.changes)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)

    def excess(self, *, max_files: int, max_bytes: int) -> str | None:
        """Why this is not to be kept, whoever proposed it: more than the limits, or a path outside of a work tree."""
        if len(self.changes) > max_files or self.size > max_bytes:
            return (
                f"{len(self.changes):,} files with {self.size:,} bytes are more than {max_files:,} or {max_bytes:,}"
            )
        for path in self.paths:
            parts = path.split("/")
            if {"", ".", ".."} & set(parts) or parts[0].lower() == ".git" or "\0" in path:
                return f"{path[:100]!r} is no path in a work tree"
        return None

    def __bool__(self) -> bool:
        return bool(self.changes)
