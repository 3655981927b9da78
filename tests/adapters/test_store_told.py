"""What the database promises about what people were told, on SQLite and on Postgres."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.store import Store
from bot.db.tables import TaskRow
from bot.db.told import DOUBT
from bot.domain.errors import LeaseLost
from bot.domain.task import Lease, State
from tests.adapters.test_store_sandboxes import NOW, lease
from tests.domain.test_task import EVENT

__all__ = ["lease"]


async def test_nobody_knows_what_people_read_between_the_two_ends_of_an_edit(store: Store, lease: Lease) -> None:
    assert await store.telling("t1") is None
    assert await store.begin_telling("t1", now=NOW, lease=lease)
    begun = await store.telling("t1")
    assert begun is not None
    assert (begun.edits, begun.gist, begun.digest, begun.edited_at, begun.again_at) == (1, "", None, NOW, None)
    await store.end_telling("t1", gist="working", digest="abc")
    ended = replace(begun, gist="working", digest="abc")
    assert await store.tellings() == {"t1": ended}
    later = NOW + timedelta(minutes=1)
    assert await store.begin_telling("t1", now=later)
    assert await store.telling("t1") == replace(begun, edits=2, edited_at=later)


async def test_what_was_told_beside_a_lost_edit_is_told_once_more(store: Store, lease: Lease) -> None:
    await store.begin_telling("t1", now=NOW)
    await store.begin_telling("t1", now=NOW)
    await store.end_telling("t1", gist="done", digest="abc")
    doubtful = await store.telling("t1")
    assert doubtful is not None
    assert doubtful.again_at == NOW + DOUBT
    await store.begin_telling("t1", now=NOW + DOUBT / 2)
    await store.end_telling("t1", gist="done", digest="abc")
    still = await store.telling("t1")
    assert still is not None
    assert still.again_at == NOW + DOUBT
    await store.begin_telling("t1", now=NOW + DOUBT)
    sure = await store.telling("t1")
    assert sure is not None
    assert sure.again_at is None


async def test_who_is_late_tells_nothing(store: Store, lease: Lease) -> None:
    assert not await store.begin_telling("t1", now=NOW, edits=1)
    assert await store.begin_telling("t1", now=NOW, edits=0)
    assert not await store.begin_telling("t1", now=NOW, edits=0)
    assert await store.begin_telling("t1", now=NOW, edits=1)
    await store.lease("t1")
    with pytest.raises(LeaseLost):
        await store.begin_telling("t1", now=NOW, lease=lease)
    seen = await store.telling("t1")
    assert seen is not None
    assert seen.edits == 2


async def test_the_queue_is_told_by_who_has_waited_longer_for_the_same(store: Store, lease: Lease) -> None:
    waits = [
        (State.QUEUED, True, -1),
        (State.WORKING, True, -2),
        (State.QUEUED, True, 1),
        (State.QUEUED, False, -1),
        (State.VERIFYING, True, -1),
        (State.WAITING, True, -1),
    ]
    async with AsyncSession(store.engine) as session:
        mine = (await session.get_one(TaskRow, "t1")).model_dump()
        for number, (state, needs, minutes) in enumerate(waits, start=100):
            at = NOW + timedelta(minutes=minutes)
            other = {"id": f"x{number}", "number": number, "state": state, "needs_slot": needs, "updated_at": at}
            session.add(TaskRow(**{**mine, **other}))
        await session.commit()
    task = await store.task("t1")
    assert await store.waiting_longer(task) == 2
    assert await store.waiting_longer(replace(task, state=State.VERIFYING)) == 1


async def test_a_comment_is_found_where_it_was_made(store: Store) -> None:
    event = replace(EVENT, number=9)
    await store.accept("g1", "issue_comment", event, now=NOW)
    assert await store.conversation_of(event.comment_id) == 9
    assert await store.conversation_of(event.comment_id + 1) is None
