"""The check run of a receipt: what it concludes, where it points, and what it leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from bot.domain import check_run
from bot.domain.check_run import Annotation, Files
from bot.domain.report import Counts, Report
from bot.domain.verification import CheckResult, Evidence, Run, RunKind
from tests.domain.test_comment import RECEIPT

TREE = "t" * 40
FILES = Files(
    ("calc.py", "src/a.ts", "src/b.go", "packages/api/x.js", "one/same.py", "two/same.py"), "/workspace/repo"
)
DOCUMENT: dict[str, Any] = {
    **RECEIPT,
    "draft": False,
    "tree": TREE,
    "image": "sha256:1",
    "model": None,
    "cost_usd": None,
    "bot": "1",
    "created_at": "2026-11-30",
}
DRAFT = {**DOCUMENT, "draft": True, "verdict": "Unverified", "reasons": ["`tests` ran no test."]}
EVIDENCE = Evidence(base="b" * 40, tree=TREE, expected_tree=TREE)


def made(
    receipt: dict[str, Any] = DOCUMENT, evidence: Evidence = EVIDENCE, envelope: Any = None
) -> check_run.CheckRun:
    return check_run.check_run("t1/1/x", receipt, evidence, envelope, FILES)


def failing(output: str, kind: RunKind = "candidate", failed: int = 1) -> Evidence:
    report = Report(runner="pytest", counts=Counts(passed=1, failed=failed))
    result = CheckResult(
        name="tests", command="x", exit_code=failed, timed_out=False, duration_s=1.0, report=report, output=output
    )
    return replace(EVIDENCE, runs=(Run(kind=kind, tree=TREE, checks=(result,)),))


def test_a_pass_is_a_success_and_a_draft_a_failure() -> None:
    assert check_run.external_id("t1", 2, "abc") == "t1/2/abc"
    passed, draft = made(), made(DRAFT)
    assert (passed.external_id, passed.conclusion, passed.annotations) == ("t1/1/x", "success", ())
    assert passed.title == "Passed: 3 tests passed in `tests`."
    assert (draft.conclusion, draft.title) == ("failure", "Unverified: `tests` ran no test.")
    assert "Receipt: Unverified" in draft.summary
    assert made({**DOCUMENT, "reasons": []}).title == "Passed"


def test_the_signed_receipt_stands_between_marks_if_it_fits() -> None:
    envelope = {"payload": "e30=", "signatures": []}
    _, _, fenced = made(envelope=envelope).text.partition("```json\n")
    assert json.loads(fenced.removesuffix("\n```")) == envelope
    assert "not signed" in made().text
    assert "too long" in made(envelope={"payload": "x" * 70_000}).text
    long = made({**DOCUMENT, "reasons": ["word " * 190] * 200})
    assert len(long.summary) <= check_run.TEXT_LIMIT


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("calc.py:3: AssertionError", ("calc.py", 3)),
        ("./calc.py:3:7: no", ("calc.py", 3)),
        ("    at Object.<anonymous> (/workspace/repo/src/a.ts:12:5)", ("src/a.ts", 12)),
        ("src/a.ts(4,2): error TS1", ("src/a.ts", 4)),
        ('  File "/workspace/repo/calc.py", line 9, in add', ("calc.py", 9)),
        ("b.go:7: got 1", ("src/b.go", 7)),
        ("api/x.js:8", ("packages/api/x.js", 8)),
        ("same.py:1: which one?", None),
        ("/usr/lib/python3/calc.py:1: theirs", None),
        ("calc.py:0: no line", None),
        ("other.py:3: not of this tree", None),
        ("at 12:30:45", None),
    ],
)
def test_failing_lines_are_those_of_files_in_the_tree(line: str, place: tuple[str, int] | None) -> None:
    found = made(DRAFT, failing(line)).annotations
    assert [(each.path, each.start) for each in found] == ([] if place is None else [place])
    for each in found:
        assert (each.end, each.level, each.message) == (each.start, "failure", line.strip())
        assert each.title == "`tests` failed here (exit code 1)."


def test_a_line_is_pointed_at_once_and_a_long_output_has_an_end() -> None:
    many = "\n".join(f"calc.py:{number}: no\ncalc.py:{number}: again" for number in range(1, 400))
    assert len(made(DRAFT, failing(many)).annotations) == check_run.PER_CHECK


def test_only_what_should_have_passed_points_at_lines() -> None:
    assert (
        "with the tests as they were before"
        in made(DRAFT, failing("calc.py:3: no", "old_tests")).annotations[0].title
    )
    for kind in ("baseline", "new_tests"):
        assert made(DRAFT, failing("calc.py:3: no", kind)).annotations == ()  # type: ignore[arg-type]  # two of them
    assert made(DRAFT, failing("calc.py:3: only a warning", failed=0)).annotations == ()


def test_flags_and_missed_lines_are_pointed_at() -> None:
    flags = [
        {"kind": "skip", "path": "calc.py", "line": 4, "grave": False, "text": "`calc.py`, line 4: skips"},
        {"kind": "exit", "path": "calc.py", "line": 5, "grave": True, "text": "`calc.py`, line 5: exits"},
        {"kind": "gone", "path": "calc.py", "line": None, "grave": True, "text": "no line"},
        {"kind": "skip", "path": "not there.py", "line": 1, "grave": True, "text": "no file"},
    ]
    missed = [{"path": "src/a.ts", "lines": [9, 1, 2, 3]}, {"path": "gone.ts", "lines": [1]}]
    found = made(
        {**DOCUMENT, "flags": flags, "coverage": {"report": "c.xml", "lines": 5, "covered": 1, "missed": missed}}
    )
    assert [(each.path, each.start, each.end, each.level) for each in found.annotations] == [
        ("calc.py", 4, 4, "warning"),
        ("calc.py", 5, 5, "failure"),
        ("src/a.ts", 1, 3, "notice"),
        ("src/a.ts", 9, 9, "notice"),
    ]
    assert found.annotations[0] == Annotation(
        path="calc.py", start=4, end=4, level="warning", title="skip", message="`calc.py`, line 4: skips"
    )


def test_a_canary_that_fails_as_it_must_is_no_word_on_anybodys_line() -> None:
    evidence = failing("calc.py:9: AssertionError", "old_tests")
    [run] = evidence.runs
    told = replace(run.checks[0], canary="seen", canary_names=("test_x_a", "test_x_b"))
    assert made(evidence=replace(evidence, runs=(replace(run, checks=(told,)),))).annotations == ()
