"""The few calls to the Docker engine that the server needs, and the labels by which what it made is found again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.runtime import quickest

RUN = "coder-bot.e2b-server.run"
OWNER = "coder-bot.e2b-server.owner"
FOLDER_PREFIX = "coder-e2b-"
API = "http://docker/v1.41"
TIMEOUT_S = 120.0
# What envd needs as root: to start processes as others, to end them, and to do files for them.
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]
MAX_PROCESSES = 512
FREEZE_ATTEMPTS = 10


class EngineError(Exception):
    """The engine did not do what it was asked for."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"status {status}: {text}")
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Image:
    """What a sandbox starts from, with the user and the folder its commands run in."""

    id: str
    user: str
    workdir: str


def owner() -> str:
    """This process, told from all that have had its number: pid namespace, pid, start."""
    return f"{os.readlink('/proc/self/ns/pid')}/{os.getpid()}/{_started(os.getpid())}"


def _started(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]


def _is_dead(label: str) -> bool:
    """Only what this process can see is known to be dead."""
    space, _, rest = label.partition("/")
    pid, _, started = rest.partition("/")
    if space != os.readlink("/proc/self/ns/pid"):
        return False
    try:
        return _started(int(pid)) != started
    except (OSError, ValueError):
        return True


class Engine:
    """One Docker engine. Everything made carries `run` as its label."""

    def __init__(self, docker_socket: str, run: str) -> None:
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=docker_socket), timeout=TIMEOUT_S, trust_env=False
        )
        self._labels = {RUN: run, OWNER: owner()}

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _call(
        self, method: str, path: str, *, body: Any = None, params: Mapping[str, str] | None = None
    ) -> Any:
        response = await self._http.request(method, API + path, json=body, params=params)
        if response.status_code >= 400:
            raise EngineError(response.status_code, response.text)
        return response.json() if response.content.strip() else None

    async def image(self, name: str) -> Image:
        found = await self._call("GET", f"/images/{name}/json")
        config = found["Config"]
        return Image(
            id=found["Id"], user=config["User"].partition(":")[0] or "root", workdir=config["WorkingDir"] or "/"
        )

    async def create(
        self, image: str, *, name: str, folder: str, argv: Sequence[str], memory_mb: int, cpus: int
    ) -> str:
        """Makes and starts an offline container whose first process is `argv`, run by root in the shared folder. The
        folder lies below root's own, where no command gets at it."""
        inside = "/root/e2b"
        body = {
            "Image": image,
            "Entrypoint": list(argv),
            "Cmd": [],
            "User": "0:0",
            "WorkingDir": inside,
            "Labels": self._labels,
            "HostConfig": {
                "Runtime": quickest(),
                "NetworkMode": "none",
                "Binds": [f"{folder}:{inside}"],
                "CapDrop": ["ALL"],
                "CapAdd": CAPABILITIES,
                "SecurityOpt": ["no-new-privileges"],
                "PidsLimit": MAX_PROCESSES,
                "Memory": memory_mb * 1024**2,
                "MemorySwap": memory_mb * 1024**2,
                "NanoCpus": cpus * 10**9,
            },
        }
        made = await self._call("POST", "/containers/create", body=body, params={"name": name})
        container = str(made["Id"])
        await self.start(container)
        return container

    async def start(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/start")

    async def kill(self, container: str) -> None:
        """Ends its processes; its files stay. One that has ended already is fine."""
        with contextlib.suppress(EngineError):
            await self._call("POST", f"/containers/{container}/kill")

    async def freeze(self, container: str) -> None:
        await self._freezing(f"/containers/{container}/pause")

    async def thaw(self, container: str) -> None:
        await self._call("POST", f"/containers/{container}/unpause")

    async def is_running(self, container: str) -> bool:
        try:
            return bool((await self._call("GET", f"/containers/{container}/json"))["State"]["Running"])
        except EngineError as exc:
            if exc.status == 404:
                return False
            raise

    async def remove(self, container: str) -> None:
        """Harmless when it is gone already."""
        await self._gone("DELETE", f"/containers/{container}", {"force": "true", "v": "true"})

    async def commit(self, container: str, repository: str, tag: str) -> str:
        """An image of its files as they are now; its id."""
        params = {"container": container, "repo": repository, "tag": tag}
        made = await self._freezing("/commit", body={"Labels": self._labels}, params=params)
        return str(made["Id"])

    async def _freezing(self, path: str, *, body: Any = None, params: Mapping[str, str] | None = None) -> Any:
        """A call that freezes. On a busy machine with the first version of control groups this fails now and then and
        works the next time: https://github.com/opencontainers/runc/pull/2791."""
        for _ in range(FREEZE_ATTEMPTS - 1):
            try:
                return await self._call("POST", path, body=body, params=params)
            except EngineError as exc:
                if "unable to freeze" not in str(exc):
                    raise
                await asyncio.sleep(0.1)
        return await self._call("POST", path, body=body, params=params)

    async def remove_image(self, image: str) -> None:
        """Harmless when it is gone already."""
        await self._gone("DELETE", f"/images/{image}", {"force": "true"})

    async def _gone(self, method: str, path: str, params: Mapping[str, str]) -> None:
        try:
            await self._call(method, path, params=params)
        except EngineError as exc:
            if exc.status not in (404, 409):  # 409: somebody removes it right now
                raise

    async def sweep(self) -> None:
        """Removes what servers left that were killed: their process is no more."""
        containers, images = await self._labelled(OWNER)
        for found in containers:
            if _is_dead(found["Labels"][OWNER]):
                await self.remove(found["Id"])
                for mount in found["Mounts"]:
                    folder = Path(mount["Source"]).parent
                    if folder.name.startswith(FOLDER_PREFIX):
                        shutil.rmtree(folder, ignore_errors=True)  # gone with another of its containers
        for found in images:
            if _is_dead(found["Labels"][OWNER]):
                await self.remove_image(found["Id"])

    async def remove_all(self) -> None:
        """Removes what this run made, and returns when the engine knows of none of it."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                containers, images = await self._labelled(f"{RUN}={self._labels[RUN]}")
                if not containers and not images:
                    return
                for found in containers:
                    await self.remove(found["Id"])
                for found in images:
                    await self.remove_image(found["Id"])

    async def _labelled(self, label: str) -> tuple[list[Any], list[Any]]:
        wanted = {"filters": json.dumps({"label": [label]})}
        containers = await self._call("GET", "/containers/json", params=wanted | {"all": "true"})
        return containers, await self._call("GET", "/images/json", params=wanted)
