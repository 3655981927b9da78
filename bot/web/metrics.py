"""Numbers for Prometheus, on a listener of their own: whoever may send webhooks need not see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from fastapi import FastAPI
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bot.agent.tools import TOOLS
from bot.db.counts import Tally


def create(tally: Callable[[], Awaitable[Tally]]) -> FastAPI:
    """The application: `GET /metrics`."""
    app = FastAPI(title="coder-bot metrics", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(render(await tally()), media_type=CONTENT_TYPE_LATEST)

    return app


def render(tally: Tally) -> bytes:
    """In Prometheus' text format. Labels take few values, whatever a model or a stranger says."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(tally))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        tasks = GaugeMetricFamily("coder_tasks", "Tasks by state.", labels=["state"])
        for state, number in self._tally.tasks.items():
            tasks.add_metric([state], number)
        yield tasks
        episodes = CounterMetricFamily("coder_episodes", "Episodes by how they ended.", labels=["kind", "code"])
        for (kind, code), number in self._tally.episodes.items():
            episodes.add_metric([kind, code or "running"], number)
        yield episodes
        calls: Counter[tuple[str, str]] = Counter()
        for (name, refused), number in self._tally.calls.items():
            calls[name if name in TOOLS else "unknown", "true" if refused else "false"] += number
        tools = CounterMetricFamily("coder_tool_calls", "Tool calls of agents.", labels=["tool", "refused"])
        for (tool, refused_text), number in calls.items():
            tools.add_metric([tool, refused_text], number)
        yield tools
        outcomes: Counter[str] = Counter()
        for (_, outcome), number in self._tally.deliveries.items():
            outcomes[_outcome(outcome)] += number
        deliveries = CounterMetricFamily("coder_deliveries", "Webhook deliveries by outcome.", labels=["outcome"])
        for outcome, number in outcomes.items():
            deliveries.add_metric([outcome], number)
        yield deliveries
        yield CounterMetricFamily("coder_tokens", "Tokens of models.", value=self._tally.tokens)
        yield CounterMetricFamily("coder_cost_usd", "US dollars, where known.", value=self._tally.cost_nanos / 1e9)


def _outcome(text: str) -> str:
    """`refused: permission` keeps its reason, which is one of ours; of any other only the first word is kept."""
    first, _, rest = text.partition(":")
    return f"refused {rest.strip()[:20]}" if first == "refused" else first.split(" ")[0] or "pending"
