"""What goes over the wire to GitHub, call by call, and what each answer becomes."""

from __future__ import annotations

import asyncio
import base64
import json
import traceback
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import jwt
import pytest
import respx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from bot.domain.briefing import Speaker
from bot.domain.check_run import Annotation, CheckRun
from bot.domain.errors import GitHubError, UserError
from bot.domain.event import Person
from bot.github.auth import App
from bot.github.client import COMMENTS_LIMIT, Commit, Issue, Permission, Pull, Repository, RepositoryInfo, TreeEntry
from bot.github.http import Elsewhere
from bot.github.webhook import GHOST
from bot.pipeline.briefing import Speakers
from tests.adapters.test_pace import Time

API = "https://github.test/api/v3"
REPO = f"{API}/repos/octo/sample"
MINT = f"{API}/app/installations/5/access_tokens"
GIVE_BACK = f"{API}/installation/token"
WRITE = {"contents": "write", "issues": "write"}
APP_ID = 41
A, B, C, T = "a" * 40, "b" * 40, "c" * 40, "d" * 40
ISSUE = {
    "number": 3,
    "title": "It breaks",
    "body": None,
    "user": {"id": 11, "login": "anna", "type": "User"},
    "state": "open",
    "locked": True,
    "comments": 1,
    "updated_at": "2026-11-30T10:00:00Z",
}


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def private_key(rsa_key: rsa.RSAPrivateKey) -> str:
    return pem(rsa_key)


def pem(
    key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey,
    encryption: serialization.KeySerializationEncryption | None = None,
) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, encryption or serialization.NoEncryption()).decode()


class GitHub:
    """A router that knows the token calls: tokens are numbered, and it is written down which were given back."""

    def __init__(self, router: respx.MockRouter) -> None:
        self.router = router
        self.returned: list[str] = []
        self.mint = router.post(MINT).mock(side_effect=self._mint)
        self.give_back = router.delete(GIVE_BACK).mock(side_effect=self._give_back)

    def on(self, method: str, url: str, *answers: httpx.Response | Exception, **params: Any) -> respx.Route:
        return self.router.request(method, url, **params).mock(side_effect=list(answers))

    def _mint(self, request: httpx.Request) -> httpx.Response:
        number = self.mint.call_count + 1
        return httpx.Response(201, json={"token": token(number), "expires_at": "2026-11-30T11:00:00Z"})

    def _give_back(self, request: httpx.Request) -> httpx.Response:
        self.returned.append(request.headers["authorization"].removeprefix("Bearer "))
        return httpx.Response(204)


def token(number: int) -> str:
    return f"ghs_{APP_ID}_{number}{'eyJ-' * 120}"


@pytest.fixture
def github() -> Iterator[GitHub]:
    with respx.mock(assert_all_called=False) as router:
        yield GitHub(router)


@pytest.fixture
def time() -> Time:
    return Time(datetime.now(UTC).replace(microsecond=0))


@pytest.fixture
def slept(time: Time) -> list[float]:
    return time.slept


@pytest.fixture
def app(private_key: str, time: Time, github: GitHub) -> App:
    return App(APP_ID, private_key, API, sleep=time.sleep, clock=time)


def opened(app: App) -> AbstractAsyncContextManager[Repository]:
    return app.repository(5, "octo", "sample", permissions=WRITE)


def ok(body: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=body)


def failed(status: int, message: str = "the vendor's own words", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={"message": message}, headers=named)


def sent(route: respx.Route, call: int = 0) -> Any:
    return json.loads(route.calls[call].request.content)


# Tokens


async def test_a_token_is_asked_for_one_repository_and_given_back(
    app: App, github: GitHub, rsa_key: rsa.RSAPrivateKey
) -> None:
    async with app.token(5, "sample", {"contents": "read"}) as held:
        assert held == token(1)
        assert github.returned == []
    assert github.returned == [token(1)]
    assert sent(github.mint) == {"repositories": ["sample"], "permissions": {"contents": "read"}}
    bearer = github.mint.calls[0].request.headers["authorization"].removeprefix("Bearer ")
    assert jwt.decode(bearer, rsa_key.public_key(), algorithms=["RS256"])["iss"] == str(APP_ID)


async def test_a_repository_can_be_named_by_its_id(app: App, github: GitHub) -> None:
    async with app.token(5, 7, {"contents": "read"}):
        pass
    assert sent(github.mint)["repository_ids"] == [7]


async def test_each_block_has_a_token_of_its_own(app: App, github: GitHub) -> None:
    async with app.token(5, "sample", {"contents": "read"}) as one, app.token(5, "sample", WRITE) as two:
        assert one != two
    assert github.returned == [two, one]


async def test_a_token_is_given_back_when_the_block_fails(app: App, github: GitHub) -> None:
    with pytest.raises(LookupError):
        async with app.token(5, "sample", {"contents": "read"}):
            raise LookupError
    assert github.returned == [token(1)]


async def test_a_token_is_given_back_though_the_task_is_cancelled_and_cancelled_again(
    app: App, github: GitHub
) -> None:
    inside, revoking, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        revoking.set()
        await go_on.wait()
        return github._give_back(request)

    async def work() -> None:
        async with opened(app):
            inside.set()
            await asyncio.Event().wait()

    github.give_back.mock(side_effect=slow)
    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    await revoking.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert github.returned == [token(1)]


@pytest.mark.parametrize("answer", [failed(401), failed(500), httpx.ConnectError("no route")])
async def test_a_token_that_cannot_be_given_back_does_not_spoil_the_work(
    app: App, github: GitHub, answer: httpx.Response | Exception
) -> None:
    github.give_back.mock(side_effect=[answer] * 3)
    async with app.token(5, "sample", {"contents": "read"}) as held:
        assert held
    assert github.give_back.called


async def test_a_token_that_is_refused_names_the_installation(app: App, github: GitHub) -> None:
    github.mint.mock(side_effect=[failed(404)])
    with pytest.raises(GitHubError, match="404 for a token of installation 5 for the repository sample") as caught:
        async with app.token(5, "sample", {"contents": "read"}):
            raise AssertionError("there is no token")
    assert (caught.value.status, caught.value.retryable) == (404, False)
    assert not github.give_back.called


async def test_a_token_that_has_run_out_is_replaced_once_and_the_call_repeated(app: App, github: GitHub) -> None:
    comments = github.on("POST", f"{REPO}/issues/3/comments", failed(401), ok({"id": 9}, 201))
    async with opened(app) as repository:
        assert await repository.create_comment(3, "hello") == 9
    used = [call.request.headers["authorization"] for call in comments.calls]
    assert used == [f"Bearer {token(1)}", f"Bearer {token(2)}"]
    assert sent(github.mint, 0) == sent(github.mint, 1)
    assert github.returned == [token(2), token(1)]


async def test_a_second_refusal_of_the_token_is_an_error(app: App, github: GitHub) -> None:
    comments = github.on("POST", f"{REPO}/issues/3/comments", failed(401), failed(401))
    async with opened(app) as repository:
        with pytest.raises(GitHubError) as caught:
            await repository.create_comment(3, "hello")
    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert (comments.call_count, github.mint.call_count) == (2, 2)


async def test_calls_that_are_refused_together_share_one_new_token(app: App, github: GitHub) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return failed(401) if token(1) in request.headers["authorization"] else ok(ISSUE)

    github.router.get(f"{REPO}/issues/3").mock(side_effect=answer)
    async with opened(app) as repository:
        await asyncio.gather(*(repository.issue(3) for _ in range(5)))
    assert github.mint.call_count == 2
    assert github.returned == [token(2), token(1)]


@pytest.mark.parametrize("answer", [failed(403), failed(500), ok({"id": "no number"}), httpx.ReadError("reset")])
async def test_no_token_and_no_words_of_the_vendor_are_in_an_error(
    app: App, github: GitHub, answer: httpx.Response | Exception
) -> None:
    github.on("POST", f"{REPO}/issues/3/comments", answer)
    with pytest.raises(GitHubError) as caught:
        async with opened(app) as repository:
            await repository.create_comment(3, "hello")
    said = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert token(1) not in said
    assert "ghs_" not in said
    assert "vendor's own words" not in said
    assert github.returned == [token(1)]


async def test_an_answer_that_should_hold_a_token_is_not_shown(app: App, github: GitHub) -> None:
    github.mint.mock(side_effect=[httpx.Response(201, text=f'{{"tokn": "{token(1)}"}}')])
    with pytest.raises(GitHubError) as caught:
        async with app.token(5, "sample", {"contents": "read"}):
            raise AssertionError("there is no token")
    assert "ghs_" not in "".join(traceback.format_exception(caught.value))


def test_a_key_written_in_one_line_is_taken(private_key: str) -> None:
    App(APP_ID, private_key.replace("\n", "\\n"), API)


def test_what_is_no_usable_private_key_is_said_without_showing_it(private_key: str) -> None:
    other_kind = pem(ed25519.Ed25519PrivateKey.generate())
    for key in ("", "nonsense", private_key[:200], private_key.replace("PRIVATE", "PUBLIC"), other_kind):
        with pytest.raises(UserError, match="GITHUB_PRIVATE_KEY is not a PEM private key") as caught:
            App(APP_ID, key, API)
        assert private_key[40:80] not in "".join(traceback.format_exception(caught.value))


def test_a_key_under_a_password_is_refused(rsa_key: rsa.RSAPrivateKey) -> None:
    with pytest.raises(UserError, match="GITHUB_PRIVATE_KEY"):
        App(APP_ID, pem(rsa_key, serialization.BestAvailableEncryption(b"made up")), API)


@pytest.mark.parametrize("address", ["", "api.github.com", "ftp://github.test", "https://", "http://[::1"])
def test_an_address_that_is_none_is_refused(private_key: str, address: str) -> None:
    with pytest.raises(UserError, match="GITHUB_API_URL"):
        App(APP_ID, private_key, address)


# What is tried again


@pytest.mark.parametrize("answer", [failed(502), httpx.ReadTimeout("slow"), httpx.ReadError("reset")])
async def test_what_may_have_been_done_is_not_done_again(
    app: App, github: GitHub, slept: list[float], answer: httpx.Response | Exception
) -> None:
    comments = github.on("POST", f"{REPO}/issues/3/comments", answer)
    async with opened(app) as repository:
        with pytest.raises(GitHubError) as caught:
            await repository.create_comment(3, "hello")
    assert caught.value.retryable
    assert comments.call_count == 1
    assert slept == []


@pytest.mark.parametrize("answer", [failed(502), httpx.ReadTimeout("slow"), httpx.ConnectError("no route")])
async def test_reading_is_tried_again(
    app: App, github: GitHub, slept: list[float], answer: httpx.Response | Exception
) -> None:
    github.on("GET", f"{REPO}/issues/3", answer, answer, ok(ISSUE))
    async with opened(app) as repository:
        assert (await repository.issue(3)).title == "It breaks"
    assert slept == [0.25, 0.5]


async def test_moving_a_branch_is_tried_again(app: App, github: GitHub) -> None:
    moved = github.on("PATCH", f"{REPO}/git/refs/heads/coder/issue-3", failed(502), ok({}))
    async with opened(app) as repository:
        await repository.move_branch("coder/issue-3", A)
    assert [sent(moved, call) for call in range(2)] == [{"sha": A, "force": False}] * 2


async def test_after_three_tries_it_is_left_to_the_engine(app: App, github: GitHub) -> None:
    route = github.on("GET", f"{REPO}/issues/3", *[failed(503)] * 3)
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match=r"^GitHub answered 503 for the issue octo/sample#3\.$") as caught:
            await repository.issue(3)
    assert (caught.value.status, caught.value.retryable, route.call_count) == (503, True, 3)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 410, 422])
async def test_a_refusal_is_final(app: App, github: GitHub, status: int) -> None:
    route = github.on("GET", f"{REPO}/issues/3", failed(status))
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match=f"^GitHub answered {status} for the issue octo/sample#3") as caught:
            await repository.issue(3)
    assert (caught.value.status, caught.value.retryable, route.call_count) == (status, False, 1)


async def test_a_time_out_and_a_lost_connection_have_no_status(app: App, github: GitHub) -> None:
    github.on("GET", f"{REPO}/issues/3", *[httpx.ConnectTimeout("slow")] * 3)
    github.on("GET", f"{REPO}/issues/4", *[httpx.ConnectError("no route")] * 3)
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match="did not answer in time for the issue octo/sample#3") as slow:
            await repository.issue(3)
        with pytest.raises(GitHubError, match="could not be reached for the issue octo/sample#4") as lost:
            await repository.issue(4)
    assert (slow.value.status, slow.value.retryable) == (None, True)
    assert (lost.value.status, lost.value.retryable) == (None, True)


# Rate limits


@pytest.mark.parametrize("status", [403, 429])
async def test_a_short_rate_limit_is_waited_for_also_when_writing(
    app: App, github: GitHub, slept: list[float], status: int
) -> None:
    github.on("POST", f"{REPO}/issues/3/comments", failed(status, retry_after="30"), ok({"id": 9}, 201))
    async with opened(app) as repository:
        assert await repository.create_comment(3, "hello") == 9
    assert slept == [30]


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    return format_datetime(NOON + timedelta(seconds=seconds), usegmt=True)


SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
USED_UP = {"x_ratelimit_remaining": "0", "date": at(0)}
WHOA = httpx.Response(403, html="<html><h1>Whoa there!</h1><p>You have exceeded a secondary rate limit.</p></html>")


@pytest.mark.parametrize(
    ("answer", "wait_s"),
    [
        (failed(429, retry_after="31"), 31),
        (failed(403, retry_after="31"), 31),
        (failed(429), 60),
        (failed(403, SECONDARY, x_ratelimit_remaining="4771"), 60),
        (failed(403, "You have triggered an abuse detection mechanism."), 60),
        (failed(422, "Validation Failed: was submitted too quickly"), 60),
        (WHOA, 60),
        (failed(429, retry_after=at(45), date=at(0)), 45),  # whatever our own clock says
        (failed(429, retry_after="soon"), 60),
        (failed(429, retry_after="-5"), 60),
        (failed(429, retry_after="1e3"), 60),
        (failed(429, retry_after="9" * 30), 60),
        (failed(429, retry_after="999999999"), 86_400),
        (failed(429, retry_after=at(1e8), date=at(0)), 86_400),
        (failed(403, "API rate limit exceeded", x_ratelimit_reset=str(int(NOON.timestamp()) + 900), **USED_UP), 901),
        (failed(403, "No words", x_ratelimit_reset=str(int(NOON.timestamp()) + 900), **USED_UP), 901),
        (failed(403, "API rate limit exceeded", x_ratelimit_reset="9" * 12, **USED_UP), 3600),
        (failed(403, "API rate limit exceeded", x_ratelimit_reset="later", **USED_UP), 60),
        (failed(403, "API rate limit exceeded"), 60),  # a proxy has taken the headers away
    ],
)
async def test_a_longer_rate_limit_is_the_engines_to_wait_and_is_no_missing_permission(
    app: App, github: GitHub, slept: list[float], answer: httpx.Response, wait_s: float
) -> None:
    github.on("GET", f"{REPO}/collaborators/bert/permission", answer)
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match="rate limit") as caught:
            await repository.permission("bert")
    assert (caught.value.retryable, caught.value.retry_after_s, slept) == (True, wait_s, [])


@pytest.mark.parametrize(
    "answer",
    [failed(429, retry_after="0"), failed(403, x_ratelimit_reset=str(int(NOON.timestamp()) - 9), **USED_UP)],
)
async def test_a_limit_that_is_over_already_is_waited_for_a_little(
    app: App, github: GitHub, slept: list[float], answer: httpx.Response
) -> None:
    github.on("GET", f"{REPO}/issues/3", answer, answer, ok(ISSUE))
    async with opened(app) as repository:
        await repository.issue(3)
    assert slept == [1, 2]


async def test_the_last_call_of_an_hour_may_be_refused_for_a_reason_of_its_own(app: App, github: GitHub) -> None:
    reset = str(int(NOON.timestamp()) + 900)
    refused = failed(403, "Resource not accessible by integration", x_ratelimit_reset=reset, **USED_UP)
    github.on("GET", f"{REPO}/collaborators/bert/permission", refused)
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match="lacks a permission") as caught:
            await repository.permission("bert")
    assert not caught.value.retryable


async def test_until_the_time_is_over_nobody_of_the_installation_asks_anything_and_others_do(
    app: App, github: GitHub, time: Time
) -> None:
    github.router.post(f"{API}/app/installations/6/access_tokens").mock(ok({"token": token(100)}, 201))
    route = github.on("GET", f"{REPO}/issues/3", failed(429, retry_after="900"), ok(ISSUE), ok(ISSUE))
    github.on("GET", f"{REPO}/issues/4", ok(ISSUE), ok(ISSUE))
    async with opened(app) as one, opened(app) as two:
        with pytest.raises(GitHubError):
            await one.issue(3)
        asked = len(github.router.calls)
        time.now += timedelta(seconds=600)
        for another in (one.issue(3), one.issue(4), two.create_comment(3, "hello")):
            with pytest.raises(GitHubError, match=r"holds up .* for 300 seconds") as caught:
                await another
            assert (caught.value.retryable, caught.value.retry_after_s) == (True, 300)
        with pytest.raises(GitHubError, match="holds up a token of installation 5"):
            await opened(app).__aenter__()
        assert len(github.router.calls) == asked
        async with app.repository(6, "octo", "sample", permissions=WRITE) as theirs:
            await theirs.issue(3)
        time.now += timedelta(seconds=280)
        await two.issue(4)  # the last twenty seconds are waited for here
        await one.issue(3)
    assert time.slept == [20]
    assert route.call_count == 3


async def test_a_token_that_could_not_be_given_back_for_a_limit_is_given_back_with_the_next(
    app: App, github: GitHub, time: Time
) -> None:
    github.on("GET", f"{REPO}/issues/3", failed(429, retry_after="900"), ok(ISSUE))
    with pytest.raises(GitHubError):
        async with opened(app) as repository:
            await repository.issue(3)
    assert not github.give_back.called
    time.now += timedelta(seconds=900)
    async with opened(app) as repository:
        await repository.issue(3)
    assert sorted(github.returned) == sorted([token(1), token(2)])


async def test_a_limit_on_tokens_holds_up_the_app_itself_and_not_its_open_work(
    app: App, github: GitHub, time: Time
) -> None:
    mint = github.mint.side_effect
    github.on("GET", f"{REPO}/issues/3", ok(ISSUE))
    async with opened(app) as repository:
        github.mint.mock(side_effect=[failed(403, SECONDARY)])
        for _ in range(2):
            with pytest.raises(GitHubError, match="a token of installation 5") as caught:
                await opened(app).__aenter__()
            assert (caught.value.retryable, caught.value.retry_after_s) == (True, 60)
        with pytest.raises(GitHubError, match="holds up the App itself"):
            await app.login()
        await repository.issue(3)
    assert github.mint.call_count == 2
    time.now += timedelta(seconds=60)
    github.mint.mock(side_effect=mint)
    async with opened(app):
        pass


async def test_three_refusals_without_a_time_are_waited_for_longer_each_time_though_reading_goes_well(
    app: App, github: GitHub, time: Time
) -> None:
    """As the engine would: it comes again when it was told to, and looks first whether its comment is there."""
    refused = [failed(403, SECONDARY, x_ratelimit_remaining="4771") for _ in range(3)]
    route = github.on("POST", f"{REPO}/issues/3/comments", *refused, ok({"id": 9}, 201), failed(429))
    conversation(github, [])
    waits: list[float | None] = []
    async with opened(app) as repository:
        while True:
            try:
                assert await repository.find_comment(3, "marker") is None
                assert await repository.create_comment(3, "hello") == 9
                break
            except GitHubError as exc:
                waits.append(exc.retry_after_s)
                time.now += timedelta(seconds=exc.retry_after_s or 0)
        assert waits == [60, 120, 240]
        assert route.call_count == 4
        with pytest.raises(GitHubError) as caught:
            await repository.create_comment(3, "again")
        assert caught.value.retry_after_s == 60, "a success is the end of it"


async def test_comments_are_held_back_before_github_has_to_refuse_them_and_blobs_are_not(
    app: App, github: GitHub, time: Time
) -> None:
    route = github.router.post(f"{REPO}/issues/3/comments").mock(ok({"id": 9}, 201))
    github.router.post(f"{REPO}/git/blobs").mock(ok({"sha": B}, 201))
    async with opened(app) as one, opened(app) as two:
        for number in range(75):
            await (one, two)[number % 2].create_comment(3, "hello")
        for _ in range(200):
            await one.create_blob(b"")
        with pytest.raises(GitHubError) as caught:
            await two.create_comment(3, "one too many")
    assert (caught.value.retryable, caught.value.retry_after_s) == (True, 60)
    assert (route.call_count, time.slept) == (75, [])


async def test_a_missing_permission_of_the_app_is_said_in_our_words(app: App, github: GitHub) -> None:
    github.on("POST", f"{REPO}/issues/3/comments", failed(403, "Resource not accessible by integration"))
    async with opened(app) as repository:
        with pytest.raises(GitHubError) as caught:
            await repository.create_comment(3, "hello")
    assert str(caught.value) == (
        "GitHub answered 403 for a comment on octo/sample#3: the App lacks a permission for it."
    )
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("status", "theirs", "ours"),
    [
        (403, "Unable to create comment because issue is locked.", "the conversation is locked"),
        (403, "Repository was archived so is read-only.", "the repository is archived"),
        (422, "Reference already exists", "it exists already"),
    ],
)
async def test_refusals_people_can_mend_are_told_apart(
    app: App, github: GitHub, status: int, theirs: str, ours: str
) -> None:
    github.on("POST", f"{REPO}/git/refs", failed(status, theirs))
    async with opened(app) as repository:
        with pytest.raises(GitHubError) as caught:
            await repository.create_branch("x", A)
    assert str(caught.value) == f"GitHub answered {status} for a new branch `x` in octo/sample: {ours}."


# Answers that are something else


@pytest.mark.parametrize("body", [b"", b"[]", b'{"number": 3}', b"\xff", b"[" * 9999])
async def test_an_answer_of_another_shape_is_our_error(app: App, github: GitHub, body: bytes) -> None:
    github.on("GET", f"{REPO}/issues/3", httpx.Response(200, content=body))
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match="answer for the issue octo/sample#3 is not the JSON") as caught:
            await repository.issue(3)
    assert not caught.value.retryable


NO_JSON = "answer for .* is a web page, not the JSON"


@pytest.mark.parametrize("status", [200, 401, 403, 404])
async def test_a_web_page_is_no_answer_whatever_its_status(
    app: App, github: GitHub, slept: list[float], status: int
) -> None:
    """Above all, a proxy's 404 does not say that somebody has no permission or that a branch is not there."""
    page = httpx.Response(status, html="<!DOCTYPE html><html>Blocked by your company</html>")
    github.on("GET", f"{REPO}/collaborators/bert/permission", page, page, page)
    github.on("GET", f"{REPO}/git/ref/heads/x", page, page, page)
    route = github.on("POST", f"{REPO}/issues/3/comments", page)
    async with opened(app) as repository:
        for call in (repository.permission("bert"), repository.branch("x"), repository.create_comment(3, "hello")):
            with pytest.raises(GitHubError, match=NO_JSON) as caught:
                await call
            assert (caught.value.retryable, caught.value.status) == (True, None)
    assert (route.call_count, github.mint.call_count) == (1, 1)
    assert slept == [0.25, 0.5] * 2


async def test_githubs_own_page_for_an_outage_is_an_outage(app: App, github: GitHub) -> None:
    github.on("GET", f"{REPO}/issues/3", *[httpx.Response(502, html="<html>Unicorn!</html>")] * 3)
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match=r"^GitHub answered 502 for the issue octo/sample#3\.$") as caught:
            await repository.issue(3)
    assert (caught.value.retryable, caught.value.status) == (True, 502)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("place", [f"{API}/repositories/7/issues/3", "/api/v3/repositories/7/issues/3"])
async def test_a_renamed_repository_is_followed_when_reading(
    app: App, github: GitHub, status: int, place: str
) -> None:
    github.on("GET", f"{REPO}/issues/3", httpx.Response(status, headers={"Location": place}))
    there = github.on("GET", f"{API}/repositories/7/issues/3", ok(ISSUE))
    async with opened(app) as repository:
        assert (await repository.issue(3)).number == 3
    assert there.calls[0].request.headers["authorization"] == f"Bearer {token(1)}"


@pytest.mark.parametrize(
    ("there", "is_safe"),
    [
        ("https://evil.test/issue", True),
        ("https://github.test:444/x", True),
        ("https://github.test/login", True),  # of the same server, but not of its API
        ("http://github.test/x", False),
    ],
)
async def test_nobody_else_is_asked_because_of_a_redirect(
    app: App, github: GitHub, there: str, is_safe: bool
) -> None:
    github.on("GET", f"{REPO}/issues/3", httpx.Response(301, headers={"Location": there}))
    github.on("POST", f"{REPO}/issues/3/comments", httpx.Response(308, headers={"Location": there}))
    asked = github.router.route(url=there).mock(ok(ISSUE))
    async with opened(app) as repository:
        for call in (repository.issue(3), repository.create_comment(3, "hello")):
            with pytest.raises(Elsewhere, match=r"redirects .* to another server") as caught:
                await call
            assert (caught.value.retryable, caught.value.address) == (False, there if is_safe else None)
    assert not asked.called


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_write_is_not_redirected_and_may_be_tried_again_under_the_new_name(
    app: App, github: GitHub, slept: list[float], status: int
) -> None:
    there = f"{API}/repositories/7/issues"
    answer = httpx.Response(status, headers={"Location": there})
    comment = github.on("POST", f"{REPO}/issues/3/comments", answer)
    edit = github.on("PATCH", f"{REPO}/issues/comments/9", answer)
    asked = github.router.route(url=there).mock(ok({"id": 9}))
    async with opened(app) as repository:
        for call in (repository.create_comment(3, "hello"), repository.update_comment(9, "hello")):
            with pytest.raises(GitHubError, match="renamed") as caught:
                await call
            assert (caught.value.retryable, caught.value.status) == (True, 301)
    assert (comment.call_count, edit.call_count, asked.called, slept) == (1, 1, False, [])


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Location": f"{REPO}/issues/3"}, "redirects the issue octo/sample#3 again and again"),
        ({}, "GitHub answered 301 for the issue"),
    ],
)
async def test_a_redirect_to_nowhere_ends(app: App, github: GitHub, headers: dict[str, str], said: str) -> None:
    route = github.router.get(f"{REPO}/issues/3").mock(httpx.Response(301, headers=headers))
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match=said) as caught:
            await repository.issue(3)
    assert not caught.value.retryable
    assert route.call_count <= 4


# Reading


@pytest.mark.parametrize(
    ("level", "role", "allowed"),
    [
        ("admin", "admin", {"write", "maintain", "admin"}),
        ("write", "maintain", {"write", "maintain"}),
        ("write", "write", {"write"}),
        ("write", "release-manager", {"write"}),
        ("read", "triage", set()),
        ("read", "maintain", set()),
        ("none", "none", set()),
    ],
)
async def test_a_permission_allows_what_its_level_does(
    app: App, github: GitHub, level: str, role: str, allowed: set[str]
) -> None:
    github.on("GET", f"{REPO}/collaborators/bert/permission", ok({"permission": level, "role_name": role}))
    async with opened(app) as repository:
        permission = await repository.permission("bert")
    assert (permission.level, permission.role) == (level, role)
    assert {wanted for wanted in ("write", "maintain", "admin") if permission.allows(wanted)} == allowed


async def test_somebody_github_does_not_know_may_do_nothing(app: App, github: GitHub) -> None:
    route = github.on("GET", f"{REPO}/collaborators/helper%5Bbot%5D/permission", failed(404))
    async with opened(app) as repository:
        assert await repository.permission("helper[bot]") == Permission(level="none", role="none")
    assert route.called


async def test_a_permission_that_cannot_be_asked_for_is_not_given(app: App, github: GitHub) -> None:
    github.on("GET", f"{REPO}/collaborators/bert/permission", *[failed(500)] * 3)
    github.on("GET", f"{REPO}/collaborators/carl/permission", ok({"permission": "owner"}))
    async with opened(app) as repository:
        with pytest.raises(GitHubError) as caught:
            await repository.permission("bert")
        with pytest.raises(GitHubError):
            await repository.permission("carl")
    assert caught.value.retryable


async def test_a_name_that_would_lead_elsewhere_is_not_asked_for(app: App, github: GitHub) -> None:
    async with opened(app) as repository:
        for login in ("..", ".", ""):
            with pytest.raises(UserError):
                await repository.permission(login)
        route = github.on("GET", f"{REPO}/collaborators/..%2F..%2Fuser/permission", failed(404))
        await repository.permission("../../user")
    assert route.called


async def test_an_issue_and_the_repository_are_read(app: App, github: GitHub) -> None:
    described = {"id": 7, "full_name": "octo/sample", "default_branch": "main", "clone_url": "https://x.test/r.git"}
    github.on("GET", REPO, ok({**described, "private": True, "archived": False, "size": 4}))
    github.on("GET", f"{REPO}/issues/3", ok(ISSUE))
    async with opened(app) as repository:
        assert await repository.info() == RepositoryInfo(
            id=7,
            full_name="octo/sample",
            default_branch="main",
            clone_url="https://x.test/r.git",
            private=True,
            archived=False,
        )
        assert await repository.issue(3) == Issue(
            number=3,
            title="It breaks",
            body="",
            author=Person(id=11, login="anna", is_bot=False),
            state="open",
            locked=True,
            updated_at=datetime(2026, 11, 30, 10, tzinfo=UTC),
        )


async def test_a_branch_is_found_with_its_tree_or_is_none(app: App, github: GitHub) -> None:
    github.on("GET", f"{REPO}/git/ref/heads/coder/issue-3", ok({"ref": "x", "object": {"sha": A}}))
    github.on("GET", f"{REPO}/git/ref/heads/coder", failed(404), failed(404))
    github.on("GET", f"{REPO}/git/commits/{A}", ok({"sha": A, "tree": {"sha": T}}))
    async with opened(app) as repository:
        assert await repository.head("coder/issue-3") == Commit(sha=A, tree=T)
        assert await repository.branch("coder") is None
        with pytest.raises(GitHubError, match="404 for the branch `coder` of octo/sample"):
            await repository.head("coder")


async def test_branches_are_found_by_how_their_names_begin(app: App, github: GitHub) -> None:
    found = [
        {"ref": "refs/heads/coder/issue-3", "object": {"sha": A}},
        {"ref": "refs/heads/coder/issue-31", "object": {"sha": B}},
    ]
    github.on("GET", f"{REPO}/git/matching-refs/heads/coder/issue-3", ok(found), ok([]))
    async with opened(app) as repository:
        assert await repository.branches("coder/issue-3") == {"coder/issue-3": A, "coder/issue-31": B}
        assert await repository.branches("coder/issue-3") == {}


def tree(*entries: tuple[str, str, str], truncated: bool = False) -> httpx.Response:
    listed = [{"path": path, "mode": mode, "sha": sha, "size": 12} for path, mode, sha in entries]
    return ok({"sha": T, "tree": listed, "truncated": truncated})


async def test_a_file_is_read_at_a_commit(app: App, github: GitHub) -> None:
    github.on("GET", f"{REPO}/git/trees/{A}", tree(("README", "100644", C), (".github", "040000", B)))
    github.on("GET", f"{REPO}/git/trees/{B}", tree(("a b.yml", "100755", C)))
    content = {"type": "file", "encoding": "base64", "content": base64.encodebytes(b"caf\xc3\xa9\r\n" * 20).decode()}
    github.on("GET", f"{REPO}/contents/.github/a%20b.yml?ref={A}", ok(content))
    async with opened(app) as repository:
        assert await repository.read_file(".github/a b.yml", A) == b"caf\xc3\xa9\r\n" * 20


@pytest.mark.parametrize("path", ["missing", ".github/missing", "missing/coder.yml", "README/coder.yml"])
async def test_a_file_that_is_not_there_is_none(app: App, github: GitHub, path: str) -> None:
    github.router.get(f"{REPO}/git/trees/{A}").mock(tree(("README", "100644", C), (".github", "040000", B)))
    github.router.get(f"{REPO}/git/trees/{B}").mock(tree(("other", "100644", C)))
    async with opened(app) as repository:
        assert await repository.read_file(path, A) is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (".github", "`.github` in octo/sample is a folder"),
        ("link", "`link` in octo/sample is a symbolic link"),
        ("link/coder.yml", "`link` in octo/sample is a symbolic link"),
        ("sub", "`sub` in octo/sample is a submodule"),
        (".github/link", "`.github/link` in octo/sample is a symbolic link"),
    ],
)
async def test_what_is_no_regular_file_is_named(app: App, github: GitHub, path: str, said: str) -> None:
    entries = ((".github", "040000", B), ("link", "120000", C), ("sub", "160000", C))
    github.router.get(f"{REPO}/git/trees/{A}").mock(tree(*entries))
    github.router.get(f"{REPO}/git/trees/{B}").mock(tree(("link", "120000", C)))
    async with opened(app) as repository:
        with pytest.raises(UserError, match=said):
            await repository.read_file(path, A)


async def test_a_file_that_is_too_large_or_out_of_sight_is_not_taken_for_a_missing_one(
    app: App, github: GitHub
) -> None:
    large = {"path": "large", "mode": "100644", "sha": C, "size": 5_000_000}
    github.router.get(f"{REPO}/git/trees/{A}").mock(ok({"tree": [large], "truncated": True}))
    async with opened(app) as repository:
        with pytest.raises(UserError, match="`large` in octo/sample is larger than 1,000,000 bytes"):
            await repository.read_file("large", A)
        with pytest.raises(GitHubError, match="not complete"):
            await repository.read_file("hidden", A)


async def test_a_file_of_a_commit_that_is_not_there_is_an_error(app: App, github: GitHub) -> None:
    github.on("GET", f"{REPO}/git/trees/{A}", failed(404))
    async with opened(app) as repository:
        with pytest.raises(GitHubError, match="404"):
            await repository.read_file("README", A)


# Comments


def comment(
    id: int, *, body: str | None = "text", login: str | None = "anna", kind: str = "User", via: int | None = None
) -> dict[str, Any]:
    return {
        "id": id,
        "body": body,
        "user": {"id": 11, "login": login, "type": kind} if login else None,
        "created_at": "2026-11-30T10:00:00Z",
        "updated_at": "2026-11-30T10:00:05Z",
        "performed_via_github_app": {"id": via, "slug": "coder-bot"} if via else None,
    }


def conversation(github: GitHub, comments: list[dict[str, Any]]) -> respx.Route:
    def page(request: httpx.Request) -> httpx.Response:
        size, number = int(request.url.params["per_page"]), int(request.url.params["page"])
        return ok(comments[(number - 1) * size : number * size])

    github.router.get(f"{REPO}/issues/3").mock(ok({**ISSUE, "comments": len(comments)}))
    return github.router.get(f"{REPO}/issues/3/comments").mock(side_effect=page)


@pytest.mark.parametrize(("count", "pages"), [(0, 1), (1, 1), (99, 1), (100, 2), (250, 3)])
async def test_comments_come_from_all_pages(app: App, github: GitHub, count: int, pages: int) -> None:
    route = conversation(github, [comment(number) for number in range(count)])
    async with opened(app) as repository:
        found = await repository.comments(3)
    assert [item.id for item in found] == list(range(count))
    assert route.call_count == pages


async def test_of_a_very_long_conversation_the_newest_comments_are_read(app: App, github: GitHub) -> None:
    route = conversation(github, [comment(number) for number in range(1234)])
    async with opened(app) as repository:
        found = await repository.comments(3)
    assert [item.id for item in found] == list(range(700, 1234))
    assert len(found) >= COMMENTS_LIMIT
    assert route.call_count == 6


async def test_a_comment_without_text_or_author_is_still_one(app: App, github: GitHub) -> None:
    conversation(github, [comment(1, body=None, login=None)])
    async with opened(app) as repository:
        (found,) = await repository.comments(3)
    assert (found.body, found.author, found.by_this_app) == ("", GHOST, False)


@pytest.mark.parametrize("said", [None, "yesterday", "2026-11-30T10:00:00", 7, "7"])
async def test_a_time_that_is_none_is_no_time(app: App, github: GitHub, said: object) -> None:
    conversation(github, [{**comment(1), "created_at": said}, {**comment(2), "updated_at": said}])
    async with opened(app) as repository:
        first, second = await repository.comments(3)
    assert (first.created_at, second.updated_at) == (None, None)
    assert first.updated_at == datetime(2026, 11, 30, 10, 0, 5, tzinfo=UTC)


async def test_the_paths_of_a_commit_are_those_of_its_regular_files(app: App, github: GitHub) -> None:
    modes = {"a/x": "100644", "run": "100755", "a": "040000", "link": "120000", "module": "160000"}
    tree = [{"path": path, "mode": mode, "sha": B, "type": "blob"} for path, mode in modes.items()]
    github.on("GET", f"{REPO}/git/trees/{A}", ok({"tree": tree, "truncated": True}), params={"recursive": "1"})
    async with opened(app) as repository:
        assert await repository.paths(A) == ("a/x", "run")


@pytest.mark.parametrize(
    ("answer", "permission"),
    [
        (ok({"permission": "write", "role_name": "maintain", "user": {"id": 11, "login": "anna"}}), "write"),
        (ok({"permission": "admin", "user": {"id": 12, "login": "anna"}}), "none"),  # somebody took the old name
        (failed(404), "none"),
        (failed(403), "none"),
        (ok({"permission": "root"}), "none"),
    ],
)
async def test_whose_permission_is_not_known_for_sure_has_none_and_is_asked_about_once(
    app: App, github: GitHub, answer: httpx.Response, permission: str
) -> None:
    conversation(github, [comment(1), comment(2)])
    route = github.on("GET", f"{REPO}/collaborators/anna/permission", answer)
    async with opened(app) as repository:
        speakers = Speakers(repository)
        found = [await speakers.of(one) for one in await repository.comments(3)]
    assert found == [Speaker(login="anna", permission=permission)] * 2  # type: ignore[arg-type]  # a table's text
    assert route.call_count == 1


async def test_only_the_apps_own_comment_is_found_by_its_marker(app: App, github: GitHub) -> None:
    marked = "hello <!-- coder-bot:task=1 -->"
    conversation(
        github,
        [
            comment(1, body=marked),
            comment(2, body=marked, via=APP_ID),  # a person, through the App with a token of their own
            comment(3, body=marked, login="other[bot]", kind="Bot", via=99),
            comment(4, body=f"{marked} was printed by a test", login="coder-bot[bot]", kind="Bot", via=APP_ID),
            comment(5, body=marked, login="coder-bot[bot]", kind="Bot", via=APP_ID),
        ],
    )
    async with opened(app) as repository:
        assert await repository.find_comment(3, "<!-- coder-bot:task=1 -->") == 5
        assert await repository.find_comment(3, "<!-- coder-bot:task=2 -->") is None


async def test_where_github_names_no_app_the_bots_own_account_decides(app: App, github: GitHub) -> None:
    me = github.on("GET", f"{API}/app", ok({"id": APP_ID, "slug": "coder-bot"}))
    conversation(
        github,
        [
            comment(1, login="coder-bot[bot]"),
            comment(2, login="other[bot]", kind="Bot"),
            comment(3, login="coder-bot[bot]", kind="Bot"),
        ],
    )
    async with opened(app) as repository:
        assert [item.by_this_app for item in await repository.comments(3)] == [False, False, True]
        assert await repository.find_comment(3, "text") == 3
    assert me.call_count == 1


async def test_comments_and_reactions_are_written(app: App, github: GitHub) -> None:
    made = github.on("POST", f"{REPO}/issues/3/comments", ok({"id": 9}, 201))
    edited = github.on("PATCH", f"{REPO}/issues/comments/9", ok({"id": 9}))
    reacted = github.on("POST", f"{REPO}/issues/comments/9/reactions", ok({"id": 1}))
    async with opened(app) as repository:
        assert await repository.create_comment(3, "one") == 9
        await repository.update_comment(9, "two")
        await repository.react(9, "eyes")
    assert [sent(made), sent(edited), sent(reacted)] == [{"body": "one"}, {"body": "two"}, {"content": "eyes"}]


# Writing


async def test_a_change_is_built_from_objects_and_the_commit_names_nobody(app: App, github: GitHub) -> None:
    blob = github.on("POST", f"{REPO}/git/blobs", ok({"sha": B}, 201))
    made = github.on("POST", f"{REPO}/git/trees", ok({"sha": T}, 201))
    answer = {"sha": C, "tree": {"sha": T}, "parents": [{"sha": A}]}
    commit = github.on("POST", f"{REPO}/git/commits", ok(answer, 201))
    branch = github.on("POST", f"{REPO}/git/refs", ok({}, 201))
    async with opened(app) as repository:
        assert await repository.create_blob(b"\0\xff") == B
        entries = [
            TreeEntry(path="bin", mode="100755", sha=B),
            TreeEntry(path="link", mode="120000", content="bin"),
            TreeEntry(path="gone", mode=None),
        ]
        assert await repository.create_tree(A, entries) == T
        assert await repository.create_commit("Fix it", T, [A]) == Commit(sha=C, tree=T, parents=(A,))
        await repository.create_branch("coder/issue-3", C)
    assert sent(blob) == {"content": base64.b64encode(b"\0\xff").decode(), "encoding": "base64"}
    assert sent(made) == {
        "base_tree": A,
        "tree": [
            {"path": "bin", "mode": "100755", "type": "blob", "sha": B},
            {"path": "link", "mode": "120000", "type": "blob", "content": "bin"},
            {"path": "gone", "mode": "100644", "type": "blob", "sha": None},
        ],
    }
    assert sent(commit) == {"message": "Fix it", "tree": T, "parents": [A]}
    assert sent(branch) == {"ref": "refs/heads/coder/issue-3", "sha": C}


async def test_a_branch_that_somebody_moved_is_told_apart(app: App, github: GitHub) -> None:
    github.on("PATCH", f"{REPO}/git/refs/heads/coder/issue-3", failed(422, "Update is not a fast forward"))
    async with opened(app) as repository:
        with pytest.raises(GitHubError) as caught:
            await repository.move_branch("coder/issue-3", A)
    assert str(caught.value) == (
        "GitHub answered 422 for moving the branch `coder/issue-3` of octo/sample: the branch has moved."
    )
    assert (caught.value.status, caught.value.retryable) == (422, False)


async def test_a_branch_is_deleted(app: App, github: GitHub) -> None:
    route = github.on("DELETE", f"{REPO}/git/refs/heads/coder/issue-3", httpx.Response(204))
    async with opened(app) as repository:
        await repository.delete_branch("coder/issue-3")
    assert route.called


def pull(number: int, branch: str, repo: int | None) -> dict[str, Any]:
    return {
        "number": number,
        "html_url": f"https://github.test/octo/sample/pull/{number}",
        "title": "Fix it",
        "body": None,
        "draft": True,
        "state": "open",
        "head": {"ref": branch, "sha": A, "repo": {"id": repo} if repo else None},
        "base": {"ref": "main", "sha": B, "repo": {"id": 7}},
    }


MINE = Pull(
    number=6,
    url="https://github.test/octo/sample/pull/6",
    title="Fix it",
    body="",
    is_draft=True,
    head_sha=A,
    head_branch="coder/issue-3",
    base="main",
    state="open",
    is_from_fork=False,
)


async def test_the_pull_request_of_a_branch_is_found_but_not_a_forks(app: App, github: GitHub) -> None:
    mine = [
        pull(4, "coder/issue-3", 8),
        pull(5, "coder/issue-3", None),
        pull(2, "coder/issue-31", 7),
        pull(6, "coder/issue-3", 7),
    ]
    route = github.on("GET", f"{REPO}/pulls", ok(mine), ok(mine[:3]))
    async with opened(app) as repository:
        assert await repository.find_pull("coder/issue-3") == MINE
        assert await repository.find_pull("coder/issue-3") is None
    assert dict(route.calls[0].request.url.params) == {"state": "open", "head": "octo:coder/issue-3"}


async def test_a_pull_request_is_opened_and_kept_up_to_date(app: App, github: GitHub) -> None:
    made = github.on("POST", f"{REPO}/pulls", ok(pull(6, "coder/issue-3", 7), 201))
    github.on("GET", f"{REPO}/pulls/6", ok(pull(6, "coder/issue-3", 7)))
    edited = github.on("PATCH", f"{REPO}/pulls/6", ok({}))
    labelled = github.on("POST", f"{REPO}/issues/6/labels", ok([]))
    asked = github.on("POST", f"{REPO}/pulls/6/requested_reviewers", ok({}, 201))
    async with opened(app) as repository:
        assert await repository.create_pull(title="t", body="b", head="coder/issue-3", base="main") == MINE
        assert await repository.pull(6) == MINE
        await repository.update_pull(6, body="c")
        await repository.add_labels(6, ("coder",))
        await repository.request_reviewers(6, ("anna",))
    assert sent(made) == {"title": "t", "body": "b", "head": "coder/issue-3", "base": "main", "draft": False}
    assert sent(edited) == {"body": "c"}
    assert (sent(labelled), sent(asked)) == ({"labels": ["coder"]}, {"reviewers": ["anna"]})


def reported(*annotations: Annotation) -> CheckRun:
    return CheckRun(
        external_id="t/1/x",
        conclusion="failure",
        title="Unverified",
        summary="s",
        text="t",
        annotations=annotations,
    )


def word(line: int) -> Annotation:
    return Annotation(path="a.py", start=line, end=line + 1, level="warning", title="w", message="m")


def known(number: int, name: str, count: int, app: int = APP_ID) -> dict[str, Any]:
    return {"id": number, "external_id": name, "output": {"annotations_count": count}, "app": {"id": app}}


async def test_a_check_run_is_made_with_its_annotations_fifty_at_a_time(app: App, github: GitHub) -> None:
    theirs = [known(1, "t/1/x", 0, app=APP_ID + 1), known(2, "t/0/y", 0)]
    listed = github.on("GET", f"{REPO}/commits/{A}/check-runs", ok({"check_runs": theirs}))
    made = github.on("POST", f"{REPO}/check-runs", ok(known(9, "t/1/x", 50), 201))
    more = github.on("PATCH", f"{REPO}/check-runs/9", ok({}), ok({}))
    async with opened(app) as repository:
        await repository.report(A, "coder", reported(*map(word, range(1, 121))))
    assert dict(listed.calls[0].request.url.params) == {"check_name": "coder", "filter": "all", "per_page": "100"}
    bodies = [json.loads(call.request.content) for route in (made, more) for call in route.calls]
    assert [len(body["output"]["annotations"]) for body in bodies] == [50, 50, 20]
    lines = [each["start_line"] for body in bodies for each in body["output"]["annotations"]]
    assert lines == list(range(1, 121))
    first = bodies[0]["output"].pop("annotations")[0]
    assert first == {
        "path": "a.py",
        "start_line": 1,
        "end_line": 2,
        "annotation_level": "warning",
        "title": "w",
        "message": "m",
    }
    assert bodies[0] == {
        "name": "coder",
        "head_sha": A,
        "external_id": "t/1/x",
        "status": "completed",
        "conclusion": "failure",
        "output": {"title": "Unverified", "summary": "s", "text": "t"},
    }


@pytest.mark.parametrize(("there", "sent_anew"), [(0, 3), (2, 1), (3, 0)])
async def test_a_check_run_that_is_there_is_brought_up_to_date(
    app: App, github: GitHub, there: int, sent_anew: int
) -> None:
    github.on("GET", f"{REPO}/commits/{A}/check-runs", ok({"check_runs": [known(9, "t/1/x", there)]}))
    edited = github.on("PATCH", f"{REPO}/check-runs/9", ok({}))
    async with opened(app) as repository:
        await repository.report(A, "coder", reported(word(1), word(2), word(3)))
    assert len(sent(edited)["output"]["annotations"]) == sent_anew
