"""GitHub asks the bot to wait: what was paid for is kept, told once when it may be, and nobody else's work fails."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.domain.task import State
from tests.stories.harness import REPOSITORY, Story, fix, story, submit

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
USED_UP = "API rate limit exceeded for installation ID 1003."


async def go_on(s: Story) -> list[int]:
    """Lets the bot work until nothing is due within two hours, the time going on to whatever is due next. Gives how
    many minutes it waited each time."""
    waits: list[int] = []
    while True:
        await s.settle()
        due = await s.bot.deps.store.next_run()
        left_s = (due - s.clock()).total_seconds() if due else 7200
        if due is None or left_s >= 7200:
            return waits
        waits.append(round(left_s / 60))
        s.clock.ahead += due - s.clock()


def answered(s: Story, operation: str) -> list[int]:
    return [call.status for call in s.github.requests if call.operation == operation]


async def test_a_result_that_github_takes_at_the_fourth_time_is_published_once_and_told_once() -> None:
    async with story() as s:
        other = s.github.open_issue(REPOSITORY, title="x", author="reporter").number
        s.script(fix(), submit())  # a reply too few would be an error: nothing is asked of the model again
        s.github.trouble("pulls/create", 403, SECONDARY, times=3, x_ratelimit_remaining="4771")
        await s.comment()
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert task.state is State.VERIFYING
        assert answered(s, "pulls/create") == [403]
        asked = len(s.github.requests)
        await s.comment("/coder help", number=other)  # slowed with it, not failed
        await s.settle()
        assert len(s.github.requests) == asked, "nothing is asked while GitHub wants to be left alone"
        assert await go_on(s) == [1, 2, 4]
        assert answered(s, "pulls/create") == [403, 403, 403, 201]
        assert answered(s, "git/create-commit") == [201]
        [pull] = s.pull_requests
        assert s.branches == [pull.head_branch, "main"]
        [comment] = s.comments
        assert f"#{pull.number}" in comment
        assert await s.code() == "VERIFIED"
        told = [each.body for each in s.github.issue_comments(REPOSITORY, other) if each.author.endswith("[bot]")]
        assert len(told) == 1
        assert "`/coder fix" in told[0]
        assert all(token.revoked for token in s.github.tokens)


async def test_a_block_on_comments_as_long_as_a_night_loses_nothing() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        s.github.trouble("issues/update-comment", 403, SECONDARY, times=16, x_ratelimit_remaining="4771")
        waits = await go_on(s)
        assert (sum(waits) > 6 * 60, max(waits)) == (True, 60)
        assert answered(s, "issues/update-comment").count(403) == 16
        [pull] = s.pull_requests
        [comment] = s.comments
        assert f"#{pull.number}" in comment
        assert await s.code() == "VERIFIED"


async def test_an_hours_requests_used_up_are_no_missing_permission_and_end_no_task() -> None:
    async with story() as s:
        reset = str(int(datetime.now(UTC).timestamp()) + 900)
        s.script(fix(), submit())
        for operation, status in (("repos/get-collaborator-permission-level", 403), ("git/create-tree", 429)):
            s.github.trouble(operation, status, USED_UP, x_ratelimit_remaining="0", x_ratelimit_reset=reset)
        s.github.trouble("apps/create-installation-access-token", 403, SECONDARY)
        guid = await s.comment()
        first, second, third = await go_on(s)
        assert (first, second) == (1, 15)
        assert 10 <= third <= 15, "until the same moment"
        delivery = await s.bot.deps.store.delivery(guid)
        assert delivery is not None
        assert delivery.outcome == "decided"
        assert answered(s, "git/create-tree") == [429, 201]
        assert len(s.pull_requests) == 1
        assert await s.code() == "VERIFIED"


async def test_an_answer_that_got_lost_or_was_a_web_page_makes_nothing_twice() -> None:
    """What GitHub has done although it said otherwise is found the next time, and not done again."""
    async with story() as s:
        s.script(fix(), submit())
        lost = ("issues/create-comment", "git/create-ref", "pulls/create")
        for operation in lost:
            s.github.fail(operation, 502, "<html>Unicorn!</html>", accepted=True)
        s.github.fail("git/create-tree", 200, "<html>Sign in to the hotel's network</html>")
        s.github.fail("repos/get-collaborator-permission-level", 404, "<html>Not here</html>", times=3)
        await s.comment()
        await go_on(s)
        assert [answered(s, operation).count(201) for operation in lost] == [0, 0, 0]
        assert len(answered(s, "repos/get-collaborator-permission-level")) > 3
        [pull] = s.pull_requests
        assert s.branches == [pull.head_branch, "main"]
        [comment] = s.comments
        assert f"#{pull.number}" in comment
        assert await s.code() == "VERIFIED"
