"""Lists what a work tree holds beyond its base commit, as JSON.

Usage: `collect.py REPO BASE MAX_FILES MAX_BYTES OUT MADE`, where MADE lists files that set-up made (`--made`: list
those and nothing else). Git only proposes here: this runs beside whatever the task's own
commands left behind. Base's ignore rules decide which new files belong to the patch, so that a changed .gitignore
hides nothing and uncovers nothing."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

# What running tests leaves behind, whether or not a repository thought of ignoring it.
BY_PRODUCTS = """
__pycache__/
*.py[co]
.pytest_cache/
.mypy_cache/
.ruff_cache/
.coverage
*.egg-info/
.venv/
node_modules/
.npm/
target/debug/
.gradle/
"""
LONGEST = 3500
"""Bytes of a folder's path; git itself ends at 4,096."""


def git(*args: str, stdin: bytes | None = None, cwd: bytes | str | None = None) -> bytes:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *args]
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, cwd=cwd)
    if done.returncode not in (0, 1):
        sys.exit(f"git {args[0]} failed")
    return done.stdout


def base_files(repo: bytes, base: str) -> dict[bytes, tuple[str, str, str]]:
    found = {}
    for line in git("ls-tree", "-r", "-z", base, cwd=repo).split(b"\0"):
        if line:
            meta, _, path = line.partition(b"\t")
            mode, kind, sha = meta.split()
            found[path] = (mode.decode(), kind.decode(), sha.decode())
    return found


class Ignored:
    """Base's ignore rules, asked of one git that reads them in a folder of its own."""

    def __init__(self, scratch: str, repo: bytes, tree: dict[bytes, tuple[str, str, str]]) -> None:
        self.scratch = os.fsencode(scratch)
        git("init", "-q", scratch)
        os.makedirs(os.path.join(scratch, ".git", "info"), exist_ok=True)
        with open(os.path.join(scratch, ".git", "info", "exclude"), "w") as file:
            file.write(BY_PRODUCTS)  # the weakest rules there are: base's own can say otherwise
        for path, (mode, kind, sha) in tree.items():
            if os.path.basename(path) == b".gitignore" and kind == "blob" and mode != "120000":
                target = os.path.join(self.scratch, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(git("cat-file", "blob", sha, cwd=repo))
        command = ["git", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin"]
        self.git = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=scratch)
        assert self.git.stdin is not None
        assert self.git.stdout is not None
        self.questions, self.answers = self.git.stdin, self.git.stdout.fileno()

    def has(self, paths: list[bytes], *, folders: bool = False) -> set[bytes]:
        """Which of these are ignored; whether a path is a folder makes a difference to a rule."""
        for path in paths if folders else ():
            with contextlib.suppress(OSError):
                os.makedirs(os.path.join(self.scratch, path), exist_ok=True)
        # Git answers while it is still being asked: one thread alone could wait for it for ever.
        asking = threading.Thread(target=self._ask, args=(paths,), daemon=True)
        asking.start()
        fields: list[bytes] = []
        rest = b""
        while len(fields) < 4 * len(paths):
            piece = os.read(self.answers, 1 << 16)
            if not piece:
                sys.exit("git check-ignore failed")
            *whole, rest = (rest + piece).split(b"\0")
            fields += whole
        asking.join()
        answers = zip(fields[2::4], fields[3::4])  # noqa: B905 - the image's Python may be 3.9
        return {path[2:] for pattern, path in answers if pattern and not pattern.startswith(b"!")}

    def _ask(self, paths: list[bytes]) -> None:
        with contextlib.suppress(BrokenPipeError):
            for path in paths:
                self.questions.write(b"./" + path + b"\0")  # a name that begins with `:` means something else
            self.questions.flush()

    def close(self) -> None:
        self.questions.close()
        self.git.wait()


class Unreadable(Exception):
    """A folder or a file that can't be read; its path."""


def walk(repo: bytes, tree: dict[bytes, tuple[str, str, str]], ignored: Ignored) -> Iterator[bytes]:
    """Every file that base holds, and every other one that base does not ignore. An ignored folder without a file of
    base's is not looked into, however much it holds."""
    known = {b""}
    for path in tree:
        while (path := os.path.dirname(path)) not in known:
            known.add(path)
    level = [b""]
    while level:
        folders: list[bytes] = []
        files: list[bytes] = []
        for folder in level:
            try:
                entries = list(os.scandir(os.path.join(repo, folder)))
            except PermissionError as exc:
                raise Unreadable(folder) from exc
            except OSError:
                continue  # a process that is still running has just removed it
            for entry in entries:
                path = os.path.join(folder, entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    if path != b".git":
                        files.append(path)
                elif (
                    entry.name != b".git"
                    and len(path) < LONGEST
                    and not os.path.lexists(os.path.join(repo, path, b".git"))
                ):
                    folders.append(path)
        left_out = ignored.has([path for path in folders if path not in known], folders=True)
        level = [path for path in folders if path not in left_out]
        left_out = ignored.has([path for path in files if path not in tree])
        yield from (path for path in files if path not in left_out)


def state(path: bytes) -> tuple[str, bytes] | None:
    if stat.S_ISLNK(os.lstat(path).st_mode):
        return "120000", os.readlink(path)
    # Without O_NONBLOCK a FIFO would be waited for.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            return None
        return ("100755" if info.st_mode & 0o100 else "100644"), file.read()


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def propose(
    repo: bytes, tree: dict[bytes, tuple[str, str, str]], present: list[bytes], max_files: int, max_bytes: int
) -> tuple[str | None, list[list[str | None]]]:
    """What is wrong with the changes as a whole, and else each path with its new mode and content."""
    changes: list[tuple[bytes, str | None, bytes]] = []
    count = size = 0
    largest = (0, b"")
    for path in present:
        known = tree.get(path)
        full = os.path.join(repo, path)
        try:
            length = os.lstat(full).st_size
            # What is too large to be kept is counted, but not read.
            now = ("100644", b"") if known is None and length > max_bytes else state(full)
        except FileNotFoundError:
            continue  # a process that is still running has just removed it
        except OSError as exc:
            if not stat.S_ISREG(os.lstat(full).st_mode):
                continue  # a socket, say
            raise Unreadable(path) from exc
        if now is None or (known is not None and known[0] == now[0] and known[2] == blob_id(now[1])):
            continue
        count, size, largest = count + 1, size + length, max(largest, (length, path))
        if count <= max_files and size <= max_bytes:
            changes.append((path, *now))
    there = set(present)
    gone = [path for path, (_, kind, _) in tree.items() if kind == "blob" and path not in there]
    changes += [(path, None, b"") for path in gone]
    count += len(gone)
    if count > max_files or size > max_bytes:
        problem = (
            f"it is larger than {max_files:,} files or {max_bytes:,} bytes: {count:,} files, {size:,} bytes, "
            f"the largest {shown(largest[1])} with {largest[0]:,}"
        )
        return problem, []
    listed: list[list[str | None]] = []
    for path, mode, content in changes:
        try:
            listed.append([path.decode("utf-8"), mode, base64.b64encode(content).decode()])
        except UnicodeDecodeError:
            return f"the name {shown(path)} is not UTF-8", []
    return None, listed


def shown(path: bytes) -> str:
    return ascii(os.fsdecode(path))[1:-1][:100]


def main() -> None:
    repo, base, out = os.fsencode(sys.argv[1]), sys.argv[2], sys.argv[5]
    tree = base_files(repo, base)
    problem: str | None
    listed: list[list[str | None]] = []
    try:
        with tempfile.TemporaryDirectory() as scratch:
            ignored = Ignored(scratch, repo, tree)
            present = sorted(walk(repo, tree, ignored))
            ignored.close()
        if sys.argv[6] == "--made":
            made = [os.fsdecode(path) for path in present if path not in tree]
            with open(out, "w") as file:
                json.dump(made, file)
            return
        with open(sys.argv[6]) as file:
            made_by_set_up = {os.fsencode(path) for path in json.load(file)}
        present = [path for path in present if path in tree or path not in made_by_set_up]
        submodules = {path for path, (_, kind, _) in tree.items() if kind != "blob"}
        present = [path for path in present if path not in submodules]
        problem, listed = propose(repo, tree, present, int(sys.argv[3]), int(sys.argv[4]))
    except Unreadable as exc:
        problem = f"{shown(exc.args[0])} can't be read"
    with open(out, "w") as file:
        json.dump({"problem": problem, "changes": listed}, file)


main()
