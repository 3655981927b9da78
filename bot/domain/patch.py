"""A task's result as bytes: which paths change, to which content and mode. Git's own words for modes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.domain import invisible

COMPARED = 4_000
"""Lines up to which two versions are compared line by line; longer ones are shown one after the other."""

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


def unified(change: Change, before: bytes | None) -> Iterator[str]:
    """A change as the lines of a unified diff; `before` is the file as it was, None where there was none. What is no
    text is only counted."""
    yield f"--- {f'a/{change.path}' if before is not None else '/dev/null'}"
    yield f"+++ {f'b/{change.path}' if change.mode is not None else '/dev/null'}"
    if change.mode is not None and change.mode != "100644":
        yield {"100755": "(executable)", "120000": "(a symbolic link; its content is its target)"}[change.mode]
    old, new = before or b"", change.content
    if b"\0" in old or b"\0" in new:
        yield f"(binary: {len(old):,} bytes before, {len(new):,} bytes after)"
        return
    ends = "\r" if b"\r\n" in old and b"\r\n" in new else ""
    texts = ((text.decode("utf-8", "replace").split("\n") if text else []) for text in (old, new))
    for line in _compared(*([line.removesuffix(ends) for line in text] for text in texts)):
        yield _visible(line)


def _visible(line: str) -> str:
    """What nobody would see, spelled out: a diff is read by whoever has to decide."""
    if invisible.find(line) is None:
        return line
    return "".join(ascii(c)[1:-1] if invisible.find(c) else c for c in line)


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if len(old) + len(new) <= COMPARED:
        lines = difflib.unified_diff(old, new, lineterm="", n=3)
        yield from (line for at, line in enumerate(lines) if at > 1)
        return
    head = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    yield f"@@ from line {head + 1} @@"
    yield from (f"-{line}" for line in old[head : len(old) - tail])
    yield from (f"+{line}" for line in new[head : len(new) - tail])
