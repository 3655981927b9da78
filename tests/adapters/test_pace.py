"""How an installation is kept below GitHub's limits, and from asking while it was told to wait."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.demo.github import LocalGitHub
from bot.domain.errors import GitHubError
from bot.github.auth import App
from bot.github.pace import CONTENT, Pace, kind_of, makes_content

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
KIND = "POST issues/comments"


class Time:
    """A clock that goes on while somebody sleeps, and when a test moves it."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> datetime:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> Pace:
    return Pace(clock=time, sleep=time.sleep)


async def held(pace: Pace, *, content: bool = False, patience_s: float = 0) -> float | None:
    """For how long a call is held up; None where it may be made."""
    try:
        await pace.turn("it", content=content, patience_s=patience_s)
    except GitHubError as exc:
        return exc.retry_after_s if exc.retryable else -1
    return None


@pytest.mark.parametrize(
    ("method", "path", "counts"),
    [
        ("POST", "/repos/o/r/issues/3/comments", True),
        ("PATCH", "/repos/o/r/issues/comments/9", True),
        ("DELETE", "/repos/o/r/issues/comments/9", True),
        ("POST", "/repos/o/r/issues/comments/9/reactions", True),
        ("POST", "/repos/o/r/issues", True),
        ("POST", "/repos/o/r/pulls", True),
        ("PATCH", "/repos/o/r/pulls/6", True),
        ("POST", "/repos/o/r/pulls/6/reviews", True),
        ("POST", "/repos/o/r/pulls/6/comments/7/replies", True),
        ("GET", "/repos/o/r/issues/3/comments", False),
        ("POST", "/repos/o/r/git/blobs", False),
        ("POST", "/repos/o/r/git/refs", False),
        ("POST", "/repos/issues/pulls/git/blobs", False),
        ("POST", "/repos/o/r/check-runs", False),
        ("POST", "/app/installations/5/access_tokens", False),
        ("DELETE", "/installation/token", False),
    ],
)
def test_what_people_are_notified_of_counts_as_content(method: str, path: str, counts: bool) -> None:
    assert makes_content(method, path) is counts


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/repos/o/r/issues/3/comments", KIND),
        ("POST", "/repos/o/r2/issues/44/comments", KIND),
        ("POST", "/repos/o/r/issues/comments/9/reactions", "POST issues/comments/reactions"),
        ("PATCH", "/repos/o/r/issues/comments/9", "PATCH issues/comments"),
        ("GET", "/repos/o/r", "GET "),
        ("PATCH", "/repos/o/r/git/refs/heads/coder/issue-3", "PATCH git/refs/heads"),
        ("POST", "/app/installations/5/access_tokens", "POST app/installations/access_tokens"),
    ],
)
def test_calls_that_do_the_same_are_of_one_kind(method: str, path: str, kind: str) -> None:
    assert kind_of(method, path) == kind


async def test_a_busy_installation_stays_below_both_limits_and_no_call_is_lost(pace: Pace, time: Time) -> None:
    made: list[datetime] = []
    while len(made) < 1000:
        if (wait_s := await held(pace, content=True, patience_s=30)) is None:
            made.append(time.now)
        else:
            assert await held(pace) is None, "reading goes on meanwhile"
            time.now += timedelta(seconds=wait_s)
    for most, period in CONTENT:
        assert max(sum(start <= each < start + period for each in made) for start in made) == most
    assert made[-1] - made[0] < timedelta(hours=2, minutes=10)
    assert [(most, period.total_seconds()) for most, period in CONTENT] == [(75, 60), (480, 3600)]


async def test_patience_is_for_the_whole_wait(pace: Pace, time: Time) -> None:
    pace.refused(KIND, {"retry-after": "20"})

    async def refused_again(seconds: float) -> None:
        await time.sleep(seconds)
        if len(time.slept) == 1:
            pace.refused(KIND, {"retry-after": "20"})

    pace._sleep = refused_again
    assert await held(pace, patience_s=30) == 20
    assert time.slept == [20]


async def test_refusals_of_calls_that_were_on_their_way_together_count_once(pace: Pace, time: Time) -> None:
    assert [pace.refused(KIND, {}) for _ in range(5)] == [60] * 5
    time.now += timedelta(seconds=40)
    assert pace.refused(KIND, {}) == 60
    assert pace.refused(KIND, {"retry-after": "5"}) == 60, "what was told first still holds"
    assert await held(pace) == 60


async def test_waits_without_a_number_double_up_to_an_hour_and_a_success_ends_it(pace: Pace, time: Time) -> None:
    waits = []
    for _ in range(9):
        waits.append(pace.refused(KIND, {}))
        assert await held(pace) == waits[-1]
        time.now += timedelta(seconds=waits[-1])
        assert await held(pace) is None
        pace.succeeded("GET issues/comments")
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    pace.succeeded(KIND)
    assert pace.refused(KIND, {}) == 60


async def test_many_that_wait_for_the_same_moment_do_not_all_go_at_once(time: Time) -> None:
    woken = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await woken.wait()
        time.now = max(time.now, START + timedelta(seconds=60))

    pace = Pace(clock=time, sleep=sleep)
    for second in range(75):
        time.now = START + timedelta(seconds=second / 2)
        assert await held(pace, content=True) is None
    waiting = [asyncio.create_task(held(pace, content=True, patience_s=30)) for _ in range(5)]
    await asyncio.sleep(0)
    woken.set()
    done = await asyncio.gather(*waiting)
    assert done[0] is None
    assert sum(each is None for each in done) < 5


async def test_a_github_that_enforces_its_limits_never_has_to_refuse_anything(tmp_path: Path) -> None:
    time = Time(datetime.now(UTC))
    async with LocalGitHub(tmp_path, clock=time) as github:
        await github.create_repository("octo/sample", {"a.txt": b"one\n"})
        issue = github.open_issue("octo/sample", title="it breaks", author="reporter")
        github.limit_content()
        app = App(github.app.app_id, github.app.private_key, github.api_url, clock=time, sleep=time.sleep)
        installation = github._repository("octo/sample").installation_id
        assert installation is not None
        async with app.repository(installation, "octo", "sample", permissions={"issues": "write"}) as repository:
            while len(github.issue_comments("octo/sample", issue.number)) < 170:
                try:
                    await repository.create_comment(issue.number, "hello")
                except GitHubError as exc:
                    time.now += timedelta(seconds=exc.retry_after_s or 0)
        assert {call.status for call in github.requests} == {201, 204}
