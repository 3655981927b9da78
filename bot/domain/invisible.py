"""Characters that nobody sees: what they are, and how text looks without them."""

from __future__ import annotations

import re

# Controls (but tab and line feed), Unicode's default-ignorable characters, and the line and paragraph separators.
# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt, Default_Ignorable_Code_Point
_INVISIBLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_EMOJI = r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_ANY = re.compile(f"[{_INVISIBLE}]")
# A joiner or a variation selector that belongs to a real emoji is part of what is seen.
_OUTSIDE_EMOJI = re.compile(
    rf"((?<=[{_EMOJI}])(?:\ufe0f(?:\u200d(?=[{_EMOJI}]))?|\u200d(?=[{_EMOJI}])))|[{_INVISIBLE}]"
)
_LINE_END = re.compile("\r\n|[\r\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def find(text: str) -> str | None:
    """The first invisible character, as `U+200B`; None where everything can be seen. Tab and line feed count as seen;
    half of a surrogate pair does not."""
    found = _ANY.search(text) or _SURROGATE.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def clean(text: str) -> str:
    """The text as a reader sees it: line ends are line feeds, invisible characters are gone (but inside emoji), and
    it can be encoded as UTF-8. Cleaning twice changes nothing."""
    text = _OUTSIDE_EMOJI.sub(lambda match: match[1] or "", _LINE_END.sub("\n", text))
    return _SURROGATE.sub("\ufffd", text)
