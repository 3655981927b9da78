"""Deliveries from before they had subjects stay what they were."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from bot.db import migrate
from bot.db.store import Store
from bot.domain.event import Ignored


async def test_the_third_migration_keeps_old_deliveries_and_the_code_before_it_can_still_write(
    database_url: str,
) -> None:
    await migrate.upgrade(database_url, "0002")
    engine = create_async_engine(database_url)
    columns = "INSERT INTO deliveries (guid, name, payload, received_at, outcome) VALUES "
    payload = '{"kind": "ignored", "reason": "x"}'
    row = "(:guid, 'ping', :payload, '2026-01-01 00:00:00', 'decided')"
    async with engine.begin() as connection:
        await connection.execute(text(columns + row), {"guid": "a", "payload": payload})
    await migrate.upgrade(database_url)
    async with engine.begin() as connection:
        for guid in ("b", "c"):  # no subject is not the same subject
            await connection.execute(text(columns + row), {"guid": guid, "payload": payload})
    await engine.dispose()
    store = Store(database_url)
    try:
        now = datetime(2026, 1, 2, tzinfo=UTC)
        for guid in ("a", "b", "c"):
            delivery = await store.delivery(guid)
            assert delivery is not None
            assert (delivery.outcome, delivery.event) == ("decided", Ignored(reason="x"))
            assert not await store.accept(guid, "ping", Ignored(reason="x"), now=now)
    finally:
        await store.aclose()
