"""Reads runners' closing lines: how many tests passed and failed, as the runner itself sums it up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.domain.report_counts import Counts, Lines, Outcome, Result

Found = tuple[int, Counts]
"""Where a closing line stood, and what it said."""


def closings(lines: Lines) -> dict[str, Found]:
    """What each runner's last closing line said, by the runner's name."""
    return {name: seen for name, reader in _READERS if (seen := reader(lines)) is not None}


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
    """`failures=1, skipped: 2` as a table; of a line that no runner wrote, only the beginning."""
    return {word.strip().lower().removesuffix("s"): int(number) for word, number in _PAIR.findall(text[:500])}


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
TAP_ASIDE = re.compile(r"(?:^|\s)#[ \t]*(?:skip|todo)", re.IGNORECASE)
"""Of a test that was skipped, or may fail for now. A `#` in a name has a backslash before it."""


def _tap(lines: Lines) -> Found | None:
    """Any other speaker of the Test Anything Protocol; a plan is what tells it from prose."""
    if (plan := _last(_TAP_PLAN, lines)) is None:
        return None
    results = _all(_TAP_LINE, lines)
    plain = [match for _, match in results if not TAP_ASIDE.search(match[2])]
    failed = sum(match[1] is not None for match in plain)
    at = max([plan[0], *(at for at, _ in results)])
    return at, Counts(passed=len(plain) - failed, failed=failed, skipped=len(results) - len(plain))


_JEST = re.compile(rf"Tests: +((?:{_N} [a-z]+, )*{_N} total)$")
_JEST_SUITES = re.compile(rf"Test Suites: (?:.*, |\s+)?{_N} failed, ")
_JEST_NONE = re.compile(r"No tests found, exiting with code [01]$")


def _jest(lines: Lines) -> Found | None:
    return _of_files(lines, _JEST, _JEST_SUITES, _JEST_NONE)


def _of_files(
    lines: Lines, closing: re.Pattern[str], red_files: re.Pattern[str], none: re.Pattern[str]
) -> Found | None:
    """A closing line of tests, with one about their files before it; `none` is what there is where no file was found.
    Files that are red without a red test could not be loaded."""
    empty = _last(none, lines)
    if (last := _last(closing, lines)) is None:
        return (empty[0], Counts()) if empty else None
    at, match = last
    said = _numbers(match[1])
    files = red_files.match(lines[at - 1])
    failed = said.get("failed", 0)
    return at, Counts(
        passed=said.get("passed", 0),
        failed=failed,
        skipped=said.get("skipped", 0) + said.get("todo", 0),
        errors=int(files[1]) if files and not failed else 0,
    )


_VITEST = re.compile(rf" *Tests  (no tests|{_N} [a-z]+(?: \| {_N} [a-z]+)* \([0-9]+\))$")
_VITEST_FILES = re.compile(rf" *Test Files  {_N} failed")
_VITEST_NONE = re.compile(r"No test files found, exiting with code [01]$")


def _vitest(lines: Lines) -> Found | None:
    return _of_files(lines, _VITEST, _VITEST_FILES, _VITEST_NONE)


MOCHA = re.compile(rf" +{_N} passing \([0-9]+(?:ms|s|m|h)\)$")
_MOCHA_MORE = re.compile(rf" +{_N} (pending|failing)$")


def _mocha(lines: Lines) -> Found | None:
    if (last := _last(MOCHA, lines)) is None:
        return None
    at, match = last
    said = {more[2]: int(more[1]) for _, more in _all(_MOCHA_MORE, lines[at + 1 : at + 3])}
    return at, Counts(passed=int(match[1]), failed=said.get("failing", 0), skipped=said.get("pending", 0))


@dataclass
class GoPackage:
    """What `go test` printed of one package; `end` is its closing line, or empty where none came."""

    name: str = ""
    end: str = ""
    started: set[str] = field(default_factory=set)
    """Tests that `-v` says were begun."""
    results: list[Result] = field(default_factory=list)
    at: int = -1

    @property
    def is_broken(self) -> bool:
        """Not compiled, or failed without a test that did: a panic elsewhere, an exit."""
        return self.end.startswith("FAIL") and not any(outcome == "failed" for _, outcome in self.results)


_GO_PACKAGE = re.compile(r"(?:ok  |FAIL|\?   )\t(\S+)")
_GO_RESULT = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \([0-9.]+s\)$")
_GO_STARTED = "=== RUN   "
_GO_OUTCOMES: dict[str, Outcome] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def go_packages(lines: Lines) -> list[GoPackage]:
    """Package by package, subtests among the tests. Go names a test that passed only after it has said, with `-v`,
    that it began; a result without that was printed by somebody else, unless it is a failure."""
    packages = [GoPackage()]
    for at, line in enumerate(lines):
        here = packages[-1]
        if line.startswith(_GO_STARTED):
            here.started.add(line.removeprefix(_GO_STARTED))
        elif package := _GO_PACKAGE.match(line):
            here.name, here.end, here.at = package[1], line, at
            packages.append(GoPackage())
        # What a test prints without a line end stands before its result.
        elif (start := line.rfind("--- ")) >= 0 and (result := _GO_RESULT.match(line, start)):
            outcome = _GO_OUTCOMES[result[1]]
            if outcome == "failed" or result[2] in here.started:
                here.results.append((result[2], outcome))
    return packages


def _go(lines: Lines) -> Found | None:
    """Without `-v` Go says nothing of single tests: a package that is ok then counts as one."""
    packages = go_packages(lines)
    ended = [package for package in packages if package.end]
    if not ended:
        return None
    outcomes = [outcome for package in packages for name, outcome in package.results if "/" not in name]
    ok = sum(package.end.startswith("ok") and "[no tests to run]" not in package.end for package in ended)
    is_verbose = any(package.started for package in packages)
    return ended[-1].at, Counts(
        passed=outcomes.count("passed") if is_verbose else ok,
        failed=outcomes.count("failed"),
        skipped=outcomes.count("skipped"),
        errors=sum(package.is_broken for package in ended),
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


_READERS: tuple[tuple[str, Callable[[Lines], Found | None]], ...] = (
    ("tap", _tap),
    ("pytest", _pytest),
    ("unittest", _unittest),
    ("node", _node),
    ("jest", _jest),
    ("vitest", _vitest),
    ("mocha", _mocha),
    ("go", _go),
    ("cargo", _cargo),
    ("ruby", _ruby),
    ("phpunit", _phpunit),
    ("surefire", _surefire),
    ("dotnet", _dotnet),
)

SUMMED = frozenset({"tap", "go", "cargo", "surefire", "dotnet"})
"""Runners whose numbers are added up from many lines, so that they are too low where lines are missing."""
