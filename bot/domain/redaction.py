"""Secrets taken out of everything that leaves: our own exact values, and whatever has the shape of one."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, AnyStr

from bot.domain.secret_forms import REACH, Form, forms
from bot.domain.secret_shapes import SHAPES

MASK = "[redacted]"
LEARNED = 32
"""How many values that came up later are known at once: the oldest goes when another comes."""

_MASK = MASK.encode()
_MEMORY = 256 * 1024**2
"""Bytes the automaton may grow to; with the default it is thrown away and built anew all the time."""
_PATTERNS = tuple(re.compile(shape.pattern) for shape in SHAPES)
_ANY_SHAPE = re.compile(b"|".join(shape.pattern for shape in SHAPES))
_STARTS = tuple(dict.fromkeys(b"(?:" + shape.start + b")" for shape in SHAPES))


@dataclass(frozen=True)
class _Search:
    """What one set of known values is looked for with."""

    start: Any
    """Every beginning, of a mask, a known value or a shape, as RE2 has it."""
    anchors: tuple[bytes, ...]
    by_first: Mapping[int, tuple[Form, ...]]
    """The known values' forms, by the byte that they begin with."""

    @cached_property
    def known(self) -> Any | None:
        """The beginnings of known values alone; made when the first secret is found."""
        return _compiled(b"|".join(self.anchors)) if self.anchors else None


class Redactor:
    """Knows the values that must not leave. Holds them: never print one of these. For use from any thread."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._own = {secret: forms(secret) for secret in secrets}
        self._learned: deque[tuple[str, frozenset[Form]]] = deque(maxlen=LEARNED)
        self._search: _Search | None = None

    def keep(self, secrets: Iterable[str]) -> None:
        """These must not leave either, for as long as this object lives."""
        with self._lock:
            self._own |= {secret: forms(secret) for secret in secrets if secret not in self._own}
            self._search = None

    def learn(self, secret: str) -> None:
        """This one was just made, such as a token: it must not leave until `LEARNED` others have been. It is known
        beyond its own life, for an error that holds it may be told later."""
        with self._lock:
            if all(secret != known for known, _ in self._learned):
                self._learned.append((secret, forms(secret)))
                self._search = None

    def redact(self, text: str) -> str:
        """The text without them. Never raises; doing it twice changes nothing more."""
        data = text.encode("utf-8", "surrogatepass")
        search = self._prepared()
        spans = list(_spans(search, data, 0, len(data)))
        if not spans:
            return text
        if text.isascii():
            return MASK.join(_around(spans, text))
        return _MASK.join(_around(spans, data)).decode("utf-8", "surrogatepass")

    def clean(self, value: Any) -> Any:
        """A document of JSON's types with every text in it redacted, keys as well; anything else by its `repr`."""
        match value:
            case str():
                return self.redact(value)
            case None | bool() | int() | float():
                return value
            case Mapping():
                return {self.clean(key): self.clean(item) for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.clean(item) for item in value]
            case _:
                return self.redact(repr(value))

    def _prepared(self) -> _Search:
        with self._lock:
            if self._search is None:
                learned = (found for _, found in self._learned)
                self._search = _prepare(frozenset().union(*self._own.values(), *learned))
            return self._search


def _prepare(known: frozenset[Form]) -> _Search:
    by_first: dict[int, tuple[Form, ...]] = {}
    for form in known:
        for first in {spelt[0] for spelt in form.units[0]}:
            by_first[first] = (*by_first.get(first, ()), form)
    anchors = tuple(sorted({form.anchor for form in known}))
    return _Search(_compiled(b"|".join((re.escape(_MASK), *anchors, *_STARTS))), anchors, by_first)


def _compiled(pattern: bytes) -> Any:
    import re2  # type: ignore[import-untyped]  # takes longer to load than all the rest of the domain

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY
    options.never_capture = True
    re2.purge()  # it keeps the last patterns, and so values that we no longer hold
    return re2.compile(pattern, options)


def _around(spans: Iterable[tuple[int, int]], text: AnyStr) -> Iterator[AnyStr]:
    """What stands before, between and behind them."""
    done = 0
    for start, end in spans:
        yield text[done:start]
        done = end
    yield text[done:]


def _spans(search: _Search, data: bytes, at: int, limit: int) -> Iterator[tuple[int, int]]:
    """Where masks belong, and where they are already. What masks stand between is looked at apart, so that no mask is
    ever part of a secret."""
    while (found := search.start.search(data, at, limit)) is not None:
        at = found.start()
        if data.startswith(_MASK, at, limit):
            yield at, at + len(_MASK)
            at += len(_MASK)
            continue
        span = _secret(search, data, at, limit)
        if span is not None and (mask := data.find(_MASK, at, span[1] + len(_MASK) - 1)) >= 0:
            span = _secret(search, data, at, min(limit, mask))
        if span is None:
            at += 1
            continue
        # What says that a secret follows may have one in itself.
        yield from _spans(search, data, at, span[0])
        yield span
        at = span[1]


def _secret(search: _Search, data: bytes, at: int, limit: int) -> tuple[int, int] | None:
    """The secret that begins here, or that what stands here says will follow."""
    shape = _shape(data, at, limit)
    known = _known_end(search, data, at, limit)
    if known is not None:
        start, end = at, known if shape is None or shape[0] > known else max(known, shape[1])
    elif shape is not None:
        start, end = shape
    else:
        return None
    # A known value that begins in there may go on behind it.
    inside = start + 1
    while search.known is not None and inside < end:
        found = search.known.search(data, inside, min(limit, end + REACH))
        if found is None or found.start() >= end:
            break
        end = max(end, _known_end(search, data, found.start(), limit) or 0)
        inside = found.start() + 1
    return start, end


def _shape(data: bytes, at: int, limit: int) -> tuple[int, int] | None:
    match = _ANY_SHAPE.match(data, at, limit)
    number = 0 if match is None else match.lastindex or 0
    if match is None or _pleases(number - 1, match[number]):
        return match and match.span(number)
    for later in range(number, len(SHAPES)):
        match = _PATTERNS[later].match(data, at, limit)
        if match is not None and _pleases(later, match[1]):
            return match.span(1)
    return None


def _pleases(number: int, value: bytes) -> bool:
    accepts = SHAPES[number].accepts
    return accepts is None or accepts(value)


def _known_end(search: _Search, data: bytes, at: int, limit: int) -> int | None:
    ends = [end for form in search.by_first.get(data[at], ()) if (end := form.end(data, at, limit)) is not None]
    return max(ends, default=None)
