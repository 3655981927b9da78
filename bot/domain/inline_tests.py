"""Rust's tests inside of sources: where they are, and one version's code with another version's tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LIMIT = 300_000
"""Characters of a source; a longer one is not followed."""
DEPTH = 50
"""Modules within each other; a source with more is not followed."""


@dataclass(frozen=True, kw_only=True)
class _Block:
    """A test item, from its first attribute to its end, as places in the text."""

    start: int
    end: int
    is_nested: bool


class _Unclear(Exception):
    """A source that this lexer can't follow."""


def has(source: str) -> bool:
    """Whether there are tests in a source, or what may be some."""
    return _MARKED.search(source) is not None


def items(source: str) -> str | None:
    """The test items of a source, one after the other; None where they can't be told from its code."""
    try:
        return "\n".join(source[block.start : block.end] for block in _blocks(source))
    except _Unclear:
        return None


def code(source: str) -> str | None:
    """A source with its test items blanked, so that what is left stays on its lines; None where they can't be told
    apart."""
    try:
        blocks = _blocks(source)
    except _Unclear:
        return None
    return _replaced(source, blocks, ["\n" * source.count("\n", block.start, block.end) for block in blocks])


def swap(code_from: str, tests_from: str) -> str | None:
    """The code of one version with the test items of the other; None where that can't be done safely. Tests stay
    where they are if both have as many, else they come last."""
    try:
        old, new = _blocks(code_from), _blocks(tests_from)
    except _Unclear:
        return None
    texts = [tests_from[block.start : block.end] for block in new]
    if len(old) == len(new):
        return _replaced(code_from, old, texts)
    ordered = (*texts, *(code_from[block.start : block.end] for block in old))
    if any(block.is_nested for block in (*old, *new)) or any(map(_IN_ORDER.search, ordered)):
        return None
    bare = _replaced(code_from, old, [""] * len(old))
    return bare if not texts else "\n".join([bare.rstrip("\n"), *(f"\n{text}" for text in texts), ""])


def _replaced(text: str, blocks: Sequence[_Block], texts: Sequence[str]) -> str:
    out, at = [], 0
    for block, new in zip(blocks, texts, strict=True):
        out += [text[at : block.start], new]
        at = block.end
    return "".join([*out, text[at:]])


_MARKED = re.compile(r"#\s*\[\s*(?:cfg\s*\([^\]]{0,200}?\btest\b|(?:\w+\s*::\s*)*(?:test|bench|rstest|test_case)\b)")
_IS_TEST = re.compile(r"cfg\((?:test\)|all\((?:.*,)?test[,)])|(?:\w+::)*(?:test|bench|rstest|test_case)(?:\(|$)")
_IN_ORDER = re.compile(r"\bmacro_(?:use|rules)\b")
"""Items whose place among the others matters."""
_HOLD_ITEMS = frozenset({"mod", "impl", "trait"})
_END_IN_SEMICOLON = frozenset({"use", "const", "static", "type"})

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<comment>/\*)
    |(?P<raw>b?c?r(?P<fence>\#*)")
    |(?P<string>[bc]?"(?:[^"\\]|\\.)*+")
    |(?P<char>b?'(?:[^'\\\n]|\\(?:[^ux]|x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f_]{1,8}\}))')
    |(?P<lifetime>'\w+)
    |(?P<word>(?:r\#)?\w+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_PAIRS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, kw_only=True)
class _Token:
    text: str
    start: int
    end: int


def _tokens(source: str) -> Iterator[_Token]:
    """All but blanks and comments."""
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        assert match is not None
        end = match.end()
        if match["comment"]:
            end = _comment_end(source, end)
        elif match["raw"]:
            close = source.find(f'"{match["fence"]}', end)
            if close < 0:
                raise _Unclear
            end = close + 1 + len(match["fence"])
        elif match["mark"] in ('"', "'"):
            raise _Unclear
        if not match["blank"] and not match["comment"]:
            yield _Token(text=source[at:end], start=at, end=end)
        at = end


def _comment_end(source: str, at: int) -> int:
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(source, at)
        if edge is None:
            raise _Unclear
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def _blocks(source: str) -> list[_Block]:
    """The test items of a source, in their order. What is in the bodies of functions is code, whatever it asks."""
    if len(source) > LIMIT:
        raise _Unclear
    tokens = list(_tokens(source))
    ends = _ends(tokens)
    return list(_items(tokens, ends, 0, len(tokens), depth=0))


def _items(tokens: Sequence[_Token], ends: Mapping[int, int], at: int, stop: int, *, depth: int) -> Iterator[_Block]:
    if depth > DEPTH:
        raise _Unclear
    while at < stop:
        first, is_test = at, False
        while (close := _attribute_end(tokens, ends, at)) is not None:
            is_test = is_test or _IS_TEST.match("".join(token.text for token in tokens[at + 2 : close])) is not None
            at = close + 1
        body, at = _item_end(tokens, ends, at, stop)
        if is_test:
            yield _Block(start=tokens[first].start, end=tokens[at - 1].end, is_nested=depth > 0)
        elif body is not None:
            yield from _items(tokens, ends, body + 1, ends[body], depth=depth + 1)


def _item_end(tokens: Sequence[_Token], ends: Mapping[int, int], at: int, stop: int) -> tuple[int | None, int]:
    """Where the body begins that holds further items (None: there is none), and the place after the item."""
    words = set[str]()
    while at < stop:
        text = tokens[at].text
        if text == ";":
            return None, at + 1
        if text == "{" and ("fn" in words or not words & _END_IN_SEMICOLON):
            return (at if words & _HOLD_ITEMS and "fn" not in words else None), ends[at] + 1
        words.add(text)
        at = ends.get(at, at) + 1
    return None, stop


def _attribute_end(tokens: Sequence[_Token], ends: Mapping[int, int], at: int) -> int | None:
    """The closing bracket of the attribute `#[…]` that begins here. An inner one, `#![…]`, belongs to the file."""
    if at + 1 < len(tokens) and tokens[at].text == "#" and tokens[at + 1].text == "[":
        return ends[at + 1]
    return None


def _ends(tokens: Sequence[_Token]) -> dict[int, int]:
    """Of each opening bracket its closing one."""
    ends, open_ = {}, list[int]()
    for at, token in enumerate(tokens):
        if token.text in ("(", "[", "{"):
            open_.append(at)
        elif token.text in _PAIRS:
            if not open_ or tokens[open_[-1]].text != _PAIRS[token.text]:
                raise _Unclear
            ends[open_.pop()] = at
    if open_:
        raise _Unclear
    return ends
