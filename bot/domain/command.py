"""Which command a comment gives, if any; ordinary talk is none, and gets no answer."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from bot.domain.invisible import clean
from bot.domain.markdown import Fence, step

TEXT_LIMIT = 4000
"""Characters a command's text may have."""


@dataclass(frozen=True, kw_only=True)
class _Bare:
    """A command without a text of its own."""

    text: ClassVar[str] = ""


@dataclass(frozen=True, kw_only=True)
class Fix:
    """Start, or go on with, the work; `text` says what to mind."""

    verb: ClassVar[str] = "fix"
    text: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Answer a question from the code; `text` is never empty."""

    verb: ClassVar[str] = "ask"
    text: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Say what would be done; `text` says what to mind."""

    verb: ClassVar[str] = "plan"
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Finish(_Bare):
    """Wrap up with what is there."""

    verb: ClassVar[str] = "finish"


@dataclass(frozen=True, kw_only=True)
class Approve(_Bare):
    """Publish the result that waits."""

    verb: ClassVar[str] = "approve"


@dataclass(frozen=True, kw_only=True)
class Retry(_Bare):
    """Go on after a stop, a failure or a limit."""

    verb: ClassVar[str] = "retry"


@dataclass(frozen=True, kw_only=True)
class Stop(_Bare):
    """Stop; what was done is kept."""

    verb: ClassVar[str] = "stop"


@dataclass(frozen=True, kw_only=True)
class Status(_Bare):
    """Say where the task stands."""

    verb: ClassVar[str] = "status"


@dataclass(frozen=True, kw_only=True)
class ShowConfig(_Bare):
    """Say which rules hold."""

    verb: ClassVar[str] = "config"


@dataclass(frozen=True, kw_only=True)
class Help(_Bare):
    """Say what can be said."""

    verb: ClassVar[str] = "help"


Command = Fix | Ask | Plan | Finish | Approve | Retry | Stop | Status | ShowConfig | Help


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Somebody meant the bot, but not in words it knows; `message` helps."""

    message: str


_MADE_BY: dict[str, Callable[[str], Command]] = {
    "fix": lambda text: Fix(text=text),
    "ask": lambda text: Ask(text=text),
    "plan": lambda text: Plan(text=text),
    "finish": lambda _: Finish(),
    "approve": lambda _: Approve(),
    "retry": lambda _: Retry(),
    "stop": lambda _: Stop(),
    "status": lambda _: Status(),
    "config": lambda _: ShowConfig(),
    "help": lambda _: Help(),
}
VERBS = tuple(_MADE_BY)

_MARK = "\ufffc"
"""Stands where something hidden was, and before a line that begins inside of something: no command begins there."""

_QUOTE = re.compile(r"(?: {0,3}>)+")
_INDENTED = re.compile(r" {4}| {0,3}\t")
# What begins a block of its own, so that it does not belong to the quoted paragraph above it.
_BLOCK = re.compile(
    r" {0,3}(?:#{1,6}(?:\s|$)|[-+*]\s|\d{1,9}[.)]\s|(?:[-*_][ \t]*){3,}$|<[!?]|<(?:pre|script|style)\b)",
    re.IGNORECASE,
)
# What a quoted line can be without leaving a paragraph open at its end.
_NO_PARAGRAPH = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|(?:[-*_][ \t]*){3,}$)")
# A line that only draws one, makes a heading of what is above it, or holds nothing but tags, says nothing.
_ENDS_TEXT = re.compile(r" {0,3}(?:=++|(?:[-*_][ \t]*+){3,}+|-{1,2}|(?:</?[A-Za-z][^<>]*+>[ \t]*+)++)[ \t]*+")
# The line under a table's head: `|---|:-:|`.
_DELIMITER = re.compile(r" {0,3}\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_CELL_END = re.compile(r"(?<!\\)\|")
_DEFINITION = re.compile(r" {0,3}\[[^\]]{1,999}\]:")
_TOKEN = re.compile(
    r"\\[^\n]|`+|<!--|<!\[CDATA\[|<\?|<![A-Za-z]|<(pre|script|style|textarea|template|blockquote|code|title|samp|kbd|tt|q|del|s|strike|xmp)\b"
    r"|</?[A-Za-z][^<>]*>|!?\[[^\[\]]*\]\(",
    re.IGNORECASE,
)
_HIDDEN_UNTIL = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}


def parse(body: str | None, *, mention: str = "coder") -> Command | Usage | None:
    """The first command in a comment, as it shows on the page: it begins a line outside of code, quotes and hidden
    text, and its text is the rest of that line and the paragraph under it."""
    command = re.compile(rf"[^\S\n\t]{{0,3}}/{re.escape(mention)}(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)
    lines = _visible((body or "").replace("\r\n", "\n").replace("\r", "\n"))
    for place, line in enumerate(lines):
        if line is not None and (found := command.fullmatch(line)):
            verb, rest = [*(found[1] or "").split(None, 1), "", ""][:2]
            return _command(verb, f"{rest}\n{_under(lines[place + 1 :], command, bool(rest.strip()))}", mention)
    return None


def shown(body: str) -> list[str]:
    """The lines of a text outside of code blocks, quotes and hidden text."""
    lines = _visible(body.replace("\r\n", "\n").replace("\r", "\n"))
    return [line.replace(_MARK, "") for line in lines if line is not None]


def _command(said: str, text: str, mention: str) -> Command | Usage:
    verb = said.rstrip(".,:;!")
    verb = verb.lower() if verb.isascii() else verb  # a letter that only looks like another is another
    text = text.replace(_MARK, "").strip()
    if verb not in _MADE_BY:
        return Usage(message=_unknown(verb, mention))
    if len(text) > TEXT_LIMIT:
        return Usage(message=f"That text has {len(text):,} characters; I read at most {TEXT_LIMIT:,}. Shorten it.")
    if verb == "ask" and not text:
        return Usage(message=f"Say what you want to know: `/{mention} ask QUESTION`.")
    return _MADE_BY[verb](text)


def _unknown(verb: str, mention: str) -> str:
    known = ", ".join(f"`{name}`" for name in VERBS)
    if not verb:
        return f"Say what to do: `/{mention}` and one of {known}."
    # Only a plain word is repeated: an answer must not carry somebody's Markdown.
    named = f"No command `{verb}`." if re.fullmatch(r"[a-z][a-z-]{0,19}", verb) else "I don't know that command."
    near = difflib.get_close_matches(verb[:20], VERBS, n=1, cutoff=0.5)
    return f"{named} Did you mean `{near[0]}`?" if near else f"{named} I know {known}."


def _under(lines: Sequence[str | None], command: re.Pattern[str], has_text: bool) -> str:
    """The paragraph under a command; a blank line may come before it only where the command's line has no text."""
    kept: list[str] = []
    for line in lines:
        if line is None or command.fullmatch(line) or _ENDS_TEXT.fullmatch(line):
            break
        if line.strip():
            kept.append(line.rstrip())
        elif kept or has_text:
            break
    return "\n".join(kept)


def _visible(body: str) -> list[str | None]:
    """The lines that can hold a command or belong to its text. None stands for code, a quote or hidden text, an empty
    string for a blank line. Blocks are told apart by the raw text, as GitHub does it; only then do invisible
    characters go."""
    raw = body.split("\n")
    lines: list[str | None] = []
    fence: Fence | None = None
    quoted = _Quote()
    place = 0
    while place < len(raw):
        line = raw[place]
        fence, inside = step(fence, line)
        if quoted.takes("" if inside else line) or inside:
            lines.append(None)
        elif not line.strip():
            lines.append("")
        elif _INDENTED.match(line):
            lines.append(None)
        else:
            end = _paragraph_end(raw, place)
            masked, over = _masked(raw, place, end)
            table = _table(raw, place, end)
            lines.extend(clean(text) for text in masked[: table - place])
            lines.extend([None] * (end - table))
            # Something hidden went on beyond the paragraph; what follows its end is looked at again.
            lines.extend([None] * (over - end))
            place = over
            continue
        place += 1
    return lines


class _Quote:
    """Follows a block quote, and the lines after it that still belong to its last paragraph."""

    def __init__(self) -> None:
        self._fence: Fence | None = None
        self._open = False

    def takes(self, line: str) -> bool:
        marks = _QUOTE.match(line)
        if marks is None:
            self._fence = None
            self._open = self._open and bool(line.strip()) and not _BLOCK.match(line)
            return self._open
        inner = line[marks.end() :].removeprefix(" ")
        self._fence, inside = step(self._fence, inner)
        begins = not _INDENTED.match(inner) or self._open
        self._open = not inside and bool(inner.strip()) and begins and not _NO_PARAGRAPH.match(inner)
        return True


def _paragraph_end(raw: Sequence[str], start: int) -> int:
    for place in range(start + 1, len(raw)):
        line = raw[place]
        if not line.strip() or _QUOTE.match(line) or step(None, line)[1]:
            return place
    return len(raw)


def _table(raw: Sequence[str], start: int, end: int) -> int:
    """Where in a paragraph a table begins, which goes on to the paragraph's end; that end where there is none."""
    for place in range(start, end - 1):
        head, under = raw[place], raw[place + 1]
        if ("|" in under or ":" in under) and _DELIMITER.fullmatch(under) and _cells(head) == _cells(under):
            return place
    return end


def _cells(row: str) -> int:
    row = row.strip().removeprefix("|")
    return len(_CELL_END.findall(row)) + (not row.endswith("|") or row.endswith("\\|"))


def _masked(raw: list[str], start: int, end: int) -> tuple[list[str], int]:
    """The lines of a paragraph without what is hidden, and the first line that was not looked at. Where something
    hidden ends in a later line, what is left of that line in `raw` is marked."""
    text = "\n".join(raw[start:end])
    runs: dict[int, list[int]] = {}
    for run in re.finditer("`+", text):
        runs.setdefault(len(run[0]), []).append(run.start())
    shown: list[str] = []
    done = 0
    at = 0
    if _DEFINITION.match(text):
        # `[//]: # (…)` shows nothing, and its title may go on over the lines of its paragraph.
        shown.append(text.replace("\n", f"\n{_MARK}"))
        done = at = len(text)
    while token := _TOKEN.search(text, at):
        mark = token[0]
        at = token.end()
        if mark.startswith("`"):
            later = runs.get(len(mark), [])  # after an escaped tick, what is left of a run is no run of the text
            nearest = bisect_right(later, token.start())
            if nearest < len(later):
                at = later[nearest] + len(mark)
                shown += [text[done : token.start()], text[token.start() : at].replace("\n", f"\n{_MARK}")]
                done = at
        elif closer := _closer(token):
            shown += [text[done : token.start()], _MARK]
            # `<!-->` is a whole comment.
            begin = at - 2 if mark == "<!--" else at
            tail = closer.search(text, begin)
            if tail is None:
                return "".join(shown).split("\n"), _resume(raw, end, closer)
            at = done = tail.end()
            hidden = text[token.start() : at]
            shown.append(hidden.replace("\n", f"\n{_MARK}") if token[1] else f"\n{_MARK}" * hidden.count("\n"))
        elif "\n" in mark:
            shown += [text[done : token.start()], mark.replace("\n", f"\n{_MARK}")]
            done = at
    shown.append(text[done:])
    return "".join(shown).split("\n"), end


def _closer(token: re.Match[str]) -> re.Pattern[str] | None:
    """What ends the hidden or quoted thing that a token begins; None where it begins no such thing."""
    if token[1]:
        return re.compile(rf"</{token[1]}\s*>", re.IGNORECASE)
    if token[0].startswith("<!") or token[0] == "<?":
        return re.compile(re.escape(_HIDDEN_UNTIL.get(token[0].upper(), ">")))
    return None


def _resume(raw: list[str], place: int, closer: re.Pattern[str]) -> int:
    """Where something hidden ends: the line after it is marked is the next to look at. Never ended, it hides all."""
    while place < len(raw):
        if tail := closer.search(raw[place]):
            raw[place] = _MARK + raw[place][tail.end() :]
            return place
        place += 1
    return place
