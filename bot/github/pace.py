"""When one installation may ask GitHub the next time: below its limits, and not before GitHub has said so."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from bot.domain.errors import GitHubError

Clock = Callable[[], datetime]
Sleep = Callable[[float], Awaitable[None]]

CONTENT = ((75, timedelta(minutes=1)), (480, timedelta(hours=1)))
"""Calls that make content, at most, in any time so long. GitHub allows 80 a minute and 500 an hour "in general", and
says that this may change: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api"""
UNTOLD_S = 60.0
"""What the same page asks for where a limit comes without a time: at least a minute, and longer each time."""
HOUR_S = 3600.0
"""The longest such wait; GitHub's windows are no longer."""
DAY_S = 24 * 3600.0
"""The longest wait that is believed where GitHub gives a number."""

# No page says which calls "generate content". The reference warns of "creating content too quickly" at those that
# notify people: new issues, pull requests, comments, reviews, and asking for reviewers, as at
# https://docs.github.com/en/rest/issues/comments#create-an-issue-comment. Edits, labels and reactions are counted
# with them, to be on the safe side. Git's objects and refs and check runs are not: one publishing may need hundreds.
_CONTENT_PATH = re.compile(r"/repos/[^/]+/[^/]+/(issues|pulls|comments)(/|$)")
_DIGITS = re.compile(r"[0-9]{1,18}")
_NEVER = datetime.min.replace(tzinfo=UTC)


def makes_content(method: str, path: str) -> bool:
    return method != "GET" and _CONTENT_PATH.match(path) is not None


def kind_of(method: str, path: str) -> str:
    """The same for all calls that do the same, whatever they do it to: `POST issues/comments`."""
    segments = path.split("/")[1:]
    if segments[0] == "repos":
        segments = segments[3:]
    return f"{method} {'/'.join([each for each in segments if not each.isdigit()][:3])}"


def told_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """How many seconds an answer of GitHub asks to wait; None where it doesn't say, or says what can't be. Moments
    are compared with GitHub's own clock where the answer has it: `now` may be off."""
    now = moment(headers.get("date")) or now
    asked = headers.get("retry-after", "").strip()
    if _DIGITS.fullmatch(asked):
        return min(float(asked), DAY_S)
    if until := moment(asked):
        return min(max((until - now).total_seconds(), 0.0), DAY_S)
    reset = headers.get("x-ratelimit-reset", "").strip()
    if headers.get("x-ratelimit-remaining") == "0" and _DIGITS.fullmatch(reset):
        # Both clocks show whole seconds, hence the one on top.
        return min(max(float(reset) - now.timestamp() + 1, 0.0), HOUR_S)
    return None


def moment(header: str | None) -> datetime | None:
    """A date as HTTP writes it, None where it is none."""
    try:
        found = parsedate_to_datetime(header or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


class Pace:
    """Shared by all calls of one installation in this process, whatever task they are for. After a restart it begins
    anew: what has to wait stands in the database by then."""

    def __init__(self, *, clock: Clock, sleep: Sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._until = _NEVER
        self._refusals: dict[str, int] = {}
        """In a row, by the kind of call: GitHub may take comments, and everything be read, while it takes no pull
        requests."""
        self._made: deque[datetime] = deque()

    async def turn(self, about: str, *, content: bool, patience_s: float) -> None:
        """Returns when the call may be made. A wait that takes longer than `patience_s` is the engine's: it is a
        GitHubError that says how long, and GitHub is not asked."""
        while (wait_s := self._wait_s(content)) > 0:
            if wait_s > patience_s:
                raise GitHubError(
                    f"GitHub's rate limit holds up {about} for {wait_s:.0f} seconds.",
                    retryable=True,
                    retry_after_s=wait_s,
                )
            await self._sleep(wait_s)
            patience_s -= wait_s
        if content:
            self._made.append(self._clock())

    def refused(self, kind: str, headers: Mapping[str, str]) -> float:
        """GitHub has refused a call for a limit, with these headers. Gives for how many seconds nobody of this
        installation may ask: twice as many with each refusal in a row where GitHub doesn't say."""
        now = self._clock()
        told = told_s(headers, now)
        refusals = self._refusals.get(kind, 0)
        if self._until <= now:  # else it was on its way already when the last refusal came
            self._refusals[kind] = refusals = refusals + 1
        doublings = min(max(refusals, 1) - 1, 12)
        least = UNTOLD_S if told is None else 1.0
        wait_s = max(told or 0.0, min(least * 2**doublings, HOUR_S))
        self._until = max(self._until, now + timedelta(seconds=wait_s))
        return (self._until - now).total_seconds()

    def succeeded(self, kind: str) -> None:
        self._refusals.pop(kind, None)

    def _wait_s(self, content: bool) -> float:
        now = self._clock()
        free = [self._until]
        if content:
            longest = max(period for _, period in CONTENT)
            while self._made and self._made[0] <= now - longest:
                self._made.popleft()
            free += [self._made[-most] + period for most, period in CONTENT if len(self._made) >= most]
        return (max(free) - now).total_seconds()
