"""What the product needs of a sandbox and of whoever makes them. Clauses of the contract: `bot.sandbox.testing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

WORKSPACE = "/workspace"
"""The one folder a sandbox keeps; every path handed to a sandbox lies below it."""

OUTPUT_LIMIT = 32 * 1024
"""Bytes kept of each output stream: the head and the tail, the middle left out and said so."""

Kind = Literal["work", "verify", "fetch", "setup"]


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """What to make. `name` is unique to one attempt of one stage: making it again first ends an older one of that
    name, so that a crash between making and recording leaves nothing behind."""

    name: str
    kind: Kind
    task: str
    image: str
    lifetime_s: int
    memory: int = 2 * 1024**3
    cpus: float = 2.0
    disk: int = 5 * 1024**3
    """Bytes that the workspace may hold, what it started with included."""
    env: Mapping[str, str] = field(default_factory=dict)
    snapshot: str | None = None
    """Start from this one instead of an empty workspace."""
    epoch: int = 0
    """Of the lease that makes it; see `SandboxProvider.connect`."""


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """What a command came to. `exit_code` is 128+n for a signal n, 126/127 where the program could not be started or
    found; after a time-out it means nothing and `timed_out` is set."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    duration_s: float

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One name in a folder; `size` in bytes for files, else 0."""

    name: str
    kind: Literal["file", "dir", "link", "other"]
    size: int


@dataclass(frozen=True, kw_only=True)
class SandboxInfo:
    """A sandbox as its provider lists it."""

    id: str
    kind: Kind
    task: str
    running: bool


@dataclass(frozen=True, kw_only=True)
class SnapshotInfo:
    """A snapshot as its provider lists it; `size` in bytes, None where the provider does not say."""

    id: str
    size: int | None


Network = Literal["none", "allowlist"]


@dataclass(frozen=True, kw_only=True)
class ProviderLimits:
    """What a provider can do: longest lifetime in seconds and most sandboxes running at once (None: no bound), the
    kinds of network it can hold a sandbox to, and whether a quota bounds the disk (else it is watched, and what fills
    it is ended)."""

    lifetime_s: int | None
    at_once: int | None = None
    networks: frozenset[Network] = frozenset({"none", "allowlist"})
    disk_quota: bool


class Sandbox(Protocol):
    """A running sandbox. Only broken machinery raises, and then always `SandboxError`."""

    @property
    def id(self) -> str: ...

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
        """Runs argv exactly, never through a shell. A time-out or a cancellation ends the command and everything it
        started; after a normal exit, what it left in the background lives on. Several may run at once; where ending
        one takes the others along, each of them says `timed_out`. With `trusted_status` the exit code comes from the
        engine, never from a process under the commands' uid; without it, it is only as honest as what runs beside it.
        `permission_denied` where a later epoch has connected since: this process no longer holds the task."""
        ...

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        """A file below the workspace; `path` is absolute or relative to it. Raises FileNotFoundError,
        IsADirectoryError (or another thing that is no regular file), ValueError for a path that leaves the workspace
        (by `..` or by any symbolic link on the way), and SandboxError("limit_exceeded") for a larger file."""
        ...

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Replaces the file, making missing folders; errors as for `read`. Never through a symbolic link."""
        ...

    async def list(self, path: str) -> list[Entry]:
        """The names in a folder, sorted; errors as for `read`, NotADirectoryError for a file."""
        ...

    async def remove(self, path: str) -> None:
        """Removes a file or a link (never its target); FileNotFoundError, IsADirectoryError, ValueError."""
        ...

    async def allow(self, hosts: frozenset[str]) -> None:
        """Which hosts commands may reach from now on through `proxy_env`: `name`, `*.name` (ports 80 and 443) or
        `name:port`. The empty set is `network none`, the state of every sandbox when it is made or connected to."""
        ...

    @property
    def proxy_env(self) -> Mapping[str, str]:
        """Environment that makes common tools use the way out that `allow` opens."""
        ...

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """`host:port` of what commands tried to reach and were not allowed to, since this connection was made; empty
        where the provider does not tell."""
        ...

    async def extend(self, lifetime_s: int) -> None:
        """Lives that many seconds from now on."""
        ...

    async def pause(self) -> None:
        """Ends all processes and frees memory; the workspace stays. `connect` goes on."""
        ...

    async def aclose(self) -> None:
        """Lets go of this connection; the sandbox itself lives on. Closing twice is harmless."""
        ...


class SandboxProvider(Protocol):
    """Makes sandboxes and finds them again."""

    @property
    def name(self) -> str:
        """`docker` or `e2b`."""
        ...

    @property
    def limits(self) -> ProviderLimits: ...

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A pristine sandbox without network, its workspace empty or as the snapshot held it. `invalid_config` names
        an image that isn't there and how to get it; `gone` where the snapshot is."""
        ...

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> Sandbox:
        """The same sandbox again, resumed if it was paused; `gone` where it no longer exists or is not the one that
        was made under this id, `unreachable` where nobody can tell. From now on whoever connected with a lower epoch
        can run nothing here and change no file: `permission_denied`, as for connecting with a lower one."""
        ...

    async def kill(self, sandbox_id: str) -> None:
        """Ends it and everything it kept; harmless when it is gone already."""
        ...

    async def list(self, *, task: str | None = None) -> list[SandboxInfo]:
        """This deployment's sandboxes, running and paused."""
        ...

    async def snapshot(self, sandbox_id: str) -> SnapshotInfo:
        """Ends the sandbox and keeps its workspace as it is, never to change again. Until this returns there is no
        snapshot; the caller's own record says which ones may be used."""
        ...

    async def snapshots(self) -> Sequence[SnapshotInfo]:
        """This deployment's, those included that a crash left before anybody recorded them."""
        ...

    async def drop_snapshot(self, snapshot_id: str) -> None:
        """Ends it, harmless when it is gone already; `limit_exceeded` while a sandbox lives on it."""
        ...

    async def image_id(self, image: str) -> str:
        """The immutable id of an image, for the receipt; `invalid_config` as for `create`."""
        ...

    async def aclose(self) -> None: ...
