"""Lists what a work tree holds beyond its base commit, as JSON.

Usage: `collect.py REPO BASE MAX_FILES MAX_BYTES OUT MADE`, where MADE lists files that set-up made (`--made`: list
those and nothing else). Git only proposes here: this runs beside whatever the task's own
commands left behind. Base's ignore rules decide which new files belong to the patch, so that a changed .gitignore
hides nothing and uncovers nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
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


def walk(repo: bytes) -> Iterator[bytes]:
    todo = [b""]
    while todo:
        folder = todo.pop()
        try:
            entries = list(os.scandir(os.path.join(repo, folder)))
        except OSError:
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if entry.is_dir(follow_symlinks=False):
                if entry.name != b".git" and not os.path.lexists(os.path.join(repo, path, b".git")):
                    todo.append(path)
            elif path != b".git":
                yield path


def ignored(repo: bytes, tree: dict[bytes, tuple[str, str, str]], paths: list[bytes]) -> set[bytes]:
    if not paths:
        return set()
    with tempfile.TemporaryDirectory() as scratch:
        git("init", "-q", scratch)
        os.makedirs(os.path.join(scratch, ".git", "info"), exist_ok=True)
        with open(os.path.join(scratch, ".git", "info", "exclude"), "w") as file:
            file.write(BY_PRODUCTS)  # the weakest rules there are: base's own can say otherwise
        for path, (mode, kind, sha) in tree.items():
            if os.path.basename(path) == b".gitignore" and kind == "blob" and mode != "120000":
                target = os.path.join(os.fsencode(scratch), path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(git("cat-file", "blob", sha, cwd=repo))
        out = git("check-ignore", "--no-index", "-z", "--stdin", stdin=b"\0".join(paths) + b"\0", cwd=scratch)
    return set(out.split(b"\0"))


def state(path: bytes) -> tuple[str, bytes] | None:
    info = os.lstat(path)
    if stat.S_ISLNK(info.st_mode):
        return "120000", os.readlink(path)
    if not stat.S_ISREG(info.st_mode):
        return None
    with open(path, "rb") as file:
        return ("100755" if info.st_mode & 0o100 else "100644"), file.read()


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def main() -> None:
    repo, base, out = os.fsencode(sys.argv[1]), sys.argv[2], sys.argv[5]
    max_files, max_bytes = int(sys.argv[3]), int(sys.argv[4])
    tree = base_files(repo, base)
    present = sorted(walk(repo))
    skip = ignored(repo, tree, [path for path in present if path not in tree])
    if sys.argv[6] == "--made":
        made = [os.fsdecode(path) for path in present if path not in tree and path not in skip]
        with open(out, "w") as file:
            json.dump(made, file)
        return
    with open(sys.argv[6]) as file:
        skip |= {os.fsencode(path) for path in json.load(file)}
    changes: list[tuple[bytes, str | None, bytes]] = []
    size, problem = 0, None
    for path in present:
        known = tree.get(path)
        if known is None and path in skip:
            continue
        if known is not None and known[1] != "blob":
            continue
        full = os.path.join(repo, path)
        if known is None and os.lstat(full).st_size > max_bytes:
            problem = f"{os.fsdecode(path)} alone is larger than {max_bytes} bytes"
            break
        now = state(full)
        if now is None or (known is not None and known[0] == now[0] and known[2] == blob_id(now[1])):
            continue
        size += len(now[1])
        changes.append((path, *now))
        if len(changes) > max_files or size > max_bytes:
            problem = f"more than {max_files} files or {max_bytes} bytes"
            break
    gone = [path for path, (_, kind, _) in tree.items() if kind == "blob" and path not in set(present)]
    changes += [(path, None, b"") for path in gone]
    if problem is None and len(changes) > max_files:
        problem = f"more than {max_files} files"
    listed: list[list[str | None]] = []
    if problem is None:
        for path, mode, content in changes:
            try:
                name = path.decode("utf-8")
            except UnicodeDecodeError:
                problem = f"the name {path!r} is not UTF-8"
                break
            listed.append([name, mode, base64.b64encode(content).decode()])
    with open(out, "w") as file:
        json.dump({"problem": problem, "changes": listed}, file)


main()
