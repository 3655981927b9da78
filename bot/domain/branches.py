"""Names for the branch of a task, where the one that was wished for may be taken."""

from __future__ import annotations

from collections.abc import Collection, Iterator

TRIES = 9


def stems(wanted: str) -> tuple[str, ...]:
    """The name that was wished for, and, for where a branch is in the way of its folder, the same without folders."""
    flat = wanted.replace("/", "-")
    return (wanted,) if flat == wanted else (wanted, flat)


def numbered(stem: str) -> tuple[str, ...]:
    """The names to try in their order: the stem itself, then with a number behind it."""
    return (stem, *(f"{stem}-{number}" for number in range(2, TRIES + 1)))


def free(stem: str, taken: Collection[str]) -> str | None:
    """The first of them that can be made beside these branches: git has no branch below another one's name."""
    return next((name for name in numbered(stem) if not any(_clash(name, other) for other in taken)), None)


def folders(name: str) -> Iterator[str]:
    """The names that no branch may have where this one is to be."""
    while (name := name.rpartition("/")[0]) != "":
        yield name


def _clash(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
