"""What of other programs' checks a model is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.domain.ci_log import LINES, MARK, Failure, Note, relevant, told

T = "2026-11-30T10:00:00.1234567Z "
NOISE = [f"Downloading package {at} of 400, which takes a while" for at in range(400)]
SETUP = ["\ufeff" + T + "Current runner version: '2.320.0'", T + "##[group]Operating System", T + "##[endgroup]"]
CLEANUP = [T + "Post job cleanup.", *(f"{T}[command]/usr/bin/git config {at}" for at in range(60))]
EXIT = T + "##[error]Process completed with exit code 1."


def step(command: str, *lines: str) -> list[str]:
    script = [
        f"##[group]Run {command}",
        command,
        "shell: /usr/bin/bash -e {0}",
        "env:",
        "  NOTE: FAILED is no result",
    ]
    return [T + line for line in (*script, "##[endgroup]", *lines)]


def log(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part)


def test_a_short_log_is_told_as_a_terminal_would_show_it() -> None:
    written = (
        f"\ufeff{T}\x1b[36;1mnpm test\x1b[0m\r\n{T}10%\r{T}50%\r100%\x1b[K\r\n"
        f"{T}\x1b]8;;https://a.test\x07link\x1b]8;;\x07 \x1b\r\n{T}\n"
        f"{T}\nzero\u200bwidth\x00 \x9b31mred {T}stays\n\n\n"
    )
    assert relevant(written, 1000) == f"npm test\n100%\nlink\n\nzerowidth red {T}stays"
    assert relevant("", 1000) == ""


FAILING = [
    pytest.param(
        ["=== FAILURES ===", "    def test_a():", ">       assert f(2) == 4", "E       assert 5 == 4"], id="pytest"
    ),
    pytest.param(
        ["Traceback (most recent call last):", '  File "a.py", line 3, in <module>', "KeyError: 'x'"], id="python"
    ),
    pytest.param(["=== RUN   TestSum", "    sum_test.go:9: got 5, want 4", "--- FAIL: TestSum (0.00s)"], id="go"),
    pytest.param(["error[E0308]: mismatched types", "  --> src/lib.rs:7:5", "   |     expected `u32`"], id="rustc"),
    pytest.param(["---- a::b stdout ----", "thread 'a::b' panicked at src/lib.rs:9:5:", "left: 4"], id="cargo test"),
    pytest.param(["src/a.ts(3,5): error TS2322: Type 'string' is not assignable."], id="tsc"),
    pytest.param(["/home/runner/work/a/src/a.js", "  3:5  error  'x' is not defined  no-undef"], id="ESLint"),
    pytest.param(["● sum › adds", "    Expected: 4", "  ✕ adds (3 ms)"], id="Jest"),
    pytest.param(["  1) adds:", "      AssertionError [ERR_ASSERTION]: 5 == 4", "  1 failing"], id="Mocha"),
    pytest.param(["not ok 3 - adds", "  ---", "  expected: 4"], id="TAP"),
    pytest.param(["npm ERR! code ERESOLVE", "npm ERR! could not resolve"], id="npm"),
    pytest.param(["a.c:3:5: error: 'x' undeclared"], id="gcc"),
    pytest.param(["[ERROR] Failures:", "[ERROR]   SumTest.adds:9 expected: <4> but was: <5>"], id="Maven"),
    pytest.param(["  1) Sum adds", "     Failure/Error: expect(f(2)).to eq(4)"], id="RSpec"),
    pytest.param(["fatal: couldn't find remote ref main"], id="git"),
    pytest.param(["make: *** [all] Segmentation fault (core dumped)"], id="a crash"),
    pytest.param(["the server could not be started, giving up"], id="in words of its own"),
]


@pytest.mark.parametrize("said", FAILING)
def test_what_says_why_is_found_between_noise(said: list[str]) -> None:
    failing = step("make check", *NOISE, *said, *NOISE)
    found = relevant(log(SETUP, step("npm ci", *NOISE), failing, [EXIT], CLEANUP), 6000)
    assert len(found) <= 6000
    lines = found.split("\n")
    assert "##[group]Run make check" in lines
    assert "##[error]Process completed with exit code 1." in lines
    at = lines.index(said[0])
    assert lines[at : at + len(said)] == said
    assert MARK in lines[:at]
    assert MARK in lines[at:]
    assert "##[group]Run npm ci" not in lines
    assert not any("git config" in line for line in lines)


def test_the_last_failing_step_comes_first_and_an_earlier_one_has_what_room_is_left() -> None:
    earlier = [*step("make lint", *NOISE, "a.c:1:1: error: early"), EXIT]
    later = [*step("make test", *NOISE, "a.c:2:2: error: late"), EXIT]
    both = relevant(log(SETUP, earlier, step("echo fine", *NOISE), later, CLEANUP), 6000)
    assert both.index("early") < both.index("late")
    assert "echo fine" not in both
    one = relevant(log(SETUP, earlier, step("echo fine", *NOISE), later, CLEANUP), 500)
    assert "early" not in one
    assert "late" in one


def test_of_very_many_errors_the_first_and_the_last_are_told() -> None:
    errors = [f"a.c:{at}: error: number {at}" for at in range(5000)]
    found = relevant(log(step("make", *errors), [EXIT]), 4000).split("\n")
    assert {errors[0], errors[1], errors[-1], errors[-2]} <= set(found)
    assert found.count(MARK) == 1


def test_a_short_step_that_failed_is_told_whole_and_nothing_else() -> None:
    whole = log(SETUP, step("npm ci", *NOISE), step("make", "a", "b"), [EXIT], CLEANUP)
    script = "##[group]Run make\nmake\nshell: /usr/bin/bash -e {0}\nenv:\n  NOTE: FAILED is no result\n##[endgroup]"
    assert relevant(whole, 4000) == f"{MARK}\n{script}\na\nb\n##[error]Process completed with exit code 1.\n{MARK}"


def test_the_end_is_told_where_nothing_looks_like_an_error() -> None:
    lines = [f"line {at}" for at in range(1000)]
    found = relevant("\n".join(lines), 1000).split("\n")
    assert found == [MARK, *lines[1000 - len(found) + 1 :]]
    assert len(found) > 80


def test_what_a_step_was_to_run_is_not_what_went_wrong() -> None:
    script = [f"{T}echo FAILED {at}" for at in range(300)]
    failing = [T + "##[group]Run tests", *script, T + "##[endgroup]", *NOISE, T + "FAILED tests/test_a.py", *NOISE]
    found = relevant(log(SETUP, failing, [EXIT]), 4000)
    assert "FAILED tests/test_a.py" in found
    assert "echo FAILED 150" not in found
    unfinished = relevant(log([T + "##[group]Run tests", *script, EXIT]), 2000)
    assert "echo FAILED 299" in unfinished


def test_a_long_line_is_told_by_its_beginning_and_its_end() -> None:
    found = relevant(f"Error: {'word ' * 1000}the end", 1000)
    assert found.startswith("Error: word")
    assert found.endswith("word the end")
    assert "[... characters left out ...]" in found
    assert len(found) < 500


def test_where_no_line_fits_the_end_of_the_error_is_told() -> None:
    assert relevant(log(NOISE, [EXIT], NOISE), 20) == " with exit code 1."
    assert relevant("some words here", 0) == relevant("some words here", -1) == ""


def test_an_excerpt_can_be_made_shorter_again() -> None:
    failing = step("make check", *NOISE, "a.c:3:5: error: 'x' undeclared", *NOISE)
    whole = log(SETUP, failing, [EXIT], CLEANUP)
    once = relevant(whole, 16_000)
    assert relevant(once, 16_000) == once
    twice = relevant(once, 3000)
    assert "'x' undeclared" in twice
    assert f"{MARK}\n{MARK}" not in twice
    assert twice.startswith(MARK)
    assert twice.endswith(MARK)


MEGABYTES = 5_000_000
NASTY = {
    "line feeds": "\n" * MEGABYTES + "x",
    "escapes": "\x1b[" * (MEGABYTES // 2),
    "an escape without an end": "\x1b[" + "0;" * (MEGABYTES // 2),
    "one word": "A" * MEGABYTES,
    "failing steps": "##[group]Run x\n##[error]y\n" * (MEGABYTES // 26),
    "groups without an end": "##[group]Run a\n" * (MEGABYTES // 15),
}


@pytest.mark.parametrize("nasty", NASTY.values(), ids=NASTY.keys())
def test_five_megabytes_of_anything_are_read_once(nasty: str) -> None:
    # Were it looked at again for each line or character, this would take hours.
    assert len(relevant(nasty, 16_000)) <= 16_000


def test_only_the_end_of_a_log_with_very_many_lines_is_looked_at() -> None:
    log = "FAILED first\n" + "\n".join(map(str, range(LINES)))
    found = relevant(log, 10**7)
    assert found.split("\n")[:2] == [MARK, "0"]


FAILURE = Failure(
    name="tests (3.12)",
    conclusion="failure",
    url="https://github.test/runs/1",
    title="2 tests failed",
    summary="Look at `a.py`.\n\nIt is broken.",
    annotations=(
        Note(path="src/a.py", line=3, message="assert 5 == 4\nleft: 5"),
        Note(path=".github", line=9, message="Process completed with exit code 1."),
    ),
    log="FAILED tests/test_a.py",
)


def test_a_failing_check_is_told_in_its_own_words() -> None:
    assert told([FAILURE], 4000) == "\n".join(
        (
            "Check: tests (3.12)",
            "Conclusion: failure",
            "Title: 2 tests failed",
            "Summary:",
            "Look at `a.py`.",
            "",
            "It is broken.",
            "Annotations:",
            "- src/a.py:3: assert 5 == 4",
            "  left: 5",
            "- .github:9: Process completed with exit code 1.",
            "Log:",
            "FAILED tests/test_a.py",
        )
    )


def test_a_check_that_says_nothing_is_named_all_the_same() -> None:
    silent = Failure(name="a\u200b \nb", conclusion="timed_out", url="")
    assert told([silent, replace(silent, name="other", log="")], 4000) == (
        "Check: a b\nConclusion: timed_out\nLog: none could be read.\n\n"
        "Check: other\nConclusion: timed_out\nLog: none could be read."
    )
    assert told([], 4000) == ""


def test_all_failing_checks_have_a_part_of_the_room() -> None:
    long = replace(
        FAILURE,
        summary="word " * 5000,
        annotations=tuple(Note(path="a.py", line=at, message="wrong " * 500) for at in range(50)),
        log=log(step("make", *NOISE, "a.c:3:5: error: 'x' undeclared", *NOISE), [EXIT]),
    )
    failures = [replace(long, name=f"check {at}") for at in range(3)]
    text = told([FAILURE, *failures], 12_000)
    assert 9_000 < len(text) <= 12_000
    blocks = text.split("Check: ")[1:]
    assert [block.split("\n")[0] for block in blocks] == ["tests (3.12)", "check 0", "check 1", "check 2"]
    for block in blocks[1:]:
        assert "word [... the rest is left out ...]" in block
        assert "- a.py:0: wrong" in block
        assert "\n[... the rest is left out ...]\nLog:" in block
        assert "'x' undeclared" in block


def test_of_very_many_failing_checks_the_last_ones_are_only_named() -> None:
    text = told([replace(FAILURE, name=f"check {at}") for at in range(100)], 6000)
    assert len(text) <= 6000
    assert text.count("Conclusion:") == 4
    assert "\n\nThese fail as well: check 4, check 5," in text
    assert text.endswith(" [... the rest is left out ...]")
    assert told([replace(FAILURE, name=f"check {at}") for at in range(5)], 6000).endswith("as well: check 4")


@pytest.mark.parametrize("limit", [-1, 0, 1, 30, 100, 700, 3000])
def test_no_limit_is_too_small(limit: int) -> None:
    failures = [
        replace(FAILURE, name="n" * 5000, title="t " * 5000, summary="s " * 5000, log="Error: x\n" * 5000)
    ] * 4
    assert len(told(failures, limit)) <= max(0, limit)
    assert len(relevant(log(NOISE, [EXIT]), limit)) <= max(0, limit)
