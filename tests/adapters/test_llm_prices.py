"""Published prices, and the operator's own."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bot.domain.budget import Price
from bot.llm.prices import lookup


def price(fresh: str, output: str, cached: str) -> Price:
    return Price(input=Decimal(fresh), output=Decimal(output), cached=Decimal(cached))


@pytest.mark.parametrize(
    ("model", "base_url", "expected"),
    [
        ("gpt-5", None, price("1.25", "10", "0.125")),
        ("gpt-5", "https://api.openai.com/v1", price("1.25", "10", "0.125")),
        ("gpt-5-pro", None, price("15", "120", "15")),  # no discount for cached tokens is published
        ("gpt-5.4", None, price("5", "22.5", "0.5")),  # the tier of long prompts
        ("gpt-6-cyber", None, price("25", "100", "2")),  # what was not cached may have been written to the cache
        ("deepseek-chat", "https://api.deepseek.com/v1", price("0.27", "1.1", "0.07")),  # at its dearest time of day
        ("gpt-5", "http://127.0.0.1:8000/v1", None),
        ("deepseek-chat", None, None),
        ("no-such-model", None, None),
        ("", None, None),
    ],
)
def test_the_published_price_is_found_at_its_provider_alone(
    model: str, base_url: str | None, expected: Price | None
) -> None:
    assert lookup(model, {}, base_url=base_url) == expected


def test_the_operators_price_goes_first() -> None:
    own = price("1", "2", "0.5")
    assert lookup("gpt-5", {"gpt-5": own}) == own
    assert lookup("mine", {"mine": own}, base_url="http://127.0.0.1:8000/v1") == own
    assert lookup("gpt-5", {"mine": own}) == price("1.25", "10", "0.125")
