"""The head of a request to a proxy, understood strictly: what two readers could read differently is no request."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bot.sandbox.hosts import canonical, split

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's word for it
_LINE = re.compile(r"([A-Z]+) ([!-~]+) HTTP/1\.([01])")
_HEADER = re.compile(rf"({_TOKEN}):[ \t]*([^\0\r\n]*?)[ \t]*")
_ABSOLUTE = re.compile(r"http://([^/?#@]+)(/[^#]*|\?[^#]*)?", re.IGNORECASE)

_NOT_PASSED_ON = frozenset(
    {"connection", "keep-alive", "te", "trailer", "upgrade"}  # hop by hop: RFC 9110, 7.6.1
    | {"host", "content-length", "transfer-encoding"}  # said anew, as they were understood
)


@dataclass(frozen=True, kw_only=True)
class Connect:
    """A wish for a tunnel."""

    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A request in plain http. `body` is its length in bytes, None where it comes in chunks."""

    host: str
    port: int
    method: str
    body: int | None
    agrees: bool
    """Whether everything that names a host in it names this one."""
    authority: str
    path: str
    version: str
    headers: tuple[tuple[str, str], ...]

    def head(self, authorization: str | None = None) -> bytes:
        """As it is sent on: one request a connection, with the Host it was judged by."""
        kept = [(n, v) for n, v in self.headers if not (authorization and n.lower() == "authorization")]
        kept += [("Authorization", authorization)] if authorization else []
        if self.body is None:
            kept.append(("Transfer-Encoding", "chunked"))
        elif self.body or self.method in ("POST", "PUT", "PATCH"):
            kept.append(("Content-Length", str(self.body)))
        lines = [f"{self.method} {self.path} {self.version}", f"Host: {self.authority}"]
        lines += [*(f"{name}: {value}" for name, value in kept), "Connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1")


def parse(head: bytes) -> Connect | Plain | None:
    """From all bytes up to the empty line, this one included; None for what is no request to a proxy."""
    if head.startswith(b"CONNECT "):
        matched = _LINE.fullmatch(head.decode("latin-1").split("\r\n")[0])
        name, port = split(matched[2]) if matched else ("", None)
        host = canonical(name)
        return Connect(host=host, port=port) if host and port else None
    return _plain(head, tunnel=None)


def parse_inside(head: bytes, tunnel: Connect) -> Plain | None:
    """A request that comes through a tunnel, as to the server itself."""
    return _plain(head, tunnel=tunnel)


def _plain(head: bytes, tunnel: Connect | None) -> Plain | None:
    line, *rest = head[:-4].decode("latin-1").split("\r\n")
    matched = _LINE.fullmatch(line)
    headers = _headers(rest)
    if not matched or headers is None:
        return None
    method, target, minor = matched[1], matched[2], matched[3]
    named = [value for name, value in headers if name.lower() == "host"]
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute:
        authority, path = absolute[1], absolute[2] or "/"
    elif tunnel and target.startswith("/") and named:
        authority, path = named[0], target
    else:
        return None
    said = [_place(text) for text in (authority, *named)]
    wanted = (tunnel.host, tunnel.port) if tunnel else said[0]
    length = _body(headers, minor)
    if len(named) > 1 or wanted is None or None in said or method == "CONNECT" or length == -1:
        return None
    return Plain(
        host=wanted[0],
        port=wanted[1],
        method=method,
        body=length,
        agrees=set(said) == {wanted},
        authority=authority,
        path=path if path.startswith("/") else "/" + path,
        version=f"HTTP/1.{minor}",
        headers=tuple(_passed_on(headers)),
    )


def _headers(lines: list[str]) -> list[tuple[str, str]] | None:
    found = []
    for line in lines:
        matched = _HEADER.fullmatch(line)
        if not matched:
            return None
        found.append((matched[1], matched[2]))
    return found


def _place(authority: str) -> tuple[str, int] | None:
    name, port = split(authority)
    host = canonical(name)
    return (host, 80 if port is None else port) if host and port != 0 else None


def _body(headers: list[tuple[str, str]], minor: str) -> int | None:
    """The body's length, None for chunks, -1 where it is not said in one way only (RFC 9112, 6.3 and 11.2)."""
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    codings = [value for name, value in headers if name.lower() == "transfer-encoding"]
    if codings:
        clear = len(codings) == 1 and codings[0].lower() == "chunked" and not lengths and minor == "1"
        return None if clear else -1
    if not lengths:
        return 0
    return int(lengths[0]) if len(lengths) == 1 and re.fullmatch(r"[0-9]{1,15}", lengths[0]) else -1


def _passed_on(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    named = {
        word.strip().lower() for name, value in headers if name.lower() == "connection" for word in value.split(",")
    }
    dropped = _NOT_PASSED_ON | named
    return [(n, v) for n, v in headers if n.lower() not in dropped and not n.lower().startswith("proxy-")]
