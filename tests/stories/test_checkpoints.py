"""Work that is kept while it is done: a sandbox that is lost costs at most a step, and people are told."""

from __future__ import annotations

import asyncio
import json

import httpx
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from bot.agent.tools import UNKNOWN
from bot.db.tables import CheckpointRow
from bot.domain.patch import Patch
from bot.domain.transcript import LOST_CALL, NOT_RUN, Step, lost_note
from tests.stories.harness import FILES, FIXED, REPOSITORY, Story, call, fix, say, story, submit, with_config

SLOW = {"slow.py": b"import time\n\n\ndef test_slow():\n    time.sleep(600)\n"}
RUN_SLOW = call("run_command", command="python3 -m pytest -q slow.py")
TESTS = "checks: [{name: tests, run: python3 -m pytest -q test_calc.py}]\n"


async def lose_the_sandbox(s: Story) -> str:
    """Ends the work container past our provider, while the slow command runs in it; the name it had."""
    query = {"filters": json.dumps({"label": [f"coder-bot.deployment={s.settings.coder_deployment}"]})}
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    async with (
        asyncio.timeout(100),
        httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=60) as engine,
    ):
        while True:
            for item in (await engine.get("/v1.41/containers/json", params=query)).json():
                top = await engine.get(f"/v1.41/containers/{item['Id']}/top")
                if any("slow.py" in word for row in top.json().get("Processes") or () for word in row):
                    await engine.delete(f"/v1.41/containers/{item['Id']}", params={"force": "1", "v": "1"})
                    return str(item["Names"][0]).lstrip("/")
            await asyncio.sleep(0.05)


async def work(s: Story) -> None:
    """Lets the bot work until its task rests, also where a stage is to be tried again later."""
    await s.settle()
    while any(task.is_busy for task in await s.bot.deps.store.tasks()):
        await s.settle_later()


async def checkpoints(s: Story) -> list[CheckpointRow]:
    async with AsyncSession(s.bot.deps.store.engine) as session:
        return list(await session.exec(select(CheckpointRow).order_by(col(CheckpointRow.id))))


async def kept(s: Story) -> Patch:
    [task] = await s.bot.deps.store.tasks()
    newest = await s.bot.deps.store.checkpoint(task.id)
    assert newest is not None
    return newest.patch


async def steps(s: Story) -> tuple[Step, ...]:
    [task] = await s.bot.deps.store.tasks()
    return await s.bot.deps.store.steps(task.id)


async def test_a_container_killed_under_an_episode_costs_no_kept_step_and_the_pull_request_says_so() -> None:
    async with story({**FILES, **SLOW, ".github/coder.yml": TESTS.encode()}) as s:
        s.script(
            fix(),
            say(call("write_file", path="note.txt", contents="kept\n")),
            say(RUN_SLOW, call("list_dir", path=".")),
            say(call("read_file", path="calc.py"), expect="^(Not run|The sandbox)"),
            say(call("read_file", path="note.txt"), expect=FIXED.replace("+", r"\+")),
            say(*submit()["tool_calls"], expect="^kept"),
        )
        await s.comment()
        working = asyncio.create_task(work(s))
        lost = await lose_the_sandbox(s)
        await working
        [pull] = s.pull_requests
        assert "The sandbox was lost once during this work and replaced by a new one" in pull.body
        assert "The sandbox was lost once" in s.comments[0]
        assert s.github.file(REPOSITORY, pull.head_sha, "note.txt") == b"kept\n"
        assert FIXED.encode() in (s.github.file(REPOSITORY, pull.head_sha, "calc.py") or b"")
        done = await steps(s)
        assert [step.note for step in done] == [None, None, None, lost_note(2), None, None]
        # An engine may still say how the killed command ended before it says that the sandbox is gone.
        assert all(item.result in (LOST_CALL, NOT_RUN, UNKNOWN) or item.exit_code == 137 for item in done[2].calls)
        assert len(await checkpoints(s)) == 2  # one for each step that changed files
        assert [info.kind for info in await s.bot.deps.provider.list()] == ["work"]
        assert not any(name.startswith(lost) for name in await s.containers())  # its volumes went as well


async def test_an_episode_that_goes_on_losing_its_sandbox_ends_and_keeps_its_work() -> None:
    async with story({**FILES, **SLOW, ".github/coder.yml": TESTS.encode()}) as s:
        s.script(fix(), *[say(RUN_SLOW)] * 4)
        await s.comment()
        working = asyncio.create_task(work(s))
        lost = tuple([await lose_the_sandbox(s) for _ in range(4)])
        await working
        assert await s.code() == "SANDBOX_LOST"
        assert "lost 4 times" in s.comments[0]
        assert not s.pull_requests
        assert (await kept(s)).paths == ("calc.py",)
        assert await s.bot.deps.provider.list() == []
        assert not any(name.startswith(lost) for name in await s.containers())


async def test_what_changes_nothing_makes_no_checkpoint_and_what_is_undone_is_not_kept() -> None:
    async with story() as s:
        s.script(
            say(call("read_file", path="calc.py")),
            say(call("run_command", command="git status")),
            say(call("write_file", path="a.txt", contents="a")),
            say(call("run_command", command="git status")),
            say(call("remove_file", path="a.txt")),
            say(text="Bye."),
            say(text="Bye."),
        )
        await s.comment()
        await s.settle()
        assert await s.code() == "NO_PROGRESS"
        assert len(await checkpoints(s)) == 2
        assert not await kept(s)


MANY = say(*(call("write_file", path=f"out/{number}.txt", contents="x") for number in range(5)))
LOOK = say(call("list_dir", path="."))


async def test_a_change_that_stays_too_large_pauses_the_task_which_says_so() -> None:
    async with story(with_config(TESTS + "limits: {files: 3}\n")) as s:
        s.script(fix(), MANY, LOOK, LOOK, LOOK)
        await s.comment()
        await s.settle()
        assert await s.code() == "LIMIT_EXCEEDED"
        for words in ("larger than 3 files", "6 files", "after step 1", "limits.files", "/coder retry"):
            assert words in s.comments[0]
        assert (await kept(s)).paths == ("calc.py",)
        told = [step.note or "" for step in await steps(s)]
        assert [note.startswith("The change can't be kept as it is") for note in told] == [False] * 2 + [True] * 3


async def test_a_change_that_is_made_smaller_in_time_goes_on() -> None:
    remove = say(*(call("remove_file", path=f"out/{number}.txt") for number in range(5)))
    async with story(with_config(TESTS + "limits: {files: 3}\n")) as s:
        s.script(fix(), MANY, LOOK, remove, submit())
        await s.comment()
        await s.settle()
        assert await s.code() == "VERIFIED"
        assert [bool(step.note) for step in await steps(s)] == [False, False, True, True, False]


async def test_a_tree_that_nobody_can_read_is_told_to_the_model_and_kills_nothing() -> None:
    spoil = b"import os\n\n\ndef test_spoil():\n    os.mkdir('dark')\n    os.chmod('dark', 0)\n"
    async with story({**with_config(TESTS), "spoil.py": spoil}) as s:
        s.script(fix(), say(call("run_command", command="python3 -m pytest -q spoil.py")), LOOK, LOOK, LOOK)
        await s.comment()
        await s.settle()
        assert await s.code() == "LIMIT_EXCEEDED"
        assert "dark can't be read" in s.comments[0]
        assert (await kept(s)).paths == ("calc.py",)


async def test_the_same_change_handed_over_again_is_verified_again() -> None:
    async with story(with_config(TESTS + "limits: {attempts: 2}\n")) as s:
        s.script(fix(new="return a * b"), submit(), submit())
        await s.comment()
        await s.settle()
        assert await s.code() == "CHECKS_FAILED"
        assert len(await steps(s)) == 3
