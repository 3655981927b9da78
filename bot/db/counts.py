"""How much of what there is: the numbers that operators watch, counted from the rows themselves, so that they are the
same for every process and outlive all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlmodel import col

from bot.db.database import Database
from bot.db.tables import DeliveryRow, EpisodeRow, StepRow, TaskRow, ToolCallRow


@dataclass(frozen=True, kw_only=True)
class Tally:
    """`deliveries` by event and what came of them, `tasks` by state, `episodes` by kind and code (empty while they
    run), `calls` of tools by name and whether they were refused; `tokens` over all steps, `cost_nanos`, billionths of
    a US dollar, over those whose price is known."""

    deliveries: Mapping[tuple[str, str], int]
    tasks: Mapping[str, int]
    episodes: Mapping[tuple[str, str], int]
    calls: Mapping[tuple[str, bool], int]
    tokens: int
    cost_nanos: int


class Counts(Database):
    """The part of the store that counts."""

    async def tally(self) -> Tally:
        """All of them, as of one moment."""
        async with self._read() as session:
            connection = await session.connection()

            async def by(*columns: Any) -> dict[Any, int]:
                rows = await connection.execute(select(*columns, func.count()).group_by(*columns))
                return {tuple(row[:-1]): row[-1] for row in rows}

            deliveries = await by(col(DeliveryRow.name), col(DeliveryRow.outcome))
            tasks = await by(col(TaskRow.state))
            episodes = await by(col(EpisodeRow.kind), func.coalesce(EpisodeRow.code, ""))
            calls = await by(col(ToolCallRow.name), col(ToolCallRow.refused))
            tokens = func.sum(col(StepRow.input_tokens) + col(StepRow.output_tokens))
            cost = func.sum(col(StepRow.cost_nanos))
            total, nanos = (await connection.execute(select(tokens, cost))).one()
            return Tally(
                deliveries=deliveries,
                tasks={state: number for (state,), number in tasks.items()},
                episodes=episodes,
                calls=calls,
                tokens=int(total or 0),
                cost_nanos=int(nanos or 0),
            )
