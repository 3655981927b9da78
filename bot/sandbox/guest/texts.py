"""Reads blobs from git's objects: usage `texts.py REPO MAX OUT`, with JSON of names and ids on stdin.

OUT gets JSON of names and contents, in base64; a blob of more than MAX bytes is left out."""

from __future__ import annotations

import base64
import json
import subprocess
import sys


def ask(how: str, blobs: list[str]) -> bytes:
    command = ["git", "cat-file", how]
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, cwd=sys.argv[1])
    if done.returncode:
        sys.exit("git cat-file failed")
    return done.stdout


def main() -> None:
    names = json.load(sys.stdin)
    small = []
    for line in ask("--batch-check", sorted(set(names.values()))).splitlines():
        blob, kind, size = line.split()
        if kind != b"blob":
            sys.exit(f"{blob.decode()} is no file")
        if int(size) <= int(sys.argv[2]):
            small.append(blob.decode())
    found, data, at = {}, ask("--batch", small), 0
    while at < len(data):
        end = data.index(b"\n", at)
        blob, _, size = data[at:end].split()
        found[blob.decode()] = base64.b64encode(data[end + 1 : end + 1 + int(size)]).decode()
        at = end + int(size) + 2
    with open(sys.argv[3], "w") as file:
        json.dump({name: found[blob] for name, blob in names.items() if blob in found}, file)


main()
