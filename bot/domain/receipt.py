"""The receipt: what was run on exactly which tree, in which sandbox, with which result. A versioned JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from bot.domain.verification import Evidence, Verdict

VERSION = 1


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
    `snapshot` is what the verification sandbox started from (None: from a new clone)."""

    repository: str
    evidence: Evidence
    verdict: Verdict
    config_sha: str | None
    image: str
    sandbox: Place | None
    verification_sandbox: Place
    model: str | None
    cost: Decimal | None
    created_at: datetime
    bot_version: str
    snapshot: Snapshot | None = None

    def to_dict(self) -> dict[str, Any]:
        """The document as JSON types; `verdict` is Passed, Failed or Unverified."""
        return {
            "version": VERSION,
            "verdict": self.verdict.name,
            "reasons": list(self.verdict.reasons),
            "repository": self.repository,
            "base": self.evidence.base,
            "tree": self.evidence.expected_tree,
            "config": self.config_sha,
            "image": self.image,
            "sandbox": self.sandbox.to_dict() if self.sandbox else None,
            "verification_sandbox": self.verification_sandbox.to_dict(),
            "snapshot": self.snapshot.to_dict() if self.snapshot else None,
            "checks": [
                {
                    "name": check.name,
                    "command": check.command,
                    "exit_code": check.exit_code,
                    "timed_out": check.timed_out,
                    "seconds": round(check.duration_s, 3),
                    "passed": check.counts.passed if check.counts else None,
                    "failed": check.counts.failed + check.counts.errors if check.counts else None,
                    "skipped": check.counts.skipped if check.counts else None,
                }
                for check in self.evidence.checks
            ],
            "findings": [finding.to_dict() for finding in self.evidence.findings],
            "model": self.model,
            "cost_usd": float(self.cost) if self.cost is not None else None,
            "created_at": self.created_at.isoformat(),
            "bot": self.bot_version,
        }
