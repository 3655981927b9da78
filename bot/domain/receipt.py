"""The receipt: what was run on exactly which tree, in which sandbox, with which result. A versioned JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.domain.budget import Spend
from bot.domain.verification import CheckResult, Draft, Evidence, Run, Verdict, compare

VERSION = 2
NAMES = 50
"""Names of tests that stand in a list; its count says how many there are."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A sandbox by its provider and the id it has there."""

    provider: str
    id: str

    def to_dict(self) -> dict[str, str]:
        return {"provider": self.provider, "id": self.id}


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A prepared file system by the id it has at its provider, and the commit that was cloned and set up in it."""

    id: str
    commit: str

    def to_dict(self) -> dict[str, str]:
        return {"id": self.id, "commit": self.commit}


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """`evidence` is what the verdict rests on; `sandbox` is where the agent worked (None: there was no agent);
    `snapshot` is what the verification sandboxes started from (None: from a new clone)."""

    repository: str
    evidence: Evidence
    verdict: Verdict
    config_sha: str | None
    image: str
    sandbox: Place | None
    verification_sandbox: Place
    model: str | None
    spent: Spend | None
    created_at: datetime
    bot_version: str
    snapshot: Snapshot | None = None

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON types; `verdict` is Passed, Failed or Unverified. `commit` is filled in when there is
        one (`of_commit`)."""
        evidence, spent = self.evidence, self.spent
        cost = None if spent is None or spent.cost is None else float(spent.cost)
        return {
            "version": VERSION,
            "verdict": self.verdict.name,
            "draft": isinstance(self.verdict, Draft),
            "reasons": list(self.verdict.reasons),
            "repository": self.repository,
            "base": evidence.base,
            "tree": evidence.expected_tree,
            "commit": None,
            "config": self.config_sha,
            "image": self.image,
            "sandbox": self.sandbox.to_dict() if self.sandbox else None,
            "verification_sandbox": self.verification_sandbox.to_dict(),
            "snapshot": self.snapshot.to_dict() if self.snapshot else None,
            "checks": [_check(check) for check in evidence.checks],
            "runs": [_run(run, self.verification_sandbox.provider) for run in evidence.runs],
            "tests": _tests(evidence),
            "flags": [flag.to_dict() for flag in evidence.flags],
            "findings": [finding.to_dict() for finding in evidence.findings],
            "coverage": _coverage(evidence),
            "policy": {
                "repeat": evidence.policy.repeat,
                "tests": None if evidence.policy.tests is None else list(evidence.policy.tests),
                "weakened": evidence.policy.weakened,
                "unverified": evidence.policy.unverified,
            },
            "spend": None
            if spent is None
            else {
                "steps": spent.steps,
                "tool_calls": spent.tool_calls,
                "tokens": spent.tokens,
                "cost_usd": cost,
            },
            "model": self.model,
            "cost_usd": cost,
            "created_at": self.created_at.isoformat(),
            "bot": self.bot_version,
        }


def of_commit(document: dict[str, Any], commit: str) -> dict[str, Any]:
    """The same receipt for the commit that its tree was published in."""
    return {**document, "commit": commit}


def _check(check: CheckResult) -> dict[str, Any]:
    counts = check.counts
    return {
        "name": check.name,
        "command": check.command,
        "exit_code": check.exit_code,
        "timed_out": check.timed_out,
        "seconds": round(check.duration_s, 3),
        "passed": counts.passed if counts else None,
        "failed": counts.failed + counts.errors if counts else None,
        "skipped": counts.skipped if counts else None,
        "runner": check.report.runner if check.report else None,
    }


def _run(run: Run, provider: str) -> dict[str, Any]:
    canaries = {check.canary for check in run.checks}
    order = ("missing", "unusable", "seen")
    return {
        "kind": run.kind,
        "tree": run.tree,
        "sandbox": None if run.sandbox is None else Place(provider=provider, id=run.sandbox).to_dict(),
        "cached": run.cached,
        "canaries": next((each for each in order if each in canaries), "none"),
        "checks": [_check(check) for check in run.checks],
    }


def _tests(evidence: Evidence) -> dict[str, Any]:
    sets = compare(evidence)

    def shown(names: Sequence[str]) -> dict[str, Any]:
        return {"count": len(names), "names": list(names[:NAMES])}

    return {
        "fixed": shown(sets.fixed),
        "broken": shown(sets.broken),
        "still_failing": shown(sets.still_failing),
        "newly_skipped": shown(sets.newly_skipped),
        "gone": shown(sets.gone),
        "added": shown(sets.added),
    }


def _coverage(evidence: Evidence) -> dict[str, Any] | None:
    seen = evidence.coverage
    if seen is None:
        return None
    return {
        "report": seen.report,
        "lines": seen.lines,
        "covered": seen.covered,
        "missed": [{"path": path, "lines": list(lines)} for path, lines in seen.missed],
    }
