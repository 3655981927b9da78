"""Where workspaces lie on a Docker engine: a volume each, or a layer over a snapshot's.

A snapshot is a sandbox's own volume, once a marker (an empty volume beside it) says that it will not change any more.
A sandbox that starts from it has a volume that overlays it, and one that holds what it changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import secrets
import tarfile
from collections.abc import Mapping
from typing import Any

from bot.domain.errors import SandboxError
from bot.sandbox import guest
from bot.sandbox.docker_api import DockerApi, EngineRefusal
from bot.sandbox.protocol import WORKSPACE, SnapshotInfo

CHANGES = ".changes"
SEALED = ".sealed"
"""Ends of the names of the volumes that go with a workspace's."""
REMOVE_TIMEOUT_S = 30.0

RUNTIME = "/opt/coder-bot"
"""Where a sandbox whose image has no Python finds the bot's own, and git."""

_COPY = "cp -a /from/. /to/ && chown --reference=/from /to"


class Volumes:
    """The volumes of one deployment."""

    def __init__(self, api: DockerApi, deployment: str, runtime: str) -> None:
        self._api = api
        self._deployment = deployment
        self._runtime = runtime

    async def make(self, name: str, labels: Mapping[str, str], image: str, snapshot: str | None) -> None:
        """An empty workspace, or one that starts as the snapshot's; `gone` where there is no such snapshot."""
        if snapshot is None:
            await self._create({"Name": name, "Labels": dict(labels)})
            return
        marked = {**labels, "coder-bot.snapshot": snapshot}
        await self._create({"Name": name + CHANGES, "Labels": marked})
        # Whoever drops the snapshot from here on finds this one; who was quicker has taken the marker away.
        sealed, lower = await self._volume(snapshot + SEALED), await self._volume(snapshot)
        if sealed is None or lower is None:
            raise SandboxError("gone", f"Snapshot {snapshot} no longer exists.")
        changes = (await self._volume(name + CHANGES) or {})["Mountpoint"]
        await self._fill(name + CHANGES, image, marked)
        options = f"lowerdir={lower['Mountpoint']},upperdir={changes}/u,workdir={changes}/w"
        driver = {"type": "overlay", "device": "overlay", "o": options}
        await self._create({"Name": name, "Labels": marked, "DriverOpts": driver})

    async def seal(self, name: str, image: str) -> SnapshotInfo:
        """Makes a snapshot of a workspace whose container is gone."""
        volume = await self._volume(name)
        if volume is None:
            raise SandboxError("gone", f"Sandbox {name} no longer exists.")
        snapshot = name
        if (volume.get("Options") or {}).get("type") == "overlay":
            # Not layer upon layer: a snapshot must not hang on another one.
            snapshot = f"coder-{secrets.token_hex(8)}"
            await self._create({"Name": snapshot, "Labels": volume["Labels"]})
            try:
                copying = ["sh", "-c", _COPY]
                await self._run(image, volume["Labels"], copying, {name: "/from", snapshot: "/to"}, "CHOWN", "FOWNER")
            except SandboxError:
                await self.drop(snapshot)
                raise
        measuring = ["python3", "-IS", "-c", guest.source("usage"), "/from"]
        said = await self._run(image, volume["Labels"], measuring, {snapshot: "/from"})
        labels = {"coder-bot.deployment": self._deployment, "coder-bot.size": str(int(said or 0))}
        await self._create({"Name": snapshot + SEALED, "Labels": labels})
        if snapshot != name:
            await self.drop(name)
        return SnapshotInfo(id=snapshot, size=int(labels["coder-bot.size"]))

    async def snapshots(self) -> list[SnapshotInfo]:
        return [
            SnapshotInfo(id=name.removesuffix(SEALED), size=int(labels["coder-bot.size"]))
            for name, labels in sorted((await self._all({})).items())
            if name.endswith(SEALED)
        ]

    async def drop_snapshot(self, snapshot: str) -> None:
        if await self._users(snapshot):
            raise _in_use(snapshot)
        sealed = await self._volume(snapshot + SEALED)
        if sealed is None:
            return
        await remove(self._api, f"/volumes/{snapshot}{SEALED}", {})
        # A sandbox that was made meanwhile may have seen the marker.
        if await self._users(snapshot):
            await self._create({"Name": snapshot + SEALED, "Labels": sealed["Labels"]})
            raise _in_use(snapshot)
        await remove(self._api, f"/volumes/{snapshot}", {"force": "true"})

    async def drop(self, name: str) -> None:
        """Ends a sandbox's volumes, never a snapshot's; harmless where they are gone."""
        if await self._volume(name + SEALED) is not None:
            return
        for one in (name, name + CHANGES):
            if await self._volume(one) is not None:
                # A helper whose maker was killed would hold it for ever.
                using = {"all": "1", "filters": json.dumps({"volume": [one]})}
                for container in await self._api.ask("GET", "/containers/json", params=using):
                    await self._end(container["Id"])
                await remove(self._api, f"/volumes/{one}", {"force": "true"})

    async def of_sandboxes(self, labels: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        """The labels of each volume that is a sandbox's own, by the sandbox."""
        found = await self._all({})
        sealed = {name.removesuffix(SEALED) for name in found if name.endswith(SEALED)}
        return {
            name.removesuffix(CHANGES): held
            for name, held in found.items()
            if not name.endswith(SEALED) and name not in sealed and labels.items() <= held.items()
        }

    async def hand_over(self, name: str, image: str, owner: str) -> None:
        """Gives a workspace to the commands' user, by a container beside it: in its own, root has no rights."""
        uid, _, gid = owner.partition(":")
        program = f"import os; os.chown({WORKSPACE!r}, {uid}, {gid})"
        volume = await self._volume(name) or {}
        await self._run(image, volume["Labels"], ["python3", "-IS", "-c", program], {name: WORKSPACE}, "CHOWN")

    async def runtime(self, own_image: str, labels: Mapping[str, str]) -> str:
        """The volume that lends Python and git to images without, made from the bot's own image where there is none
        yet. It belongs to the engine: all deployments use it."""
        name = f"coder-runtime-{own_image.partition(':')[2][:16]}"
        await self._create({"Name": name, "Labels": {"coder-bot.runtime": own_image}})
        copying = ["python3", "-IS", "-c", guest.source("runtime"), "/to", RUNTIME]
        await self._run(own_image, labels, copying, {name: "/to"})
        filters = json.dumps({"label": ["coder-bot.runtime"]})
        for volume in (await self._api.ask("GET", "/volumes", params={"filters": filters}))["Volumes"] or ():
            if volume["Name"] != name:
                with contextlib.suppress(EngineRefusal):  # one of an older image, still in use
                    await self._api.call("DELETE", f"/volumes/{volume['Name']}")
        return name

    # The engine

    async def _volume(self, name: str) -> dict[str, Any] | None:
        """What the engine says of it; None where it isn't, or isn't ours."""
        try:
            found: dict[str, Any] = await self._api.call("GET", f"/volumes/{name}")
        except EngineRefusal as exc:
            if exc.status != 404:
                raise SandboxError("unknown_outcome", "The Docker engine could not say what it kept.") from exc
            return None
        return found if (found.get("Labels") or {}).get("coder-bot.deployment") == self._deployment else None

    async def _all(self, labels: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        wanted = {"coder-bot.deployment": self._deployment, **labels}
        filters = json.dumps({"label": [f"{key}={value}" for key, value in wanted.items()]})
        found = await self._api.ask("GET", "/volumes", params={"filters": filters})
        return {volume["Name"]: volume["Labels"] for volume in found["Volumes"] or ()}

    async def _users(self, snapshot: str) -> bool:
        return bool(await self._all({"coder-bot.snapshot": snapshot}))

    async def _create(self, body: Mapping[str, Any]) -> None:
        await self._api.ask("POST", "/volumes/create", body=body)

    async def _fill(self, name: str, image: str, labels: Mapping[str, str]) -> None:
        """Two folders for an overlay, put there through a container that never runs."""
        seed = f"coder-{secrets.token_hex(8)}"
        body = {
            "Image": image,
            "Entrypoint": ["none"],
            "Labels": dict(labels),  # found and ended like a sandbox, should the bot end here
            "HostConfig": {
                "Runtime": self._runtime,
                "NetworkMode": "none",
                "Mounts": [{"Type": "volume", "Source": name, "Target": "/d", "VolumeOptions": {"NoCopy": True}}],
            },
        }
        try:
            await self._api.ask("POST", "/containers/create", params={"name": seed}, body=body)
            await self._api.ask("PUT", f"/containers/{seed}/archive", params={"path": "/d"}, archive=_folders())
        finally:
            await self._end(seed)

    async def _run(
        self, image: str, labels: Mapping[str, str], argv: list[str], mounts: Mapping[str, str], *rights: str
    ) -> bytes:
        """Runs one of our own lines as root beside a workspace, with no right but to read and what is named; its
        output."""
        helper = f"coder-{secrets.token_hex(8)}"
        body = {
            "Image": image,
            "User": "0:0",
            "Entrypoint": argv,
            "Cmd": [],
            "WorkingDir": "/",
            "Labels": dict(labels),
            "HostConfig": {
                "Runtime": self._runtime,
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "CapAdd": ["DAC_READ_SEARCH", "DAC_OVERRIDE", *rights],
                "SecurityOpt": ["no-new-privileges"],
                "Mounts": [
                    {"Type": "volume", "Source": name, "Target": path, "VolumeOptions": {"NoCopy": True}}
                    for name, path in mounts.items()
                ],
                "LogConfig": {"Type": "json-file"},
            },
        }
        try:
            await self._api.ask("POST", "/containers/create", params={"name": helper}, body=body)
            await self._api.ask("POST", f"/containers/{helper}/start")
            ended = await self._api.ask("POST", f"/containers/{helper}/wait", timeout_s=600.0)
            if ended["StatusCode"]:
                raise SandboxError("unknown_outcome", "A workspace could not be looked after.")
            return await self._api.log(helper)
        finally:
            await self._end(helper)

    async def _end(self, container: str) -> None:
        with contextlib.suppress(SandboxError):
            await remove(self._api, f"/containers/{container}", {"force": "true"})


async def remove(api: DockerApi, path: str, params: Mapping[str, str]) -> None:
    """Until it is gone: another removal may be on its way, and a volume is in use for a moment longer than its
    container."""
    try:
        async with asyncio.timeout(REMOVE_TIMEOUT_S):
            while True:
                try:
                    await api.call("DELETE", path, params=params)
                except EngineRefusal as exc:
                    if exc.status == 404:
                        return
                    await asyncio.sleep(0.1)
                else:
                    return
    except TimeoutError as exc:
        raise SandboxError("unknown_outcome", "The Docker engine did not end a sandbox in time.") from exc


def _folders() -> bytes:
    """A tar of the overlay's two folders; the upper one becomes the workspace, which the commands' user owns."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in ("u", "w"):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, 0o755, 1000, 1000
            tar.addfile(info)
    return archive.getvalue()


def _in_use(snapshot: str) -> SandboxError:
    return SandboxError("limit_exceeded", f"A sandbox lives on snapshot {snapshot}; it can't be dropped yet.")
