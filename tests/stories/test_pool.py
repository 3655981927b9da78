"""More is asked for than may run at once: what finds no free sandbox waits, says so once, and goes on by itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from bot.domain.errors import SandboxError, UserError
from bot.domain.task import Stage
from bot.pipeline import rules as recorded
from bot.pipeline.setup import spec
from bot.pipeline.warm import Job
from tests.stories.harness import Story, fix, story, submit

TWO: dict[str, Any] = {"CODER_MAX_SANDBOXES": "2", "CODER_RESERVED_SANDBOXES": "1"}


async def hog(story: Story) -> None:
    """Another process has the one sandbox that is not kept for verification."""
    now = story.clock()
    taken = await story.bot.deps.store.take_slot(
        "hog", "work", sandbox_id="hog", fits=lambda _: True, now=now, expires_at=now + timedelta(days=1)
    )
    assert taken is None


async def later(story: Story) -> None:
    story.clock.ahead += timedelta(seconds=16)
    await story.settle()


async def states(story: Story) -> list[str]:
    return [str(task.state) for task in await story.bot.deps.store.tasks()]


def told_again(story: Story) -> int:
    return sum(call.method == "PATCH" for call in story.github.requests)


async def test_a_task_without_a_free_sandbox_stays_queued_says_so_once_and_goes_on() -> None:
    async with story(**TWO) as bot:
        bot.script(fix(), submit())
        await hog(bot)
        await bot.comment("/coder fix")
        await bot.settle()
        assert await states(bot) == ["queued"]
        assert await bot.containers() == []
        [told] = bot.comments
        assert "Waiting for a free sandbox" in told
        edits = told_again(bot)
        for _ in range(7):  # more often than a stage may fail
            await later(bot)
        assert await states(bot) == ["queued"]
        assert told_again(bot) == edits
        await bot.bot.deps.store.free_slot("hog")
        await later(bot)
        assert await states(bot) == ["in_review"]
        [told] = bot.comments
        assert "Waiting" not in told


async def test_status_says_that_the_task_waits_and_stop_ends_the_wait() -> None:
    async with story(**TWO) as bot:
        bot.script()
        await hog(bot)
        await bot.comment("/coder fix")
        await bot.settle()
        await bot.comment("/coder status")
        await bot.settle()
        assert "waits for a free sandbox" in bot.comments[-1]
        await bot.comment("/coder stop")
        await bot.settle()
        await bot.bot.deps.store.free_slot("hog")
        await later(bot)
        assert await states(bot) == ["waiting"]
        assert await bot.bot.deps.store.jobs() == []


async def test_two_tasks_with_room_for_one_come_out_one_after_the_other() -> None:
    async with story(**TWO) as bot:
        bot.script(fix(), submit())
        second = bot.github.open_issue(bot.repository, title="add() is wrong too", body="", author="reporter")
        await bot.comment("/coder fix")
        await bot.comment("/coder fix", number=second.number)
        await bot.settle()  # the end of the first wakes the second: no clock is moved
        assert await states(bot) == ["in_review", "in_review"]
        assert len(bot.pull_requests) == 2
        assert await bot.bot.deps.store.slots() == []


async def test_a_paused_task_waits_for_room_before_it_goes_on() -> None:
    async with story(**TWO) as bot:
        bot.script(fix(), submit())
        await bot.comment("/coder fix")
        await bot.settle()
        await hog(bot)
        await bot.comment("/coder fix once more")
        await bot.settle()
        assert await states(bot) == ["queued"]
        assert "Waiting for a free sandbox" in bot.comments[0]
        await bot.bot.deps.store.free_slot("hog")
        bot.script(fix("return a + b", "return b + a"), submit())
        await later(bot)
        assert await states(bot) == ["in_review"]


async def test_verification_has_room_when_work_has_taken_all_else() -> None:
    async with story(CODER_MAX_SANDBOXES="3", CODER_RESERVED_SANDBOXES="1") as bot:
        bot.script(fix(), submit())
        await hog(bot)
        await bot.comment("/coder fix")
        await bot.settle()
        assert await states(bot) == ["in_review"]


async def test_a_verification_that_was_killed_does_not_stand_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async with story(**TWO) as bot:
        bot.script(fix(), submit())
        await bot.comment("/coder fix")
        deps = bot.bot.deps
        serving = asyncio.create_task(bot.bot.engine.serve())
        await bot.until("verifying")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        [task] = await deps.store.tasks()
        lease, rules = await deps.store.lease(task.id), recorded.of(await deps.store.last_episode(task.id))
        job = Job(deps=deps, lease=lease, task=task, episode=await deps.store.last_episode(task.id), rules=rules)
        record = job.record("verify", run="old-tests")
        await deps.store.put_sandbox(lease, record)
        left = await deps.provider.create(spec(deps, lease, "verify", rules, run="old-tests"))
        await left.aclose()
        assert not await deps.provider.has_room("verify"), "it has the place that is kept for verification"
        refused: list[str] = []
        kill = deps.provider.kill

        async def slowly(sandbox_id: str) -> None:
            if len(refused) < 2:
                refused.append(sandbox_id)
                raise SandboxError("unknown_outcome", "The Docker engine did not end a sandbox in time.")
            await kill(sandbox_id)

        monkeypatch.setattr(deps.provider, "kill", slowly)
        await bot.bot.engine.recover()
        await bot.settle()
        for _ in range(2):
            await later(bot)
        assert len(refused) == 2
        assert await states(bot) == ["in_review"]


async def test_limits_that_can_not_hold_are_refused_at_start_up() -> None:
    with pytest.raises(UserError, match="CODER_RESERVED_SANDBOXES is 2"):
        async with story(CODER_MAX_SANDBOXES="2", CODER_RESERVED_SANDBOXES="2"):
            pass


async def test_jobs_that_wait_for_a_sandbox_have_used_up_no_attempt() -> None:
    async with story(**TWO) as bot:
        bot.script()
        await hog(bot)
        await bot.comment("/coder fix")
        await bot.settle()
        bot.clock.ahead += timedelta(seconds=16)
        job = await bot.bot.deps.store.start_job(bot.clock(), busy=())
        assert job is not None
        assert (job.stage, job.attempts) == (Stage.PROVISION, 1)
