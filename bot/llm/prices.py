"""What models cost, from the operator's own table and the published prices that genai-prices ships."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from bot.domain.budget import Price


def lookup(model_name: str, overrides: Mapping[str, Price], *, base_url: str | None = None) -> Price | None:
    """The price of a model at the provider that answers at `base_url` (None: OpenAI itself).

    None where it is not known: a server of one's own may well serve a model whose name is sold elsewhere, and a price
    of nothing would switch the cost limit off. Where a price depends on the length of the prompt or on the time of
    day, the dearest one counts, so that a limit is never passed unseen.
    """
    if model_name in overrides:
        return overrides[model_name]
    # Imported here because its table of models takes 200 ms to load.
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, model = get_snapshot().find_provider_model(model_name, None, None if base_url else "openai", base_url)
    except LookupError:
        return None
    now = datetime.now(UTC)
    over_the_day = [
        model.get_prices(now.replace(hour=hour, minute=minute)) for hour in range(24) for minute in (0, 30)
    ]
    fresh = _dearest(prices.input_mtok for prices in over_the_day)
    output = _dearest(prices.output_mtok for prices in over_the_day)
    if fresh is None or output is None:
        return None
    # A token that was not read from the cache may have been written to it, which can cost more.
    written = _dearest(prices.cache_write_mtok for prices in over_the_day)
    cached = _dearest(prices.cache_read_mtok for prices in over_the_day)
    return Price(input=max(fresh, written or fresh), output=output, cached=fresh if cached is None else cached)


def _dearest(prices: Iterable[Any]) -> Decimal | None:
    """The highest of plain prices and of all tiers (`base` and `tiers`) of the others."""
    steps: list[Decimal] = []
    for price in prices:
        if isinstance(price, Decimal):
            steps.append(price)
        elif price is not None:
            steps += [price.base, *(tier.price for tier in price.tiers)]
    return max(steps, default=None)
