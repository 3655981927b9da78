"""Counts come from what runners really print, and a test's own printing does not pass for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from bot.domain.report import FAILING_LIMIT, IDS_LIMIT, JUNIT_LIMIT, Counts, Report, read
from bot.domain.report_junit import JUNIT_CASES

NOTHING = Counts()
CUT = "\n[... 70000 bytes left out ...]\n"


def counts(passed: int = 0, failed: int = 0, skipped: int = 0, errors: int = 0) -> Counts:
    return Counts(passed=passed, failed=failed, skipped=skipped, errors=errors)


def numbers(exit_code: int, stdout: str, stderr: str, junit: bytes | None = None) -> Counts | None:
    said = read(exit_code, stdout, stderr, junit)
    return said.counts if said else None


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
    ("TAP, a name like a directive", "ok 1 - mends \\# skip\n1..1", counts(1)),
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
    ("go, leaving without a result", "exit status 3\nFAIL\tx\t0.002s\nFAIL", counts(errors=1)),
    (
        "go, a result behind what a test printed",
        "=== RUN   TestA\nno line end--- PASS: TestA (0.00s)\nPASS\nok  \tx\t0.002s",
        counts(1),
    ),
    ("go, a result that Go did not print", "--- PASS: TestFake (0.00s)\nok  \tx\t0.002s", counts(1)),
    (
        "go, a result of no test",
        "=== RUN   TestA\n--- PASS: TestFake (0.00s)\n--- PASS: TestA (0.00s)\nok  \tx\t0.002s\nok  \ty\t0.1s",
        counts(1),
    ),
    (
        "go, subtests",
        "=== RUN   TestA\n=== RUN   TestA/x\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\tx\t0.1s",
        counts(0, 1),
    ),
    ("go, not compiling", "FAIL\tx [build failed]\nFAIL", counts(errors=1)),
    (
        "go, verbose",
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\nPASS\nok  \tx\t0.002s",
        counts(1, 0, 1),
    ),
    ("go, all skipped", "=== RUN   TestB\n--- SKIP: TestB (0.00s)\nPASS\nok  \tx\t0.002s", counts(skipped=1)),
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
    assert numbers(code, text, "") == wanted
    assert numbers(code, "", text.replace("\n", "\r\n")) == wanted


@pytest.mark.parametrize(("name", "text"), [row[:2] for row in CLOSINGS], ids=[row[0] for row in CLOSINGS])
def test_the_runner_is_known_by_its_closing_lines(name: str, text: str) -> None:
    first = name.partition(",")[0]
    said = read(0, text, "")
    assert said is not None
    assert said.runner == {"rspec": "ruby", "minitest": "ruby", "test-unit": "ruby", "tape": "node"}.get(
        first, first.lower()
    )


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
    assert numbers(5, fake + "==== no tests ran in 0.01s ====", "") == NOTHING
    assert numbers(1, fake + "= 1 failed, 2 passed in 0.20s =\nmake: *** [test] Error 1", "") == counts(2, 1)


def test_of_two_streams_the_one_that_fits_the_exit_code_is_believed() -> None:
    fake, real = "==== 99 passed in 0.01s ====", "Ran 2 tests in 0.1s\n\nFAILED (failures=1)"
    assert numbers(1, fake, real) == counts(1, 1)
    assert numbers(1, real, fake) == counts(1, 1)
    assert numbers(0, fake, "Ran 2 tests in 0.1s\n\nOK") == counts(2), "the less flattering one where both fit"


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
        assert numbers(ran.returncode, ran.stdout, ran.stderr) == counts(1, 1, 1), command


SUITE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="s" tests="99" failures="0">
  <properties><property name="p" value="v"/></properties>
  <testcase name="a"/><testcase name="b"><failure>no</failure><skipped/></testcase>
  <testcase name="c"><error/><failure/></testcase><testcase name="d"><skipped/></testcase>
  <testcase name="e" status="notrun"/><testcase name="f"><system-out>x</system-out></testcase>
  <testsuite name="inner"><testcase name="g"/><error/></testsuite>
</testsuite></testsuites>"""


def suite(*cases: str, name: str = "s") -> bytes:
    return f'<testsuite name="{name}">{"".join(cases)}</testsuite>'.encode()


def case(name: str, inside: str = "", **more: str) -> str:
    attributes = "".join(f' {key}="{value}"' for key, value in more.items())
    return f'<testcase name="{name}"{attributes}>{inside}</testcase>'


def test_a_junit_report_is_counted_case_by_case_and_keeps_its_failures_whatever_the_exit_code() -> None:
    assert numbers(0, "", "", SUITE) == counts(3, 1, 2, 2)
    assert counts(3, 1, 2, 2).ran == 4
    assert numbers(0, "", "", b"<testsuite/>") == NOTHING
    spaced = b'<j:testsuite xmlns:j="urn:x"><j:testcase/></j:testsuite>'
    assert numbers(0, "", "", spaced) == counts(1)
    assert numbers(0, "", "", SUITE.decode().replace("utf-8", "utf-16").encode("utf-16")) == counts(3, 1, 2, 2)


def test_each_test_of_a_file_is_named_once_and_has_failed_if_it_ever_did() -> None:
    document = suite(
        case("a", classname="x.T"),
        case("a", "<failure/>", classname="x.T"),
        case("a", classname="x.T"),
        case("b", classname="b"),
        case("c", "<skipped/>"),
        case("c"),
        case("d", "<skipped/>"),
        case("e&#10;\tf&#133;", "<error/>"),
    )
    assert read(1, "", "", document) == Report(
        runner="junit",
        counts=counts(4, 1, 2, 1),
        tests={"x.T::a": "failed", "b": "passed", "c": "passed", "d": "skipped", "e f": "failed"},
        failing=("e f", "x.T::a"),
    )


def test_there_are_no_tests_by_name_where_one_has_none_or_there_are_too_many() -> None:
    assert read(0, "", "", suite("<testcase/>", case("a"))) == Report(runner="junit", counts=counts(2))
    many = read(1, "", "", suite(*(case(f"t{at:06}", "<failure/>") for at in range(IDS_LIMIT + 1))))
    assert many is not None
    assert many.tests is None
    assert many.failing == tuple(f"t{at:06}" for at in range(FAILING_LIMIT))
    most = read(0, "", "", suite(*(case(f"t{at}") for at in range(IDS_LIMIT))))
    assert most is not None
    assert most.tests is not None
    assert len(most.tests) == IDS_LIMIT


def test_a_name_is_not_longer_than_people_can_read() -> None:
    said = read(0, "", "", suite(case("n" * 10_000, classname="c" * 10_000)))
    assert said is not None
    assert said.tests == {"c" * 500: "passed"}


PYTEST = suite(case("a"), case("b"), name="pytest")
RED = suite(case("a"), case("b", "<failure/>"), name="pytest")


@pytest.mark.parametrize(
    ("exit_code", "junit", "text", "wanted"),
    [
        (0, PYTEST, "2 passed in 0.1s", counts(2)),
        (1, RED, "1 failed, 1 passed in 0.1s", counts(1, 1)),
        (0, PYTEST, "", counts(2)),
        (0, PYTEST, "2 passed, 3 subtests passed in 0.1s", counts(2)),
        # A test that fails after it has passed counts twice in the lines.
        (1, suite(case("a", "<error/>"), name="pytest"), "1 passed, 1 error in 0.1s", counts(errors=1)),
        # Another runner's lines, of a command that starts both.
        (0, PYTEST, "2 passed in 0.1s\n  9 passing (1ms)", counts(2)),
        (1, PYTEST, "2 passed in 0.1s\n  9 passing (1ms)\n  1 failing", counts(2)),
        # What broke before it came to a test stands in no file.
        (
            1,
            suite(case("a"), name="jest tests"),
            "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 passed, 1 total",
            counts(1, errors=1),
        ),
        (0, suite(case("a")), "  3 passing (1ms)\n  1 pending", counts(1)),
    ],
)
def test_a_file_and_lines_that_can_both_be_true_are_one_report(
    exit_code: int, junit: bytes, text: str, wanted: Counts
) -> None:
    said = read(exit_code, text, "", junit)
    assert said is not None
    assert (said.counts, said.contradiction) == (wanted, None)
    assert said.tests is not None


@pytest.mark.parametrize(
    ("exit_code", "junit", "text", "wanted", "sentence"),
    [
        (
            0,
            PYTEST,
            "9 passed in 0.1s",
            counts(2),
            "the report file says 2 passed and 0 failed, the output says 9 passed and 0 failed.",
        ),
        (
            0,
            PYTEST,
            "1 passed in 0.1s",
            counts(1),
            "the report file says 2 passed and 0 failed, the output says 1 passed and 0 failed.",
        ),
        (
            0,
            RED,
            "2 passed in 0.1s",
            counts(1, 1),
            "the report file says 1 passed and 1 failed, the output says 2 passed and 0 failed.",
        ),
        (
            1,
            PYTEST,
            "2 failed in 0.1s",
            counts(0, 2),
            "the report file says 2 passed and 0 failed, the output says 0 passed and 2 failed.",
        ),
        (
            0,
            suite(case("a")),
            "Ran 2 tests in 0.1s\n\nFAILED (errors=1)",
            counts(1, errors=1),
            "the report file says 1 passed and 0 failed, the output says 1 passed and 0 failed with 1 errors.",
        ),
    ],
)
def test_a_file_and_lines_that_contradict_each_other_are_told_and_the_worse_one_believed(
    exit_code: int, junit: bytes, text: str, wanted: Counts, sentence: str
) -> None:
    said = read(exit_code, text, "", junit)
    assert said is not None
    assert (said.counts, said.contradiction, said.tests) == (wanted, sentence, None)


def test_a_file_of_unknown_origin_belongs_to_the_runner_that_closed_the_run() -> None:
    for text, runner in (("OK (1 test, 1 assertion)", "phpunit"), ("done", "junit")):
        said = read(0, text, "", suite(case("a")))
        assert said is not None
        assert said.runner == runner


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
        b"<testsuite>" + b"<testcase/>" * (JUNIT_CASES + 1) + b"</testsuite>",
    ],
    ids=[
        "empty",
        "no xml",
        "broken",
        "another root",
        "entities",
        "doctype in UTF-16",
        "too deep",
        "too large",
        "too many",
    ],
)
def test_a_report_that_cannot_be_trusted_is_passed_over_for_the_lines(document: bytes) -> None:
    assert numbers(0, "1 passed in 0.1s", "", document) == counts(1)
    assert read(0, "", "", document) is None


def test_cut_output_names_no_tests_and_makes_sums_partial() -> None:
    verbose = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n"
    whole, cut = (read(0, f"{verbose}{middle}{verbose}ok  \tx\t0.1s", "") for middle in ("", CUT))
    assert whole == Report(runner="go", counts=counts(2), tests={"x::TestA": "passed"})
    assert cut is not None
    assert (cut.tests, cut.partial) == (None, True)
    said = read(1, f"FAILED x.py::a{CUT}.py::b\n=== short test summary info ===\nFAILED x.py::c\n1 failed in 1s", "")
    assert said == Report(runner="pytest", counts=counts(0, 1), failing=("x.py::c",)), "its own line has the numbers"


def test_the_pieces_of_lines_on_both_sides_of_a_cut_are_not_read() -> None:
    text = (
        f"=== short test summary info ===\nFAILED x.py::test_lo{CUT}FAILED x.py::test\nFAILED x.py::b\n2 failed in 1s"
    )
    said = read(1, text, "")
    assert said is not None
    assert said.failing == ("x.py::b",)


def test_a_run_that_is_green_has_no_failing_tests_whatever_was_printed() -> None:
    said = read(0, "FAILED x.py::a\n=== short test summary info ===\nFAILED x.py::b\n2 passed in 1s", "")
    assert said == Report(runner="pytest", counts=counts(2))


def test_a_report_is_the_same_after_it_has_been_stored() -> None:
    stored = TypeAdapter(Report)
    for said in (read(1, "", "", RED), read(0, "2 passed in 1s", "", RED), read(0, "  1 passing (1ms)", "")):
        assert said is not None
        assert stored.validate_json(stored.dump_json(said)) == said


@given(
    st.lists(st.sampled_from([row[1] for row in CLOSINGS]) | st.text(max_size=40), max_size=6), st.binary(max_size=60)
)
def test_no_output_is_too_strange_to_be_read(parts: list[str], junit: bytes) -> None:
    seen = numbers(0, "\n".join(parts), "", junit)
    assert seen is None or min(seen.passed, seen.failed, seen.skipped, seen.errors) >= 0
