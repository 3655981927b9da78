"""What the bot and a container share: a folder on the bot's side, mounted into the sandbox read-only."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path

from bot.domain.errors import SandboxError

SOCKET_PATH_LIMIT = 107  # sun_path, less its final zero


class Folder:
    """One sandbox's deadline, epoch and proxy socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = path / "proxy.sock"
        longest = len(os.fsencode(self.socket))
        if longest > SOCKET_PATH_LIMIT:
            raise SandboxError(
                "invalid_config",
                f"{path.parent} is too long a path for a socket below it: choose a home folder whose path is "
                f"{longest - SOCKET_PATH_LIMIT} bytes shorter.",
            )

    def make(self) -> None:
        # Closed to everybody else on this machine, open inside: the sandbox's users are not ours.
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(exist_ok=True)
            self.path.chmod(0o755)
        except OSError as exc:
            raise self._unwritable() from exc

    def set_deadline(self, lifetime_s: int) -> None:
        self._put("deadline", f"{time.time() + lifetime_s:.3f}")

    def claim(self, epoch: int) -> None:
        """From now on lower epochs may do nothing; `permission_denied` where a higher one was here before."""
        try:
            with open(self.path / "lock", "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if self.epoch() > epoch:
                    raise superseded()
                self._put("epoch", str(epoch))
        except OSError as exc:
            raise self._unwritable() from exc

    def epoch(self) -> int:
        try:
            return int((self.path / "epoch").read_text(encoding="ascii"))
        except FileNotFoundError:
            return 0

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _put(self, name: str, text: str) -> None:
        draft = self.path / f"{name}.new"
        try:
            draft.write_text(text, encoding="ascii")
            draft.chmod(0o644)
            draft.replace(self.path / name)
        except OSError as exc:
            raise self._unwritable() from exc

    def _unwritable(self) -> SandboxError:
        return SandboxError("invalid_config", f"The bot can't write below {self.path.parent}.")


def superseded() -> SandboxError:
    return SandboxError(
        "permission_denied", "Another run of this task has connected to its sandbox since; this one must stop."
    )
