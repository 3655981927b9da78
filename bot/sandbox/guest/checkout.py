"""Makes a work tree hold exactly a tree's files, byte for byte, and proves it: `checkout.py REPO TREE [--anew]`.

The files that must be there come on stdin, `mode SP id TAB path` with NUL between them, and not from git: what has
run here may have made git see something else. Untracked files stay (set-up made them). Exits 0 only if every file
hashes to its entry, and no link leads to it; prints the names of some that did not before, a NUL after each. With
--anew, every file is written from git's objects, whatever the index says of it, and nothing is proved."""

import hashlib
import os
import stat
import subprocess
import sys

TOLD = 50


def git(*args: str) -> bytes:
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=sys.argv[1])
    if done.returncode:
        sys.exit(f"git {args[0]} failed")
    return done.stdout


def differs(full: bytes, mode: bytes, sha: bytes) -> bool:
    try:
        info = os.lstat(full)
    except OSError:
        return True
    if mode == b"120000":
        if not stat.S_ISLNK(info.st_mode):
            return True
        content = os.readlink(full)
    else:
        if not stat.S_ISREG(info.st_mode) or bool(info.st_mode & 0o100) != (mode == b"100755"):
            return True
        with open(full, "rb") as file:
            content = file.read()
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest().encode() != sha


def leads_astray(repo: bytes, folder: bytes, real: "set[bytes]") -> bool:
    """Whether a folder is reached through a link; `real` remembers those that are not."""
    asked = []
    while folder not in real:
        if not stat.S_ISDIR(os.lstat(os.path.join(repo, folder)).st_mode):
            return True
        asked.append(folder)
        folder = os.path.dirname(folder)
    real.update(asked)
    return False


def main() -> None:
    repo, tree = sys.argv[1], sys.argv[2]
    entries = []
    for line in filter(None, sys.stdin.buffer.read().split(b"\0")):
        meta, _, path = line.partition(b"\t")
        entries.append((path, *meta.split()))
    changed = [path for path, mode, sha in entries if differs(os.path.join(os.fsencode(repo), path), mode, sha)]
    os.makedirs(os.path.join(repo, ".git", "info"), exist_ok=True)
    with open(os.path.join(repo, ".git", "info", "attributes"), "w") as file:
        # This file outranks every .gitattributes of the tree.
        file.write("* -text -eol -filter -ident -working-tree-encoding\n")
    git("read-tree", "-u", "--reset", tree)
    if "--anew" in sys.argv[3:]:
        os.unlink(os.path.join(repo, ".git", "index"))
        git("read-tree", tree)
        git("checkout-index", "-a", "-f", "-q", "-u")
        return
    git("checkout-index", "-a", "-f", "-q")
    real = {b""}
    for path, mode, sha in entries:
        if leads_astray(os.fsencode(repo), os.path.dirname(path), real) or differs(
            os.path.join(os.fsencode(repo), path), mode, sha
        ):
            sys.exit(f"{os.fsdecode(path)!r} is not what the tree says")
    sys.stdout.buffer.write(b"".join(path + b"\0" for path in changed[:TOLD]))


main()
