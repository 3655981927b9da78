"""Characters that nobody sees: what they are, and how text looks without them."""

from __future__ import annotations

import re

# Controls (but tab and line feed), Unicode's default-ignorable characters, the line and paragraph separators, the
# controls of Egyptian hieroglyphs, and the non-characters of the first plane.
# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt, Default_Ignorable_Code_Point
_INVISIBLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001345f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_EMOJI = r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
# The only flags that GitHub's font draws from tags: England, Scotland, Wales. Any other tag spells something unseen.
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("gbeng", "gbsct", "gbwls"))
_ANY = re.compile(f"[{_INVISIBLE}]")
# A joiner or a variation selector that belongs to a real emoji is part of what is seen; a second selector is not.
_OUTSIDE_EMOJI = re.compile(
    rf"(\U0001f3f4(?:{_FLAGS})\U000e007f|[0-9#*]\ufe0f(?=\u20e3)"
    rf"|(?<=[{_EMOJI}])(?:[\ufe0e\ufe0f](?:\u200d(?=[{_EMOJI}]))?|\u200d(?=[{_EMOJI}])))|[{_INVISIBLE}]"
)
# Marks that pile up on one letter, in the scripts they are used with to hide what is around it.
_MARKS = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u06d6-\u06dc\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    r"\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
_PILE = re.compile(rf"([{_MARKS}]{{6}})[{_MARKS}]+")
"""No language writes more than six marks on one letter."""
_LINE_END = re.compile("\r\n|[\r\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def find(text: str) -> str | None:
    """The first invisible character, as `U+200B`; None where everything can be seen. Tab and line feed count as seen;
    half of a surrogate pair does not."""
    found = _ANY.search(text) or _SURROGATE.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def clean(text: str) -> str:
    """The text as a reader sees it: line ends are line feeds, invisible characters are gone (but inside emoji), marks
    don't pile up, and it can be encoded as UTF-8. Cleaning twice changes nothing."""
    return strip(text)[0]


def strip(text: str) -> tuple[str, int]:
    """The text as `clean` gives it, and how many characters that took away; line ends don't count."""
    lines = _LINE_END.sub("\n", text)
    seen = _OUTSIDE_EMOJI.sub(lambda match: match[1] or "", lines)
    seen = _SURROGATE.sub("\ufffd", _PILE.sub(r"\1", seen))
    return seen, len(lines) - len(seen)
