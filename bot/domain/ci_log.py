"""Why checks of other programs fail, as a text for a model: the telling part of a job's log, and their own words.

All of it was written by others. It is cleaned and cut here; whoever shows it to a model marks it as data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from bot.domain.cuts import beginning, ending
from bot.domain.invisible import clean

MARK = "[... lines left out ...]"
"""Stands for lines that are not shown. It names no number: often only the end of a log was read at all."""
LINES = 50_000
"""Lines of a log that are looked at, the last ones."""
LINE_LIMIT = 500
"""Characters shown of one line of a log, its beginning and its end."""
NAME_LIMIT = 200
"""Of a check's name, of its title, and of a path."""
MESSAGE_LIMIT = 600
"""Of one annotation."""

_LEAST = 1_500
"""Characters that are worth telling of one check; with less for each, only as many checks are told as have that."""
_NAMED_LIMIT = 500
"""Of the names of those that are not told."""
_CUT = " [... the rest is left out ...]"

# GitHub begins each line with the time, and the first one with a byte order mark.
_STAMP = re.compile(r"\ufeff?[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z ?")
_ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?|\x1b\][^\x07\x1b\n]*+\x07?|\x1b[@-_]?")

# How GitHub's runner writes. https://github.com/actions/runner/blob/main/docs/adrs/0276-problem-matchers.md and
# https://docs.github.com/actions/reference/workflow-commands-for-github-actions
_STEPS = ("##[group]Run ", "Post job cleanup.", "Cleaning up orphan processes")
"""What a step's first line begins with."""
_ERROR = "##[error]"

# They see lines of `LINE_LIMIT` characters only.
_STRONG = re.compile(
    "|".join(
        (
            r"^##\[error\]",
            r"\bFAIL(?:ED|URES?)?\b",  # pytest, Go, Jest, Maven, Gradle, PHPUnit
            r"(?:Error|Exception)(?=[:\s]|$)",
            r"\berror(?:\[\w+\])?:",  # rustc, gcc, clang
            r"\berror [A-Z]+[0-9]+\b",  # tsc, MSBuild
            r"^\s*[0-9]+:[0-9]+\s+error\b",  # ESLint
            r"^(?:ERROR|e:)\s|\[ERROR\]|\bERROR:",
            r"^Traceback \(most recent call last\)|^E   ",
            r"^npm (?:ERR!|error\b)",
            r"[✕✖✗✘❌]|^\s*×\s",
            r"^\s*not ok\b",
            r"\bpanicked at\b|^panic:|^fatal(?: error)?:",
            r"Segmentation fault|core dumped|[Oo]ut of memory|heap limit|^Killed$",
            r"^\s*[0-9]+ failing\b|^Failures:|Failure/Error:|^rspec \./|^\s*Failed[! ]",  # Mocha, RSpec, .NET
        )
    )
)
_WEAK = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|ures|s|ing)?|fatal|exception|cannot|can't|could not|unable|undefined|unexpected"
    r"|not found|no such|denied|refused|timed out|exit (?:code|status) [1-9])\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Note:
    """What a check says of a line of a file."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A check of another program that failed. `log` is the telling part of its log, None where there is none to be
    had; `url` is for people."""

    name: str
    conclusion: Literal["failure", "timed_out"]
    url: str
    title: str = ""
    summary: str = ""
    annotations: tuple[Note, ...] = ()
    log: str | None = None


def told(failures: Sequence[Failure], limit: int) -> str:
    """What all of them say, in at most `limit` characters, each with about the same room; what had no room is named.
    The same failures in the same order make the same text."""
    shown = failures[: max(1, limit // _LEAST)]
    more = ", ".join(_line(failure.name) for failure in failures[len(shown) :])
    also = _cut(f"These fail as well: {more}", _NAMED_LIMIT) if more else ""
    room = limit - len(also)
    blocks: list[str] = []
    for at, failure in enumerate(shown):
        block = _told(failure, room // (len(shown) - at) - 2)
        room -= len(block) + 2
        blocks.append(block)
    return beginning("\n\n".join([*blocks, also] if also else blocks), max(0, limit))


def relevant(log: str, limit: int) -> str:
    """The lines of a CI job's log that say why it failed, in at most `limit` characters, as they stood but for times,
    colours, progress and whatever nobody sees; what lies between them is marked as left out. All of it, where it is
    short enough. GitHub Actions' logs are known by their steps: the last one with an error comes first. Doing it
    twice, the second time with less room, is fine."""
    shown = [_shown(line) for line in log.rstrip().rsplit("\n", LINES)]
    if len(shown) > LINES:
        shown[0] = MARK
    lines = [line for before, line in pairwise(["", *shown]) if line or before]  # one blank line is as good as many
    if sum(map(len, lines)) + len(lines) - 1 <= limit:
        return clean("\n".join(lines))
    steps = _failing(lines)
    chosen: set[int] = set()
    room = limit - len(MARK) - 1
    for at in _wanted(lines, steps):
        if at in chosen:
            continue
        is_alone = at - 1 not in chosen and at + 1 not in chosen
        cost = len(lines[at]) + 1 + (len(MARK) + 1 if is_alone else 0)
        if cost > room:
            break
        chosen.add(at)
        room -= cost
    if not chosen:
        return ending(clean(lines[steps[0].failed_at]), max(0, limit))
    return clean(_joined(lines, chosen))


@dataclass(frozen=True, kw_only=True)
class _Step:
    """Lines from `start` to before `end`; what it printed itself begins at `body`."""

    start: int
    body: int
    end: int
    failed_at: int


def _failing(lines: Sequence[str]) -> list[_Step]:
    """The steps with an error, the last one first; where no step has one, all of the log as if it were one."""
    starts = [0, *(at for at, line in enumerate(lines) if at and line.startswith(_STEPS)), len(lines)]
    found: list[_Step] = []
    for start, end in pairwise(starts):
        errors = [at for at in range(start, end) if lines[at].startswith(_ERROR)]
        if errors:
            found.append(_Step(start=start, body=_body(lines, start, end), end=end, failed_at=errors[-1]))
    found.reverse()
    return found or [_Step(start=0, body=0, end=len(lines), failed_at=len(lines) - 1)]


def _body(lines: Sequence[str], start: int, end: int) -> int:
    """Behind the group in which the runner repeats the step's script: what that holds has not happened."""
    if not lines[start].startswith("##[group]"):
        return start
    return next((at + 1 for at in range(start, end) if lines[at] == "##[endgroup]"), start)


def _wanted(lines: Sequence[str], steps: Sequence[_Step]) -> Iterator[int]:
    """Numbers of lines, the most telling first, some of them more than once: what each step was and how it ended,
    what looks like an error, and then its last lines."""
    for step in steps:
        if lines[step.start].startswith(_STEPS):
            yield step.start
        yield from _around(step, step.failed_at, before=12, after=2)
    for pattern in (_STRONG, _WEAK):
        for step in steps:
            hits = [at for at in range(step.body, step.end) if pattern.search(lines[at])]
            for at in _from_both_ends(hits):
                yield from _around(step, at, before=8, after=15)
    for step in steps:
        yield from range(step.failed_at, step.start, -1)


def _around(step: _Step, at: int, *, before: int, after: int) -> Iterator[int]:
    """A line of a step, then those near it, the nearest first."""
    yield at
    for distance in range(1, max(before, after) + 1):
        if distance <= before and at - distance >= step.start:
            yield at - distance
        if distance <= after and at + distance < step.end:
            yield at + distance


def _from_both_ends(hits: Sequence[int]) -> Iterator[int]:
    """A compiler's first error counts most, a test runner's last words do: the first, the last, the second …"""
    for at in range((len(hits) + 1) // 2):
        yield hits[at]
        yield hits[-1 - at]


def _joined(lines: Sequence[str], chosen: set[int]) -> str:
    told: list[str] = []
    last = -1
    for at in [*sorted(chosen), len(lines)]:
        if at != last + 1:
            told.append(MARK)
        told += lines[at : at + 1]
        last = at
    # An excerpt of an excerpt has marks of its own.
    return "\n".join(line for before, line in pairwise(["", *told]) if (before, line) != (MARK, MARK))


def _shown(line: str) -> str:
    """A line as a terminal shows it in the end, without the time, and not too long."""
    stamp = _STAMP.match(line)
    text = _ESCAPE.sub("", line[stamp.end() :] if stamp else line)
    text = text.rstrip().rpartition("\r")[2]
    if len(text) <= LINE_LIMIT:
        return text
    return f"{beginning(text, 350)} [... characters left out ...] {ending(text, 100)}"


def _told(failure: Failure, limit: int) -> str:
    parts = [f"Check: {_line(failure.name)}\nConclusion: {failure.conclusion}"]
    if title := _line(failure.title):
        parts.append(f"Title: {title}")
    room = limit - sum(map(len, parts))
    share = room // (2 if failure.log is None else 4)
    if summary := clean(failure.summary).strip():
        parts.append(f"Summary:\n{_cut(summary, share)}")
    if failure.annotations:
        parts.append(f"Annotations:\n{_listed(failure.annotations, share)}")
    room = limit - sum(len(part) + 1 for part in parts)
    log = "" if failure.log is None else relevant(failure.log, room - len("Log:\n"))
    parts.append(f"Log:\n{log}" if log else "Log: none could be read.")
    return beginning("\n".join(parts), max(0, limit))


def _listed(notes: Sequence[Note], limit: int) -> str:
    listed: list[str] = []
    room = limit - len(_CUT)
    for note in notes:
        message = _cut(clean(note.message).strip(), MESSAGE_LIMIT).replace("\n", "\n  ")
        line = f"- {_line(note.path)}:{note.line}: {message}"
        room -= len(line) + 1
        if room < 0:
            listed.append(_CUT.strip())
            break
        listed.append(line)
    return "\n".join(listed)


def _line(text: str) -> str:
    return _cut(" ".join(clean(text).split()), NAME_LIMIT)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return beginning(beginning(text, max(0, limit - len(_CUT))).rstrip() + _CUT, max(0, limit))
