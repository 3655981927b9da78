"""Whom a TLS client names is read from its first bytes, however they are cut, and nothing makes the reader fall."""

from __future__ import annotations

import random
import ssl

import pytest

from bot.sandbox.tls_hello import HELLO_LIMIT, RECORD_LIMIT, ClientHello, HelloReader, TunnelJudge

SEED = 20261130
EXAMPLE = (ClientHello(server_name="example.org"),)


def hello(name: str | None, *, oldest: bool = False) -> bytes:
    """What a real client says first: one record."""
    context = ssl.create_default_context()
    if name is None:
        context.check_hostname = False
    if oldest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def records(handshake: bytes, *lengths: int, kind: int = 22) -> bytes:
    """The bytes in records of these lengths, the rest in a last one."""
    made, at = b"", 0
    for length in (*lengths, len(handshake)):
        piece = handshake[at : at + length]
        made += bytes([kind, 3, 1]) + len(piece).to_bytes(2, "big") + piece if piece else b""
        at += length
    return made


def handshake(*extensions: tuple[int, bytes], tail: bytes = b"") -> bytes:
    listed = b"".join(kind.to_bytes(2, "big") + vector(data) for kind, data in extensions)
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00" + vector(listed) + tail
    return b"\x01" + len(body).to_bytes(3, "big") + body


def vector(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def server_name(*names: tuple[int, bytes]) -> tuple[int, bytes]:
    return 0, vector(b"".join(bytes([kind]) + vector(name) for kind, name in names))


def fed(data: bytes, cuts: list[int] | None = None) -> tuple[tuple[ClientHello, ...], bool]:
    reader, at = HelloReader(), 0
    found: list[ClientHello] = []
    for cut in [*sorted(cuts or []), len(data)]:
        found += reader.feed(data[at:cut])
        at = cut
    return tuple(found), reader.broken


@pytest.mark.parametrize("oldest", [False, True])
@pytest.mark.parametrize("name", ["example.org", "a.b.c.example", None])
def test_a_real_hello_is_read(name: str | None, oldest: bool) -> None:
    assert fed(hello(name, oldest=oldest)) == ((ClientHello(server_name=name),), False)


def test_a_hello_may_come_byte_by_byte_and_in_records_of_one_byte() -> None:
    said = records(hello("example.org")[5:], *([1] * 400))
    reader = HelloReader()
    answers = [reader.feed(bytes([byte])) for byte in said]
    assert [answer for answer in answers if answer] == [EXAMPLE]
    assert answers[-1] == EXAMPLE
    assert not reader.broken


def test_cuts_and_records_change_nothing() -> None:
    random_ = random.Random(SEED)
    body = hello("example.org")[5:]
    for _ in range(300):
        said = records(body, *(random_.randint(1, 200) for _ in range(random_.randint(0, 6))))
        cuts = [random_.randrange(len(said)) for _ in range(random_.randint(0, 8))]
        assert fed(said, cuts) == (EXAMPLE, False)


def test_no_bytes_make_it_fall_and_how_they_are_cut_changes_nothing() -> None:
    random_ = random.Random(SEED)
    real = hello("example.org")
    for _ in range(4000):
        said = bytearray(real + records(real[5:]) if random_.random() < 0.5 else random_.randbytes(200))
        for _ in range(random_.randint(0, 4)):
            said[random_.randrange(len(said))] = random_.randrange(256)
        if random_.random() < 0.3:
            del said[random_.randrange(len(said)) :]
        cuts = [random_.randrange(len(said) + 1) for _ in range(random_.randint(0, 5))]
        whole, cut = fed(bytes(said)), fed(bytes(said), cuts)
        assert whole == cut
        assert len(whole[0]) <= 2


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x80\x2e\x01\x00\x02",  # SSL 2
        records(b"\x01", kind=21),
        records(b"\x01", kind=23),
        b"\x16\x02",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01" + (RECORD_LIMIT + 1).to_bytes(2, "big"),
        records(b"\x02\x00\x00\x01\x00"),
        records(b"\x01" + HELLO_LIMIT.to_bytes(3, "big")),
        records(handshake()[:20]) + records(b"\x01", kind=20),
        records(handshake() + b"\x01"),
        records(handshake(tail=b"\x00")),
        records(handshake(server_name((0, b"a")), server_name((0, b"a")))),
        records(handshake(server_name((0, b"a"), (0, b"b")))),
        records(handshake(server_name((1, b"a")))),
        records(handshake(server_name((0, b"")))),
        records(handshake(server_name((0, b"\xc3\xa4")))),
        records(handshake((0, b""))),
        records(handshake((0, b"\x00\x09\x00\x00\x01a"))),
        records(b"\x01\x00\x00\x02\x03\x03"),
    ],
)
def test_what_no_client_says_is_broken(said: bytes) -> None:
    assert fed(said) == ((), True)
    assert fed(said, list(range(len(said)))) == ((), True)


def test_one_byte_shows_what_is_no_tls() -> None:
    assert fed(b"G") == ((), True)


def test_a_hello_without_extensions_names_nobody() -> None:
    body = b"\x03\x01" + bytes(32) + b"\x00" + b"\x00\x02\x00\x2f" + b"\x01\x00"
    assert fed(records(b"\x01" + len(body).to_bytes(3, "big") + body)) == ((ClientHello(server_name=None),), False)


def test_a_second_hello_is_read_wherever_it_comes_in_the_clear() -> None:
    other = records(handshake(server_name((0, b"other.example"))))
    between = records(b"\x01", kind=20) + records(bytes(300), kind=23)
    both = (*EXAMPLE, ClientHello(server_name="other.example"))
    said = hello("example.org") + between + other
    assert fed(said) == (both, False)
    assert fed(said, list(range(len(said)))) == (both, False)


def test_what_comes_after_the_handshake_is_not_read() -> None:
    key = records(b"\x10\x00\x00\x01\x00")
    assert fed(hello("example.org") + key + b"anything" + hello("other.example")) == (EXAMPLE, False)


def test_sealed_records_pass_by_their_length() -> None:
    said = hello("example.org") + records(bytes(RECORD_LIMIT + 256), kind=23) + records(b"\x01", kind=23)
    assert fed(said) == (EXAMPLE, False)
    assert fed(said + b"\x17\x03\x03\xff\xff") == (EXAMPLE, True)


# What it means for a tunnel


@pytest.mark.parametrize(
    ("host", "named", "reason"),
    [
        ("example.org", "example.org", None),
        ("example.org", "EXAMPLE.org", None),
        ("example.org", "example.org.", None),
        ("example.org", "www.example.org", "other_server_name"),
        ("example.org", "example.org.evil.example", "other_server_name"),
        ("example.org", "not a name", "other_server_name"),
        ("example.org", "192.0.2.1", "other_server_name"),
        ("example.org", None, "no_server_name"),
        ("192.0.2.1", None, None),
        ("192.0.2.1", "192.0.2.1", None),
        ("192.0.2.1", "example.org", "other_server_name"),
    ],
)
@pytest.mark.parametrize("port", [443, 8443])
def test_a_tunnel_is_for_the_host_it_was_opened_for(
    host: str, named: str | None, reason: str | None, port: int
) -> None:
    judge = TunnelJudge(host, port)
    names = [] if named is None else [server_name((0, named.encode()))]
    assert judge.hear(records(handshake(*names))) == reason
    assert judge.settled is (reason is None)


def test_an_encrypted_hello_is_judged_by_its_outer_name() -> None:
    sealed = (0xFE0D, bytes(200))
    for outer, reason in ((b"example.org", None), (b"public.example", "other_server_name")):
        judge = TunnelJudge("example.org", 443)
        assert judge.hear(records(handshake(server_name((0, outer)), sealed))) == reason


def test_a_second_hello_for_somebody_else_is_refused() -> None:
    judge = TunnelJudge("example.org", 443)
    assert judge.hear(hello("example.org")) is None
    assert judge.hear(records(b"\x01", kind=20)) is None
    assert judge.hear(records(handshake(server_name((0, b"other.example"))))) == "other_server_name"


def test_other_protocols_pass_on_other_ports_only() -> None:
    assert TunnelJudge("example.org", 443).hear(b"SSH-2.0\r\n") == "not_tls"
    other = TunnelJudge("example.org", 22)
    assert other.hear(b"SSH-2.0\r\n") is None
    assert other.settled
    assert other.hear(hello("other.example")) is None


def test_an_unfinished_hello_settles_nothing() -> None:
    judge = TunnelJudge("example.org", 443)
    assert judge.hear(hello("example.org")[:-1]) is None
    assert not judge.settled
