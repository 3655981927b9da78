"""The sandboxes themselves: one container each, and everything that happens to it in its life."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import json
import secrets
import shutil
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.e2b_server.engine import Engine, EngineError, Image
from tests.e2b_server.firewall import Firewall, Network, complaint

PROXY_PORT = 3128
READY_S = 60.0
ENDING_POLLS = 20
CPUS = 2
MEMORY_MB = 2048
DISK_MB = 10 * 1024
GUEST = Path(__file__).parent / "envd"


class Problem(Exception):
    """What the control plane answers instead."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Template:
    """What sandboxes start from: a template proper, or a snapshot, which has the sandbox it was taken of."""

    id: str
    name: str
    image: Image
    created: dt.datetime
    snapshot_of: str | None = None


class Sandbox:
    """One sandbox, running or paused."""

    def __init__(self, body: Mapping[str, Any], template: Template, folder: Path, firewall: Firewall) -> None:
        self.id = "i" + secrets.token_hex(10)
        self.token = secrets.token_hex(20)
        self.body = body
        self.template = template
        self.folder = folder / self.id
        self.firewall = firewall
        self.state: Literal["running", "paused"] = "running"
        self.frozen = False
        self.container = ""
        self.started = self.end = dt.datetime.min.replace(tzinfo=dt.UTC)
        self.lock = asyncio.Lock()
        self.cut = asyncio.Event()
        """Set when all connections to it end; a new one for those that come later."""
        self.envd = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(self.folder / "envd.sock")),
            base_url="http://envd",
            timeout=None,
            trust_env=False,
        )

    @property
    def auto_pauses(self) -> bool:
        return bool(self.body.get("autoPause"))

    @property
    def auto_resumes(self) -> bool:
        return bool((self.body.get("autoResume") or {}).get("enabled"))

    @property
    def metadata(self) -> Mapping[str, str]:
        return self.body.get("metadata") or {}

    def drop_connections(self) -> None:
        self.cut.set()
        self.cut = asyncio.Event()


class Fleet:
    """All sandboxes and snapshots of one server. Lives on the server's own event loop."""

    def __init__(self, engine: Engine, folder: Path, templates: Mapping[str, str], private_addresses: bool) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.templates: dict[str, Template] = {}
        self.max_lifetime_s = 24 * 3600
        self.max_running = 100
        self._engine = engine
        self._folder = folder
        self._images = templates
        self._private_addresses = private_addresses
        self._moved = dt.timedelta()
        self._changed = asyncio.Event()
        self._by_key: dict[str, asyncio.Task[Sandbox]] = {}
        self.making: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        await self._engine.sweep()
        for name, image in self._images.items():
            known = Template(
                id=hashlib.sha256(name.encode()).hexdigest()[:20],
                name=name,
                image=await self._engine.image(image),
                created=self.now(),
            )
            self.templates[known.id] = known

    async def aclose(self) -> None:
        while self.making:
            await asyncio.wait(self.making)
        for sandbox in self.sandboxes.values():
            sandbox.drop_connections()
            await sandbox.firewall.aclose()
            await sandbox.envd.aclose()
        self.sandboxes.clear()
        await self._engine.remove_all()

    # Time

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) + self._moved

    async def advance(self, seconds: float) -> None:
        self._moved += dt.timedelta(seconds=seconds)
        await self.expire()
        self._changed.set()

    async def keep_time(self) -> None:
        """Ends or pauses each sandbox when its time is up; runs until cancelled."""
        while True:
            self._changed.clear()
            await self.expire()
            ends = [sandbox.end for sandbox in self.sandboxes.values() if sandbox.state == "running"]
            wait_s = (min(ends) - self.now()).total_seconds() if ends else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def expire(self) -> None:
        await asyncio.gather(*(self._expire(sandbox) for sandbox in list(self.sandboxes.values())))

    async def _expire(self, sandbox: Sandbox) -> None:
        async with sandbox.lock:
            if sandbox.id not in self.sandboxes or sandbox.state == "paused" or self.now() < sandbox.end:
                return
            if sandbox.auto_pauses:
                await self._pause(sandbox, memory=sandbox.body.get("autoPauseMemory", True))
            else:
                await self._kill(sandbox)

    def _live(self, sandbox: Sandbox, seconds: int) -> None:
        """From now on; never beyond the plan's longest run."""
        longest = sandbox.started + dt.timedelta(seconds=self.max_lifetime_s)
        sandbox.end = min(self.now() + dt.timedelta(seconds=max(0, seconds)), longest)
        self._changed.set()

    # What can be asked

    def find(self, sandbox_id: str) -> Sandbox:
        found = self.sandboxes.get(sandbox_id)
        if found is None:
            raise Problem(404, f'sandbox "{sandbox_id}" not found')
        return found

    def template(self, name: str) -> Template:
        """By id or name, with or without a tag."""
        bare = name.removesuffix(":default")
        for known in self.templates.values():
            if bare in (known.id, known.name):
                return known
        raise Problem(404, f"template '{name}' not found")

    async def create(self, body: Mapping[str, Any], *, timeout_s: int, key: str | None = None) -> Sandbox:
        """A repeated key gives the sandbox that was made the first time, as long as that one lives."""
        before = self._by_key.get(key) if key else None
        if before and (not before.done() or (not before.exception() and before.result().id in self.sandboxes)):
            return await asyncio.shield(before)
        task = self._task(self._create(body, timeout_s))
        if key:
            self._by_key[key] = task
        return await asyncio.shield(task)

    def _task(self, work: Coroutine[Any, Any, Sandbox]) -> asyncio.Task[Sandbox]:
        """Goes on when the caller has gone: it is then that sandboxes appear which nobody knows of."""
        task = asyncio.create_task(work)
        self.making.add(task)
        task.add_done_callback(self._made)
        return task

    def _made(self, task: asyncio.Task[Any]) -> None:
        self.making.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has heard of it, or has gone

    async def _create(self, body: Mapping[str, Any], timeout_s: int) -> Sandbox:
        self._check_lifetime(timeout_s)
        network = {**(body.get("network") or {}), "allow_internet_access": body.get("allow_internet_access")}
        self._check_network(network)
        template = self.template(body["templateID"])
        self._check_running(making=1)
        sandbox = Sandbox(body, template, self._folder, Firewall(private_addresses=self._private_addresses))
        sandbox.firewall.network = network
        self._prepare(sandbox)
        try:
            await sandbox.firewall.start(sandbox.folder / "proxy.sock")
            await self._boot(sandbox, template.image)
        except BaseException:
            await self._clear(sandbox)
            raise
        self.sandboxes[sandbox.id] = sandbox
        sandbox.started = self.now()
        self._live(sandbox, timeout_s)
        return sandbox

    def _prepare(self, sandbox: Sandbox) -> None:
        sandbox.folder.mkdir(mode=0o700)
        shutil.copytree(GUEST, sandbox.folder / "envd", ignore=shutil.ignore_patterns("__pycache__"))
        proxy = f"http://127.0.0.1:{PROXY_PORT}"
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
        if not self._private_addresses:
            proxies |= {"no_proxy": "localhost,127.0.0.1,::1", "NO_PROXY": "localhost,127.0.0.1,::1"}
        image = sandbox.template.image
        config = {
            "user": image.user,
            "workdir": image.workdir,
            "envs": proxies | (sandbox.body.get("envVars") or {}),
        }
        (sandbox.folder / "config.json").write_text(json.dumps(config))

    async def _boot(self, sandbox: Sandbox, image: Image) -> None:
        sandbox.container = await self._engine.create(
            image.id,
            name=f"coder-e2b-{sandbox.id}-{secrets.token_hex(2)}",
            folder=str(sandbox.folder),
            argv=["python3", "-BEs", "-m", "envd.main", str(PROXY_PORT)],
            memory_mb=MEMORY_MB,
            cpus=CPUS,
        )
        await self._ready(sandbox)

    async def _ready(self, sandbox: Sandbox) -> None:
        async with asyncio.timeout(READY_S):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    if (await sandbox.envd.get("/health")).status_code == 204:
                        return
                await asyncio.sleep(0.01)

    def _check_lifetime(self, timeout_s: int) -> None:
        if timeout_s <= 0:
            raise Problem(400, "Timeout must be greater than 0")
        if timeout_s > self.max_lifetime_s:
            raise Problem(400, f"Timeout cannot be greater than {self.max_lifetime_s / 3600:g} hours")

    def _check_network(self, network: Network) -> None:
        wrong = complaint(network)
        if wrong:
            raise Problem(400, wrong)

    def _check_running(self, *, making: int) -> None:
        running = sum(sandbox.state == "running" for sandbox in self.sandboxes.values())
        if running + len(self.making) - making >= self.max_running:
            raise Problem(
                429, f"you have reached the maximum number of concurrent E2B sandboxes ({self.max_running})"
            )

    # What can be done to one

    async def connect(self, sandbox: Sandbox, *, timeout_s: int, memory: bool, lose_files: bool) -> bool:
        """Whether it had to be resumed; one that runs only ever lives longer by this."""
        self._check_lifetime(timeout_s)
        async with sandbox.lock:
            self.find(sandbox.id)
            if sandbox.state == "running":
                if self.now() + dt.timedelta(seconds=timeout_s) > sandbox.end:
                    self._live(sandbox, timeout_s)
                return False
            self._check_running(making=0)
            await self._resume(sandbox, memory=memory, lose_files=lose_files)
            sandbox.started = self.now()
            self._live(sandbox, timeout_s)
            return True

    async def _resume(self, sandbox: Sandbox, *, memory: bool, lose_files: bool) -> None:
        if lose_files:
            await self._engine.remove(sandbox.container)
            await self._boot(sandbox, sandbox.template.image)
        else:
            if sandbox.frozen:
                await self._engine.thaw(sandbox.container)
            if sandbox.frozen and not memory:
                await self._engine.kill(sandbox.container)
            if not sandbox.frozen or not memory:
                await self._engine.start(sandbox.container)
            await self._ready(sandbox)
        sandbox.frozen = False
        sandbox.state = "running"

    async def wake(self, sandbox: Sandbox) -> None:
        """What any traffic does to a sandbox that resumes by itself."""
        async with sandbox.lock:
            if sandbox.state == "paused" and sandbox.auto_resumes:
                await self._resume(sandbox, memory=True, lose_files=False)
                sandbox.started = self.now()
                self._live(sandbox, max(300, sandbox.body.get("timeout", 300)))

    async def pause(self, sandbox: Sandbox, *, memory: bool) -> None:
        async with sandbox.lock:
            self.find(sandbox.id)
            if sandbox.state == "paused":
                raise Problem(409, f"Error pausing sandbox - sandbox '{sandbox.id}' is already paused")
            await self._pause(sandbox, memory=memory)

    async def _pause(self, sandbox: Sandbox, *, memory: bool) -> None:
        sandbox.state = "paused"
        sandbox.frozen = memory
        sandbox.drop_connections()
        try:
            await (self._engine.freeze if memory else self._engine.kill)(sandbox.container)
        except EngineError:
            sandbox.state = "running"
            raise

    async def kill(self, sandbox: Sandbox) -> None:
        async with sandbox.lock:
            self.find(sandbox.id)
            await self._kill(sandbox)

    async def _kill(self, sandbox: Sandbox) -> None:
        del self.sandboxes[sandbox.id]
        sandbox.drop_connections()
        await self._clear(sandbox)

    async def _clear(self, sandbox: Sandbox) -> None:
        if sandbox.container:
            await self._engine.remove(sandbox.container)
        await sandbox.firewall.aclose()
        await sandbox.envd.aclose()
        shutil.rmtree(sandbox.folder)

    async def look_after(self, sandbox: Sandbox) -> None:
        """A sandbox whose container ended by itself is no more."""
        async with sandbox.lock:
            if sandbox.id not in self.sandboxes or sandbox.state == "paused":
                return
            for _ in range(ENDING_POLLS):
                if not await self._engine.is_running(sandbox.container):
                    await self._kill(sandbox)
                    return
                await asyncio.sleep(0.1)  # the engine notes an end a little later

    async def set_timeout(self, sandbox: Sandbox, seconds: int) -> None:
        async with sandbox.lock:
            if self.find(sandbox.id).state == "paused":
                raise Problem(404, f'sandbox "{sandbox.id}" is not running')
            self._live(sandbox, seconds)

    def set_network(self, sandbox: Sandbox, network: Network) -> None:
        """Replaces all of it; connections that are open stay."""
        self._check_network(network)
        sandbox.firewall.network = network

    async def snapshot(self, sandbox: Sandbox, *, name: str | None, memory: bool) -> Template:
        """Of the files alone; connections to the sandbox end by it."""
        if memory:
            raise Problem(400, "this server keeps no memory in snapshots: take one of the file system")
        async with sandbox.lock:
            if self.find(sandbox.id).state == "paused":
                raise Problem(409, f"sandbox '{sandbox.id}' is paused")
            sandbox.drop_connections()
            snapshot_id = secrets.token_hex(10)
            of = sandbox.template.image
            image = await self._engine.commit(sandbox.container, "coder-e2b-snapshot", snapshot_id)
            made = Template(
                id=snapshot_id,
                name=name or snapshot_id,
                image=Image(id=image, user=of.user, workdir=of.workdir),
                created=self.now(),
                snapshot_of=sandbox.id,
            )
            self.templates[made.id] = made
            return made

    async def delete_template(self, template: Template) -> None:
        """Sandboxes that started from it live on; the engine then keeps its layers until the server ends."""
        if template.snapshot_of is None:
            raise Problem(403, "only snapshots can be deleted here")
        del self.templates[template.id]
        await self._engine.remove_image(template.image.id)
