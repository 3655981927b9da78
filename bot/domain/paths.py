"""Which paths a model may name, and which of them it may not write."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from bot.domain.errors import UserError

ROOT = "/workspace/repo"
LIMIT = 1024
CONFIG_FILES = (".github/coder.yml", ".github/coder.yaml")

# HFS+ ignores these when it compares names; `.g\u200cit` is `.git` there.
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def resolve(path: str) -> str:
    """A clean path relative to the repository's top folder. UserError says why another one is refused. What lies on
    the way (links) is for the sandbox to see to."""
    if not path or path.isspace():
        raise UserError("The path is empty.")
    if len(path) > LIMIT:
        raise UserError(f"The path is longer than {LIMIT} characters.")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        raise UserError("The path holds control characters.")
    if "\\" in path:
        raise UserError("Paths are written with /, not \\.")
    if path.startswith("~") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        raise UserError(f"{path[:100]!r} is no path inside the repository.")
    inside = path
    if path.startswith("/"):
        if path != ROOT and not path.startswith(f"{ROOT}/"):
            raise UserError(f"{path[:100]!r} is outside of the repository; paths are relative to its top folder.")
        inside = path[len(ROOT) :]
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UserError("Paths may not hold `..`.")
    if not parts:
        raise UserError("That is the repository's top folder itself.")
    return "/".join(parts)


def is_protected(path: str, globs: Sequence[str]) -> str | None:
    """Why the agent may not write a (resolved) path, or None."""
    parts = [_folded(part) for part in path.split("/")]
    if any(part == ".git" or re.fullmatch(r"git~\d+", part) for part in parts):
        return "`.git` belongs to git"
    if "/".join(parts) in CONFIG_FILES:
        return "the bot's own rules are changed by people"
    for glob in globs:
        if matches(path, glob):
            return f"`paths.protected` names `{glob}`"
    return None


def is_workflow(path: str) -> bool:
    """Whether GitHub Actions would run a file at this path."""
    folded = "/".join(_folded(part) for part in path.split("/"))
    return folded.startswith(".github/workflows/")


def matches(path: str, glob: str) -> bool:
    """`*` and `?` stay within a folder's name, `**` crosses folders; a glob without a slash fits a name at any depth,
    and one that fits a folder fits all below it. Case does not matter: on some file systems it can't."""
    return _pattern(glob.casefold()).fullmatch(path.casefold()) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    wanted = glob.strip("/") if "/" in glob.strip("/") else f"**/{glob.strip('/')}"
    out = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", wanted):
        match token:
            case "**/":
                out += "(?:[^/]+/)*"
            case "**":
                out += ".*"
            case "*":
                out += "[^/]*"
            case "?":
                out += "[^/]"
            case _:
                out += re.escape(token)
    return re.compile(f"{out}(?:/.*)?", re.DOTALL)


def _folded(part: str) -> str:
    """A name as the most forgiving file system compares it: no case, no ignored characters, no trailing dots."""
    plain = _IGNORED_BY_HFS.sub("", unicodedata.normalize("NFKC", part)).casefold()
    return plain.split(":")[0].rstrip(". ")
