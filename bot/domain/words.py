"""A command line read as words, by a shell's quoting rules and without any of its powers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from bot.domain import invisible
from bot.domain.paths import ROOT

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
_LOOKS_EMPTY = "\u2800\U0001d159"
"""Characters with a shape of their own, which is a blank."""


@dataclass(frozen=True, kw_only=True)
class NotWords:
    """Why a line can't be read as plain words, and what would be fine."""

    reason: str
    hint: str | None = None


def split(line: str) -> tuple[str, ...] | NotWords:
    """The words of a line, quotes and backslashes removed as POSIX says. Whatever a shell would act on outside of
    quotes (or inside double ones) makes the whole line refused. Each character is looked at a fixed number of times,
    and a line beyond the limits is not looked at."""
    if len(line) > LENGTH_LIMIT:
        return NotWords(reason=f"the command is longer than {LENGTH_LIMIT} characters")
    for char in line:
        if char == "\n" or char == "\r":
            return NotWords(reason="the command holds a line end", hint="run two commands as two calls")
        if char != "\t" and _is_unseen(char):
            return NotWords(reason=f"the command holds the invisible or control character U+{ord(char):04X}")
        if char != " " and unicodedata.category(char) == "Zs":
            return NotWords(reason="the command holds a blank that is no plain space")
    return _split(line)


def _is_unseen(char: str) -> bool:
    """Also a character that this version of Unicode does not know: nobody can say how it looks."""
    return bool(invisible.find(char)) or char in _LOOKS_EMPTY or unicodedata.category(char) in ("Cf", "Co", "Cn")


_WORD = re.compile(
    r"""(?P<blank>[ \t]+)|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*+)"|\\(?P<escaped>.)|(?P<plain>[^ \t'"\\])"""
)


def _split(line: str) -> tuple[str, ...] | NotWords:
    words: list[str] = []
    word: list[str] = []
    place, is_in_word = 0, False
    while place < len(line):
        match = _WORD.match(line, place)
        if match is None:
            return NotWords(reason="a quote or a backslash is left open")
        place = match.end()
        if match["blank"] is None:
            piece = _piece(match, word if is_in_word else None)
            if isinstance(piece, NotWords):
                return piece
            word.append(piece)
            is_in_word = True
        if is_in_word and (match["blank"] is not None or place == len(line)):
            words.append("".join(word))
            word, is_in_word = [], False
    if len(words) > WORDS_LIMIT:
        return NotWords(reason=f"the command has more than {WORDS_LIMIT} words")
    return tuple(words) if words else NotWords(reason="the command is empty")


def _piece(match: re.Match[str], before: list[str] | None) -> str | NotWords:
    """What a quoted part or a character adds to its word, of which `before` is there already (None: nothing, not even
    an empty quote)."""
    if (single := match["single"]) is not None:
        return single
    if (escaped := match["escaped"]) is not None:
        return escaped
    if (double := match["double"]) is not None:
        if "$" in double or "`" in double:
            return NotWords(reason="the command holds `$` or a backtick in double quotes", hint="use single quotes")
        if "!" in double:
            return NotWords(reason="the command holds `!` in double quotes", hint="use single quotes")
        return re.sub(r'\\(["\\])', r"\1", double)
    plain = match["plain"]
    if plain in _ACTS and not (plain in "#~" and before is not None and not _last(before).endswith(("=", ":"))):
        return NotWords(reason=f"a shell would act on `{plain}`", hint=_ACTS[plain])
    return plain


def _last(pieces: list[str]) -> str:
    """The last piece that is not empty."""
    return next((piece for piece in reversed(pieces) if piece), "")


# `-xf/etc/a`: flags, of which the last has a path. `-Isrc/include` looks alike, so only the system's folders count.
_FLAGS_THEN_PATH = re.compile(r"-[A-Za-z0-9]++/(?:dev|etc|home|proc|root|tmp|usr|var)(?:/|$)")
_UP_AFTER_BRACKET = re.compile(r"[)\]]\.\.(?:[/\\]|$)")
_FILE_ADDRESS = re.compile(r"(?i)(?<![a-z0-9_.-])file:")


def leads_out(word: str) -> bool:
    """Whether a word of a command names, or holds behind `=`, `:`, `,`, a blank or a short option, a path outside of
    the repository. A word that only looks like one counts as one; so does any address of a file or a host."""
    for piece in re.split(r"[=:,;\s]", word):
        if _is_outside(piece) or (
            piece.startswith("-") and (_is_outside(piece[2:]) or _FLAGS_THEN_PATH.match(piece))
        ):
            return True
    return bool(_UP_AFTER_BRACKET.search(word) or _FILE_ADDRESS.search(word))


def _is_outside(piece: str) -> bool:
    path = piece.lstrip("@+!^<>\"'([{&|")
    if path.startswith("~") or ".." in re.split(r"[/\\]", path):
        return True
    return path.startswith("/") and path != ROOT and not path.startswith(f"{ROOT}/")
