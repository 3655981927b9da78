"""Watches how much a workspace holds. Part of the resident helper."""

from __future__ import annotations

import os
import socket
import time

from bot.sandbox.guest import usage

EVERY_S = 2.0
COST = 30
"""A close look is taken no oftener than every so many of its own durations."""


class Disk:
    """Notices when the workspace holds more than it may: looked at closely at once where the whole file system has
    lost so much room since the last look that it is possible, and now and then, for others may have freed as much."""

    def __init__(self, root: str, limit: int) -> None:
        self._root = root
        self._limit = limit
        self._allowed: int | None = None
        self._used = 0
        self._free = 0
        self._looked = time.monotonic()
        self._next = 0.0
        self._looking: socket.socket | None = None

    def fileno(self) -> int:
        return self._looking.fileno() if self._looking else -1

    def check(self) -> None:
        if self._looking is not None:
            return
        free = self._free_now()
        quiet = self._allowed is not None and self._used + self._free - free <= self._allowed
        if quiet and time.monotonic() < self._next:
            return
        self._free = free
        self._looked = time.monotonic()
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            return
        if pid == 0:
            theirs.send(b"%d" % usage.used(self._root))
            os._exit(0)
        self._looking = ours

    def answer(self) -> bool:
        """Whether it is over. What is there when we first look, or after an end, may stay; it may not grow."""
        assert self._looking is not None
        said = self._looking.recv(64)
        self._looking.close()
        self._looking = None
        now = time.monotonic()
        self._next = now + max(EVERY_S, COST * (now - self._looked))
        if not said:
            return False
        self._used = int(said)
        if self._allowed is None:
            self._allowed = self._limit if self._used <= self._limit else self._used + self._limit // 20
        over = self._used > self._allowed
        self._allowed = max(self._limit, min(self._allowed, self._used + self._limit // 20))
        return over

    def _free_now(self) -> int:
        found = os.statvfs(self._root)
        return found.f_bavail * found.f_frsize
