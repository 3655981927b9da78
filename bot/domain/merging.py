"""Bringing two lines of work together, as far as lines tell: what both change in the same place is a conflict."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.domain.patch import Change, Mode, Patch

COMPARED = 10_000
"""Lines of a file up to which versions are compared; a longer one that both sides have changed is a conflict."""

OURS, MIDDLE, THEIRS = b"<<<<<<<", b"=======", b">>>>>>>"
"""How git marks what it could not merge."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One side's version of a path."""

    mode: Mode
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Merge:
    """Our work as a patch on theirs. `clashing` paths are in it with both versions between git's marks where that was
    asked for, else not at all."""

    patch: Patch
    clashing: tuple[str, ...]


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


def merge(
    old: Mapping[str, File | None],
    ours: Mapping[str, File | None],
    theirs: Mapping[str, File | None],
    *,
    marked: bool = False,
) -> Merge:
    """What we have done to `old`, done to what others have made of it; each side by path, None where there is no
    file. All three have the paths of `ours`."""
    changes, clashing = [], []
    for path, mine in ours.items():
        before, other = old[path], theirs[path]
        if mine in (before, other):
            continue
        file = mine if other == before else _both(before, mine, other)
        if file is None and not (mine is None and other == before):
            clashing.append(path)
            if not marked or mine is None or other is None:
                continue
            file = File(mode=mine.mode, content=_marked(mine.content, other.content))
        changes.append(Change(path=path, mode=None) if file is None else _change(path, file))
    return Merge(patch=Patch.of(*changes), clashing=tuple(sorted(clashing)))


def has_marks(content: bytes) -> bool:
    """Whether there is a conflict in a file that nobody has resolved."""
    lines = content.split(b"\n")
    return any(line.startswith(OURS) for line in lines) and any(line.startswith(THEIRS) for line in lines)


def _change(path: str, file: File) -> Change:
    return Change(path=path, mode=file.mode, content=file.content)


def _both(old: File | None, ours: File | None, theirs: File | None) -> File | None:
    if old is None or ours is None or theirs is None or "120000" in (old.mode, ours.mode, theirs.mode):
        return None
    content = _merged(old.content, ours.content, theirs.content)
    if content is None:
        return None
    return File(mode=theirs.mode if ours.mode == old.mode else ours.mode, content=content)


def _merged(old: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    if ours == theirs or theirs == old:
        return ours
    if any(b"\0" in text for text in (old, ours, theirs)):
        return None
    lines = [text.splitlines(keepends=True) for text in (old, ours, theirs)]
    if max(map(len, lines)) > COMPARED:
        return None
    edits = [*_edits(lines[0], lines[1]), *_edits(lines[0], lines[2])]
    edits = [edit for at, edit in enumerate(edits) if edit not in edits[:at]]  # both made the same one
    edits.sort(key=lambda edit: edit.start)
    done, made = 0, list[bytes]()
    for at, edit in enumerate(edits):
        if at and edit.start <= edits[at - 1].end:  # neighbours conflict, as for git
            return None
        made += [*lines[0][done : edit.start], *edit.lines]
        done = edit.end
    return b"".join([*made, *lines[0][done:]])


@dataclass(frozen=True, kw_only=True)
class _Edit:
    """The old lines from `start` up to `end` become these."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def _edits(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[_Edit]:
    for tag, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Edit(start=first, end=last, lines=tuple(new[start:end]))


def _marked(ours: bytes, theirs: bytes) -> bytes:
    """Both versions whole, apart from what they begin and end with alike."""
    mine, other = ours.splitlines(keepends=True), theirs.splitlines(keepends=True)
    shortest = min(len(mine), len(other))
    head = next((at for at in range(shortest) if mine[at] != other[at]), shortest)
    tail = next((at for at in range(shortest - head) if mine[-1 - at] != other[-1 - at]), shortest - head)
    parts = (
        *mine[:head],
        OURS + b" pull request\n",
        *_ended(mine[head : len(mine) - tail]),
        MIDDLE + b"\n",
        *_ended(other[head : len(other) - tail]),
        THEIRS + b" base\n",
        *mine[len(mine) - tail :],
    )
    return b"".join(parts)


def _ended(lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line if line.endswith((b"\n", b"\r")) else line + b"\n"


def _merges(change: Change, old: bytes | None, new: bytes | None) -> bool:
    ours = None if change.mode is None else change.content
    if ours == new:
        return True
    if ours is None or old is None or new is None:
        return False
    return _merged(old, ours, new) is not None
