"""The schema on disk is the schema in the code, on both databases."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

from bot.db import migrate


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


async def test_upgrading_twice_changes_nothing(database_url: str) -> None:
    await migrate.upgrade(database_url)
    await migrate.upgrade(database_url)
    engine = create_async_engine(database_url)
    async with engine.connect() as connection:
        assert await connection.run_sync(_drift) == []
    await engine.dispose()
