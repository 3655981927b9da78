"""Sandboxes as hardened containers of a Docker engine, each with a volume for its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bot.domain.errors import SandboxError
from bot.sandbox import guest
from bot.sandbox.docker_api import DockerApi, EngineRefusal, ExecStream, Output
from bot.sandbox.egress import EgressProxy, Host
from bot.sandbox.guest import files as guest_files
from bot.sandbox.guest import ready as guest_ready
from bot.sandbox.protocol import (
    OUTPUT_LIMIT,
    WORKSPACE,
    Entry,
    ExecResult,
    Kind,
    ProviderLimits,
    SandboxInfo,
    SandboxSpec,
)

DEFAULT_DOCKER_HOST = "unix:///var/run/docker.sock"

COMMANDS = "1000:1000"
MAIN = "65534:65534"
"""The main process has a user of its own, so that `kill -9 -1` as the commands' user ends all of them and not it."""
EGRESS = "/run/egress"
PROXY_PORT = 3128
PIDS = 512
TMP_SIZE = "512m"
OPEN_FILES = 16384

CALL_TIMEOUT_S = 60.0
OWN_TIMEOUT_S = 60.0
"""For our own small programs, those that read and write files among them."""
SWEEP_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 30.0
LIST_LIMIT = 8 * 1024**2
LINE_FOR_LEFT_OUT = 64
"""Bytes of the kept output that the line in its middle may take."""

_ID = re.compile(r"coder-[0-9a-f]{16}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_SOCKET_PATH_LIMIT = 107  # sun_path, less its final zero
_NOT_FOUND = (b"executable file not found", b"no such file or directory")

T = TypeVar("T")


class DockerProvider:
    """Sandboxes on the engine at `docker_host`, which must be a unix socket of this machine.

    `deployment` sets this bot's sandboxes apart from any other's on the same engine. `egress_dir` must be a folder
    that the engine sees under the same path; it holds each sandbox's deadline and proxy socket. `private_hosts` are
    the addresses inside the operator's networks that an allow-list may name. Making a provider does no I/O.
    """

    def __init__(
        self,
        *,
        deployment: str,
        egress_dir: Path,
        docker_host: str = DEFAULT_DOCKER_HOST,
        private_hosts: frozenset[str] = frozenset(),
    ) -> None:
        self._api = DockerApi(docker_host)
        self._deployment = deployment
        self._egress_dir = egress_dir.absolute()
        self._private_hosts = private_hosts
        self._connected: dict[str, DockerSandbox] = {}
        for text in private_hosts:
            Host.parse(text)
        longest = len(os.fsencode(self._egress_dir / f"coder-{'0' * 16}" / "proxy.sock"))
        if longest > _SOCKET_PATH_LIMIT:
            raise SandboxError(
                "invalid_config",
                f"{self._egress_dir} is too long a path for a socket below it: choose a home folder whose path is "
                f"{longest - _SOCKET_PATH_LIMIT} bytes shorter.",
            )

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

    async def create(self, spec: SandboxSpec) -> DockerSandbox:
        image = await self.image_id(spec.image)
        for older in await self._ids({"coder-bot.name": spec.name}):
            await self.kill(older)
        sandbox_id = _new_id()
        try:
            await self._make(sandbox_id, spec, image)
            return await self._start(sandbox_id, spec.lifetime_s, spec.env, image=spec.image)
        except (SandboxError, asyncio.CancelledError):
            await _to_the_end(self._discard(sandbox_id))
            raise

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> DockerSandbox:
        container = await self._container(sandbox_id)
        if container is None or container["State"]["Status"] in ("removing", "dead"):
            raise _gone(sandbox_id)
        earlier = self._connected.get(sandbox_id)
        if earlier:
            await earlier.aclose()
        if container["State"]["Paused"]:
            await self._api.ask("POST", f"/containers/{sandbox_id}/unpause")
        labels = container["Config"]["Labels"]
        env = json.loads(labels.get("coder-bot.env", "{}"))
        return await self._start(sandbox_id, lifetime_s, env, image=str(container["Config"]["Image"]))

    async def kill(self, sandbox_id: str) -> None:
        if not _ID.fullmatch(sandbox_id):
            return
        connected = self._connected.get(sandbox_id)
        if connected:
            await connected.aclose()
        if await self._container(sandbox_id):
            await self._remove(f"/containers/{sandbox_id}", {"force": "true", "v": "true"})
        try:
            volume = await self._api.call("GET", f"/volumes/{sandbox_id}")
        except EngineRefusal as exc:
            if exc.status != 404:
                raise SandboxError("unknown_outcome", "The Docker engine could not say what it kept.") from exc
            volume = {}
        if (volume.get("Labels") or {}).get("coder-bot.deployment") == self._deployment:
            await self._remove(f"/volumes/{sandbox_id}", {"force": "true"})
        await asyncio.to_thread(shutil.rmtree, self._egress_dir / sandbox_id, ignore_errors=True)

    async def list(self, *, task: str | None = None) -> list[SandboxInfo]:
        labels = {} if task is None else {"coder-bot.task": task}
        found: dict[str, SandboxInfo] = {}
        # The volumes first: one without a container is what a crash left, and is to be found and ended like the rest.
        volumes = await self._api.ask("GET", "/volumes", params=self._filter(labels))
        for volume in volumes["Volumes"] or ():
            found[volume["Name"]] = _info(volume["Name"], volume["Labels"], running=False)
        for container in await self._api.ask("GET", "/containers/json", params={"all": "1"} | self._filter(labels)):
            sandbox_id = container["Names"][0].lstrip("/")
            found[sandbox_id] = _info(sandbox_id, container["Labels"], running=container["State"] == "running")
        return sorted(found.values(), key=lambda info: info.id)

    # How they are made

    async def _make(self, sandbox_id: str, spec: SandboxSpec, image: str) -> None:
        labels = {
            "coder-bot.deployment": self._deployment,
            "coder-bot.task": spec.task,
            "coder-bot.kind": spec.kind,
            "coder-bot.name": spec.name,
        }
        limits = [{"Name": "core", "Soft": 0, "Hard": 0}]
        limits += [{"Name": name, "Soft": n, "Hard": n} for name, n in (("nofile", OPEN_FILES), ("fsize", spec.disk))]
        body = {
            "Image": image,
            "Hostname": "sandbox",
            "User": MAIN,
            "Entrypoint": ["python3", "-IS", "-c", guest.source("main"), EGRESS, str(PROXY_PORT)],
            "Cmd": [],
            "WorkingDir": "/",
            "Healthcheck": {"Test": ["NONE"]},
            # The commands' own environment is kept beside, for it must not reach the main process or our helpers.
            "Labels": labels | {"coder-bot.env": json.dumps(dict(spec.env))},
            "HostConfig": {
                "Init": True,
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
                ],
                "LogConfig": {"Type": "none"},
                "RestartPolicy": {"Name": "no"},
            },
        }
        self._make_folder(sandbox_id)
        try:
            await self._api.call("POST", "/volumes/create", body={"Name": sandbox_id, "Labels": labels})
            await self._api.call("POST", "/containers/create", params={"name": sandbox_id}, body=body)
        except EngineRefusal as exc:
            raise SandboxError(
                "invalid_config",
                f"The Docker engine refuses to make a sandbox of {spec.image} with {spec.memory} bytes of memory, "
                f"{spec.cpus} processors and {spec.disk} bytes of disk.",
            ) from exc

    async def _start(self, sandbox_id: str, lifetime_s: int, env: Mapping[str, str], *, image: str) -> DockerSandbox:
        """Runs the container, or lets it run on, with nothing allowed and a new lifetime; ready for commands."""
        self._make_folder(sandbox_id)
        self._set_deadline(sandbox_id, lifetime_s)
        try:
            await self._api.call("POST", f"/containers/{sandbox_id}/start")
            container = await self._api.call("GET", f"/containers/{sandbox_id}/json")
        except EngineRefusal as exc:
            if exc.status == 404 and "o such container" in exc.text:
                raise _gone(sandbox_id) from exc
            if "python3" in exc.text:
                raise SandboxError("invalid_config", _no_python(image)) from exc
            raise SandboxError(
                "invalid_config",
                f"The Docker engine could not start a sandbox of {image}. It has to see {self._egress_dir} under "
                "that same path, and to know limits for memory, processors and processes; its own log says more.",
            ) from exc
        path = next(
            (pair for pair in container["Config"]["Env"] or () if pair.startswith("PATH=")), "PATH=/usr/bin:/bin"
        )
        sandbox = DockerSandbox(self, sandbox_id, {"PATH": f"{path[5:]}:{WORKSPACE}/.npm-global/bin", **env})
        await self._make_ready(sandbox, image)
        self._connected[sandbox_id] = sandbox
        return sandbox

    async def _make_ready(self, sandbox: DockerSandbox, image: str) -> None:
        code = await self._ready(sandbox)
        if code == guest_ready.FOREIGN:
            # The image has no /workspace of the commands' user that the new volume took after.
            await self._hand_over(sandbox.id)
            code = await self._ready(sandbox)
        match code:
            case 0:
                return
            case guest_ready.OLD_PYTHON | 126 | 127:
                raise SandboxError("invalid_config", _no_python(image))
            case _:
                raise SandboxError(
                    "invalid_config",
                    f"A sandbox of {image} did not become ready (code {code}). The engine has to see "
                    f"{self._egress_dir} under that same path.",
                )

    async def _ready(self, sandbox: DockerSandbox) -> int:
        """0 where it is ready, else what its check or, where that has ended already, its main process ended with."""
        try:
            return (await sandbox.run_own("ready", WORKSPACE, str(PROXY_PORT)))[0]
        except SandboxError as exc:
            container = await self._container(sandbox.id)
            if container is None or container["State"]["Running"]:
                raise
            code = int(container["State"]["ExitCode"])
            if not code:
                raise SandboxError(
                    "invalid_config",
                    f"A sandbox ended at once: the engine does not see {self._egress_dir} under that same path, "
                    "or its clock is far from the bot's.",
                ) from exc
            return code

    async def _hand_over(self, sandbox_id: str) -> None:
        """Gives a workspace to the commands' user, by a container beside it: in its own, root has no rights."""
        container = await self._api.ask("GET", f"/containers/{sandbox_id}/json")
        helper = _new_id()
        body = {
            "Image": container["Image"],
            "User": "0:0",
            "Entrypoint": ["python3", "-IS", "-c", f"import os; os.chown({WORKSPACE!r}, 1000, 1000)"],
            "Cmd": [],
            "WorkingDir": "/",
            "Labels": container["Config"]["Labels"],
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "CapAdd": ["CHOWN"],
                "SecurityOpt": ["no-new-privileges"],
                "Mounts": [{"Type": "volume", "Source": sandbox_id, "Target": WORKSPACE}],
                "LogConfig": {"Type": "none"},
            },
        }
        try:
            await self._api.ask("POST", "/containers/create", params={"name": helper}, body=body)
            await self._api.ask("POST", f"/containers/{helper}/start")
            await self._api.ask("POST", f"/containers/{helper}/wait")
        finally:
            await _to_the_end(self._discard(helper))

    def _make_folder(self, sandbox_id: str) -> None:
        # Closed to everybody else on this machine, open inside: the sandbox's users are not ours.
        folder = self._egress_dir / sandbox_id
        try:
            self._egress_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        except OSError as exc:
            raise self._unwritable() from exc

    def _set_deadline(self, sandbox_id: str, lifetime_s: int) -> None:
        folder = self._egress_dir / sandbox_id
        draft = folder / "deadline.new"
        try:
            draft.write_text(f"{time.time() + lifetime_s:.3f}", encoding="ascii")
            draft.chmod(0o644)
            draft.replace(folder / "deadline")
        except OSError as exc:
            raise self._unwritable() from exc

    def _unwritable(self) -> SandboxError:
        return SandboxError("invalid_config", f"The bot can't write below {self._egress_dir}.")

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
        params = self._filter(labels)
        volumes = await self._api.ask("GET", "/volumes", params=params)
        containers = await self._api.ask("GET", "/containers/json", params={"all": "1"} | params)
        names = {volume["Name"] for volume in volumes["Volumes"] or ()}
        return names | {container["Names"][0].lstrip("/") for container in containers}

    async def _remove(self, path: str, params: Mapping[str, str]) -> None:
        """Until it is gone: another removal may be on its way, and a volume is in use for a moment longer than its
        container."""
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                while True:
                    try:
                        await self._api.call("DELETE", path, params=params)
                    except EngineRefusal as exc:
                        if exc.status == 404:
                            return
                        await asyncio.sleep(0.1)
                    else:
                        return
        except TimeoutError as exc:
            raise SandboxError("unknown_outcome", "The Docker engine did not end a sandbox in time.") from exc

    async def _discard(self, sandbox_id: str) -> None:
        with contextlib.suppress(SandboxError):  # the error that led here is the one to tell
            await self.kill(sandbox_id)


class DockerSandbox:
    """One container. A command that runs into its time-out takes with it whatever else runs here at that moment."""

    def __init__(self, provider: DockerProvider, sandbox_id: str, env: Mapping[str, str]) -> None:
        self._provider = provider
        self._api = provider._api
        self._id = sandbox_id
        self._proxy = EgressProxy(
            provider._egress_dir / sandbox_id / "proxy.sock",
            sandbox=sandbox_id,
            private_hosts=provider._private_hosts,
        )
        self._env = {
            "HOME": f"{WORKSPACE}/.home",
            "TMPDIR": "/tmp",  # noqa: S108 - the container's own
            "LANG": "C.UTF-8",
            "XDG_CACHE_HOME": f"{WORKSPACE}/.cache",
            "PIP_CACHE_DIR": f"{WORKSPACE}/.cache/pip",
            "npm_config_cache": f"{WORKSPACE}/.cache/npm",
            "npm_config_prefix": f"{WORKSPACE}/.npm-global",
            **env,
        }

    @property
    def id(self) -> str:
        return self._id

    @property
    def proxy_env(self) -> Mapping[str, str]:
        address = f"http://127.0.0.1:{PROXY_PORT}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return {**dict.fromkeys(names, address), "no_proxy": "", "NO_PROXY": ""}

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """Each `host:port` that commands asked for in vain since this connection began."""
        return self._proxy.refused

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
        """As the protocol says; the exit code is always the engine's. Two execs at a time are possible, but a
        time-out of one ends the other's processes too."""
        half = (OUTPUT_LIMIT - LINE_FOR_LEFT_OUT) // 2
        stdout, stderr = (Output(head=half, tail=half) for _ in range(2))
        started = time.monotonic()
        pairs = {**self._env, **(env or {})}
        if not argv or not all(_is_exact(text) for text in (*argv, *pairs.values())) or not all(map(_is_key, pairs)):
            raise SandboxError(
                "invalid_input", "A command needs a program, and words without NUL that are valid text."
            )
        try:
            folder = _below(cwd)
        except ValueError as exc:
            raise SandboxError("invalid_input", f"A command runs below {WORKSPACE}, not in {cwd!r}.") from exc
        exit_code, timed_out = await self._run(
            argv,
            cwd=f"{WORKSPACE}/{folder}".rstrip("/"),
            env=pairs,
            stdin=stdin,
            timeout_s=timeout_s,
            stdout=stdout,
            stderr=stderr,
        )
        return ExecResult(
            exit_code=exit_code,
            stdout=stdout.bytes(),
            stderr=stderr.bytes(),
            timed_out=timed_out,
            truncated=bool(stdout.left_out or stderr.left_out),
            duration_s=time.monotonic() - started,
        )

    async def read(self, path: str, *, max_bytes: int) -> bytes:
        return await self._file("read", path, max_bytes, most=max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._file("write", path, mode, content=content)

    async def list(self, path: str) -> list[Entry]:
        rows = (await self._file("list", path, most=LIST_LIMIT)).split(b"\0")[:-1]
        return sorted((_entry(row) for row in rows), key=lambda entry: entry.name)

    async def remove(self, path: str) -> None:
        await self._file("remove", path)

    async def allow(self, hosts: frozenset[str]) -> None:
        await self._proxy.allow(hosts)

    async def extend(self, lifetime_s: int) -> None:
        if not (await self._state())["Running"]:
            raise _stopped(self._id)
        self._provider._set_deadline(self._id, lifetime_s)

    async def pause(self) -> None:
        await self.aclose()
        try:
            await self._api.call("POST", f"/containers/{self._id}/stop", params={"t": "0"})
        except EngineRefusal as exc:
            raise self._lost(exc) from exc

    async def aclose(self) -> None:
        if self._provider._connected.get(self._id) is self:
            del self._provider._connected[self._id]
        await self._proxy.aclose()

    # Commands

    async def run_own(self, script: str, *arguments: str, stdin: bytes = b"", most: int = 0) -> tuple[int, bytes]:
        """Runs one of our own small programs as the commands' user: its exit code, and its stdout of at most `most`
        bytes. Nothing that the repository or its config say is in its environment."""
        stdout, stderr = Output(head=most, tail=0), Output(head=0, tail=0)
        code, timed_out = await self._run(
            ["python3", "-IS", "-c", guest.source(script), *arguments],
            cwd="/",
            env={},
            stdin=stdin,
            timeout_s=OWN_TIMEOUT_S,
            stdout=stdout,
            stderr=stderr,
        )
        if timed_out:
            raise SandboxError("unknown_outcome", f"Sandbox {self._id} did not answer within {OWN_TIMEOUT_S:.0f} s.")
        if stdout.left_out:
            raise SandboxError("limit_exceeded", f"Sandbox {self._id} answered with more than {most} bytes.")
        return code, stdout.bytes()

    async def _run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_s: float,
        stdout: Output,
        stderr: Output,
    ) -> tuple[int, bool]:
        """Exit code, and whether the time was over first; then nothing of the commands' user runs any more."""
        try:
            exec_id = await self._prepare(argv, cwd=cwd, env=env, stdin=bool(stdin))
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._start(exec_id, argv[0], cwd, stdin, stdout, stderr), False
            except TimeoutError:
                await _to_the_end(self._end_all(exec_id))
                return 128 + signal.SIGKILL, True
            except asyncio.CancelledError:
                await _to_the_end(self._end_all(exec_id))
                raise
        except EngineRefusal as exc:
            raise self._lost(exc) from exc

    async def _prepare(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bool) -> str:
        body = {
            "Cmd": list(argv),
            "User": COMMANDS,
            "WorkingDir": cwd,
            "Env": [f"{key}={value}" for key, value in env.items()],
            "AttachStdin": stdin,
            "AttachStdout": True,
            "AttachStderr": True,
        }
        return str((await self._api.call("POST", f"/containers/{self._id}/exec", body=body))["Id"])

    async def _start(self, exec_id: str, program: str, cwd: str, stdin: bytes, stdout: Output, stderr: Output) -> int:
        try:
            async with self._api.exec_stream(exec_id) as stream:
                end = await self._follow(exec_id, stream, stdin, stdout, stderr)
        except EngineRefusal as exc:
            # Some engines say by a status what others write into the stream.
            end = await self._api.call("GET", f"/exec/{exec_id}/json")
            if not _could_not_start(end):
                raise
            stdout.add(exc.text.encode())
        if not _could_not_start(end):
            return int(end["ExitCode"])
        said = stdout.bytes()
        stdout.clear()
        if b"chdir to cwd" in said:
            stderr.add(f"there is no folder {cwd}\n".encode())
            return 126
        absent = any(text in said for text in _NOT_FOUND)
        stderr.add(f"{program}: {'no such program' if absent else 'can not be started'}\n".encode())
        return 127 if absent else 126

    async def _follow(
        self, exec_id: str, stream: ExecStream, stdin: bytes, stdout: Output, stderr: Output
    ) -> dict[str, Any]:
        """Takes the output until the command itself has ended, whoever else still holds its pipes; how it ended."""
        taking = asyncio.create_task(stream.drain(stdout, stderr))
        feeding = asyncio.create_task(stream.feed(stdin)) if stdin else None
        pause = 0.02
        try:
            while True:
                # The end of the output nearly always is the end of the command; else it is asked for now and then.
                if taking.done():
                    await asyncio.sleep(pause)
                else:
                    await asyncio.wait({taking}, timeout=max(pause, 0.1))
                end: dict[str, Any] = await self._api.call("GET", f"/exec/{exec_id}/json")
                # Before it begins, it is not running either, but has no exit code.
                if not end["Running"] and end["ExitCode"] is not None:
                    break
                pause = min(pause * 1.5, 0.5)
            # What the command wrote is on its way; what its children will write is not waited for.
            for _ in range(10):
                size = stdout.size + stderr.size
                await asyncio.wait({taking}, timeout=0.1)
                if taking.done() or stdout.size + stderr.size == size:
                    break
            return end
        finally:
            tasks = [task for task in (taking, feeding) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CALL_TIMEOUT_S)

    async def _end_all(self, exec_id: str) -> None:
        """Ends every process of the commands' user. The engine's own list of processes says whether that was done;
        where a command defends itself, the container is started anew, which nothing survives but the workspace."""
        nothing = Output(head=0, tail=0)
        try:
            await self._begun(exec_id)
            for _ in range(3):
                with contextlib.suppress(TimeoutError):
                    sweep = await self._prepare(
                        ["python3", "-IS", "-c", guest.source("sweep")], cwd="/", env={}, stdin=False
                    )
                    async with asyncio.timeout(SWEEP_TIMEOUT_S):
                        await self._start(sweep, "python3", "/", b"", nothing, nothing)
                if not await self._leftovers():
                    return
            await self._api.call("POST", f"/containers/{self._id}/restart", params={"t": "0"})
        except EngineRefusal as exc:
            if exc.status not in (404, 409):  # a sandbox that stands still or is gone has no processes
                raise SandboxError("unknown_outcome", "A command may still run: the engine did not end it.") from exc

    async def _begun(self, exec_id: str) -> None:
        """Waits for a command that is on its way: swept before it has a process, it would run afterwards."""
        for waited in range(100):
            found = await self._api.call("GET", f"/exec/{exec_id}/json")
            on_its_way = found["Running"] or (found["ExitCode"] is None and waited < 5)
            if found["Pid"] or not on_its_way:
                return
            await asyncio.sleep(0.05)

    async def _leftovers(self) -> bool:
        """Whether any process is alive that is not of the first one's user."""
        state = await self._state()
        listed = await self._api.call("GET", f"/containers/{self._id}/top", params={"ps_args": "-eo pid,uid,stat"})
        rows = [row[:3] for row in listed["Processes"] or ()]
        first = next((uid for pid, uid, _ in rows if pid == str(state["Pid"])), None)
        return any(uid != first and not stat.startswith("Z") for _, uid, stat in rows)

    async def _state(self) -> dict[str, Any]:
        container = await self._provider._container(self._id)
        if container is None:
            raise _gone(self._id)
        state: dict[str, Any] = container["State"]
        return state

    def _lost(self, refusal: EngineRefusal) -> SandboxError:
        match refusal.status:
            case 404:
                return _gone(self._id)
            case 409:
                return _stopped(self._id)
            case _:
                return SandboxError("unknown_outcome", f"The Docker engine failed in a call for sandbox {self._id}.")

    # Files

    async def _file(self, verb: str, path: str, number: int = 0, *, content: bytes = b"", most: int = 0) -> bytes:
        name = _below(path)
        code, out = await self.run_own(
            "files", WORKSPACE, verb, str(number), stdin=os.fsencode(name) + b"\0" + content, most=most
        )
        match code:
            case 0:
                return out
            case guest_files.MISSING:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            case guest_files.IS_FOLDER:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            case guest_files.NO_FOLDER:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            case guest_files.NO_FILE:
                raise IsADirectoryError(errno.EISDIR, "Not a regular file", path)
            case guest_files.FORBIDDEN:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            case guest_files.OTHER:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
            case guest_files.ESCAPES:
                raise ValueError(f"{path!r} is a symbolic link or leads through one.")
            case guest_files.TOO_LARGE:
                raise SandboxError("limit_exceeded", f"{path!r} is larger than {number} bytes.")
            case guest_files.FULL:
                raise SandboxError("limit_exceeded", f"There is no room for {path!r} in the sandbox.")
            case _:
                raise SandboxError("unknown_outcome", f"The sandbox did not say what became of {verb} {path!r}.")


def _new_id() -> str:
    return f"coder-{secrets.token_hex(8)}"


def _info(sandbox_id: str, labels: Mapping[str, str], *, running: bool) -> SandboxInfo:
    kind: Kind = labels["coder-bot.kind"]  # type: ignore[assignment]  # written by us, from a Kind
    return SandboxInfo(id=sandbox_id, kind=kind, task=labels["coder-bot.task"], running=running)


def _entry(row: bytes) -> Entry:
    kind, size, name = row.split(b" ", 2)
    match kind:
        case b"file":
            return Entry(name=os.fsdecode(name), kind="file", size=int(size))
        case b"dir":
            return Entry(name=os.fsdecode(name), kind="dir", size=0)
        case b"link":
            return Entry(name=os.fsdecode(name), kind="link", size=0)
        case _:
            return Entry(name=os.fsdecode(name), kind="other", size=0)


def _below(path: str) -> str:
    """The path relative to the workspace; ValueError where its text leads out of it."""
    below = path.removeprefix(WORKSPACE) if path.startswith("/") else "/" + path
    parts = [part for part in below.split("/") if part not in ("", ".")]
    if "\0" in path or ".." in parts or (below and (below == path or not below.startswith("/"))):
        raise ValueError(f"{path!r} is not below {WORKSPACE}.")
    return "/".join(parts)


def _is_exact(text: str) -> bool:
    """Whether a program would get this text and no other."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _is_key(text: str) -> bool:
    return bool(text) and "=" not in text and _is_exact(text)


def _could_not_start(end: Mapping[str, Any]) -> bool:
    """The engine gives an exit code to what never had a process."""
    return not end["Pid"] and end["ExitCode"] in (126, 127)


def _gone(sandbox_id: str) -> SandboxError:
    return SandboxError("gone", f"Sandbox {sandbox_id} no longer exists.")


def _stopped(sandbox_id: str) -> SandboxError:
    return SandboxError(
        "limit_exceeded",
        f"Sandbox {sandbox_id} does not run: it was paused, or its lifetime is over. Connecting resumes it.",
    )


def _no_python(image: str) -> str:
    return (
        f"The image {image} has no python3 of 3.9 or later on its PATH, and a sandbox needs it: add it to the image."
    )


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Goes through with bounded work although its caller is cancelled, then lets the cancellation go on."""
    task = asyncio.create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = not task.cancelled()
    if cancelled:
        raise asyncio.CancelledError
    return task.result()
