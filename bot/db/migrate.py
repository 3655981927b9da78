"""Brings a database to the newest schema."""

from __future__ import annotations

import asyncio
from pathlib import Path

SHIPPED = Path(__file__).parent / "migrations"
SOURCE = Path(__file__).parents[2] / "migrations"


async def upgrade(url: str, revision: str = "head") -> None:
    """Runs the migrations that are missing; running it again changes nothing."""
    await asyncio.to_thread(_upgrade, url, revision)


def _upgrade(url: str, revision: str) -> None:
    # Alembic takes 300 ms to import and is needed once, at start-up.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SHIPPED if SHIPPED.exists() else SOURCE))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(config, revision)
