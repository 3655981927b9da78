"""Builds a candidate's tree from bytes alone: usage `candidate.py REPO BASE CHANGES`, prints the tree's id.

No filter and no attribute touches the content: blobs are hashed as they are and put into an index by id. The index is
one of its own: the repository's says what is in the work tree."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile


def git(*args: str, stdin: bytes | None = None) -> str:
    done = subprocess.run(["git", *args], input=stdin, stdout=subprocess.PIPE, cwd=sys.argv[1])
    if done.returncode:
        sys.exit(f"git {args[0]} failed")
    return done.stdout.decode().strip()


def main() -> None:
    with open(sys.argv[3]) as file:
        changes = json.load(file)
    os.environ["GIT_INDEX_FILE"] = index = os.path.abspath(os.path.join(sys.argv[1], ".git", "candidate"))
    git("read-tree", sys.argv[2])
    lines = [b"0 " + b"0" * 40 + b"\t" + path.encode() + b"\0" for path, mode, _ in changes if mode is None]
    written = [(path, mode, content) for path, mode, content in changes if mode is not None]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(sys.argv[3])) as folder:
        names: list[str] = []
        for _, _, content in written:
            names.append(os.path.join(folder, str(len(names))))
            with open(names[-1], "wb") as file:
                file.write(base64.b64decode(content))
        told = git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin="\n".join(names).encode())
    blobs = iter(told.split())
    for path, mode, _ in written:
        lines.append(f"{mode} {next(blobs)}\t{path}".encode() + b"\0")
    git("update-index", "-z", "--index-info", stdin=b"".join(lines))
    print(git("write-tree"))
    os.unlink(index)


main()
