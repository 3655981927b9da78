"""Limits are asked before anything is started, with the worst it can cost."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bot.domain.budget import FREE, Allowance, Price, Spend, Usage, before_call, before_reply

ALLOWED = Allowance(steps=3, tool_calls=5, tokens=1000, duration_s=60, cost=Decimal("1.00"))
DEAR = Price(input=Decimal(1000), output=Decimal(2000), cached=Decimal(100))
WORST = Usage(input_tokens=100, output_tokens=50)


def test_a_price_counts_cached_input_apart() -> None:
    usage = Usage(input_tokens=1000, cached_tokens=400, output_tokens=10)
    assert DEAR.of(usage) == Decimal("0.6") + Decimal("0.04") + Decimal("0.02")


@pytest.mark.parametrize(
    ("spend", "limit"),
    [
        (Spend(), None),
        (Spend(steps=2, tokens=850, duration_s=59.9, cost=Decimal("0.80")), None),
        (Spend(steps=3), "steps"),
        (Spend(tokens=851), "tokens"),
        (Spend(cost=Decimal("0.81")), "cost"),
        (Spend(duration_s=60), "duration"),
    ],
)
def test_a_model_call_that_could_pass_a_limit_is_not_made(spend: Spend, limit: str | None) -> None:
    stop = before_reply(spend, ALLOWED, worst=WORST, price=DEAR)
    assert (stop.limit if stop else None) == limit
    if stop:
        assert stop.is_budget == (limit in ("tokens", "cost"))
        assert stop.sentence.endswith(".")


def test_an_unknown_price_leaves_the_other_limits_in_force() -> None:
    assert before_reply(Spend(), ALLOWED, worst=WORST, price=None) is None
    assert before_reply(Spend(cost=None), ALLOWED, worst=WORST, price=DEAR) is None
    assert before_reply(Spend(steps=3, cost=None), ALLOWED, worst=WORST, price=None) is not None


def test_a_tool_call_beyond_the_last_is_not_made() -> None:
    assert before_call(Spend(tool_calls=4), ALLOWED) is None
    stop = before_call(Spend(tool_calls=5), ALLOWED)
    assert stop is not None
    assert stop.limit == "tool_calls"
    assert not stop.is_budget
    late = before_call(Spend(duration_s=61), ALLOWED)
    assert late is not None
    assert late.limit == "duration"


def test_spend_adds_up_and_an_unknown_cost_stays_unknown() -> None:
    one = Spend().after_reply(WORST, price=FREE, duration_s=1.5).after_call(0.5)
    assert one == Spend(steps=1, tool_calls=1, tokens=150, duration_s=2.0, cost=Decimal(0))
    unknown = one.after_reply(WORST, price=None, duration_s=0)
    assert unknown.cost is None
    assert unknown.after_reply(WORST, price=FREE, duration_s=0).cost is None
