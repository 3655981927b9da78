"""What the App asks about its own webhook, and which deliveries it has tried again."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import respx
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.db import migrate
from bot.db.store import Store
from bot.domain.errors import GitHubError
from bot.domain.event import Closed, Person, Repository
from bot.github import hook
from bot.github.auth import App
from bot.pipeline.deliveries import AT_ONCE, PAGES, TRIES, WAIT, WINDOW, Missed, find

API = "https://github.test/api/v3"
LIST = f"{API}/app/hook/deliveries"
APP_ID = 41
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

CLOSED = Closed(
    installation_id=1,
    repository=Repository(id=1, owner="octo", name="sample", default_branch="main", clone_url="https://x.test/o/s"),
    number=3,
    is_pull_request=False,
    merged=False,
    actor=Person(id=11, login="anna", is_bot=False),
)


class Hook:
    """GitHub's list of deliveries, and its wish to be asked by the App itself."""

    def __init__(self, router: respx.MockRouter, key: rsa.RSAPublicKey) -> None:
        self.now = NOW
        self.page = 100
        self.listed: list[dict[str, Any]] = []
        """The oldest first."""
        self.asked: list[int] = []
        """The ids of the attempts that were to be tried again."""
        self.trouble: list[httpx.Response] = []
        """What the next calls are answered with."""
        self.pages = 0
        self._key = key
        router.get(LIST).mock(side_effect=self._list)
        self.attempts = router.post(url__regex=rf"{LIST}/(?P<id>\d+)/attempts$").mock(side_effect=self._again)

    def clock(self) -> datetime:
        return self.now

    def tried(
        self,
        guid: str = "",
        status: int = 502,
        *,
        ago: timedelta = timedelta(),
        event: str = "issues",
        action: str | None = "closed",
        redelivery: bool = False,
    ) -> str:
        guid = guid or str(uuid.uuid4())
        self.listed.append(
            {
                "id": len(self.listed) + 1,
                "guid": guid,
                "delivered_at": (self.now - ago).isoformat().replace("+00:00", "Z"),
                "redelivery": redelivery,
                "duration": 0.1,
                "status": "OK" if status < 300 else f"Invalid HTTP Response: {status}",
                "status_code": status,
                "event": event,
                "action": action,
                "installation_id": 5,
                "repository_id": 7,
                "throttled_at": None,
            }
        )
        return guid

    def asked_for(self) -> list[str]:
        return [self.listed[number - 1]["guid"] for number in self.asked]

    def _list(self, request: httpx.Request) -> httpx.Response:
        self._prove(request)
        if self.trouble:
            return self.trouble.pop(0)
        self.pages += 1
        assert request.url.params["per_page"] == "100"
        newest_first = self.listed[::-1]
        start = int(request.url.params.get("cursor", "v1_0").removeprefix("v1_"))
        end = start + self.page
        headers = {}
        if end < len(newest_first):
            headers["link"] = f'<https://elsewhere.test/x?per_page=100&cursor=v1_{end}>; rel="next"'
        return httpx.Response(200, json=newest_first[start:end], headers=headers)

    def _again(self, request: httpx.Request, id: str) -> httpx.Response:
        self._prove(request)
        if self.trouble:
            return self.trouble.pop(0)
        self.asked.append(int(id))
        return httpx.Response(202, json={})

    def _prove(self, request: httpx.Request) -> None:
        bearer = request.headers["authorization"].removeprefix("Bearer ")
        told = jwt.decode(bearer, self._key, ["RS256"], options={"verify_exp": False, "verify_iat": False})
        assert told["iss"] == str(APP_ID)


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def github(key: rsa.RSAPrivateKey) -> Iterator[Hook]:
    with respx.mock(assert_all_called=False) as router:
        yield Hook(router, key.public_key())


@pytest.fixture
def app(key: rsa.RSAPrivateKey, github: Hook) -> App:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, form, serialization.NoEncryption()).decode()

    async def sleep(seconds: float) -> None:
        github.now += timedelta(seconds=seconds)

    return App(APP_ID, pem, API, sleep=sleep, clock=github.clock)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'coder.db'}"
    await migrate.upgrade(url)
    store = Store(url)
    yield store
    await store.aclose()


@pytest.fixture
def missed(store: Store, app: App, github: Hook) -> Missed:
    return Missed(store, app, github.clock)


# The calls


async def test_attempts_are_listed_by_pages_and_no_other_server_is_asked_for_the_next_one(
    app: App, github: Hook
) -> None:
    github.page = 1
    github.tried("a", 202, ago=MINUTE, action=None, event="ping")
    github.tried("a", 0, redelivery=True)
    first = await hook.page(app)
    assert first.older == "v1_1"
    [attempt] = first.attempts
    assert attempt == hook.Attempt(
        id=2, guid="a", event="issues", action="closed", at=NOW, status=0, is_redelivery=True
    )
    assert (attempt.is_ok, attempt.is_used, attempt.about) == (False, True, "issues.closed")
    last = await hook.page(app, first.older)
    assert last.older is None
    [attempt] = last.attempts
    assert (attempt.is_ok, attempt.is_used, attempt.about) == (True, False, "ping")


@pytest.mark.parametrize(
    "link", ["", "x", '<>; rel="next"', "<http://[>; rel=next", '<https://a.test/?c=1>; rel="next"']
)
async def test_a_link_that_leads_nowhere_ends_the_list(app: App, github: Hook, link: str) -> None:
    github.tried()
    item = github.listed[0]
    github.trouble = [httpx.Response(200, json=[item], headers={"link": link})]
    assert (await hook.page(app)).older is None


async def test_a_list_that_never_moves_on_ends(app: App, github: Hook) -> None:
    github.tried()
    link = f'<{LIST}?cursor=v1_7>; rel="next"'
    github.trouble = [httpx.Response(200, json=github.listed, headers={"link": link})]
    assert (await hook.page(app, "v1_7")).older is None


async def test_what_is_no_list_of_deliveries_is_an_error(app: App, github: Hook) -> None:
    github.trouble = [httpx.Response(200, json={"deliveries": []})]
    with pytest.raises(GitHubError, match="not the JSON"):
        await hook.page(app)


async def test_a_delivery_is_asked_for_again_once(app: App, github: Hook) -> None:
    github.tried("a")
    await hook.redeliver(app, 1)
    assert github.asked == [1]
    github.trouble = [httpx.Response(502)]
    with pytest.raises(GitHubError):
        await hook.redeliver(app, 1)
    assert github.attempts.call_count == 2  # GitHub may have heard it: that is not repeated


# What was missed


async def test_only_what_never_got_through_and_is_of_use_is_asked_for(
    missed: Missed, store: Store, github: Hook
) -> None:
    github.tried("too old", ago=WINDOW + MINUTE)
    github.tried("by hand", ago=9 * MINUTE)
    github.tried("ok first", 202, ago=8 * MINUTE)
    github.tried("lost", ago=7 * MINUTE)
    github.tried("refused", 401, ago=6 * MINUTE)
    github.tried("arrived", 504, ago=5 * MINUTE)
    github.tried("of no use", ago=4 * MINUTE, action="pinned")
    github.tried("ok", 202, ago=3 * MINUTE)
    github.tried("by hand", 202, ago=2 * MINUTE, redelivery=True)
    github.tried("ok first", ago=MINUTE, redelivery=True)
    assert await store.accept("arrived", "issues", CLOSED, now=NOW)  # our answer was lost on the way
    await missed.look()
    assert github.asked_for() == ["lost", "refused"]


async def test_what_was_asked_for_has_its_time_which_doubles_until_it_is_given_up(
    missed: Missed, github: Hook
) -> None:
    guid = github.tried(status=400)
    began, asked_at = NOW, []
    with structlog.testing.capture_logs() as logs:
        for _ in range(70):
            before = len(github.asked)
            await missed.look()
            if len(github.asked) > before:
                asked_at.append((github.now - began) // MINUTE)
                github.tried(guid, 400, redelivery=True)
            github.now += WAIT
    assert asked_at == [0, 5, 15, 35, 75, 155]
    assert len(asked_at) == TRIES
    given_up = [log for log in logs if log["event"] == "a delivery is given up" or log["log_level"] == "warning"]
    assert [log["delivery"] for log in given_up] == [guid]
    assert "400" in given_up[0]["reason"]


async def test_another_process_goes_on_where_the_last_one_ended(store: Store, app: App, github: Hook) -> None:
    github.tried("a", ago=20 * MINUTE)
    github.tried("a", ago=9 * MINUTE, redelivery=True)
    github.tried("a", ago=8 * MINUTE, redelivery=True)
    await Missed(store, app, github.clock).look()
    assert github.asked == []
    github.now += 3 * MINUTE
    await Missed(store, app, github.clock).look()
    assert github.asked == [3]
    for _ in range(TRIES):
        github.tried("a", redelivery=True)
    github.now += WINDOW / 2
    await Missed(store, app, github.clock).look()
    assert github.asked == [3]


async def test_what_arrives_meanwhile_is_not_asked_for_again(missed: Missed, store: Store, github: Hook) -> None:
    github.tried("accepted", ago=MINUTE)
    github.tried("told", ago=MINUTE)
    await missed.look()
    assert sorted(github.asked_for()) == ["accepted", "told"]
    await store.accept("accepted", "issues", CLOSED, now=NOW)
    github.tried("told", 202, redelivery=True)
    github.now += 2 * WAIT
    await missed.look()
    assert len(github.asked) == 2


async def test_a_later_look_reads_only_what_is_new(missed: Missed, github: Hook) -> None:
    github.page = 10
    for number in range(100):
        github.tried(status=202, ago=(200 - number) * MINUTE)
    await missed.look()
    assert github.pages == 10
    guid = github.tried()
    github.now += WAIT
    await missed.look()
    assert github.asked_for() == [guid]
    assert github.pages == 11


async def test_what_is_too_much_for_one_look_is_left_to_the_next(missed: Missed, github: Hook) -> None:
    github.page = 10
    count = 10 * PAGES + 15
    guids = [github.tried(ago=10 * (count - number) * MINUTE) for number in range(count)]
    await missed.look()
    assert github.pages == PAGES
    assert github.asked_for() == guids[15 : 15 + AT_ONCE]
    late = github.tried(status=503)
    await missed.look()
    await missed.look()
    assert github.pages < PAGES + 5
    assert sorted(github.asked_for()) == sorted([*guids, late])


async def test_what_github_can_deliver_no_more_is_given_up_and_the_rest_is_asked_for(
    missed: Missed, github: Hook
) -> None:
    github.tried("gone", ago=2 * MINUTE)
    github.tried("there", ago=MINUTE)
    await missed.read()
    github.trouble = [*[httpx.Response(200, json=[])], httpx.Response(404, json={"message": "Not Found"})]
    with structlog.testing.capture_logs() as logs:
        await missed.look()
    assert github.asked_for() == ["there"]
    assert [log["delivery"] for log in logs if log["log_level"] == "warning"] == ["gone"]
    github.now += 2 * WAIT
    await missed.look()
    assert github.asked_for() == ["there", "there"]


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_that_github_fails_is_one_line_and_nothing_is_lost(missed: Missed, github: Hook, status: int) -> None:
    github.page = 1
    for guid in ("a", "b", "c"):
        github.tried(guid, ago=MINUTE)
    answer = httpx.Response(status, json={"message": "x"})
    with structlog.testing.capture_logs() as logs:
        github.trouble = [answer] * 3  # with all that is repeated
        await missed.look()
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == [
        "GitHub could not be asked for missed deliveries"
    ]
    github.trouble = []
    await missed.look()
    assert sorted(github.asked_for()) == ["a", "b", "c"]


async def test_while_github_asks_to_wait_what_is_left_is_asked_for_later(missed: Missed, github: Hook) -> None:
    github.tried("a", ago=2 * MINUTE)
    github.tried("b", ago=MINUTE)
    await missed.read()
    limited = httpx.Response(403, json={"message": "secondary rate limit"}, headers={"retry-after": "3600"})
    github.trouble = [httpx.Response(200, json=[]), limited]
    await missed.look()
    assert github.asked == []
    await missed.look()  # it is not even asked
    assert github.attempts.call_count == 1
    github.now += timedelta(hours=1, seconds=1)
    await missed.look()
    assert github.asked_for() == ["a", "b"]


async def test_the_newest_attempt_at_a_delivery_is_found_while_github_knows_it(app: App, github: Hook) -> None:
    github.page = 2
    github.tried("old", ago=WINDOW + MINUTE)
    github.tried("a", 202, ago=4 * MINUTE)
    for _ in range(4):
        github.tried(status=202)
    found = await find(app, "a", now=NOW, pages=9)
    assert found is not None
    assert found.id == 2
    assert await find(app, "a", now=NOW, pages=2) is None
    assert await find(app, "unheard of", now=NOW, pages=9) is None
    assert await find(app, "too far", now=NOW + WINDOW + MINUTE, pages=9) is None
