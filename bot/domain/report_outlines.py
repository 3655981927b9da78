"""Reads the names of tests from output that is an outline: subtests and suites by their indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from bot.domain.report_counts import Counts, Lines, Named, Outcome, Result, agree, clean
from bot.domain.report_lines import MOCHA, TAP_ASIDE

DEEPEST = 40
"""Levels of an outline; what is deeper stands on the last one."""
SEPARATOR = " > "


def _under(prefix: str, name: str) -> str:
    return clean(f"{prefix}{SEPARATOR}{name}" if prefix else name)


@dataclass
class _Point:
    """A test or a suite, with what stood above it and further in: here parents come after their children."""

    name: str
    outcome: Outcome
    children: list[_Point] = field(default_factory=list)
    is_suite: bool = False


class _Outline:
    """Points as they come, each taking those before it that are further in."""

    def __init__(self) -> None:
        self._levels: list[list[_Point]] = [[]]

    @property
    def top(self) -> list[_Point]:
        return self._levels[0]

    def add(self, level: int, name: str, outcome: Outcome) -> _Point:
        level = min(level, DEEPEST)
        children = [point for deeper in self._levels[level + 1 :] for point in deeper]
        del self._levels[level + 1 :]
        self._levels += [[] for _ in range(level + 1 - len(self._levels))]
        self._levels[level].append(point := _Point(name=name, outcome=outcome, children=children))
        return point

    def results(self) -> Iterator[Result]:
        """All but suites, by their whole paths."""
        waiting = [("", point) for points in self._levels for point in points]
        while waiting:
            prefix, point = waiting.pop()
            name = _under(prefix, point.name)
            if not point.is_suite:
                yield name, point.outcome
            waiting += [(name, child) for child in point.children]


_TAP_POINT = re.compile(r"( *)(not )?ok\b(?: +[0-9]+)?(?: +-)?(?: +(.*))?$")
_TAP_ESCAPE = re.compile(r"\\([\\#])")
_TAP_PLAN = re.compile(r"1\.\.([0-9]{1,9})(?: +#.*)?$")


def _tap_outline(lines: Lines) -> _Outline:
    outline, point, block = _Outline(), None, ""
    for line in lines:
        if block:
            # What is in a block is indented further, so that it can't end it.
            if line == f"{block}...":
                block = ""
            elif point is not None and line == f"{block}type: 'suite'":
                point.is_suite = True
        elif line.endswith("---") and not line.strip(" -") and line.startswith("  "):
            block = line.removesuffix("---")
        elif match := _TAP_POINT.match(line):
            said = match[3] or ""
            aside = TAP_ASIDE.search(said)
            name = _TAP_ESCAPE.sub(r"\1", said[: aside.start()] if aside else said)
            outcome: Outcome = "skipped" if aside else "failed" if match[2] else "passed"
            point = outline.add(len(match[1]) // 4, name, outcome)
    return outline


def tap(lines: Lines, counts: Counts) -> Named:
    """Complete if there are as many points as the plan says."""
    outline = _tap_outline(lines)
    plans = [int(match[1]) for line in lines if (match := _TAP_PLAN.match(line))]
    return _named(list(outline.results()), is_complete=plans == [len(outline.top)])


_SPEC_POINT = re.compile(r"( *)([✔✖﹣▶⚠]) (.*) \([0-9.]+ms\)(?: # .*)?$")
_SPEC_ASIDE = re.compile(r" \([0-9.]+ms\) # ")
_SPEC_NUMBER = re.compile(r"ℹ (tests|suites) ([0-9]{1,9})$")
_SPEC_FAILING = "✖ failing tests:"


def node(lines: Lines, counts: Counts) -> Named:
    """node:test in both of its styles, and whoever closes TAP with the same lines."""
    numbers = [(at, match) for at, line in enumerate(lines) if (match := _SPEC_NUMBER.match(line))]
    if not numbers:
        results = list(_tap_outline(lines).results())
        return _named(results, is_complete=agree(results, counts))
    outline = _Outline()
    start = numbers[0][0]
    results = [point for line in lines[:start] if (point := _spec_point(outline, line))]
    # Suites look like tests that have subtests.
    total = sum({match[1]: int(match[2]) for _, match in numbers}.values())
    if len(results) == total and len(numbers) == 2:
        return _named(list(outline.results()), is_complete=True)
    listed = lines[lines.index(_SPEC_FAILING, start) :] if _SPEC_FAILING in lines[start:] else []
    points = [point for line in listed if (point := _spec_point(_Outline(), line))]
    return Named(results=None, failing=tuple(name for name, outcome in points if outcome == "failed"))


def _spec_point(outline: _Outline, line: str) -> Result | None:
    if (match := _SPEC_POINT.match(line)) is None:
        return None
    outcome: Outcome = "failed" if match[2] == "✖" else "passed"
    if match[2] == "﹣" or _SPEC_ASIDE.search(line, match.end(3)):
        outcome = "skipped"
    outline.add(len(match[1]) // 2, match[3], outcome)
    return match[3], outcome


class _Titles:
    """The open suites of an outline in which parents come first."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._open: list[tuple[int, str]] = []

    def path(self, indent: int, name: str) -> str:
        """The whole name of what stands so far in; what stood further in is closed."""
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        return _under(self._open[-1][1] if self._open else self._root, name)

    def enter(self, indent: int, name: str) -> None:
        self._open.append((indent, self.path(indent, name)))


_INDENTED = re.compile(r"( +)(\S.*)$")
_DURATION = re.compile(r" \([0-9.]+ ?m?s\)$")
_MOCHA_FAILED = re.compile(r"([0-9]{1,9})\) (.*)$")


def mocha(lines: Lines, counts: Counts) -> Named:
    """The reporter `spec`, mocha's default; of the others, what is listed at the end."""
    end = max(at for at, line in enumerate(lines) if MOCHA.match(line))
    results: list[Result] = []
    titles, failed = _Titles(), 0
    for line in lines[:end]:
        if (match := _INDENTED.match(line)) is None:
            continue
        indent, text = len(match[1]), match[2]
        if text[:2] in ("✔ ", "✓ "):
            results.append((titles.path(indent, _DURATION.sub("", text[2:])), "passed"))
        elif text.startswith("- "):
            results.append((titles.path(indent, text[2:]), "skipped"))
        elif (number := _MOCHA_FAILED.match(text)) and int(number[1]) == failed + 1:
            failed += 1
            results.append((titles.path(indent, number[2]), "failed"))
        else:
            titles.enter(indent, text)
    if agree(results, counts):
        return _named(results, is_complete=True)
    return Named(results=None, failing=tuple(_mocha_listed(lines[end:])))


def _mocha_listed(lines: Lines) -> Iterator[str]:
    """`  2) suite`, then its inner suites and the test, each two further in than the one before."""
    number, path, indent = 0, "", 0
    for line in lines:
        match = _INDENTED.match(line)
        if match and len(match[1]) == 2 and (found := _MOCHA_FAILED.match(match[2])) and int(found[1]) == number + 1:
            number, path, indent = number + 1, found[2], 7
        elif match and path and len(match[1]) == indent:
            path, indent = _under(path, match[2]), indent + 2
        elif path:
            yield path.removesuffix(":")
            path = ""


_JEST_FILE = re.compile(r"(?:PASS|FAIL) +(\S.*)$")
_JEST_MARKS: dict[str, Outcome] = {"✓": "passed", "✕": "failed", "○": "skipped", "✎": "skipped"}
_JEST_ASIDE = re.compile(r"(?:skipped|todo) ")
_JEST_DETAIL = "  ● "


def jest(lines: Lines, counts: Counts) -> Named:
    """Names begin with their file. Every test is named by `--verbose`, or where there is one file."""
    results: list[Result] = []
    failing: list[str] = []
    file, titles, is_outline = "", _Titles(), False
    for line in lines:
        if match := _JEST_FILE.match(line):
            file, is_outline = _DURATION.sub("", match[1]), True
            titles = _Titles(file)
        elif line.startswith(_JEST_DETAIL):
            is_outline = False
            detail = line.removeprefix(_JEST_DETAIL)
            if detail == "Test suite failed to run":
                failing.append(file)
            elif detail != "Console":
                failing.append(_under(file, detail.replace(" › ", SEPARATOR)))
        elif is_outline and (indented := _INDENTED.match(line)):
            indent, text = len(indented[1]), indented[2]
            if outcome := _JEST_MARKS.get(text[0]):
                name = _DURATION.sub("", text[2:])
                name = _JEST_ASIDE.sub("", name, count=1) if outcome == "skipped" else name
                results.append((titles.path(indent, name), outcome))
            else:
                titles.enter(indent, text)
    is_complete = agree(results, counts)
    return Named(results=tuple(results) if is_complete else None, failing=tuple(failing))


_VITEST_FAILED = re.compile(r" *FAIL +(\S.*)$")
_VITEST_POINT = re.compile(r" *([✓×↓□]) +(\S.*)$")
_VITEST_DURATION = re.compile(r" [0-9]+ ?ms$")
_VITEST_MARKS: dict[str, Outcome] = {"✓": "passed", "×": "failed", "↓": "skipped", "□": "skipped"}


def vitest(lines: Lines, other: Lines, counts: Counts) -> Named:
    """Every test is named by the reporter `verbose`, failures by all, in the `other` stream."""
    failing = [
        # A file that failed as a whole stands there twice.
        match[1].partition(" [ ")[0] if match[1].endswith(" ]") else match[1]
        for line in [*lines, *other]
        if (match := _VITEST_FAILED.match(line))
    ]
    points = [match for line in lines if (match := _VITEST_POINT.match(line)) and SEPARATOR in match[2]]
    results: list[Result] = [(_VITEST_DURATION.sub("", match[2]), _VITEST_MARKS[match[1]]) for match in points]
    failing += [name for name, outcome in results if outcome == "failed"]
    return Named(results=tuple(results) if agree(results, counts) else None, failing=tuple(failing))


def _named(results: list[Result], *, is_complete: bool) -> Named:
    failing = tuple(name for name, outcome in results if outcome == "failed")
    return Named(results=tuple(results) if is_complete else None, failing=failing)
