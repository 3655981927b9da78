"""Reads which tests ran or failed from a runner's output, where it names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from bot.domain import report_outlines as outlines
from bot.domain.report_counts import Counts, Lines, Named, Outcome, Result, agree
from bot.domain.report_lines import go_packages


def names(runner: str, lines: Lines, other: Lines, counts: Counts) -> Named:
    """What this runner's output names; `other` is the stream in which it did not close."""
    if runner == "cargo":
        return _cargo(lines, other, counts)
    if runner == "vitest":
        return outlines.vitest(lines, other, counts)
    return _READERS[runner](lines, counts)


_PYTEST_SUMMARY = re.compile(r"=+ short test summary info =+$")
_PYTEST_LINE = re.compile(r"(?:FAILED|ERROR) (\S.*)$")


def _pytest(lines: Lines, counts: Counts) -> Named:
    starts = [at for at, line in enumerate(lines) if _PYTEST_SUMMARY.match(line)]
    listed = lines[starts[-1] :] if starts else ()
    return Named(failing=tuple(_node_id(match[1]) for line in listed if (match := _PYTEST_LINE.match(line))))


def _node_id(text: str) -> str:
    """Without the message; parameters may hold what parts it from the name."""
    name = text.partition(" - ")[0]
    return name if "[" not in name or name.endswith("]") else f"{text.partition('] - ')[0].removesuffix(']')}]"


_UNITTEST_LINE = re.compile(r"(\w+) \(([\w.<>]+)\)")
_UNITTEST_FAILED = re.compile(r"(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\w+) \(([\w.<>]+)\)")
_UNITTEST_RAN = re.compile(r"Ran ([0-9]{1,9}) tests? in ")
_UNITTEST_OUTCOMES: dict[str, Outcome] = {
    "ok": "passed",
    "FAIL": "failed",
    "ERROR": "failed",
    "expected failure": "skipped",
    "unexpected success": "failed",
}
_UNITTEST_FIXTURES = ("setUpClass", "tearDownClass", "setUpModule", "tearDownModule")


def _unittest(lines: Lines, counts: Counts) -> Named:
    """Every test is named by `-v`. A subtest counts for its test."""
    failing = tuple(
        _dotted(match)
        for above, line in pairwise(lines)
        if above.startswith("=====") and (match := _UNITTEST_FAILED.match(line))
    )
    results: list[Result] = [(name, "failed") for name in failing]
    current = ""
    for line in lines:
        if match := _UNITTEST_LINE.match(line.strip()):
            current = _dotted(match)
        outcome = _unittest_outcome(line.rpartition(" ... ")[2]) if " ... " in line else None
        if outcome and current:
            results.append((current, outcome))
    ran = [int(match[1]) for line in lines if (match := _UNITTEST_RAN.match(line))][-1]
    tests = {name for name, _ in results if name.rpartition(".")[2] not in _UNITTEST_FIXTURES}
    return Named(results=tuple(results) if len(tests) == ran else None, failing=failing)


def _unittest_outcome(word: str) -> Outcome | None:
    return "skipped" if word.startswith("skipped") else _UNITTEST_OUTCOMES.get(word)


def _dotted(match: re.Match[str]) -> str:
    """`test_a (mod.Class.test_a)`; before Python 3.11, `test_a (mod.Class)`."""
    name, place = match[1], match[2]
    return place if place.endswith(f".{name}") else f"{place}.{name}"


def _go(lines: Lines, counts: Counts) -> Named:
    """Every test is named by `-v`."""
    packages = go_packages(lines)
    results = [
        (f"{package.name}::{name}" if package.name else name, outcome)
        for package in packages
        for name, outcome in package.results
    ]
    is_verbose = any(package.started for package in packages)
    failing = tuple(name for name, outcome in results if outcome == "failed")
    return Named(results=tuple(results) if is_verbose else None, failing=failing)


_CARGO_TARGET = re.compile(r" +(?:Running|Doc-tests) (.*)$")
_CARGO_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")
_CARGO_START = re.compile(r"running [0-9]+ tests?$")
_CARGO_TEST = re.compile(r"test (\S.*) \.\.\. (ok|FAILED|ignored)(?:, .*)?$")
_CARGO_LISTED = re.compile(r"    (\S.*)$")
_CARGO_END = re.compile(r"test result: (?:ok|FAILED)\. ")
_CARGO_OUTCOMES: dict[str, Outcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
_CARGO_LINE = re.compile(r" \(line [0-9]+\)")


def _cargo(lines: Lines, other: Lines, counts: Counts) -> Named:
    """Names begin with their target, if there are as many of these as of runs."""
    targets = [_target(match[1]) for line in [*lines, *other] if (match := _CARGO_TARGET.match(line))]
    runs = sum(_CARGO_START.match(line) is not None for line in lines)
    target = iter(targets if len(targets) == runs else ())
    results: list[Result] = []
    failing: list[str] = []
    listed: list[str] = []
    prefix = ""
    for line in lines:
        if _CARGO_START.match(line):
            prefix = f"{name}::" if (name := next(target, "")) else ""
        elif match := _CARGO_TEST.match(line):
            results.append((f"{prefix}{_item(match[1])}", _CARGO_OUTCOMES[match[2]]))
        elif line == "failures:":
            listed = []
        elif match := _CARGO_LISTED.match(line):
            listed.append(f"{prefix}{_item(match[1])}")
        elif _CARGO_END.match(line):
            failing += listed
            listed = []
    return Named(results=tuple(results) if agree(results, counts) else None, failing=tuple(failing))


def _target(said: str) -> str:
    """`it` of `tests/it.rs (target/debug/deps/it-0123456789abcdef)`."""
    path = said.removesuffix(")").rpartition("(")[2]
    return _CARGO_HASH.sub("", path.replace("\\", "/").rpartition("/")[2])


def _item(name: str) -> str:
    """Without the line that a documentation test stands on, which moves."""
    return _CARGO_LINE.sub("", name).removesuffix(" - should panic")


_RSPEC_FAILED = re.compile(r"rspec '?(?:\./)?([^\s'\[]+?)(?:\[[0-9:]+\])?(?::[0-9]+)?'? # (.*)$")
_MINITEST_HEAD = re.compile(r" +[0-9]+\) (?:Failure|Error):$")
_MINITEST_FAILED = re.compile(r"([^\s#]+#[^\s:]+)")
_MINITEST_TEST = re.compile(r"(\S.*) = [0-9.]+ s = ([.FES])$")
_MINITEST_OUTCOMES: dict[str, Outcome] = {".": "passed", "F": "failed", "E": "failed", "S": "skipped"}
_TEST_UNIT_FAILED = re.compile(r"(?:Failure|Error): ([^\s()]+)\(([^\s()]+)\)")


def _ruby(lines: Lines, counts: Counts) -> Named:
    """RSpec, Minitest and test-unit; Minitest names every test with `-v`."""
    failing = [f"{match[1]} > {match[2]}" for line in lines if (match := _RSPEC_FAILED.match(line))]
    failing += [f"{match[2]}#{match[1]}" for line in lines if (match := _TEST_UNIT_FAILED.match(line))]
    failing += [
        match[1]
        for above, line in pairwise(lines)
        if _MINITEST_HEAD.match(above) and (match := _MINITEST_FAILED.match(line))
    ]
    results = [(match[1], _MINITEST_OUTCOMES[match[2]]) for line in lines if (match := _MINITEST_TEST.match(line))]
    total = counts.passed + counts.failed + counts.skipped + counts.errors
    is_complete = bool(results) and len(results) == total
    return Named(results=tuple(results) if is_complete else None, failing=tuple(failing))


_PHPUNIT_SECTION = re.compile(r"There (?:was|were) [0-9]+ ([a-z ]+?)s?:$")
_PHPUNIT_NUMBERED = re.compile(r"[0-9]+\) (\S+::\S.*)$")


def _phpunit(lines: Lines, counts: Counts) -> Named:
    failing: list[str] = []
    is_failure = False
    for line in lines:
        if match := _PHPUNIT_SECTION.match(line):
            is_failure = match[1] in ("failure", "error")
        elif is_failure and (match := _PHPUNIT_NUMBERED.match(line)):
            # A data set's values stand behind its name.
            failing.append(match[1].partition(" (")[0])
    return Named(failing=tuple(failing))


_SUREFIRE_FAILED = re.compile(
    r"(?:\[ERROR\] +)?([^\s()]+)(?:\(([^\s()]+)\))? +(?:-- )?Time elapsed: .*<<< (?:FAILURE|ERROR)!$"
)


def _surefire(lines: Lines, counts: Counts) -> Named:
    """`pkg.Class.test -- Time elapsed: …`; older ones write `test(pkg.Class)`."""
    failing = []
    for match in filter(None, map(_SUREFIRE_FAILED.match, lines)):
        group, _, name = ("", "", match[1]) if match[2] else match[1].rpartition(".")
        failing.append(f"{match[2] or group}::{name}")
    return Named(failing=tuple(failing))


_DOTNET_FAILED = re.compile(r" +(?:Failed|X) (\S.*) \[[^\[\]]*\]$")


def _dotnet(lines: Lines, counts: Counts) -> Named:
    return Named(failing=tuple(match[1] for line in lines if (match := _DOTNET_FAILED.match(line))))


_READERS: dict[str, Callable[[Lines, Counts], Named]] = {
    "tap": outlines.tap,
    "pytest": _pytest,
    "unittest": _unittest,
    "node": outlines.node,
    "jest": outlines.jest,
    "mocha": outlines.mocha,
    "go": _go,
    "ruby": _ruby,
    "phpunit": _phpunit,
    "surefire": _surefire,
    "dotnet": _dotnet,
}
