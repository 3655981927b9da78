"""What people's Markdown says but GitHub's page does not show; no model shall read what no reader of the page sees.

In doubt something counts as hidden: whoever wrote it loses a word, and is never obeyed by surprise."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bot.domain import invisible
from bot.domain.shown_text import CONTAINERS, Piece, Reader, normal

_LINE_END = re.compile("\r\n|\r")
_DECLARED = re.compile("<!(?=[a-z])")
_UNDECLARED = "<\ue000"
"""GitHub's Markdown knows no declarations in small letters. The parser of blocks does, so it gets to see this."""
_FOOTNOTE = re.compile(rf"{CONTAINERS.pattern}\[\^([^\]\s]{{1,999}})\]:")
_LOOSE_END = re.compile(rf"{CONTAINERS.pattern}</(?:script|pre|style|textarea)\b", re.IGNORECASE)
_DELIMITERS = re.compile(r"[ \t>|:+*-]*-[ \t>|:+*-]*")
_CELL_END = re.compile(r"(?<!\\)\|")
_INFO = re.compile(r"[\w+#.-]{1,20}(?=[\s,{]|$)")
_DRAWN = frozenset({"geojson", "topojson", "stl"})
"""Code blocks of these languages are shown as pictures."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is left of a text, and what was taken out of it, each kind with its count (`HTML comments: 2`)."""

    text: str
    hidden: tuple[str, ...] = ()


def see(text: str) -> Seen:
    """People's Markdown as its readers see it: without HTML comments, tags that hide and all attributes, descriptions
    and titles of images and links, definitions that show nothing, footnotes nobody refers to, cells beyond a table's
    width, and invisible characters. Code keeps its text."""
    source = _LINE_END.sub("\n", text).replace("\0", "\ufffd")
    page = _Page(source)
    shown = _shown(page.pieces(), page.hidden)
    cleaned, gone = invisible.strip(shown)
    page.hidden["invisible characters"] += gone
    return Seen(text=cleaned.strip("\n"), hidden=_told(page.hidden))


def _told(hidden: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{kind}: {count}" for kind, count in hidden.items() if count)


def _shown(pieces: Iterator[Piece], hidden: Counter[str]) -> str:
    """The pieces outside of elements that hide what is in them."""
    kept: list[str] = []
    inside: list[str] = []
    for piece in pieces:
        tag = piece.tag
        if tag is not None and (tag.hides or (inside and tag.name == inside[-1] and not tag.closes)):
            hidden["hidden elements"] += not inside
            inside.append(tag.name)
        elif inside and tag is not None and tag.name == inside[-1]:
            inside.pop()
        elif piece.ends_all:
            break
        elif not inside:
            kept.append(piece.text)
    return "".join(kept)


_LEAVES = frozenset({"fence", "code_block", "html_block", "inline"})


class _Page:
    """One text, block by block."""

    def __init__(self, source: str) -> None:
        self.hidden: Counter[str] = Counter()
        self._lines = source.split("\n")
        env: dict[str, Any] = {}
        self._tokens = _parser().parse(_DECLARED.sub(_UNDECLARED, source), env)
        definitions = [*env.get("references", {}).items(), *((d["label"], d) for d in env.get("duplicate_refs", ()))]
        self._targets: dict[str, str] = {
            label: found["href"] for label, found in env.get("references", {}).items() if not label.startswith("^")
        }
        self._defined: set[int] = set()
        for label, found in definitions:
            if not label.startswith("^"):
                self._defined |= set(range(*found["map"]))
                self.hidden["link definitions"] += 1
        # Nothing else begins in these.
        self._literal = {
            line
            for token in self._tokens
            if token.type in ("fence", "code_block", "html_block") and token.map
            for line in range(token.map[0] + (token.type == "html_block"), token.map[1])
        }
        self._notes = self._find_footnotes()

    def pieces(self) -> Iterator[Piece]:
        """In the order of the page, where the footnotes that are referred to come last."""
        found: list[tuple[int, list[Piece]]] = []
        referred: set[str] = set()
        for first, last, token in self._blocks():
            reader = Reader(self.hidden, self._targets, referred)
            self._scan(reader, first, last, token)
            found.append((first, reader.pieces))
        used: set[str] = set()
        shown: list[Piece] = []
        for first, last, label in self._notes:
            reader = Reader(self.hidden, self._targets, set())
            begun = _FOOTNOTE.match(self._lines[first])
            begins = begun.end() if begun else 0
            reader.text(self._lines[first][:begins])
            for line in (self._lines[first][begins:], *self._lines[first + 1 : last]):
                reader.unclear(line)
            # Where it ends is a guess: what it would hide of the rest stays hidden.
            found.append((first, reader.hiding()))
            if label in referred and label not in used:
                shown += reader.pieces
            else:
                self.hidden["footnotes"] += 1
            used.add(label)
        for _, pieces in sorted(found, key=lambda item: item[0]):
            yield from pieces
        yield from shown

    def _find_footnotes(self) -> list[tuple[int, int, str]]:
        """First line, line after the last one, and label of each. It goes on with what is indented."""
        notes: list[tuple[int, int, str]] = []
        after = 0
        for number, line in enumerate(self._lines):
            begins = _FOOTNOTE.match(line) if number not in self._literal and number >= after else None
            if begins is None:
                continue
            after = number + 1
            while after < len(self._lines):
                text = self._lines[after]
                own = text.startswith(("    ", "\t"))
                fresh = not self._lines[after - 1].strip("> \t") and text.strip()
                if not own and (fresh or _FOOTNOTE.match(text)):
                    break
                after += 1
            notes.append((number, after, normal(begins[1])))
        return notes

    def _blocks(self) -> Iterator[tuple[int, int, Token | None]]:
        """Every line once: with the leaf block it is in, or None where it is none or is not looked at as one."""
        apart = {line for first, last, _ in self._notes for line in range(first, last)} | self._defined
        unclear = self._unclear()
        at = 0
        for token in self._tokens:
            if token.type not in _LEAVES or token.map is None:
                continue
            first, end = token.map
            last = next((line for line in range(first, end) if line in apart or line in unclear), end)
            if first < at or last == first or (last < end and token.type != "inline"):
                continue
            yield from ((line, line + 1, None) for line in range(at, first) if line not in apart)
            yield first, last, token
            at = last
        yield from ((line, line + 1, None) for line in range(at, len(self._lines)) if line not in apart)

    def _unclear(self) -> set[int]:
        """Lines of which parsers disagree whether they are HTML: those after one that begins with such an end tag."""
        found: set[int] = set()
        inside = False
        for number, line in enumerate(self._lines):
            begins = number not in self._literal and _LOOSE_END.match(line) is not None
            inside = bool(line.strip("> \t")) and (inside or begins)
            if inside:
                found.add(number)
        return found

    def _scan(self, reader: Reader, first: int, last: int, token: Token | None) -> None:
        lines = self._lines[first:last]
        if token is None:
            for line in lines:
                reader.unclear(line)
        elif token.type == "html_block":
            reader.raw("\n".join(lines) + "\n")
        elif token.type == "code_block":
            reader.text("\n".join(lines) + "\n")
        elif token.type == "fence":
            reader.text("\n".join(self._fence(token, lines)) + "\n")
        elif not self._table(reader, token, lines):
            self._paragraph(reader, token, lines)

    def _paragraph(self, reader: Reader, token: Token, lines: Sequence[str]) -> None:
        content = "\n".join(token.content.replace(_UNDECLARED, "<!").split("\n")[: len(lines)])
        begins = lines[0].find(content.partition("\n")[0])
        if begins < 0:
            for line in lines:
                reader.unclear(line)
            return
        prefix = lines[0][:begins]
        reader.text(prefix)
        whole = len(lines) == token.map[1] - token.map[0] if token.map else False
        reader.inline(content, newline="\n" + re.sub(r"[^>\s]", " ", prefix), whole=whole)
        reader.text("\n")
        # The line under a heading.
        reader.raw("".join(f"{line}\n" for line in lines[content.count("\n") + 1 :]))

    def _table(self, reader: Reader, token: Token, lines: Sequence[str]) -> bool:
        """Reads a paragraph as a table if it may be one. Where it would be read otherwise as a paragraph, it goes."""
        rule = next((at for at in range(1, len(lines)) if _DELIMITERS.fullmatch(lines[at])), 0)
        width = len(_cells(lines[rule])[1])
        if not rule or "|" not in lines[rule - 1] + lines[rule] or len(_cells(lines[rule - 1])[1]) != width:
            return False
        table = self._rows(reader.referred, lines, rule, width, code=True)
        if not table.is_clear:
            # A tick that is alone in its cell may have a second one elsewhere.
            table = self._rows(reader.referred, lines, rule, width, code=False)
        self.hidden.update(table.hidden)
        if table.is_clear:
            reader.pieces += table.pieces
        else:
            self.hidden["unclear tables"] += 1
            for line in lines:
                reader.unclear(line)
            reader.pieces[:] = reader.hiding()
        return True

    def _rows(self, referred: set[str], lines: Sequence[str], rule: int, width: int, *, code: bool) -> Reader:
        table = Reader(Counter(), self._targets, referred)
        for number, line in enumerate(lines):
            prefix, cells = _cells(line)
            kept = cells[:width] if number >= rule - 1 else cells
            table.hidden["cells beside a table"] += sum(bool(cell.strip()) for cell in cells[len(kept) :])
            table.text(f"{prefix}|")
            for cell in kept:
                table.inline(cell, code=code)
                table.text("|")
            table.text("\n")
        return table

    def _fence(self, token: Token, lines: Sequence[str]) -> Iterator[str]:
        begins = lines[0].index(token.markup)
        info = token.info.strip()
        known = _INFO.match(info)
        name = known[0] if known else ""
        self.hidden["words beside a code block"] += name != info
        yield f"{lines[0][:begins]}{token.markup}{name}"
        for number, line in enumerate(lines[1:], 1):
            drawn = name.lower() in _DRAWN and (number < len(lines) - 1 or token.markup not in line)
            note = name.lower() == "mermaid" and "%%" in line
            if drawn or note:
                self.hidden["lines of a drawing"] += 1
            else:
                yield line


def _cells(line: str) -> tuple[str, list[str]]:
    """What leads a row, and its cells."""
    led = CONTAINERS.match(line)
    prefix = led[0] if led else ""
    parts = _CELL_END.split(line[len(prefix) :])
    if len(parts) > 1 and not parts[0].strip():
        parts = parts[1:]
    if len(parts) > 1 and not parts[-1].strip():
        parts = parts[:-1]
    return prefix, parts


@cache
def _parser() -> MarkdownIt:
    """Blocks only: what is in them is read here, by the rules above."""
    parser = MarkdownIt("commonmark", {"maxNesting": 50})
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
