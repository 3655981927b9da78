"""Reads one block of people's Markdown, paragraph or HTML, into what of it is shown on a page."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from markdown_it.common.utils import normalizeReference

from bot.domain import invisible
from bot.domain.html_tags import Tag, hiding_tags, next_block_tag, next_tag

IMAGE = "[image]"
"""What stands where an image was: its description and its address are for machines."""
_TARGET_LIMIT = 300
"""Characters of a link's address that are repeated."""
_NESTED = 32
"""Brackets in brackets that an address may have."""
_SPECIAL = re.compile(
    r"(?<![A-Za-z])(?:(?:[hH][tT]{2}[pP][sS]?|[fF][tT][pP])://(?=[A-Za-z0-9])|(?<![\w.:/-])www\.)[^\s<]*+"
    r"|\\[!-/:-@\[-`{-~]|`+|<|!\[|\[|\]|&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,31});?"
)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ENTITY_END = re.compile(r"&[A-Za-z0-9]+;$|;$")
_RUN = re.compile("`+")
_AUTOLINK = re.compile(r"<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>\x00-\x1f]*|[\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+)>")
_TITLE = re.compile(
    r"""[ \t\n]+(?:"(?:[^"\\]|\\[\s\S])*+"|'(?:[^'\\]|\\[\s\S])*+'|\((?:[^()\\]|\\[\s\S])*+\))[ \t\n]*\)"""
)
_END = re.compile(r"[ \t\n]*\)")
_POINTED = re.compile(r"<((?:[^<>\n\\]|\\.)*+)>")
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\[\s\S]){0,999})\]")
_ADDRESS = re.compile(r"(?:https?://|mailto:|[^\s:]*(?:[/#?]|$))[^\s<>\"'`]*", re.IGNORECASE)
_PHANTOM = re.compile(r"\\[hv]?phantom\s*+\{[^{}<`\[\]]*+(?:\{[^{}<`\[\]]*+\}[^{}<`\[\]]*+)*+\}")
_BEGUN = re.compile("<[A-Za-z/!?]")
_SPANS = re.compile("<[!?]")
_COMMENT = re.compile("<!--[^<>]*-->")
CONTAINERS = re.compile(r"[ \t>]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t>]++)*+")
"""What leads a line in quotes and lists."""
_UNCLEAR = re.compile(rf"!\[|\]\(|\]:|^{CONTAINERS.pattern}(?:`{{3}}|~{{3}})[`~]*\S*\s+\S")


@dataclass(frozen=True)
class Piece:
    text: str
    tag: Tag | None = None
    ends_all: bool = False
    """Nothing after this is shown."""

    @property
    def hides(self) -> bool:
        return self.ends_all or (self.tag is not None and self.tag.hides)


@dataclass
class _Bracket:
    piece: int
    """Where its piece is."""
    image: bool
    after: int
    """Where what is in it begins."""
    active: bool = True
    inner: bool = False
    """Another one begins in it."""


class Reader:
    """Reads one block into pieces, and counts what it leaves out."""

    def __init__(self, hidden: Counter[str], targets: Mapping[str, str], referred: set[str]) -> None:
        self.pieces: list[Piece] = []
        self.hidden = hidden
        self._targets = targets
        self.referred = referred
        self._cut = False
        self.is_clear = True
        """Nothing begins or ends here of which the other half is missing."""

    def hiding(self) -> list[Piece]:
        """What of it hides the rest of the page."""
        return [replace(piece, text="") for piece in self.pieces if piece.hides]

    def text(self, text: str) -> None:
        if text:
            self.pieces.append(Piece(text))

    def raw(self, text: str) -> None:
        """HTML as a browser reads it. What it leaves open hides everything that follows."""
        at = 0
        while (begins := text.find("<", at)) >= 0:
            self._literal(text[at:begins])
            tag = next_block_tag(text, begins)
            if tag is None:
                self.text("<")
                at = begins + 1
            elif tag.end is None:
                self.hidden["unclosed tags or comments"] += 1
                self.pieces.append(Piece("\n", ends_all=True))
                return
            else:
                self._tag(tag)
                at = tag.end
                self._inside(text[begins + 1 : at])
        self._literal(text[at:])

    def unclear(self, line: str) -> None:
        """A line that may be HTML or Markdown: what either would hide goes."""
        start = len(self.pieces)
        self.raw(f"{line}\n")
        # What may be code ends nothing.
        self.pieces[start:] = [
            Piece(piece.text) if piece.tag and piece.tag.closes else piece for piece in self.pieces[start:]
        ]
        begun = _SPANS.search(_COMMENT.sub("", line))
        if begun or _UNCLEAR.search(line):
            self.hidden["unclear lines"] += 1
            self._drop(start)
        if begun:
            self.pieces.append(Piece("", ends_all=True))

    def _drop(self, start: int) -> None:
        """Takes out all pieces from there on, but what they hide stays hidden."""
        self.pieces[start:] = [replace(piece, text="") for piece in self.pieces[start:] if piece.hides]

    def _literal(self, text: str) -> None:
        at = 0
        for special in _SPECIAL.finditer(text):
            if special[0].startswith("&"):
                self.text(text[at : special.start()])
                self._entity(special[0])
                at = special.end()
        self.text(text[at:])

    def inline(self, text: str, *, newline: str = "\n", code: bool = True, whole: bool = True) -> None:
        """Markdown's inline text, as CommonMark reads it: https://spec.commonmark.org/0.31.2/#inlines"""
        start = len(self.pieces)
        text, phantoms = _PHANTOM.subn("", text)
        self.hidden["invisible formulas"] += phantoms
        runs: dict[int, list[int]] = {}
        for run in _RUN.finditer(text):
            runs.setdefault(len(run[0]), []).append(run.start())
        brackets: list[_Bracket] = []
        at = 0
        while special := _SPECIAL.search(text, at):
            self.text(text[at : special.start()])
            mark, begins, at = special[0], special.start(), special.end()
            if mark[0].isalpha():
                at = begins + (len(_bare(mark)) if not brackets else len(mark) - len(mark.lstrip(_LETTERS)) or 1)
                self.text(text[begins:at])
            elif mark.startswith("`") and not code:
                self.text(mark)
            elif mark.startswith("`"):
                later = runs.get(len(mark), [])
                nearest = bisect_right(later, begins)
                self.is_clear = self.is_clear and nearest < len(later)
                at = later[nearest] + len(mark) if nearest < len(later) else at
                self.text(text[begins:at])
            elif mark == "<":
                at = self._angle(text, begins)
            elif mark in ("[", "!["):
                for outer in brackets[-1:]:
                    outer.inner = True
                brackets.append(_Bracket(piece=len(self.pieces), image=mark == "![", after=at))
                self.text(mark)
            elif mark == "]":
                at = self._close(text, begins, brackets)
            elif mark.startswith("&"):
                self._entity(mark)
            else:
                self.text(mark)
        self.text(text[at:])
        images = [bracket.piece for bracket in brackets if bracket.image]
        self.is_clear = self.is_clear and not images
        if images and (self._cut or not whole):
            self._drop(images[0])
        for place in range(start, len(self.pieces)):
            piece = self.pieces[place]
            if "\n" in piece.text:
                self.pieces[place] = Piece(piece.text.replace("\n", newline), piece.tag)

    def _angle(self, text: str, begins: int) -> int:
        if link := _AUTOLINK.match(text, begins):
            self.text(link[0])
            return link.end()
        tag = next_tag(text, begins)
        self.is_clear = self.is_clear and (tag.end is not None if tag else not _BEGUN.match(text, begins))
        if tag is None:
            self.text("<")
            return begins + 1
        self._tag(tag)
        self._cut = self._cut or tag.end is None
        end = len(text) if tag.end is None else tag.end
        if not tag.name:
            self._inside(text[begins:end])
        span = text[begins:end]
        if tag.end is not None and not span.startswith("<!--") and "<" in span.partition(">")[2]:
            # For a browser it has ended earlier, and something else may have begun.
            self.pieces.append(Piece("", ends_all=True))
        return end

    def _inside(self, comment: str) -> None:
        """Who doesn't take it for a comment may still take what is in it for tags."""
        self.pieces += [Piece("", inner) for inner in hiding_tags(comment)]

    def _tag(self, tag: Tag) -> None:
        if tag.name == "img":
            self.hidden["images"] += 1
            self.pieces.append(Piece(IMAGE))
            return
        self.hidden[tag.kind] += tag.lost
        self.pieces.append(Piece(tag.shown, tag))

    def _entity(self, mark: str) -> None:
        if invisible.find(html.unescape(mark)):
            self.hidden["invisible characters"] += 1
        else:
            self.text(mark)

    def _close(self, text: str, begins: int, brackets: list[_Bracket]) -> int:
        """What a `]` ends: a link, an image, a footnote's number, or nothing."""
        after = begins + 1
        if not brackets:
            self.is_clear = self.is_clear and text[after : after + 1] not in ("(", "[")
            self.text("]")
            return after
        opener = brackets.pop()
        inner = text[opener.after : begins]
        found = _target(text, after) if opener.active else None
        if found is None and opener.active:
            found = self._reference(text, after, inner, opener)
        if found is None:
            if inner.startswith("^"):
                self.referred.add(normal(inner[1:]))
            self.text("]")
            return after
        target, end, titled = found
        if opener.image:
            del self.pieces[opener.piece :]
            self.hidden["images"] += 1
            self.text(IMAGE)
            return end
        for outer in brackets:
            outer.active = outer.active and outer.image
        good = len(target) <= _TARGET_LIMIT and _ADDRESS.fullmatch(target)
        self.hidden["link titles"] += titled
        self.hidden["link targets"] += not good
        self.text(f"]({target if good else '…'})")
        return end

    def _reference(self, text: str, after: int, inner: str, opener: _Bracket) -> tuple[str, int, bool] | None:
        label = _LABEL.match(text, after)
        if label and label[1]:
            target = self._targets.get(normalizeReference(label[1]))
            return None if target is None else (target, label.end(), True)
        target = None if opener.inner or len(inner) > 999 else self._targets.get(normalizeReference(inner))
        return None if target is None else (target, label.end() if label else after, False)


def _target(text: str, at: int) -> tuple[str, int, bool] | None:
    """The `(address "title")` of a link: the address, where it ends, and whether there is a title."""
    if not text.startswith("(", at):
        return None
    at += 1
    while at < len(text) and text[at] in " \t\n":
        at += 1
    if pointed := _POINTED.match(text, at):
        target, at = pointed[1], pointed.end()
    else:
        begins, depth = at, 0
        while at < len(text) and text[at] > " " and text[at] != "\x7f":
            if text[at] == "\\":
                at += 1
            elif text[at] == "(":
                depth += 1
                if depth > _NESTED:
                    return None
            elif text[at] == ")":
                if not depth:
                    break
                depth -= 1
            at += 1
        at = min(at, len(text))
        if depth:
            return None
        target = text[begins:at]
    if end := _END.match(text, at):
        return target, end.end(), False
    title = _TITLE.match(text, at)
    return (target, title.end(), True) if title else None


def _bare(url: str) -> str:
    """As much of an address in plain text as becomes a link: https://github.github.com/gfm/#autolinks-extension-"""
    while True:
        if url[-1] in "?!.,:*_~'\"" or (url[-1] == ")" and url.count(")") > url.count("(")):
            url = url[:-1]
        elif entity := _ENTITY_END.search(url):
            url = url[: entity.start()]
        else:
            break
    return url


def normal(label: str) -> str:
    return " ".join(label.split()).casefold()
