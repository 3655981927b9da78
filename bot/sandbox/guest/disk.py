"""Watches how much a workspace holds. Part of the resident helper."""

from __future__ import annotations

import os
import socket

from bot.sandbox.guest import usage


class Disk:
    """Notices when the workspace holds more than it may. Looked at closely only where the whole file system has lost
    so much room since the last look that it is possible at all."""

    def __init__(self, root: str, limit: int) -> None:
        self._root = root
        self._limit = limit
        self._allowed: int | None = None
        self._used = 0
        self._free = 0
        self._looking: socket.socket | None = None

    def fileno(self) -> int:
        return self._looking.fileno() if self._looking else -1

    def check(self) -> None:
        if self._looking is not None:
            return
        free = self._free_now()
        if self._allowed is not None and self._used + self._free - free <= self._allowed:
            return
        self._free = free
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
