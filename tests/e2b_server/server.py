"""The server as tests hold it: in a thread with an event loop of its own, so that any loop and any process may use
it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import uvicorn
from starlette.types import Receive, Scope, Send

from tests.e2b_server.control import Control
from tests.e2b_server.engine import FOLDER_PREFIX, Engine
from tests.e2b_server.faults import Faults
from tests.e2b_server.fleet import Fleet
from tests.e2b_server.proxy import Proxy

DOCKER_SOCKET = "/var/run/docker.sock"
IMAGE = "coder-bot-sandbox:latest"
CONTROL = ("/v2/sandboxes", "/sandboxes", "/snapshots", "/templates")

T = TypeVar("T")


class E2BServer:
    """`async with E2BServer() as server`: an E2B of its own at `api_url` and `sandbox_url`, for `api_key`.

    `templates` names the image of each template. With `private_addresses` sandboxes may reach this machine and its
    networks, where their network configuration lets them. Leaving ends every sandbox and snapshot.
    """

    def __init__(
        self,
        *,
        templates: Mapping[str, str] | None = None,
        private_addresses: bool = False,
        port: int = 0,
        docker_socket: str = DOCKER_SOCKET,
    ) -> None:
        self.run = secrets.token_hex(8)
        """The value of the label `coder-bot.e2b-server.run` on all that it makes."""
        self.api_key = "e2b_" + secrets.token_hex(20)
        self.url = ""
        self.faults = Faults()
        self._templates = templates or {"base": IMAGE}
        self._private_addresses = private_addresses
        self._port = port
        self._docker_socket = docker_socket
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="e2b-server", daemon=True)

    @property
    def api_url(self) -> str:
        return self.url

    @property
    def sandbox_url(self) -> str:
        return self.url

    @property
    def sandbox_ids(self) -> set[str]:
        """Of all that are there now, paused ones included."""
        return set(self._fleet.sandboxes)

    @property
    def snapshot_ids(self) -> set[str]:
        return {f"{known.id}:default" for known in list(self._fleet.templates.values()) if known.snapshot_of}

    def limit(self, *, max_lifetime_s: int | None = None, max_running: int | None = None) -> None:
        """The plan: longest run, and how many may run at once. Without it 24 hours and 100."""
        if max_lifetime_s is not None:
            self._fleet.max_lifetime_s = max_lifetime_s
        if max_running is not None:
            self._fleet.max_running = max_running

    async def advance(self, seconds: float) -> None:
        """Moves the clock; returns when every sandbox whose time is up by it has ended or paused."""
        await self._on_loop(self._fleet.advance(seconds))

    async def container(self, sandbox_id: str) -> str:
        """The engine's id of what a sandbox runs in."""
        return self._fleet.find(sandbox_id).container

    async def __aenter__(self) -> E2BServer:
        self._thread.start()
        try:
            await self._on_loop(self._open())
        except BaseException:
            await asyncio.to_thread(self._stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._on_loop(self._close())
        finally:
            await asyncio.to_thread(self._stop)

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
            stack.callback(shutil.rmtree, folder)
            engine = Engine(self._docker_socket, self.run)
            stack.push_async_callback(engine.aclose)
            self._fleet = Fleet(engine, folder, self._templates, self._private_addresses)
            stack.push_async_callback(self._fleet.aclose)
            await self._fleet.open()
            stack.push_async_callback(self._end_tasks)
            self._timer = asyncio.create_task(self._fleet.keep_time())
            await self._listen(stack)
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        await self._stack.aclose()

    async def _end_tasks(self) -> None:
        """All but what makes a sandbox, which is waited for: half of one would be left on the engine."""
        others = asyncio.all_tasks() - self._fleet.making - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self, stack: AsyncExitStack) -> None:
        control = Control(self._fleet, self.faults, self.api_key).app
        proxy = Proxy(self._fleet, self.faults)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await (control if scope["path"].startswith(CONTROL) else proxy)(scope, receive, send)

        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # breaking a connection is an error to it
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        server.force_exit = True  # at the end nobody is waited for
        listener = stack.enter_context(socket.create_server(("127.0.0.1", self._port)))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Without `serve()`, which takes over the process's signals.
        await server.startup(sockets=[listener])
        stack.push_async_callback(self._hang_up, server, listener)

    async def _hang_up(self, server: uvicorn.Server, listener: socket.socket) -> None:
        """As a server that ends: what is being asked gets no answer."""
        await server.shutdown(sockets=[listener])
        for connection in list(server.server_state.connections):
            connection.transport.abort()
