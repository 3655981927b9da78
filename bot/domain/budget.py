"""How much a task may use and how much it has used; every limit is asked before the next thing is started."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one model call. `cached_tokens` are part of `input_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, kw_only=True)
class Price:
    """US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cached: Decimal

    def of(self, usage: Usage) -> Decimal:
        fresh = usage.input_tokens - usage.cached_tokens
        total = fresh * self.input + usage.cached_tokens * self.cached + usage.output_tokens * self.output
        return total / 1_000_000


FREE = Price(input=Decimal(0), output=Decimal(0), cached=Decimal(0))
