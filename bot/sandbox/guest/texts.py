"""Reads blobs from git's objects: usage `texts.py REPO MAX OUT`, with JSON of names and ids on stdin.

OUT gets JSON of names and contents, in base64; a blob of more than MAX bytes is left out."""

from __future__ import annotations

import base64
import json
import subprocess
import sys


def git(*args: str) -> bytes:
    done = subprocess.run(["git", *args], stdout=subprocess.PIPE, cwd=sys.argv[1])
    if done.returncode:
        sys.exit(f"git {args[0]} failed")
    return done.stdout


def main() -> None:
    found = {}
    for name, blob in json.load(sys.stdin).items():
        if int(git("cat-file", "-s", blob)) <= int(sys.argv[2]):
            found[name] = base64.b64encode(git("cat-file", "blob", blob)).decode()
    with open(sys.argv[3], "w") as file:
        json.dump(found, file)


main()
