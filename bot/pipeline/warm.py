"""Warm start: sandboxes that begin with a snapshot of the repository cloned and set up.

A snapshot is sealed before anything a model wrote can run, from a commit of the default branch alone, and counts
from the moment its row is written; what no row names is never used. Where none can be used, callers start from
nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import structlog

from bot.db.store import SandboxRecord, SnapshotRecord
from bot.domain import detect
from bot.domain import warm as domain
from bot.domain.config import Config
from bot.domain.detect import Detected
from bot.domain.episode import Episode
from bot.domain.errors import GitHubError, InfraError, LeaseLost, SandboxError
from bot.domain.receipt import Snapshot
from bot.domain.task import Lease, Task
from bot.domain.tree import TreeEntry
from bot.pipeline.deps import Deps
from bot.pipeline.grounds import Base, Maker
from bot.pipeline.setup import image, set_up, spec
from bot.sandbox import workspace
from bot.sandbox.pool import PoolFull
from bot.sandbox.protocol import Kind, Sandbox
from bot.sandbox.workspace import CloneFailed, Remote, TokenRefused

FETCH_MARGIN_S = 300
"""What a fetch sandbox may live beyond the time its one clone may take."""

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all of this is done for, and under which rules."""

    deps: Deps
    lease: Lease
    task: Task
    episode: Episode
    rules: Config

    def record(self, kind: Kind, *, run: str | None = None, **more: Any) -> SandboxRecord:
        """`run` tells several of one kind apart."""
        name = "-".join(filter(None, (self.task.id, kind, run)))
        return SandboxRecord(name=name, task_id=self.task.id, kind=kind, provider=self.deps.provider.name, **more)


@dataclass(frozen=True, kw_only=True)
class Start:
    """A sandbox that began with a snapshot."""

    sandbox: Sandbox
    record: SandboxRecord
    snapshot: SnapshotRecord


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A commit as a fetch sandbox saw it: the key of a snapshot that serves it, what its files say about themselves,
    its files and those of the snapshot's commit, and its pack."""

    key: str
    detected: Detected
    files: tuple[TreeEntry, ...]
    old: tuple[TreeEntry, ...]
    pack: bytes


async def work(job: Job) -> Start | None:
    """The task's work sandbox with the base commit checked out, from the newest snapshot; None where there is none,
    or it does not serve this commit, or anything about it goes wrong: none of that is for people."""
    deps, task = job.deps, job.task
    image_id = await deps.provider.image_id(image(deps, job.rules))
    snapshot = await deps.store.newest_snapshot(task.installation_id, task.repository_id, image_id)
    if not deps.snapshot_disk or snapshot is None:
        return None
    if snapshot.commit == task.base_sha == job.episode.config_sha:
        # The very tree and config that it was made of: nothing is to be fetched to know that the key is the same.
        return await _or_none(job, snapshot, create(job, "work", snapshot))

    async def moved() -> Start | None:
        fetched, start = await _both(
            job,
            snapshot,
            task.base_sha,
            lambda: create(job, "work", snapshot),
            lambda made: end(job, made),
            full=False,
        )
        try:
            if fetched.key != snapshot.key:
                log.info("set-up has changed since the snapshot", task=task.id, snapshot=snapshot.id)
                await end(job, start)
                return None
            if snapshot.commit != task.base_sha:
                await workspace.move(start.sandbox, fetched.pack, snapshot.commit, task.base_sha)
                await workspace.note_made(start.sandbox, task.base_sha)
        except BaseException:
            await end(job, start)
            raise
        return start

    return await _or_none(job, snapshot, moved())


class Renewed:
    """A ground for verification: sandboxes on the snapshot that the work began with, their git directory made anew
    and holding nothing but the base; the work tree is still the snapshot's."""

    def __init__(self, maker: Maker, snapshot: SnapshotRecord, fetched: Fetched, base: str, first: Sandbox):
        self.snapshot = Snapshot(id=snapshot.id, commit=snapshot.commit)
        self._maker = maker
        self._fetched = fetched
        self._base = base
        self._first: Sandbox | None = first

    async def open(self, name: str) -> Sandbox:
        if self._first is not None:
            sandbox, self._first = self._first, None
            return sandbox
        sandbox = await self._maker.start(name, self.snapshot.id)
        try:
            await self.renew(sandbox)
        except BaseException:
            await self._maker.end(sandbox)
            raise
        return sandbox

    async def renew(self, sandbox: Sandbox) -> None:
        await workspace.renew(sandbox, self._fetched.pack, self._fetched.old, self._base)

    async def aclose(self) -> None:
        if self._first is not None:
            await self._maker.end(self._first)


async def verification(job: Job, maker: Maker, snapshot_id: str, base: str) -> Base | None:
    """The base on the snapshot that the work began with. None as for `work`, and where today's rules would set up
    otherwise."""
    deps = job.deps
    snapshot = next((each for each in await deps.store.snapshots() if each.id == snapshot_id), None)
    if not deps.snapshot_disk or snapshot is None:
        return None
    if snapshot.image_id != await deps.provider.image_id(image(deps, job.rules)):
        return None  # the image's name stands for another one by now

    async def start() -> Sandbox:
        try:
            sandbox = await maker.start("candidate", snapshot.id)
        except SandboxError as exc:
            if exc.reason == "gone":
                await deps.store.forget_snapshot(snapshot.id)
            raise
        await deps.store.use_snapshot(snapshot.id, deps.clock())
        return sandbox

    async def renewed() -> Base | None:
        fetched, first = await _both(job, snapshot, base, start, maker.end, full=True)
        try:
            if fetched.key != snapshot.key:
                log.info("set-up has changed since the snapshot", task=job.task.id, snapshot=snapshot.id)
                await maker.end(first)
                return None
            ground = Renewed(maker, snapshot, fetched, base, first)
            await ground.renew(first)
        except BaseException:
            await maker.end(first)
            raise
        lines, checks, _ = detect.applied(job.rules, fetched.detected)
        return Base(files=fetched.files, checks=checks, setup=lines, ground=ground)

    return await _or_none(job, snapshot, renewed())


async def make(job: Job) -> bool:
    """Clones and sets up the base commit in a sandbox of its own and keeps that as a snapshot. False where none may
    be made (switched off, or no commit of the default branch), or the provider could not keep it. What is wrong with
    the repository itself is raised: it would be wrong in any sandbox."""
    deps, task, rules = job.deps, job.task, job.rules
    # The config is read from the default branch's tip, so that its commit is one of that branch.
    if not deps.snapshot_disk or task.base_sha != job.episode.config_sha:
        return False
    image_id = await deps.provider.image_id(image(deps, rules))
    record = job.record("setup", image_id=image_id)
    await deps.store.put_sandbox(job.lease, record)
    sandbox = await deps.provider.create(spec(deps, job.lease, "setup", rules))
    try:
        await deps.store.put_sandbox(job.lease, replace(record, provider_id=sandbox.id))
        await clone(job, sandbox, task.base_sha)
        found, key = await _inputs(job, sandbox, image_id, await workspace.listing(sandbox, task.base_sha))
        await workspace.check_out(sandbox, task.base_sha)
        await set_up(sandbox, rules, found, listed=deps.ceilings.hosts)
        await workspace.note_made(sandbox, task.base_sha)
        try:
            info = await deps.provider.snapshot(sandbox.id)
        except SandboxError as exc:
            log.warning("no snapshot could be made", task=task.id, reason=str(exc))
            return False
    finally:
        await sandbox.aclose()
        await deps.provider.kill(sandbox.id)
    await deps.store.forget_sandbox(record.name)
    if (info.size or 0) > deps.snapshot_disk:
        log.warning("snapshot is larger than all may be", task=task.id, size=info.size)
        await _drop(deps, info.id)
        return False
    now = deps.clock()
    snapshot = SnapshotRecord(
        id=info.id,
        key=key,
        installation_id=task.installation_id,
        repository_id=task.repository_id,
        image_id=image_id,
        commit=task.base_sha,
        size=info.size,
        created_at=now,
        used_at=now,
    )
    replaced = await deps.store.put_snapshot(snapshot)
    if replaced is not None:
        await _drop(deps, replaced)
    await _make_room(deps, snapshot)
    return True


async def clone(job: Job, sandbox: Sandbox, commit: str, *others: str) -> None:
    """The one use of a token in a sandbox, which must be pristine. One that the server does not take is minted anew,
    once; the sandbox is as pristine as before then."""
    task, limit, app = job.task, job.rules.timeouts.clone, job.deps.github
    if not app.clones_from(task.owner, task.name, task.clone_url):
        raise CloneFailed(f"The delivery says to clone from {task.clone_url!r}: that is not this bot's GitHub.")
    for last in (False, True):
        async with app.token(task.installation_id, task.name, {"contents": "read"}) as token:
            origin = Remote(url=task.clone_url, token=token)
            try:
                await workspace.clone(sandbox, origin, commit, timeout_s=limit, others=others)
            except TokenRefused:
                if last:
                    raise
                log.warning("a token was refused while cloning", task=task.id)
            else:
                return


async def create(job: Job, kind: Kind, snapshot: SnapshotRecord) -> Start:
    """A sandbox on a snapshot; one that is gone is forgotten."""
    deps = job.deps
    record = job.record(kind, image_id=snapshot.image_id, snapshot_id=snapshot.id)
    await deps.store.put_sandbox(job.lease, record)
    try:
        sandbox = await deps.provider.create(spec(deps, job.lease, kind, job.rules, snapshot=snapshot.id))
    except SandboxError as exc:
        if exc.reason == "gone":
            await deps.store.forget_snapshot(snapshot.id)
        raise
    start = Start(sandbox=sandbox, record=replace(record, provider_id=sandbox.id), snapshot=snapshot)
    try:
        await deps.store.put_sandbox(job.lease, start.record)
        await deps.store.use_snapshot(snapshot.id, deps.clock())
    except BaseException:
        await end(job, start)
        raise
    return start


async def end(job: Job, start: Start) -> None:
    await start.sandbox.aclose()
    await job.deps.provider.kill(start.sandbox.id)


async def _both(
    job: Job,
    snapshot: SnapshotRecord,
    commit: str,
    start: Callable[[], Coroutine[Any, Any, T]],
    undo: Callable[[T], Awaitable[None]],
    *,
    full: bool,
) -> tuple[Fetched, T]:
    """The commit and a sandbox on the snapshot: made side by side, or in turn where there is no room for both."""
    making = asyncio.create_task(start())
    try:
        fetched = await _fetch(job, snapshot, commit, full=full)
        return fetched, await making
    except BaseException as exc:
        if isinstance(exc, asyncio.CancelledError):
            making.cancel()
        [made] = await asyncio.gather(making, return_exceptions=True)
        if not isinstance(made, BaseException):
            await undo(made)
        if not isinstance(exc, PoolFull):
            raise
    return await _fetch(job, snapshot, commit, full=full), await start()


async def _fetch(job: Job, snapshot: SnapshotRecord, commit: str, *, full: bool) -> Fetched:
    """Reads a commit in a pristine sandbox that ends with this; its pack is `full`, or only what
    the snapshot's commit does not have."""
    deps = job.deps
    record = job.record("fetch", image_id=snapshot.image_id)
    await deps.store.put_sandbox(job.lease, record)
    lifetime = job.rules.timeouts.clone + FETCH_MARGIN_S
    sandbox = await deps.provider.create(spec(deps, job.lease, "fetch", job.rules, lifetime_s=lifetime))
    try:
        await deps.store.put_sandbox(job.lease, replace(record, provider_id=sandbox.id))
        others = () if snapshot.commit == commit else (snapshot.commit,)
        await clone(job, sandbox, commit, *others)
        files = await workspace.listing(sandbox, commit)
        old = await workspace.listing(sandbox, snapshot.commit) if others else files
        found, key = await _inputs(job, sandbox, snapshot.image_id, files)
        pack = b""
        if full or others:
            pack = await workspace.pack(sandbox, commit, without=None if full else snapshot.commit)
    finally:
        await sandbox.aclose()
        await deps.provider.kill(sandbox.id)
    await deps.store.forget_sandbox(record.name)
    return Fetched(key=key, detected=found, files=files, old=old, pack=pack)


async def _inputs(job: Job, sandbox: Sandbox, image_id: str, files: tuple[TreeEntry, ...]) -> tuple[Detected, str]:
    """What a cloned commit says about itself, and its key; nothing of it has run yet."""
    texts = await workspace.texts(sandbox, domain.root_manifests(files))
    found = detect.detect(domain.root_names(files), texts)
    lines, _, _ = detect.applied(job.rules, found)
    inputs = domain.Inputs(
        installation_id=job.task.installation_id,
        repository_id=job.task.repository_id,
        image_id=image_id,
        config_text=job.episode.config_text,
        setup=lines,
        env=job.rules.sandbox.env,
    )
    return found, domain.key(inputs, files)


async def _or_none(job: Job, snapshot: SnapshotRecord, start: Coroutine[Any, Any, T]) -> T | None:
    try:
        return await start
    except (LeaseLost, GitHubError, PoolFull):
        raise
    except (InfraError, CloneFailed, OSError, ValueError) as exc:
        log.warning("no start from the snapshot", task=job.task.id, snapshot=snapshot.id, reason=str(exc))
        return None


async def _make_room(deps: Deps, new: SnapshotRecord) -> None:
    """Ends what the new one stands in for, and what was not used for the longest time while all take too much."""
    known = await deps.store.snapshots()
    of_repository = (new.installation_id, new.repository_id)
    used = sum(each.size or 0 for each in known)
    for each in known:
        outdated = (each.installation_id, each.repository_id) == of_repository
        if each.id == new.id or not (outdated or used > deps.snapshot_disk):
            continue
        if await _drop(deps, each.id):
            used -= each.size or 0
            # After its end: died between the two, the next start finds it gone.
            await deps.store.forget_snapshot(each.id)


async def _drop(deps: Deps, snapshot_id: str) -> bool:
    """Whether it is gone now: one that a sandbox lives on stays."""
    try:
        await deps.provider.drop_snapshot(snapshot_id)
    except SandboxError as exc:
        if exc.reason != "limit_exceeded":
            log.warning("a snapshot could not be ended", snapshot=snapshot_id, reason=str(exc))
        return False
    return True
