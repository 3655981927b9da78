"""What both programs of root's in an E2B sandbox share: their folder, and the end of every command."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

BASE = "/var/lib/coder-bot"
WORKSPACE = "/workspace"
UID = 1000
SWEEPER = 64321
"""A user id that nobody has: as its real and saved one it keeps the commands' user from ending the sweeper."""
PR_SET_NO_NEW_PRIVS = 38


def load_state() -> Any:
    with open(f"{BASE}/state") as stream:
        return json.load(stream)


def replace(path: str, text: str) -> None:
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w") as stream:
        stream.write(text)
    os.replace(draft, path)


@contextlib.contextmanager
def spawning(how: int) -> Iterator[int]:
    """Shared by whoever begins a process of the commands' user, exclusive for ending all of them."""
    lock = os.open(f"{BASE}/spawning", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, how)
        yield lock
    finally:
        os.close(lock)


def become_commands_user() -> None:
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    if ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        os._exit(120)


def sweep(own: str = "") -> bool:
    """Ends every process of the commands' user, whatever it did to hide or to stay; whether one is left. The other
    jobs that were running learn of it."""
    with spawning(fcntl.LOCK_EX):
        for entry in os.scandir(f"{BASE}/jobs"):
            if entry.name != own and not os.path.exists(f"{entry.path}/result"):
                with open(f"{entry.path}/swept", "w"):
                    pass
        for _ in range(200):
            kill_all()
            if not any(commands()):
                return False
            time.sleep(0.01)
        return True


def kill_all() -> None:
    try:
        pid = os.fork()
    except BlockingIOError:
        # A fork bomb has all the processes there may be.
        for found in commands():
            with contextlib.suppress(ProcessLookupError):
                os.kill(found, signal.SIGKILL)
        return
    if pid == 0:
        try:
            os.setgroups([])
            # Signals go by the effective user id, and to the real and saved ones: it can end them, they can't end it.
            os.setresuid(SWEEPER, UID, SWEEPER)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def commands() -> Iterator[int]:
    """Every living process of the commands' user."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            # Not the owner of /proc/N: a process can make that root.
            with open(f"/proc/{name}/status") as stream:
                facts = dict(line.split(":", 1) for line in stream if ":" in line)
        except (OSError, ValueError):
            continue  # it has just ended
        if str(UID) in facts["Uid"].split() and facts["State"].split()[0] not in "ZX":
            yield int(name)
