"""Git LFS in a patch: the bot commits exactly the bytes it has, and people are told where that may surprise them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bot.domain import paths
from bot.domain.gate import Finding
from bot.domain.patch import Patch

FILE = ".gitattributes"
_POINTER = b"version https://git-lfs.github.com/spec/"


def inspect(patch: Patch, attributes: Mapping[str, str]) -> tuple[Finding, ...]:
    """What people should know. `attributes` are the texts of `.gitattributes` files by the folder they are in (the
    top one is the empty name), as they are with the patch."""
    return tuple(_findings(patch, attributes))


def folders(patch: Patch) -> tuple[str, ...]:
    """The folders whose `.gitattributes` say something of a path of the patch, the top one first."""
    found = {""}
    for path in patch.paths:
        parts = path.split("/")[:-1]
        found |= {"/".join(parts[: depth + 1]) for depth in range(len(parts))}
    return tuple(sorted(found))


def _findings(patch: Patch, attributes: Mapping[str, str]) -> Iterator[Finding]:
    for change in patch.changes:
        if change.mode is None or change.mode == "120000":
            continue
        is_pointer = change.content.startswith(_POINTER)
        if is_pointer:
            yield _named(change.path, "is a pointer of Git LFS; what it points to was not uploaded by me")
        elif _is_tracked(change.path, attributes):
            yield _named(change.path, f"belongs to Git LFS by `{FILE}`, but is committed here as plain content")


def _named(path: str, said: str) -> Finding:
    return Finding(action="name", kind="lfs", path=path, said=said)


def _is_tracked(path: str, attributes: Mapping[str, str]) -> bool:
    """The last line that says something of `filter` counts, and a nearer file more than the ones above it."""
    tracked = False
    for folder in sorted(attributes, key=lambda name: name.count("/") + bool(name)):
        if folder and not path.startswith(f"{folder}/"):
            continue
        inner = path[len(folder) + 1 :] if folder else path
        for line in attributes[folder].splitlines():
            glob, *said = line.split() or [""]
            filters = [word for word in said if word.lstrip("-!").partition("=")[0] == "filter"]
            if filters and not glob.startswith("#") and paths.matches(inner, glob):
                tracked = filters[-1] == "filter=lfs"
    return tracked
