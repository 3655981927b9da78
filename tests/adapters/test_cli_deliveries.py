"""Deliveries as the database keeps them and as an operator sees them, and having one tried again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.db.store import Store
from bot.domain.event import Closed, Commented, Event, Ignored, Person, Repository
from bot.domain.task import Stage
from bot.settings import Settings, load
from tests.adapters.test_cli import ROOT
from tests.stories.harness import REPOSITORY, story
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

SHELL = """
import contextlib, io, json, sys, traceback
from bot.__main__ import main

for line in sys.stdin:
    sys.argv = ["coder-bot", *json.loads(line)]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as exc:
            code = exc.code
        except Exception:
            code = None
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""
"""Runs one command line after the other, for most of the time that one takes is Python's imports."""


@dataclass(frozen=True)
class Shell:
    """An operator's, on the server's machine and while the server runs."""

    process: asyncio.subprocess.Process

    async def run(self, *args: str) -> tuple[int, str, str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(["deliveries", *args]).encode() + b"\n")
        code, out, err = json.loads(await self.process.stdout.readline())
        assert "Traceback" not in err
        return code, out, err

    async def said(self, *args: str) -> tuple[int, dict[str, Any]]:
        code, out, _ = await self.run(*args, "--json")
        return code, json.loads(out.splitlines()[-1])

    async def refused(self, guid: str) -> str:
        """Why it is not tried again."""
        code, out, err = await self.run("replay", guid)
        assert (code, out, err.count("\n")) == (1, "", 1)
        return err


@asynccontextmanager
async def shell(settings: Settings) -> AsyncIterator[Shell]:
    ours = ("CODER_", "GITHUB_", "OPENAI_", "E2B_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", SHELL),
        cwd=ROOT,
        env={**clean, **environment(settings)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Shell(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def test_what_failed_is_tried_again_what_never_came_is_asked_of_github_and_what_is_decided_stays_so() -> None:
    async with story() as s, shell(s.settings) as operator:
        s.github.trouble("repos/get-collaborator-permission-level", 400)
        failed = await s.comment("/coder help")
        await s.settle()
        s.github.webhook_url, door = None, s.github.webhook_url
        lost = await s.comment("/coder status")
        comment = s.github.issue_comments(REPOSITORY, s.issue)[0]
        unused = (await s.github.edit_comment(REPOSITORY, comment.id, "/coder fix", author="maintainer")).guid
        s.github.webhook_url = door
        code, listed = await operator.said("list", "--failed", "--github")
        [here], [there] = listed["deliveries"], listed["github"]
        assert (code, here["guid"], here["outcome"], here["task"]) == (0, failed, "failed: GitHubError", None)
        assert (there["guid"], there["event"], there["action"]) == (lost, "issue_comment", "created")
        assert (there["attempts"], there["last"], listed["complete"]) == (1, "answered with 502", True)

        for guid, done in ((failed, "due"), (lost, "asked")):
            assert await operator.said("replay", guid) == (0, {"ok": True, "guid": guid, "done": done, "error": None})
        await s.settle()
        assert len(s.comments) == 2
        code, answer = await operator.said("replay", failed)
        assert (code, answer["ok"], answer["done"]) == (1, False, None)
        assert "is decided already: answered: help." in answer["error"]
        assert (await operator.refused(lost)).startswith(f"coder-bot: {lost} is decided already: ")
        assert "issue_comment.edited, of which the bot makes no use" in await operator.refused(unused)
        assert "GitHub knows no such delivery" in await operator.refused("unheard-of-\N{BELL}")
        await s.settle()
        assert len(s.comments) == 2
        code, out, _ = await operator.run("list", "--github")
        assert (code, [line.split()[0] for line in out.splitlines()][-2:]) == (0, [lost, failed])


async def test_without_a_github_app_what_came_is_listed_and_the_rest_says_what_is_missing(tmp_path: Path) -> None:
    async with shell(load({"CODER_HOME": str(tmp_path / "home")})) as operator:
        assert await operator.said("list") == (0, {"deliveries": []})
        assert "GITHUB_APP_ID" in await operator.refused("x")
        code, answer = await operator.said("replay", "x")
        assert (code, answer["ok"], "GITHUB_APP_ID" in answer["error"]) == (1, False, True)
