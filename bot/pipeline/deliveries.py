"""Deliveries that never got through to us: GitHub is asked which those are, and to try them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from bot.db.store import Store
from bot.domain.errors import GitHubError
from bot.github import hook
from bot.github.auth import App
from bot.github.hook import Attempt

WINDOW = timedelta(days=3)
"""How far back GitHub knows its deliveries, and can try them again."""
OVERLAP = timedelta(minutes=5)
"""How much later than it began an attempt may be listed."""
PAGES = 20
"""Of attempts, read in one look at most; where it stopped, the next look goes on."""
AT_ONCE = 100
"""Deliveries asked for in one look at most, the oldest first."""
WAIT = timedelta(minutes=5)
"""How long a new attempt is waited for, and doubled with each: 5, 10 … 160 minutes."""
TRIES = 6
"""New attempts, after which a delivery is given up: what we refuse today we would refuse for ever."""
KEPT = timedelta(days=30)
"""How long it is kept what a decided delivery said; longer than any GitHub can deliver it again."""
DAY = timedelta(days=1)

_GONE = (400, 404, 410, 422)
"""How GitHub answers that it can't deliver something any more, whoever asks."""

log = structlog.get_logger()


@dataclass(kw_only=True)
class Undelivered:
    """A delivery of which no attempt that was seen got through; `attempts` is never empty."""

    guid: str
    attempts: dict[int, Attempt] = field(default_factory=dict)
    asked: int = 0
    asked_at: datetime | None = None
    """By this process."""

    @property
    def first(self) -> Attempt:
        return min(self.attempts.values(), key=lambda attempt: attempt.at)

    @property
    def last(self) -> Attempt:
        return max(self.attempts.values(), key=lambda attempt: attempt.at)

    @property
    def tries(self) -> int:
        """How often it was asked for again, by whomever; what this process has asked for may not be listed yet."""
        return max(self.asked, sum(attempt.is_redelivery for attempt in self.attempts.values()))

    def asks(self, now: datetime) -> None:
        self.asked, self.asked_at = self.tries + 1, now

    @property
    def due_at(self) -> datetime:
        """When it may be asked for again: at once for the first time, else once the last attempt had its time."""
        if not self.tries:
            return self.first.at
        moments = [attempt.at for attempt in self.attempts.values() if attempt.is_redelivery]
        if self.asked_at is not None:
            moments.append(self.asked_at)
        return max(moments) + WAIT * (1 << (self.tries - 1))


@dataclass(frozen=True, kw_only=True)
class _Gap:
    """Attempts that are still to be read: from the cursor (None: from the newest one) down to `until`. `above` is the
    moment of the last one that was read before them."""

    cursor: str | None
    until: datetime
    above: datetime


class Missed:
    """What was missed, for the life of a process: the next one looks at the whole window again. Nothing is written
    but through the front door, where GitHub's new attempt arrives: what was accepted before does nothing there."""

    def __init__(self, store: Store, github: App, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._github = github
        self._clock = clock
        self._newest: datetime | None = None
        self._gaps: list[_Gap] = []
        self._failed: dict[str, Undelivered] = {}
        self._settled: dict[str, datetime] = {}
        """What got through in the end, or was given up, and the moment of an attempt at it."""
        self._tidied_at: datetime | None = None

    async def look(self) -> None:
        """To be called at start-up and every few minutes, never twice at a time. That GitHub can't be asked is only
        logged: what was found is kept, and the next call goes on from there."""
        now = self._clock()
        if self._tidied_at is None or now - self._tidied_at >= DAY:
            await self._store.forget_payloads(before=now - KEPT)
            self._tidied_at = now
        try:
            await self.read()
            await self._ask()
        except GitHubError as exc:
            log.warning("GitHub could not be asked for missed deliveries", reason=str(exc))

    async def read(self, *, pages: int = PAGES) -> bool:
        """Reads what is new, and what was left over, from GitHub. Says whether that was all of it."""
        now = self._clock()
        start = now - WINDOW
        self._forget(start)
        until = start if self._newest is None else max(start, self._newest - OVERLAP)
        self._gaps = [gap for gap in self._gaps if gap.cursor is not None and gap.above > start]
        self._gaps.append(_Gap(cursor=None, until=until, above=now))
        for _ in range(pages):
            gap = self._gaps[-1]
            page = await hook.page(self._github, gap.cursor)
            self._gaps.pop()
            for attempt in page.attempts:
                self._see(attempt, start)
            if page.older is not None and page.attempts[-1].at > gap.until:
                self._gaps.append(_Gap(cursor=page.older, until=gap.until, above=page.attempts[-1].at))
            if not self._gaps:
                return True
        return False

    async def undelivered(self) -> list[Undelivered]:
        """Those that were read, are of use to us and never arrived, the oldest first."""
        known = await self._store.known_deliveries(self._failed)
        missing = [delivery for guid, delivery in self._failed.items() if guid not in known]
        return sorted(missing, key=lambda delivery: delivery.first.at)

    async def _ask(self) -> None:
        missing = await self.undelivered()
        self._failed = {delivery.guid: delivery for delivery in missing}
        due = [delivery for delivery in missing if delivery.due_at <= self._clock()]
        for delivery in due[:AT_ONCE]:
            if delivery.tries >= TRIES:
                self._give_up(delivery, f"{TRIES} new attempts failed; the last one was answered with")
                continue
            try:
                await hook.redeliver(self._github, delivery.last.id)
            except GitHubError as exc:
                if exc.status in _GONE:
                    self._give_up(delivery, f"GitHub can't deliver it any more ({exc.status}); it was answered with")
                    continue
                if exc.retry_after_s is None and (exc.status is None or exc.status >= 500):
                    delivery.asks(self._clock())  # GitHub may have heard it all the same
                raise
            delivery.asks(self._clock())
            log.info("asked GitHub to deliver again", **_about(delivery), attempt=delivery.asked)

    def _give_up(self, delivery: Undelivered, why: str) -> None:
        log.warning("a delivery is given up", **_about(delivery), reason=f"{why} {delivery.last.status}")
        self._settle(delivery.guid, delivery.last.at)

    def _see(self, attempt: Attempt, start: datetime) -> None:
        self._newest = max(self._newest or attempt.at, attempt.at)
        if attempt.at <= start or attempt.guid in self._settled:
            return
        if attempt.is_ok:
            self._failed.pop(attempt.guid, None)
            if attempt.is_redelivery:  # those that failed before it are still to be read
                self._settle(attempt.guid, attempt.at)
        elif attempt.is_used:
            self._failed.setdefault(attempt.guid, Undelivered(guid=attempt.guid)).attempts[attempt.id] = attempt

    def _settle(self, guid: str, at: datetime) -> None:
        self._failed.pop(guid, None)
        self._settled[guid] = at

    def _forget(self, start: datetime) -> None:
        self._settled = {guid: at for guid, at in self._settled.items() if at > start}
        self._failed = {guid: delivery for guid, delivery in self._failed.items() if delivery.last.at > start}


def _about(delivery: Undelivered) -> dict[str, str]:
    return {"delivery": delivery.guid, "about": delivery.last.about}


async def find(github: App, guid: str, *, now: datetime, pages: int) -> Attempt | None:
    """The newest attempt at a delivery, if GitHub still knows one among its newest pages."""
    cursor: str | None = None
    for _ in range(pages):
        page = await hook.page(github, cursor)
        for attempt in page.attempts:
            if attempt.guid == guid:
                return attempt
        cursor = page.older
        if cursor is None or page.attempts[-1].at <= now - WINDOW:
            return None
    return None
