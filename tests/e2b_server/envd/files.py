"""Files as envd does them: as root, through symbolic links, and then given to the user."""

from __future__ import annotations

import asyncio
import datetime as dt
import errno
import grp
import os
import pwd
import re
import shutil
import stat
from collections.abc import AsyncIterator, Mapping
from typing import Any

from .errors import Refused
from .http import PIECE, Reply, Request
from .users import User


async def read(request: Request, reply: Reply, user: User) -> None:
    path = user.resolve(request.query.get("path", ""))
    try:
        kind = os.stat(path).st_mode
    except OSError:
        raise Refused("not_found", f"path '{path}' does not exist") from None
    if stat.S_ISDIR(kind):
        raise Refused("invalid_argument", f"path '{path}' is a directory")
    if stat.S_ISFIFO(kind):
        await request.body()
        await request.left()  # opening one waits for a writer that may never come
        return
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        await reply.begin(200, {"content-type": "application/octet-stream", "content-length": str(size)})
        while size and (piece := file.read(min(PIECE, size))):
            size -= len(piece)
            await reply.write(piece)


async def write(request: Request, reply: Reply, user: User) -> None:
    kind = request.headers.get("content-type", "")
    if "content-encoding" in request.headers:
        raise Refused("invalid_argument", "unsupported content encoding")
    path = request.query.get("path", "")
    written = []
    if kind.startswith("multipart/"):
        for name, content in _parts(await request.body(), kind):
            written.append(await _write(user.resolve(path or name), _one(content), user))
    else:
        written.append(await _write(user.resolve(path), request.pieces(), user))
    await reply.send(200, written)


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _parts(body: bytes, kind: str) -> list[tuple[str, bytes]]:
    matched = re.search(r'boundary="?([^";]+)"?', kind)
    if not matched:
        raise Refused("invalid_argument", "error parsing multipart form: no boundary")
    found = []
    for part in body.split(b"--" + matched[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'filename="((?:[^"\\]|\\.)*)"', head)
        if name:
            found.append((name[1].decode(), content[:-2]))
    return found


async def _write(path: str, pieces: AsyncIterator[bytes], user: User) -> dict[str, str]:
    _folders(os.path.dirname(path), user)
    if os.path.isdir(path):
        raise Refused("invalid_argument", f"path is a directory: {path}")
    if os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
        await asyncio.get_running_loop().create_future()  # opening one waits for a reader that may never come
    try:
        with open(path, "wb") as file:
            os.chown(path, user.uid, user.gid)
            async for piece in pieces:
                file.write(piece)
    except OSError as exc:
        if exc.errno == errno.ENOSPC:
            raise Refused("resource_exhausted", "not enough disk space") from exc
        raise Refused("internal", f"error writing file: {exc.strerror}") from exc
    return {"name": os.path.basename(path), "type": "file", "path": path}


def _folders(path: str, user: User) -> bool:
    """Makes a folder and what is missing above it, each given to the user; whether there was something to make."""
    missing = []
    while not os.path.isdir(path):
        if os.path.lexists(path):
            raise Refused("invalid_argument", f"path already exists but it is not a directory: {path}")
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)
        os.chown(folder, user.uid, user.gid)
    return bool(missing)


def _entry(path: str) -> dict[str, Any]:
    try:
        link = os.lstat(path)
    except OSError:
        raise Refused("not_found", f"file not found: {path}") from None
    is_link = stat.S_ISLNK(link.st_mode)
    target = os.stat(path) if is_link and os.path.exists(path) else link
    if stat.S_ISREG(target.st_mode):
        kind = "FILE_TYPE_FILE"
    elif stat.S_ISDIR(target.st_mode):
        kind = "FILE_TYPE_DIRECTORY"
    else:
        kind = "FILE_TYPE_UNSPECIFIED"
    entry = {
        "name": os.path.basename(path),
        "type": kind,
        "path": path,
        "size": str(link.st_size),
        "mode": stat.S_IMODE(link.st_mode),
        "permissions": stat.filemode(link.st_mode),
        "owner": _name(link.st_uid, lambda uid: pwd.getpwuid(uid).pw_name),
        "group": _name(link.st_gid, lambda gid: grp.getgrgid(gid).gr_name),
        "modifiedTime": dt.datetime.fromtimestamp(link.st_mtime, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "isSymlink": is_link,
    }
    return entry | ({"symlinkTarget": os.path.realpath(path)} if is_link else {})


def _name(number: int, look_up: Any) -> str:
    try:
        return str(look_up(number))
    except KeyError:
        return str(number)


def _stat(body: Mapping[str, Any], user: User) -> dict[str, Any]:
    return {"entry": _entry(user.resolve(body.get("path", "")))}


def _make_dir(body: Mapping[str, Any], user: User) -> dict[str, Any]:
    path = user.resolve(body.get("path", ""))
    if not _folders(path, user):
        raise Refused("already_exists", f"directory already exists: {path}")
    return {"entry": _entry(path)}


def _move(body: Mapping[str, Any], user: User) -> dict[str, Any]:
    source, destination = user.resolve(body.get("source", "")), user.resolve(body.get("destination", ""))
    _entry(source)
    _folders(os.path.dirname(destination), user)
    os.rename(source, destination)
    return {"entry": _entry(destination)}


def _remove(body: Mapping[str, Any], user: User) -> dict[str, Any]:
    path = user.resolve(body.get("path", ""))
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    return {}  # a missing one is no error: Go's RemoveAll


def _list_dir(body: Mapping[str, Any], user: User) -> dict[str, Any]:
    path = user.resolve(body.get("path", ""))
    if not os.path.exists(path):
        raise Refused("not_found", f"path not found: {path}")
    if not os.path.isdir(path):
        raise Refused("invalid_argument", f"path is not a directory: {path}")
    return {"entries": list(_below(path, body.get("depth") or 1))}


def _below(path: str, depth: int) -> list[dict[str, Any]]:
    found = []
    for name in sorted(os.listdir(path)):
        entry = _entry(os.path.join(path, name))
        found.append(entry)
        if depth > 1 and entry["type"] == "FILE_TYPE_DIRECTORY" and not entry["isSymlink"]:
            found += _below(entry["path"], depth - 1)
    return found


CALLS = {"Stat": _stat, "MakeDir": _make_dir, "Move": _move, "Remove": _remove, "ListDir": _list_dir}
