"""Every kind of evidence and the verdict it deserves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.domain.report import Counts
from bot.domain.verification import CheckResult, Evidence, Failed, Passed, Unverified, judge


def counts(passed: int = 0, failed: int = 0, skipped: int = 0, errors: int = 0) -> Counts:
    return Counts(passed=passed, failed=failed, skipped=skipped, errors=errors)


def check(
    exit_code: int = 0, seen: Counts | None = None, *, name: str = "tests", timed_out: bool = False
) -> CheckResult:
    return CheckResult(
        name=name, command="pytest", exit_code=exit_code, timed_out=timed_out, duration_s=1.0, counts=seen
    )


GOOD = Evidence(base="b" * 40, tree="t" * 40, expected_tree="t" * 40, checks=(check(seen=counts(passed=3)),))


@pytest.mark.parametrize(
    ("evidence", "verdict", "reason"),
    [
        (GOOD, Passed, "3 tests passed in `tests`"),
        (replace(GOOD, problem="Set-up failed: `npm ci`"), Unverified, "Set-up failed: `npm ci`"),
        (replace(GOOD, tree="x" * 40), Unverified, "The tree built in the sandbox is xxxx"),
        (replace(GOOD, checks=()), Unverified, "There is no check to run"),
        (replace(GOOD, checks=(check(1, counts(2, failed=1)),)), Failed, "`tests` failed: 1 of its tests"),
        (replace(GOOD, checks=(check(2, counts(errors=1)),)), Failed, "`tests` failed: 1 of its tests"),
        (replace(GOOD, checks=(check(1, counts(passed=3)),)), Failed, "`tests` failed with exit code 1"),
        (replace(GOOD, checks=(check(1),)), Failed, "`tests` failed with exit code 1"),
        (replace(GOOD, checks=(check(5, counts()),)), Unverified, "`tests` ran no test"),
        (replace(GOOD, checks=(check(0, counts()),)), Unverified, "`tests` ran no test"),
        (replace(GOOD, checks=(check(0, counts(skipped=4)),)), Unverified, "`tests` ran no test (all were skipped)"),
        (replace(GOOD, checks=(check(127),)), Unverified, "`tests` could not be started (exit code 127)"),
        (replace(GOOD, checks=(check(126),)), Unverified, "`tests` could not be started (exit code 126)"),
        (replace(GOOD, checks=(check(137),)), Unverified, "`tests` was killed"),
        (replace(GOOD, checks=(check(0, timed_out=True),)), Unverified, "`tests` did not end within its time"),
        (replace(GOOD, checks=(check(0),)), Unverified, "No check reported a test that passed"),
    ],
)
def test_evidence_gets_its_verdict(evidence: Evidence, verdict: type, reason: str) -> None:
    judged = judge(evidence)
    assert type(judged) is verdict
    assert judged.reasons[0].startswith(reason)


def test_a_failed_check_outweighs_a_passed_one() -> None:
    both = replace(GOOD, checks=(check(seen=counts(passed=3)), check(1, name="lint")))
    assert judge(both) == Failed(reasons=("`lint` failed with exit code 1.",))


def test_a_check_that_counts_no_tests_may_stand_beside_one_that_does() -> None:
    both = replace(GOOD, checks=(check(seen=counts(passed=1)), check(0, name="lint")))
    verdict = judge(both)
    assert isinstance(verdict, Passed)
    assert verdict.reasons == ("1 test passed in `tests`, `lint`.",)


def test_a_check_that_says_nothing_spoils_the_others() -> None:
    both = replace(GOOD, checks=(check(seen=counts(passed=1)), check(0, counts(), name="more")))
    assert isinstance(judge(both), Unverified)


def test_passed_carries_the_tree_and_nobody_else_can_make_one() -> None:
    verdict = judge(GOOD)
    assert isinstance(verdict, Passed)
    assert (verdict.tree, verdict.base) == ("t" * 40, "b" * 40)
    with pytest.raises(TypeError, match="only judge"):
        Passed(base="b" * 40, tree="t" * 40, reasons=(), seal=object())
