"""Brings a patch into a work tree: usage `apply.py REPO CHANGES`, with the changes as JSON.

What it removes goes first, so that a file can take a folder's place, a folder a link's, and the other way round."""

import base64
import contextlib
import json
import os
import sys


def main(repo: str, changes: str) -> None:
    with open(changes) as file:
        patch = [(os.path.join(repo, path), mode, content) for path, mode, content in json.load(file)]
    for path, _, _ in patch:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            os.unlink(path)
        with contextlib.suppress(OSError):  # a folder in its place, and those above, as far as they are empty
            os.rmdir(path)
        with contextlib.suppress(OSError):
            os.removedirs(os.path.dirname(path))
    for path, mode, content in patch:
        if mode is None:
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = base64.b64decode(content)
        if mode == "120000":
            os.symlink(data, os.fsencode(path))
            continue
        with open(path, "xb") as file:
            file.write(data)
        os.chmod(path, int(mode[-3:], 8))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
