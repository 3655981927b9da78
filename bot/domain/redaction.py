"""Secrets taken out of everything that leaves: our own exact values, and whatever has the shape of one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
SHORTEST = 6
"""Characters below which a value is too common to be looked for."""

# Where a shape has a group, the group is the secret and the rest of the match stays: all of it if the group is not
# there.
# None of them looks at what stands around the match: so a text in which nothing was found has no part in which
# something would be, and redacting twice changes nothing.
_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        # Also one whose end was cut off, and one whose line ends are written as `\n`.
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----(?:[A-Za-z0-9+/=\s\\:,]|-(?!----))*"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)?",
        # An installation token is `ghs_` and 36 characters, or `ghs_APPID_JWT`: some 520 with `.`, `_` and `-`.
        r"gh[pousr]_[A-Za-z0-9._-]{15,}[A-Za-z0-9_-]",
        r"github_pat_[A-Za-z0-9_]{16,}",
        # The second branch steps over what is no token, so that nothing is read from each of its letters again.
        r"(eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,})|eyJ[A-Za-z0-9_-]*+",
        r"sk-(?:(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,}[A-Za-z0-9_-]*)",
        r"(?:AKIA|ASIA)[A-Z0-9]{16,}",
        r"xox[a-z]-[A-Za-z0-9-]{10,}",
        r"e2b_[A-Za-z0-9]{16,}",
        r"glpat-[A-Za-z0-9_-]{20,}",
        r"npm_[A-Za-z0-9]{36,}",
        r"AIza[A-Za-z0-9_-]{35,}",
        r"(?i:authorization|x-api-key|private-token)[\"']?[ \t]*[:=][ \t]*[\"']?"
        r"((?i:(?:basic|bearer|token|digest)[ \t]+)?[^\s\"']{6,})",
        r"(?i:bearer|basic)[ \t]+([A-Za-z0-9._~+/-]{20,}=*)",
        r"://([^\s/?#@:\"'<>]*:[^\s/?#\"'<>]*)@",
        r"https?://([^\s/?#@\"'<>]+)@",
    )
)


class Redactor:
    """Knows the values that must not leave. Holds them: never print one of these."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret.strip())}
        # The longest first: a token inside an encoding of more than itself goes with all of it.
        self._forms = sorted((form for form in forms if len(form) >= SHORTEST), key=lambda form: (-len(form), form))

    def redact(self, text: str) -> str:
        """The text without them. Doing it twice changes nothing more."""
        # What a mask stands between is looked at apart, so that no mask is ever part of a secret.
        pieces = text.split(MASK)
        for form in self._forms:
            pieces = [part for piece in pieces for part in piece.split(form)]
        for shape in _SHAPES:
            pieces = [part for piece in pieces for part in _around(shape, piece)]
        return MASK.join(pieces)


def _around(shape: re.Pattern[str], text: str) -> Iterator[str]:
    done = 0
    for match in shape.finditer(text):
        start, end = match.span(shape.groups)
        if start >= 0:
            yield text[done:start]
            done = end
    yield text[done:]


def _forms(secret: str) -> Iterator[str]:
    """How a value looks where we, or a tool we run, might print it."""
    if len(secret) < SHORTEST:
        return
    data = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield from (quote(data, safe=""), quote(data), quote_plus(data))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    # A key printed line by line, or without its frame.
    yield from (line for line in secret.splitlines() if len(line) >= 32 and not line.startswith("-----"))
    # Base64 of anything that has the value in it, as `x-access-token:VALUE` has: the value begins at one of three
    # places in a group of four characters, and only what it alone determines is looked for.
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        tail = (before + len(data)) % 3
        inner = encoded[(0, 2, 3)[before] : len(encoded) - (1 if tail else 0)]
        if len(inner) >= 2 * SHORTEST:
            yield inner
            yield inner.translate(str.maketrans("+/", "-_"))
