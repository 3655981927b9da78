"""Tests are known by name where a runner's output names them, and a test's own printing seldom adds one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bot.domain.report import Outcome, read

TAP = r"""TAP version 13
# ok 7 - printed by a test
# Subtest: plain
ok 1 - plain
  ---
  duration_ms: 3.8
  error: |-
    ok 9 - in a message
  ...
# Subtest: fails \# hash \\ back
not ok 2 - fails \# hash \\ back
  ---
  duration_ms: 1.9
  failureType: 'testCodeFailure'
  ...
ok 3 - sk # SKIP why
not ok 4 - later # TODO
# Subtest: top
    # Subtest: sub
    ok 1 - sub
      ---
      duration_ms: 0.3
      ...
    not ok 2 - sub2
    1..2
not ok 5 - top
  ---
  duration_ms: 1.1
  ...
# Subtest: suite
    # Subtest: deep
        # Subtest: in
        ok 1 - in
        1..1
    ok 1 - deep
      ---
      type: 'suite'
      ...
    1..1
ok 6 - suite
  ---
  type: 'suite'
  ...
1..6
# tests 8
# suites 2
# pass 3
# fail 3
# cancelled 0
# skipped 1
# todo 1
# duration_ms 502.5
"""
TAP_TESTS: dict[str, Outcome] = {
    "plain": "passed",
    "fails # hash \\ back": "failed",
    "sk": "skipped",
    "later": "skipped",
    "top": "failed",
    "top > sub": "passed",
    "top > sub2": "failed",
    "suite > deep > in": "passed",
}
SPEC = """printed by a test
✔ plain (4.383216ms)
✖ fails (2.0ms)
  AssertionError [ERR_ASSERTION]: 1 == 2

﹣ sk (0.25ms) # why
✖ later (0.39ms) # TODO
▶ suite
  ✔ inner (0.4ms)
  ▶ deep
    ✖ in (0.39ms)
  ✔ deep (3.0ms)
✔ suite (4.1ms)
ℹ tests 6
ℹ suites 2
ℹ pass 2
ℹ fail 2
ℹ cancelled 0
ℹ skipped 1
ℹ todo 1
ℹ duration_ms 496.4

✖ failing tests:

test at test/x.test.js:3:1
✖ fails (2.0ms)
  AssertionError [ERR_ASSERTION]: 1 == 2

test at test/x.test.js:5:1
✖ later (0.39ms) # TODO

test at test/x.test.js:6:1
✖ in (0.39ms)
"""
MOCHA = """

  1) top
  suite
    ✔ works (12ms)
    2) breaks
    - sk
    in
      ✓ works
      3) breaks too

  after
    ✔ all

  3 passing (8ms)
  1 pending
  3 failing

  1) top:
     Error: x
      at Context.<anonymous> (m/a.js:2:24)

  2) suite
       breaks:
     Error: no

  3) suite
       in
         breaks too:

     Error: no
"""
JEST = """FAIL t/a.test.js (5.2 s)
  suite
    ✓ works (3 ms)
    ✕ breaks (4 ms)
    ○ skipped sk
    ✎ todo later
    in
      ✓ works

  ● suite › breaks

    expect(received).toBe(expected) // Object.is equality

    > 1 | describe('suite', () => {
      ✓ in the source

Test Suites: 1 failed, 1 total
Tests:       1 failed, 1 skipped, 1 todo, 2 passed, 5 total
"""
JEST_BRIEF = """PASS t/c.test.js
  ● Console

    console.log
FAIL t/a.test.js
  ● suite › in › breaks

    no

FAIL t/b.test.js
  ● Test suite failed to run

Test Suites: 2 failed, 1 passed, 3 total
Tests:       1 failed, 2 passed, 3 total
"""
VITEST = """
 ✓ v/a.test.js > suite > works 2ms
 × v/a.test.js > suite > breaks 9ms
   → expected 1 to be 2
 ↓ v/a.test.js > suite > sk
 □ v/a.test.js > suite > later
 ✓ a file (3 tests)

 Test Files  2 failed (2)
      Tests  1 failed | 1 passed | 1 skipped | 1 todo (4)
"""
VITEST_ERRORS = """
 FAIL  v/b.test.js [ v/b.test.js ]
Error: Cannot find module './nothere'
 FAIL  v/a.test.js > suite > breaks
"""
GO = """=== RUN   TestA
--- PASS: TestFake (0.00s)
no newline--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/x_y
    a_test.go:4: no
--- FAIL: TestB (0.00s)
    --- PASS: TestB/x_y (0.00s)
FAIL
FAIL\texample.com/m\t0.004s
=== RUN   TestA
--- SKIP: TestA (0.00s)
PASS
ok  \texample.com/m/sub\t0.002s
FAIL
"""
CARGO = """
running 3 tests
test tests::ign ... ignored, later
test tests::pan - should panic ... ok
test tests::breaks ... FAILED

failures:

---- tests::breaks stdout ----
    indented by a test

failures:
    tests::breaks

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.11s


running 1 test
test works ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s


running 1 test
test src/lib.rs - a (line 1) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.13s
"""
CARGO_TARGETS = """   Compiling rsx v0.1.0 (/r)
     Running unittests src/lib.rs (target/debug/deps/rsx-bb0247a68b1bdeaa)
     Running tests/it.rs (target/debug/deps/it-94bfbcb7a1eed9cb)
   Doc-tests rsx
"""
CARGO_QUIET = """
running 2 tests
.
tests::breaks --- FAILED

failures:
    tests::breaks

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.11s
"""
UNITTEST = """test_a (test_x.T.test_a)
First line. ... ok
test_b (test_x.T.test_b) ... FAIL
test_c (test_x.T) ... skipped 'no'
test_d (test_x.T.test_d) ... expected failure
test_e (test_x.T.test_e) ... unexpected success
test_g (test_x.T.test_g) ...
  test_g (test_x.T.test_g) (i=1) ... FAIL
setUpClass (test_x.U) ... ERROR

======================================================================
ERROR: setUpClass (test_x.U)
----------------------------------------------------------------------
FAIL: test_printed (test_x.T)
======================================================================
FAIL: test_b (test_x.T.test_b)
----------------------------------------------------------------------
======================================================================
FAIL: test_g (test_x.T.test_g) (i=1)
----------------------------------------------------------------------
======================================================================
UNEXPECTED SUCCESS: test_e (test_x.T.test_e)
----------------------------------------------------------------------
Ran 6 tests in 0.001s

FAILED (failures=2, errors=1, skipped=1, expected failures=1, unexpected successes=1)
"""
MINITEST = """TestX#test_c = 0.00 s = E
TestX#test_a = 0.00 s = .
TestX#test_b = 0.00 s = F
TestX#test_d = 0.00 s = S

  1) Error:
TestX#test_c:
RuntimeError: x

  2) Failure:
TestX#test_b [t.rb:4]:
Expected: 1

4 runs, 2 assertions, 1 failures, 1 errors, 1 skips
"""

NAMED: list[tuple[str, str, str, dict[str, Outcome]]] = [
    ("node, TAP", TAP, "", TAP_TESTS),
    (
        "node, spec",
        SPEC,
        "",
        {
            "plain": "passed",
            "fails": "failed",
            "sk": "skipped",
            "later": "skipped",
            "suite": "passed",
            "suite > inner": "passed",
            "suite > deep": "passed",
            "suite > deep > in": "failed",
        },
    ),
    ("TAP", "1..2\nok 1 a\nnot ok - b # todo later", "", {"a": "passed", "b": "skipped"}),
    (
        "mocha",
        MOCHA,
        "",
        {
            "top": "failed",
            "suite > works": "passed",
            "suite > breaks": "failed",
            "suite > sk": "skipped",
            "suite > in > works": "passed",
            "suite > in > breaks too": "failed",
            "after > all": "passed",
        },
    ),
    (
        "mocha, a number out of turn",
        "  9) printed\n  0 passing\n\n  1) a\n\n  0 passing (1ms)\n  1 failing",
        "",
        {"a": "failed"},
    ),
    (
        "jest",
        "",
        JEST,
        {
            "t/a.test.js > suite > works": "passed",
            "t/a.test.js > suite > breaks": "failed",
            "t/a.test.js > suite > sk": "skipped",
            "t/a.test.js > suite > later": "skipped",
            "t/a.test.js > suite > in > works": "passed",
        },
    ),
    (
        "vitest",
        VITEST,
        "",
        {
            "v/a.test.js > suite > works": "passed",
            "v/a.test.js > suite > breaks": "failed",
            "v/a.test.js > suite > sk": "skipped",
            "v/a.test.js > suite > later": "skipped",
        },
    ),
    (
        "go",
        GO,
        "",
        {
            "example.com/m::TestA": "passed",
            "example.com/m::TestB": "failed",
            "example.com/m::TestB/x_y": "passed",
            "example.com/m/sub::TestA": "skipped",
        },
    ),
    (
        "cargo",
        CARGO,
        CARGO_TARGETS,
        {
            "rsx::tests::ign": "skipped",
            "rsx::tests::pan": "passed",
            "rsx::tests::breaks": "failed",
            "it::works": "passed",
            "rsx::src/lib.rs - a": "passed",
        },
    ),
    (
        "cargo, targets unknown",
        CARGO,
        "",
        {
            "tests::ign": "skipped",
            "tests::pan": "passed",
            "tests::breaks": "failed",
            "works": "passed",
            "src/lib.rs - a": "passed",
        },
    ),
    (
        "unittest",
        "",
        UNITTEST,
        {
            "test_x.T.test_a": "passed",
            "test_x.T.test_b": "failed",
            "test_x.T.test_c": "skipped",
            "test_x.T.test_d": "skipped",
            "test_x.T.test_e": "failed",
            "test_x.T.test_g": "failed",
            "test_x.U.setUpClass": "failed",
        },
    ),
    (
        "minitest",
        MINITEST,
        "",
        {
            "TestX#test_a": "passed",
            "TestX#test_b": "failed",
            "TestX#test_c": "failed",
            "TestX#test_d": "skipped",
        },
    ),
]


@pytest.mark.parametrize(
    ("stdout", "stderr", "tests"),
    [row[1:] for row in NAMED],
    ids=[row[0] for row in NAMED],
)
def test_every_test_is_known_where_the_output_names_them_all(
    stdout: str, stderr: str, tests: dict[str, Outcome]
) -> None:
    said = read(1, stdout, stderr)
    assert said is not None
    assert said.tests == tests
    red = said.counts.red
    assert said.failing == tuple(sorted(name for name, outcome in tests.items() if red and outcome == "failed"))


FAILING: list[tuple[str, str, str, tuple[str, ...]]] = [
    (
        "pytest",
        "FAILED x.py::printed\n=== short test summary info ===\nFAILED a/test_x.py::T::test_a - assert 1 == 2\n"
        "FAILED x.py::t[x - y] - assert 'a - [b]'\nFAILED x.py::t[a b]\nERROR x.py::t[q] - [a] - b\n"
        "FAILED x.py::t[x - y...\nERROR sub/test_imp.py\n= 4 failed, 2 errors in 0.1s =",
        "",
        (
            "a/test_x.py::T::test_a",
            "sub/test_imp.py",
            "x.py::t[a b]",
            "x.py::t[q]",
            "x.py::t[x - y...]",
            "x.py::t[x - y]",
        ),
    ),
    ("pytest without a summary", "= 4 failed, 2 errors in 0.1s =", "", ()),
    (
        "node, TAP that says more",
        TAP.replace("# pass 3", "# pass 2"),
        "",
        ("fails # hash \\ back", "top", "top > sub2"),
    ),
    ("node, spec that says more", f"✔ fake (1ms)\n{SPEC}", "", ("fails", "in")),
    ("node, spec without a list", SPEC.replace("ℹ tests 6", "ℹ tests 7").partition("✖ failing")[0], "", ()),
    ("node, spec without suites", "✖ a (1ms)\nℹ tests 1\nℹ fail 1", "", ()),
    (
        "mocha, dot",
        f"  !.!,,.!!\n\n{MOCHA[MOCHA.index('  3 passing') :]}",
        "",
        ("suite > breaks", "suite > in > breaks too", "top"),
    ),
    ("jest", "", JEST_BRIEF, ("t/a.test.js > suite > in > breaks", "t/b.test.js")),
    (
        "vitest",
        " Test Files  2 failed (2)\n      Tests  1 failed (1)",
        VITEST_ERRORS,
        ("v/a.test.js > suite > breaks", "v/b.test.js"),
    ),
    (
        "go without -v",
        "x--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/bad (0.00s)\nFAIL\tex.com/m\t0.1s\n--- FAIL: TestC (0.00s)",
        "",
        ("TestC", "ex.com/m::TestB", "ex.com/m::TestB/bad"),
    ),
    ("cargo, quiet", CARGO_QUIET, CARGO_TARGETS, ("tests::breaks",)),
    (
        "cargo, on Windows",
        CARGO_QUIET,
        "  Running tests\\it.rs (target\\deps\\it-94bfbcb7a1eed9cb.exe)",
        ("it::tests::breaks",),
    ),
    (
        "unittest",
        "",
        UNITTEST.partition("\n\n")[2],
        ("test_x.T.test_b", "test_x.T.test_e", "test_x.T.test_g", "test_x.U.setUpClass"),
    ),
    (
        "rspec",
        "3 examples, 3 failures\n\nFailed examples:\n\nrspec ./spec/x_spec.rb:3 # A breaks - here\n"
        "rspec ./spec/x_spec.rb[1:5:1] # A in loop\nrspec './spec/y_spec.rb[1:1]' # B",
        "",
        ("spec/x_spec.rb > A breaks - here", "spec/x_spec.rb > A in loop", "spec/y_spec.rb > B"),
    ),
    (
        "test-unit",
        "Failure: test_b(TestX)\nt.rb:4:in `test_b'\nError: test_c(TestX): RuntimeError: x\n"
        "4 tests, 2 assertions, 1 failures, 1 errors, 0 pendings, 1 omissions, 0 notifications",
        "",
        ("TestX#test_b", "TestX#test_c"),
    ),
    (
        "phpunit",
        "There was 1 error:\n\n1) FooTest::testC\nException: x\n\nThere were 2 failures:\n\n1) FooTest::testB\n\n"
        '2) FooTest::testP with data set "na me" (2)\n\nThere was 1 risky test:\n\n1) FooTest::testR\n\nERRORS!\n'
        "Tests: 8, Assertions: 4, Errors: 1, Failures: 2, Risky: 1.",
        "",
        ("FooTest::testB", "FooTest::testC", 'FooTest::testP with data set "na me"'),
    ),
    (
        "surefire",
        "[ERROR] Tests run: 3, Failures: 1, Errors: 1, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! -- in x.ATest\n"
        "[ERROR] com.x.ATest.b -- Time elapsed: 0.003 s <<< FAILURE!\n"
        "[ERROR] c(com.x.ATest)  Time elapsed: 0.003 s  <<< ERROR!\n"
        "[ERROR] Tests run: 3, Failures: 1, Errors: 1, Skipped: 0",
        "",
        ("com.x.ATest::b", "com.x.ATest::c"),
    ),
    (
        "dotnet",
        "  Failed Ns.T.A(x: 1) [5 ms]\n  Error Message:\n"
        "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3, Duration: 5 ms",
        "",
        ("Ns.T.A(x: 1)",),
    ),
]


@pytest.mark.parametrize(
    ("stdout", "stderr", "failing"), [row[1:] for row in FAILING], ids=[row[0] for row in FAILING]
)
def test_failing_tests_are_known_where_not_all_are_named(stdout: str, stderr: str, failing: tuple[str, ...]) -> None:
    said = read(1, stdout, stderr)
    assert said is not None
    assert (said.tests, said.failing) == (None, failing)


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        (TAP.replace("TAP version 13", "ok 7 - fake"), ""),
        (f"✔ fake (1ms)\n{SPEC}", ""),
        ("1..2\nok 1 a\nok 2 b\nok 3 fake", ""),
        ("ok 1 a\n1..1\nok 1 fake\n1..1", ""),
        (f"  ✔ fake\n{MOCHA}", ""),
        ("", JEST.replace("    ✓ works", "    ✓ works\n    ✓ fake")),
        (f" ✓ v/a.test.js > fake 2ms\n{VITEST}", ""),
        (CARGO.replace("\ntest works", "\ntest fake ... ok\ntest works"), CARGO_TARGETS),
        ("", f"test_fake (x.T.test_fake) ... ok\n{UNITTEST}"),
        (f"X#test_fake = 0.00 s = .\n{MINITEST}", ""),
    ],
    ids=["node", "node, spec", "TAP", "TAP, two plans", "mocha", "jest", "vitest", "cargo", "unittest", "minitest"],
)
def test_a_name_that_a_test_prints_makes_the_names_unknown_rather_than_one_more(stdout: str, stderr: str) -> None:
    said = read(1, stdout, stderr)
    assert said is not None
    assert said.tests is None


def test_an_outline_has_an_end_however_deep_it_is() -> None:
    points = "\n".join(f"{' ' * 4 * at}ok 1 - p{at}" for at in range(100))
    said = read(0, f"{points}\n1..1\n# tests 100\n# pass 100", "")
    assert said is not None
    assert said.tests is not None
    assert len(said.tests) == 100


@pytest.mark.parametrize(
    "line",
    [
        "a(" * 10_000,
        "(" * 20_000,
        "#" * 20_000,
        "x " * 10_000,
        " (1" * 6_000,
        " [ " * 6_000,
        "1 a, " * 4_000,
        "a" * 20_000,
        "a::" * 6_000,
        " ... " * 4_000,
        "\t" * 20_000,
        " = 0 s" * 3_000,
    ],
)
@pytest.mark.timeout(60)
def test_a_long_line_takes_no_more_than_a_moment(line: str) -> None:
    starts = ["", "  ", "OK (", "rspec ./", "Failure: ", "[ERROR] ", "  Failed ", " FAIL  ", "test ", "  ✔ ", "  ● "]
    starts += [
        "FAILED ",
        "1) A::",
        "     Running ",
        "ok 1 ",
        "✔ ",
        "Tests: ",
        "FAIL\t",
        "--- FAIL: ",
        "PASS ",
        "1..1 #",
    ]
    hostile = "\n".join(f"{start}{line}" for start in starts)
    for closing in (row[1] or row[2] for row in (*NAMED, *FAILING)):
        assert read(1, f"Ran 1 test in 0.1s\n{hostile}\n{closing}", "") is not None


def run(command: list[str], folder: Path, **env: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **env},
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_real_runs_of_unittest_name_their_tests(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import unittest\n\n\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        '''Says more.'''\n"
        "    def test_b(self):\n        self.fail()\n"
        "    def test_c(self):\n        self.skipTest('no')\n"
    )
    said = read(*run([sys.executable, "-m", "unittest", "-v", "test_x"], tmp_path))
    assert said is not None
    assert said.tests == {"test_x.T.test_a": "passed", "test_x.T.test_b": "failed", "test_x.T.test_c": "skipped"}
    brief = read(*run([sys.executable, "-m", "unittest", "test_x"], tmp_path))
    assert brief is not None
    assert (brief.tests, brief.failing) == (None, ("test_x.T.test_b",))


def test_real_runs_of_node_name_their_tests_in_all_styles(tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node is not None, "node is needed"
    (tmp_path / "x.test.mjs").write_text(
        "import test, {describe, it} from 'node:test';\n"
        "test('plain', () => {});\n"
        "describe('suite', () => { it('in', () => {}); it('bad # x', () => { throw new Error('no'); }); });\n"
        "test('sk', {skip: 'why'}, () => {});\n"
        "test('later', {todo: true}, () => { throw new Error('no'); });\n"
    )
    wanted: dict[str, Outcome] = {
        "plain": "passed",
        "suite > in": "passed",
        "suite > bad # x": "failed",
        "sk": "skipped",
        "later": "skipped",
    }
    for style in ("tap", "spec"):
        said = read(*run([node, "--test", f"--test-reporter={style}"], tmp_path))
        assert said is not None
        assert {name: seen for name, seen in (said.tests or {}).items() if name != "suite"} == wanted, style
    code, out, err = run([node, "--test", "--test-reporter=junit"], tmp_path)
    said = read(code, "", err, out.encode())
    assert said is not None
    assert (said.runner, said.tests) == ("node", wanted)
