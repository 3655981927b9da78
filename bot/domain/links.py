"""Where symbolic links lead: within a tree of files, by their targets alone, with nothing on any disk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.domain import paths

HOPS = 40
"""Links on one way; more are a circle, as for Linux."""


class _Astray(Exception):
    """A link that leads nowhere good; the argument says where."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Files by path with their modes, and the targets of those that are links (None: not known)."""

    modes: Mapping[str, str]
    links: Mapping[str, str | None]

    def resolve(self, link: str) -> str:
        """Where a link leads, as a path from the top folder (empty: that folder itself), through all others."""
        at, todo, hops = link.split("/")[:-1], [link.rpartition("/")[2]], 0
        while todo:
            part = todo.pop()
            if part == "..":
                if not at:
                    raise _Astray("leaves the repository")
                at.pop()
            elif part not in ("", "."):
                at.append(part)
            path = "/".join(at)
            if path not in self.links or part in ("", ".", ".."):
                continue
            target, hops = self.links[path], hops + 1
            if hops > HOPS:
                raise _Astray("leads round in a circle")
            if target is None:
                raise _Astray("leads through a link whose target is not known")
            if target.startswith(("/", "~")) or "\\" in target or re.match("[A-Za-z]:", target) or "\0" in target:
                raise _Astray("leads out of the repository by an absolute or a foreign path")
            at.pop()
            todo += reversed(target.split("/"))
        return "/".join(at)

    def end(self, link: str) -> tuple[str, str]:
        """Where a link leads, or (the second) what is wrong with that."""
        try:
            return self.resolve(link), ""
        except _Astray as exc:
            return "", str(exc)

    def problem(self, link: str, globs: Sequence[str]) -> str | None:
        """Why it may not be there."""
        target, astray = self.end(link)
        if astray:
            return astray
        below = (path for path in self.modes if path.startswith(f"{target}/"))
        why = paths.may_hold_protected(target, globs) or next(
            filter(None, (paths.is_protected(path, globs) for path in below)), None
        )
        return f"gives a protected path a second name: {why}" if why else None
