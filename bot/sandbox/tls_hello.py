"""Whom the client of a TLS connection says it wants to talk to, read from its first bytes as they come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bot.sandbox.hosts import canonical, is_address

HELLO_LIMIT = 32 * 1024
"""Bytes of the longest hello that is read; real ones, with keys against quantum computers, have some 2 KiB."""
RECORD_LIMIT = 2**14
_SEALED = 256
"""Bytes that a record may be longer once it is encrypted."""

_CHANGE, _ALERT, _HANDSHAKE, _DATA = 20, 21, 22, 23
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HEAD = 5


@dataclass(frozen=True, kw_only=True)
class ClientHello:
    """RFC 8446, 4.1.2. `server_name` as it was sent, None where none was; of an encrypted hello, the outer one."""

    server_name: str | None


class HelloReader:
    """Is fed what a client sends, in any pieces. Never raises, and keeps at most one hello."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        """Bytes of the present record that are still to come."""
        self._hello: bytearray | None = bytearray()
        """Of the hello that is being read, what is there; None outside of one."""
        self._over = False
        self.broken = False
        """What was fed is not how a TLS client begins."""

    def feed(self, data: bytes) -> tuple[ClientHello, ...]:
        """The hellos that end in these bytes. The first must be the first thing that comes; a second one follows
        where the server asks for it (RFC 8446, 4.1.4), and could name somebody else."""
        found: list[ClientHello] = []
        at = 0
        while at < len(data) and not self._over and not self.broken:
            if not self._left:
                at = self._start_record(data, at)
                continue
            piece = data[at : at + self._left]
            if self._hello is None and self._head[0] == _HANDSHAKE and piece[0] != _CLIENT_HELLO:
                self._over = True  # the handshake went on: from here on there is nothing to be read
                break
            if self._head[0] == _HANDSHAKE:
                self._hello = self._hello or bytearray()
                self._hello += piece
            at += len(piece)
            self._left -= len(piece)
            found += self._ended()
        return tuple(found)

    def _start_record(self, data: bytes, at: int) -> int:
        if len(self._head) == _HEAD:
            self._head.clear()
        taken = data[at : at + _HEAD - len(self._head)]
        self._head += taken
        kind = self._head[0]
        # The first byte alone shows what is no TLS; a client that then waits for an answer would never send five.
        self.broken = kind != _HANDSHAKE if self._hello is not None else not _CHANGE <= kind <= _DATA
        self.broken |= len(self._head) > 1 and self._head[1] != 3
        if len(self._head) == _HEAD:
            self._left = int.from_bytes(self._head[3:5], "big")
            longest = RECORD_LIMIT + (_SEALED if kind == _DATA else 0)
            self.broken |= self._left > longest or (self._left == 0 and kind != _DATA)
        return at + len(taken)

    def _ended(self) -> list[ClientHello]:
        """The hello, if these bytes were its last ones."""
        hello = self._hello
        if hello is None or not hello:
            return []
        length = 4 + int.from_bytes(hello[1:4], "big")
        if hello[0] != _CLIENT_HELLO or (len(hello) >= 4 and length > HELLO_LIMIT):
            self.broken = True
            return []
        if len(hello) < 4 or len(hello) < length:
            return []
        self._hello = None
        try:
            if len(hello) > length or self._left:
                raise _MalformedError  # nothing else belongs into the record in which a hello ends
            return [ClientHello(server_name=_server_name(bytes(hello[4:])))]
        except _MalformedError:
            self.broken = True
            return []


Reason = Literal["not_tls", "no_server_name", "other_server_name"]


class TunnelJudge:
    """Whether what a client sends is for the host that its tunnel was opened for. On port 443 it must be TLS;
    on another port, which somebody listed by its number, other protocols pass."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._tls: HelloReader | None = None
        self.settled = False
        """Enough was heard to know that it is."""

    def hear(self, data: bytes) -> Reason | None:
        """The next bytes, at least one; why they may not be sent on."""
        if self._tls is None:
            if self.settled:
                return None
            if self._port != 443 and data[0] != _HANDSHAKE:
                self.settled = True
                return None
            self._tls = HelloReader()
        for hello in self._tls.feed(data):
            if hello.server_name is None and not is_address(self._host):
                return "no_server_name"
            if hello.server_name is not None and canonical(hello.server_name) != self._host:
                return "other_server_name"
            self.settled = True
        return "not_tls" if self._tls.broken else None


class _MalformedError(Exception):
    pass


class _Bytes:
    """Takes vectors off the front; raises where there are fewer bytes than they say."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __bool__(self) -> bool:
        return bool(self._data)

    def take(self, count: int) -> bytes:
        if count > len(self._data):
            raise _MalformedError
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> bytes:
        """As many bytes as the `size` bytes before them say."""
        return self.take(self.number(size))


def _server_name(body: bytes) -> str | None:
    hello = _Bytes(body)
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression
    if not hello:
        return None
    extensions = _Bytes(hello.vector(2))
    if hello:
        raise _MalformedError
    names: list[str] = []
    while extensions:
        kind, data = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            names.append(_host_name(data))
    if len(names) > 1:
        raise _MalformedError
    return names[0] if names else None


def _host_name(data: bytes) -> str:
    """RFC 6066, 3: a list, of which more than one host's name was never used."""
    outer = _Bytes(data)
    listed = _Bytes(outer.vector(2))
    kind, name = listed.number(1), listed.vector(2)
    if outer or listed or kind != 0 or not name:
        raise _MalformedError
    try:
        return name.decode("ascii")
    except UnicodeDecodeError as exc:
        raise _MalformedError from exc
