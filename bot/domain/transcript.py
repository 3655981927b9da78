"""What was said and done in an episode, step by step: the record that survives a crash and that a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.domain.budget import Spend, Usage


@dataclass(frozen=True, kw_only=True)
class Call:
    """One finished tool call. `exit_code` is there where a command ran; `refused` where policy or grants said no."""

    position: int
    name: str
    arguments: dict[str, Any] | None
    result: str
    exit_code: int | None
    duration_s: float
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Step:
    """One model reply (`reply` is its JSON) and the finished ones of the calls it asked for, in order. `note` is what
    the model was told before it; `cost` is None where nobody knows the price."""

    id: int
    number: int
    note: str | None
    reply: dict[str, Any]
    usage: Usage
    cost: Decimal | None
    duration_s: float
    calls: tuple[Call, ...] = ()


def spend(steps: tuple[Step, ...]) -> Spend:
    """What these steps used."""
    costs = [step.cost for step in steps]
    known = [cost for cost in costs if cost is not None]
    return Spend(
        steps=len(steps),
        tool_calls=sum(len(step.calls) for step in steps),
        tokens=sum(step.usage.tokens for step in steps),
        duration_s=sum(step.duration_s + sum(call.duration_s for call in step.calls) for step in steps),
        cost=sum(known, Decimal(0)) if len(known) == len(costs) else None,
    )
