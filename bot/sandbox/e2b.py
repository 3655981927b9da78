"""Sandboxes on E2B, by its own SDK."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
import random
import re
import secrets
import time
import weakref
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from bot.domain.errors import SandboxError
from bot.sandbox.e2b_api import CALL_S, SLOW_S, E2BApi, NotThere, Refusal
from bot.sandbox.e2b_network import EVERYTHING, Network, rules
from bot.sandbox.e2b_sandbox import BASE, E2BSandbox, superseded
from bot.sandbox.hosts import Host
from bot.sandbox.protocol import Kind, ProviderLimits, SandboxInfo, SandboxSpec, SnapshotInfo
from bot.sandbox.to_the_end import to_the_end

if TYPE_CHECKING:
    import e2b
    from e2b import AsyncSandbox

Plan = Literal["hobby", "pro"]

CREATE_S = 120.0
"""How long a sandbox is tried to be made where the service says to come back later, or does not say anything."""

_LIFETIME_S: Mapping[Plan, int] = {"hobby": 3600, "pro": 24 * 3600}
_AT_ONCE: Mapping[Plan, int] = {"hobby": 20, "pro": 100}
_CREATES_PER_S: Mapping[Plan, float] = {"hobby": 1.0, "pro": 5.0}

_PAUSES: tuple[Literal["filesystem"], Literal["full"]] = ("filesystem", "full")
"""Not every account may have a file system alone; with memory, what ran is ended before and after."""

_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TEMPLATE = re.compile(r"(?=.{1,128}\Z)([a-z0-9][a-z0-9_-]*/)?[a-z0-9][a-z0-9_-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
_SNAPSHOT = re.compile(r"(?=.{1,256}\Z)[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9_-]+)?(:[A-Za-z0-9_.-]+)?")

_log = logging.getLogger(__name__)


class E2BProvider:
    """Sandboxes of the account that `api_key` belongs to, within what its `plan` allows.

    `deployment` sets this bot's sandboxes apart from any other's in the same account. `spec.image` is the name of a
    template, which also settles memory and processors: `scripts/e2b-template` makes the bot's own. `api_url` and
    `sandbox_url` are those of a service that speaks as E2B does. `private_hosts` are the addresses inside the
    operator's networks that an allow-list may name; E2B itself reaches none. Making a provider does no I/O.
    """

    def __init__(
        self,
        *,
        deployment: str,
        api_key: str,
        plan: Plan = "hobby",
        api_url: str | None = None,
        sandbox_url: str | None = None,
        private_hosts: frozenset[str] = frozenset(),
    ) -> None:
        self.api = E2BApi(api_key=api_key, api_url=api_url, sandbox_url=sandbox_url)
        self._deployment = deployment
        self._plan: Plan = plan
        self._private = tuple(Host.parse(text) for text in sorted(private_hosts))
        self._snapshot_prefix = f"coder-{_digest(deployment)}-"
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._next_create = 0.0

    @property
    def name(self) -> str:
        return "e2b"

    @property
    def limits(self) -> ProviderLimits:
        return ProviderLimits(lifetime_s=_LIFETIME_S[self._plan], at_once=_AT_ONCE[self._plan], disk_quota=False)

    async def aclose(self) -> None:
        """Nothing to let go of: the SDK's connections are the process's."""

    async def image_id(self, image: str) -> str:
        """The id of the template's build: a template's name may come to mean another build, a build never changes."""
        if not _TEMPLATE.fullmatch(image):
            raise SandboxError("invalid_config", f"{image[:200]!r} is not the name of a template.")
        bare, _, tag = image.partition(":")
        try:
            tags = await self.api.call(lambda: self.api.sdk.AsyncTemplate.get_tags(bare, request_timeout=CALL_S))
        except (Refusal, NotThere) as exc:
            raise _no_template(image) from exc
        for known in tags:
            if known.tag == (tag or "default"):
                return str(known.build_id)
        raise _no_template(image)

    async def create(self, spec: SandboxSpec) -> E2BSandbox:
        self.check_lifetime(spec.lifetime_s)
        template = spec.image
        if spec.snapshot is None:
            await self.image_id(template)
        else:
            template = spec.snapshot
            if template not in [known.id for known in await self.snapshots()]:
                raise SandboxError("gone", "A snapshot to start from no longer exists.")
        await self._make_room(spec)
        made = secrets.token_hex(16)
        try:
            raw = await self._make(spec, template, made)
        except (SandboxError, asyncio.CancelledError):
            # It may have been made all the same. What appears later still, the reaper finds by its labels.
            await to_the_end(self._discard({"coder-bot.made": made}))
            raise
        try:
            return await self._set_up(raw, spec, made)
        except (SandboxError, asyncio.CancelledError):
            await to_the_end(self._discard({"coder-bot.made": made}))
            raise

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> E2BSandbox:
        self.check_lifetime(lifetime_s)
        async with self.lock(sandbox_id):
            info = await self.find(sandbox_id, patient=True)
            resumed = info.state.value == "paused"
            raw = await self.resume_raw(sandbox_id, lifetime_s)
            sandbox = E2BSandbox(self, raw, epoch=epoch)
            await self._check_marker(sandbox, info.metadata.get("coder-bot.made", ""))
            answer = await sandbox.install("connect", {"epoch": epoch, "resumed": resumed})
            if answer["state"] == "refused":
                raise superseded(sandbox_id)
            # Only now: who may not connect changes nothing.
            await self.set_network(raw, rules(frozenset(), ()))
            sandbox.begin(env=answer["env"], disk=answer["disk"])
            return sandbox

    async def kill(self, sandbox_id: str) -> None:
        async with self.lock(sandbox_id):
            try:
                await self.find(sandbox_id)
            except SandboxError as exc:
                if exc.reason == "gone":
                    return
                raise
            await self._kill(sandbox_id)

    async def list(self, *, task: str | None = None) -> list[SandboxInfo]:
        return sorted(
            (
                SandboxInfo(
                    id=info.sandbox_id,
                    kind=_kind(info.metadata),
                    task=info.metadata.get("coder-bot.task", ""),
                    running=info.state.value == "running",
                )
                for info in await self._ours({} if task is None else {"coder-bot.task": task})
            ),
            key=lambda info: info.id,
        )

    async def snapshot(self, sandbox_id: str) -> SnapshotInfo:
        async with self.lock(sandbox_id):
            info = await self.find(sandbox_id)
            raw = await self.resume_raw(sandbox_id, 600)
            sandbox = E2BSandbox(self, raw, epoch=None)
            await self._check_marker(sandbox, info.metadata.get("coder-bot.made", ""))
            await sandbox.install("settle", {"epoch": None})
            name = self._snapshot_prefix + secrets.token_hex(8)
            made = await self._snapshot_raw(sandbox_id, name)
            # A crash before this leaves both; the caller's record counts, and both are listed.
            await self._kill(sandbox_id)
            return SnapshotInfo(id=made, size=None)

    async def snapshots(self) -> Sequence[SnapshotInfo]:
        return [
            SnapshotInfo(id=known.snapshot_id, size=None)
            for known in await self.api.snapshots()
            if any(self._snapshot_prefix in name for name in known.names)
        ]

    async def drop_snapshot(self, snapshot_id: str) -> None:
        if not _SNAPSHOT.fullmatch(snapshot_id) or snapshot_id not in [one.id for one in await self.snapshots()]:
            return
        in_use = SandboxError("limit_exceeded", "A snapshot is kept as long as a sandbox lives on it.")
        if await self._ours({"coder-bot.snapshot": snapshot_id}):
            raise in_use
        try:
            await self.api.call(
                lambda: self.api.sdk.AsyncSandbox.delete_snapshot(snapshot_id, request_timeout=CALL_S), changes=True
            )
        except NotThere:
            return
        except Refusal as exc:
            raise in_use from exc

    # How they are made

    def check_lifetime(self, lifetime_s: int) -> None:
        most = _LIFETIME_S[self._plan]
        if lifetime_s > most:
            raise SandboxError(
                "limit_exceeded",
                f"A sandbox can't live for {lifetime_s} s: on E2B's plan {self._plan} it is {most} s at most.",
            )
        if lifetime_s < 1:
            raise SandboxError("invalid_input", "A sandbox lives for one second at least.")

    async def _make_room(self, spec: SandboxSpec) -> None:
        running = 0
        for info in await self._ours({}):
            if info.metadata.get("coder-bot.name") == spec.name:
                await self.kill(info.sandbox_id)
            elif info.state.value == "running":
                running += 1
        if running >= _AT_ONCE[self._plan]:
            raise SandboxError(
                "limit_exceeded",
                f"{running} sandboxes run, and E2B's plan {self._plan} allows no more at once: lower "
                "CODER_MAX_SANDBOXES, or wait for one to end.",
                retryable=True,
            )

    async def _make(self, spec: SandboxSpec, template: str, made: str) -> AsyncSandbox:
        """One sandbox, however often the service has to be asked."""
        give_up = time.monotonic() + CREATE_S
        pause = 1.0
        mode: Literal["filesystem", "full"] = "filesystem"
        while True:
            await self._pace()
            try:
                return await self._create_raw(spec, template, made, mode)
            except NotThere as exc:
                raise _no_template(spec.image) from exc
            except Refusal as exc:
                if exc.status == 400 and spec.kind == "work" and mode == "filesystem":
                    # Not every account may pause a file system alone; with memory, connecting ends what ran.
                    mode = "full"
                    continue
                if exc.status == 404:
                    raise _no_template(spec.image) from exc
                raise SandboxError("invalid_config", f"E2B refuses to make a sandbox of {spec.image}.") from exc
            except SandboxError as exc:
                if exc.reason not in ("rate_limited", "unknown_outcome") or time.monotonic() > give_up:
                    raise
                if exc.reason == "unknown_outcome":
                    adopted = await self._adopt(spec, made)
                    if adopted:
                        return adopted
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads calls, keeps no secret
            pause = min(pause * 2, 20.0)

    async def _create_raw(self, spec: SandboxSpec, template: str, made: str, mode: str) -> AsyncSandbox:
        labels = {
            "coder-bot.deployment": self._deployment,
            "coder-bot.task": spec.task,
            "coder-bot.kind": spec.kind,
            "coder-bot.name": spec.name,
            "coder-bot.made": made,
            **({"coder-bot.snapshot": spec.snapshot} if spec.snapshot else {}),
        }
        at_end: Any = {"action": "pause", "mode": mode} if spec.kind == "work" else "kill"
        return await self.api.call(
            lambda: self.api.sdk.AsyncSandbox.create(
                template,
                timeout=spec.lifetime_s,
                metadata=labels,
                envs={},
                network={
                    "allow_out": [],
                    "deny_out": [EVERYTHING],
                    "dns_servers": [],
                    "allow_public_traffic": False,
                },
                lifecycle={"on_timeout": at_end, "auto_resume": False},
                # Of this very call: under the name alone, a sandbox that has ended since might be answered.
                idempotency_key=f"{_digest(spec.name)}-{made}",
                request_timeout=SLOW_S,
                retries=0,
            ),
            limit_s=SLOW_S,
            changes=True,
        )

    async def _adopt(self, spec: SandboxSpec, made: str) -> AsyncSandbox | None:
        """What a call without an answer has made."""
        found = await self._ours({"coder-bot.made": made})
        for surplus in found[1:]:
            await self._kill(surplus.sandbox_id)
        return await self.resume_raw(found[0].sandbox_id, spec.lifetime_s) if found else None

    async def _set_up(self, raw: AsyncSandbox, spec: SandboxSpec, made: str) -> E2BSandbox:
        sandbox = E2BSandbox(self, raw, epoch=spec.epoch)
        info = await self.find(sandbox.id, patient=True)
        network = info.network or {}
        if EVERYTHING not in (network.get("deny_out") or []) or network.get("allow_out"):
            raise SandboxError(
                "invalid_config", "This service does not keep a sandbox offline when told to: it can't be used."
            )
        if info.memory_mb * 1024**2 < spec.memory or info.cpu_count < spec.cpus:
            _log.info("sandbox %s: its template has less memory or processors than was asked for", sandbox.id)
        answer = await sandbox.install(
            "setup",
            {"marker": f"{sandbox.id} {made}", "epoch": spec.epoch, "env": dict(spec.env), "disk": spec.disk},
            first=True,
        )
        if answer["state"] != "ready":
            raise SandboxError(
                "invalid_config",
                f"The template {spec.image} can't hold a sandbox: it needs python3 of 3.9 or later, and a folder at "
                "/workspace or none. `scripts/e2b-template` makes one that can.",
            )
        sandbox.begin(env=spec.env, disk=spec.disk)
        return sandbox

    async def _pace(self) -> None:
        now = time.monotonic()
        at = max(now, self._next_create)
        self._next_create = at + 1 / _CREATES_PER_S[self._plan]
        await asyncio.sleep(at - now)

    async def _discard(self, labels: Mapping[str, str]) -> None:
        with contextlib.suppress(SandboxError):  # the error that led here is the one to tell
            for info in await self._ours(labels):
                await self._kill(info.sandbox_id)

    # How they are found and changed

    def lock(self, sandbox_id: str) -> asyncio.Lock:
        """Held by whoever connects, pauses, extends, snapshots or kills."""
        return self._locks.setdefault(sandbox_id, asyncio.Lock())

    async def find(self, sandbox_id: str, *, patient: bool = False) -> e2b.SandboxInfo:
        """`gone` where it isn't, or isn't ours. Right after a pause, the service may not find it for a moment:
        `patient` asks again."""
        pauses = [0.3, 0.7, 1.5] if patient else []
        while _ID.fullmatch(sandbox_id):
            try:
                info = await self.api.info(sandbox_id)
            except NotThere:
                if not pauses:
                    break
                await asyncio.sleep(pauses.pop(0))
            except Refusal as exc:
                raise SandboxError("unreachable", "E2B could not say what became of a sandbox.") from exc
            else:
                if info.metadata.get("coder-bot.deployment") != self._deployment:
                    break
                return info
        raise SandboxError("gone", f"Sandbox {sandbox_id[:100]!r} no longer exists.")

    async def must_run(self, sandbox_id: str) -> None:
        """`gone`, or `limit_exceeded` where it is paused."""
        info = await self.find(sandbox_id, patient=True)
        if info.state.value == "paused":
            raise SandboxError(
                "limit_exceeded",
                f"Sandbox {sandbox_id} does not run: it was paused, or its lifetime is over. Connecting resumes it.",
            )

    async def _ours(self, labels: Mapping[str, str]) -> Sequence[e2b.SandboxInfo]:
        return await self.api.list({"coder-bot.deployment": self._deployment, **labels})

    async def resume_raw(self, sandbox_id: str, lifetime_s: int) -> AsyncSandbox:
        """Running, whatever it was before. A pause that has not ended yet is waited for; where memory can't be
        restored, it is left behind."""
        how: Literal["restore", "reboot"] = "restore"
        for pause in (0.5, 1.0, 2.0, 4.0):
            resume = functools.partial(
                self.api.sdk.AsyncSandbox.connect,
                sandbox_id,
                timeout=lifetime_s,
                on_resume=how,
                request_timeout=SLOW_S,
            )
            try:
                raw: AsyncSandbox = await self.api.call(resume, limit_s=SLOW_S)
            except NotThere:
                await self.find(sandbox_id, patient=True)
            except Refusal as exc:
                if exc.status != 409:
                    raise SandboxError("unreachable", f"E2B does not resume sandbox {sandbox_id}.") from exc
                how = "reboot"
            else:
                if raw.sandbox_id != sandbox_id:
                    _log.warning("sandbox %s: the service answered with another one", sandbox_id)
                    raise SandboxError("gone", f"Sandbox {sandbox_id} no longer exists as it was.")
                return raw
            await asyncio.sleep(pause)
        raise SandboxError("unreachable", f"E2B does not resume sandbox {sandbox_id} now.", retryable=True)

    async def _check_marker(self, sandbox: E2BSandbox, made: str) -> None:
        try:
            found = await sandbox.there(lambda: self.api.download(sandbox.raw, f"{BASE}/marker"))
        except FileNotFoundError:
            found = b""
        if not made or found != f"{sandbox.id} {made}".encode():
            _log.warning("sandbox %s: it is not in the state in which it was left", sandbox.id)
            raise SandboxError("gone", f"Sandbox {sandbox.id} has lost its files.")

    async def pause_raw(self, sandbox_id: str) -> None:
        """Without its memory, where the account may do that."""
        for mode in _PAUSES:
            pause = functools.partial(self.api.sdk.AsyncSandbox.pause, sandbox_id, mode=mode, request_timeout=SLOW_S)
            try:
                # False, for one that is paused already, is fine too.
                await self.api.call(pause, limit_s=SLOW_S, changes=True)
            except NotThere:
                await self.find(sandbox_id, patient=True)
                return
            except Refusal:
                continue
            return
        raise SandboxError("unknown_outcome", f"E2B refuses to pause sandbox {sandbox_id}.")

    async def _snapshot_raw(self, sandbox_id: str, name: str) -> str:
        for mode in _PAUSES:
            snapshot = functools.partial(
                self.api.sdk.AsyncSandbox.create_snapshot, sandbox_id, name, mode=mode, request_timeout=SLOW_S
            )
            try:
                made = await self.api.call(snapshot, limit_s=SLOW_S, changes=True)
            except NotThere as exc:
                raise SandboxError("gone", f"Sandbox {sandbox_id} no longer exists.") from exc
            except Refusal:
                continue
            return str(made.snapshot_id)
        raise SandboxError("permission_denied", "E2B makes no snapshots for this account.")

    async def extend(self, sandbox_id: str, lifetime_s: int) -> None:
        await self.must_run(sandbox_id)
        info = await self.find(sandbox_id)
        until = info.started_at + timedelta(seconds=_LIFETIME_S[self._plan])
        left = int((until - datetime.now(UTC)).total_seconds())
        if left < 1:
            raise SandboxError(
                "limit_exceeded",
                f"Sandbox {sandbox_id} has run as long as E2B's plan {self._plan} allows: pause and connect again.",
            )
        if left < lifetime_s:
            _log.info("sandbox %s: it can live for %d s more, not %d s", sandbox_id, left, lifetime_s)
        try:
            await self.api.call(
                lambda: self.api.sdk.AsyncSandbox.set_timeout(
                    sandbox_id, min(left, lifetime_s), request_timeout=CALL_S
                ),
                changes=True,
            )
        except (NotThere, Refusal) as exc:
            await self.must_run(sandbox_id)
            raise SandboxError("unknown_outcome", f"E2B does not extend sandbox {sandbox_id}.") from exc

    async def set_network(self, raw: AsyncSandbox, network: Network) -> None:
        try:
            # Told twice, it is the same: what is cut can be repeated.
            await self.api.call(lambda: raw.update_network(network.update(), request_timeout=CALL_S))
        except Refusal as exc:
            raise SandboxError("invalid_config", "E2B refuses a host of the allow-list.") from exc

    def rules(self, hosts: frozenset[str]) -> Network:
        return rules(hosts, self._private)

    async def _kill(self, sandbox_id: str) -> None:
        try:
            await self.api.call(
                lambda: self.api.sdk.AsyncSandbox.kill(sandbox_id, request_timeout=CALL_S), changes=True
            )
        except NotThere:
            return
        except Refusal as exc:
            raise SandboxError("unknown_outcome", f"E2B does not end sandbox {sandbox_id}.") from exc


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kind(metadata: Mapping[str, str]) -> Kind:
    found = metadata.get("coder-bot.kind")
    for kind in get_args(Kind):
        if found == kind:
            return kind  # type: ignore[no-any-return]  # get_args does not say of what
    return "work"


def _no_template(image: str) -> SandboxError:
    return SandboxError(
        "invalid_config",
        f"There is no template {image!r} in this E2B account: `scripts/e2b-template {image}` makes one.",
    )
