"""What happens to issues, pull requests, repositories and the installation, at any time and more than once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from bot.domain.task import State
from tests.stories.harness import REPOSITORY, Story, fix, story, submit, with_config
from tests.stories.test_reviews import CONFIG, documented, published
from tests.stories.test_warm_start import push

ENDS = {
    "issue deleted": "issue deleted",
    "issue moved": "issue moved to another repository",
    "archived": "the repository is archived",
    "repository deleted": "the repository is deleted",
    "suspended": "the App is suspended",
    "uninstalled": "uninstalled",
}


async def happen(s: Story, what: str) -> None:
    match what:
        case "issue deleted":
            await s.github.delete_issue(REPOSITORY, s.issue)
        case "issue moved":
            await s.github.create_repository("octo/other", source={"a": b""})
            await s.github.transfer_issue(REPOSITORY, s.issue, "octo/other")
        case "archived":
            await s.github.archive_repository(REPOSITORY)
        case "repository deleted":
            await s.github.delete_repository(REPOSITORY)
        case "suspended":
            await s.github.suspend("octo")
        case "uninstalled":
            await s.github.uninstall("octo")


@pytest.mark.parametrize("what", sorted(ENDS))
async def test_whatever_ends_the_work_ends_the_task_and_frees_its_sandbox(what: str) -> None:
    async with story() as s:
        s.script({"tool_calls": [], "text": "Hm."})
        await s.comment()
        working = asyncio.create_task(s.bot.engine.serve())
        await s.until(State.WORKING)
        await happen(s, what)
        await s.until(State.CLOSED)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await s.bot.engine.recover()
        await s.settle_later()
        for delivery in [each for each in s.github.deliveries if each.event != "issue_comment"]:
            if delivery.status == 202:
                await s.github.redeliver(delivery.guid)
        await s.settle_later()
        [task] = await s.bot.deps.store.tasks()
        assert (task.state, task.closed_reason) == (State.CLOSED, ENDS[what])
        assert await s.containers() == []


async def test_a_repository_that_is_renamed_and_moved_keeps_its_task() -> None:
    async with story(with_config(CONFIG)) as s:
        number = await published(s)
        await s.github.rename_repository(REPOSITORY, "simple")
        await s.settle()
        s.repository = "octo/simple"
        s.script(documented(), submit())
        await s.comment("/coder fix Document it.", number=number)
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert (task.full_name, task.state) == ("octo/simple", State.IN_REVIEW)
        [pull] = s.pull_requests
        assert b"The sum." in (s.github.file(s.repository, pull.head_sha, "calc.py") or b"")
        assert pull.head_sha == task.head_sha
        # Renamed again, and nobody tells us; a command from before arrives after it.
        s.script(fix('"""The sum."""', '"""Their sum."""'), submit())
        address, s.github.webhook_url = s.github.webhook_url, None
        late = await s.github.comment(s.repository, number, "/coder fix Theirs.", author="maintainer")
        await s.github.rename_repository(s.repository, "plain")
        s.github.webhook_url, s.repository = address, "octo/plain"
        await s.github.redeliver(late.guid)
        await s.settle_later()
        assert b"Their sum." in (s.github.file(s.repository, s.pull_requests[0].head_sha, "calc.py") or b"")
        assert (await s.bot.deps.store.task(task.id)).full_name == "octo/plain"


async def test_an_issue_that_was_closed_and_opened_again_before_we_heard_of_it_is_worked_on() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        await s.github.close_issue(REPOSITORY, s.issue, author="maintainer")
        await s.github.reopen(REPOSITORY, s.issue)
        await s.settle()
        assert len(s.pull_requests) == 1


async def test_a_pull_request_whose_branch_is_deleted_ends_its_task_and_nothing_is_said_to_a_merged_one() -> None:
    async with story() as s:
        number = await published(s)
        [task] = await s.bot.deps.store.tasks()
        await s.github.delete_branch(REPOSITORY, task.head_branch or "")
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert (task.state, task.closed_reason) == (State.CLOSED, "pull request closed")
        assert await s.containers() == []
        s.script(fix(), submit())
        await s.comment("/coder fix", number=number)
        await s.settle()
        said = [each.body for each in s.github.issue_comments(REPOSITORY, number) if each.author.endswith("[bot]")]
        assert said[-1].startswith("This is closed; reopen it first.")


async def test_a_fix_on_a_persons_pull_request_is_proposed_into_theirs_under_the_default_branchs_rules() -> None:
    async with story(with_config(CONFIG)) as s:
        await s.github.create_branch(REPOSITORY, "feature", s.github.branches(REPOSITORY)["main"])
        theirs = await push(
            s,
            {"calc.py": b"def add(a, b):\n    return a - b\n\n\nONE = 1\n", ".github/coder.yml": b"enabled: false\n"},
            branch="feature",
        )
        number = await s.github.open_pull(REPOSITORY, head="feature", base="main", title="One", author="maintainer")
        s.script(fix(), submit())
        await s.comment("/coder fix the sum", number=number)
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert (task.base_branch, task.base_sha, task.state) == ("feature", theirs, State.IN_REVIEW)
        ours = next(pull for pull in s.pull_requests if pull.number == task.pull_request)
        assert (ours.base, ours.head_branch) == ("feature", f"coder/issue-{number}")
        assert b"ONE = 1" in (s.github.file(REPOSITORY, ours.head_sha, "calc.py") or b"")
        assert f"Refs #{number}" in ours.body
        fork = await s.github.open_pull(
            REPOSITORY, head="feature", base="main", title="One", author="stranger", from_fork=True
        )
        await s.comment("/coder fix the sum", number=fork)
        await s.settle()
        [answer] = [each for each in s.github.issue_comments(REPOSITORY, fork) if each.author.endswith("[bot]")]
        assert "comes from a fork, where I may not write" in answer.body
        assert len(await s.bot.deps.store.tasks()) == 1


async def test_who_may_no_longer_write_has_nothing_published_and_somebody_who_may_goes_on_with_it() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        serving = asyncio.create_task(s.bot.engine.serve())
        await s.until(State.VERIFYING)
        s.github.grant(REPOSITORY, "maintainer", "read")
        await s.until(State.WAITING)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await s.bot.engine.recover()
        await s.settle()
        assert (await s.code(), s.branches, s.pull_requests) == ("PERMISSION_DENIED", ["main"], [])
        assert "maintainer asked for this, and may no longer write here" in s.comments[-1]
        s.github.grant(REPOSITORY, "owner", "write")
        s.script(submit())
        await s.comment("/coder retry", author="owner")
        await s.settle()
        assert len(s.pull_requests) == 1


async def test_a_sandbox_whose_task_waits_for_longer_than_idle_is_paused_and_resumed() -> None:
    async with story(with_config(CONFIG + "sandbox: {idle: 5m}\n")) as s:
        number = await published(s)
        s.script(documented(), submit())
        s.github.fail("issues/list-comments", 429, headers={"retry-after": "900"})
        await s.comment("/coder fix Document it.", number=number)
        await s.bot.engine.settle()
        [task] = await s.bot.deps.store.tasks()
        assert task.state is State.WORKING
        [info] = [each for each in await s.bot.deps.provider.list() if each.kind == "work"]
        assert not info.running
        s.clock.ahead += timedelta(minutes=16)
        await s.settle()
        assert b"The sum." in (s.github.file(REPOSITORY, s.pull_requests[0].head_sha, "calc.py") or b"")
        [again] = [each for each in await s.bot.deps.provider.list() if each.kind == "work"]
        assert again.id == info.id, "the same sandbox, days later as well"
