"""What the database promises about receipts and baselines, on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.receipts import KEPT_BASELINES, dumped
from bot.db.store import Store
from bot.db.tables import ReceiptRow
from bot.domain.errors import LeaseLost
from bot.domain.task import Lease
from bot.domain.verification import Unverified, judge
from tests.adapters.test_store_sandboxes import NOW, lease
from tests.domain.test_verification import BROKEN, GOOD, a_run

__all__ = ["lease"]

RUN = a_run("baseline", BROKEN, sandbox="v")


async def put_receipt(store: Store, attempt: int, evidence: Mapping[str, Any]) -> None:
    async with AsyncSession(store.engine) as session:
        session.add(
            ReceiptRow(
                episode_id="e1",
                attempt=attempt,
                verdict="Passed",
                evidence=dict(evidence),
                document={"tree": str(attempt)},
                checkpoint_id=1,
            )
        )
        await session.commit()


async def test_evidence_comes_back_as_it_was_saved(store: Store, lease: Lease) -> None:
    await put_receipt(store, 1, dumped(GOOD))
    saved = await store.receipt("t1")
    assert saved is not None
    assert saved.evidence == GOOD
    assert saved.envelope is None


async def test_evidence_of_an_earlier_version_shows_nothing_today(store: Store, lease: Lease) -> None:
    await put_receipt(store, 1, {"base": "b", "tree": "t", "expected_tree": "t", "checks": [], "problem": None})
    saved = await store.receipt("t1")
    assert saved is not None
    verdict = judge(saved.evidence)
    assert isinstance(verdict, Unverified)
    assert "/coder retry" in verdict.reasons[0]


async def test_the_newest_receipt_is_the_one_that_is_signed(store: Store, lease: Lease) -> None:
    await put_receipt(store, 1, dumped(GOOD))
    await put_receipt(store, 2, dumped(GOOD))
    await store.sign_receipt(lease, {"payload": "x"})
    saved = await store.receipt("t1")
    assert saved is not None
    assert (saved.attempt, saved.envelope) == (2, {"payload": "x"})


async def test_who_has_lost_the_task_signs_and_remembers_nothing(store: Store, lease: Lease) -> None:
    await put_receipt(store, 1, dumped(GOOD))
    await store.lease("t1")
    with pytest.raises(LeaseLost):
        await store.sign_receipt(lease, {"payload": "x"})
    with pytest.raises(LeaseLost):
        await store.put_baseline(lease, 7, "k", RUN, now=NOW)
    assert await store.baseline(7, "k") is None


async def test_a_baseline_is_found_by_its_repository_and_key_and_may_be_saved_again(
    store: Store, lease: Lease
) -> None:
    await store.put_baseline(lease, 7, "k", RUN, now=NOW)
    again = replace(RUN, sandbox="w")
    await store.put_baseline(lease, 7, "k", again, now=NOW)
    assert await store.baseline(7, "k") == again
    assert await store.baseline(8, "k") is None
    assert await store.baseline(7, "other") is None


async def test_of_each_repository_the_newest_baselines_are_kept(store: Store, lease: Lease) -> None:
    await store.put_baseline(lease, 8, "theirs", RUN, now=NOW)
    for number in range(KEPT_BASELINES + 2):
        await store.put_baseline(lease, 7, f"k{number}", RUN, now=NOW + timedelta(minutes=number + 1))
    found = [await store.baseline(7, f"k{number}") is not None for number in range(KEPT_BASELINES + 2)]
    assert found == [False, False, *[True] * KEPT_BASELINES]
    assert await store.baseline(8, "theirs") is not None
