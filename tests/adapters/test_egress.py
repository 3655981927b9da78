"""The proxy opens what is listed and nothing else."""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.egress import HEAD_LIMIT, MAX_CONNECTIONS, EgressProxy
from bot.sandbox.hosts import Host, is_public

WAIT_S = 20


class Server:
    """Says what it was asked, then echoes; counts who came."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while data := await reader.read(65536):
                writer.write(b"got " + data)
                await writer.drain()
                if b"Connection: close" in data:
                    break
        except OSError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()


@pytest.fixture
def socket_path() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="egress-"))
    yield folder / "proxy.sock"
    shutil.rmtree(folder)


@pytest.fixture
async def proxy(socket_path: Path, server: Server) -> AsyncIterator[EgressProxy]:
    """Told by the operator that this machine's own addresses may be listed."""
    made = EgressProxy(socket_path, sandbox="s", private_hosts={"127.0.0.1", "localhost"})
    yield made
    await made.aclose()


class Client:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_unix_connection(self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def ask(self, text: str) -> bytes:
        """The answer's first line."""
        self.writer.write(text.replace("\n", "\r\n").encode())
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readline()


async def _status(path: Path, text: str) -> int:
    async with Client(path) as client:
        return int((await client.ask(text)).split()[1])


async def _connect(path: Path, target: str) -> int:
    return await _status(path, f"CONNECT {target} HTTP/1.1\nHost: {target}\n\n")


# What an entry means


@pytest.mark.parametrize(
    ("entry", "name", "port", "covered"),
    [
        ("example.org", "example.org", 443, True),
        ("example.org", "example.org", 80, True),
        ("example.org", "example.org", 22, False),
        ("example.org", "www.example.org", 443, False),
        ("example.org", "badexample.org", 443, False),
        ("Example.ORG.", "example.org", 443, True),
        ("*.example.org", "www.example.org", 443, True),
        ("*.example.org", "a.b.example.org", 80, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "badexample.org", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("*.example.org:8443", "www.example.org", 8443, True),
        ("192.0.2.1", "192.0.2.1", 80, True),
        ("[2001:DB8:0::1]:8080", "2001:db8::1", 8080, True),
        ("2001:db8::1", "2001:db8::1", 443, True),
    ],
)
def test_an_entry_covers_what_it_names(entry: str, name: str, port: int, covered: bool) -> None:
    assert Host.parse(entry).covers(name, port) is covered


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.",
        "*.192.0.2.1",
        "a.*.b",
        "http://a",
        "a/b",
        "a b",
        "a:",
        "a:0",
        "a:70000",
        "a:b",
        "2130706433",
        "0x7f.1",
    ],
)
def test_an_entry_that_names_no_host_is_refused(entry: str) -> None:
    with pytest.raises(SandboxError) as raised:
        Host.parse(entry)
    assert raised.value.reason == "invalid_config"
    assert repr(entry) in str(raised.value)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("2002:7f00:1::", False),
        ("64:ff9b::7f00:1", False),
    ],
)
def test_public_is_what_belongs_to_the_internet(address: str, public: bool) -> None:
    assert is_public(address) is public


# What it lets through


async def test_a_tunnel_to_a_listed_host_carries_both_ways(
    proxy: EgressProxy, socket_path: Path, server: Server
) -> None:
    await proxy.allow({f"127.0.0.1:{server.port}"})
    async with Client(socket_path) as client, asyncio.timeout(WAIT_S):
        assert b" 200 " in await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\n\n")
        assert await client.reader.readline() == b"\r\n"
        assert await client.ask("ping\n") == b"got ping\r\n"
        client.writer.write_eof()
        assert await client.reader.read() == b""
    assert proxy.refused == ()


async def test_plain_http_goes_to_the_host_of_its_address(
    proxy: EgressProxy, socket_path: Path, server: Server
) -> None:
    await proxy.allow({f"127.0.0.1:{server.port}"})
    async with Client(socket_path) as client, asyncio.timeout(WAIT_S):
        first = await client.ask(
            f"POST http://127.0.0.1:{server.port}/a?b=c HTTP/1.1\n"
            f"Host: 127.0.0.1:{server.port}\nProxy-Authorization: Basic eA==\nConnection: keep-alive, X-Hop\n"
            "X-Hop: 1\nTE: trailers\nUpgrade: h2c\nX-End: 2\nContent-Length: 4\n\nbody"
        )
        rest = await client.reader.read()
    assert first == b"got POST /a?b=c HTTP/1.1\r\n"
    kept = "X-End: 2\r\nContent-Length: 4\r\nConnection: close"
    assert rest == f"Host: 127.0.0.1:{server.port}\r\n{kept}\r\n\r\n".encode() + b"body"


async def test_a_name_is_resolved_here(proxy: EgressProxy, socket_path: Path, server: Server) -> None:
    await proxy.allow({f"localhost:{server.port}"})
    assert await _connect(socket_path, f"LOCALHOST.:{server.port}") == 200
    assert await _connect(socket_path, f"127.0.0.1:{server.port}") == 403


# What it does not


async def test_what_is_not_listed_is_refused_and_remembered_once(
    proxy: EgressProxy, socket_path: Path, server: Server
) -> None:
    await proxy.allow({"example.org"})
    for _ in range(2):
        assert await _connect(socket_path, f"127.0.0.1:{server.port}") == 403
    assert await _connect(socket_path, "example.org:22") == 403
    assert await _status(socket_path, "GET http://other.example/secret HTTP/1.1\n\n") == 403
    assert proxy.refused == (f"127.0.0.1:{server.port}", "example.org:22", "other.example:80")
    assert server.connections == 0


async def test_a_listed_name_of_a_private_address_is_refused(socket_path: Path, server: Server) -> None:
    proxy = EgressProxy(socket_path, sandbox="s")
    try:
        await proxy.allow({f"localhost:{server.port}", f"127.0.0.1:{server.port}"})
        assert await _connect(socket_path, f"localhost:{server.port}") == 403
        assert await _connect(socket_path, f"127.0.0.1:{server.port}") == 403
        assert (server.connections, len(proxy.refused)) == (0, 2)
    finally:
        await proxy.aclose()


async def test_a_private_host_with_a_port_is_private_on_that_port_only(socket_path: Path, server: Server) -> None:
    proxy = EgressProxy(socket_path, sandbox="s", private_hosts={f"127.0.0.1:{server.port}", "localhost:1"})
    try:
        await proxy.allow({f"localhost:{server.port}", f"127.0.0.1:{server.port}"})
        assert await _connect(socket_path, f"127.0.0.1:{server.port}") == 200
        assert await _connect(socket_path, f"localhost:{server.port}") == 403
    finally:
        await proxy.aclose()


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\nHost: example.org\n\n",
        "GET https://example.org/ HTTP/1.1\n\n",
        "GET http://user@example.org/ HTTP/1.1\n\n",
        "CONNECT example.org HTTP/1.1\n\n",
        "CONNECT example.org:0 HTTP/1.1\n\n",
        "CONNECT 2130706433:80 HTTP/1.1\n\n",
        "CONNECT 0x7f.1:80 HTTP/1.1\n\n",
        "nonsense\n\n",
        "\n\n",
        f"GET http://example.org/ HTTP/1.1\nX: {'x' * HEAD_LIMIT}\n\n",
    ],
)
async def test_what_is_no_request_for_a_proxy_gets_400(
    proxy: EgressProxy, socket_path: Path, request_text: str
) -> None:
    await proxy.allow({"example.org", "127.0.0.1"})
    assert await _status(socket_path, request_text) == 400


async def test_a_listed_host_that_does_not_answer_is_502(proxy: EgressProxy, socket_path: Path) -> None:
    unused = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = unused.sockets[0].getsockname()[1]
    unused.close()
    await unused.wait_closed()
    await proxy.allow({f"127.0.0.1:{port}"})
    assert await _connect(socket_path, f"127.0.0.1:{port}") == 502


async def test_too_many_connections_are_turned_away(proxy: EgressProxy, socket_path: Path) -> None:
    await proxy.allow({"example.org"})
    silent = [Client(socket_path) for _ in range(MAX_CONNECTIONS)]
    for client in silent:
        await client.__aenter__()
    assert await _connect(socket_path, "example.org:443") == 503
    for client in silent:
        await client.__aexit__()


# What changes


async def test_a_host_that_is_no_longer_listed_is_cut_off(
    proxy: EgressProxy, socket_path: Path, server: Server
) -> None:
    other = f"localhost:{server.port}"
    await proxy.allow({f"127.0.0.1:{server.port}", other})
    async with Client(socket_path) as cut, Client(socket_path) as kept, asyncio.timeout(WAIT_S):
        for client, target in ((cut, f"127.0.0.1:{server.port}"), (kept, other)):
            assert b" 200 " in await client.ask(f"CONNECT {target} HTTP/1.1\n\n")
            assert await client.reader.readline() == b"\r\n"
        await proxy.allow({other})
        assert await _ended(cut)
        assert await kept.ask("ping\n") == b"got ping\r\n"
        await proxy.allow(set())
        assert await _ended(kept)


async def test_a_closed_proxy_is_gone_and_closing_again_is_harmless(
    proxy: EgressProxy, socket_path: Path, server: Server
) -> None:
    await proxy.allow({f"127.0.0.1:{server.port}"})
    async with Client(socket_path) as client:
        assert b" 200 " in await client.ask(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\n\n")
        await proxy.aclose()
        await proxy.aclose()
        assert await _ended(client)
    with pytest.raises(OSError, match=r"."):
        await asyncio.open_unix_connection(socket_path)


async def test_an_address_left_by_a_dead_process_is_taken_over(
    proxy: EgressProxy, socket_path: Path, server: Server
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path))
    await proxy.allow({f"127.0.0.1:{server.port}"})
    assert await _connect(socket_path, f"127.0.0.1:{server.port}") == 200


async def _ended(client: Client) -> bool:
    async with asyncio.timeout(WAIT_S):
        try:
            while await client.reader.read(65536):
                pass
        except ConnectionError:
            pass
    return True
