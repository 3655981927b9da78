"""Fixtures that several folders of tests share."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from bot.db import migrate
from bot.db.store import Store
from tests import postgres

# No test fails because the machine is slow, and none by chance.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

_databases = itertools.count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres.cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'coder.db'}"
    server: str = request.getfixturevalue("postgres_url")
    name = f"test_{next(_databases)}"
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    await engine.dispose()
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """A migrated database of each kind."""
    await migrate.upgrade(database_url)
    store = Store(database_url)
    yield store
    await store.aclose()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest story begins first, so that the other worker does the rest beside it."""
    items.sort(key=lambda item: "test_kill" not in item.nodeid)


class _AtOnce:
    """Tells a failure when it happens, for whoever ends a long run early."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when})\n{report.longreprtext[-4000:]}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AtOnce(config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have to say beside passing, also where a worker's own output is not shown."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "says":
                    terminalreporter.write_line(str(value))
