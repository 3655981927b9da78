"""The only way out of an offline sandbox: a proxy on a unix socket that opens what its allow-list names."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import structlog

from bot.domain.errors import SandboxError

HEAD_LIMIT = 16 * 1024
HEAD_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 10
IDLE_TIMEOUT_S = 300
MAX_CONNECTIONS = 128
MAX_REFUSED = 100
WEB_PORTS = frozenset({80, 443})

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")
# Addresses that carry an IPv4 address inside, and so could name a private one: RFC 6052 and RFC 8215.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Host:
    """One entry of an allow-list: a name or an address, perhaps everything below it, perhaps one port."""

    name: str
    below: bool
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Host:
        """From `name`, `*.name`, `name:port`, `address:port` or `[v6 address]:port`."""
        name, port = _split(text)
        below = name.startswith("*.")
        name = _canonical(name.removeprefix("*."))
        if below and _address(name):
            name = ""
        if not name or port == 0:
            raise SandboxError(
                "invalid_config",
                f"{text!r} names no host: write `name`, `*.name` or `name:port`, with a port to 65535.",
            )
        return cls(name=name, below=below, port=port)

    def covers(self, name: str, port: int) -> bool:
        """As an entry of an allow-list: without a port of its own it stands for the two of the web."""
        return self._names(name) and port in (WEB_PORTS if self.port is None else {self.port})

    def covers_privately(self, name: str, port: int) -> bool:
        """As an operator's private host: without a port of its own it stands for all of them."""
        return self._names(name) and self.port in (None, port)

    def _names(self, name: str) -> bool:
        return name.endswith("." + self.name) if self.below else name == self.name


def _split(text: str) -> tuple[str, int | None]:
    """Name and port; port 0 stands for one that is none."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text)
    if bracketed:
        name, port = bracketed[1], bracketed[2]
    elif text.count(":") == 1:
        name, _, port = text.partition(":")
    else:
        name, port = text, None
    if port is None:
        return name, None
    valid = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    return name, int(port) if valid else 0


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _canonical(name: str) -> str:
    """Lower case, no final dot, one spelling for an address; empty for what is neither name nor address."""
    address = _address(name)
    if address:
        return str(address)
    name = name.lower().removesuffix(".")
    # A name of digits only is an address in some resolvers' eyes (2130706433 is 127.0.0.1).
    last = name.rpartition(".")[2]
    return name if _NAME.fullmatch(name) and not re.fullmatch(r"\d+|0x[0-9a-f]*", last) else ""


def is_public(text: str) -> bool:
    """Whether an address is the internet's: not this machine's, nor its networks', however written."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner:
            address = inner
        elif address.teredo or any(address in network for network in _TRANSLATED):
            return False
    return address.is_global and not address.is_multicast


@dataclass(frozen=True, kw_only=True)
class _Request:
    host: str
    port: int
    first: bytes
    """What to send on at once; empty for CONNECT."""


class EgressProxy:
    """A forward proxy for one sandbox: CONNECT, and plain http by absolute URI. What `allow` names is open, all else
    is refused; names are resolved here, and one that is not public is refused unless `private_hosts` has it."""

    def __init__(self, socket_path: Path, *, sandbox: str, private_hosts: Iterable[str] = ()) -> None:
        self._path = socket_path
        self._sandbox = sandbox
        self._private = tuple(Host.parse(text) for text in sorted(private_hosts))
        self._allowed: tuple[Host, ...] = ()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], tuple[str, int] | None] = {}
        self._refused: dict[str, None] = {}

    @property
    def refused(self) -> tuple[str, ...]:
        """Each `host:port` that was asked for and refused, once, in order of its first time; the first hundred."""
        return tuple(self._refused)

    async def allow(self, hosts: Iterable[str]) -> None:
        """Opens exactly these from now on; connections to others are cut when this returns."""
        self._allowed = tuple(Host.parse(text) for text in sorted(hosts))
        cut = [task for task, target in self._open.items() if target and not self._allows(*target)]
        await _end(cut)
        if self._allowed and self._server is None:
            await self._start()

    async def aclose(self) -> None:
        self._allowed = ()
        server, self._server = self._server, None
        if server:
            server.close()
            self._path.unlink(missing_ok=True)
        await _end(list(self._open))

    async def _start(self) -> None:
        self._path.unlink(missing_ok=True)  # a dead process' own
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=HEAD_LIMIT)
            # The sandbox's users are not ours; the folder around it is closed to everybody else here.
            os.chmod(self._path, 0o666)  # noqa: S103 - said above
        except OSError as exc:
            raise SandboxError("invalid_config", f"Can't open a proxy at {self._path}.") from exc

    def _allows(self, host: str, port: int) -> bool:
        return any(entry.covers(host, port) for entry in self._allowed)

    def _may_be_private(self, host: str, port: int) -> bool:
        return any(entry.covers_privately(host, port) for entry in self._private)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._open[task] = None
        try:
            if len(self._open) > MAX_CONNECTIONS:
                await _answer(writer, 503, "Too many connections")
                return
            request = await _request(reader)
            if request is None:
                log.warning("egress_refused", sandbox=self._sandbox, reason="no_proxy_request")
                await _answer(writer, 400, "Not a proxy request")
                return
            if not self._allows(request.host, request.port):
                await self._refuse(writer, request, "not_allowed", "is not on the allow-list of this sandbox")
                return
            self._open[task] = (request.host, request.port)
            await self._connect(request, reader, writer)
        except (OSError, TimeoutError):
            pass  # either side went away, or was silent for too long
        finally:
            del self._open[task]
            writer.transport.abort() if task.cancelling() else writer.close()

    async def _connect(self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        addresses = await _resolve(request)
        if not addresses:
            await _answer(writer, 502, "No such host")
            return
        if not self._may_be_private(request.host, request.port):
            addresses = [address for address in addresses if is_public(address)]
            if not addresses:
                await self._refuse(
                    writer,
                    request,
                    "private_address",
                    "has a private address, and the operator did not list it as one",
                )
                return
        # The address that was judged is the address that is used: no second look-up in between.
        out = await _dial(addresses, request.port)
        if out is None:
            await _answer(writer, 502, "Host does not answer")
            return
        out_reader, out_writer = out
        try:
            if request.first:
                out_writer.write(request.first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            activity = _Activity()
            async with asyncio.TaskGroup() as group:
                group.create_task(_carry(reader, out_writer, activity))
                group.create_task(_carry(out_reader, writer, activity))
        except* (OSError, TimeoutError):
            pass
        finally:
            out_writer.transport.abort()

    async def _refuse(self, writer: asyncio.StreamWriter, request: _Request, reason: str, why: str) -> None:
        target = f"{request.host}:{request.port}"
        log.warning("egress_refused", sandbox=self._sandbox, host=request.host, port=request.port, reason=reason)
        if len(self._refused) < MAX_REFUSED:
            self._refused[target] = None
        await _answer(writer, 403, f"{target} {why}")


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CONNECT_TIMEOUT_S)


async def _request(reader: asyncio.StreamReader) -> _Request | None:
    """The request's head, understood; None where it is none or takes too long."""
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        return None
    line, *headers = head[:-4].decode("latin-1").split("\r\n")
    matched = re.fullmatch(r"([A-Z]+) (\S+) HTTP/1\.[01]", line)
    if not matched:
        return None
    method, target = matched[1], matched[2]
    if method == "CONNECT":
        name, port = _split(target)
        host = _canonical(name)
        return _Request(host=host, port=port, first=b"") if host and port else None
    absolute = re.fullmatch(r"http://([^/?#@]+)(/[^#]*|\?[^#]*)?", target, re.IGNORECASE)
    if not absolute:
        return None
    authority, path = absolute[1], absolute[2] or "/"
    name, port = _split(authority)
    host = _canonical(name)
    if not host or port == 0:
        return None
    # One request a connection, with the Host it was judged by.
    dropped = ("host:", "connection:", "proxy-", "keep-alive:")
    kept = [header for header in headers if not header.lower().startswith(dropped)]
    path = path if path.startswith("/") else "/" + path
    lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", *kept, "Connection: close", "", ""]
    return _Request(host=host, port=80 if port is None else port, first="\r\n".join(lines).encode("latin-1"))


async def _resolve(request: _Request) -> list[str]:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            found = await asyncio.get_running_loop().getaddrinfo(request.host, request.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return []
    return [str(address[0]) for _, _, _, _, address in found]


async def _dial(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            for address in addresses:
                with contextlib.suppress(OSError):
                    return await asyncio.open_connection(address, port)
    return None


class _Activity:
    """When something last went either way: a long download is silent the other way."""

    def __init__(self) -> None:
        self.at = 0.0

    def touch(self) -> None:
        self.at = asyncio.get_running_loop().time()

    def idle(self) -> bool:
        return asyncio.get_running_loop().time() - self.at >= IDLE_TIMEOUT_S


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, activity: _Activity) -> None:
    activity.touch()
    while True:
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                data = await reader.read(65536)
        except TimeoutError:
            if activity.idle():
                raise
            continue
        if not data:
            break
        activity.touch()
        writer.write(data)
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    body = f"coder-bot: {text}.\n".encode()
    head = (
        f"HTTP/1.1 {status} {text}",
        "Content-Type: text/plain",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    writer.write("\r\n".join((*head, "", "")).encode("latin-1") + body)
    async with asyncio.timeout(HEAD_TIMEOUT_S):
        await writer.drain()
