"""One database: its connections, its transactions, and the right to write for a task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlmodel import select
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.db.tables import TaskRow
from bot.domain.errors import LeaseLost
from bot.domain.task import Lease


class Database:
    """SQLite or Postgres by its URL. Close it when done."""

    def __init__(self, url: str) -> None:
        self.engine: AsyncEngine = create_async_engine(url)
        if self.engine.dialect.name == "sqlite":
            sqlalchemy_event.listen(self.engine.sync_engine, "connect", _sqlite_connect)
            sqlalchemy_event.listen(self.engine.sync_engine, "begin", _sqlite_begin)

    async def aclose(self) -> None:
        await self.engine.dispose()

    @asynccontextmanager
    async def _read(self) -> AsyncIterator[AsyncSession]:
        async with AsyncSession(self.engine) as session:
            yield session

    @asynccontextmanager
    async def _write(self, save_point: str) -> AsyncIterator[AsyncSession]:
        async with AsyncSession(self.engine, info={"save_point": save_point}) as session:
            await session.connection(execution_options={"writes": True})
            yield session
            await session.commit()

    async def _alone(self, session: AsyncSession, lock: int) -> None:
        """No other transaction that asks for the same lock runs until this one has ended."""
        if self.engine.dialect.name == "postgresql":  # on SQLite one that writes is alone anyway
            connection = await session.connection()
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})


def _sqlite_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver's own comes too late for IMMEDIATE
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


async def hold(session: AsyncSession, lease: Lease) -> None:
    """LeaseLost where the task was taken over; else nobody takes it over before the transaction has ended."""
    epoch = await session.exec(select(TaskRow.epoch).where(TaskRow.id == lease.task_id).with_for_update())
    if epoch.first() != lease.epoch:
        raise LeaseLost(f"Task {lease.task_id} was taken over.")
