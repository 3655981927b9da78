"""Any provider held to the operator's limits: what asks for more is refused, and what finds no room waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import (
    WORKSPACE,
    Entry,
    ExecResult,
    Kind,
    Network,
    ProviderLimits,
    Sandbox,
    SandboxInfo,
    SandboxProvider,
    SandboxSpec,
    SnapshotInfo,
)

RESERVED_FOR: frozenset[str] = frozenset({"verify", "fetch"})
"""Kinds that end by themselves and let other work end: without room of their own, work that waits for its
verification would keep the room that verification waits for."""

MARGIN = timedelta(minutes=2)
"""How long after a sandbox's lifetime its provider has surely ended it."""


@dataclass(frozen=True, kw_only=True)
class PoolLimits:
    """What the operator allows: sandboxes running at once over all processes, how many of those are only for
    `RESERVED_FOR`, seconds of life and of one command, bytes of disk, kinds of network. `origins` are the hosts that
    repositories are cloned from; they may be reached in any case."""

    at_once: int
    reserved: int
    lifetime_s: int
    exec_s: int
    disk: int
    networks: frozenset[Network]
    origins: frozenset[str] = frozenset()

    def fits(self, running: Sequence[str], kind: str) -> bool:
        """Whether there is room for one more of that kind beside these."""
        if len(running) >= self.at_once:
            return False
        common = sum(each not in RESERVED_FOR for each in running)
        return kind in RESERVED_FOR or common < self.at_once - self.reserved


class PoolFull(SandboxError):
    """All sandboxes that may run at once do; nothing was asked of the provider."""

    def __init__(self, kind: str, in_use: int, at_once: int) -> None:
        super().__init__(
            "limit_exceeded",
            f"No sandbox of kind {kind} is free: {in_use} of {at_once} are in use (CODER_MAX_SANDBOXES, of which "
            "CODER_RESERVED_SANDBOXES are kept for verification).",
            retryable=True,
        )
        self.in_use = in_use


class Slots(Protocol):
    """The rights to run, counted over all processes."""

    async def take_slot(
        self,
        name: str,
        kind: str,
        *,
        sandbox_id: str | None,
        fits: Callable[[Sequence[str]], bool],
        now: datetime,
        expires_at: datetime,
    ) -> int | None:
        """Gives a sandbox the right to run if it `fits` beside the kinds that do, or renews the one that it has by
        its name or id; None where that was done, else how many are in use. One at a time over all processes."""
        ...

    async def fill_slot(self, name: str, sandbox_id: str) -> None: ...

    async def extend_slot(self, sandbox_id: str, expires_at: datetime) -> None: ...

    async def free_slot(self, key: str) -> bool:
        """The sandbox of that name or id runs no more. Whether it held a slot."""
        ...

    async def used_slots(self, now: datetime) -> Sequence[str]:
        """The kinds that hold one."""
        ...


class PooledProvider:
    """A `SandboxProvider` around another one; `on_free` is called when a slot became free in this process."""

    def __init__(
        self,
        provider: SandboxProvider,
        slots: Slots,
        limits: PoolLimits,
        *,
        clock: Callable[[], datetime],
        on_free: Callable[[], None],
    ) -> None:
        self._provider = provider
        self._slots = slots
        self._limits = limits
        self._clock = clock
        self._on_free = on_free

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def limits(self) -> ProviderLimits:
        own, theirs = self._limits, self._provider.limits
        return ProviderLimits(
            lifetime_s=own.lifetime_s,
            at_once=own.at_once,
            networks=own.networks & theirs.networks,
            disk_quota=theirs.disk_quota,
        )

    async def has_room(self, kind: Kind) -> bool:
        """Whether one more of that kind could start now; only `create` and `connect` make sure of it."""
        return self._limits.fits(await self._slots.used_slots(self._clock()), kind)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """As the provider does; before it is asked, `limit_exceeded` for more than the limits allow and PoolFull
        where there is no room."""
        self._within(spec.lifetime_s)
        if spec.disk > self._limits.disk:
            raise SandboxError(
                "limit_exceeded",
                f"A sandbox may hold {self._limits.disk} bytes, not {spec.disk}; see CODER_MAX_DISK.",
            )
        await self._take(spec.name, spec.kind, None, spec.lifetime_s)
        try:
            sandbox = await self._provider.create(spec)
        except SandboxError as exc:
            if exc.reason not in ("unknown_outcome", "unreachable"):
                await self._free(spec.name)
            raise  # one that may have been made keeps its slot; the reaper looks for it
        try:
            await self._slots.fill_slot(spec.name, sandbox.id)
        except BaseException:
            await sandbox.aclose()
            await self._provider.kill(sandbox.id)  # nobody else knows of it
            raise
        return _PooledSandbox(self, sandbox)

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> Sandbox:
        self._within(lifetime_s)
        # Only work is ever resumed; one that runs has its slot already, which this renews.
        await self._take(sandbox_id, "work", sandbox_id, lifetime_s)
        try:
            sandbox = await self._provider.connect(sandbox_id, lifetime_s=lifetime_s, epoch=epoch)
        except SandboxError as exc:
            if exc.reason == "gone":
                await self._free(sandbox_id)
            raise
        return _PooledSandbox(self, sandbox)

    async def kill(self, sandbox_id: str) -> None:
        await self._provider.kill(sandbox_id)
        await self._free(sandbox_id)

    async def list(self, *, task: str | None = None) -> list[SandboxInfo]:
        return await self._provider.list(task=task)

    async def snapshot(self, sandbox_id: str) -> SnapshotInfo:
        made = await self._provider.snapshot(sandbox_id)
        await self._free(sandbox_id)
        return made

    async def snapshots(self) -> Sequence[SnapshotInfo]:
        return await self._provider.snapshots()

    async def drop_snapshot(self, snapshot_id: str) -> None:
        await self._provider.drop_snapshot(snapshot_id)

    async def image_id(self, image: str) -> str:
        return await self._provider.image_id(image)

    async def aclose(self) -> None:
        await self._provider.aclose()

    def _within(self, lifetime_s: int) -> None:
        if lifetime_s > self._limits.lifetime_s:
            raise SandboxError(
                "limit_exceeded",
                f"A sandbox may live {self._limits.lifetime_s} seconds, not {lifetime_s}; see CODER_MAX_LIFETIME.",
            )

    async def _take(self, name: str, kind: Kind, sandbox_id: str | None, lifetime_s: int) -> None:
        now = self._clock()
        in_use = await self._slots.take_slot(
            name,
            kind,
            sandbox_id=sandbox_id,
            fits=lambda running: self._limits.fits(running, kind),
            now=now,
            expires_at=now + timedelta(seconds=lifetime_s) + MARGIN,
        )
        if in_use is not None:
            raise PoolFull(kind, in_use, self._limits.at_once)

    async def _extend(self, sandbox: Sandbox, lifetime_s: int) -> None:
        self._within(lifetime_s)
        await self._slots.extend_slot(sandbox.id, self._clock() + timedelta(seconds=lifetime_s) + MARGIN)
        await sandbox.extend(lifetime_s)

    async def _free(self, key: str) -> None:
        if await self._slots.free_slot(key):
            self._on_free()


class _PooledSandbox:
    """A sandbox whose slot and limits are minded."""

    def __init__(self, pool: PooledProvider, sandbox: Sandbox) -> None:
        self._pool = pool
        self._sandbox = sandbox

    @property
    def id(self) -> str:
        return self._sandbox.id

    @property
    def proxy_env(self) -> Mapping[str, str]:
        return self._sandbox.proxy_env

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        return self._sandbox.refused_hosts

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = WORKSPACE,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float,
        trusted_status: bool = False,
    ) -> ExecResult:
        """A longer time-out than the operator allows is cut to that."""
        return await self._sandbox.exec(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_s=min(timeout_s, self._pool._limits.exec_s),
            trusted_status=trusted_status,
        )

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await self._sandbox.read(path, max_bytes=max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._sandbox.write(path, content, mode=mode)

    async def list(self, path: str) -> list[Entry]:
        return await self._sandbox.list(path)

    async def remove(self, path: str) -> None:
        await self._sandbox.remove(path)

    async def allow(self, hosts: frozenset[str]) -> None:
        """`permission_denied`, before anything is asked, where the operator lets sandboxes reach nothing."""
        limits = self._pool._limits
        if not hosts <= limits.origins and "allowlist" not in limits.networks:
            raise SandboxError(
                "permission_denied",
                "Whoever runs this bot gives sandboxes no network (CODER_NETWORK is `none`); the repository's config "
                "asks for one under `network`, or its set-up needs one.",
            )
        await self._sandbox.allow(hosts)

    async def extend(self, lifetime_s: int) -> None:
        await self._pool._extend(self._sandbox, lifetime_s)

    async def pause(self) -> None:
        try:
            await self._sandbox.pause()
        except SandboxError as exc:
            if exc.reason == "gone":
                await self._pool._free(self.id)
            raise
        await self._pool._free(self.id)

    async def aclose(self) -> None:
        await self._sandbox.aclose()
