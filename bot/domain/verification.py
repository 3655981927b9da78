"""Verdicts: what the checks in a fresh sandbox came to, and the one function that may say `Passed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bot.domain.gate import Finding, refused
from bot.domain.report import Counts


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check's run. `exit_code` comes from the engine; `counts` is None where no known runner reported;
    `output` is the end of what it printed, redacted."""

    name: str
    command: str
    exit_code: int
    timed_out: bool
    duration_s: float
    counts: Counts | None
    output: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What verification found out. `tree` was built by git in the fresh sandbox, `expected_tree` by us from the bytes
    that will be published; `base` is the commit both start from."""

    base: str
    tree: str
    expected_tree: str
    checks: tuple[CheckResult, ...]
    problem: str | None = None
    """Why the checks could not be run at all."""
    findings: tuple[Finding, ...] = ()
    """What the patch gate has to say of the patch."""


_SEAL = object()


@dataclass(frozen=True, kw_only=True)
class Passed:
    """The checks passed on exactly this tree. Only `judge` makes one; publishing takes one."""

    base: str
    tree: str
    reasons: tuple[str, ...]
    seal: object
    name: Literal["Passed"] = "Passed"

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError("only judge() makes a Passed")


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A check said no. The agent may try again."""

    reasons: tuple[str, ...]
    name: Literal["Failed"] = "Failed"


@dataclass(frozen=True, kw_only=True)
class Unverified:
    """Nothing said no, but nothing showed that it works either."""

    reasons: tuple[str, ...]
    name: Literal["Unverified"] = "Unverified"


Verdict = Passed | Failed | Unverified


def judge(evidence: Evidence) -> Verdict:
    """The verdict on evidence, with the reasons in order of importance."""
    if refusals := refused(evidence.findings):
        return Unverified(reasons=tuple(each.text for each in refusals))
    if evidence.problem is not None:
        return Unverified(reasons=(evidence.problem,))
    if evidence.tree != evidence.expected_tree:
        return Unverified(
            reasons=(f"The tree built in the sandbox is {evidence.tree}, ours is {evidence.expected_tree}.",)
        )
    if not evidence.checks:
        return Unverified(reasons=("There is no check to run; name one under `checks` in `.github/coder.yml`.",))
    failed = [reason for check in evidence.checks if (reason := _failure(check))]
    if failed:
        return Failed(reasons=tuple(failed))
    doubts = [reason for check in evidence.checks if (reason := _doubt(check))]
    shown = sum(check.counts.passed for check in evidence.checks if check.counts)
    if not shown:
        doubts.append("No check reported a test that passed.")
    if doubts and (not shown or any(_is_grave(check) for check in evidence.checks)):
        return Unverified(reasons=tuple(doubts))
    said = f"{shown} test{'s' * (shown != 1)} passed in {_names(evidence.checks)}."
    return Passed(base=evidence.base, tree=evidence.tree, reasons=(said, *doubts), seal=_SEAL)


def _failure(check: CheckResult) -> str | None:
    if _is_grave(check) or check.exit_code == 0:
        return None
    if check.counts and (check.counts.failed or check.counts.errors):
        bad = check.counts.failed + check.counts.errors
        return f"`{check.name}` failed: {bad} of its tests (exit code {check.exit_code})."
    return f"`{check.name}` failed with exit code {check.exit_code}."


def _is_grave(check: CheckResult) -> bool:
    """Cases in which the check says nothing about the code, whatever its exit status."""
    return (
        check.timed_out
        or check.exit_code in (126, 127, 137)
        or (check.counts is not None and check.counts.ran == 0 and not check.counts.errors)
    )


def _doubt(check: CheckResult) -> str | None:
    if check.timed_out:
        return f"`{check.name}` did not end within its time."
    if check.exit_code in (126, 127):
        return f"`{check.name}` could not be started (exit code {check.exit_code}): {check.command}"
    if check.exit_code == 137:
        return f"`{check.name}` was killed (exit code 137); it may need more memory."
    if check.counts is None:
        return None
    if check.counts.ran == 0 and not check.counts.errors:
        return f"`{check.name}` ran no test" + (" (all were skipped)." if check.counts.skipped else ".")
    return None


def _names(checks: Sequence[CheckResult]) -> str:
    return ", ".join(f"`{check.name}`" for check in checks)
