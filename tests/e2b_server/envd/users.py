"""As whom a call is done, and what its paths mean."""

from __future__ import annotations

import base64
import binascii
import os
import pwd
from dataclasses import dataclass

from .errors import Refused


@dataclass(frozen=True)
class User:
    """A user of the sandbox. An empty path means `workdir`, a relative one is below `home`."""

    name: str
    uid: int
    gid: int
    home: str
    workdir: str

    def resolve(self, path: str) -> str:
        if not path:
            return self.workdir
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.normpath(os.path.join(self.home, path))


def find(name: str, workdir: str) -> User:
    """By name or by number."""
    try:
        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        raise Refused("unauthenticated", f"invalid username: '{name}'") from None
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, workdir)


def named_in(authorization: str) -> str:
    """The user of `Basic base64("user:")`; empty where the header names none."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        raise Refused("unauthenticated", "no user can be read from the authorization header") from None
