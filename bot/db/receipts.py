"""What verification has left: receipts, and how the checks ended on bases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlmodel import col, delete, select

from bot.db.database import Database, hold
from bot.db.tables import BaselineRow, EpisodeRow, ReceiptRow
from bot.domain.task import Lease
from bot.domain.verification import Evidence, Run

KEPT_BASELINES = 20
"""Of each repository."""

_evidence = TypeAdapter(Evidence)
_run = TypeAdapter(Run)


@dataclass(frozen=True, kw_only=True)
class SavedReceipt:
    """A verdict as it was saved: judge its evidence again to have the verdict as a value. `envelope` is the document
    as it was signed for the commit that it was published in; None until then."""

    attempt: int
    evidence: Evidence
    document: dict[str, Any]
    checkpoint_id: int
    envelope: dict[str, Any] | None = None


class Receipts(Database):
    """The part of the store that knows receipts."""

    async def receipt(self, task_id: str) -> SavedReceipt | None:
        """The newest one of a task."""
        async with self._read() as session:
            row = (await session.exec(_newest(task_id))).first()
            if row is None:
                return None
            return SavedReceipt(
                attempt=row.attempt,
                evidence=_evidence_of(row.evidence),
                document=row.document,
                checkpoint_id=row.checkpoint_id,
                envelope=row.envelope,
            )

    async def sign_receipt(self, lease: Lease, envelope: Mapping[str, Any]) -> None:
        """Keeps the signed form of the newest receipt of the lease's task."""
        async with self._write("receipt signed") as session:
            await hold(session, lease)
            row = (await session.exec(_newest(lease.task_id))).one()
            row.envelope = dict(envelope)
            session.add(row)

    async def baseline(self, repository_id: int, key: str) -> Run | None:
        """How the checks ended when they ran where `key` says: on that base, in that image, with those rules."""
        async with self._read() as session:
            row = await session.get(BaselineRow, (repository_id, key))
            return None if row is None else _run.validate_python(row.run)

    async def put_baseline(self, lease: Lease, repository_id: int, key: str, run: Run, *, now: datetime) -> None:
        """Remembers it; of each repository the newest few are kept."""
        async with self._write("baseline saved") as session:
            await hold(session, lease)
            saved = dict(_run.dump_python(run, mode="json"))
            row = BaselineRow(repository_id=repository_id, key=key, run=saved, created_at=now)
            await session.merge(row)
            await session.flush()
            kept = (
                select(BaselineRow.key)
                .where(BaselineRow.repository_id == repository_id)
                .order_by(col(BaselineRow.created_at).desc())
                .limit(KEPT_BASELINES)
            )
            keys = list(await session.exec(kept))
            old = col(BaselineRow.key).not_in(keys)
            await session.exec(delete(BaselineRow).where(col(BaselineRow.repository_id) == repository_id, old))


def dumped(evidence: Evidence) -> dict[str, Any]:
    """As a row holds it."""
    return dict(_evidence.dump_python(evidence, mode="json"))


def _newest(task_id: str) -> Any:
    return (
        select(ReceiptRow)
        .join(EpisodeRow, col(EpisodeRow.id) == col(ReceiptRow.episode_id))
        .where(EpisodeRow.task_id == task_id)
        .order_by(col(ReceiptRow.id).desc())
        .limit(1)
    )


def _evidence_of(saved: dict[str, Any]) -> Evidence:
    if "runs" in saved:
        return _evidence.validate_python(saved)
    # From before there were several runs: what it shows would not be enough today.
    return Evidence(
        base=saved["base"],
        tree=saved["tree"],
        expected_tree=saved["expected_tree"],
        problem="This was verified by an earlier version of the bot; `/coder retry` verifies it again.",
    )
