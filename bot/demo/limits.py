"""How much may be asked of the REST API, and how much may be written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.demo.calls import Refused

PER_HOUR = 5000
WINDOW = timedelta(hours=1)
CONTENT = ("issues/", "pulls/", "reactions/")
"""How the operations begin that make content, where they write."""
BLOCKED = (
    "You have exceeded a secondary rate limit and have been temporarily blocked from content creation. "
    "Please retry your request again later."
)

Who = int | str
"""An installation, by its id, or else who it is that asks."""


@dataclass(kw_only=True)
class _Window:
    """One hour of somebody's calls, from the first on."""

    used: int
    reset: datetime


@dataclass(frozen=True, kw_only=True)
class _Content:
    per_minute: int
    per_hour: int
    retry_after_s: int | None


class Limits:
    """The primary limit is always counted. The one for content, a secondary limit, stands once it was asked for."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._windows: dict[Who, _Window] = {}
        self._first: _Window | None = None
        self._content: _Content | None = None
        self._written: dict[Who, deque[datetime]] = {}

    def primary(self, remaining: int, reset_in_s: float) -> None:
        """So much is left to every installation, until then."""
        self._first = _Window(used=PER_HOUR - remaining, reset=self._clock() + timedelta(seconds=reset_in_s))
        self._windows.clear()

    def content(self, per_minute: int, per_hour: int, retry_after_s: int | None) -> None:
        """From now on an installation may write so much."""
        self._content = _Content(per_minute=per_minute, per_hour=per_hour, retry_after_s=retry_after_s)
        self._written.clear()

    def count(self, who: Who, operation: str, method: str) -> None:
        """Counts a call, or refuses it."""
        window = self._window(who)
        if window.used >= PER_HOUR:
            raise Refused(403, f"API rate limit exceeded for installation ID {who}.")
        window.used += 1
        if self._content is not None and method != "GET" and operation.startswith(CONTENT):
            self._write(who, self._content)

    def forget(self, who: Who) -> None:
        """The last call does not count: it was answered with nothing new."""
        self._window(who).used -= 1

    def headers(self, who: Who) -> Mapping[str, str]:
        window = self._window(who)
        return {
            "x-ratelimit-limit": str(PER_HOUR),
            "x-ratelimit-remaining": str(max(PER_HOUR - window.used, 0)),
            "x-ratelimit-used": str(window.used),
            "x-ratelimit-reset": str(int(window.reset.timestamp())),
            "x-ratelimit-resource": "core",
        }

    def _write(self, who: Who, limit: _Content) -> None:
        now, written = self._clock(), self._written.setdefault(who, deque())
        while written and written[0] <= now - timedelta(hours=1):
            written.popleft()
        last_minute = sum(moment > now - timedelta(minutes=1) for moment in written)
        if last_minute >= limit.per_minute or len(written) >= limit.per_hour:
            wait = {} if limit.retry_after_s is None else {"retry-after": str(limit.retry_after_s)}
            raise Refused(403, BLOCKED, headers=wait)
        written.append(now)

    def _window(self, who: Who) -> _Window:
        now, window = self._clock(), self._windows.get(who)
        if window is None or window.reset <= now:
            first = self._first if self._first is not None and self._first.reset > now else None
            given = first if first is not None and isinstance(who, int) else _Window(used=0, reset=now + WINDOW)
            window = self._windows[who] = _Window(used=given.used, reset=given.reset)
        return window
