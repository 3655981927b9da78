"""One file operation below the workspace that follows no symbolic link anywhere.

It reads `path NUL content` on stdin, as bytes, so that a path need not be text and stands in no command line. Every
folder on the way is opened beside the one before it, never through a link: what a command renames meanwhile can make
the operation fail, but not lead it elsewhere.

usage: files.py WORKSPACE read MAX | write MODE | list | remove
"""

import contextlib
import errno
import os
import stat
import sys

MISSING, IS_FOLDER, NO_FOLDER, ESCAPES, TOO_LARGE, NO_FILE, FULL, FORBIDDEN, OTHER = range(40, 49)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def is_link(name: bytes, at: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except OSError:
        return False


def enter(at: int, name: bytes, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=at)
    try:
        return os.open(name, FOLDER, dir_fd=at)
    except OSError as exc:
        if exc.errno in (errno.ENOTDIR, errno.ELOOP):
            raise Refused(ESCAPES if is_link(name, at) else NO_FOLDER) from exc
        raise


def parent(root: str, path: bytes, make: bool = False) -> "tuple[int, bytes]":
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise Refused(ESCAPES)
    at = os.open(root, FOLDER)
    for part in parts[:-1]:
        below = enter(at, part, make)
        os.close(at)
        at = below
    return at, parts[-1] if parts else b""


def read(at: int, name: bytes, limit: int) -> None:
    if not name:
        raise Refused(IS_FOLDER)
    try:
        # Without O_NONBLOCK a FIFO would be waited for.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise Refused(ESCAPES) from exc
        if exc.errno == errno.ENXIO:
            raise Refused(NO_FILE) from exc
        raise
    found = os.fstat(file)
    if stat.S_ISDIR(found.st_mode):
        raise Refused(IS_FOLDER)
    if not stat.S_ISREG(found.st_mode):
        raise Refused(NO_FILE)
    if found.st_size > limit:
        raise Refused(TOO_LARGE)
    left = limit + 1
    while left > 0:
        piece = os.read(file, min(left, 1 << 20))
        if not piece:
            return
        left -= len(piece)
        sys.stdout.buffer.write(piece)
    raise Refused(TOO_LARGE)


def write(at: int, name: bytes, content: bytes, mode: int) -> None:
    if not name:
        raise Refused(IS_FOLDER)
    try:
        there = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        there = stat.S_IFREG
    if stat.S_ISLNK(there):
        raise Refused(ESCAPES)
    if not stat.S_ISREG(there):
        raise Refused(IS_FOLDER if stat.S_ISDIR(there) else NO_FILE)
    draft = b".coder-%d.tmp" % os.getpid()
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fchmod(file, mode)
        os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        os.unlink(draft, dir_fd=at)
        raise


def list_folder(at: int, name: bytes) -> None:
    folder = enter(at, name, False) if name else at
    out = []
    for entry in os.listdir(folder):
        try:
            found = os.stat(entry, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        kinds = {stat.S_IFREG: b"file", stat.S_IFDIR: b"dir", stat.S_IFLNK: b"link"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), b"other")
        out.append(b"%s %d %s\0" % (kind, found.st_size if kind == b"file" else 0, os.fsencode(entry)))
    sys.stdout.buffer.write(b"".join(out))


def remove(at: int, name: bytes) -> None:
    if not name:
        raise Refused(IS_FOLDER)
    # Asked first, because unlink of a folder is EISDIR here and EPERM elsewhere.
    if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        raise Refused(IS_FOLDER)
    os.unlink(name, dir_fd=at)


def main(root: str, verb: str, number: int) -> int:
    path, _, content = sys.stdin.buffer.read().partition(b"\0")
    try:
        at, name = parent(root, path, make=verb == "write")
        if verb == "read":
            read(at, name, number)
        elif verb == "write":
            write(at, name, content, number)
        elif verb == "list":
            list_folder(at, name)
        else:
            remove(at, name)
        sys.stdout.buffer.flush()
    except Refused as exc:
        return exc.code
    except FileNotFoundError:
        return MISSING
    except IsADirectoryError:
        return IS_FOLDER
    except PermissionError:
        return FORBIDDEN
    except OSError as exc:
        return FULL if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else OTHER
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
