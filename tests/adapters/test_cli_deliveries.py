"""Deliveries as the database keeps them and as an operator sees them, and having one tried again."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.db.store import Store
from bot.domain.event import Closed, Commented, Event, Ignored, Person, Repository
from bot.domain.task import Stage
from tests.adapters.test_cli import coder_bot, last_json
from tests.stories.harness import REPOSITORY, Story, story
from tests.stories.mortal import environment

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ANNA = Person(id=11, login="anna", is_bot=False)
HOME = Repository(id=1, owner="octo", name="sample", default_branch="main", clone_url="https://x.test/octo/sample")
CLOSED = Closed(installation_id=1, repository=HOME, number=3, is_pull_request=False, merged=False, actor=ANNA)
COMMENTED = Commented(
    installation_id=1,
    repository=HOME,
    number=3,
    is_pull_request=False,
    title="It breaks",
    body="so",
    author=ANNA,
    is_open=True,
    is_locked=False,
    comment_id=21,
    comment_body="/coder fix",
    commenter=ANNA,
    created_at=NOW,
)


# The database


async def came(store: Store, guid: str, event: Event = CLOSED, outcome: str = "", *, at: datetime = NOW) -> None:
    assert await store.accept(guid, "issues", event, now=at)
    if outcome:
        await store.conclude(guid, outcome)
        job = await store.start_job(at, busy=())
        assert job is not None
        await store.end_job(job)


async def outcome(store: Store, guid: str) -> str:
    found = await store.delivery(guid)
    assert found is not None
    return found.outcome


async def test_deliveries_are_listed_newest_first_and_those_that_failed_by_themselves(store: Store) -> None:
    await came(store, "a", outcome="failed: GitHubError", at=NOW)
    await came(store, "b", outcome="decided", at=NOW + DAY)
    await came(store, "c", Ignored(reason="it is dull"), at=NOW + 2 * DAY)
    await came(store, "d", at=NOW + 3 * DAY)
    listed = [(item.guid, item.outcome) for item in await store.deliveries(limit=3)]
    assert listed == [("d", ""), ("c", "ignored: it is dull"), ("b", "decided")]
    assert [item.guid for item in await store.deliveries(limit=3, only_failed=True)] == ["a"]


async def test_any_number_of_deliveries_can_be_looked_up(store: Store) -> None:
    await came(store, "a", outcome="failed: GitHubError")
    await came(store, "b")
    assert await store.known_deliveries([*map(str, range(1200)), "b", "a"]) == {"a", "b"}
    assert await store.known_deliveries([]) == frozenset()


async def test_what_failed_or_was_lost_is_due_again_and_nothing_else(store: Store) -> None:
    await came(store, "failed", outcome="failed: GitHubError")
    await came(store, "decided", outcome="decided")
    await came(store, "due")
    assert await store.reopen("unheard of", now=NOW) == "unknown"
    assert await store.reopen("decided", now=NOW) == "decided"
    assert await store.reopen("due", now=NOW) == "waiting"
    assert await store.reopen("failed", now=NOW) == "due"
    assert await store.reopen("failed", now=NOW) == "waiting"
    assert await outcome(store, "failed") == ""
    assert sorted(await store.jobs()) == [(Stage.INTAKE, "due"), (Stage.INTAKE, "failed")]
    for _ in range(2):
        job = await store.start_job(NOW, busy=())
        assert job is not None
        assert await store.reopen(job.key, now=NOW) == "waiting"
        await store.end_job(job)  # without having decided
    assert await store.reopen("due", now=NOW) == "due"
    assert await store.jobs() == [(Stage.INTAKE, "due")]


async def test_five_wishes_at_once_make_one_intake_due(store: Store) -> None:
    await came(store, "a", outcome="failed: GitHubError")
    wishes = [store.reopen("a", now=NOW) for _ in range(5)]
    again = [store.accept("a", "issues", CLOSED, now=NOW) for _ in range(5)]
    answers = await asyncio.gather(*wishes, *again)
    assert sum(answer in ("due", True) for answer in answers) == 1
    assert await store.jobs() == [(Stage.INTAKE, "a")]


async def test_what_another_delivery_has_taken_over_is_not_done_a_second_time(store: Store) -> None:
    await came(store, "a", COMMENTED, "failed: GitHubError")
    await came(store, "b", COMMENTED, "decided")  # the same comment, from a webhook that is configured twice
    assert await store.reopen("a", now=NOW) == "duplicate"
    assert await store.reopen("a", now=NOW) == "decided"
    await came(store, "c", replace(COMMENTED, comment_id=22), "failed: GitHubError")
    await came(store, "d", replace(COMMENTED, comment_id=22), "decided")
    assert await store.accept("c", "issue_comment", replace(COMMENTED, comment_id=22), now=NOW)
    assert await outcome(store, "c") == await outcome(store, "a") == "duplicate of another delivery"
    assert await store.jobs() == []


async def test_what_decided_deliveries_said_is_forgotten_and_that_they_came_is_not(store: Store) -> None:
    await came(store, "old", COMMENTED, "decided", at=NOW - 2 * DAY)
    await came(store, "failed", replace(COMMENTED, comment_id=22), "failed: GitHubError", at=NOW - 2 * DAY)
    await came(store, "due", replace(COMMENTED, comment_id=23), at=NOW - 2 * DAY)
    await came(store, "ignored", Ignored(reason="it is dull"), at=NOW - 2 * DAY)
    await came(store, "new", replace(COMMENTED, comment_id=24), "decided")
    for _ in range(2):
        await store.forget_payloads(before=NOW - DAY)
    kept = {guid: await store.delivery(guid) for guid in ("old", "failed", "due", "ignored", "new")}
    said = {guid: delivery.event for guid, delivery in kept.items() if delivery is not None}
    assert isinstance(said["old"], Ignored)
    assert said["ignored"] == Ignored(reason="it is dull")
    assert [isinstance(said[guid], Commented) for guid in ("failed", "due", "new")] == [True] * 3
    assert not await store.accept("old", "issue_comment", COMMENTED, now=NOW)
    assert await store.accept("twice", "issue_comment", COMMENTED, now=NOW)
    assert await outcome(store, "twice") == "duplicate of another delivery"


# The command line


async def cli(s: Story, *args: str) -> subprocess.CompletedProcess[str]:
    """As an operator on the server's machine, while the server runs."""
    return await asyncio.to_thread(coder_bot, "deliveries", *args, **environment(s.settings))


async def said(s: Story, *args: str) -> tuple[int, dict[str, Any]]:
    done = await cli(s, *args, "--json")
    assert "Traceback" not in done.stderr
    return done.returncode, last_json(done)


@pytest.fixture
async def s() -> AsyncIterator[Story]:
    async with story() as s:
        yield s


async def test_a_failed_intake_is_tried_again_once(s: Story) -> None:
    s.github.trouble("repos/get-collaborator-permission-level", 400)
    guid = await s.comment("/coder help")
    assert (await said(s, "replay", guid))[0] == 1  # it is about to be decided
    await s.settle()
    code, listed = await said(s, "list", "--failed")
    [item] = listed["deliveries"]
    assert (code, item["guid"], item["outcome"], item["task"]) == (0, guid, "failed: GitHubError", None)
    assert await said(s, "replay", guid) == (0, {"ok": True, "guid": guid, "done": "due", "error": None})
    await s.settle()
    assert len(s.comments) == 1
    code, answer = await said(s, "replay", guid)
    assert (code, answer["ok"], answer["done"]) == (1, False, None)
    assert "decided already: answered: help" in answer["error"]
    await s.settle()
    assert len(s.comments) == 1
    assert (await said(s, "list", "--failed"))[1] == {"deliveries": []}


async def test_what_never_came_is_asked_of_github(s: Story) -> None:
    s.github.webhook_url, door = None, s.github.webhook_url
    guid = await s.comment("/coder help")
    [comment] = s.github.issue_comments(REPOSITORY, s.issue)
    unused = await s.github.edit_comment(REPOSITORY, comment.id, "/coder fix", author="maintainer")
    s.github.webhook_url = door
    code, listed = await said(s, "list", "--github")
    [item] = listed["github"]
    assert (code, listed["deliveries"], listed["complete"]) == (0, [], True)
    wanted = {"guid": guid, "event": "issue_comment", "action": "created", "attempts": 1, "last": "answered with 502"}
    assert wanted.items() <= item.items()
    assert await said(s, "replay", guid) == (0, {"ok": True, "guid": guid, "done": "asked", "error": None})
    await s.settle()
    assert len(s.comments) == 1
    assert "no use" in (await said(s, "replay", unused.guid))[1]["error"]
    lines = (await cli(s, "list", "--github")).stdout.splitlines()
    assert len(lines) == 1  # GitHub has got it through
    assert lines[0].split()[0] == guid
    assert "answered: help" in lines[0]
    refused = await cli(s, "replay", guid)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert refused.stderr.startswith(f"coder-bot: {guid} is decided already")
    unheard = await cli(s, "replay", "unheard\x1b[2J")
    assert (unheard.returncode, unheard.stdout, unheard.stderr.count("\n")) == (1, "", 1)
    assert "\x1b" not in unheard.stderr


def test_without_a_github_app_what_came_is_listed_and_the_rest_says_what_is_missing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    listed = coder_bot("deliveries", "list", "--json", home=home)
    assert (listed.returncode, last_json(listed)) == (0, {"deliveries": []})
    for args in (["list", "--github"], ["replay", "x"]):
        done = coder_bot("deliveries", *args, home=home)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "GITHUB_APP_ID" in done.stderr
    assert json.loads(coder_bot("deliveries", "replay", "x", "--json", home=home).stdout)["ok"] is False
    assert coder_bot("deliveries", "list", "--limit", "0", home=home).returncode == 2
