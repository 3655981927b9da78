"""Git's tree ids, computed from a listing and a patch without git: the second opinion on what gets published."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from bot.domain.patch import Mode, Patch

INLINE_LIMIT = 1_000_000
"""Bytes up to which text goes into GitHub's tree call itself; anything larger is uploaded as a blob of its own."""
CALL_ENTRIES = 1_000
CALL_BYTES = 8_000_000
"""Of the text in one of GitHub's tree calls; what is more is put on top of its tree by another one."""


@dataclass(frozen=True, kw_only=True)
class TreeEntry:
    """One line of git's recursive listing: a file or a link (`blob`), or a submodule (`commit`). What is no UTF-8 in
    `path` is kept as surrogates."""

    mode: str
    type: Literal["blob", "commit"]
    sha: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One path's new state for GitHub's tree call. `mode` None deletes it. Else exactly one is set: `sha` (an object
    that GitHub has already), `content` (text that goes inline), `upload` (bytes that need a blob first)."""

    path: str
    mode: Mode | None
    sha: str | None = None
    content: str | None = None
    upload: bytes | None = None


def parse_ls_tree(data: bytes) -> tuple[TreeEntry, ...]:
    """Reads `git ls-tree -r -z`; ValueError for anything else."""
    entries = []
    for line in data.split(b"\0")[:-1]:
        meta, tab, path = line.partition(b"\t")
        words = meta.decode("ascii").split(" ")
        if not tab or not path or len(words) != 3 or words[1] not in ("blob", "commit"):
            raise ValueError("this is no recursive listing of a tree")
        mode, kind, sha = words
        entries.append(TreeEntry(mode=mode, type=cast(Literal["blob", "commit"], kind), sha=sha, path=_decode(path)))
    if data and not data.endswith(b"\0"):
        raise ValueError("the listing of a tree was cut off")
    return tuple(entries)


def blob_id(content: bytes) -> str:
    """The id git gives to a file with this content."""
    return _object_id(b"blob", content)


def tree_id(base: Sequence[TreeEntry], patch: Patch) -> str:
    """The id git gives to base's tree with the patch applied. A patch that can't be applied is a ValueError: it names
    what git would never take, deletes what isn't there, touches a submodule, or makes a path both file and folder."""
    files = {_encode(entry.path): (entry.mode, entry.sha) for entry in base}
    for change in patch.changes:
        path = _encode(change.path)
        _check(change.path)
        mode, _ = files.get(path, ("", ""))
        if mode == "160000":
            raise ValueError(f"{change.path!r} is a submodule")
        if change.mode is not None:
            files[path] = (change.mode, blob_id(change.content))
        elif mode:
            del files[path]
        else:
            raise ValueError(f"{change.path!r} is to be deleted and isn't there")
    return _root(files)


def publishable(patch: Patch, base: Sequence[TreeEntry] = ()) -> tuple[Entry, ...]:
    """How each change goes to GitHub. Content that base has under any path is named by its id (a new mode, a renamed
    file); so a base left out only costs bytes."""
    known = {entry.sha for entry in base if entry.type == "blob"}
    entries = []
    for change in patch.changes:
        sha = blob_id(change.content)
        if change.mode is None:
            entries.append(Entry(path=change.path, mode=None))
        elif sha in known:
            entries.append(Entry(path=change.path, mode=change.mode, sha=sha))
        elif (text := _inline(change.content)) is not None:
            entries.append(Entry(path=change.path, mode=change.mode, content=text))
        else:
            entries.append(Entry(path=change.path, mode=change.mode, upload=change.content))
    return tuple(entries)


def batches(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """The entries as one tree call each takes them, one on top of the other. Where a file takes a folder's place, or
    the other way round, what was there goes in an earlier call: within one, GitHub promises no order."""
    gone = frozenset(entry.path for entry in entries if entry.mode is None)
    above = frozenset(folder for path in gone for folder in _folders(path))
    first: list[Entry] = []
    late: list[Entry] = []
    for entry in entries:
        waits = entry.mode is not None and (entry.path in above or not gone.isdisjoint(_folders(entry.path)))
        (late if waits else first).append(entry)
    return (*_calls(first), *_calls(late))


def _calls(entries: Sequence[Entry]) -> Iterator[tuple[Entry, ...]]:
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        more = len((entry.content or "").encode())
        if batch and (len(batch) == CALL_ENTRIES or size + more > CALL_BYTES):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(entry)
        size += more
    if batch:
        yield tuple(batch)


def _folders(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


def _inline(content: bytes) -> str | None:
    # An empty `content` reads like one that was left out, so the empty file is uploaded as well.
    if not content or len(content) > INLINE_LIMIT or b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _check(path: str) -> None:
    for name in path.split("/"):
        # Other systems' spellings of `.git` are refused by git's own checks on a server as well.
        hidden = name.casefold().rstrip(" .") in (".git", "git~1")
        if hidden or name in ("", ".", "..") or "\0" in name:
            raise ValueError(f"{path!r} is no path git takes")


def _root(files: dict[bytes, tuple[str, str]]) -> str:
    folders: dict[bytes, dict[bytes, tuple[str, str]]] = defaultdict(dict, {b"": {}})
    for path, entry in files.items():
        folder, _, name = path.rpartition(b"/")
        folders[folder][name] = entry
        while folder and folder not in files:
            folder = folder.rpartition(b"/")[0]
            folders[folder]  # a folder that holds nothing but folders
        if folder:
            raise ValueError(f"{_decode(folder)!r} can't be both a file and a folder")
    # Deepest first, so that each folder's id is there when the one above it is written.
    for folder in sorted(folders, key=lambda path: path.count(b"/") + bool(path), reverse=True):
        sha = _object_id(b"tree", b"".join(_lines(folders[folder])))
        if folder:
            above, _, name = folder.rpartition(b"/")
            folders[above][name] = ("40000", sha)
    return sha


def _lines(folder: dict[bytes, tuple[str, str]]) -> list[bytes]:
    # Git compares a folder's name as if it ended in a slash.
    names = sorted(folder, key=lambda name: name + b"/" if folder[name][0] == "40000" else name)
    return [b"%s %s\0%s" % (folder[n][0].encode(), n, bytes.fromhex(folder[n][1])) for n in names]


def _object_id(kind: bytes, content: bytes) -> str:
    header = b"%s %d\0" % (kind, len(content))
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _decode(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
