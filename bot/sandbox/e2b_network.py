"""E2B's network rules for a set of allowed hosts."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.domain.errors import SandboxError
from bot.sandbox.hosts import WEB_PORTS, Host, is_address, is_public

if TYPE_CHECKING:
    from e2b import SandboxNetworkUpdate

EVERYTHING = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class Network:
    """What E2B is told, and the names that need an address of their own because nothing looks them up."""

    allow_out: list[str]
    names: list[str]
    dns: bool

    def update(self) -> SandboxNetworkUpdate:
        """The whole configuration: what an update leaves out, E2B forgets."""
        told: SandboxNetworkUpdate = {"allow_out": self.allow_out, "deny_out": [EVERYTHING]}
        if not self.dns:
            # With a name among what is allowed, E2B opens 8.8.8.8 to all programs unless told otherwise.
            told["dns_servers"] = []
        return told


def rules(hosts: frozenset[str], private: tuple[Host, ...]) -> Network:
    """`invalid_config` for a host that E2B could not be held to, `permission_denied` for an address inside the
    operator's networks that `private` does not list."""
    allow: set[str] = set()
    names: set[str] = set()
    for text in hosts:
        host = Host.parse(text)
        if is_address(host.name):
            allow.add(_block(text, host, private))
        elif host.port is not None and host.port not in WEB_PORTS:
            raise SandboxError(
                "invalid_config",
                f"{text} can't be allowed on E2B: it knows names on ports 80 and 443 alone, and other ports only for "
                "an IPv4 address.",
            )
        elif host.below:
            allow.add(f"*.{host.name}")
        else:
            allow.add(host.name)
            names.add(host.name)
    dns = any(name.startswith("*.") for name in allow)
    return Network(allow_out=sorted(allow), names=sorted(names), dns=dns)


def _block(text: str, host: Host, private: tuple[Host, ...]) -> str:
    if ipaddress.ip_address(host.name).version != 4:
        raise SandboxError("invalid_config", f"{text} can't be allowed on E2B: it knows no IPv6.")
    port = 80 if host.port is None else host.port
    if not is_public(host.name) and not any(one.covers_privately(host.name, port) for one in private):
        raise SandboxError(
            "permission_denied", f"{text} is an address inside a network, and the operator does not list it."
        )
    return f"{host.name}/32"
