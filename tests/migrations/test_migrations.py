"""The schema on disk is the schema in the code, on both databases."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

from bot.db import migrate
from bot.db.store import Store


def _drift(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, SQLModel.metadata))


async def test_after_all_migrations_the_database_has_exactly_the_tables_of_the_code(database_url: str) -> None:
    await migrate.upgrade(database_url)
    engine = create_async_engine(database_url)
    async with engine.connect() as connection:
        drift = await connection.run_sync(_drift)
    await engine.dispose()
    assert drift == []


async def test_the_second_migration_keeps_what_the_first_schema_held(database_url: str) -> None:
    await migrate.upgrade(database_url, "0001")
    engine = create_async_engine(database_url)
    moments = dict.fromkeys(("requested_at", "created_at", "updated_at"), "'2026-01-01 00:00:00'")
    texts = dict.fromkeys(
        ("owner", "name", "clone_url", "title", "body", "author", "requester", "base_branch", "base_sha"), "'x'"
    )
    values = {
        "id": "'t1'",
        "state": "'working'",
        **dict.fromkeys(("epoch", "installation_id", "repository_id", "number"), "7"),
        **moments,
        **texts,
    }
    async with engine.begin() as connection:
        await connection.execute(
            text(f"INSERT INTO tasks ({', '.join(values)}) VALUES ({', '.join(values.values())})")
        )
        made = "INSERT INTO sandboxes (name, task_id, kind, provider, provider_id, image_id, ready) VALUES "
        await connection.execute(text(made + "('a', 't1', 'work', 'docker', 'id-a', '', true)"))
    await engine.dispose()
    await migrate.upgrade(database_url)
    store = Store(database_url)
    try:
        task = await store.task("t1")
        assert (task.number, task.needs_slot) == (7, False)
        [sandbox] = await store.sandboxes("t1")
        assert (sandbox.provider_id, sandbox.snapshot_id) == ("id-a", None)
    finally:
        await store.aclose()


async def test_upgrading_twice_changes_nothing(database_url: str) -> None:
    await migrate.upgrade(database_url)
    await migrate.upgrade(database_url)
    engine = create_async_engine(database_url)
    async with engine.connect() as connection:
        assert await connection.run_sync(_drift) == []
    await engine.dispose()
