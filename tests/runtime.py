"""What the Docker engine runs containers with."""

from __future__ import annotations

import http.client
import json
import socket
from functools import cache

OURS = ("crun", "runc")
"""Those that are tried, the quickest first."""


@cache
def known() -> tuple[str, ...]:
    """Those of ours that this machine's engine has."""
    engine = http.client.HTTPConnection("docker")
    engine.sock = socket.socket(socket.AF_UNIX)
    engine.sock.connect("/var/run/docker.sock")
    engine.request("GET", "/info")
    runtimes = json.loads(engine.getresponse().read())["Runtimes"]
    engine.close()
    return tuple(name for name in OURS if name in runtimes)


def quickest() -> str:
    """For tests that are not about containers."""
    return known()[0]
