"""What a test run said about itself: how many tests and which, by its JUnit report or by what it printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from bot.domain import report_junit, report_lines, report_names
from bot.domain.report_counts import Counts, Lines, Outcome, Result, clean, joined
from bot.domain.report_junit import JUNIT_LIMIT, Document

__all__ = ["FAILING_LIMIT", "IDS_LIMIT", "JUNIT_LIMIT", "Counts", "Outcome", "Report", "read"]

IDS_LIMIT = 5_000
FAILING_LIMIT = 200


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run's own account. It was written by code that the candidate can reach: what it admits is true, what it
    claims is only a claim."""

    runner: str
    """pytest, unittest, node, tap, jest, vitest, mocha, go, cargo, ruby, phpunit, surefire or dotnet; junit where
    only a file spoke that could be anybody's."""
    counts: Counts
    tests: Mapping[str, Outcome] | None = None
    """Every test by its name; None where the run did not name them all, or there are more than `IDS_LIMIT`."""
    failing: tuple[str, ...] = ()
    """Tests that failed, as far as they are known; sorted, at most `FAILING_LIMIT`."""
    contradiction: str | None = None
    """The file and the closing lines don't agree: one sentence. `counts` are then the less flattering ones."""
    partial: bool = False
    """Some of the output was left out and the numbers come from many lines of it: they may be too low."""


def read(exit_code: int, stdout: str, stderr: str, junit: bytes | None = None) -> Report | None:
    """What the run reported; None where no runner we know spoke. A readable JUnit report is believed before any line,
    unless the same runner's closing lines are less flattering. In a stream the last closing line counts, so that what
    a test prints on the way does not. Two streams have no order between them: what fits the exit code goes before
    what doesn't, and then the less flattering one."""
    streams = (_Stream.of(stdout), _Stream.of(stderr))
    document = report_junit.read(junit) if junit is not None else None
    if document is not None:
        return _from_file(document, exit_code, streams)
    if (said := _last(exit_code, streams)) is None:
        return None
    here, other = streams if said.stream is streams[0] else streams[::-1]
    named = report_names.names(said.runner, here.lines, other.lines, said.counts)
    tests = None if named.results is None or here.is_cut else _tests(named.results)
    return Report(
        runner=said.runner,
        counts=said.counts,
        tests=tests,
        failing=_failing(named.failing) if said.counts.red else (),
        partial=here.is_cut and said.runner in report_lines.SUMMED,
    )


@dataclass(frozen=True, kw_only=True)
class _Stream:
    lines: Lines
    is_cut: bool
    closings: Mapping[str, report_lines.Found]

    @classmethod
    def of(cls, text: str) -> _Stream:
        lines = [line.rstrip() for line in _LINE_END.split(_ESCAPES.sub("", text))]
        cuts = {at for at, line in enumerate(lines) if _CUT.fullmatch(line)}
        # The lines on both sides of a cut are pieces of lines.
        pieces = {at + step for at in cuts for step in (-1, 0, 1)}
        lines = [line for at, line in enumerate(lines) if at not in pieces]
        return cls(lines=lines, is_cut=bool(cuts), closings=report_lines.closings(lines))


_LINE_END = re.compile("\r\n|[\r\n]")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_CUT = re.compile(r"\[\.\.\. [0-9]+ bytes left out \.\.\.\]")


@dataclass(frozen=True, kw_only=True)
class _Said:
    stream: _Stream
    runner: str
    counts: Counts


def _last(exit_code: int, streams: Iterable[_Stream], runner: str | None = None) -> _Said | None:
    """What the closing lines say: those of this runner, or of whichever spoke last."""
    said: list[_Said] = []
    for stream in streams:
        found = {name: seen for name, seen in stream.closings.items() if runner in (None, name)}
        if found:
            last = max(found, key=lambda name: found[name][0])
            said.append(_Said(stream=stream, runner=last, counts=found[last][1]))
    return min(said, key=lambda each: (_fits(each.counts, exit_code), each.counts.passed), default=None)


def _fits(counts: Counts, exit_code: int) -> int:
    return int(counts.red != bool(exit_code))


def _from_file(document: Document, exit_code: int, streams: Iterable[_Stream]) -> Report:
    said = _last(exit_code, streams, document.runner)
    failing = _failing(name for name, outcome in document.results if outcome == "failed")
    runner = document.runner or (said.runner if said else "junit")
    report = Report(runner=runner, counts=document.counts, tests=_tests(document.results), failing=failing)
    if said is None:
        return report
    if exit_code and said.counts.errors and not said.counts.failed and not document.counts.red:
        # Many writers leave out what broke before it came to a test.
        return replace(report, counts=replace(document.counts, errors=said.counts.errors))
    if not _differ(runner, document.counts, said.counts):
        return report
    return replace(
        report,
        counts=min(document.counts, said.counts, key=lambda counts: (not counts.red, counts.passed)),
        tests=None,
        contradiction=f"the report file says {_words(document.counts)}, the output says {_words(said.counts)}.",
    )


def _differ(runner: str, file: Counts, lines: Counts) -> bool:
    """Whether the two can't both be true. Only pytest's numbers are the same in both, and only as long as nothing
    failed: others leave kinds of tests out, and what fails after it has passed counts twice."""
    return file.red != lines.red or (runner == "pytest" and not file.red and file.passed != lines.passed)


def _words(counts: Counts) -> str:
    said = f"{counts.passed:,} passed and {counts.failed:,} failed"
    return f"{said} with {counts.errors:,} errors" if counts.errors else said


def _tests(results: Iterable[Result]) -> dict[str, Outcome] | None:
    tests = joined(results)
    return None if len(tests) > IDS_LIMIT or "" in tests else tests


def _failing(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({clean(name) for name in names} - {""})[:FAILING_LIMIT])
