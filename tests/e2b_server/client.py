"""What tests of the server hold: the SDK bound to it, and the wire without it."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import e2b
import httpx

from tests.e2b_server.server import E2BServer


@dataclass
class Client:
    """A server, and the SDK bound to it."""

    server: E2BServer
    sdk: e2b.E2B

    @property
    def sandboxes(self) -> Any:
        return self.sdk.AsyncSandbox

    @asynccontextmanager
    async def sandbox(self, template: str = "base", **options: Any) -> AsyncIterator[e2b.AsyncSandbox]:
        made: e2b.AsyncSandbox = await self.sandboxes.create(template, **({"timeout": 600} | options))
        try:
            yield made
        finally:
            await self.sandboxes.kill(made.sandbox_id)

    async def state(self, sandbox: e2b.AsyncSandbox) -> str:
        return str((await sandbox.get_info()).state.value)

    async def raw(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.server.url, trust_env=False, timeout=60) as http:
            return await http.request(method, path, headers={"X-API-KEY": self.server.api_key}, **options)

    async def start(self, sandbox: e2b.AsyncSandbox, command: str, **headers: str) -> list[dict[str, Any]]:
        """The messages of one Process/Start as they are on the wire."""
        message = json.dumps(
            {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}, "stdin": False}
        ).encode()
        sent = {
            "E2b-Sandbox-Id": sandbox.sandbox_id,
            "X-Access-Token": str(sandbox._envd_access_token),
            "Content-Type": "application/connect+json",
        }
        async with httpx.AsyncClient(base_url=self.server.url, trust_env=False, timeout=60) as http:
            body = struct.pack(">BI", 0, len(message)) + message
            answer = await http.post("/process.Process/Start", content=body, headers=sent | headers)
        found, rest = [], answer.content
        while rest:
            size = struct.unpack(">BI", rest[:5])[1]
            found.append(json.loads(rest[5 : 5 + size]))
            rest = rest[5 + size :]
        return found


def client_of(server: E2BServer) -> Client:
    return Client(server, e2b.E2B(api_url=server.api_url, sandbox_url=server.sandbox_url, api_key=server.api_key))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what happens outside of this test."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)
