"""How many bytes of disk the files below a folder take. Prints them when run as a program: usage.py FOLDER."""

from __future__ import annotations

import os
import sys


def used(root: str) -> int:
    """Counted by blocks, each file once however many names it has; what can't be looked into is left out."""
    total = 0
    seen: set[int] = set()
    todo = [root]
    while todo:
        try:
            entries = os.scandir(todo.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif found.st_nlink > 1:
                    if found.st_ino in seen:
                        continue
                    seen.add(found.st_ino)
                total += found.st_blocks * 512
    return total


if __name__ == "__main__":
    print(used(sys.argv[1]))
