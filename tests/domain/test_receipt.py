"""The receipt as a document, and the values around it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from bot.domain.errors import GitHubError, LeaseLost, ModelError, SandboxError
from bot.domain.receipt import Place, Receipt, Snapshot
from bot.domain.verification import judge
from tests.domain.test_task import REPOSITORY
from tests.domain.test_verification import GOOD, check

RECEIPT = Receipt(
    repository="octo/r",
    evidence=GOOD,
    verdict=judge(GOOD),
    config_sha="c" * 40,
    image="sha256:1",
    sandbox=Place(provider="docker", id="w"),
    verification_sandbox=Place(provider="docker", id="v"),
    model="scripted",
    cost=Decimal("0.25"),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    bot_version="0.1.0",
)


def test_a_receipt_says_what_was_run_on_which_tree_and_where() -> None:
    document = RECEIPT.to_dict()
    assert (document["version"], document["verdict"], document["tree"], document["base"]) == (
        1,
        "Passed",
        "t" * 40,
        "b" * 40,
    )
    assert document["sandbox"] == {"provider": "docker", "id": "w"}
    assert document["verification_sandbox"] == {"provider": "docker", "id": "v"}
    assert document["cost_usd"] == 0.25
    [done] = document["checks"]
    assert (done["name"], done["exit_code"], done["passed"], done["failed"]) == ("tests", 0, 3, 0)


def test_what_nobody_knows_is_null_and_never_zero() -> None:
    evidence = replace(GOOD, checks=(check(0),))
    document = replace(RECEIPT, evidence=evidence, verdict=judge(evidence), cost=None, sandbox=None).to_dict()
    assert (document["cost_usd"], document["sandbox"]) == (None, None)
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
