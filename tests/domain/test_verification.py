"""Every kind of evidence and the verdict it deserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bot.domain.coverage import Coverage
from bot.domain.flags import Flag
from bot.domain.gate import Finding
from bot.domain.patch import Change, Patch
from bot.domain.report import Counts, Outcome, Report
from bot.domain.verification import (
    CheckResult,
    Draft,
    Evidence,
    Failed,
    Passed,
    Policy,
    Run,
    RunKind,
    Sets,
    Unverified,
    compare,
    documents_only,
    judge,
    names,
)

TREE = "t" * 40
NAMES = ("test_token_a", "test_token_b")


def report(tests: Mapping[str, Outcome] | None = None, *, errors: int = 0, **counts: int) -> Report:
    """Of tests by their names, or of mere numbers."""
    if tests is None:
        return Report(runner="go", counts=Counts(errors=errors, **counts))
    told = list(tests.values())
    return Report(
        runner="pytest",
        counts=Counts(
            passed=told.count("passed"), failed=told.count("failed"), skipped=told.count("skipped"), errors=errors
        ),
        tests=dict(tests),
        failing=tuple(sorted(name for name, outcome in tests.items() if outcome == "failed")),
    )


def check(exit_code: int = 0, seen: Report | None = None, *, name: str = "tests", **more: object) -> CheckResult:
    fields = {"timed_out": False, "duration_s": 1.0, **more}
    return CheckResult(name=name, command="pytest", exit_code=exit_code, report=seen, **fields)  # type: ignore[arg-type]  # the rest is known to fit


def a_run(kind: RunKind, *checks: CheckResult, **more: object) -> Run:
    return Run(kind=kind, tree=TREE, checks=checks, **more)  # type: ignore[arg-type]  # likewise


BROKEN = check(1, report({"a": "failed", "b": "passed"}))
RIGHT = check(0, report({"a": "passed", "b": "passed"}))
WITH_CANARIES = check(
    1,
    report({"a": "passed", "b": "passed", "x.test_token_a": "passed", "x.test_token_b": "failed"}),
    canary="seen",
    canary_names=NAMES,
)
GOOD = Evidence(
    base="b" * 40,
    tree=TREE,
    expected_tree=TREE,
    runs=(a_run("candidate", RIGHT), a_run("baseline", BROKEN), a_run("old_tests", WITH_CANARIES)),
)


def candidate(*checks: CheckResult, baseline: tuple[CheckResult, ...] = ()) -> Evidence:
    runs = [a_run("candidate", *checks)] + ([a_run("baseline", *baseline)] if baseline else [])
    return replace(GOOD, runs=tuple(runs))


def old_tests(*checks: CheckResult, **more: object) -> Evidence:
    return replace(GOOD, runs=(*GOOD.runs[:2], a_run("old_tests", *checks)), **more)  # type: ignore[arg-type]  # likewise


def new_tests(*checks: CheckResult) -> Evidence:
    return replace(GOOD, runs=(*GOOD.runs, a_run("new_tests", *checks)))


REFUSAL = Finding(action="refuse", kind="protected", path="ci.yml", said="is protected")
GRAVE = Flag(kind="special_case", path="a.py", line=3, said="knows what a test asks", grave=True)
LIGHT = Flag(kind="test_changed", path="test_a.py", said="is changed")


@pytest.mark.parametrize(
    ("evidence", "verdict", "reason"),
    [
        (GOOD, Passed, "2 tests passed in `tests`."),
        (replace(GOOD, findings=(REFUSAL,)), Unverified, "`ci.yml`"),
        (replace(GOOD, runs=(), problem="Set-up failed: `npm ci`"), Unverified, "Set-up failed: `npm ci`"),
        (replace(GOOD, tree="x" * 40), Unverified, "The tree built in the sandbox is xxxx"),
        (replace(GOOD, runs=()), Unverified, "There is no check to run"),
        (candidate(), Unverified, "There is no check to run"),
        (candidate(BROKEN), Failed, "`tests` failed: 1 of its tests (exit code 1): `a`."),
        (candidate(check(2, report(errors=1))), Failed, "`tests` failed: 1 of its tests (exit code 2)."),
        (candidate(check(1, report(passed=3))), Failed, "`tests` failed with exit code 1."),
        (candidate(check(1)), Failed, "`tests` failed with exit code 1."),
        (
            candidate(check(0, report({"a": "failed"}))),
            Failed,
            "`tests` ended with exit code 0, but reports 1 failing test: `a`.",
        ),
        (candidate(check(5, report())), Unverified, "`tests` ran no test."),
        (candidate(check(0, report())), Unverified, "`tests` ran no test."),
        (candidate(check(0, report(skipped=4))), Unverified, "`tests` ran no test (all were skipped)."),
        (candidate(check(127)), Unverified, "`tests` could not be started (exit code 127)"),
        (candidate(check(126)), Unverified, "`tests` could not be started (exit code 126)"),
        (candidate(check(137)), Unverified, "`tests` was killed"),
        (candidate(check(0, timed_out=True)), Unverified, "`tests` did not end within its time"),
        (candidate(check(0)), Unverified, "No check reported a test that passed"),
        (
            candidate(check(0, replace(report(passed=3), contradiction="two numbers."))),
            Unverified,
            "`tests` contradicts itself: two numbers.",
        ),
        (
            candidate(check(0, report(passed=3)), baseline=(check(0, report(passed=3), left_report=True),)),
            Unverified,
            "`tests` says that tests passed, but left no report as it does without the change.",
        ),
    ],
)
def test_what_ran_on_the_candidate_gets_its_verdict(evidence: Evidence, verdict: type, reason: str) -> None:
    judged = judge(evidence)
    assert type(judged) is verdict
    assert judged.reasons[0].startswith(reason)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            check(
                1,
                report({"a": "failed", "b": "passed", "x.test_token_a": "passed", "x.test_token_b": "failed"}),
                canary="seen",
                canary_names=NAMES,
            ),
            "With the tests as they were before, `tests` fails: `a`.",
        ),
        (
            check(1, report(passed=1, failed=2), canary="seen", canary_names=NAMES),
            "With the tests as they were before, `tests` fails (exit code 1).",
        ),
        (check(2, report(errors=1)), "With the tests as they were before, `tests` fails (exit code 2)."),
        (check(1), "With the tests as they were before, `tests` fails (exit code 1)."),
        (check(1, report(passed=2)), "With the tests as they were before, `tests` fails (exit code 1)."),
        (check(0, timed_out=True), "With the tests as they were before, `tests` does not end within its time."),
        (
            check(0, report({"a": "passed", "b": "passed"}), canary="missing", canary_names=NAMES),
            "`tests` does not report a test of ours that must fail, though it does so without the change: "
            "what it says can't be trusted.",
        ),
        (check(5, report()), "With the tests as they were before, `tests` fails (exit code 5)."),
    ],
)
def test_a_pass_that_the_old_tests_or_a_canary_deny_is_none(result: CheckResult, reason: str) -> None:
    verdict = judge(old_tests(result))
    assert type(verdict) is Unverified
    assert verdict.reasons == (reason,)


def test_a_canary_that_joined_a_run_of_its_own_excuses_no_failure_in_the_other() -> None:
    passed = check(0, report({"a": "passed", "b": "passed"}), canary="seen")
    assert isinstance(judge(old_tests(passed)), Passed)
    below = check(1, report({"a": "passed", "b": "passed"}), canary="seen")  # of coverage there is too little, say
    assert judge(old_tests(below)).reasons == ("With the tests as they were before, `tests` fails (exit code 1).",)


def test_where_there_were_no_tests_before_nothing_was_weakened() -> None:
    silent, seen = check(5, report()), check(0, report({"new": "passed"}))
    runs = (a_run("candidate", seen), a_run("baseline", silent), a_run("old_tests", silent))
    verdict = judge(replace(GOOD, runs=(*runs, a_run("new_tests", check(1, report(failed=1))))))
    assert isinstance(verdict, Passed)
    assert verdict.reasons == ("1 test passed in `tests`.", "Without the change, the patch's tests fail.")


def test_a_canary_that_the_command_never_runs_is_only_told() -> None:
    result = check(0, report({"a": "passed", "b": "passed"}), canary="unusable", canary_names=NAMES)
    verdict = judge(old_tests(result))
    assert isinstance(verdict, Passed)
    assert verdict.reasons[-1] == "`tests` does not run a test of ours that must fail, with or without the change."


def test_a_grave_flag_holds_what_passed_and_a_light_one_is_told() -> None:
    verdict = judge(replace(GOOD, flags=(LIGHT, GRAVE)))
    assert verdict == Unverified(
        reasons=("`a.py`, line 3: knows what a test asks", "`test_a.py`: is changed"),
    )
    verdict = judge(replace(GOOD, flags=(LIGHT,)))
    assert isinstance(verdict, Passed)
    assert verdict.reasons[-1] == "`test_a.py`: is changed"


def test_what_shows_nothing_names_all_flags() -> None:
    verdict = judge(replace(candidate(check(5, report())), flags=(LIGHT, GRAVE)))
    assert verdict.reasons == ("`tests` ran no test.", GRAVE.text, LIGHT.text)


def test_a_failure_names_grave_flags_as_well() -> None:
    verdict = judge(replace(candidate(BROKEN), flags=(GRAVE,)))
    assert isinstance(verdict, Failed)
    assert verdict.reasons[-1] == GRAVE.text


@pytest.mark.parametrize(
    ("evidence", "policy", "is_draft"),
    [
        (candidate(check(0)), Policy(unverified="draft"), True),
        (candidate(check(0)), Policy(weakened="draft"), False),
        (replace(GOOD, runs=(), problem="no"), Policy(unverified="draft"), True),
        (old_tests(check(1)), Policy(weakened="draft"), True),
        (old_tests(check(1)), Policy(unverified="draft"), False),
        (replace(GOOD, flags=(GRAVE,)), Policy(weakened="draft"), True),
        (replace(GOOD, tree="x" * 40), Policy(unverified="draft", weakened="draft"), False),
        (replace(GOOD, findings=(REFUSAL,)), Policy(unverified="draft", weakened="draft"), False),
    ],
)
def test_the_rules_may_let_what_is_unverified_be_a_draft(evidence: Evidence, policy: Policy, is_draft: bool) -> None:
    verdict = judge(replace(evidence, policy=policy))
    assert isinstance(verdict, Unverified)
    assert isinstance(verdict, Draft) is is_draft
    assert verdict.name == "Unverified"


def test_a_failing_check_is_no_draft_whatever_the_rules_say() -> None:
    both = Policy(unverified="draft", weakened="draft")
    assert type(judge(replace(candidate(BROKEN), policy=both))) is Failed


def test_what_failed_before_is_named_and_never_forgiven() -> None:
    red = check(1, report({"a": "passed", "b": "failed", "c": "failed"}))
    before = check(1, report({"a": "failed", "b": "failed", "c": "passed"}))
    verdict = judge(candidate(red, baseline=(before,)))
    assert verdict == Failed(
        reasons=(
            "`tests` failed: 2 of its tests (exit code 1): `b`, `c`.",
            "Of these, the following failed before the change as well: `b`.",
        )
    )
    same = judge(candidate(check(1, report({"b": "failed"})), baseline=(before,)))
    assert same.reasons[1] == "All of these failed before the change as well."
    unnamed = judge(candidate(check(1), baseline=(check(1),)))
    assert unnamed.reasons[1] == "`tests` failed before the change as well."


def test_a_check_that_fails_in_some_of_its_runs_is_flaky() -> None:
    verdict = judge(replace(GOOD, runs=(a_run("candidate", RIGHT), a_run("candidate", BROKEN), *GOOD.runs[1:])))
    assert isinstance(verdict, Failed)
    assert verdict.reasons[:2] == (
        "`tests` failed: 1 of its tests (exit code 1): `a`.",
        "`tests` failed in 1 of 2 runs: it is flaky.",
    )


def test_a_failed_check_outweighs_a_passed_one() -> None:
    both = candidate(RIGHT, check(1, name="lint"))
    assert judge(both) == Failed(reasons=("`lint` failed with exit code 1.",))


def test_a_check_that_counts_no_tests_may_stand_beside_one_that_does() -> None:
    verdict = judge(candidate(check(0, report(passed=1)), check(0, name="lint")))
    assert isinstance(verdict, Passed)
    assert verdict.reasons == ("1 test passed in `tests`, `lint`.",)


def test_a_check_that_says_nothing_spoils_the_others() -> None:
    assert isinstance(judge(candidate(RIGHT, check(0, report(), name="more"))), Unverified)


def test_passed_says_what_it_rests_on() -> None:
    verdict = judge(GOOD)
    assert verdict.reasons == ("2 tests passed in `tests`.", "Failing before, passing now: `a`.")
    twice = replace(GOOD, runs=(GOOD.runs[0], *GOOD.runs))
    assert judge(twice).reasons[0] == "2 tests passed in `tests`, 2 times."


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (new_tests(check(1, report({"new": "failed"}))), "Without the change, the patch's tests fail: `new`."),
        (new_tests(check(2, report(errors=1))), "Without the change, the patch's tests fail."),
        (
            new_tests(check(0, report({"new": "passed"}))),
            "The patch's tests pass without its change as well: they don't show that it fixes anything.",
        ),
        (
            candidate(RIGHT, baseline=(RIGHT,)),
            "No test failed before the change: that it fixes the issue is not shown by a test.",
        ),
        (
            replace(GOOD, runs=(a_run("candidate", RIGHT), a_run("baseline"))),
            "The base could not be set up: nothing can be compared with it.",
        ),
        (
            replace(candidate(RIGHT, baseline=(RIGHT,)), documents_only=True),
            "Only documents were changed: no test says anything about them.",
        ),
        (
            candidate(check(0, report({"a": "passed"})), baseline=(RIGHT,)),
            "These tests no longer run: `b`.",
        ),
        (
            candidate(check(0, report({"a": "passed", "b": "skipped"})), baseline=(RIGHT,)),
            "These tests are skipped now: `b`.",
        ),
        (
            candidate(check(0, report(passed=3)), baseline=(check(0, report(passed=4)),)),
            "3 tests ran, 4 before the change.",
        ),
        (
            replace(GOOD, runs=(a_run("candidate", RIGHT, rewritten=("test_a.py",)), *GOOD.runs[1:])),
            "While they ran, the checks changed files of the repository: `test_a.py`.",
        ),
        (
            replace(GOOD, coverage=Coverage(report="lcov.info", lines=4, covered=3, missed=(("a.py", (7,)),))),
            "Of 4 changed lines, the tests ran 3 (`lcov.info`).",
        ),
    ],
)
def test_passed_says_what_people_should_know(evidence: Evidence, reason: str) -> None:
    verdict = judge(evidence)
    assert isinstance(verdict, Passed)
    assert reason in verdict.reasons


def test_numbers_that_were_cut_are_not_compared() -> None:
    cut = check(0, replace(report(passed=3), partial=True))
    verdict = judge(candidate(cut, baseline=(check(0, report(passed=4)),)))
    assert verdict.reasons == (
        "3 tests passed in `tests`.",
        "No test failed before the change: that it fixes the issue is not shown by a test.",
    )


def test_no_changed_line_is_no_coverage() -> None:
    seen = replace(GOOD, coverage=Coverage(report="lcov.info", lines=0, covered=0, missed=()))
    assert judge(seen).reasons == judge(GOOD).reasons


def test_sets_say_what_became_of_each_test() -> None:
    before = {"a": "failed", "b": "passed", "c": "failed", "d": "passed", "e": "passed", "s": "skipped"}
    now = {"a": "passed", "b": "failed", "c": "failed", "d": "skipped", "f": "passed", "s": "skipped"}
    evidence = candidate(check(1, report(now)), baseline=(check(1, report(before)),))  # type: ignore[arg-type]  # outcomes
    assert compare(evidence) == Sets(
        fixed=("a",), broken=("b",), still_failing=("c",), newly_skipped=("d",), gone=("e",), added=("f",)
    )


def test_sets_of_several_checks_name_the_check_and_leave_out_what_was_not_named() -> None:
    now = (check(0, report({"a": "passed"})), check(0, report(passed=1), name="more"), check(0, name="lint"))
    then = (check(1, report({"a": "failed"})), check(0, report({"z": "passed"}), name="more"), check(0, name="lint"))
    assert compare(candidate(*now, baseline=then)) == Sets(fixed=("tests: a",))


def test_without_a_baseline_there_are_no_sets() -> None:
    assert compare(candidate(RIGHT)) == Sets()


def test_a_reason_names_a_few_tests_without_letting_them_speak() -> None:
    assert names(["a", "b`@c", "d\n", "e", "f", "g", "h"]) == (r"`a`, `b\x60@c`, `d\n`, `e`, `f` and 2 more")


def test_passed_carries_the_tree_and_nobody_else_can_make_one() -> None:
    verdict = judge(GOOD)
    assert isinstance(verdict, Passed)
    assert (verdict.tree, verdict.base) == (TREE, "b" * 40)
    with pytest.raises(TypeError, match="only judge"):
        Passed(base="b" * 40, tree=TREE, reasons=(), seal=object())


def test_nobody_else_can_make_a_draft() -> None:
    with pytest.raises(TypeError, match="only judge"):
        Draft(base="b" * 40, tree=TREE, reasons=(), seal=object())


@pytest.mark.parametrize(
    ("paths", "only"),
    [
        (("README.md", "docs/guide.rst", "LICENSE"), True),
        (("docs/notes.txt", "docs/a/shot.png"), True),
        (("README.md", "setup.py"), False),
        (("requirements.txt",), False),
        (("docs/conf.py",), False),
        ((), False),
    ],
)
def test_documents_are_told_from_what_runs(paths: tuple[str, ...], only: bool) -> None:
    assert documents_only(Patch.of(*(Change(path=path, mode="100644") for path in paths))) is only
