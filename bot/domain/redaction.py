"""Secrets taken out of everything that leaves: our own exact values, and whatever has the shape of one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "[redacted]"
SHORTEST = 8
"""Characters below which an exact value is too common to be looked for."""

_SHAPES = re.compile(
    "|".join(
        [
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]{0,20000}?"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)",
            # A new installation token is `ghs_APPID_JWT`, some 520 characters with . _ and -.
            r"\bgh[pousr]_[A-Za-z0-9._-]{20,}",
            r"\bgithub_pat_[A-Za-z0-9_]{20,}",
            r"\bsk-[A-Za-z0-9_-]{20,}",
            r"\be2b_[A-Za-z0-9]{20,}",
            r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
            r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
            r"\bglpat-[A-Za-z0-9_-]{20,}",
            r"\bnpm_[A-Za-z0-9]{36}\b",
            r"\bAIza[A-Za-z0-9_-]{35}",
            r"(?<=://)[^\s/:@'\"]{0,256}:[^\s/@'\"]{1,1024}(?=@)",
            r"(?i:(?<=authorization: )|(?<=authorization\": \"))(?i:basic|bearer|token) [A-Za-z0-9._~+/=-]{8,}",
        ]
    )
)


class Redactor:
    """Knows the values that must not leave."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if len(form) >= SHORTEST}
        ordered = sorted(forms, key=len, reverse=True)
        self._exact = re.compile("|".join(re.escape(form) for form in ordered)) if ordered else None

    def redact(self, text: str) -> str:
        """The text without them. Doing it twice changes nothing more."""
        if self._exact is not None:
            text = self._exact.sub(MASK, text)
        return _SHAPES.sub(MASK, text)


def _forms(secret: str) -> Iterable[str]:
    """How a secret looks where we or a tool might print it."""
    yield secret
    yield quote(secret, safe="")
    yield json.dumps(secret)[1:-1]
    if secret.startswith("-----BEGIN"):
        # A key printed line by line, or without its frame.
        yield from (line for line in secret.splitlines() if len(line) > 40)
    for text in (secret, f"x-access-token:{secret}"):
        for encoded in (base64.b64encode(text.encode()), base64.urlsafe_b64encode(text.encode())):
            yield encoded.decode().rstrip("=")
