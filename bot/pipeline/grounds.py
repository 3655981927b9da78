"""Fresh sandboxes for the runs of one verification: each begins where the last one began, and ends with its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from bot.domain import detect
from bot.domain.config import Check, Config
from bot.domain.detect import is_manifest
from bot.domain.errors import InfraError, SandboxError
from bot.domain.patch import Patch
from bot.domain.tree import TreeEntry
from bot.pipeline.setup import detected, set_up
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What is to be verified, and the rules (from the default branch) it is verified by."""

    base: str
    patch: Patch
    rules: Config
    redact: Callable[[str], str]
    listed: frozenset[str] | None = None
    """What the operator lets network lists name; None: anything."""

    @property
    def changes_manifests(self) -> bool:
        return any(is_manifest(path) for path in self.patch.paths)


class Maker(Protocol):
    """Makes and ends sandboxes; `name` tells those of one verification apart. Who implements it keeps the records."""

    async def clone(self, name: str) -> Sandbox:
        """A pristine one with the base's objects; nothing is checked out."""
        ...

    async def start(self, name: str, snapshot: str) -> Sandbox:
        """One that begins with a snapshot that `keep` made; `gone` where there is none any more."""
        ...

    async def keep(self, sandbox: Sandbox) -> str | None:
        """Ends the sandbox and gives the snapshot of it; None where none can be made."""
        ...

    async def drop(self, snapshot: str) -> None: ...

    async def end(self, sandbox: Sandbox) -> None: ...


class Ground(Protocol):
    """Where sandboxes begin that are alike: the base's objects in git, set-up done, nothing of the candidate run
    (unless its own manifests are what is set up)."""

    async def open(self, name: str) -> Sandbox: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Base:
    """The base as a sandbox showed it before anything had run there: its files, and where fresh sandboxes with it
    come from (None: from nothing)."""

    files: tuple[TreeEntry, ...]
    checks: tuple[Check, ...]
    setup: tuple[str, ...]
    ground: Ground | None = None


class GroundUnusable(InfraError):
    """A tree could not be checked out where sandboxes begin; from nothing it may be."""


class Prepared:
    """A clone on which set-up has run for some tree; kept as a snapshot, if it can be, for all but the first."""

    def __init__(self, maker: Maker, candidate: Candidate, patch: Patch, tree: str, files: tuple[TreeEntry, ...]):
        self._maker = maker
        self._candidate = candidate
        self._patch = patch
        self._tree = tree
        self._files = files
        self._snapshot: str | None = None
        self._may_keep = True
        self._alone = asyncio.Lock()

    async def open(self, name: str) -> Sandbox:
        # Whoever comes second waits for the snapshot that the first one makes.
        async with self._alone:
            if self._snapshot is not None:
                try:
                    return await self._maker.start(name, self._snapshot)
                except SandboxError as exc:
                    if exc.reason != "gone":
                        raise
                    self._snapshot = None
            return await self._prepared(name, await self._maker.clone(name))

    async def adopt(self, name: str, sandbox: Sandbox) -> Sandbox:
        """The same from a clone that is there already; it may be ended and another one given."""
        async with self._alone:
            return await self._prepared(name, sandbox)

    async def _prepared(self, name: str, sandbox: Sandbox) -> Sandbox:
        try:
            lines = await self._set_up(sandbox)
            if not lines or not self._may_keep:
                return sandbox
            self._snapshot = await self._maker.keep(sandbox)
        except BaseException:
            await self._maker.end(sandbox)
            raise
        if self._snapshot is not None:
            return await self._maker.start(name, self._snapshot)
        self._may_keep = False
        return await self._prepared(name, await self._maker.clone(name))

    async def _set_up(self, sandbox: Sandbox) -> bool:
        """Whether there was anything to do."""
        rules = self._candidate.rules
        if self._patch:
            await workspace.build_tree(sandbox, self._candidate.base, self._patch)
        await workspace.check_out_exactly(sandbox, self._tree, self._files)
        found = await detected(sandbox)
        await set_up(sandbox, rules, found, listed=self._candidate.listed)
        return bool(detect.applied(rules, found)[0])

    async def aclose(self) -> None:
        if self._snapshot is not None:
            try:
                await self._maker.drop(self._snapshot)
            except SandboxError as exc:
                log.warning("a snapshot could not be ended", snapshot=self._snapshot, reason=str(exc))
            self._snapshot = None
