"""A repository's own template for pull requests: where it is, and how it stays beside our text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bot.domain import markdown

LIMIT = 16_000
"""Characters of a template that are kept."""

_FOLDERS = (".github", "", "docs")
"""Where GitHub looks, in its order."""
_NAME = re.compile(r"pull_request_template(?:/[^/]+)?\.(?:md|markdown|txt)", re.IGNORECASE)

# What a template says is for people to read and fill in: nothing in it is to close an issue, mention anybody, leave a
# trace on another page, or be a command, and no box is ticked by us. Zero-width spaces leave it looking the same.
_TAMED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(c|f|r)(?=(?:lose[sd]?|ix(?:es|ed)?|esolve[sd]?)\b)", re.IGNORECASE), "\\1\u200b"),
    (re.compile(r"@(?=[\w-])"), "@\u200b"),
    (re.compile(r"#(?=\d)"), "#\u200b"),
    (re.compile(r"\b(gh-)(?=\d)", re.IGNORECASE), "\\1\u200b"),
    (re.compile(r"(/(?:issues|pull|discussions)/)(?=\d)"), "\\1\u200b"),
    (re.compile(r"^([^\S\n]*)([/!.%\\])(?=[A-Za-z])", re.MULTILINE), "\\1\\2\u200b"),
    (re.compile(r"^([^\S\n]*(?:[-+*]|\d+[.)])[^\S\n]+\[)[xX](?=\])", re.MULTILINE), r"\1 "),
    (re.compile(r"<!--(?=\s*coder-bot\b)", re.IGNORECASE), "<!-- \u200b"),
)
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_COMMENTS = re.compile(r"(?:[ \t]*\n)*[ \t]*<!--.*?-->[ \t]*\n?", re.DOTALL)


def find(paths: Iterable[str]) -> str | None:
    """The template that GitHub would fill in; of a folder with several, the first by name."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for folder in _FOLDERS:
            prefix = f"{folder}/" if folder else ""
            if path.startswith(prefix) and _NAME.fullmatch(path[len(prefix) :]):
                found.setdefault(folder, []).append(path)
    for folder in _FOLDERS:
        if folder in found:
            return min(found[folder], key=lambda path: (path.count("/"), path))
    return None


def split(template: str) -> tuple[str, str]:
    """The template as it may stand in our text, cut where ours goes: behind its first heading and the comments that
    follow it; without a heading, before all of it."""
    text = markdown.truncate(template.replace("\r\n", "\n").replace("\0", ""), LIMIT, "the rest was cut")
    for pattern, safe in _TAMED:
        text = pattern.sub(safe, text)
    if text.rfind("<!--") > text.rfind("-->"):
        text += "\n-->"
    at = _behind_heading(text)
    while at and (comment := _COMMENTS.match(text, at)):
        at = comment.end()
    return text[:at].strip("\n"), text[at:].strip("\n")


def _behind_heading(text: str) -> int:
    fence: markdown.Fence | None = None
    at = 0
    commented = False
    for line in text.splitlines(keepends=True):
        at += len(line)
        fence, inside = markdown.step(fence, line.rstrip("\n"))
        if not inside and not commented and _HEADING.match(line):
            return at
        if not inside:
            commented = line.rfind("<!--") > line.rfind("-->") or (commented and "-->" not in line)
    return 0
