"""The pool around real containers and a real database: who gets a slot, when it is free again, what is refused."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.db import migrate
from bot.db.store import Store
from bot.domain.errors import SandboxError
from bot.sandbox.docker import DockerProvider
from bot.sandbox.pool import MARGIN, PooledProvider, PoolFull, PoolLimits
from bot.sandbox.protocol import Kind, SandboxSpec
from tests.stories.harness import IMAGE, engine_objects

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = PoolLimits(
    at_once=2, reserved=1, lifetime_s=600, exec_s=60, disk=2**30, networks=frozenset({"none", "allowlist"})
)


class Pool:
    """A pool of its own deployment; `freed` counts what `on_free` was told."""

    def __init__(self, docker: DockerProvider, store: Store) -> None:
        self.docker = docker
        self.store = store
        self.freed = 0
        self.now = NOW

    def of(self, limits: PoolLimits = LIMITS) -> PooledProvider:
        def on_free() -> None:
            self.freed += 1

        return PooledProvider(self.docker, self.store, limits, clock=lambda: self.now, on_free=on_free)

    async def held(self) -> list[tuple[str, str | None]]:
        return sorted((slot.name, slot.sandbox_id) for slot in await self.store.slots())


@asynccontextmanager
async def docker_of(deployment: str, folder: Path) -> AsyncIterator[DockerProvider]:
    docker = DockerProvider(deployment=deployment, egress_dir=folder / deployment)
    try:
        yield docker
    finally:
        for info in await docker.list():
            await docker.kill(info.id)
        await docker.aclose()
        assert await engine_objects(deployment) == []


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    folder = Path(tempfile.mkdtemp(prefix="coder-"))
    url = f"sqlite+aiosqlite:///{folder / 'coder.db'}"
    await migrate.upgrade(url)
    store = Store(url)
    try:
        async with docker_of(f"pool-{secrets.token_hex(4)}", folder) as docker:
            yield Pool(docker, store)
    finally:
        await store.aclose()
        shutil.rmtree(folder, ignore_errors=True)


def spec(name: str = "a", kind: Kind = "work") -> SandboxSpec:
    return SandboxSpec(
        name=name, kind=kind, task="t", image=IMAGE, lifetime_s=300, memory=128 * 2**20, cpus=0.5, disk=2**28
    )


async def test_a_slot_is_held_from_creation_to_the_end(pool: Pool) -> None:
    provider = pool.of()
    sandbox = await provider.create(spec())
    assert await pool.held() == [("a", sandbox.id)]
    [slot] = await pool.store.slots()
    assert slot.expires_at == NOW + timedelta(seconds=300) + MARGIN
    await sandbox.aclose()
    await provider.kill(sandbox.id)
    await provider.kill(sandbox.id)
    assert (await pool.held(), pool.freed) == ([], 1)


async def test_a_full_pool_asks_nothing_of_the_provider_and_says_how_many_are_in_use(pool: Pool) -> None:
    provider = pool.of()
    work = await provider.create(spec())
    assert not await provider.has_room("work")
    assert await provider.has_room("verify")
    with pytest.raises(PoolFull, match="1 of 2 are in use") as full:
        await provider.create(spec("b"))
    assert (full.value.reason, full.value.retryable, full.value.in_use) == ("limit_exceeded", True, 1)
    assert [info.id for info in await pool.docker.list()] == [work.id]
    verification = await provider.create(spec("v", "verify"))
    assert not await provider.has_room("verify")
    await verification.aclose()
    await work.aclose()


async def test_a_paused_sandbox_holds_no_slot_and_takes_one_to_go_on(pool: Pool) -> None:
    provider = pool.of()
    first = await provider.create(spec())
    await first.write("note", b"kept")
    await first.pause()
    await first.aclose()
    assert (await pool.held(), pool.freed) == ([], 1)
    second = await provider.create(spec("b"))
    with pytest.raises(PoolFull):
        await provider.connect(first.id, lifetime_s=300)
    assert [info.running for info in await pool.docker.list() if info.id == first.id] == [False]
    await second.pause()
    await second.aclose()
    again = await provider.connect(first.id, lifetime_s=300)
    assert await again.read("note", max_bytes=10) == b"kept"
    assert await pool.held() == [(first.id, first.id)]
    await again.aclose()


async def test_connecting_to_what_runs_takes_no_second_slot_and_extending_renews_it(pool: Pool) -> None:
    provider = pool.of()
    sandbox = await provider.create(spec())
    await sandbox.aclose()
    pool.now += timedelta(seconds=100)
    again = await provider.connect(sandbox.id, lifetime_s=300)
    assert await pool.held() == [("a", sandbox.id)]
    await again.extend(600)
    [slot] = await pool.store.slots()
    assert slot.expires_at == pool.now + timedelta(seconds=600) + MARGIN
    await again.aclose()


async def test_a_creation_that_failed_or_a_sandbox_that_is_gone_holds_no_slot(pool: Pool) -> None:
    provider = pool.of()
    with pytest.raises(SandboxError, match="no image"):
        await provider.create(replace(spec(), image="coder-bot/none:0"))
    assert await pool.held() == []
    sandbox = await provider.create(spec())
    await sandbox.aclose()
    await pool.docker.kill(sandbox.id)  # behind the pool's back
    with pytest.raises(SandboxError) as gone:
        await provider.connect(sandbox.id, lifetime_s=300)
    assert (gone.value.reason, await pool.held()) == ("gone", [])


async def test_a_creation_that_nobody_knows_the_outcome_of_keeps_its_slot(pool: Pool) -> None:
    provider = pool.of()
    making = asyncio.create_task(provider.create(spec()))
    while not await pool.held():
        await asyncio.sleep(0)
    making.cancel()
    await asyncio.wait([making])
    assert await pool.held() == [("a", None)]
    sandbox = await provider.create(spec())  # the next attempt of the same stage renews it
    assert await pool.held() == [("a", sandbox.id)]
    await sandbox.aclose()


REFUSED: dict[str, Callable[[SandboxSpec], SandboxSpec]] = {
    "CODER_MAX_LIFETIME": lambda asked: replace(asked, lifetime_s=601),
    "CODER_MAX_DISK": lambda asked: replace(asked, disk=2**30 + 1),
}


@pytest.mark.parametrize("setting", REFUSED)
async def test_what_is_asked_beyond_the_limits_is_refused_before_the_provider_is_called(
    pool: Pool, setting: str
) -> None:
    with pytest.raises(SandboxError, match=setting) as refused:
        await pool.of().create(REFUSED[setting](spec()))
    assert (refused.value.reason, refused.value.retryable) == ("limit_exceeded", False)
    assert (await pool.held(), await pool.docker.list()) == ([], [])


async def test_a_longer_life_is_refused_later_too(pool: Pool) -> None:
    provider = pool.of()
    sandbox = await provider.create(spec())
    for asking in (sandbox.extend(601), provider.connect(sandbox.id, lifetime_s=601)):
        with pytest.raises(SandboxError, match="CODER_MAX_LIFETIME"):
            await asking
    await sandbox.aclose()


async def test_a_network_that_is_not_allowed_is_refused_before_the_provider_is_called(pool: Pool) -> None:
    limits = replace(LIMITS, networks=frozenset({"none"}), origins=frozenset({"git.test"}))
    sandbox = await pool.of(limits).create(spec())
    with pytest.raises(SandboxError, match="CODER_NETWORK") as refused:
        await sandbox.allow(frozenset({"git.test", "example.test"}))
    assert refused.value.reason == "permission_denied"
    await sandbox.allow(frozenset({"git.test"}))
    await sandbox.allow(frozenset())
    await sandbox.aclose()


async def test_no_command_runs_longer_than_the_operator_allows(pool: Pool) -> None:
    sandbox = await pool.of(replace(LIMITS, exec_s=1)).create(spec())
    result = await sandbox.exec(["sleep", "600"], timeout_s=600)
    assert result.timed_out
    await sandbox.aclose()
