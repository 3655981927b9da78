"""What attacks try to reach on this machine, and write down that it was reached."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass
class Listeners:
    """Heads of requests by TCP, and packets by UDP, at one port each on every address."""

    heads: list[str] = field(default_factory=list)
    packets: list[bytes] = field(default_factory=list)
    tcp: int = 0
    udp: int = 0

    def asked(self, path: str) -> bool:
        return any(re.match(rf"[A-Z]+ (http://[^/ ]+)?/{path}\b", head) for head in self.heads)


class _Packets(asyncio.DatagramProtocol):
    def __init__(self, packets: list[bytes]) -> None:
        self._packets = packets

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._packets.append(data)


@asynccontextmanager
async def listeners() -> AsyncIterator[Listeners]:
    found = Listeners()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            head = b""
        found.heads.append(head.decode("latin-1"))
        writer.write(
            b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
        )
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Packets(found.packets), local_addr=("0.0.0.0", 0)
    )
    found.tcp = server.sockets[0].getsockname()[1]
    found.udp = transport.get_extra_info("sockname")[1]
    try:
        async with server:
            yield found
    finally:
        transport.close()


async def engine(path: str) -> Any:
    """An answer of the Docker engine itself; None where it has none to give."""
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    async with httpx.AsyncClient(transport=transport, base_url="http://docker") as client:
        answer = await client.get(f"/v1.41{path}")
        return answer.json() if answer.is_success else None


async def gateway() -> str:
    """The address that this machine has in the engine's usual network."""
    return str((await engine("/networks/bridge"))["IPAM"]["Config"][0]["Gateway"])


def forms(secrets: Iterable[str]) -> set[bytes]:
    """How a secret may stand in what was found."""
    found = set()
    for secret in secrets:
        lines = [line for line in secret.splitlines() if len(line) >= 32 and not line.startswith("-")]
        for text in (secret, *lines):
            found |= {text.encode(), base64.b64encode(text.encode())}
        found.add(base64.b64encode(f"x-access-token:{secret}".encode()))
    return found
