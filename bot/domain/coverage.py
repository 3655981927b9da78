"""Coverage of the lines that a patch changed, from the report that the checks themselves left."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.parsers import expat

from bot.domain.patch import COMPARED, Change, Patch

PATHS: tuple[str, ...] = (
    "coverage.xml",
    "cobertura.xml",
    "lcov.info",
    "coverage/cobertura-coverage.xml",
    "coverage/lcov.info",
    "cover.out",
    "coverage.out",
    "coverage.txt",
)
"""Where reports lie if nobody says otherwise: coverage.py, tarpaulin, llvm-cov, istanbul and c8, Go."""

SIZE_LIMIT = 8 * 1024 * 1024
LINE_LIMIT = 1_000_000
"""The highest number of a line."""
REPORT_LINES, REPORT_FILES = 500_000, 20_000
"""Lines and files of one report."""
FOLDERS = 40
"""Folders that a report may put before a repository's own paths."""
SOURCE_LIMIT = 10
"""Folders that Cobertura's files may lie in."""
MISSED_LIMIT = 500
"""Missed lines that are named."""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a file that a report takes for code."""

    covered: frozenset[int]
    missed: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How many of the changed lines that are code the checks went through."""

    report: str
    """Path of the file that says so."""
    lines: int
    covered: int
    missed: tuple[tuple[str, tuple[int, ...]], ...]
    """Lines of the new version by path, at most `MISSED_LIMIT`."""


class _Refused(Exception):
    """The document is not one we read."""


FileHits = dict[int, bool]
"""By line: whether anything went through it."""


class _Hits:
    """What a report says, file by file, within the limits."""

    def __init__(self) -> None:
        self.files: dict[str, FileHits] = {}
        self._room = REPORT_LINES

    def file(self, name: str) -> FileHits:
        lines = self.files.setdefault(name.replace("\\", "/").removeprefix("./"), {})
        if len(self.files) > REPORT_FILES:
            raise _Refused
        return lines

    def mark(self, lines: FileHits, first: int, last: int, hit: bool) -> None:
        """Once is enough, however often else it is said that nothing went through."""
        self._room -= last - first + 1
        if not 0 < first <= last <= LINE_LIMIT or self._room < 0:
            raise _Refused
        for line in range(first, last + 1):
            lines[line] = hit or lines.get(line, False)


def read(path: str, data: bytes) -> Mapping[str, Lines] | None:
    """The files of a report, by the names that it gives them; of Cobertura's, with each folder they may lie in. None
    for what is too large or can't be read. `path` is where it lay."""
    if len(data) > SIZE_LIMIT:
        return None
    text = data.decode("utf-8", "replace")
    try:
        hits = _cobertura(data) if path.endswith(".xml") else _go(text) if text.startswith("mode: ") else _lcov(text)
    except (_Refused, expat.ExpatError):
        return None
    return {
        name: Lines(
            covered=frozenset(line for line, hit in lines.items() if hit),
            missed=frozenset(line for line, hit in lines.items() if not hit),
        )
        for name, lines in hits.files.items()
        if lines
    }


def of_changes(patch: Patch, before: Mapping[str, bytes], path: str, data: bytes) -> Coverage | None:
    """Of the lines that the patch adds or changes; None if the report can't be read or knows none of them as code.
    `before` has the base's content of the changed files that it had."""
    if not (files := read(path, data)):
        return None
    prefix = max(_prefixes(files), key=lambda prefix: sum(f"{prefix}{name}" in files for name in patch.paths))
    covered, missed = 0, dict[str, tuple[int, ...]]()
    total, room = 0, MISSED_LIMIT
    for change in patch.changes:
        known = files.get(f"{prefix}{change.path}")
        if known is None or change.mode in (None, "120000"):
            continue
        lines = _changed(change, before.get(change.path, b""))
        here = sorted(lines & known.missed)
        covered += len(lines & known.covered)
        total += len(lines & (known.covered | known.missed))
        if named := tuple(here[:room]):
            missed[change.path] = named
            room -= len(named)
    if not total:
        return None
    return Coverage(report=path, lines=total, covered=covered, missed=tuple(missed.items()))


def _prefixes(names: Mapping[str, object]) -> tuple[str, ...]:
    """What may stand before a path in the repository: nothing, or folders that all the report's files share."""
    first, last = min(names), max(names)
    shared = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    ends = [at + 1 for at, letter in enumerate(first[:shared]) if letter == "/"]
    return ("", *(first[:end] for end in ends[:FOLDERS]))


def _changed(change: Change, before: bytes) -> frozenset[int]:
    """Numbers of new lines, from 1. In a change that is too long to be compared, all between its first and last."""
    old, new = (text.removesuffix(b"\n").split(b"\n") if text else [] for text in (before, change.content))
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(old) + len(new) > COMPARED:
        return frozenset(range(head + 1, head + 1 + len(new)))
    steps = difflib.SequenceMatcher(None, old, new).get_opcodes()
    return frozenset(
        head + 1 + at for tag, _, _, start, end in steps if tag in ("replace", "insert") for at in range(start, end)
    )


def _number(text: str) -> int:
    """A line's number or a count of hits. Some tools write hits as `1e+06`, or below zero where they overflow."""
    match = _NUMBER.match(text.strip())
    if match is None:
        raise _Refused
    return int(match[0])


_NUMBER = re.compile(r"-?[0-9]{1,18}")


def _lcov(text: str) -> _Hits:
    hits = _Hits()
    lines: FileHits = {}
    for record in text.splitlines():
        kind, _, said = record.partition(":")
        if kind == "SF":
            lines = hits.file(said.strip())
        elif kind == "DA":
            number, _, count = said.partition(",")
            line = _number(number)
            hits.mark(lines, line, line, _number(count) > 0)
    return hits


_GO_BLOCK = re.compile(r"(.+):([0-9]{1,7})\.[0-9]{1,7},([0-9]{1,7})\.[0-9]{1,7} [0-9]{1,9} ([0-9]{1,18})$")


def _go(text: str) -> _Hits:
    """Blocks, each from a line to a line."""
    hits = _Hits()
    for block in text.splitlines()[1:]:
        if (match := _GO_BLOCK.match(block)) is None:
            raise _Refused
        hits.mark(hits.file(match[1]), int(match[2]), int(match[3]), int(match[4]) > 0)
    return hits


def _cobertura(data: bytes) -> _Hits:
    hits = _Hits()
    sources: list[str] = []
    text: list[str] | None = None
    lines: list[FileHits] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal text, lines
        text = [] if tag == "source" and len(sources) < SOURCE_LIMIT else None
        if tag == "class":
            lines = [hits.file(place) for place in _places(sources, attributes.get("filename", ""))]
        elif tag == "line":
            line, count = _number(attributes.get("number", "")), _number(attributes.get("hits", ""))
            for known in lines:
                hits.mark(known, line, line, count > 0)

    def characters(piece: str) -> None:
        if text is not None:
            text.append(piece)

    def end(tag: str) -> None:
        nonlocal text
        if text is not None:
            sources.append("".join(text).strip())
        text = None

    def doctype(name: str, system: str | None, public: str | None, has_internal_subset: bool) -> None:
        # Istanbul names the format's own, which nobody fetches. What stands in the file may be entities.
        if has_internal_subset:
            raise _Refused

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.Parse(data, True)
    return hits


def _places(sources: list[str], name: str) -> Iterator[str]:
    """A file's name may be whole already, or begin in one of the folders."""
    if name.startswith("/") or not sources:
        yield name
        return
    for source in sources:
        folder = source.rstrip("/\\")
        yield f"{folder}/{name}" if folder not in ("", ".") else name
