"""Limits, conditional calls and faults on demand on the local GitHub, and Apps made from a manifest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from bot.demo.github import EVENTS, MANIFEST, LocalGitHub
from tests.adapters.local_github import NAME, REPO, Clock, app_jwt, call, local_github, token


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def github(tmp_path: Path, clock: Clock) -> AsyncIterator[LocalGitHub]:
    async with local_github(tmp_path, clock) as github:
        yield github


def left(answer: httpx.Response) -> tuple[int, int]:
    return answer.status_code, int(answer.headers["x-ratelimit-remaining"])


async def test_calls_are_counted_and_refused_until_the_hour_is_over(github: LocalGitHub, clock: Clock) -> None:
    credential = await token(github, contents="read")
    first = await call(github, "GET", REPO, credential=credential)
    assert left(first) == (200, 4999)
    assert first.headers["x-ratelimit-limit"] == "5000"
    github.limit_primary(remaining=1, reset_in_s=900)
    assert left(await call(github, "GET", REPO, credential=credential)) == (200, 0)
    refused = await call(github, "GET", REPO, credential=credential)
    assert left(refused) == (403, 0)
    assert "rate limit exceeded" in refused.json()["message"]
    assert int(refused.headers["x-ratelimit-reset"]) == int(clock.now.timestamp()) + 900
    assert (await call(github, "GET", "/app", credential=app_jwt(github))).status_code == 200
    clock.now += timedelta(seconds=901)
    assert left(await call(github, "GET", REPO, credential=credential)) == (200, 4999)


async def test_what_is_known_is_not_sent_again_and_does_not_count(github: LocalGitHub) -> None:
    credential = await token(github, contents="read")
    headers = {"Authorization": f"Bearer {credential}"}
    async with httpx.AsyncClient(trust_env=False, headers=headers) as web:
        first = await web.get(github.api_url + REPO)
        again = await web.get(github.api_url + REPO, headers={"If-None-Match": first.headers["etag"]})
        assert (left(first), left(again), again.content) == ((200, 4999), (304, 4999), b"")
        await github.archive_repository(NAME)
        changed = await web.get(github.api_url + REPO, headers={"If-None-Match": first.headers["etag"]})
        assert left(changed) == (200, 4998)


async def test_too_much_content_is_refused_without_saying_for_how_long(github: LocalGitHub, clock: Clock) -> None:
    credential = await token(github, issues="write", contents="write")
    number = github.open_issue(NAME, title="Broken", author="reporter").number

    async def say() -> httpx.Response:
        return await call(github, "POST", f"{REPO}/issues/{number}/comments", {"body": "x"}, credential=credential)

    github.limit_content(per_minute=2, per_hour=3)
    assert [(await say()).status_code for _ in range(3)] == [201, 201, 403]
    assert (
        await call(github, "POST", f"{REPO}/git/blobs", {"content": "x"}, credential=credential)
    ).status_code == 201
    clock.now += timedelta(seconds=61)
    assert [(await say()).status_code for _ in range(2)] == [201, 403]
    refused = await say()
    assert "secondary rate limit" in refused.json()["message"]
    assert ("retry-after" in refused.headers, left(refused)[1] > 0) == (False, True)
    github.limit_content(per_minute=0, retry_after_s=30)
    assert (await say()).headers["retry-after"] == "30"
    assert len(github.issue_comments(NAME, number)) == 3


async def test_faults_are_given_so_often_as_asked(github: LocalGitHub) -> None:
    credential = await token(github, issues="write")
    number = github.open_issue(NAME, title="Broken", author="reporter").number
    path = f"{REPO}/issues/{number}/comments"
    github.fail("issues/create-comment", 502, "<html>Unicorn!</html>", {"Retry-After": "7"}, times=2)
    for _ in range(2):
        page = await call(github, "POST", path, {"body": "x"}, credential=credential)
        assert (page.status_code, page.text, page.headers["retry-after"]) == (502, "<html>Unicorn!</html>", "7")
        assert page.headers["content-type"].startswith("text/html")
    assert github.issue_comments(NAME, number) == []
    github.fail("issues/create-comment", 502, accepted=True)
    assert (await call(github, "POST", path, {"body": "lost"}, credential=credential)).status_code == 502
    assert [comment.body for comment in github.issue_comments(NAME, number)] == ["lost"]
    assert (await call(github, "POST", path, {"body": "x"}, credential=credential)).status_code == 201
    assert [each.status for each in github.requests][-4:] == [502, 502, 502, 201]


async def test_an_app_is_made_from_a_manifest_once(github: LocalGitHub, clock: Clock) -> None:
    manifest = {
        "name": "My Coder",
        "url": "https://bot.example",
        "hook_attributes": {"url": "http://127.0.0.1:9/hook"},
        "redirect_url": "http://127.0.0.1:9/setup",
        "default_permissions": MANIFEST,
        "default_events": list(EVENTS),
    }
    origin = github.api_url.removesuffix("/api/v3")
    async with httpx.AsyncClient(trust_env=False, base_url=origin) as browser:
        assert (await browser.post("/settings/apps/new", data={"manifest": "{}"})).status_code == 401
        assert (await browser.get(github.door_url)).status_code == 200

        async def code() -> str:
            sent = await browser.post("/settings/apps/new?state=s1", data={"manifest": json.dumps(manifest)})
            back = httpx.URL(sent.headers["location"])
            assert (sent.status_code, back.path, back.params["state"]) == (302, "/setup", "s1")
            return str(back.params["code"])

        assert (await browser.post("/settings/apps/new", data={"manifest": "{}"})).status_code == 422
        assert (await browser.get("/settings/apps/new")).status_code == 405
        first, late = await code(), await code()
    made = await call(github, "POST", f"/app-manifests/{first}/conversions")
    assert (made.status_code, made.json()["slug"], made.json()["permissions"]) == (201, "my-coder", MANIFEST)
    assert (made.json()["pem"], made.json()["webhook_secret"]) == (github.app.private_key, github.app.webhook_secret)
    assert (set(made.json()["events"]), github.webhook_url) == (set(EVENTS), "http://127.0.0.1:9/hook")
    assert (await call(github, "GET", "/app", credential=app_jwt(github))).json()["id"] == made.json()["id"]
    assert (await call(github, "POST", f"/app-manifests/{first}/conversions")).status_code == 404
    clock.now += timedelta(hours=1, seconds=1)
    assert (await call(github, "POST", f"/app-manifests/{late}/conversions")).status_code == 404
