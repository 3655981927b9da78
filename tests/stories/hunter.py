"""Looks for secrets wherever a sandbox, a file of the bot's or a process of this machine could hold them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bot.sandbox.docker_api import DockerApi, EngineRefusal
from bot.sandbox.guest.output import Output

USERS = ("0:0", "1000:1000", "65534:65534")
"""Root (which has no capability in there), the commands' user and the main process's: whose everything is."""

INSIDE = r"""
import base64, json, os, sys
wanted = {base64.b64decode(form): name for form, name in json.load(sys.stdin).items()}
found = []
def look(place, data):
    found.extend([name, place] for form, name in wanted.items() if form in data)
def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(64 << 20)
    except OSError:
        return b""
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    name = read(f"/proc/{pid}/comm").decode().strip()
    look(f"argv of {name}", read(f"/proc/{pid}/cmdline"))
    look(f"environment of {name}", read(f"/proc/{pid}/environ"))
for top in ("/workspace", "/tmp", "/run", "/var", "/etc", "/root", "/home", "/dev/shm"):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            look("name of a file", os.fsencode(path))
            if os.path.islink(path):
                look(path, os.fsencode(os.readlink(path)))
            elif os.path.isfile(path):
                look(path, read(path))
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True, order=True)
class Find:
    """A secret by its name, and where it was."""

    secret: str
    place: str


def forms(value: str) -> set[bytes]:
    """A value in every encoding it might be kept in, alone or as a part of something longer."""
    data = value.encode()
    found = {data, data.hex().encode(), value.encode("utf-16-le"), quote(value, safe="").encode()}
    found.add(json.dumps(value)[1:-1].encode())
    found |= {line.encode() for line in value.splitlines() if len(line) > 40 and "-----" not in line}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data)[4:].rstrip(b"=")[:-2]
        found |= {encoded, encoded.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


@dataclass
class Hunter:
    """`secrets` by their names; more may be added while it goes on."""

    deployment: str
    secrets: dict[str, str] = field(default_factory=dict)
    argv: set[bytes] = field(default_factory=set)
    """Every command line seen on this machine."""
    environments: set[bytes] = field(default_factory=set)
    _forms: dict[str, set[bytes]] = field(default_factory=dict, init=False)

    def wanted(self) -> dict[bytes, str]:
        for name, value in self.secrets.items():
            self._forms.setdefault(name, forms(value))
        return {form: name for name in self.secrets for form in self._forms[name]}

    def look(self, place: str, data: bytes) -> set[Find]:
        return {Find(name, place) for form, name in self.wanted().items() if form in data}

    def files(self, *folders: Path) -> set[Find]:
        found = set()
        for folder in folders:
            for path in folder.rglob("*"):
                if path.is_file():
                    found |= self.look(f"file {path.name}", path.read_bytes())
        return found

    def machine(self) -> set[Find]:
        """What the processes of this machine showed, those in containers by their command lines only."""
        found = set()
        for place, seen in (("argv on the machine", self.argv), ("environment on the machine", self.environments)):
            found |= self.look(place, b"\n".join(seen))
        return found

    async def watch(self) -> None:
        """Looks at this machine's processes until cancelled."""
        own = os.readlink("/proc/self/ns/pid")
        while True:
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    self.argv.add((folder / "cmdline").read_bytes())
                    if os.readlink(folder / "ns" / "pid") == own:
                        self.environments.add((folder / "environ").read_bytes())
                except OSError:
                    continue
            await asyncio.sleep(0.2)

    async def sandboxes(self, api: DockerApi) -> list[Mapping[str, Any]]:
        query = {"filters": json.dumps({"label": [f"coder-bot.deployment={self.deployment}"]})}
        found: list[Mapping[str, Any]] = await api.call("GET", "/containers/json", params=query)
        return found

    async def sandbox(self, api: DockerApi, container: str) -> set[Find]:
        """What a running container holds, and what its engine says of it."""
        wanted = {base64.b64encode(form).decode(): name for form, name in self.wanted().items()}
        shown = await api.call("GET", f"/containers/{container}/json")
        found = self.look("the engine's description", json.dumps(shown).encode())
        for user in USERS:
            argv = ["python3", "-IS", "-c", INSIDE]
            said = await run_inside(api, container, argv, json.dumps(wanted).encode(), user=user)
            found |= {Find(name, place) for name, place in json.loads(said)}
        return found


async def run_inside(
    api: DockerApi, container: str, argv: Iterable[str], stdin: bytes = b"", *, user: str = "1000:1000"
) -> bytes:
    """Runs a command through the engine alone, and gives its stdout. EngineRefusal where the container ends
    meanwhile, or the command fails."""
    body = {
        "Cmd": list(argv),
        "User": user,
        "WorkingDir": "/",
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
    }
    exec_id = (await api.call("POST", f"/containers/{container}/exec", body=body))["Id"]
    out, err = Output(head=1 << 20, tail=1 << 20), Output(head=9999, tail=9999)
    async with api.exec_stream(exec_id) as stream:
        await asyncio.gather(stream.feed(stdin), stream.drain(out, err))
    while (ended := await api.call("GET", f"/exec/{exec_id}/json"))["Running"]:
        await asyncio.sleep(0.02)  # its output has ended before it
    if ended["ExitCode"] != 0:
        raise EngineRefusal(0, f"exit code {ended['ExitCode']}: {err.bytes()!r}")
    return out.bytes()
