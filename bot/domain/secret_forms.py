r"""How one exact value may be written where somebody prints it: as it is, escaped for a URL, JSON, HTML, a shell or
Python, in hex, and in base64 of anything that has it in it; also broken into lines."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html.entities import codepoint2name

SHORTEST = 6
"""Characters below which a value is too common to be looked for."""
_ANCHOR = 7
"""Units of a form that are looked for first; a form is read on only where they stand."""
REACH = 400
"""Bytes that no beginning of a form is longer than, whatever its spelling."""

_LINE_ENDS = (b"\n", b"\r\n", b"\\n", b"\\r\\n", b"\n ", b"\\\n", b"=\n", b"=\r\n")
_BREAK = "\u200b".encode()
"""What our own comments put into what GitHub would act on."""
_SHORT_ESCAPES = {"\n": b"\\n", "\r": b"\\r", "\t": b"\\t", "\b": b"\\b", "\f": b"\\f"}


@dataclass(frozen=True)
class Form:
    """Units in their order, each in all its spellings; between two of them may stand one of the gaps."""

    plain: tuple[bytes, ...]
    """Whole, in the spellings that are met most."""
    units: tuple[tuple[bytes, ...], ...]
    gaps: tuple[bytes, ...]

    def end(self, data: bytes, at: int, limit: int) -> int | None:
        """Where it ends that begins here, if it does before the limit. Takes no longer than its own length."""
        for whole in self.plain:
            if data.startswith(whole, at, limit):
                return at + len(whole)
        places = {at}
        for number, unit in enumerate(self.units):
            if number:
                places |= {at + len(gap) for at in places for gap in self.gaps if data.startswith(gap, at, limit)}
            places = {at + len(spelt) for at in places for spelt in unit if data.startswith(spelt, at, limit)}
            if not places:
                return None
        return max(places)

    @cached_property
    def anchor(self) -> bytes:
        """A regular expression for how it begins."""
        gap = b"(?:" + b"|".join(map(re.escape, self.gaps)) + b")?" if self.gaps else b""
        units = (b"(?:" + b"|".join(map(re.escape, unit)) + b")" for unit in self.units[:_ANCHOR])
        return gap.join(units)


def forms(secret: str) -> frozenset[Form]:
    """All forms of a value, of its lines, and of what it is known to hold. Empty where it is too short."""
    return frozenset(form for value in _values(secret.strip()) if len(value) >= SHORTEST for form in _of(value))


def _values(secret: str) -> Iterator[str]:
    # A key in one line of an environment file has its line ends written as backslash and n.
    whole = secret.replace("\\n", "\n") if "PRIVATE KEY" in secret else secret
    yield whole
    # A key printed line by line, or without its frame.
    yield from (line for line in whole.splitlines() if len(line) >= 32 and not line.startswith("-----"))
    scheme, _, value = whole.partition(" ")
    if scheme.lower() in ("basic", "bearer", "token"):
        yield value
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(value, validate=True).decode()
            except (binascii.Error, ValueError):
                return
            yield pair
            yield pair.partition(":")[2]


def _of(value: str) -> Iterator[Form]:
    data = value.encode("utf-8", "surrogatepass")
    gaps = (_BREAK, *_LINE_ENDS) if len(value) >= 16 else (_BREAK,)
    yield Form((data,), tuple(map(_spellings, value)), gaps)
    digits = data.hex()
    pairs = tuple((code.encode(), code.upper().encode()) for code in digits)
    yield Form((digits.encode(), digits.upper().encode()), pairs, (b" ", b":", b"\n", b"\\x"))
    for before in range(3):
        # Only what the value alone determines is looked for.
        encoded = base64.b64encode(b"\0" * before + data).rstrip(b"=")
        tail = (before + len(data)) % 3
        inner = encoded[(0, 2, 3)[before] : len(encoded) - (1 if tail else 0)]
        plain = (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))
        yield Form(plain, tuple(_base64_spellings(code) for code in inner), _LINE_ENDS)


@lru_cache(maxsize=1024)
def _spellings(char: str) -> tuple[bytes, ...]:
    data = char.encode("utf-8", "surrogatepass")
    code = ord(char)
    pairs = char.encode("utf-16-be", "surrogatepass").hex()
    hexes = [f"{byte:02x}" for byte in data]
    low = [
        "".join(f"%{byte}" for byte in hexes),
        "".join(f"%25{byte}" for byte in hexes),
        "".join(f"\\x{byte}" for byte in hexes),
        "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4)),
        f"\\U{code:08x}",
        f"&#x{code:x};",
        f"&#x{code:02x};",
    ]
    found = {data, f"&#{code};".encode(), *(spelt.encode() for spelt in low)}
    found |= {re.sub(r"(?<=[%xuU5])[0-9a-f]+", lambda digits: digits[0].upper(), spelt).encode() for spelt in low}
    if code < 256:
        found.add(f"\\x{code:02x}".encode())
    if char == " ":
        found.add(b"+")
    if char in _SHORT_ESCAPES:
        found.add(_SHORT_ESCAPES[char])
    if char == "\n":
        found |= {b"\r\n", b"\\r\\n", b" "}
    if not char.isalnum() and char.isprintable() and char.isascii():
        found.add(b"\\" + data)
    if char == "'":
        found |= {b"'\\''", b"'\"'\"'", b"&apos;"}
    if code in codepoint2name:
        found.add(f"&{codepoint2name[code]};".encode())
    # JSON in JSON, a shell word in JSON.
    found |= {spelt.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for spelt in found}
    return tuple(sorted(found))


@lru_cache(maxsize=64)
def _base64_spellings(code: int) -> tuple[bytes, ...]:
    found = set(_spellings(chr(code))) if chr(code) in "+/" else {bytes([code])}
    return tuple(sorted(found | {{"+": b"-", "/": b"_"}.get(chr(code), b"")} - {b""}))
