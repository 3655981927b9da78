"""Results that wait for somebody's word: what is shown, who may give it, and for what exactly it counts."""

from __future__ import annotations

from sqlmodel import col, update
from sqlmodel.ext.asyncio.session import AsyncSession

from bot import doctor
from bot.db.tables import CheckpointRow
from bot.domain.patch import Change, Patch
from bot.domain.task import State
from tests.stories.harness import REPOSITORY, Story, call, fix, say, story, submit, with_config

CHECKS = "checks: [{name: tests, run: python3 -m pytest -q}]\n"
WORKFLOW = "on: push\njobs: {a: {runs-on: x, steps: [{run: make}]}}\n"


async def state(s: Story) -> State:
    return (await s.bot.deps.store.tasks())[0].state


async def test_what_is_published_is_what_was_shown_when_somebody_approved_it() -> None:
    async with story(with_config(CHECKS + "pull_request: {publish: after_approval}\n")) as s:
        s.github.grant(REPOSITORY, "reader", "read")
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        assert await state(s) is State.AWAITING_APPROVAL
        assert (s.branches, list(s.pull_requests)) == (["main"], [])
        _, shown = s.comments
        assert "```diff\n--- a/calc.py\n+++ b/calc.py\n" in shown
        assert "-    return a - b\n+    return a + b\n" in shown
        assert "Receipt: Passed" in shown
        await s.comment(author="reader", text="/coder approve")
        await s.settle()
        assert await state(s) is State.AWAITING_APPROVAL

        # An approval of that, which comes only when the change is another one.
        address, s.github.webhook_url = s.github.webhook_url, None
        late = await s.comment("/coder approve")
        s.github.webhook_url = address
        s.script(say(call("write_file", path="NOTES.md", contents="Adds.\n")), submit())
        await s.comment("/coder fix write a note about it")
        await s.settle()
        await s.github.redeliver(late)
        await s.settle()
        assert await state(s) is State.AWAITING_APPROVAL
        assert (s.branches, list(s.pull_requests)) == (["main"], [])
        assert "before the change was shown" in s.comments[-1]
        assert "+Adds." in s.comments[-2]

        given = await s.comment("/coder approve")
        await s.settle()
        [pull] = s.pull_requests
        assert s.github.file(REPOSITORY, pull.head_sha, "NOTES.md") == b"Adds.\n"
        assert "Approved for publishing by maintainer." in pull.body
        said = s.comments
        await s.github.redeliver(given)
        await s.settle()
        assert s.comments == said

        # What stands in the rows of another patch by then is looked at once more before it leaves.
        s.script(say(call("write_file", path="MORE.md", contents="More.\n")), submit())
        await s.comment("/coder fix and more", number=pull.number)
        await s.settle()
        forbidden = Change(path=".git./config", mode="100644", content=b"x")
        await rewrite_checkpoints(s, Patch.of(forbidden))
        await s.comment("/coder approve")
        await s.settle()
        assert await s.code() == "POLICY_REFUSED"
        assert [each.head_sha for each in s.pull_requests] == [pull.head_sha]


async def rewrite_checkpoints(s: Story, patch: Patch) -> None:
    [task] = await s.bot.deps.store.tasks()
    lease = await s.bot.deps.store.lease(task.id)
    newest = await s.bot.deps.store.checkpoint(task.id)
    assert newest is not None
    await s.bot.deps.store.add_checkpoint(lease, task.base_sha, patch)
    async with AsyncSession(s.bot.deps.store.engine) as session:
        other = await s.bot.deps.store.checkpoint(task.id)
        assert other is not None
        row = await session.get_one(CheckpointRow, other.id)
        packed = row.patch
        await session.delete(row)
        await session.exec(update(CheckpointRow).where(col(CheckpointRow.id) == newest.id).values(patch=packed))
        await session.commit()


async def test_a_workflow_file_waits_for_approval_and_for_the_permission_to_write_it() -> None:
    async with story(with_config(CHECKS + "paths: {workflows: approval}\n")) as s:
        s.script(fix(), say(call("write_file", path=".github/workflows/ci.yml", contents=WORKFLOW)), submit())
        await s.comment()
        await s.settle()
        assert await state(s) is State.AWAITING_APPROVAL
        assert "`.github/workflows/ci.yml` can run commands as soon as it is pushed" in s.comments[1]
        assert "+on: push" in s.comments[1]
        await s.comment("/coder approve")
        await s.settle()
        assert await s.code() == "WRITE_REFUSED"
        assert "`workflows: write`" in s.comments[0]
        assert (s.branches, list(s.pull_requests)) == (["main"], [])

        warned = {each.name: each for each in await doctor.examine(s.settings)}
        assert warned["workflows"].ok
        assert f"in {REPOSITORY}, but the App has no permission" in warned["workflows"].detail
        assert warned["publishing"].ok
        assert "after_approval" in warned["publishing"].fix
        assert (warned["github"].ok, warned["github"].fix) == (True, "")
        s.github.permit("workflows", "write")
        assert {each.name: each.fix for each in await doctor.examine(s.settings)}["workflows"] == ""
        await s.settle_later()
        assert not s.pull_requests  # nothing is tried again by itself
        await s.comment("/coder approve")
        await s.settle()
        [pull] = s.pull_requests
        assert s.github.file(REPOSITORY, pull.head_sha, ".github/workflows/ci.yml") == WORKFLOW.encode()
        assert await s.code() == "VERIFIED"
