"""A private index gets the operator's credential outside of the sandbox, and nobody else does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.domain.errors import UserError
from bot.sandbox.credentials import FILE_LIMIT, load_credentials
from bot.sandbox.egress import EgressProxy
from tests.adapters.test_egress_inside import Authority, Upstream, listening, plain, tunnel

SECRET = "Basic dTpzZWNyZXQ="


@pytest.fixture
def socket_path() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="egress-"))
    yield folder / "proxy.sock"
    shutil.rmtree(folder)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with listening(Upstream()) as made:
        yield made


@asynccontextmanager
async def index(socket_path: Path, authority: Authority, answer: bytes | None = None) -> AsyncIterator[Any]:
    """A private index at `localhost`, and a proxy that has its credential."""
    upstream = Upstream(answer) if answer else Upstream()
    async with listening(upstream, tls=authority.server("localhost")):
        proxy = EgressProxy(
            socket_path,
            sandbox="s",
            private_hosts={"localhost", "127.0.0.1"},
            credentials={f"localhost:{upstream.port}": SECRET},
            tls=authority.client,
        )
        try:
            yield proxy, upstream
        finally:
            await proxy.aclose()


async def test_an_index_gets_the_operators_credential_by_https(socket_path: Path, authority: Authority) -> None:
    async with index(socket_path, authority) as (proxy, upstream):
        await proxy.allow({"localhost"})
        answer = await plain(
            socket_path,
            "GET http://localhost/simple/?a=b HTTP/1.1\nHost: localhost\nAuthorization: Bearer own\nX: 1\n\n",
        )
        assert answer.endswith(b"ok")
        lines = f"Host: localhost\r\nX: 1\r\nAuthorization: {SECRET}\r\nConnection: close"
        assert upstream.came == [f"GET /simple/?a=b HTTP/1.1\r\n{lines}\r\n\r\n".encode()]
        inside = await tunnel(socket_path, "localhost:80", b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert inside.endswith(b"ok")
        assert SECRET.encode() in upstream.came[1]


async def test_a_redirect_is_handed_back_as_it_is(socket_path: Path, authority: Authority) -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    async with index(socket_path, authority, moved) as (proxy, upstream):
        await proxy.allow({"localhost"})
        assert await plain(socket_path, "GET http://localhost/ HTTP/1.1\n\n") == moved
        assert len(upstream.came) == 1


async def test_no_other_host_gets_the_credential(socket_path: Path, authority: Authority, upstream: Upstream) -> None:
    async with index(socket_path, authority) as (proxy, private):
        await proxy.allow({f"127.0.0.1:{upstream.port}", f"localhost:{upstream.port}", f"localhost:{private.port}"})
        for name in ("127.0.0.1", "localhost"):
            assert (await plain(socket_path, f"GET http://{name}:{upstream.port}/ HTTP/1.1\n\n")).endswith(b"ok")
        assert SECRET.encode() not in b"".join(upstream.came)
        assert len(upstream.came) == 2
        await plain(socket_path, f"GET http://localhost:{private.port}/ HTTP/1.1\n\n")
        assert SECRET.encode() not in b"".join(private.came)


async def test_the_credential_opens_nothing_that_is_not_allowed(socket_path: Path, authority: Authority) -> None:
    async with index(socket_path, authority) as (proxy, upstream):
        await proxy.allow({"elsewhere.example"})
        assert b" 403 " in await plain(socket_path, "GET http://localhost/ HTTP/1.1\n\n")
        assert upstream.came == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "TRACE", "OPTIONS"])
async def test_the_credential_is_for_reading(socket_path: Path, authority: Authority, method: str) -> None:
    async with index(socket_path, authority) as (proxy, upstream):
        await proxy.allow({"localhost"})
        answer = await plain(socket_path, f"{method} http://localhost/ HTTP/1.1\n\n")
        assert answer.startswith(b"HTTP/1.1 403 localhost is open for reading only\r\n")
        assert (upstream.came, proxy.refused) == ([], ("localhost:80",))


async def test_a_server_without_the_right_certificate_does_not_get_it(
    socket_path: Path, authority: Authority
) -> None:
    async with listening(Upstream(), tls=authority.server("other.example")) as upstream:
        proxy = EgressProxy(
            socket_path,
            sandbox="s",
            private_hosts={"localhost"},
            credentials={f"localhost:{upstream.port}": SECRET},
            tls=authority.client,
        )
        await proxy.allow({"localhost"})
        answer = await plain(socket_path, "GET http://localhost/ HTTP/1.1\n\n")
        assert answer.startswith(b"HTTP/1.1 502 Host has no certificate that the bot trusts\r\n")
        assert b"".join(upstream.came) == b""
        await proxy.aclose()


def _file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "credentials.json"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_credentials_are_read_from_a_file_of_the_operators(tmp_path: Path) -> None:
    path = _file(tmp_path, '{"index.example.org": "Basic abc", "npm.example.org:8443": "Bearer d.e-f"}')
    assert dict(load_credentials(path)) == {
        "index.example.org": "Basic abc",
        "npm.example.org:8443": "Bearer d.e-f",
    }


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ('{"a.example": "Basic topsecret"}', 0o640, "chmod 600"),
        ("topsecret", 0o600, "must be a JSON object"),
        ('["topsecret"]', 0o600, "must be a JSON object"),
        ('{"a.example": {"topsecret": 1}}', 0o600, "no value of an Authorization header"),
        ('{"a.example": "topsecret"}', 0o600, "no value of an Authorization header"),
        ('{"a.example": "Basic topsecret\\r\\nX: 1"}', 0o600, "no value of an Authorization header"),
        ('{"*.a.example": "Basic topsecret"}', 0o600, "without wildcards"),
        ('{"https://a.example": "Basic topsecret"}', 0o600, "without wildcards"),
        ('{"a.example:80": "Basic topsecret"}', 0o600, "https port"),
        ('{"a.example": "Basic ' + "x" * FILE_LIMIT + '"}', 0o600, "must be a JSON object"),
        ("[" * 20_000, 0o600, "must be a JSON object"),
    ],
)
def test_a_file_of_credentials_that_is_wrong_is_told_without_its_content(
    tmp_path: Path, text: str, mode: int, said: str
) -> None:
    with pytest.raises(UserError, match=said) as raised:
        load_credentials(_file(tmp_path, text, mode))
    assert "CODER_INDEX_CREDENTIALS_FILE" in str(raised.value)
    assert "topsecret" not in str(raised.value)


def test_a_file_of_credentials_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read: No such file"):
        load_credentials(tmp_path / "none")
