"""The receipt as a document, and the values around it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from bot.domain.budget import Spend
from bot.domain.coverage import Coverage
from bot.domain.errors import GitHubError, LeaseLost, ModelError, SandboxError
from bot.domain.receipt import Place, Receipt, Snapshot, of_commit
from bot.domain.verification import Policy, Run, judge
from tests.domain.test_task import REPOSITORY
from tests.domain.test_verification import GOOD, candidate, check, old_tests, report

RECEIPT = Receipt(
    repository="octo/r",
    evidence=GOOD,
    verdict=judge(GOOD),
    config_sha="c" * 40,
    image="sha256:1",
    sandbox=Place(provider="docker", id="w"),
    verification_sandbox=Place(provider="docker", id="v"),
    model="scripted",
    spent=Spend(steps=3, tool_calls=4, tokens=500, cost=Decimal("0.25")),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    bot_version="0.1.0",
)


def test_a_receipt_says_what_was_run_on_which_tree_and_where() -> None:
    document = RECEIPT.to_dict()
    assert (document["version"], document["verdict"], document["tree"], document["base"]) == (
        2,
        "Passed",
        "t" * 40,
        "b" * 40,
    )
    assert (document["draft"], document["commit"]) == (False, None)
    assert document["sandbox"] == {"provider": "docker", "id": "w"}
    assert document["verification_sandbox"] == {"provider": "docker", "id": "v"}
    assert document["spend"] == {"steps": 3, "tool_calls": 4, "tokens": 500, "cost_usd": 0.25}
    [done] = document["checks"]
    assert (done["name"], done["exit_code"], done["passed"], done["failed"]) == ("tests", 0, 2, 0)
    assert [(run["kind"], run["canaries"]) for run in document["runs"]] == [
        ("candidate", "none"),
        ("baseline", "none"),
        ("old_tests", "seen"),
    ]
    assert document["tests"]["fixed"] == {"count": 1, "names": ["a"]}
    assert document["policy"] == {"repeat": 1, "tests": None, "weakened": "refuse", "unverified": "comment"}


def test_a_receipt_says_which_of_several_canaries_is_the_worst() -> None:
    results = (
        check(1, report({"a": "passed"}), canary="seen"),
        check(0, report({"a": "passed"}), canary="missing", name="more"),
    )
    evidence = old_tests(*results)
    document = replace(RECEIPT, evidence=evidence, verdict=judge(evidence)).to_dict()
    assert document["runs"][-1]["canaries"] == "missing"
    assert document["verdict"] == "Unverified"


def test_a_receipt_names_each_run_s_sandbox_unless_it_was_remembered() -> None:
    known = Run(kind="baseline", tree="t" * 40, checks=(check(0),), cached=True)
    fresh = Run(kind="candidate", tree="t" * 40, checks=(check(0),), sandbox="v2")
    evidence = replace(GOOD, runs=(fresh, known), policy=Policy(tests=("t/**",)))
    document = replace(RECEIPT, evidence=evidence).to_dict()
    assert [(run["sandbox"], run["cached"]) for run in document["runs"]] == [
        ({"provider": "docker", "id": "v2"}, False),
        (None, True),
    ]
    assert document["policy"]["tests"] == ["t/**"]


def test_a_receipt_says_which_changed_lines_no_test_ran() -> None:
    seen = Coverage(report="lcov.info", lines=4, covered=2, missed=(("a.py", (7, 8)),))
    document = replace(RECEIPT, evidence=replace(GOOD, coverage=seen)).to_dict()
    assert document["coverage"] == {
        "report": "lcov.info",
        "lines": 4,
        "covered": 2,
        "missed": [{"path": "a.py", "lines": [7, 8]}],
    }


def test_the_commit_is_filled_in_when_there_is_one() -> None:
    document = RECEIPT.to_dict()
    assert of_commit(document, "d" * 40) == {**document, "commit": "d" * 40}


def test_what_nobody_knows_is_null_and_never_zero() -> None:
    evidence = candidate(check(0))
    document = replace(RECEIPT, evidence=evidence, verdict=judge(evidence), spent=None, sandbox=None).to_dict()
    assert (document["cost_usd"], document["spend"], document["sandbox"]) == (None, None, None)
    assert document["checks"][0]["passed"] is None
    assert document["verdict"] == "Unverified"


def test_a_receipt_names_the_snapshot_that_verification_started_from() -> None:
    warm = replace(RECEIPT, snapshot=Snapshot(id="s", commit="d" * 40))
    assert warm.to_dict()["snapshot"] == {"id": "s", "commit": "d" * 40}
    assert RECEIPT.to_dict()["snapshot"] is None


def test_errors_carry_their_facts() -> None:
    assert SandboxError("gone", "It is gone.").reason == "gone"
    assert ModelError("rate_limited", "Later.", retryable=True).retryable
    limited = GitHubError("Later.", status=403, retryable=True, retry_after_s=60)
    assert (limited.status, limited.retry_after_s) == (403, 60)
    assert not LeaseLost("taken over").retryable
    assert REPOSITORY.full_name == "octo/r"
