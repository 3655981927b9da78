"""Deliveries that come twice, too late or not at all: whatever GitHub was told, each request has one effect."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import httpx

from bot import app, local
from bot.demo.github import LocalGitHub
from bot.demo.sender import Delivery
from bot.domain.task import State
from bot.settings import Settings
from tests.stories.harness import REPOSITORY, Clock, Story, engine_objects, fix, github_only, story, submit


@asynccontextmanager
async def started(
    github: LocalGitHub, settings: Settings, issue: int, script: Path, clock: Clock
) -> AsyncIterator[Story]:
    """One life of the bot on its home; it ends without finishing what it has begun."""
    async with app.open_bot(settings, clock=clock) as bot, local.listening(bot, github):
        yield Story(bot=bot, github=github, settings=settings, issue=issue, script_file=script, clock=clock)


def attempts(github: LocalGitHub, guid: str) -> list[int | None]:
    """How each attempt at a delivery was answered."""
    return [delivery.status for delivery in github.deliveries if delivery.guid == guid]


async def post(s: Story, delivery: Delivery, guid: str, *, secret: str = "", **headers: str) -> int:
    """The same bytes once more, by whomever."""
    key = (secret or s.github.app.webhook_secret).encode()
    signature = "sha256=" + hmac.new(key, delivery.body, hashlib.sha256).hexdigest()
    told = {
        "content-type": "application/json",
        "x-github-event": delivery.event,
        "x-github-delivery": guid,
        "x-hub-signature-256": signature,
    }
    async with httpx.AsyncClient() as client:
        answer = await client.post(s.github.webhook_url or "", content=delivery.body, headers={**told, **headers})
    return answer.status_code


async def test_what_came_before_a_kill_and_while_the_bot_was_down_is_done_once() -> None:
    async with github_only() as (github, settings, issue, script):
        clock = Clock()
        other = github.open_issue(REPOSITORY, title="add() is wrong", body="Still.", author="reporter").number
        third = github.open_issue(REPOSITORY, title="What can you do?", author="reporter").number
        async with started(github, settings, issue, script, clock) as s:
            s.script(fix(), submit())
            accepted = await s.comment()  # answered with 202; the bot ends before it has looked at it
        lost = await s.comment(number=other)
        by_hand = await s.comment("/coder help", number=third)
        [comment] = github.issue_comments(REPOSITORY, third)
        unused = (await github.edit_comment(REPOSITORY, comment.id, "/coder fix", author="maintainer")).guid
        assert [attempts(github, guid) for guid in (accepted, lost, by_hand, unused)] == [
            [202],
            [None],
            [None],
            [None],
        ]

        async with started(github, settings, issue, script, clock) as s:
            [said] = [delivery for delivery in github.deliveries if delivery.guid == lost]
            assert await post(s, said, lost, secret="guessed") == 401
            await github.redeliver(by_hand)
            working = asyncio.create_task(s.bot.work())
            async with asyncio.timeout(120):
                while [task.state for task in await s.bot.deps.store.tasks()] != [State.IN_REVIEW] * 2:
                    await asyncio.sleep(0.02)
            working.cancel()
            await asyncio.wait([working])
            await s.settle()
            assert [attempts(github, guid) for guid in (accepted, lost, by_hand, unused)] == [
                [202],
                [None, 202],
                [None, 202],
                [None],
            ]
            seen = await look(s, other, third)
            assert seen == (2, 2, [1, 1, 1])

        async with started(github, settings, issue, script, clock) as s:
            clock.ahead += timedelta(hours=2)
            await s.bot.missed.look()
            await github.settled()
            await github.redeliver(accepted)
            for delivery in [d for d in github.deliveries if d.guid in (accepted, by_hand)]:
                again = [post(s, delivery, guid) for guid in (delivery.guid, str(uuid.uuid4()))]
                assert await asyncio.gather(*again) == [202, 202]
            await s.settle()
            assert attempts(github, lost) == [None, 202]
            assert await look(s, other, third) == seen
        assert await engine_objects(settings.coder_deployment) == []
        assert github.violations == []


async def look(s: Story, *others: int) -> tuple[int, int, list[int]]:
    """How many tasks and pull requests there are, and what the bot has said on each issue."""
    spoken = [
        sum(comment.author.endswith("[bot]") for comment in s.github.issue_comments(REPOSITORY, number))
        for number in (s.issue, *others)
    ]
    return len(await s.bot.deps.store.tasks()), len(s.pull_requests), spoken


async def test_what_the_door_refuses_is_asked_for_a_few_times_and_a_2xx_lost_on_the_way_never() -> None:
    async with story() as s:
        door = s.github.webhook_url
        s.github.webhook_url = f"{door}/is-elsewhere"
        refused = await s.comment("/coder help")
        [delivery] = s.github.deliveries
        s.github.webhook_url = None
        arrived = await s.comment("/coder status")
        s.github.webhook_url = door
        [answered] = [d for d in s.github.deliveries if d.guid == arrived]
        assert await post(s, answered, arrived) == 202
        s.github.webhook_url = f"{door}/is-elsewhere"
        for minutes in (0, 4, 5):
            s.clock.ahead = timedelta(minutes=minutes)
            await s.bot.missed.look()
            await s.github.settled()
        assert attempts(s.github, refused) == [404, 404, 404]
        assert attempts(s.github, arrived) == [None]
        s.github.webhook_url = door
        s.clock.ahead = timedelta(hours=1)
        for _ in range(2):
            await s.bot.missed.look()
            await s.github.settled()
        await s.settle()
        assert attempts(s.github, refused) == [404, 404, 404, 202]
        assert attempts(s.github, arrived) == [None]
        assert delivery.guid == refused
        assert len(s.comments) == 2


async def test_that_github_cannot_be_asked_disturbs_no_work() -> None:
    async with story() as s:
        s.github.trouble("apps/list-webhook-deliveries", 502, times=9)
        working = asyncio.create_task(s.bot.work())
        await s.comment("/coder help")
        async with asyncio.timeout(60):
            while not s.comments:
                await asyncio.sleep(0.02)
        assert not working.done()
        working.cancel()
        await asyncio.wait([working])


async def test_only_the_right_digest_of_the_very_bytes_opens_the_door() -> None:
    async with story() as s:
        s.github.webhook_url, door = None, s.github.webhook_url
        await s.comment("/coder help \N{PARTY POPPER} caf\u00e9")
        s.github.webhook_url = door
        [delivery] = s.github.deliveries
        odd = Delivery(
            **{**vars(delivery), "body": b'{ "zen" : "\\u00e9\xf0\x9f\x8e\x89" ,"a":1.0}', "event": "ping"}
        )
        digest = hmac.new(s.github.app.webhook_secret.encode(), odd.body, hashlib.sha256).hexdigest()
        old = hmac.new(s.github.app.webhook_secret.encode(), odd.body, hashlib.sha1).hexdigest()
        for wrong in ("", digest, f"sha256={digest[:-1]}", f"sha256={digest}0", f"sha1={old}", f"SHA256={digest}"):
            headers = {"x-hub-signature-256": wrong, "x-hub-signature": f"sha1={old}"}
            assert await post(s, odd, "odd", **headers) == 401
        assert await s.bot.deps.store.delivery("odd") is None
        assert await post(s, odd, "odd") == 202
        assert await s.bot.deps.store.delivery("odd") is not None
