"""The App's own webhook as GitHub tells of it: which deliveries were tried, and the wish to have one tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import httpx
from pydantic import AwareDatetime, RootModel

from bot.github import webhook
from bot.github.auth import App
from bot.github.http import Shape, read, route

PAGE = 100
"""The most that GitHub lists at once."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try at telling us; all tries at one delivery have its GUID, whoever asked for them."""

    id: int
    guid: str
    event: str
    action: str
    """Empty where the event knows none."""
    at: datetime
    status: int
    """What was answered; 0, or one that a proxy would answer with, where nobody did."""
    is_redelivery: bool

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_used(self) -> bool:
        """Whether we make any use of such events."""
        return webhook.is_used(self.event, self.action)

    @property
    def about(self) -> str:
        return f"{self.event}.{self.action}" if self.action else self.event


@dataclass(frozen=True, kw_only=True)
class Page:
    """Attempts, the newest first, and the cursor of the older ones; None where there are none."""

    attempts: tuple[Attempt, ...]
    older: str | None


class _Delivery(Shape):
    id: int
    guid: str
    event: str
    action: str | None = None
    delivered_at: AwareDatetime
    status_code: int
    redelivery: bool


class _Deliveries(RootModel[list[_Delivery]]):
    pass


async def page(app: App, cursor: str | None = None) -> Page:
    """The newest attempts, or those from a cursor on that was given with newer ones. GitHub knows those of the last
    three days, Enterprise Server those of a week: https://docs.github.com/rest/apps/webhooks"""
    about = "the deliveries of the App's webhook"
    params: dict[str, str | int] = {"per_page": PAGE} if cursor is None else {"per_page": PAGE, "cursor": cursor}
    answer = await app.as_app("GET", route("app", "hook", "deliveries"), about, params=params)
    attempts = tuple(
        Attempt(
            id=item.id,
            guid=item.guid,
            event=item.event,
            action=item.action or "",
            at=item.delivered_at,
            status=item.status_code,
            is_redelivery=item.redelivery,
        )
        for item in read(_Deliveries, answer.content, about).root
    )
    older = _cursor(answer.link)
    return Page(attempts=attempts, older=older if attempts and older != cursor else None)


async def redeliver(app: App, attempt_id: int) -> None:
    """GitHub will deliver soon what it tried to with this attempt, under the same GUID."""
    path = route("app", "hook", "deliveries", attempt_id, "attempts")
    await app.as_app("POST", path, "a delivery to be tried again")


def _cursor(link: str | None) -> str | None:
    """Where a `Link` header leads on. Only the cursor is taken from it: the address stays the one that we know."""
    next_page = httpx.Response(200, headers=[(b"link", (link or "").encode())]).links.get("next", {})
    try:
        cursor: str | None = httpx.URL(next_page.get("url", "")).params.get("cursor")
    except httpx.InvalidURL:
        return None
    return cursor
