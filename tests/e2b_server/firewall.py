"""What a sandbox may reach: the rules of its network configuration, and the proxy that holds it to them."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ALL_TRAFFIC = "0.0.0.0/0"
WEB = {80, 443}
WAIT_S = 30.0
HEAD_LIMIT = 64 * 1024

Network = Mapping[str, Any]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_DOMAIN = re.compile(r"\*|(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?", re.IGNORECASE)


def complaint(network: Network) -> str | None:
    """Why a configuration is refused; None for one that is fine."""
    allow, deny = network.get("allowOut") or [], network.get("denyOut") or []
    for entry in deny:
        if _block(entry) is None:
            return f"invalid denied CIDR {entry}"
    domains = [entry for entry in allow if _block(entry) is None]
    for entry in domains:
        if not _DOMAIN.fullmatch(entry):
            return f"invalid allowed domain {entry}"
    if domains and ALL_TRAFFIC not in deny:
        return (
            "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all "
            "other traffic."
        )
    servers = network.get("dnsServers") or []
    if len(servers) > 10 or not all(_is_ipv4(server) for server in servers):
        return "invalid dns servers: at most 10 IPv4 addresses"
    return None


def permits(network: Network, host: str, port: int, address: Address, *, private_addresses: bool) -> bool:
    """Whether a connection to `host`, found at `address`, is let through. What is allowed wins over what is denied;
    a name counts on the two ports of the web alone; what is not the internet's is never reached but with the switch.
    """
    if not address.is_global and not private_addresses:
        return False
    for entry in network.get("allowOut") or []:
        block = _block(entry)
        if (address in block) if block else (port in WEB and _names(entry.lower(), host.lower())):
            return True
    if network.get("allow_internet_access") is False:
        return False
    return not any(address in block for entry in network.get("denyOut") or [] if (block := _block(entry)))


def _block(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _is_ipv4(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.IPv4Address(text))
    return False


def _names(entry: str, host: str) -> bool:
    return entry in ("*", host) or (entry.startswith("*.") and host.endswith(entry[1:]))


class Firewall:
    """A proxy on a unix socket for one sandbox. What is not let through looks as it does with the real one: the
    connection is there, and then it closes."""

    def __init__(self, *, private_addresses: bool) -> None:
        self.network: Network = {}
        self._private_addresses = private_addresses
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(self._serve, path, limit=HEAD_LIMIT)

    async def aclose(self) -> None:
        if self._server:
            self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._open.add(task)
        try:
            async with asyncio.timeout(WAIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            first = b""
            if method == "CONNECT":
                host, _, text = target.rpartition(":")
                port = int(text)
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(target)
                host, port = parts.hostname or "", parts.port or 80
                first = _plain(head, target)
            out = await self._dial(host.strip("[]"), port)
            if out is None:
                return
            out_reader, out_writer = out
            out_writer.write(first)
            await asyncio.gather(_carry(reader, out_writer), _carry(out_reader, writer))
            out_writer.close()
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one side is gone, or spoke no HTTP
        finally:
            self._open.discard(task)
            writer.close()

    async def _dial(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, (text, *_) in found:
            address = ipaddress.ip_address(str(text))
            if permits(self.network, host, port, address, private_addresses=self._private_addresses):
                async with asyncio.timeout(WAIT_S):
                    return await asyncio.open_connection(str(text), port)
        return None


def _plain(head: bytes, target: str) -> bytes:
    """The head of a request to a proxy, as the server itself wants it; for one request."""
    line, *headers = head[:-4].decode("latin-1").split("\r\n")
    parts = urlsplit(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept: Sequence[str] = [h for h in headers if not h.lower().startswith(("proxy-", "connection:"))]
    return "\r\n".join([line.replace(target, path, 1), *kept, "Connection: close", "", ""]).encode("latin-1")


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()
