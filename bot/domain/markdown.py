"""Strangers' text as Markdown that does nothing but be read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bot.domain.cuts import beginning
from bot.domain.invisible import clean

_BREAK = "\u200b"
"""Put inside whatever GitHub would act on: the text reads the same, in and outside code, and nothing acts on it."""

# An insertion that is right in every context needs no Markdown parser that agrees with GitHub's on what is code.
_REFERENCES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Mentions of people and teams, and addresses that mail programs and GitHub make links of.
    (re.compile(r"@(?=[\w-])"), f"@{_BREAK}"),
    # `#3`, `owner/repo#3` and `GH-3` leave a trace on the page of whatever they name.
    (re.compile(r"#(?=\d)"), f"#{_BREAK}"),
    (re.compile(r"\b(gh-)(?=\d)", re.IGNORECASE), rf"\1{_BREAK}"),
    # So do addresses of issues; all others lead away. What was a link is left as text: its real host can be read.
    (re.compile(r":(?=//)"), f":{_BREAK}"),
    (re.compile(r"\b(www)(?=\.)", re.IGNORECASE), rf"\1{_BREAK}"),
    # Asks a repository's CI not to run. https://docs.github.com/actions/managing-workflow-runs/skipping-workflow-runs
    (re.compile(r"\[(?=(?:[a-z]+[ -])?(?:skip|no)[ -][a-z]+\]|[a-z]+[ -]skip\])", re.IGNORECASE), f"[{_BREAK}"),
    (re.compile(r"\b(skip-checks?)(?=\s*:)", re.IGNORECASE), rf"\1{_BREAK}"),
    (re.compile(r"\*\*\*(?=NO_CI\*\*\*)", re.IGNORECASE), f"***{_BREAK}"),
)
_DEFUSED: tuple[tuple[re.Pattern[str], str], ...] = (
    # `&#64;octocat` is decoded before GitHub looks for mentions.
    (re.compile(r"&(?=#?[A-Za-z0-9]{1,32};)"), f"&{_BREAK}"),
    (re.compile(r"<(?=[A-Za-z/!?])"), f"<{_BREAK}"),
    (re.compile(r"--(?=!?>)"), f"--{_BREAK}"),
    # An image is fetched as soon as somebody looks.
    (re.compile(r"!(?=\[)"), f"!{_BREAK}"),
    # Links say one host and lead to another; a definition or a footnote would work on all of the comment.
    (re.compile(r"\](?=[(\[:])"), f"]{_BREAK}"),
    # Boxes that look as if somebody had ticked them.
    (re.compile(r"([-+*]|\d[.)])([ \t\n>]+)\[(?=[ \txX]\])"), rf"\1\2[{_BREAK}"),
    # A line of a comment may be a command to somebody else's bot.
    (re.compile(r"^([^\S\n]*)([/!.%\\])(?=[A-Za-z])", re.MULTILINE), rf"\1\2{_BREAK}"),
    (re.compile(r"^([^\S\n]*)(bors|homu)(?=[^\S\n])", re.MULTILINE | re.IGNORECASE), rf"\1\2{_BREAK}"),
)
# https://docs.github.com/issues/tracking-your-work-with-issues/using-issues/linking-a-pull-request-to-an-issue
_CLOSING = re.compile(
    r"\b(c|f|r)(lose[sd]?|ix(?:es|ed)?|esolve[sd]?)(?=[\W_]{1,12}"
    r"(?:(?:[\w.-]{1,100}/[\w.-]{1,100})?#\d|gh-\d|[^\s\]]{0,80}\]\(|https?://))",
    re.IGNORECASE,
)
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?|\x1b[@-_]"
)
_MARKER = re.compile(r"<!--(?=\s*coder-bot\b)", re.IGNORECASE)
_LONG = re.compile(r"[^\n]{2000}(?=[^\n])")
"""Longer lines are broken: a page that has to be scrolled aside hides what is there."""
_RUN = re.compile(r"`+")
_OPENING = re.compile(r"( {0,3}(?:(?:[-+*]|\d{1,9}[.)]) {1,4})*)(`{3,}(?=[^`]*$)|~{3,})")
_DETAILS = re.compile(r"<(/?)details\b", re.IGNORECASE)
_NEAR = 400
"""A cut this close behind a line end is made at the line end."""
_CLOSING_ROOM = 64
"""Characters kept for closing what is open at a cut."""


@dataclass(frozen=True, kw_only=True)
class Fence:
    """An open fenced code block. `column` is where the text of its list item begins, 0 outside lists."""

    mark: str
    column: int


def step(fence: Fence | None, line: str) -> tuple[Fence | None, bool]:
    """The fence that is open after this line, and whether the line belongs to a fenced block, its marks included."""
    if fence is not None:
        text = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if not text or indent >= fence.column:
            closes = len(text) >= len(fence.mark) and not text.strip(fence.mark[0]) and indent < fence.column + 4
            return (None if closes else fence), True
    opening = _OPENING.match(line)
    if opening is None:
        return None, False
    return Fence(mark=opening[2], column=len(opening[1]) if opening[1].strip() else 0), True


def fence(text: str, info: str = "") -> str:
    """The text as one code block that nothing in the text can end. Terminal colours and invisible characters go, and
    a comment marker of ours in there is none."""
    shown = _MARKER.sub(f"<!--{_BREAK}", _plain(text)).strip("\n")
    mark = "`" * max(3, 1 + max(map(len, _RUN.findall(shown)), default=0))
    return f"{mark}{info}\n{shown}\n{mark}"


def defuse(text: str) -> str:
    """Prose of a model or a stranger, safe as a part of our comment: it mentions nobody, refers to no issue and
    closes none, holds no HTML, no image and no link, gives no other bot a command, and leaves no code block open. It
    reads the same as before, and of a link its whole address is read. In a list or a table use `one_line`."""
    text = _disarmed(_plain(text))
    return text + "".join(f"\n{closer}" for _, closer in reversed(_open(text)))


def one_line(text: str, limit: int) -> str:
    """The text as a title or the first line of a commit message: one line of at most `limit` characters that does
    nothing either, begins no code block, and lets no CI be skipped."""
    line = _disarmed(" ".join(_plain(text).split()))
    line = line if len(line) <= limit else f"{line[: max(0, limit - 1)].rstrip()}…"[:limit]
    return f"{_BREAK}{line}"[:limit] if step(None, line)[1] else line


def truncate(text: str, limit: int, note: str) -> str:
    """The text if it has at most `limit` characters; else its beginning, code blocks and `<details>` closed, and the
    note."""
    if len(text) <= limit:
        return text
    tail = f"\n\n… *{note}*"
    if limit < len(tail):
        return tail.strip()[:limit]
    kept = beginning(text, max(0, limit - len(tail) - _CLOSING_ROOM))
    line_end = kept.rfind("\n", max(0, len(kept) - _NEAR))
    kept = kept[:line_end] if line_end > 0 else kept
    blocks = _open(kept)
    while sum(len(closer) + 1 for _, closer in blocks) > _CLOSING_ROOM:
        # What can't be closed in that room is left out from where it begins.
        start, _ = blocks.pop()
        kept = kept[:start]
    return (kept + "".join(f"\n{closer}" for _, closer in reversed(blocks)) + tail)[:limit]


def _plain(text: str) -> str:
    """What can be seen, in lines that fit on a page."""
    return _LONG.sub(lambda line: f"{line[0]}\n", clean(_ANSI.sub("", text)))


def _disarmed(text: str) -> str:
    text = _CLOSING.sub(rf"\1{_BREAK}\2", text)
    for pattern, safe in (*_REFERENCES, *_DEFUSED):
        text = pattern.sub(safe, text)
    return text


def _open(text: str) -> list[tuple[int, str]]:
    """The blocks still open at the end of a text: where each begins, and the line that closes it."""
    blocks: list[tuple[int, str]] = []
    fence: Fence | None = None
    fence_at = at = 0
    for line in text.split("\n"):
        before = fence
        fence, inside = step(fence, line)
        if fence is not None and fence is not before:
            fence_at = at
        if not inside:
            for tag in _DETAILS.finditer(line):
                if not tag[1]:
                    blocks.append((at + tag.start(), "\n</details>"))
                elif blocks:
                    blocks.pop()
        at += len(line) + 1
    if fence is not None:
        blocks.append((fence_at, " " * fence.column + fence.mark))
    return blocks
