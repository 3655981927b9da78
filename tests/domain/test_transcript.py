"""What steps add up to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from bot.domain.budget import Spend, Usage
from bot.domain.transcript import Call, Step, spend

CALL = Call(position=0, name="read_file", arguments={}, result="", exit_code=None, duration_s=0.25)
STEP = Step(
    id=1,
    number=1,
    note=None,
    reply={},
    usage=Usage(input_tokens=10, output_tokens=5),
    cost=Decimal("0.5"),
    duration_s=1.0,
    calls=(CALL, CALL),
)


def test_steps_add_up() -> None:
    assert spend((STEP, STEP)) == Spend(steps=2, tool_calls=4, tokens=30, duration_s=3.0, cost=Decimal(1))
    assert spend(()) == Spend()


def test_one_unknown_cost_makes_the_sum_unknown() -> None:
    assert spend((STEP, replace(STEP, cost=None))).cost is None
