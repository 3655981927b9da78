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
    """The opened folder that holds what the path names, and the last part of its name (empty for the root)."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise Refused(ESCAPES)
    at = os.open(root, FOLDER)
    for part in parts[:-1]:
        try:
            below = enter(at, part, make)
        finally:
            os.close(at)
        at = below
    return at, parts[-1] if parts else b""


def read(at: int, name: bytes, limit: int) -> bytes:
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
    with open(file, "rb", closefd=True, buffering=0) as stream:
        found = os.fstat(file)
        if stat.S_ISDIR(found.st_mode):
            raise Refused(IS_FOLDER)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(NO_FILE)
        if found.st_size > limit:
            raise Refused(TOO_LARGE)
        content = bytearray()
        # A file may grow while it is read, and some have a size of 0 and content all the same.
        while len(content) <= limit:
            piece = stream.read(min(limit + 1 - len(content), 1 << 20))
            if not piece:
                return bytes(content)
            content += piece
    raise Refused(TOO_LARGE)


def write(root: str, at: int, name: bytes, content: bytes, mode: int) -> None:
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
    # The draft lies outside of what is worked on, so that a process that dies here leaves nothing there.
    draft = os.path.join(os.fsencode(root), b".coder-" + os.urandom(8).hex().encode() + b".tmp")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb", closefd=True, buffering=0) as stream:
            rest = memoryview(content)
            while rest:
                rest = rest[stream.write(rest) :]
            os.fchmod(file, mode)
        os.rename(draft, name, dst_dir_fd=at)
    except BaseException:
        os.unlink(draft)
        raise


def list_folder(at: int, name: bytes) -> bytes:
    folder = enter(at, name, False) if name else os.dup(at)
    out = []
    try:
        for entry in os.listdir(folder):
            try:
                found = os.stat(entry, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            kinds = {stat.S_IFREG: b"file", stat.S_IFDIR: b"dir", stat.S_IFLNK: b"link"}
            kind = kinds.get(stat.S_IFMT(found.st_mode), b"other")
            out.append(b"%s %d %s\0" % (kind, found.st_size if kind == b"file" else 0, os.fsencode(entry)))
    finally:
        os.close(folder)
    return b"".join(out)


def remove(at: int, name: bytes) -> None:
    if not name:
        raise Refused(IS_FOLDER)
    # Asked first, because unlink of a folder is EISDIR here and EPERM elsewhere.
    if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        raise Refused(IS_FOLDER)
    os.unlink(name, dir_fd=at)


def act(root: str, verb: str, number: int, path: bytes, content: bytes) -> "tuple[int, bytes]":
    """A code (0: done) and what was asked for."""
    at = -1
    out = b""
    try:
        at, name = parent(root, path, make=verb == "write")
        if verb == "read":
            out = read(at, name, number)
        elif verb == "write":
            write(root, at, name, content, number)
        elif verb == "list":
            out = list_folder(at, name)
        else:
            remove(at, name)
    except Refused as exc:
        return exc.code, b""
    except FileNotFoundError:
        return MISSING, b""
    except IsADirectoryError:
        return IS_FOLDER, b""
    except PermissionError:
        return FORBIDDEN, b""
    except OSError as exc:
        return (FULL if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else OTHER), b""
    finally:
        if at >= 0:
            os.close(at)
    return 0, out


def main(root: str, verb: str, number: int) -> int:
    path, _, content = sys.stdin.buffer.read().partition(b"\0")
    code, out = act(root, verb, number, path, content)
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
