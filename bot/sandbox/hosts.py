"""Names and addresses as allow-lists and requests write them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from bot.domain.errors import SandboxError

WEB_PORTS = frozenset({80, 443})

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")
# Addresses that carry an IPv4 address inside, and so could name a private one: RFC 6052 and RFC 8215.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


@dataclass(frozen=True, kw_only=True)
class Host:
    """One entry of an allow-list: a name or an address, perhaps everything below it, perhaps one port."""

    name: str
    below: bool
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Host:
        """From `name`, `*.name`, `name:port`, `address:port` or `[v6 address]:port`."""
        name, port = split(text)
        below = name.startswith("*.")
        name = canonical(name.removeprefix("*."))
        if below and is_address(name):
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


def split(text: str) -> tuple[str, int | None]:
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


def canonical(name: str) -> str:
    """Lower case, no final dot, one spelling for an address; empty for what is neither name nor address."""
    address = _address(name)
    if address:
        return str(address)
    name = name.lower().removesuffix(".")
    # A name of digits only is an address in some resolvers' eyes (2130706433 is 127.0.0.1).
    last = name.rpartition(".")[2]
    return name if _NAME.fullmatch(name) and not re.fullmatch(r"\d+|0x[0-9a-f]*", last) else ""


def is_address(name: str) -> bool:
    return _address(name) is not None


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


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
