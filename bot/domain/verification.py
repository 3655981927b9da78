"""Verdicts: what the checks in fresh sandboxes came to, and the one function that may say `Passed`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bot.domain.coverage import Coverage
from bot.domain.flags import Flag
from bot.domain.gate import Finding, refused, shown
from bot.domain.patch import Patch
from bot.domain.report import Counts, Report

NAMED = 5
"""Tests that a reason names; of more it says how many."""

RunKind = Literal["baseline", "candidate", "old_tests", "new_tests"]
"""What the checks ran on: the base; the base with the patch; that with base's tests and test settings; the base with
the patch's tests."""

Canary = Literal["none", "seen", "missing", "unusable"]
"""Of two tests that joined a run, one to pass and one to fail: there were none; both were reported; they were not,
though the same command reports them on the base; it does not report them there either."""


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check's run. `exit_code` comes from the engine; `report` is None where no known runner spoke; `output` is
    the end of what it printed, redacted."""

    name: str
    command: str
    exit_code: int
    timed_out: bool
    duration_s: float
    report: Report | None
    output: str = ""
    canary: Canary = "none"
    canary_names: tuple[str, ...] = ()
    """The names of both, where the numbers here are of the very run that they joined."""
    left_report: bool = False
    """Whether it left the report that it was asked for."""

    @property
    def counts(self) -> Counts | None:
        return self.report.counts if self.report else None

    @property
    def is_red(self) -> bool:
        """Whether it says that something is wrong, with its exit code or in its report."""
        counts = self.counts
        return not says_nothing(self) and bool(self.exit_code or (counts and (counts.failed or counts.errors)))

    @property
    def failing(self) -> tuple[str, ...]:
        """Names of failing tests, the canary's left out; those that are known."""
        names = self.report.failing if self.report else ()
        return tuple(name for name in names if not any(ours in name for ours in self.canary_names))


@dataclass(frozen=True, kw_only=True)
class Run:
    """The checks on one tree in one fresh sandbox, which `sandbox` names at its provider (None: not known any more,
    for it was `cached`)."""

    kind: RunKind
    tree: str
    checks: tuple[CheckResult, ...]
    sandbox: str | None = None
    cached: bool = False
    rewritten: tuple[str, ...] = ()
    """Files of the tree that the checks changed while they ran."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What config says under `verification`."""

    repeat: int = 1
    tests: tuple[str, ...] | None = None
    weakened: Literal["refuse", "draft"] = "refuse"
    unverified: Literal["comment", "draft"] = "comment"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What verification found out. `tree` was built by git in a fresh sandbox, `expected_tree` by us from the bytes
    that will be published; `base` is the commit both start from."""

    base: str
    tree: str
    expected_tree: str
    runs: tuple[Run, ...] = ()
    problem: str | None = None
    """Why the checks could not be run at all."""
    findings: tuple[Finding, ...] = ()
    """What the patch gate has to say of the patch."""
    flags: tuple[Flag, ...] = ()
    """What the patch does to tests and to how they run."""
    coverage: Coverage | None = None
    documents_only: bool = False
    policy: Policy = Policy()

    def of(self, kind: RunKind) -> Run | None:
        """The first run of that kind."""
        return next((run for run in self.runs if run.kind == kind), None)

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """The candidate's checks as they ran first."""
        run = self.of("candidate")
        return run.checks if run else ()


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
    """Nothing said no, but nothing showed that it works either, or what showed it can't be trusted."""

    reasons: tuple[str, ...]
    name: Literal["Unverified"] = "Unverified"


@dataclass(frozen=True, kw_only=True)
class Draft(Unverified):
    """Unverified, and the rules let it be published: as a draft that says so. Only `judge` makes one."""

    base: str
    tree: str
    seal: object

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError("only judge() makes a Draft")


Verdict = Passed | Failed | Unverified
Publishable = Passed | Draft


def judge(evidence: Evidence) -> Verdict:
    """The verdict on evidence, with the reasons in order of importance. Total: any evidence has one."""
    if refusals := refused(evidence.findings):
        return Unverified(reasons=tuple(each.text for each in refusals))
    if evidence.tree != evidence.expected_tree:
        return Unverified(
            reasons=(f"The tree built in the sandbox is {evidence.tree}, ours is {evidence.expected_tree}.",)
        )
    flags = tuple(dict.fromkeys(flag.text for flag in evidence.flags if flag.grave))
    if failures := tuple(_failures(evidence)):
        return Failed(reasons=(*failures, *flags))
    rest = tuple(dict.fromkeys(flag.text for flag in evidence.flags if not flag.grave))
    if doubts := tuple(_doubts(evidence)):
        return _unverified(evidence, (*doubts, *flags, *rest), draft=evidence.policy.unverified == "draft")
    if weakened := (*_weakened(evidence), *flags):
        return _unverified(evidence, (*weakened, *rest), draft=evidence.policy.weakened == "draft")
    return Passed(base=evidence.base, tree=evidence.tree, reasons=tuple(_said(evidence)), seal=_SEAL)


def _unverified(evidence: Evidence, reasons: tuple[str, ...], *, draft: bool) -> Unverified:
    if not draft:
        return Unverified(reasons=reasons)
    return Draft(reasons=reasons, base=evidence.base, tree=evidence.tree, seal=_SEAL)


def _failures(evidence: Evidence) -> Iterator[str]:
    """What says no on the candidate's own tree, in any of its runs."""
    runs = [run for run in evidence.runs if run.kind == "candidate"]
    baseline = evidence.of("baseline")
    before = {check.name: check for check in baseline.checks} if baseline else {}
    for name in dict.fromkeys(check.name for run in runs for check in run.checks):
        results = [check for run in runs for check in run.checks if check.name == name]
        red = [check for check in results if check.is_red]
        if not red:
            continue
        yield _failure(red[0])
        if len(red) < len(results):
            yield f"{code(name)} failed in {len(red)} of {len(results)} runs: it is flaky."
        if (then := before.get(name)) is not None and then.is_red:
            yield _red_before(red[0], then)


def _failure(check: CheckResult) -> str:
    counts = check.counts
    bad = counts.failed + counts.errors if counts else 0
    if not bad:
        return f"{code(check.name)} failed with exit code {check.exit_code}."
    named = f": {names(check.failing)}" if check.failing else ""
    if not check.exit_code:
        return f"{code(check.name)} ended with exit code 0, but reports {bad} failing test{_s(bad)}{named}."
    return f"{code(check.name)} failed: {bad} of its tests (exit code {check.exit_code}){named}."


def _red_before(check: CheckResult, then: CheckResult) -> str:
    same = [name for name in check.failing if name in then.failing]
    if not same:
        return f"{code(check.name)} failed before the change as well."
    if len(same) == len(check.failing):
        return "All of these failed before the change as well."
    return f"Of these, the following failed before the change as well: {names(same)}."


def says_nothing(check: CheckResult) -> bool:
    """Whether the check says nothing about the code, whatever its exit status."""
    return (
        check.timed_out
        or check.exit_code in (126, 127, 137)
        or (check.counts is not None and check.counts.ran == 0 and not check.counts.errors)
    )


def _doubts(evidence: Evidence) -> Iterator[str]:
    """Why what ran on the candidate does not show that it works."""
    if evidence.problem is not None:
        yield evidence.problem
        return
    if not evidence.checks:
        yield "There is no check to run; name one under `checks` in `.github/coder.yml`."
        return
    results = [check for run in evidence.runs if run.kind == "candidate" for check in run.checks]
    baseline = evidence.of("baseline")
    leave = {check.name for check in baseline.checks if check.left_report} if baseline else set()
    grave = list(dict.fromkeys(doubt for check in results if (doubt := _doubt(check, leaves=check.name in leave))))
    yield from grave
    if not grave and not _passed(evidence.checks):
        yield "No check reported a test that passed."


def _doubt(check: CheckResult, *, leaves: bool) -> str | None:
    """`leaves`: the same check left a report on the base."""
    if check.timed_out:
        return f"{code(check.name)} did not end within its time."
    if check.exit_code in (126, 127):
        return f"{code(check.name)} could not be started (exit code {check.exit_code}): {check.command}"
    if check.exit_code == 137:
        return f"{code(check.name)} was killed (exit code 137); it may need more memory."
    if check.report is None:
        return None
    counts = check.report.counts
    if counts.ran == 0 and not counts.errors:
        return f"{code(check.name)} ran no test" + (" (all were skipped)." if counts.skipped else ".")
    if check.report.contradiction:
        return f"{code(check.name)} contradicts itself: {check.report.contradiction}"
    if leaves and not check.left_report:
        return f"{code(check.name)} says that tests passed, but left no report as it does without the change."
    return None


def _weakened(evidence: Evidence) -> Iterator[str]:
    """Why a pass can't be trusted: base's own tests say otherwise, or the runner does not report what must fail."""
    run, baseline = evidence.of("old_tests"), evidence.of("baseline")
    silent = {check.name for check in baseline.checks if says_nothing(check)} if baseline else set()
    for check in run.checks if run else ():
        if says_nothing(check) and check.name in silent:
            continue  # there was nothing to weaken
        if check.timed_out:
            yield f"With the tests as they were before, {code(check.name)} does not end within its time."
        elif fails_beside_canary(check):
            named = f": {names(check.failing)}" if check.failing else f" (exit code {check.exit_code})"
            yield f"With the tests as they were before, {code(check.name)} fails{named}."
        elif check.canary == "missing":
            yield (
                f"{code(check.name)} does not report a test of ours that must fail, though it does so without the "
                "change: what it says can't be trusted."
            )


def fails_beside_canary(check: CheckResult) -> bool:
    """Whether something else than the canary failed, as far as names, numbers and the exit code tell."""
    counts, ours = check.counts, int(check.canary == "seen" and bool(check.canary_names))
    if check.failing:
        return True
    if counts is not None:
        return counts.failed + counts.errors > ours or (not ours and bool(check.exit_code))
    return bool(check.exit_code) and not ours


def _said(evidence: Evidence) -> Iterator[str]:
    """What a `Passed` rests on, and what people should know of it."""
    shown = _passed(evidence.checks)
    times = sum(run.kind == "candidate" for run in evidence.runs)
    again = f", {times} times" if times > 1 else ""
    yield f"{shown} test{_s(shown)} passed in {', '.join(code(check.name) for check in evidence.checks)}{again}."
    sets = compare(evidence)
    if sets.fixed:
        yield f"Failing before, passing now: {names(sets.fixed)}."
    yield from _new_tests(evidence)
    if evidence.documents_only:
        yield "Only documents were changed: no test says anything about them."
    elif (baseline := evidence.of("baseline")) is not None and not baseline.checks:
        yield "The base could not be set up: nothing can be compared with it."
    elif baseline is not None and not sets.fixed and evidence.of("new_tests") is None:
        yield "No test failed before the change: that it fixes the issue is not shown by a test."
    if sets.gone:
        yield f"These tests no longer run: {names(sets.gone)}."
    if sets.newly_skipped:
        yield f"These tests are skipped now: {names(sets.newly_skipped)}."
    if (fewer := _fewer(evidence)) and not sets.gone:
        yield fewer
    yield from dict.fromkeys(flag.text for flag in evidence.flags)
    if rewritten := tuple(dict.fromkeys(path for run in evidence.runs for path in run.rewritten)):
        yield f"While they ran, the checks changed files of the repository: {names(rewritten)}."
    old = evidence.of("old_tests")
    for check in old.checks if old else ():
        if check.canary == "unusable":
            yield f"{code(check.name)} does not run a test of ours that must fail, with or without the change."
    if (seen := evidence.coverage) is not None and seen.lines:
        yield f"Of {seen.lines} changed lines, the tests ran {seen.covered} ({code(seen.report)})."


def _new_tests(evidence: Evidence) -> Iterator[str]:
    run = evidence.of("new_tests")
    if run is None:
        return
    red = [check for check in run.checks if check.is_red or says_nothing(check)]
    if not red:
        yield "The patch's tests pass without its change as well: they don't show that it fixes anything."
        return
    failing = tuple(name for check in red for name in check.failing)
    yield f"Without the change, the patch's tests fail{': ' + names(failing) if failing else ''}."


def _fewer(evidence: Evidence) -> str | None:
    baseline = evidence.of("baseline")
    if baseline is None or any(check.report and check.report.partial for check in evidence.checks):
        return None
    before = sum(check.counts.ran for check in baseline.checks if check.counts)
    now = sum(check.counts.ran for check in evidence.checks if check.counts)
    return f"{now} tests ran, {before} before the change." if now < before else None


_DOCUMENT = re.compile(
    r"(?:.*/)?(?:[^/]+\.(?:md|markdown|rst|adoc|asciidoc)|(?:licen[cs]e|copying|notice|authors|changelog|changes|readme)"
    r"(?:\.txt)?)|docs?/.+\.(?:txt|png|jpe?g|gif|svg)",
    re.IGNORECASE,
)


def documents_only(patch: Patch) -> bool:
    """Whether nothing changes but what only people read."""
    return bool(patch) and all(_DOCUMENT.fullmatch(path) for path in patch.paths)


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Tests by what became of them, from the base to the candidate; by `check: name` where there are several checks.
    Empty where the runners did not name their tests."""

    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    newly_skipped: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def compare(evidence: Evidence) -> Sets:
    """What became of each test."""
    baseline = evidence.of("baseline")
    if baseline is None:
        return Sets()
    before = _outcomes(baseline.checks, evidence.checks)
    now = _outcomes(evidence.checks, baseline.checks)

    def where(was: set[str | None], is_now: set[str | None]) -> tuple[str, ...]:
        found = (name for name in before | now if before.get(name) in was and now.get(name) in is_now)
        return tuple(sorted(found))

    ran: set[str | None] = {"passed", "failed"}
    return Sets(
        fixed=where({"failed"}, {"passed"}),
        broken=where({"passed"}, {"failed"}),
        still_failing=where({"failed"}, {"failed"}),
        newly_skipped=where(ran, {"skipped"}),
        gone=where({*ran, "skipped"}, {None}),
        added=where({None}, {*ran, "skipped"}),
    )


def _outcomes(checks: Sequence[CheckResult], others: Sequence[CheckResult]) -> dict[str, str]:
    """Each test's outcome, of the checks that named all their tests in both runs."""
    named = {check.name for check in others if check.report and check.report.tests is not None}
    found: dict[str, str] = {}
    for check in checks:
        if check.report and check.report.tests is not None and check.name in named:
            prefix = f"{check.name}: " if len(checks) > 1 else ""
            found |= {f"{prefix}{name}": outcome for name, outcome in check.report.tests.items()}
    return found


def names(found: Iterable[str]) -> str:
    """A few of them as code, and how many more there are."""
    all_names = tuple(found)
    more = f" and {len(all_names) - NAMED} more" if len(all_names) > NAMED else ""
    return ", ".join(code(name) for name in all_names[:NAMED]) + more


def code(text: str) -> str:
    """A name that strangers may have chosen, as it can stand in a sentence."""
    return f"`{shown(text)}`"


def _passed(checks: Sequence[CheckResult]) -> int:
    return sum(check.counts.passed for check in checks if check.counts)


def _s(number: int) -> str:
    return "s" * (number != 1)
