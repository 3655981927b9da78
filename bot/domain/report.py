"""What a test run said about itself: numbers of tests, read from a JUnit report or a runner's closing lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

JUNIT_LIMIT = 8 * 1024 * 1024
JUNIT_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of tests. `errors` are what kept tests from running: a broken import, a suite that did not compile."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0

    @property
    def ran(self) -> int:
        """Tests that came to a result of their own."""
        return self.passed + self.failed


Lines = Sequence[str]
Found = tuple[int, Counts]
"""Where a closing line stood, and what it said."""


def read(exit_code: int, stdout: str, stderr: str, junit: bytes | None = None) -> Counts | None:
    """What the run reported; None where no runner we know spoke. A readable JUnit report is believed first. In a
    stream the last closing line counts, so that what a test prints on the way does not. Two streams have no order
    between them: what fits the exit code goes before what doesn't, and then the less flattering one."""
    if junit is not None and (counts := _junit(junit)) is not None:
        return counts
    said = [counts for text in (stdout, stderr) if (counts := _closing(text)) is not None]
    return min(said, key=lambda counts: (_fits(counts, exit_code), counts.passed), default=None)


def _fits(counts: Counts, exit_code: int) -> int:
    return int(bool(counts.failed or counts.errors) != bool(exit_code))


def _closing(text: str) -> Counts | None:
    lines = [line.rstrip() for line in re.split("\r\n|[\r\n]", _ESCAPES.sub("", text))]
    found = [seen for reader in _READERS if (seen := reader(lines)) is not None]
    return max(found, key=lambda seen: seen[0])[1] if found else None


_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_N = r"([0-9]{1,9})"
_ITEM = re.compile(_N + r" ([a-z]+(?: [a-z]+)*)")


def _numbers(text: str) -> dict[str, int]:
    """`1 failed, 2 passed` as a table; spellings of the plural fall together."""
    return {word.removesuffix("s"): int(number) for number, word in _ITEM.findall(text)}


def _last(pattern: re.Pattern[str], lines: Lines) -> tuple[int, re.Match[str]] | None:
    for at in range(len(lines) - 1, -1, -1):
        if match := pattern.match(lines[at]):
            return at, match
    return None


def _all(pattern: re.Pattern[str], lines: Lines) -> list[tuple[int, re.Match[str]]]:
    return [(at, match) for at, line in enumerate(lines) if (match := pattern.match(line))]


_PYTEST = re.compile(
    r"(?:=+ )?(no tests ran|[0-9]{1,9} [a-z]+(?: [a-z]+)?(?:, [0-9]{1,9} [a-z]+(?: [a-z]+)?)*)"
    r" in [0-9.]+s(?: \([0-9:, days]+\))?(?: =+)?$"
)


def _pytest(lines: Lines) -> Found | None:
    if (last := _last(_PYTEST, lines)) is None:
        return None
    at, match = last
    said = _numbers(match[1])
    return at, Counts(
        passed=said.get("passed", 0) + said.get("xpassed", 0),
        failed=said.get("failed", 0),
        skipped=said.get("skipped", 0) + said.get("xfailed", 0),
        errors=said.get("error", 0),
    )


_UNITTEST_RAN = re.compile(rf"Ran {_N} tests? in [0-9.]+s$")
_UNITTEST_END = re.compile(r"(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$")
_PAIR = re.compile(rf"([A-Za-z ]+?) ?[:=] ?{_N}")


def _pairs(text: str) -> dict[str, int]:
    """`failures=1, skipped: 2` as a table."""
    return {word.strip().lower().removesuffix("s"): int(number) for word, number in _PAIR.findall(text)}


def _unittest(lines: Lines) -> Found | None:
    if (last := _last(_UNITTEST_RAN, lines)) is None:
        return None
    at, ran = last
    after = next((line for line in lines[at + 1 :] if line), "")
    if (end := _UNITTEST_END.match(after)) is None:
        return None
    said = _pairs(end[1] or "")
    failed = said.get("failure", 0) + said.get("unexpected successe", 0)
    skipped = said.get("skipped", 0) + said.get("expected failure", 0)
    errors = said.get("error", 0)
    # Errors in a class's or a module's own set-up count as no test, so that there may be more of them than tests.
    passed = max(0, int(ran[1]) - failed - skipped - errors)
    return at, Counts(passed=passed, failed=failed, skipped=skipped, errors=errors)


_NODE = re.compile(rf"[#ℹ] (tests|pass|fail|cancelled|skipped|todo) +{_N}$")


def _node(lines: Lines) -> Found | None:
    """node:test's closing lines, in both of its styles; tape writes the same ones."""
    said: dict[str, int] = {}
    found = _all(_NODE, lines)
    for _, match in found:
        if match[1] == "tests":
            said = {}
        said[match[1]] = int(match[2])
    if "tests" not in said:
        return None
    return found[-1][0], Counts(
        passed=said.get("pass", 0),
        failed=said.get("fail", 0) + said.get("cancelled", 0),
        skipped=said.get("skipped", 0) + said.get("todo", 0),
    )


_TAP_PLAN = re.compile(r"1\.\.[0-9]{1,9}(?: +#.*)?$")
_TAP_LINE = re.compile(r"(not )?ok\b(?: +[0-9]+)?(.*)$")
_TAP_ASIDE = re.compile(r"# *(?:skip|todo)", re.IGNORECASE)


def _tap(lines: Lines) -> Found | None:
    """Any other speaker of the Test Anything Protocol; a plan is what tells it from prose."""
    if (plan := _last(_TAP_PLAN, lines)) is None:
        return None
    results = _all(_TAP_LINE, lines)
    asides = [match for _, match in results if _TAP_ASIDE.search(match[2])]
    plain = [match for _, match in results if match not in asides]
    failed = sum(match[1] is not None for match in plain)
    at = max([plan[0], *(at for at, _ in results)])
    return at, Counts(passed=len(plain) - failed, failed=failed, skipped=len(asides))


_JEST = re.compile(rf"Tests: +((?:{_N} [a-z]+, )*{_N} total)$")
_JEST_SUITES = re.compile(rf"Test Suites: (?:.*, |\s+)?{_N} failed, ")
_JEST_NONE = re.compile(r"No tests found, exiting with code [01]$")


def _jest(lines: Lines) -> Found | None:
    none = _last(_JEST_NONE, lines)
    if (last := _last(_JEST, lines)) is None:
        return (none[0], Counts()) if none else None
    at, match = last
    said = _numbers(match[1])
    suites = _JEST_SUITES.match(lines[at - 1])
    failed = said.get("failed", 0)
    return at, Counts(
        passed=said.get("passed", 0),
        failed=failed,
        skipped=said.get("skipped", 0) + said.get("todo", 0),
        errors=int(suites[1]) if suites and not failed else 0,
    )


_VITEST = re.compile(rf" *Tests  (no tests|{_N} [a-z]+(?: \| {_N} [a-z]+)* \([0-9]+\))$")
_VITEST_FILES = re.compile(rf" *Test Files  {_N} failed")
_VITEST_NONE = re.compile(r"No test files found, exiting with code [01]$")


def _vitest(lines: Lines) -> Found | None:
    none = _last(_VITEST_NONE, lines)
    if (last := _last(_VITEST, lines)) is None:
        return (none[0], Counts()) if none else None
    at, match = last
    said = _numbers(match[1])
    files = _VITEST_FILES.match(lines[at - 1])
    failed = said.get("failed", 0)
    return at, Counts(
        passed=said.get("passed", 0),
        failed=failed,
        skipped=said.get("skipped", 0) + said.get("todo", 0),
        errors=int(files[1]) if files and not failed else 0,
    )


_MOCHA = re.compile(rf" +{_N} passing \([0-9]+(?:ms|s|m|h)\)$")
_MOCHA_MORE = re.compile(rf" +{_N} (pending|failing)$")


def _mocha(lines: Lines) -> Found | None:
    if (last := _last(_MOCHA, lines)) is None:
        return None
    at, match = last
    said = {more[2]: int(more[1]) for _, more in _all(_MOCHA_MORE, lines[at + 1 : at + 3])}
    return at, Counts(passed=int(match[1]), failed=said.get("failing", 0), skipped=said.get("pending", 0))


_GO_PACKAGE = re.compile(r"(ok  |FAIL|\?   )\t\S+(.*)$")
_GO_TEST = re.compile(r"--- (PASS|FAIL|SKIP): ")


def _go(lines: Lines) -> Found | None:
    """Without `-v` Go says nothing of single tests: a package that is ok then counts as one."""
    packages = _all(_GO_PACKAGE, lines)
    if not packages:
        return None
    tests = [match[1] for _, match in _all(_GO_TEST, lines)]
    ok = sum(match[1] == "ok  " and "[no tests to run]" not in match[2] for _, match in packages)
    passed = tests.count("PASS") if "PASS" in tests or "SKIP" in tests else ok
    return packages[-1][0], Counts(
        passed=passed,
        failed=tests.count("FAIL"),
        skipped=tests.count("SKIP"),
        errors=sum(match[1] == "FAIL" and match[2].endswith(" failed]") for _, match in packages),
    )


_CARGO = re.compile(rf"test result: (?:ok|FAILED)\. {_N} passed; {_N} failed; {_N} ignored; ")


def _cargo(lines: Lines) -> Found | None:
    return _sum(_all(_CARGO, lines), passed=1, failed=2, skipped=3)


def _sum(
    found: list[tuple[int, re.Match[str]]], *, passed: int, failed: int, skipped: int, errors: int | None = None
) -> Found | None:
    """One closing line for each crate, module or project; the groups say where its numbers are."""
    if not found:
        return None

    def add(group: int) -> int:
        return sum(int(match[group]) for _, match in found)

    return found[-1][0], Counts(
        passed=add(passed), failed=add(failed), skipped=add(skipped), errors=add(errors) if errors else 0
    )


_RUBY = re.compile(rf"{_N} (?:examples?|runs?|tests?), .*{_N} failures?\b")


def _ruby(lines: Lines) -> Found | None:
    """RSpec, Minitest and test-unit."""
    if (last := _last(_RUBY, lines)) is None:
        return None
    at, match = last
    said = _numbers(lines[at])
    failed, inside = said.get("failure", 0), said.get("error", 0)
    outside = sum(number for word, number in said.items() if word.endswith("outside of example"))
    skipped = sum(said.get(word, 0) for word in ("pending", "skip", "omission"))
    # Minitest's errors are runs that came to nothing; RSpec's are outside of its examples.
    passed = max(0, int(match[1]) - failed - skipped - inside)
    return at, Counts(passed=passed, failed=failed, skipped=skipped, errors=inside + outside)


_PHPUNIT_OK = re.compile(rf"OK \({_N} tests?, [0-9]+ assertions?\)$")
_PHPUNIT = re.compile(rf"Tests: {_N}, Assertions: [0-9]+(?:, [A-Za-z ]+: [0-9]{{1,9}})*\.$")
_PHPUNIT_NONE = re.compile(r"No tests executed!$")


def _phpunit(lines: Lines) -> Found | None:
    found: list[Found] = []
    if ok := _last(_PHPUNIT_OK, lines):
        found.append((ok[0], Counts(passed=int(ok[1][1]))))
    if none := _last(_PHPUNIT_NONE, lines):
        found.append((none[0], Counts()))
    if last := _last(_PHPUNIT, lines):
        said = _pairs(last[1][0])
        failed, errors = said.get("failure", 0), said.get("error", 0)
        skipped = said.get("skipped", 0) + said.get("incomplete", 0)
        passed = max(0, int(last[1][1]) - failed - errors - skipped)
        found.append((last[0], Counts(passed=passed, failed=failed, skipped=skipped, errors=errors)))
    return max(found, key=lambda seen: seen[0], default=None)


_SUREFIRE = re.compile(rf"(?:\[[A-Z]+\] )?Tests run: {_N}, Failures: {_N}, Errors: {_N}, Skipped: {_N}$")


def _surefire(lines: Lines) -> Found | None:
    """Maven's line for each module; the lines for single classes go on with their time."""
    if (seen := _sum(_all(_SUREFIRE, lines), passed=1, failed=2, skipped=4, errors=3)) is None:
        return None
    at, counts = seen
    passed = max(0, counts.passed - counts.failed - counts.skipped - counts.errors)
    return at, Counts(passed=passed, failed=counts.failed, skipped=counts.skipped, errors=counts.errors)


_DOTNET = re.compile(rf" *(?:Passed|Failed|Skipped)! +- Failed: +{_N}, Passed: +{_N}, Skipped: +{_N}, Total: ")
_DOTNET_NEW = re.compile(rf" *Test summary: total: {_N}, failed: {_N}, succeeded: {_N}, skipped: {_N}")


def _dotnet(lines: Lines) -> Found | None:
    return _sum(_all(_DOTNET, lines), passed=2, failed=1, skipped=3) or _sum(
        _all(_DOTNET_NEW, lines), passed=3, failed=2, skipped=4
    )


_READERS: tuple[Callable[[Lines], Found | None], ...] = (
    _tap,
    _pytest,
    _unittest,
    _node,
    _jest,
    _vitest,
    _mocha,
    _go,
    _cargo,
    _ruby,
    _phpunit,
    _surefire,
    _dotnet,
)


class _Refused(Exception):
    """The document is not one we read."""


@dataclass
class _JUnit:
    """Counts test cases as they pass by, so that no document is ever held as a tree."""

    states: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("passed", "failed", "skipped", "errors"), 0)
    )
    path: list[str] = field(default_factory=list)
    state: str = "passed"

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self.path.append(name)
        if self.path[0] not in ("testsuites", "testsuite") or len(self.path) > JUNIT_DEPTH:
            raise _Refused
        if name == "testcase":
            self.state = "skipped" if attributes.get("status") in ("notrun", "disabled") else "passed"
        elif name == "error" and "testcase" not in self.path:
            self.states["errors"] += 1
        elif name in _OUTCOMES:
            self.state = max(self.state, _OUTCOMES[name], key=_SEVERITY.index)

    def end(self, tag: str) -> None:
        if self.path.pop() == "testcase":
            self.states[self.state] += 1


_SEVERITY = ("passed", "skipped", "failed", "errors")
_OUTCOMES = {"failure": "failed", "error": "errors", "skipped": "skipped"}


def _junit(document: bytes) -> Counts | None:
    """A JUnit report's test cases; None for what is too large, is broken, or declares a document type (entities)."""
    if len(document) > JUNIT_LIMIT:
        return None
    counting = _JUnit()

    def refuse(*_: object) -> None:
        raise _Refused

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = counting.start
    parser.EndElementHandler = counting.end
    try:
        parser.Parse(document, True)
    except (expat.ExpatError, _Refused):
        return None
    return Counts(**counting.states)
