"""The way to a sandbox's envd: finds the sandbox, checks the token, carries both ways, breaks what is to break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from typing import cast, get_args

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tests.e2b_server.control import refusal
from tests.e2b_server.faults import Call, Cut, Fault, Faults, NoEnd, Refuse, Slow
from tests.e2b_server.fleet import Fleet, Sandbox

ENVD_PORT = "49983"
STREAM = "application/connect+json"
CARRIED = {
    "authorization",
    "connect-protocol-version",
    "connect-timeout-ms",
    "content-encoding",
    "content-length",
    "content-type",
    "keepalive-ping-interval",
}


class Broken(Exception):
    """Ends a connection in the middle, on purpose."""


class Proxy:
    """The ASGI application that stands before all sandboxes."""

    def __init__(self, fleet: Fleet, faults: Faults) -> None:
        self._fleet = fleet
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        call = _call(request)
        fault = self._faults.take(call) if call else None
        if isinstance(fault, Slow):
            await asyncio.sleep(fault.seconds)
        if isinstance(fault, Refuse):
            await refusal(fault)(scope, receive, send)
            return
        sandbox_id = request.headers.get("e2b-sandbox-id", "")
        sandbox = self._fleet.sandboxes.get(sandbox_id)
        if sandbox:
            await self._fleet.wake(sandbox)
        refused = _refused(request, sandbox)
        if refused:
            await refused(scope, receive, send)
            return
        assert sandbox
        await _Exchange(self._fleet, sandbox, fault, scope, receive, send).run()


def _call(request: Request) -> Call | None:
    if request.url.path == "/files":
        return "read" if request.method == "GET" else "write"
    name = request.url.path.rpartition("/")[2]
    return cast(Call, name) if name in get_args(Call) else None


def _refused(request: Request, sandbox: Sandbox | None) -> Response | None:
    sandbox_id = request.headers.get("e2b-sandbox-id", "")
    if sandbox is None or sandbox.state == "paused":
        return _gateway(sandbox_id, "The sandbox was not found")
    if request.headers.get("e2b-sandbox-port", ENVD_PORT) != ENVD_PORT:
        return _gateway(sandbox_id, "The sandbox is running but port is not open")
    if request.url.path != "/health" and request.headers.get("x-access-token") != sandbox.token:
        text = "unauthorized access, please provide a valid access token or method signing if supported"
        return JSONResponse({"code": 401, "message": text}, 401)
    return None


def _gateway(sandbox_id: str, message: str) -> Response:
    return JSONResponse({"sandboxId": sandbox_id, "message": message, "code": 502}, 502)


class _Exchange:
    """One request and its answer. Ends early when the caller hangs up, or all connections to the sandbox end."""

    def __init__(
        self, fleet: Fleet, sandbox: Sandbox, fault: Fault | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._fleet = fleet
        self._sandbox = sandbox
        self._fault = fault
        self._scope = scope
        self._request = Request(scope)
        self._receive = receive
        self._send = send
        self._sent = asyncio.Event()
        self._begun = False

    async def run(self) -> None:
        work = asyncio.create_task(self._carry())
        cut = asyncio.create_task(self._sandbox.cut.wait())
        left = asyncio.create_task(self._left())
        try:
            await asyncio.wait({work, cut, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (work, cut, left):
                task.cancel()
            await asyncio.wait({work, cut, left})
        if work.cancelled():
            if not left.cancelled():
                return  # nobody is there to hear
            await self._broke_off()
        elif isinstance(work.exception(), httpx.TransportError):
            await self._fleet.look_after(self._sandbox)
            await self._broke_off()
        else:
            work.result()

    async def _left(self) -> None:
        await self._sent.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _body(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Broken
            more = message.get("more_body", False)
            yield message.get("body", b"")
        self._sent.set()

    async def _carry(self) -> None:
        headers = {name: value for name, value in self._request.headers.items() if name in CARRIED}
        path = self._request.url.path + (f"?{self._request.url.query}" if self._request.url.query else "")
        request = self._sandbox.envd.build_request(self._request.method, path, headers=headers, content=self._body())
        response = await self._sandbox.envd.send(request, stream=True)
        try:
            kept = ("content-type", "content-length")
            await self._send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": [(n.encode(), v.encode()) for n, v in response.headers.items() if n in kept],
                }
            )
            self._begun = True
            pieces = response.aiter_raw()
            if response.headers.get("content-type") == STREAM:
                pieces = self._spoilt(_messages(pieces))
            async for piece in pieces:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            await response.aclose()
        await self._send({"type": "http.response.body"})

    async def _spoilt(self, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        count = 0
        async for message in messages:
            if isinstance(self._fault, Cut) and count == self._fault.messages:
                raise Broken
            if isinstance(self._fault, NoEnd) and "end" in json.loads(message[5:]).get("event", {}):
                continue
            count += 1
            yield message

    async def _broke_off(self) -> None:
        """Says so where the protocol can; else the connection just ends."""
        sandbox_id = self._sandbox.id
        if not self._begun:
            running = sandbox_id in self._fleet.sandboxes and self._sandbox.state == "running"
            text = "The sandbox is running but port is not open" if running else "The sandbox was not found"
            await _gateway(sandbox_id, text)(self._scope, self._receive, self._send)
        elif self._request.headers.get("content-type") == STREAM:
            text = f"the connection to sandbox {sandbox_id} ended before the stream completed"
            data = json.dumps({"error": {"code": "unavailable", "message": text}}).encode()
            with contextlib.suppress(OSError):
                await self._send({"type": "http.response.body", "body": struct.pack(">BI", 2, len(data)) + data})
        else:
            raise Broken


async def _messages(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole enveloped messages, envelope included."""
    kept = bytearray()
    async for piece in pieces:
        kept += piece
        while len(kept) >= 5 and len(kept) >= (end := 5 + struct.unpack(">BI", kept[:5])[1]):
            yield bytes(kept[:end])
            del kept[:end]
