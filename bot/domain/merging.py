"""Whether a patch still merges with a base that has moved on, as far as lines tell."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from bot.domain.patch import Change, Patch

COMPARED = 10_000
"""Lines of a file up to which versions are compared; a longer one that both sides have changed is a conflict."""


def conflicts(patch: Patch, old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """Paths of the patch that the base has changed as well, from `old` to `new` (contents by path, None where there
    is no file), in a way that does not merge. A path that is in neither has not changed. What git may well merge can
    be called a conflict here; with lines that tell each other apart, not the other way around."""
    return tuple(
        change.path
        for change in patch.changes
        if change.path in new and old.get(change.path) != new[change.path]
        if not _merges(change, old.get(change.path), new[change.path])
    )


def _merges(change: Change, old: bytes | None, new: bytes | None) -> bool:
    ours = None if change.mode is None else change.content
    if ours == new:
        return True
    if ours is None or old is None or new is None or any(b"\0" in text for text in (ours, old, new)):
        return False
    lines = [text.splitlines(keepends=True) for text in (old, ours, new)]
    if max(map(len, lines)) > COMPARED:
        return False
    theirs = _changed(lines[0], lines[2])
    return not any(a < d and c < b for a, b in _changed(lines[0], lines[1]) for c, d in theirs)


def _changed(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[float, float]]:
    """Where a version changes the old one, half a line wider on both sides: neighbours conflict, as for git."""
    opcodes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(first - 0.5, last + 0.5) for tag, first, last, _, _ in opcodes if tag != "equal"]
