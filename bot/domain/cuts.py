"""A text that is too long is not cut through a word: what is left of a secret cut in two would not be found.

A word is left out if it is not longer than `LONGEST`, or half of what may be kept."""

from __future__ import annotations

LONGEST = 900
"""Characters. A header with a token in base64 has some 720; a whole key is known by its beginning, or its lines."""


def beginning(text: str, limit: int) -> str:
    """At most `limit` characters from the start, without the word that would be cut in two."""
    if len(text) <= limit:
        return text
    end = limit
    while end > limit - min(LONGEST, limit // 2) and _in_word(text[end]) and _in_word(text[end - 1]):
        end -= 1
    return text[:end]


def ending(text: str, limit: int) -> str:
    """At most `limit` characters up to the end, without the word that would be cut in two."""
    start = max(0, len(text) - limit)
    last = start + min(LONGEST, limit // 2)
    while 0 < start < last and _in_word(text[start - 1]) and _in_word(text[start]):
        start += 1
    return text[start:]


def _in_word(char: str) -> bool:
    """Scripts that don't part words by blanks are cut anywhere: no token is written in them."""
    return "!" <= char <= "~"
