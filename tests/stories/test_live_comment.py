"""The one comment that people follow a task by: it says what is going on, and is never wrong for long."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx

from bot.domain.task import State
from bot.pipeline import progress, reconcile
from tests.stories.harness import FILES, Story, call, fix, say, story, submit

SLOW = b"""import os, time


def test_that_waits():
    for _ in range(600):
        if os.path.exists("/tmp/go"):
            return
        time.sleep(0.1)
    raise AssertionError("nobody has let it go")
"""
"""No file that the checks collect."""
RUN_SLOW = say(call("run_command", command="python3 -m pytest -q slow.py"))
TWO: dict[str, Any] = {"CODER_MAX_SANDBOXES": "2", "CODER_RESERVED_SANDBOXES": "1"}


def edits(s: Story, comment_id: int | None = None) -> int:
    """Calls that have changed a comment, or tried to."""
    mine = [logged for logged in s.github.requests if logged.operation == "issues/update-comment"]
    return sum(comment_id is None or logged.path.endswith(f"/{comment_id}") for logged in mine)


async def let_go(s: Story) -> None:
    [task] = await s.bot.deps.store.tasks()
    [record] = [each for each in await s.bot.deps.store.sandboxes(task.id) if each.kind == "work"]
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    async with httpx.AsyncClient(transport=transport, base_url="http://docker/v1.41") as client:
        command = {"Cmd": ["touch", "/tmp/go"], "User": "0"}
        made = (await client.post(f"/containers/{record.provider_id}/exec", json=command)).json()
        (await client.post(f"/exec/{made['Id']}/start", json={"Detach": True})).raise_for_status()


async def until_it_says(s: Story, words: str) -> str:
    """Time goes by, a little at each look."""
    async with asyncio.timeout(120):
        while not (s.comments and words in s.comments[0]):
            s.clock.ahead += timedelta(seconds=3)
            await asyncio.sleep(0.1)
    return s.comments[0]


async def test_the_comment_follows_the_work_and_never_says_working_at_its_end() -> None:
    async with story({**FILES, "slow.py": SLOW}) as s:
        s.script(RUN_SLOW, fix(), submit())
        await s.comment()
        working = asyncio.create_task(s.bot.engine.serve())
        await s.until(State.WORKING)
        said = await until_it_says(s, "Step 1 of at most 40: running `python3 -m pytest -q slow.py`.")
        assert said.startswith("🔧 Working on it.")
        assert "- [x] sandbox ready\n- [ ] working\n" in said
        assert "<sub>$0.00 of $2.00, 0 of 2,000,000 tokens, 1 step, 0 tool calls · [asked for](" in said
        before = edits(s)
        await s.comment("/coder stop")
        await s.until(State.WAITING)
        working.cancel()
        await asyncio.wait([working])
        await s.bot.engine.recover()
        await s.settle()
        [said] = s.comments
        assert said.startswith("🛑 No pull request (STOPPED). Stopped by @\u200bmaintainer.")
        assert "**What was tried:** 1 step with 0 tool calls. Nothing was handed in" in said
        assert "orking" not in said
        assert edits(s) == before + 1

        # People delete it; the next stage makes another one, and only one. GitHub takes no progress meanwhile.
        [own] = [each for each in s.github.issue_comments(s.repository, s.issue) if each.body == said]
        await s.github.delete_comment(s.repository, own.id, author="maintainer")
        s.script(RUN_SLOW, fix(), submit())
        await s.comment("/coder retry")
        working = asyncio.create_task(s.bot.engine.serve())
        await s.until(State.WORKING)
        await until_it_says(s, "Working on it")
        s.github.trouble("issues/update-comment", 422, "Validation Failed")
        seen = edits(s)
        async with asyncio.timeout(120):
            while edits(s) == seen:
                s.clock.ahead += timedelta(seconds=3)
                await asyncio.sleep(0.1)
        await let_go(s)
        await s.until(State.IN_REVIEW)
        working.cancel()
        await asyncio.wait([working])
        await s.bot.engine.recover()
        await s.settle()
        [said] = s.comments
        assert said.startswith("🚀 Done: #")
        assert "round 2, [asked for](" in said
        assert "Step" not in said
        [asking] = [each for each in s.github.issue_comments(s.repository, s.issue) if each.body == "/coder retry"]
        assert list(s.github.reactions(asking.id)) == ["eyes", "rocket"]
        seen = edits(s)
        await reconcile.run(s.bot.deps)
        assert edits(s) == seen, "what is right is left alone"


async def test_a_comment_that_is_wrong_is_put_right_and_no_other_is_touched() -> None:
    async with story(**TWO) as s:
        s.script()
        store, now = s.bot.deps.store, s.clock()
        await store.take_slot(
            "hog", "work", sandbox_id="hog", fits=lambda _: True, now=now, expires_at=now + timedelta(days=9)
        )
        second = s.github.open_issue(s.repository, title="add() is wrong too", body="", author="reporter")
        for number in (s.issue, second.number):
            await s.comment(number=number)
            await s.settle()

        def told(number: int) -> str:
            return s.github.issue_comments(s.repository, number)[-1].body

        first_task, second_task = sorted(await store.tasks(), key=lambda task: task.number)
        first, later = first_task.comment_id, second_task.comment_id
        assert "No other task has waited longer." in told(s.issue)
        assert "1 other task has waited longer." in told(second.number)

        # A place in the queue moves up when the other one is stopped.
        await s.comment("/coder stop")
        await s.settle()
        await progress.put_right(s.bot.deps)
        assert "No other task has waited longer." in told(second.number)
        before = edits(s, first)
        await progress.put_right(s.bot.deps)
        assert edits(s, first) == before

        # A process that died in the midst of an edit: nobody knows what people read, nor whether it is still to come.
        await store.begin_telling(first_task.id, now=s.clock())
        await progress.put_right(s.bot.deps)
        await progress.put_right(s.bot.deps)
        assert edits(s, first) == before + 1
        seen = edits(s, later)
        s.clock.ahead += timedelta(minutes=3)
        await progress.put_right(s.bot.deps)
        await progress.put_right(s.bot.deps)
        assert edits(s, first) == before + 2
        assert edits(s, later) == seen + 1
        assert "3 minutes ago" in told(second.number)

        # Where GitHub will never take it, it is tried once.
        await store.begin_telling(first_task.id, now=s.clock())
        s.github.trouble("issues/update-comment", 403, "Unable to comment because issue is locked.")
        for _ in range(3):
            await progress.put_right(s.bot.deps)
        assert edits(s, first) == before + 3

        # What somebody else has told meanwhile is not told over, and what is long over is let be.
        stale = (await store.telling(first_task.id)).edits  # type: ignore[union-attr]
        await store.begin_telling(first_task.id, now=s.clock())
        assert not await store.begin_telling(first_task.id, now=s.clock(), edits=stale)
        s.clock.ahead += timedelta(days=4)
        await progress.put_right(s.bot.deps)
        assert edits(s, first) == before + 3

        # A stage that another process has begun and not told says at once what it does.
        lease = await store.lease(second_task.id)
        begun = replace(await store.task(second_task.id), state=State.WORKING, needs_slot=False)
        await store.save(lease, begun, await store.last_episode(second_task.id), now=s.clock())

        async def until_told() -> None:
            async with asyncio.timeout(120):
                while "Step 1 of at most 40: waiting for the model." not in told(second.number):
                    await asyncio.sleep(0.05)

        await progress.Watch(s.bot.deps, lease).during(until_told())
        assert told(second.number).startswith("🔧 Working on it.")
