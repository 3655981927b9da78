"""Sandboxes as hardened containers of a Docker engine, each with a volume for its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.domain.errors import SandboxError
from bot.sandbox import docker_sandbox, guest
from bot.sandbox.docker_api import DockerApi, EngineRefusal
from bot.sandbox.docker_container import COMMANDS, gone
from bot.sandbox.docker_folder import Folder
from bot.sandbox.docker_sandbox import EGRESS, PROXY_PORT, DockerSandbox
from bot.sandbox.docker_volumes import RUNTIME, Volumes, remove
from bot.sandbox.guest import agent
from bot.sandbox.guest.main import NO_ROOM
from bot.sandbox.hosts import Host
from bot.sandbox.protocol import WORKSPACE, Kind, ProviderLimits, SandboxInfo, SandboxSpec, SnapshotInfo
from bot.sandbox.to_the_end import to_the_end

DEFAULT_DOCKER_HOST = "unix:///var/run/docker.sock"
OWN_IMAGE = "coder-bot-sandbox:latest"
"""Lends Python and git to images that have none."""

MAIN = "65534:65534"
"""The main process has a user of its own, so that `kill -9 -1` as the commands' user ends all of them and not it."""
PIDS = 512
TMP_SIZE = "512m"
OPEN_FILES = 16384
DISK_FLOOR = 512 * 1024**2
"""Bytes that the engine's file system keeps free: a sandbox that takes it below that is ended."""

_NONE: Mapping[str, str] = {}
_ID = re.compile(r"coder-[0-9a-f]{16}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


class DockerProvider:
    """Sandboxes on the engine at `docker_host`, which must be a unix socket of this machine.

    `deployment` sets this bot's sandboxes apart from any other's on the same engine. `egress_dir` must be a folder
    that the engine sees under the same path; it holds each sandbox's deadline and proxy socket. `private_hosts` are
    the addresses inside the operator's networks that an allow-list may name; `credentials` what the proxy adds to
    requests for a private package index (`bot.sandbox.credentials`). `runtime` is what the engine runs containers
    with, by the name it knows it by; empty: its own default. Making a provider does no I/O.
    """

    def __init__(
        self,
        *,
        deployment: str,
        egress_dir: Path,
        docker_host: str = DEFAULT_DOCKER_HOST,
        private_hosts: frozenset[str] = frozenset(),
        credentials: Mapping[str, str] = _NONE,
        runtime: str = "",
    ) -> None:
        self._api = DockerApi(docker_host)
        self._deployment = deployment
        self._egress_dir = egress_dir.absolute()
        self._private_hosts = private_hosts
        self._credentials = credentials
        self._runtime = runtime
        self._has_runtime = not runtime
        self._volumes = Volumes(self._api, deployment, runtime)
        self._bare: set[str] = set()
        self._connected: dict[str, DockerSandbox] = {}
        for text in private_hosts:
            Host.parse(text)
        self._folder(_new_id())

    @property
    def name(self) -> str:
        return "docker"

    @property
    def limits(self) -> ProviderLimits:
        return ProviderLimits(lifetime_s=None, disk_quota=False)

    async def aclose(self) -> None:
        for sandbox in list(self._connected.values()):
            await sandbox.aclose()
        await self._api.aclose()

    async def image_id(self, image: str) -> str:
        # The name may be a repository's wish: it must not become another of the engine's paths.
        if not _IMAGE.fullmatch(image) or ".." in image:
            raise SandboxError("invalid_config", f"{image!r} is not the name of an image.")
        await self._must_have_runtime()
        try:
            found = await self._api.call("GET", f"/images/{image}/json")
        except EngineRefusal as exc:
            if exc.status != 404:
                raise SandboxError("unknown_outcome", "The Docker engine could not look for an image.") from exc
            raise SandboxError(
                "invalid_config",
                f"There is no image {image!r} on this machine: `scripts/sandbox-image` makes the bot's own, "
                f"`docker pull {image}` gets another.",
            ) from exc
        return str(found["Id"])

    async def _must_have_runtime(self) -> None:
        # A shim's whole name need not be registered: Docker 23 and later look for its program.
        if self._has_runtime or self._runtime.startswith("io.containerd."):
            return
        known = sorted((await self._api.ask("GET", "/info")).get("Runtimes") or {})
        if self._runtime not in known:
            raise SandboxError(
                "invalid_config",
                f"CODER_DOCKER_RUNTIME is {self._runtime!r}, which the Docker engine does not know; it has: "
                f"{', '.join(known)}.",
            )
        self._has_runtime = True

    async def create(self, spec: SandboxSpec) -> DockerSandbox:
        image = await self.image_id(spec.image)
        for older in await self._ids({"coder-bot.name": spec.name}):
            await self.kill(older)
        if image not in self._bare:
            try:
                return await self._create(spec, image, None)
            except NoPython:
                if spec.image == OWN_IMAGE:
                    said = f"{no_python(spec.image)} `scripts/sandbox-image` makes it anew."
                    raise SandboxError("invalid_config", said, retryable=True) from None
        try:
            own = await self.image_id(OWN_IMAGE)
        except SandboxError as exc:
            if exc.reason != "invalid_config":
                raise
            raise SandboxError("invalid_config", f"{no_python(spec.image)} {exc}") from exc
        made = await self._create(spec, image, own)
        self._bare.add(image)
        return made

    async def _create(self, spec: SandboxSpec, image: str, own: str | None) -> DockerSandbox:
        sandbox_id = _new_id()
        try:
            await self._make(sandbox_id, spec, image, own)
            return await self._start(sandbox_id, spec.lifetime_s, spec.epoch)
        except (SandboxError, asyncio.CancelledError):
            await to_the_end(self._discard(sandbox_id))
            raise

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> DockerSandbox:
        container = await self._container(sandbox_id)
        if container is None or container["State"]["Status"] in ("removing", "dead"):
            raise gone(sandbox_id)
        self._folder(sandbox_id).make()
        self._folder(sandbox_id).claim(epoch)
        earlier = self._connected.get(sandbox_id)
        if earlier:
            await earlier.aclose()
        if container["State"]["Paused"]:
            await self._api.ask("POST", f"/containers/{sandbox_id}/unpause")
        return await self._start(sandbox_id, lifetime_s, epoch)

    async def kill(self, sandbox_id: str) -> None:
        if not _ID.fullmatch(sandbox_id):
            return
        connected = self._connected.get(sandbox_id)
        if connected:
            await connected.aclose()
        if await self._container(sandbox_id):
            await remove(self._api, f"/containers/{sandbox_id}", {"force": "true", "v": "true"})
        await self._volumes.drop(sandbox_id)
        await asyncio.to_thread(self._folder(sandbox_id).remove)

    async def list(self, *, task: str | None = None) -> list[SandboxInfo]:
        labels = {} if task is None else {"coder-bot.task": task}
        found: dict[str, SandboxInfo] = {}
        # The volumes first: one without a container is what a crash left, and is to be found and ended like the rest.
        for sandbox_id, marked in (await self._volumes.of_sandboxes(labels)).items():
            found[sandbox_id] = _info(sandbox_id, marked, running=False)
        for container in await self._api.ask("GET", "/containers/json", params={"all": "1"} | self._filter(labels)):
            sandbox_id = container["Names"][0].lstrip("/")
            found[sandbox_id] = _info(sandbox_id, container["Labels"], running=container["State"] == "running")
        return sorted(found.values(), key=lambda info: info.id)

    async def snapshot(self, sandbox_id: str) -> SnapshotInfo:
        container = await self._container(sandbox_id)
        if container is None:
            raise gone(sandbox_id)
        connected = self._connected.get(sandbox_id)
        if connected:
            await connected.aclose()
        await remove(self._api, f"/containers/{sandbox_id}", {"force": "true"})
        made = await self._volumes.seal(
            sandbox_id, container["Config"]["Labels"]["coder-bot.own"] or str(container["Image"])
        )
        await asyncio.to_thread(self._folder(sandbox_id).remove)
        return made

    async def snapshots(self) -> Sequence[SnapshotInfo]:
        return await self._volumes.snapshots()

    async def drop_snapshot(self, snapshot_id: str) -> None:
        if _ID.fullmatch(snapshot_id):
            await self._volumes.drop_snapshot(snapshot_id)

    # How they are made

    async def _make(self, sandbox_id: str, spec: SandboxSpec, image: str, own: str | None) -> None:
        labels = {
            "coder-bot.deployment": self._deployment,
            "coder-bot.task": spec.task,
            "coder-bot.kind": spec.kind,
            "coder-bot.name": spec.name,
        }
        lent = [] if own is None else [_lent(await self._volumes.runtime(own, labels))]
        limits = [{"Name": "core", "Soft": 0, "Hard": 0}]
        limits += [{"Name": name, "Soft": n, "Hard": n} for name, n in (("nofile", OPEN_FILES), ("fsize", spec.disk))]
        body = {
            "Image": image,
            "Hostname": "sandbox",
            "User": MAIN,
            "Entrypoint": [_python(own is not None), "-IS", "-c", guest.source("main")],
            "Cmd": [EGRESS, str(PROXY_PORT), WORKSPACE, str(DISK_FLOOR)],
            "WorkingDir": "/",
            "Healthcheck": {"Test": ["NONE"]},
            # The commands' own environment is kept beside, for it must not reach the main process or our helpers.
            "Labels": {
                **labels,
                "coder-bot.disk": str(spec.disk),
                "coder-bot.env": json.dumps(dict(spec.env)),
                "coder-bot.image": spec.image,
                "coder-bot.own": own or "",
            },
            "HostConfig": {
                "Init": True,
                "Runtime": self._runtime,
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "PidsLimit": PIDS,
                "Memory": spec.memory,
                "MemorySwap": spec.memory,
                # A quota rather than NanoCpus, which engines refuse when the machine has fewer.
                "CpuPeriod": 100_000,
                "CpuQuota": int(spec.cpus * 100_000),
                "Ulimits": limits,
                "Tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,size={TMP_SIZE},mode=1777"},  # noqa: S108 - the container's
                "Mounts": [
                    {"Type": "volume", "Source": sandbox_id, "Target": WORKSPACE},
                    {
                        "Type": "bind",
                        "Source": str(self._egress_dir / sandbox_id),
                        "Target": EGRESS,
                        "ReadOnly": True,
                    },
                    *lent,
                ],
                "LogConfig": {"Type": "none"},
                "RestartPolicy": {"Name": "no"},
            },
        }
        self._folder(sandbox_id).make()
        self._folder(sandbox_id).claim(spec.epoch)
        await self._volumes.make(sandbox_id, labels, own or image, spec.snapshot)
        try:
            await self._api.call("POST", "/containers/create", params={"name": sandbox_id}, body=body)
        except EngineRefusal as exc:
            raise SandboxError(
                "invalid_config",
                f"The Docker engine refuses to make a sandbox of {spec.image} with {spec.memory} bytes of memory, "
                f"{spec.cpus} processors and {spec.disk} bytes of disk.",
            ) from exc

    async def _start(self, sandbox_id: str, lifetime_s: int, epoch: int) -> DockerSandbox:
        """Runs the container, or lets it run on, with nothing allowed and a new lifetime; ready for commands."""
        folder = self._folder(sandbox_id)
        folder.set_deadline(lifetime_s)
        container = await self._container(sandbox_id)
        if container is None:
            raise gone(sandbox_id)
        labels = container["Config"]["Labels"]
        image = labels["coder-bot.image"]
        try:
            await self._api.call("POST", f"/containers/{sandbox_id}/start")
        except EngineRefusal as exc:
            if exc.status >= 500 and await self._container(sandbox_id) is None:
                raise gone(sandbox_id) from exc
            raise _not_started(exc, sandbox_id, image, self._egress_dir) from exc
        path = next(
            (pair for pair in container["Config"]["Env"] or () if pair.startswith("PATH=")), "PATH=/usr/bin:/bin"
        )
        lent = bool(labels["coder-bot.own"])
        folders = [path[5:], *([f"{RUNTIME}/bin"] if lent else []), f"{WORKSPACE}/.npm-global/bin"]
        sandbox = DockerSandbox(
            self._api,
            sandbox_id,
            folder,
            python=_python(lent),
            env={"PATH": ":".join(folders), **json.loads(labels["coder-bot.env"])},
            disk=int(labels["coder-bot.disk"]),
            epoch=epoch,
            private_hosts=self._private_hosts,
            credentials=self._credentials,
            on_close=self._closed,
        )
        await self._make_ready(sandbox, image, labels["coder-bot.own"])
        self._connected[sandbox_id] = sandbox
        return sandbox

    def _closed(self, sandbox: DockerSandbox) -> None:
        if self._connected.get(sandbox.id) is sandbox:
            del self._connected[sandbox.id]

    async def _make_ready(self, sandbox: DockerSandbox, image: str, own: str) -> None:
        said = await self._ready(sandbox, image)
        if said == agent.FOREIGN:
            # The image has no /workspace of the commands' user that the new volume took after.
            await self._volumes.hand_over(sandbox.id, own or image, COMMANDS)
            said = await self._ready(sandbox, image)
        match said:
            case agent.READY:
                return
            case agent.OLD_PYTHON | docker_sandbox.NO_PYTHON:
                raise NoPython(image)
            case _:
                raise SandboxError(
                    "unknown_outcome", f"A sandbox of {image} did not become ready (code {said}).", retryable=True
                )

    async def _ready(self, sandbox: DockerSandbox, image: str) -> int:
        said, why = agent.DEAF, None
        try:
            said = await sandbox.start()
        except SandboxError as exc:
            why = exc
        if said in (agent.READY, agent.OLD_PYTHON, agent.FOREIGN, docker_sandbox.NO_PYTHON):
            return said
        container = await self._container(sandbox.id)
        if container is not None and not container["State"]["Running"]:
            match int(container["State"]["ExitCode"]):
                case 126 | 127:
                    raise NoPython(image) from why
                case code if code == NO_ROOM:
                    raise SandboxError(
                        "limit_exceeded",
                        f"The Docker engine's disk has less than {DISK_FLOOR} bytes free; no sandbox runs on it.",
                    ) from why
                case _:
                    raise SandboxError(
                        "invalid_config",
                        f"A sandbox ended at once: the engine does not see {self._egress_dir} under that same path, "
                        "its clock is far from the bot's, or somebody ended it.",
                        retryable=True,
                    ) from why
        if why is not None:
            raise why
        return said

    def _folder(self, sandbox_id: str) -> Folder:
        return Folder(self._egress_dir / sandbox_id)

    # How they are found and ended

    async def _container(self, sandbox_id: str) -> Any:
        """What the engine says of it; None where it isn't, or isn't ours."""
        if not _ID.fullmatch(sandbox_id):
            return None
        try:
            container = await self._api.call("GET", f"/containers/{sandbox_id}/json")
        except EngineRefusal as exc:
            if exc.status == 404:
                return None
            raise SandboxError("unreachable", "The Docker engine could not say what became of a sandbox.") from exc
        ours = (container["Config"]["Labels"] or {}).get("coder-bot.deployment") == self._deployment
        return container if ours else None

    def _filter(self, labels: Mapping[str, str]) -> dict[str, str]:
        wanted = {"coder-bot.deployment": self._deployment, **labels}
        return {"filters": json.dumps({"label": [f"{key}={value}" for key, value in wanted.items()]})}

    async def _ids(self, labels: Mapping[str, str]) -> set[str]:
        params = {"all": "1"} | self._filter(labels)
        containers = await self._api.ask("GET", "/containers/json", params=params)
        names = {container["Names"][0].lstrip("/") for container in containers}
        return names | set(await self._volumes.of_sandboxes(labels))

    async def _discard(self, sandbox_id: str) -> None:
        with contextlib.suppress(SandboxError):  # the error that led here is the one to tell
            await self.kill(sandbox_id)


def _new_id() -> str:
    return f"coder-{secrets.token_hex(8)}"


def _info(sandbox_id: str, labels: Mapping[str, str], *, running: bool) -> SandboxInfo:
    kind: Kind = labels["coder-bot.kind"]  # type: ignore[assignment]  # written by us, from a Kind
    return SandboxInfo(id=sandbox_id, kind=kind, task=labels["coder-bot.task"], running=running)


def _not_started(refusal: EngineRefusal, sandbox_id: str, image: str, egress_dir: Path) -> SandboxError:
    if refusal.status == 409 or (refusal.status == 404 and "o such container" in refusal.text):
        return gone(sandbox_id)
    if "python3" in refusal.text:
        return NoPython(image)
    return SandboxError(
        "invalid_config",
        f"The Docker engine could not start a sandbox of {image}. It has to see {egress_dir} under "
        "that same path, and to know limits for memory, processors and processes; its own log says more.",
    )


class NoPython(SandboxError):
    """An image without python3 of 3.9 or later, or, where that is lent to it, without the `sh` that starts it."""

    def __init__(self, image: str) -> None:
        super().__init__("invalid_config", f"The image {image} has no /bin/sh, and a sandbox needs one.")


def no_python(image: str) -> str:
    return f"The image {image} has no python3 of 3.9 or later, and there is none to lend it."


def _python(lent: bool) -> str:
    return f"{RUNTIME}/bin/python3" if lent else "python3"


def _lent(volume: str) -> dict[str, object]:
    return {"Type": "volume", "Source": volume, "Target": RUNTIME, "ReadOnly": True}
