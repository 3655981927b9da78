"""What goes through the proxy is for the host it was opened for, and every refusal is told with what tried."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bot.sandbox.egress import COMMAND_LIMIT, MAX_COMMANDS, EgressProxy
from tests.adapters.test_egress import WAIT_S, Client
from tests.adapters.test_tls_hello import hello


class Upstream:
    """Keeps what came, and answers one request a connection."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") -> None:
        self.came: list[bytes] = []
        self.answer = answer
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.append(b"")
        at = len(self.came) - 1
        try:
            while data := await reader.read(65536):
                self.came[at] += data
                if b"\r\n\r\n" in self.came[at]:
                    writer.write(self.answer)
                    await writer.drain()
                    break
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(
    upstream: Upstream, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Upstream]:
    server = await asyncio.start_server(upstream.serve, host, port, ssl=tls)
    upstream.port = server.sockets[0].getsockname()[1]
    yield upstream
    server.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with listening(Upstream()) as made:
        yield made


@pytest.fixture
def socket_path() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="egress-"))
    yield folder / "proxy.sock"
    shutil.rmtree(folder)


@pytest.fixture
async def proxy(socket_path: Path) -> AsyncIterator[EgressProxy]:
    made = EgressProxy(socket_path, sandbox="s", private_hosts={"127.0.0.1", "localhost"})
    yield made
    await made.aclose()


async def tunnel(path: Path, target: str, first: bytes) -> bytes:
    """What comes back through a tunnel for these bytes."""
    async with Client(path) as client, asyncio.timeout(WAIT_S):
        assert b" 200 " in await client.ask(f"CONNECT {target} HTTP/1.1\n\n")
        assert await client.reader.readline() == b"\r\n"
        client.writer.write(first)
        try:
            return await client.reader.read()
        except ConnectionError:
            return b""


async def plain(path: Path, text: str) -> bytes:
    async with Client(path) as client, asyncio.timeout(WAIT_S):
        client.writer.write(text.replace("\n", "\r\n").encode())
        return await client.reader.read()


# Certificates of an authority that nobody else knows


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        own = self._built(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.client = ssl.create_default_context(cadata=own.public_bytes(serialization.Encoding.PEM).decode())

    def server(self, *names: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        listed = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        made = self._built(subject, key, listed, critical=False)
        file = self._folder / f"{names[0]}.pem"
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(private + made.public_bytes(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _built(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, *, critical: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=critical)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


# Tunnels


async def test_a_real_tls_client_gets_through_to_the_host_it_asked_for(
    proxy: EgressProxy, socket_path: Path, authority: Authority
) -> None:
    async with listening(Upstream(), tls=authority.server("localhost")) as upstream:
        target = f"localhost:{upstream.port}"
        await proxy.allow({target})
        async with Client(socket_path) as client, asyncio.timeout(WAIT_S):
            assert b" 200 " in await client.ask(f"CONNECT {target} HTTP/1.1\n\n")
            assert await client.reader.readline() == b"\r\n"
            await client.writer.start_tls(authority.client, server_hostname="localhost")
            client.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await client.reader.read()).endswith(b"ok")
    assert proxy.refused == ()


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (lambda: hello("elsewhere.example"), "other_server_name"),
        (lambda: hello(None), "no_server_name"),
        (lambda: b"\x16\x03\x01\x00\x05nonsense", "not_tls"),
    ],
)
async def test_tls_for_somebody_else_is_refused_before_a_byte_of_it_is_sent_on(
    proxy: EgressProxy, socket_path: Path, upstream: Upstream, first: Callable[[], bytes], reason: str
) -> None:
    target = f"localhost:{upstream.port}"
    await proxy.allow({target})
    with structlog.testing.capture_logs() as logs:
        assert await tunnel(socket_path, target, first()) == b""
    assert [(line["reason"], line["host"], line["port"]) for line in logs] == [(reason, "localhost", upstream.port)]
    assert proxy.refused == (target,)
    assert b"".join(upstream.came) == b""


async def test_a_second_hello_for_somebody_else_is_not_sent_on(
    proxy: EgressProxy, socket_path: Path, upstream: Upstream
) -> None:
    target = f"localhost:{upstream.port}"
    await proxy.allow({target})
    async with Client(socket_path) as client, asyncio.timeout(WAIT_S):
        await client.ask(f"CONNECT {target} HTTP/1.1\n\n")
        client.writer.write(hello("localhost"))
        await _until(lambda: b"".join(upstream.came) != b"")
        client.writer.write(hello("elsewhere.example"))
        await _until(lambda: proxy.refused == (target,))
    assert b"elsewhere" not in b"".join(upstream.came)


async def test_another_protocol_passes_on_a_port_that_was_listed(
    proxy: EgressProxy, socket_path: Path, upstream: Upstream
) -> None:
    await proxy.allow({f"localhost:{upstream.port}"})
    assert (await tunnel(socket_path, f"localhost:{upstream.port}", b"HELO there\r\n\r\n")).endswith(b"ok")
    assert proxy.refused == ()


async def test_a_server_that_speaks_first_is_heard(proxy: EgressProxy, socket_path: Path) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    target = f"localhost:{server.sockets[0].getsockname()[1]}"
    await proxy.allow({target})
    assert await tunnel(socket_path, target, b"") == b"220 ready\r\n"
    server.close()


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n"])
async def test_nothing_but_tls_passes_on_443(socket_path: Path, first: bytes) -> None:
    own = f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}.7"  # runs beside others of its kind
    proxy = EgressProxy(socket_path, sandbox="s", private_hosts={own})
    async with listening(Upstream(), host=own, port=443) as upstream:
        await proxy.allow({own})
        assert await tunnel(socket_path, f"{own}:443", first) == b""
        assert proxy.refused == (f"{own}:443",)
        assert b"".join(upstream.came) == b""
        assert await tunnel(socket_path, f"{own}:443", hello("elsewhere.example")) == b""
        assert b"".join(upstream.came) == b""
        async with Client(socket_path) as client, asyncio.timeout(WAIT_S):
            await client.ask(f"CONNECT {own}:443 HTTP/1.1\n\n")
            client.writer.write(hello(None))
            await _until(lambda: b"".join(upstream.came) == hello_of(upstream))
    await proxy.aclose()


def hello_of(upstream: Upstream) -> bytes:
    came = b"".join(upstream.came)
    return came if came[:2] == b"\x16\x03" else b"nothing yet"


@pytest.mark.parametrize(
    "text",
    [
        "GET / HTTP/1.1\nHost: elsewhere.example\n\n",
        "GET http://elsewhere.example/ HTTP/1.1\nHost: localhost\n\n",
        "GET http://elsewhere.example/ HTTP/1.1\n\n",
    ],
)
async def test_a_tunnel_on_port_80_takes_requests_for_its_host_only(
    proxy: EgressProxy, socket_path: Path, text: str
) -> None:
    await proxy.allow({"localhost", "elsewhere.example"})
    answer = await tunnel(socket_path, "localhost:80", text.replace("\n", "\r\n").encode())
    assert b" 403 " in answer.split(b"\r\n")[0]
    assert proxy.refused == ("localhost:80",)


@pytest.mark.parametrize("first", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n"])
async def test_a_tunnel_on_port_80_takes_nothing_but_http(
    proxy: EgressProxy, socket_path: Path, first: bytes
) -> None:
    await proxy.allow({"localhost"})
    assert b" 400 " in (await tunnel(socket_path, "localhost:80", first)).split(b"\r\n")[0]
    assert proxy.refused == ("localhost:80",)


async def test_a_tunnel_that_is_never_used_is_no_refusal(proxy: EgressProxy, socket_path: Path) -> None:
    await proxy.allow({"localhost"})
    async with Client(socket_path) as client:
        await client.ask("CONNECT localhost:80 HTTP/1.1\n\n")
        client.writer.write_eof()
        assert await client.reader.read() == b"\r\n"
    assert proxy.refused == ()


# Plain http


async def test_a_host_header_that_differs_is_refused(
    proxy: EgressProxy, socket_path: Path, upstream: Upstream
) -> None:
    await proxy.allow({f"localhost:{upstream.port}"})
    answer = await plain(socket_path, f"GET http://localhost:{upstream.port}/ HTTP/1.1\nHost: elsewhere.example\n\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert (proxy.refused, upstream.came) == ((f"localhost:{upstream.port}",), [])


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 4\nTransfer-Encoding: chunked\n",
        "Content-Length: 4\nContent-Length: 5\n",
        "Content-Length: 4\nContent-Length: 4\n",
        "Content-Length: +4\n",
        "Content-Length: 4, 4\n",
        "Transfer-Encoding: gzip, chunked\n",
        "Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n",
        "Host: localhost\nHost: localhost\n",
        "Host:\n",
        "X-Space : 1\n",
        "X: 1\n folded\n",
        "no header\n",
    ],
)
async def test_what_two_readers_could_read_differently_is_no_request(
    proxy: EgressProxy, socket_path: Path, upstream: Upstream, headers: str
) -> None:
    await proxy.allow({f"localhost:{upstream.port}"})
    answer = await plain(socket_path, f"POST http://localhost:{upstream.port}/ HTTP/1.1\n{headers}\nbody")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert upstream.came == []


async def test_a_bare_line_feed_hides_no_header(proxy: EgressProxy, socket_path: Path, upstream: Upstream) -> None:
    await proxy.allow({f"localhost:{upstream.port}"})
    async with Client(socket_path) as client, asyncio.timeout(WAIT_S):
        client.writer.write(
            f"GET http://localhost:{upstream.port}/ HTTP/1.1\r\nX: 1\nHost: elsewhere.example\r\n\r\n".encode()
        )
        assert (await client.reader.read()).startswith(b"HTTP/1.1 400 ")
    assert upstream.came == []


@pytest.mark.parametrize(
    ("framing", "sent"),
    [
        ("Content-Length: 4\n\nbody", "Content-Length: 4\r\nConnection: close\r\n\r\nbody"),
        (
            "Transfer-Encoding: Chunked\n\n3;x=y\nbod\n1\ny\n0\nTrailer: 1\n\n",
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nbod\r\n1\r\ny\r\n0\r\n\r\n",
        ),
        ("\n", "Content-Length: 0\r\nConnection: close\r\n\r\n"),
    ],
)
async def test_what_follows_a_request_is_not_sent_on(
    proxy: EgressProxy, socket_path: Path, framing: str, sent: str
) -> None:
    class Silent(Upstream):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.came.append(b"")
            while not self.came[0].endswith(sent.encode()):
                self.came[0] += await reader.read(65536)
            writer.write(self.answer)
            writer.write_eof()
            self.came[0] += await reader.read()
            writer.close()

    async with listening(Silent()) as upstream:
        await proxy.allow({f"localhost:{upstream.port}"})
        url = f"http://localhost:{upstream.port}/"
        answer = await plain(socket_path, f"POST {url} HTTP/1.1\n{framing}GET http://elsewhere.example/ HTTP/1.1\n\n")
        assert answer.endswith(b"ok")
        await asyncio.sleep(0)
        assert upstream.came == [f"POST / HTTP/1.1\r\nHost: localhost:{upstream.port}\r\n{sent}".encode()]


@pytest.mark.parametrize("body", ["x\nab\n", "3\nabcd\n", "-1\n", "fffffffff\n", "1" * 20_000 + "\n"])
async def test_chunks_that_are_none_end_the_connection(proxy: EgressProxy, socket_path: Path, body: str) -> None:
    class Patient(Upstream):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                self.came.append(await reader.read())
            except OSError:
                pass
            finally:
                writer.close()

    async with listening(Patient()) as upstream:
        await proxy.allow({f"localhost:{upstream.port}"})
        url = f"http://localhost:{upstream.port}/"
        with structlog.testing.capture_logs() as logs:
            assert await plain(socket_path, f"POST {url} HTTP/1.1\nTransfer-Encoding: chunked\n\n{body}") == b""
        assert [line["reason"] for line in logs] == ["bad_body"]
        assert proxy.refused == (f"localhost:{upstream.port}",)


# What is told of a refusal


async def test_a_refusal_is_told_with_all_commands_that_run(proxy: EgressProxy, socket_path: Path) -> None:
    await proxy.allow({"example.org"})

    async def tried() -> Any:
        with structlog.testing.capture_logs() as logs:
            await plain(socket_path, "GET http://other.example/ HTTP/1.1\n\n")
        [line] = logs
        assert {**line, "commands": 0} == {
            "event": "egress_refused",
            "log_level": "warning",
            "sandbox": "s",
            "host": "other.example",
            "port": 80,
            "reason": "not_allowed",
            "commands": 0,
        }
        return line["commands"]

    assert await tried() == []
    with proxy.during("npm ci"):
        with proxy.during("a b " * COMMAND_LIMIT):
            assert await tried() == ["npm ci", "a b " * (COMMAND_LIMIT // 4)]
        assert await tried() == ["npm ci"]
        with pytest.raises(ZeroDivisionError), proxy.during("fails"):
            raise ZeroDivisionError
    assert await tried() == []


async def test_only_so_many_commands_are_named(proxy: EgressProxy, socket_path: Path) -> None:
    await proxy.allow({"example.org"})
    contexts = [proxy.during("same") for _ in range(MAX_COMMANDS + 1)]
    for context in contexts:
        context.__enter__()
    with structlog.testing.capture_logs() as logs:
        await plain(socket_path, "nonsense\n\n")
    assert logs[0]["commands"] == ["same"] * MAX_COMMANDS
    for context in contexts:
        context.__exit__(None, None, None)


# Names


_asked: list[str] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        _asked.append(str(arguments[0]))


async def test_a_name_that_is_not_allowed_is_never_looked_up(proxy: EgressProxy, socket_path: Path) -> None:
    sys.addaudithook(_hook)  # the interpreter's own record of every look-up; it stays, and then only fills a list
    await proxy.allow({"localhost", "*.invalid"})
    _asked.clear()
    await plain(socket_path, "GET http://secret.other.example/ HTTP/1.1\n\n")
    await plain(socket_path, "CONNECT secret.other.example:443 HTTP/1.1\n\n")
    await plain(socket_path, "GET http://localhost/ HTTP/1.1\nHost: secret.other.example\n\n")
    assert _asked == []
    assert b" 502 " in await plain(socket_path, "CONNECT allowed.invalid:443 HTTP/1.1\n\n")
    assert _asked == ["allowed.invalid"]


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():
            await asyncio.sleep(0.01)
