"""The only way out of an offline sandbox: a proxy on a unix socket that opens what its allow-list names."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import structlog

from bot.domain.cuts import beginning
from bot.domain.errors import SandboxError
from bot.sandbox.hosts import Host, is_public
from bot.sandbox.http_request import Connect, Plain, parse, parse_inside
from bot.sandbox.tls_hello import TunnelJudge

HEAD_LIMIT = 16 * 1024
HEAD_TIMEOUT_S = 10
CONNECT_TIMEOUT_S = 10
IDLE_TIMEOUT_S = 300
MAX_CONNECTIONS = 128
MAX_REFUSED = 100
MAX_COMMANDS = 8
"""Commands named with a refusal; a command may run beside others."""
COMMAND_LIMIT = 300
"""Characters of each."""

_FOR_ITS_HOST = "A tunnel is for the host it was opened for"
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

log = structlog.get_logger(__name__)


class _RefusedError(Exception):
    """This connection may not be; `reason` is for the log, the message for whoever tried."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _UnreachableError(Exception):
    """It may be, but the other side isn't there; the message is for whoever tried."""


@dataclass(frozen=True, kw_only=True)
class _Credential:
    """An operator's, for one package index: the https port that it is for, and the value of Authorization."""

    port: int
    value: str


class EgressProxy:
    """A forward proxy for one sandbox: CONNECT, and plain http by absolute URI. What `allow` names is open, all else
    is refused; names are resolved here, and one that is not public is refused unless `private_hosts` has it.

    What goes through a tunnel must be for the host it was opened for: on port 443, TLS whose server name is that
    host's; on port 80, one plain request with its Host; on another port TLS likewise, while other protocols, which
    name no host, pass.

    `credentials` maps `host` or `host:port` (https, port 443 unless said) to the value of an Authorization header. A
    GET or HEAD of `http://host/…` is sent on to it by https with that header, certificate checked by `tls`; no other
    host gets it, redirects are handed back as they are, and any other method is refused: it could change the index.
    """

    def __init__(
        self,
        socket_path: Path,
        *,
        sandbox: str,
        private_hosts: Iterable[str] = (),
        credentials: Mapping[str, str] = MappingProxyType({}),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._path = socket_path
        self._sandbox = sandbox
        self._private = tuple(Host.parse(text) for text in sorted(private_hosts))
        self._credentials: dict[str, _Credential] = {}
        for text, value in credentials.items():
            entry = Host.parse(text)
            self._credentials[entry.name] = _Credential(port=entry.port or 443, value=value)
        self._tls = tls
        self._allowed: tuple[Host, ...] = ()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], tuple[str, int] | None] = {}
        self._refused: dict[str, None] = {}
        self._commands: dict[object, str] = {}

    @property
    def refused(self) -> tuple[str, ...]:
        """Each `host:port` that was asked for and refused, once, in order of its first time; the first hundred."""
        return tuple(self._refused)

    @contextlib.contextmanager
    def during(self, command: str) -> Iterator[None]:
        """What is refused inside is logged with this command, and with all others that run at that moment."""
        key = object()
        self._commands[key] = beginning(command, COMMAND_LIMIT)
        try:
            yield
        finally:
            del self._commands[key]

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
            self._server = await asyncio.start_unix_server(self._accept, self._path, limit=HEAD_LIMIT)
            # The sandbox's users are not ours; the folder around it is closed to everybody else here.
            os.chmod(self._path, 0o666)  # noqa: S103 - said above
        except OSError as exc:
            raise SandboxError("invalid_config", f"Can't open a proxy at {self._path}.") from exc

    def _allows(self, host: str, port: int) -> bool:
        return any(entry.covers(host, port) for entry in self._allowed)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Known from here on: one that is ended before its task has begun is closed all the same."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._open[task] = None

        def close(_: object) -> None:
            del self._open[task]
            writer.transport.abort() if task.cancelled() else writer.close()

        task.add_done_callback(close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        try:
            if len(self._open) > MAX_CONNECTIONS:
                await _answer(writer, 503, "Too many connections")
                return
            head = await _head(reader)
            request = parse(head) if head else None
            if request is None:
                await self._no_request(writer)
                return
            if not self._allows(request.host, request.port):
                why = f"{request.host}:{request.port} is not on the allow-list of this sandbox"
                self._note(request, "not_allowed")
                await _answer(writer, 403, why)
                return
            self._open[task] = (request.host, request.port)
            if isinstance(request, Plain):
                await self._forward(request, reader, writer)
            elif request.port == 80:
                await self._forward_inside(request, reader, writer)
            else:
                await self._tunnel(request, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # either side went away, or was silent for too long

    # Tunnels

    async def _tunnel(self, request: Connect, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            out_reader, out_writer = await self._dial(request.host, request.port)
        except (_RefusedError, _UnreachableError) as exc:
            await self._turn_away(writer, request, exc)
            return
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            activity = _Activity()
            async with asyncio.TaskGroup() as group:
                group.create_task(_carry_judged(request, reader, out_writer, activity))
                group.create_task(_carry(out_reader, writer, activity))
        except* _RefusedError as raised:
            for one in raised.exceptions:
                assert isinstance(one, _RefusedError)
                self._note(request, one.reason)
        except* (OSError, TimeoutError):
            pass
        finally:
            out_writer.transport.abort()

    # Plain http

    async def _forward_inside(
        self, tunnel: Connect, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        head = await _head(reader)
        if head == b"":
            return  # opened in advance and never used
        request = parse_inside(head, tunnel) if head else None
        if request:
            await self._forward(request, reader, writer)
        else:
            self._note(tunnel, "no_http")
            await _answer(writer, 400, "Only plain http passes on port 80")

    async def _forward(self, request: Plain, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Sends one request on and its answer back."""
        credential = self._credentials.get(request.host) if request.port == 80 else None
        try:
            if not request.agrees:
                raise _RefusedError("other_host", "Host header and address name different hosts")
            if credential and request.method not in ("GET", "HEAD"):
                raise _RefusedError("read_only", f"{request.host} is open for reading only")
            if credential:
                tls = self._tls or _public_authorities()
                out_reader, out_writer = await self._dial(request.host, credential.port, tls)
            else:
                out_reader, out_writer = await self._dial(request.host, request.port)
        except (_RefusedError, _UnreachableError) as exc:
            await self._turn_away(writer, request, exc)
            return
        try:
            out_writer.write(request.head(credential.value if credential else None))
            activity = _Activity()
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(_send_body(request, reader, out_writer, activity))
                await _carry(out_reader, writer, activity)
                sending.cancel()
        except* _RefusedError:
            self._note(request, "bad_body")
        except* (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            out_writer.transport.abort()

    async def _dial(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Streams:
        addresses = await _resolve(host, port)
        if not any(entry.covers_privately(host, port) for entry in self._private):
            public = [address for address in addresses if is_public(address)]
            if addresses and not public:
                why = f"{host}:{port} has a private address, and the operator did not list it as one"
                raise _RefusedError("private_address", why)
            addresses = public
        if not addresses:
            raise _UnreachableError("No such host")
        # The address that was judged is the address that is used: no second look-up in between.
        return await _open(addresses, port, tls, host)

    # What is told of it

    async def _turn_away(
        self, writer: asyncio.StreamWriter, request: Connect | Plain, exc: _RefusedError | _UnreachableError
    ) -> None:
        if isinstance(exc, _RefusedError):
            self._note(request, exc.reason)
        await _answer(writer, 403 if isinstance(exc, _RefusedError) else 502, str(exc))

    def _note(self, request: Connect | Plain, reason: str) -> None:
        log.warning(
            "egress_refused",
            sandbox=self._sandbox,
            host=request.host,
            port=request.port,
            reason=reason,
            commands=self._running(),
        )
        if len(self._refused) < MAX_REFUSED:
            self._refused[f"{request.host}:{request.port}"] = None

    async def _no_request(self, writer: asyncio.StreamWriter) -> None:
        log.warning("egress_refused", sandbox=self._sandbox, reason="no_proxy_request", commands=self._running())
        await _answer(writer, 400, "Not a proxy request")

    def _running(self) -> list[str]:
        return list(islice(self._commands.values(), MAX_COMMANDS))


@cache
def _public_authorities() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CONNECT_TIMEOUT_S)


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """A request's head; empty where nothing came before the end, None where it is none or takes too long."""
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as exc:
        return None if exc.partial else b""
    except (asyncio.LimitOverrunError, TimeoutError):
        return None


async def _resolve(host: str, port: int) -> list[str]:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return []
    return [str(address[0]) for _, _, _, _, address in found]


async def _open(addresses: list[str], port: int, tls: ssl.SSLContext | None, host: str) -> Streams:
    name = host if tls else None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            for address in addresses:
                try:
                    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)
                except ssl.SSLError as exc:
                    raise _UnreachableError("Host has no certificate that the bot trusts") from exc
                except OSError:
                    continue
    raise _UnreachableError("Host does not answer")


class _Activity:
    """When something last went either way: a long download is silent the other way."""

    def __init__(self) -> None:
        self.touch()

    def touch(self) -> None:
        self._at = asyncio.get_running_loop().time()

    def idle(self) -> bool:
        return asyncio.get_running_loop().time() - self._at >= IDLE_TIMEOUT_S


async def _read(reader: asyncio.StreamReader, activity: _Activity, most: int = 65536) -> bytes:
    """What there is; TimeoutError once nothing went either way for too long."""
    while True:
        try:
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                data = await reader.read(most)
        except TimeoutError:
            if activity.idle():
                raise
            continue
        activity.touch()
        return data


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(IDLE_TIMEOUT_S):
        await writer.drain()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, activity: _Activity) -> None:
    while data := await _read(reader, activity):
        await _write(writer, data)
    with contextlib.suppress(OSError):
        writer.write_eof()


async def _carry_judged(
    tunnel: Connect, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, activity: _Activity
) -> None:
    judge = TunnelJudge(tunnel.host, tunnel.port)
    held = b""
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S if tunnel.port == 443 else None):
            while not judge.settled:
                data = await _read(reader, activity)
                if not data:
                    if held or tunnel.port == 443:
                        raise ConnectionAbortedError  # there is nobody to be judged, and nothing was sent on
                    break
                _hear(judge, data)
                held += data
    except TimeoutError as exc:
        if held:
            raise _RefusedError("not_tls", _FOR_ITS_HOST) from exc
        raise
    await _write(writer, held)
    while data := await _read(reader, activity):
        _hear(judge, data)
        await _write(writer, data)
    with contextlib.suppress(OSError):
        writer.write_eof()


def _hear(judge: TunnelJudge, data: bytes) -> None:
    reason = judge.hear(data)
    if reason:
        raise _RefusedError(reason, _FOR_ITS_HOST)


async def _send_body(
    request: Plain, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, activity: _Activity
) -> None:
    """Exactly the body that the head announced; what follows it is never sent on."""
    if request.body is not None:
        await _pass(reader, writer, request.body, activity)
        return
    while size := await _chunk_size(reader):
        await _write(writer, b"%x\r\n" % size)
        await _pass(reader, writer, size, activity)
        if await reader.readexactly(2) != b"\r\n":
            raise _RefusedError("bad_body", "A chunk is longer than it says")
        await _write(writer, b"\r\n")
    await _write(writer, b"0\r\n\r\n")  # without trailers


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(IDLE_TIMEOUT_S):
        try:
            line = await reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError as exc:
            raise _RefusedError("bad_body", "A chunk's size is too long") from exc
    matched = re.fullmatch(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\0\r\n]*)?\r\n", line)
    if not matched:
        raise _RefusedError("bad_body", "A chunk does not say its size")
    return int(matched[1], 16)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int, activity: _Activity) -> None:
    while count:
        data = await _read(reader, activity, min(count, 65536))
        if not data:
            raise ConnectionAbortedError
        count -= len(data)
        await _write(writer, data)


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
