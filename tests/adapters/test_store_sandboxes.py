"""What the database promises about sandboxes, on SQLite and on Postgres: slots, snapshots, checkpoints, strays."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.sandboxes import KEPT_CHECKPOINTS
from bot.db.store import SnapshotRecord, Store
from bot.db.tables import CheckpointRow, EpisodeRow, ReceiptRow, TaskRow
from bot.domain.patch import Change, Patch
from bot.domain.task import Lease
from bot.sandbox.pool import PoolLimits

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
LIMITS = PoolLimits(at_once=3, reserved=1, lifetime_s=60, exec_s=60, disk=1, networks=frozenset({"none"}))


async def take(
    store: Store, name: str, kind: str = "verify", *, sandbox_id: str | None = None, now: datetime = NOW
) -> int | None:
    return await store.take_slot(
        name,
        kind,
        sandbox_id=sandbox_id,
        fits=lambda running: LIMITS.fits(running, kind),
        now=now,
        expires_at=now + timedelta(hours=1),
    )


# Slots


async def test_two_connections_that_ask_at_once_never_take_more_than_there_are(
    store: Store, database_url: str
) -> None:
    other = Store(database_url)
    try:
        asked = [take((store, other)[number % 2], f"s{number}") for number in range(12)]
        answers = await asyncio.gather(*asked)
    finally:
        await other.aclose()
    assert sorted(answer or 0 for answer in answers) == [0, 0, 0, *[3] * 9]
    assert len(await store.slots()) == 3


RACER = """
import asyncio, sys
from bot.db.store import Store
from tests.adapters.test_store_sandboxes import take

async def main():
    store = Store(sys.argv[1])
    await store.slots()
    print("ready", flush=True)
    sys.stdin.readline()
    answers = await asyncio.gather(*(take(store, f"{sys.argv[2]}-{number}") for number in range(6)))
    await store.aclose()
    print(answers.count(None), flush=True)

asyncio.run(main())
"""


async def test_two_processes_that_ask_at_once_never_take_more_than_there_are(store: Store, database_url: str) -> None:
    racers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", RACER, database_url, name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for name in ("a", "b")
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert await racer.stdout.readline() == b"ready\n"
    told = await asyncio.gather(*(racer.communicate(b"\n") for racer in racers))
    assert sum(int(out) for out, _ in told) == 3
    assert len(await store.slots()) == 3


async def test_what_is_reserved_is_not_given_to_work(store: Store) -> None:
    assert [await take(store, f"w{number}", "work") for number in range(3)] == [None, None, 2]
    assert await take(store, "v", "verify") is None
    assert await take(store, "f", "fetch") == 3


async def test_a_sandbox_has_one_slot_by_its_name_or_its_id(store: Store) -> None:
    await take(store, "a", "work")
    await store.fill_slot("a", "id-1")
    assert await take(store, "id-1", "work", sandbox_id="id-1", now=LATER - timedelta(seconds=1)) is None
    [slot] = await store.slots()
    assert (slot.name, slot.sandbox_id, slot.expires_at) == (
        "a",
        "id-1",
        LATER - timedelta(seconds=1) + (LATER - NOW),
    )
    await take(store, "a", "work")  # made anew under that name
    [slot] = await store.slots()
    assert (slot.name, slot.sandbox_id) == ("a", None)


async def test_a_slot_whose_time_is_over_counts_no_more(store: Store) -> None:
    for number in range(3):
        await take(store, f"v{number}")
    assert await take(store, "v3", now=LATER - timedelta(seconds=1)) == 3
    assert await store.used_slots(LATER) == []
    assert await take(store, "v3", now=LATER) is None
    assert [slot.name for slot in await store.slots()] == ["v3"]


async def test_a_slot_is_freed_by_name_or_id_and_says_so_once(store: Store) -> None:
    await take(store, "a")
    await store.fill_slot("a", "id-a")
    await take(store, "b")
    assert [await store.free_slot(key) for key in ("id-a", "id-a", "b", "nobody")] == [True, False, True, False]


async def test_a_slot_that_was_renewed_meanwhile_is_not_freed(store: Store) -> None:
    await take(store, "a")
    await take(store, "a", now=LATER - timedelta(seconds=1))
    assert not await store.free_slot("a", taken_at=NOW)
    assert await store.free_slot("a", taken_at=LATER - timedelta(seconds=1))


# Strays


async def test_a_stray_keeps_the_moment_it_was_first_seen_until_it_is_none(store: Store) -> None:
    assert await store.see_strays({"a"}, NOW) == {"a": NOW}
    assert await store.see_strays({"a", "b"}, LATER) == {"a": NOW, "b": LATER}
    await store.see_strays({"b"}, LATER)
    assert await store.strays() == {"b": LATER}
    assert await store.see_strays({"a"}, LATER) == {"a": LATER}


# Snapshots

SNAPSHOT = SnapshotRecord(
    id="snap-1",
    key="k1",
    installation_id=2**40,
    repository_id=2,
    image_id="sha256:1",
    commit="c1",
    size=2**40,
    created_at=NOW,
    used_at=NOW,
)


async def test_a_snapshot_is_put_once(store: Store) -> None:
    assert await store.snapshots() == []
    assert await store.put_snapshot(SNAPSHOT) is None
    assert await store.snapshots() == [SNAPSHOT]
    assert await store.put_snapshot(SNAPSHOT) is None  # twice is once


async def test_a_snapshot_of_the_same_key_replaces_the_older_one_and_names_it(store: Store) -> None:
    await store.put_snapshot(SNAPSHOT)
    newer = replace(SNAPSHOT, id="snap-2", size=None)
    assert await store.put_snapshot(newer) == "snap-1"
    assert await store.snapshots() == [newer]


async def test_two_that_record_the_same_key_at_once_leave_one(store: Store, database_url: str) -> None:
    other = Store(database_url)
    try:
        replaced = await asyncio.gather(
            *((store, other)[number % 2].put_snapshot(replace(SNAPSHOT, id=f"snap-{number}")) for number in range(6))
        )
    finally:
        await other.aclose()
    [left] = await store.snapshots()
    assert sorted([left.id, *(old for old in replaced if old)]) == [f"snap-{number}" for number in range(6)]


async def test_the_newest_snapshot_is_of_the_same_repository_and_image(store: Store) -> None:
    await store.put_snapshot(SNAPSHOT)
    await store.put_snapshot(replace(SNAPSHOT, id="snap-2", key="k2", created_at=LATER))
    others: dict[str, Any] = {"installation_id": 1, "repository_id": 1, "image_id": "sha256:2"}
    for key, value in others.items():
        await store.put_snapshot(
            replace(SNAPSHOT, id=key, key=key, created_at=LATER + timedelta(hours=1), **{key: value})
        )
    newest = await store.newest_snapshot(SNAPSHOT.installation_id, 2, "sha256:1")
    assert newest is not None
    assert newest.id == "snap-2"
    assert await store.newest_snapshot(SNAPSHOT.installation_id, 3, "sha256:1") is None


async def test_snapshots_come_with_the_longest_unused_first(store: Store) -> None:
    await store.put_snapshot(SNAPSHOT)
    await store.put_snapshot(replace(SNAPSHOT, id="snap-2", key="k2"))
    await store.use_snapshot("snap-1", LATER)
    assert [record.id for record in await store.snapshots()] == ["snap-2", "snap-1"]
    assert (await store.snapshots())[1] == replace(SNAPSHOT, used_at=LATER)
    await store.forget_snapshot("snap-2")
    assert [record.id for record in await store.snapshots()] == ["snap-1"]


# Checkpoints


@pytest.fixture
async def lease(store: Store) -> Lease:
    when: dict[str, Any] = {"requested_at": NOW, "created_at": NOW, "updated_at": NOW}
    where: dict[str, Any] = {
        "installation_id": 1,
        "repository_id": 2,
        "owner": "o",
        "name": "n",
        "clone_url": "",
        "number": 3,
    }
    said: dict[str, Any] = {"title": "", "body": "", "author": "a", "requester": "r", "state": "working"}
    async with AsyncSession(store.engine) as session:
        session.add(TaskRow(id="t1", **when, **where, **said))
        await session.flush()
        episode: dict[str, Any] = {
            "instruction": "",
            "requester": "r",
            "comment_id": 1,
            "created_at": NOW,
            "config_sha": "",
        }
        session.add(EpisodeRow(id="e1", task_id="t1", number=1, kind="fix", **episode))
        await session.commit()
    return await store.lease("t1")


def patch(text: str) -> Patch:
    return Patch.of(Change(path="a.py", mode="100644", content=text.encode()))


async def checkpoint_ids(store: Store) -> list[int | None]:
    async with AsyncSession(store.engine) as session:
        return sorted((await session.exec(select(CheckpointRow.id))).all(), key=lambda found: found or 0)


async def test_a_checkpoint_equal_to_the_newest_makes_no_new_row(store: Store, lease: Lease) -> None:
    first = await store.add_checkpoint(lease, "base", patch("1"))
    assert await store.add_checkpoint(lease, "base", patch("1")) == first
    other_base = await store.add_checkpoint(lease, "other", patch("1"))
    assert other_base != first
    assert await store.add_checkpoint(lease, "base", patch("1")) not in (first, other_base)


async def test_only_the_newest_checkpoints_are_kept_and_those_of_receipts(store: Store, lease: Lease) -> None:
    judged = await store.add_checkpoint(lease, "base", patch("judged"))
    async with AsyncSession(store.engine) as session:
        session.add(
            ReceiptRow(episode_id="e1", attempt=1, verdict="Failed", evidence={}, document={}, checkpoint_id=judged)
        )
        await session.commit()
    made = [await store.add_checkpoint(lease, "base", patch(str(number))) for number in range(6)]
    assert await checkpoint_ids(store) == [judged, *made[-KEPT_CHECKPOINTS:]]
    newest = await store.checkpoint("t1")
    assert newest is not None
    assert (newest.id, newest.patch) == (made[-1], patch("5"))
