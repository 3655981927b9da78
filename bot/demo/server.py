"""An HTTP server inside of this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn
from starlette.types import Receive, Scope, Send

START_S = 20.0
STOP_S = 10


class _Server(uvicorn.Server):
    """Leaves the process's signals alone: they belong to the program this runs in."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: Callable[[Scope, Receive, Send], object], listener: socket.socket) -> AsyncIterator[None]:
    """Serves an app in this process, on a socket that listens, until the block ends."""
    # asyncio does this only where a socket names its protocol; without it, answers wait 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(
        app,
        lifespan="off",
        interface="asgi3",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(START_S):
            await server.ready.wait()
        yield
    finally:
        server.should_exit = True
        await running
