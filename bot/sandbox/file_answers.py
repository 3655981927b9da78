"""What the guest program `files` answers, as the protocol tells it."""

from __future__ import annotations

import errno
import os

from bot.domain.errors import SandboxError
from bot.sandbox.guest import files as guest_files
from bot.sandbox.protocol import Entry


def file_error(code: int, verb: str, path: str, number: int) -> Exception:
    """What to raise for a code that is not 0; `number` is the limit that was given."""
    match code:
        case guest_files.MISSING:
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        case guest_files.IS_FOLDER:
            return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        case guest_files.NO_FOLDER:
            return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        case guest_files.NO_FILE:
            return IsADirectoryError(errno.EISDIR, "Not a regular file", path)
        case guest_files.FORBIDDEN:
            return PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        case guest_files.OTHER:
            return OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        case guest_files.ESCAPES:
            return ValueError(f"{path!r} is a symbolic link or leads through one.")
        case guest_files.TOO_LARGE:
            return SandboxError("limit_exceeded", f"{path!r} is larger than {number} bytes.")
        case guest_files.FULL:
            return SandboxError("limit_exceeded", f"There is no room for {path!r} in the sandbox.")
        case _:
            return SandboxError("unknown_outcome", f"The sandbox did not say what became of {verb} {path!r}.")


def entries(listed: bytes) -> list[Entry]:
    """A listed folder, sorted by name; ValueError for what is no listing."""
    return sorted((_entry(row) for row in listed.split(b"\0")[:-1]), key=lambda entry: entry.name)


def _entry(row: bytes) -> Entry:
    kind, size, name = row.split(b" ", 2)
    match kind:
        case b"file":
            return Entry(name=os.fsdecode(name), kind="file", size=int(size))
        case b"dir":
            return Entry(name=os.fsdecode(name), kind="dir", size=0)
        case b"link":
            return Entry(name=os.fsdecode(name), kind="link", size=0)
        case _:
            return Entry(name=os.fsdecode(name), kind="other", size=0)
