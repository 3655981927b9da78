"""A command line read as words, by a shell's quoting rules and without any of its powers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from bot.domain import invisible

LENGTH_LIMIT = 4096
WORDS_LIMIT = 256

_ACTS = {
    ";": "run two commands as two calls",
    "&": "run two commands as two calls; nothing runs in the background",
    "|": "there are no pipes; run the first command and read its output",
    "<": "there are no redirections; read the file with read_file",
    ">": "there are no redirections; write the file with write_file",
    "$": "there are no variables and no substitution; write the value itself",
    "`": "there is no substitution; run the inner command as a call of its own",
    "(": "there are no subshells",
    ")": "there are no subshells",
    "{": "there is no brace expansion; write each word",
    "}": "there is no brace expansion; write each word",
    "*": "there are no globs; name the files, or quote a pattern that the program itself reads",
    "?": "there are no globs; name the files, or quote a pattern that the program itself reads",
    "[": "there are no globs; quote a word that holds brackets",
    "]": "there are no globs; quote a word that holds brackets",
    "~": "there is no home folder; paths are relative to the repository",
    "#": "there are no comments; quote a word that begins with #",
    "!": "there is no history or negation; quote a word that holds !",
}


@dataclass(frozen=True, kw_only=True)
class NotWords:
    """Why a line can't be read as plain words, and what would be fine."""

    reason: str
    hint: str | None = None


def split(line: str) -> tuple[str, ...] | NotWords:
    """The words of a line, quotes and backslashes removed as POSIX says. Whatever a shell would act on outside of
    quotes (or inside double ones) makes the whole line refused."""
    if len(line) > LENGTH_LIMIT:
        return NotWords(reason=f"the command is longer than {LENGTH_LIMIT} characters")
    for char in line:
        if char == "\n" or char == "\r":
            return NotWords(reason="the command holds a line end", hint="run two commands as two calls")
        if char != "\t" and (invisible.find(char) or unicodedata.category(char) in ("Cf", "Co", "Cn")):
            return NotWords(reason=f"the command holds the invisible or control character U+{ord(char):04X}")
        if char != " " and unicodedata.category(char) == "Zs":
            return NotWords(reason="the command holds a blank that is no plain space")
    return _split(line)


_WORD = re.compile(
    r"""(?P<blank>[ \t]+)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<plain>[^ \t'"\\])"""
)


def _split(line: str) -> tuple[str, ...] | NotWords:
    words: list[str] = []
    word: str | None = None
    place = 0
    while place < len(line):
        match = _WORD.match(line, place)
        if match is None:
            return NotWords(reason="a quote or a backslash is left open")
        place = match.end()
        if match["blank"] is not None:
            if word is not None:
                words.append(word)
            word = None
            continue
        piece = match["single"]
        if match["double"] is not None:
            if "$" in match["double"] or "`" in match["double"]:
                return NotWords(
                    reason="the command holds `$` or a backtick in double quotes", hint="use single quotes"
                )
            if "!" in match["double"]:
                return NotWords(reason="the command holds `!` in double quotes", hint="use single quotes")
            piece = re.sub(r'\\(["\\])', r"\1", match["double"])
        elif match["escaped"] is not None:
            piece = match["escaped"]
        elif match["plain"] is not None:
            piece = match["plain"]
            if piece in _ACTS and not (piece in "#~" and word is not None and not word.endswith(("=", ":"))):
                return NotWords(reason=f"a shell would act on `{piece}`", hint=_ACTS[piece])
        word = (word or "") + (piece or "")
        if len(words) >= WORDS_LIMIT:
            return NotWords(reason=f"the command has more than {WORDS_LIMIT} words")
    if word is not None:
        words.append(word)
    return tuple(words) if words else NotWords(reason="the command is empty")
