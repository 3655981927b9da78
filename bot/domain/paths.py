"""Which paths a model may name, and which of them it may not write."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, takewhile

from bot.domain import invisible
from bot.domain.errors import UserError

ROOT = "/workspace/repo"
LIMIT = 1024
CONFIG_FILES = (".github/coder.yml", ".github/coder.yaml")

# HFS+ ignores these when it compares names; `.g\u200cit` is `.git` there.
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# Windows keeps a second, short name for each longer one: `GIT~1` for `.git`. With many alike, its stem is a digest.
_SHORT = re.compile(r"([^~.]{1,6})~\d+(?:\.([^.]{0,3}))?")
_DIGEST = re.compile(r"gi[0-9a-f]{4}~\d(?:\..*)?")
_HAVE_SHORT = (".git", ".github", ".gitmodules", "workflows", "coder.yaml")


def resolve(path: str) -> str:
    """A clean path relative to the repository's top folder. UserError says why another one is refused. What lies on
    the way (links) is for the sandbox to see to."""
    if not path or path.isspace():
        raise UserError("The path is empty.")
    if len(path) > LIMIT:
        raise UserError(f"The path is longer than {LIMIT} characters.")
    if found := invisible.find(path) or ("a line end or a tab" if set("\n\t") & set(path) else None):
        raise UserError(f"The path holds a character that can't be seen: {found}.")
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
        raise UserError("That is the repository's top folder itself; where a folder is meant, name it `.`.")
    return "/".join(parts)


def is_protected(path: str, globs: Sequence[str]) -> str | None:
    """Why the agent may not write a (resolved) path, or None; whatever it is called, and whichever file system might
    take that name for a protected one."""
    parts = _parts(path)
    if ".git" in parts:
        return "`.git` belongs to git"
    if "/".join(parts) in CONFIG_FILES or parts == [".github"]:
        return "the bot's own rules are changed by people"
    glob = is_named(path, globs)
    return f"`paths.protected` names `{glob}`" if glob else None


def may_hold_protected(folder: str, globs: Sequence[str]) -> str | None:
    """Why a folder (empty: the top one) must have no second name: a protected path is below it, or may come to be."""
    parts = _parts(folder)
    if not parts:
        return "`.git` is in it"
    for name in (*CONFIG_FILES, *globs):
        fixed = list(takewhile(lambda part: not set("*?") & set(part), _parts(name)))
        if "/" in name.strip("/") and fixed[: len(parts)] == parts:
            return f"`{name}` is below it"
    return is_protected(folder, globs)


def is_workflow(path: str) -> bool:
    """Whether GitHub Actions would run a file at this path."""
    return _parts(path)[:2] == [".github", "workflows"]


def is_submodules_file(path: str) -> bool:
    """Whether git would read its submodules from this path."""
    return _parts(path) == [".gitmodules"]


def is_named(path: str, globs: Sequence[str]) -> str | None:
    """The first of the globs that fits the path in some spelling of it."""
    plain = "/".join(_parts(path))
    return next((glob for glob in globs if matches(path, glob) or matches(plain, _caseless(glob))), None)


def matches(path: str, glob: str) -> bool:
    """`*` and `?` stay within a folder's name, `**` crosses folders; a glob without a slash fits a name at any depth,
    and one that fits a folder fits all below it. Case does not matter: on some file systems it can't."""
    return _pattern(glob.casefold()).fullmatch(path.casefold()) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """As a regular expression that never goes back over what it has matched: after `*` (and likewise after `**`) the
    nearest place where the next fixed part fits is always right, but for the last part, which is anchored."""
    wanted = glob.strip("/") if "/" in glob.strip("/") else f"**/{glob.strip('/')}"
    out, is_after_deep = "", False
    chunks = [(is_deep, list(run)) for is_deep, run in groupby(wanted.split("/"), lambda part: part == "**")]
    for place, (is_deep, parts) in enumerate(chunks):
        is_last = place == len(chunks) - 1
        if is_deep:
            is_after_deep = True
            out += ".+" if is_last else ""
            continue
        fixed = "/".join(map(_segment, parts)) + ("(?:/.*)?" if is_last else "/")
        deep = f"(?:[^/]+/)*{fixed}" if is_last else f"(?>(?:[^/]+/)*?{fixed})"
        out += deep if is_after_deep else fixed
    return re.compile(out, re.DOTALL)


def _segment(glob: str) -> str:
    first, *others = (re.escape(part).replace(r"\?", "[^/]") for part in glob.split("*"))
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{part})" for part in others[:-1] if part) + f"[^/]*{others[-1]}"


def _parts(path: str) -> list[str]:
    """The names in a path, as the most forgiving system splits and compares them."""
    return [folded for part in re.split(r"[/\\]", path) if (folded := _folded(part))]


def _folded(part: str) -> str:
    """A name as the most forgiving file system compares it: no case, no ignored characters, no streams, no trailing
    dots or blanks, and the long name where it is the short one of a name that matters here."""
    plain = _caseless(_IGNORED_BY_HFS.sub("", part)).split(":")[0].rstrip(". ")
    if short := _SHORT.fullmatch(plain):
        stem, ending = short[1], short[2] or ""
        for name in _HAVE_SHORT:
            long, _, more = name.removeprefix(".").partition(".")
            if (stem, ending) == (long[:6], more[:3]):
                return name
    return ".git" if _DIGEST.fullmatch(plain) else plain


def _caseless(text: str) -> str:
    """Also for look-alikes that become equal only in capitals, as a dotless i does."""
    return unicodedata.normalize("NFKC", text).upper().casefold()
