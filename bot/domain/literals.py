"""Source text as tokens, in any language well enough to tell its literals from its words and its comments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

LIMIT = 200_000
"""Characters of a text that are read."""

_HASH = frozenset({"py", "pyi", "rb", "pl", "pm", "ex", "exs", "r", "jl", "rake", "cr", "nim"})
_SLASH = frozenset(
    {
        *(
            "js",
            "jsx",
            "mjs",
            "cjs",
            "ts",
            "tsx",
            "mts",
            "cts",
            "vue",
            "svelte",
            "go",
            "rs",
            "java",
            "kt",
            "kts",
            "c",
        ),
        *("h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "swift", "scala", "dart", "php", "groovy", "zig", "json", "fs"),
    }
)
_SHELL = frozenset({"sh", "bash", "zsh", "bats", "mk", "ksh"})
_CHARS = frozenset(
    {"rs", "go", "java", "kt", "kts", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "swift", "scala", "zig"}
)
"""Languages whose single quotes hold one character."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """`value` of a text is what is in its quotes, the usual escapes undone; of a number its plain form, unsigned."""

    kind: Literal["text", "number", "word", "mark"]
    value: str
    line: int

    @property
    def is_literal(self) -> bool:
        return self.kind in ("text", "number")


def ending(path: str) -> str:
    """A path's ending in small letters, which tells its language; a script without one is a shell's."""
    name = path.rpartition("/")[2].casefold()
    if name in ("makefile", "gnumakefile") or "." not in name:
        return "sh"
    return name.rpartition(".")[2]


def is_code(path: str) -> bool:
    return ending(path) in _HASH | _SLASH | _SHELL


def tokens(path: str, text: str) -> list[Token]:
    """A text's tokens by the rules of the language that its path speaks of. A text of no known language comes as
    words and quoted pieces, each whole line besides."""
    kind = ending(path)
    if kind in _HASH:
        return _read(_PYTHON, text[:LIMIT])
    if kind in _SLASH:
        return _read(_C if kind in _CHARS else _JS, text[:LIMIT])
    return _loose(text[:LIMIT], whole_lines=kind not in _SHELL)


_TEXT = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE = r"'(?:[^'\\\n]|\\.)*+'?"
_REST = r"""
    |(?P<number>0[xX][0-9A-Fa-f_]++|0[bB][01_]++|[0-9][0-9_]*+(?:\.[0-9][0-9_]*+)?+(?:[eE][+-]?[0-9]++)?+)(?:[A-Za-z]\w*+)?
    |(?P<word>[@$]?[^\W\d]\w*+)
    |(?P<mark>===|!==|==|!=|=>|->|<=|>=|&&|\|\||::|:=|\S)
"""
_C_COMMENT = r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_PYTHON = re.compile(
    rf"""(?P<comment>\#[^\n]*+)
    |(?P<text>(?:[rbuf]{{1,2}}(?=["']))?+(?:\"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\")?
        |'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?|{_TEXT}|{_SINGLE})){_REST}""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_JS = re.compile(
    rf"""(?P<comment>{_C_COMMENT})|(?P<text>{_TEXT}|{_SINGLE}|`(?:[^`\\]|\\.)*+`?){_REST}""",
    re.VERBOSE | re.DOTALL,
)
_C = re.compile(
    rf"""(?P<comment>{_C_COMMENT})
    |(?P<text>b?r(?P<fence>\#++)"(?:(?!"(?P=fence)).)*+(?:"(?P=fence))?|(?:b|c|br|r|L|u8|@|\$)?"(?:[^"\\]|\\.)*+"?|`[^`]*+`?
        |b?'(?:[^'\\\n]|\\(?:x[0-9A-Fa-f]{{2}}|u\{{?[0-9A-Fa-f]{{1,8}}\}}?|.))')
    |(?P<lifetime>'\w++){_REST}""",
    re.VERBOSE | re.DOTALL,
)
_LOOSE = re.compile(
    r"""(?P<text>'[^'\n]*+'|"[^"\n]*+")|(?P<number>(?<![\w.])[0-9]++(?:\.[0-9]++)?+(?![\w.]))
    |(?P<word>[\w.-]++)|(?P<mark>==|\S)""",
    re.VERBOSE,
)


def _read(language: re.Pattern[str], text: str) -> list[Token]:
    found, line, at = [], 1, 0
    for match in language.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if (value := match["text"]) is not None:
            found.append(Token(kind="text", value=_plain(value), line=line))
        elif (value := match["number"]) is not None:
            found.append(Token(kind="number", value=_number(value), line=line))
        elif (value := match["word"]) is not None:
            found.append(Token(kind="word", value=value, line=line))
        elif (value := match["mark"]) is not None:
            found.append(Token(kind="mark", value=value, line=line))
    return found


def _loose(text: str, *, whole_lines: bool) -> list[Token]:
    found = []
    # What is quoted around a substitution is no text; what is quoted in it may be.
    for number, line in enumerate(text.replace('"$(', " $(").replace(')"', ") ").split("\n"), 1):
        if whole_lines and 0 < len(line.strip()) <= 500:
            found.append(Token(kind="text", value=line.strip(), line=number))
        if not line.lstrip().startswith("#"):
            found += [replace(token, line=number) for token in _read(_LOOSE, line)]
    return found


_QUOTED = re.compile(r"""\w*\#*(?P<quote>\"""|\'''|["'`])(?P<inner>.*?)(?:(?P=quote)\#*)?""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def _plain(quoted: str) -> str:
    match = _QUOTED.fullmatch(quoted)
    inner = match["inner"] if match else quoted
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), inner)


def _number(text: str) -> str:
    """`1_000`, `1000` and `1000.0` are one number."""
    plain = text.replace("_", "").lower()
    if plain.startswith(("0x", "0b")):
        return str(int(plain, 0)) if len(plain) <= 40 else plain
    if len(plain) > 40:
        return plain
    value = float(plain)
    return str(int(plain)) if plain.isdigit() else str(int(value)) if value.is_integer() else repr(value)
