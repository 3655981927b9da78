"""Counts come from what runners really print, and a test's own printing does not pass for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.report import JUNIT_LIMIT, Counts, read

NOTHING = Counts()


def counts(passed: int = 0, failed: int = 0, skipped: int = 0, errors: int = 0) -> Counts:
    return Counts(passed=passed, failed=failed, skipped=skipped, errors=errors)


CLOSINGS: list[tuple[str, str, Counts]] = [
    ("pytest", "=== 3 passed in 0.12s ===", counts(3)),
    ("pytest, quiet", "...\n3 passed, 1 warning in 0.01s\n", counts(3)),
    (
        "pytest, all kinds",
        "= 1 failed, 2 passed, 3 skipped, 4 deselected, 1 xfailed,"
        " 1 xpassed, 2 warnings, 1 error in 61.20s (0:01:01) =",
        counts(3, 1, 4, 1),
    ),
    ("pytest, errors", "==== 2 errors in 0.10s ====", counts(errors=2)),
    ("pytest, nothing", "===== no tests ran in 0.01s =====", NOTHING),
    ("pytest, nothing, quiet", "\nno tests ran in 0.01s\n", NOTHING),
    ("pytest, all deselected", "==== 5 deselected in 0.02s ====", NOTHING),
    ("pytest, subtests", "1 passed, 2 subtests passed in 0.05s", counts(1)),
    ("pytest, colours", "\x1b[32m\x1b[32m\x1b[1m3 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m", counts(3)),
    ("unittest", "Ran 3 tests in 0.001s\n\nOK\n", counts(3)),
    ("unittest, skips", "Ran 1 test in 0.001s\n\nOK (skipped=1)", counts(skipped=1)),
    (
        "unittest, all kinds",
        "Ran 9 tests in 0.1s\n\n"
        "FAILED (failures=1, errors=2, skipped=1, expected failures=1, unexpected successes=1)",
        counts(3, 2, 2, 2),
    ),
    ("unittest, broken set-up", "Ran 0 tests in 0.0s\n\nFAILED (errors=1)", counts(errors=1)),
    ("unittest, nothing", "Ran 0 tests in 0.000s\n\nNO TESTS RAN", NOTHING),
    (
        "node, TAP",
        "1..3\n# tests 3\n# suites 0\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n# duration_ms 4",
        counts(1, 1, 1),
    ),
    ("node, spec", "ℹ tests 4\nℹ pass 2\nℹ fail 0\nℹ cancelled 1\nℹ skipped 0\nℹ todo 1", counts(2, 1, 1)),
    ("tape", "ok 1 a\nnot ok 2 b\n\n1..2\n# tests 2\n# pass  1\n# fail  1\n", counts(1, 1)),
    ("TAP", "TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 # SKIP no\nnot ok 4 # TODO later\n1..4", counts(1, 1, 2)),
    ("TAP, plan first", "1..1\nok 1 - fine", counts(1)),
    ("TAP, nothing", "1..0 # SKIP no tests", NOTHING),
    (
        "jest",
        "Test Suites: 1 failed, 1 total\n"
        "Tests:       1 failed, 1 skipped, 1 todo, 2 passed, 5 total\nSnapshots: 0 total",
        counts(2, 1, 2),
    ),
    (
        "jest, broken suite",
        "Test Suites: 1 failed, 2 passed, 3 total\nTests:       4 passed, 4 total",
        counts(4, errors=1),
    ),
    ("jest, nothing", "No tests found, exiting with code 1\nRun with `--passWithNoTests`", NOTHING),
    (
        "vitest",
        " Test Files  1 failed | 1 passed (2)\n"
        "      Tests  1 failed | 3 passed | 1 skipped (5)\n   Start at  10:00:00",
        counts(3, 1, 1),
    ),
    ("vitest, broken file", " Test Files  2 failed (2)\n      Tests  no tests", counts(errors=2)),
    ("vitest, nothing", "No test files found, exiting with code 1", NOTHING),
    ("mocha", "  2 passing (12ms)\n  1 pending\n  3 failing\n\n  1) x", counts(2, 3, 1)),
    ("mocha, nothing", "\n  0 passing (1ms)\n", NOTHING),
    ("go", "ok  \tx/a\t0.003s\nok  \tx/b\t(cached)\n?   \tx/c\t[no test files]", counts(2)),
    ("go, no tests to run", "ok  \tx/a\t0.003s [no tests to run]", NOTHING),
    ("go, no files", "?   \tx\t[no test files]", NOTHING),
    (
        "go, failing",
        "--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tx\t0.002s\nok  \ty\t0.1s\nFAIL",
        counts(1, 1),
    ),
    ("go, not compiling", "FAIL\tx [build failed]\nFAIL", counts(errors=1)),
    (
        "go, verbose",
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\nPASS\nok  \tx\t0.002s",
        counts(1, 0, 1),
    ),
    ("go, all skipped", "--- SKIP: TestB (0.00s)\nPASS\nok  \tx\t0.002s", counts(skipped=1)),
    (
        "cargo, several crates",
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n",
        counts(4, 2, 1),
    ),
    ("rspec", "Finished in 0.01 seconds\n3 examples, 1 failure, 1 pending\n", counts(1, 1, 1)),
    ("rspec, nothing", "No examples found.\n\n0 examples, 0 failures", NOTHING),
    ("rspec, not loading", "0 examples, 0 failures, 2 errors occurred outside of examples", counts(errors=2)),
    ("minitest", "6 runs, 9 assertions, 1 failures, 1 errors, 1 skips", counts(3, 1, 1, 1)),
    (
        "test-unit",
        "2 tests, 2 assertions, 0 failures, 0 errors, 1 pendings, 0 omissions, 0 notifications",
        counts(1, 0, 1),
    ),
    ("phpunit", "OK (3 tests, 5 assertions)", counts(3)),
    (
        "phpunit, all kinds",
        "FAILURES!\nTests: 9, Assertions: 5, Errors: 1, Failures: 2, Skipped: 1, Incomplete: 1, Risky: 1.",
        counts(4, 2, 2, 1),
    ),
    ("phpunit, nothing", "No tests executed!", NOTHING),
    (
        "surefire",
        "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in ATest\n[INFO] Results:\n"
        "[ERROR] Tests run: 6, Failures: 1, Errors: 1, Skipped: 1\n"
        "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0",
        counts(5, 1, 1, 1),
    ),
    (
        "dotnet",
        "Passed!  - Failed:     0, Passed:     3, Skipped:     1, Total:     4, Duration: 5 ms - a.dll (net8.0)\n"
        "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 5 ms - b.dll (net8.0)",
        counts(5, 1, 1),
    ),
    ("dotnet, new", "Test summary: total: 4, failed: 1, succeeded: 2, skipped: 1, duration: 1.2s", counts(2, 1, 1)),
]


@pytest.mark.parametrize(("text", "wanted"), [row[1:] for row in CLOSINGS], ids=[row[0] for row in CLOSINGS])
def test_closing_lines_are_read(text: str, wanted: Counts) -> None:
    code = int(bool(wanted.failed or wanted.errors))
    assert read(code, text, "") == wanted
    assert read(code, "", text.replace("\n", "\r\n")) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "All good!",
        "3 passed",
        "we saw 3 passed in 0.1s of talking",
        "Ran 3 tests in 0.001s\n\nso it goes",
        "Ran 3 tests in 0.001s",
        "# pass 3",
        "ok 1 - without a plan",
        "Tests: many",
        "ok  x 0.1s",
        "9999999999999999999999 passed in 0.1s",
    ],
)
def test_what_no_runner_closes_with_says_nothing(text: str) -> None:
    assert read(0, text, text) is None


def test_what_a_test_prints_does_not_win_over_the_real_closing_line() -> None:
    fake = "==== 99 passed in 0.01s ====\nRan 50 tests in 0.1s\n\nOK\nOK (7 tests, 7 assertions)\n"
    assert read(5, fake + "==== no tests ran in 0.01s ====", "") == NOTHING
    assert read(1, fake + "= 1 failed, 2 passed in 0.20s =\nmake: *** [test] Error 1", "") == counts(2, 1)


def test_of_two_streams_the_one_that_fits_the_exit_code_is_believed() -> None:
    fake, real = "==== 99 passed in 0.01s ====", "Ran 2 tests in 0.1s\n\nFAILED (failures=1)"
    assert read(1, fake, real) == counts(1, 1)
    assert read(1, real, fake) == counts(1, 1)
    assert read(0, fake, "Ran 2 tests in 0.1s\n\nOK") == counts(2), "the less flattering one where both fit"


def test_real_runs_of_pytest_and_unittest_are_read(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import unittest\n\n\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        print('9 passed in 0.1s')\n\n"
        "    def test_b(self):\n        self.fail()\n\n"
        "    @unittest.skip('no')\n    def test_c(self):\n        pass\n"
    )
    for command in (
        ["pytest", "-q", "-s", "-p", "no:cacheprovider"],
        ["pytest", "-p", "no:cacheprovider"],
        ["unittest"],
    ):
        ran = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True)
        assert read(ran.returncode, ran.stdout, ran.stderr) == counts(1, 1, 1), command


SUITE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="s" tests="99" failures="0">
  <properties><property name="p" value="v"/></properties>
  <testcase name="a"/><testcase name="b"><failure>no</failure><skipped/></testcase>
  <testcase name="c"><error/><failure/></testcase><testcase name="d"><skipped/></testcase>
  <testcase name="e" status="notrun"/><testcase name="f"><system-out>x</system-out></testcase>
  <testsuite name="inner"><testcase name="g"/><error/></testsuite>
</testsuite></testsuites>"""


def test_a_junit_report_is_counted_case_by_case_and_believed_before_any_line() -> None:
    assert read(1, "==== 99 passed in 0.01s ====", "", SUITE) == counts(3, 1, 2, 2)
    assert counts(3, 1, 2, 2).ran == 4
    assert read(0, "", "", b"<testsuite/>") == NOTHING
    spaced = b'<j:testsuite xmlns:j="urn:x"><j:testcase/></j:testsuite>'
    assert read(0, "", "", spaced) == counts(1)
    assert read(0, "", "", SUITE.decode().replace("utf-8", "utf-16").encode("utf-16")) == counts(3, 1, 2, 2)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"not xml",
        b"<testsuite><testcase></testsuite>",
        b"<html><testcase/></html>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite><testcase name="&a;"/></testsuite>',
        "<!DOCTYPE x><testsuite><testcase/></testsuite>".encode("utf-16"),
        b"<testsuite>" * 200 + b"<testcase/>" + b"</testsuite>" * 200,
        b"<testsuite><testcase/></testsuite>" + b" " * JUNIT_LIMIT,
    ],
    ids=["empty", "no xml", "broken", "another root", "entities", "doctype in UTF-16", "too deep", "too large"],
)
def test_a_report_that_cannot_be_trusted_is_passed_over_for_the_lines(document: bytes) -> None:
    assert read(0, "1 passed in 0.1s", "", document) == counts(1)
    assert read(0, "", "", document) is None


@given(
    st.lists(st.sampled_from([row[1] for row in CLOSINGS]) | st.text(max_size=40), max_size=6), st.binary(max_size=60)
)
def test_no_output_is_too_strange_to_be_read(parts: list[str], junit: bytes) -> None:
    seen = read(0, "\n".join(parts), "", junit)
    assert seen is None or min(seen.passed, seen.failed, seen.skipped, seen.errors) >= 0
