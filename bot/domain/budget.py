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


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What was used so far. `cost` is None once a call was made whose price nobody knows."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    duration_s: float = 0.0
    cost: Decimal | None = Decimal(0)

    def after_reply(self, usage: Usage, *, price: Price | None, duration_s: float) -> Spend:
        cost = None if price is None or self.cost is None else self.cost + price.of(usage)
        return Spend(
            steps=self.steps + 1,
            tool_calls=self.tool_calls,
            tokens=self.tokens + usage.tokens,
            duration_s=self.duration_s + duration_s,
            cost=cost,
        )

    def after_call(self, duration_s: float) -> Spend:
        return Spend(
            steps=self.steps,
            tool_calls=self.tool_calls + 1,
            tokens=self.tokens,
            duration_s=self.duration_s + duration_s,
            cost=self.cost,
        )


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The ceilings of one episode: steps, tool calls and duration are its own; tokens and cost are what the task's
    earlier episodes have left of its budget."""

    steps: int
    tool_calls: int
    tokens: int
    duration_s: float
    cost: Decimal


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """The limit that stands in the way, by its name in the config, and a sentence with its figures."""

    limit: str
    sentence: str

    @property
    def is_budget(self) -> bool:
        return self.limit in ("tokens", "cost")


def before_reply(spend: Spend, allowed: Allowance, *, worst: Usage, price: Price | None) -> Exceeded | None:
    """Whether one more model call fits even if it costs the most it can: `worst` is its whole prompt, nothing of it
    cached, and its largest reply."""
    if spend.steps >= allowed.steps:
        return Exceeded(limit="steps", sentence=f"All {allowed.steps} steps are used.")
    if spend.tokens + worst.tokens > allowed.tokens:
        return Exceeded(
            limit="tokens",
            sentence=f"The next model call may need {worst.tokens:,} tokens; "
            f"{max(0, allowed.tokens - spend.tokens):,} of {allowed.tokens:,} are left.",
        )
    if price is not None and spend.cost is not None and spend.cost + price.of(worst) > allowed.cost:
        return Exceeded(
            limit="cost",
            sentence=f"The next model call may cost ${price.of(worst):.4f}; "
            f"${max(Decimal(0), allowed.cost - spend.cost):.4f} of ${allowed.cost:.2f} are left.",
        )
    return _out_of_time(spend, allowed)


def before_call(spend: Spend, allowed: Allowance) -> Exceeded | None:
    """Whether one more tool call fits."""
    if spend.tool_calls >= allowed.tool_calls:
        return Exceeded(limit="tool_calls", sentence=f"All {allowed.tool_calls} tool calls are used.")
    return _out_of_time(spend, allowed)


def _out_of_time(spend: Spend, allowed: Allowance) -> Exceeded | None:
    if spend.duration_s >= allowed.duration_s:
        return Exceeded(limit="duration", sentence=f"The {allowed.duration_s:.0f} seconds of work are used.")
    return None
