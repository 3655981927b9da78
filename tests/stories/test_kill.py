"""kill -9 at the save points of the main job, then start again: the same pull request comes out, once."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

from bot import app
from bot.db.store import Store
from bot.demo.github import LocalGitHub
from bot.domain.task import State
from bot.settings import Settings
from tests.stories.harness import BROKEN, FIXED, REPOSITORY, call, engine_objects, github_only, say, submit
from tests.stories.mortal import Parent

AT_ONCE = 4
PATIENCE_S = 300
SCRIPT = (
    say(
        call("run_command", command="python3 -m pytest -q"), call("edit_file", path="calc.py", old=BROKEN, new=FIXED)
    ),
    submit(),
)


@dataclass(frozen=True)
class Seen:
    """What people see in the end."""

    trees: tuple[str, ...]
    files: bytes | None
    comments: int
    branches: tuple[str, ...]
    steps: int
    calls: int


@pytest.mark.timeout(2400)
async def test_a_kill_at_a_save_point_of_every_fourth_kind_ends_in_the_same_pull_request(
    record_property: Callable[[str, object], None],
) -> None:
    await kill(record_property, "after", lambda names: sorted(names.index(name) for name in set(names))[::4])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("phase", ["after", "before"])
async def test_a_kill_at_any_save_point_ends_in_the_same_pull_request(
    phase: str, record_property: Callable[[str, object], None]
) -> None:
    await kill(record_property, phase, lambda names: range(len(names)))


async def kill(
    record_property: Callable[[str, object], None], phase: str, which: Callable[[list[str]], Iterable[int]]
) -> None:
    """One main job to see the save points, then one for each of those chosen."""
    async with Parent() as parent, asyncio.TaskGroup() as group:
        names: list[str] = []
        reference = await run(parent, None, 0, names)
        assert len(reference.trees) == 1
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> str:
            async with gate:
                try:
                    seen = await run(parent, phase, number, [])
                except (AssertionError, TimeoutError) as exc:
                    return f"{phase} save point {number} ({names[number]}): {type(exc).__name__}: {exc}"
            return "" if seen == reference else f"{phase} save point {number} ({names[number]}): {seen}"

        killed = [group.create_task(one(number)) for number in which(names)]
        failed = [why for task in killed if (why := await task)]
    record_property("says", f"killed {phase} {len(killed)} of {len(names)} save points, {len(failed)} failed")
    assert failed == []


async def run(parent: Parent, phase: str | None, number: int, names: list[str]) -> Seen:
    """The main job with a process that dies at one save point and is started again; `names` gets the save points."""
    async with github_only() as (github, settings, issue, script):
        script.write_text("".join(json.dumps(reply) + "\n" for reply in SCRIPT))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        github.webhook_url = f"http://127.0.0.1:{port}/github/webhook"
        log = script.with_name("save-points")
        log.write_text("")
        process = await parent.start(settings, port, log, phase, number)
        try:
            delivery = await github.comment(REPOSITORY, issue, "/coder fix", author="maintainer")
            if phase is not None:
                async with asyncio.timeout(PATIENCE_S):
                    assert await process.wait() == -9, "the process was to die at its save point"
                process = await parent.start(settings, port, log, None, -1)
                if delivery.status != 202:
                    await github.redeliver(delivery.guid)
            await rest(settings)
            names += log.read_text().splitlines()
            return await look(github, settings, issue)
        finally:
            process.kill()
            await process.wait()
            provider = app.sandbox_provider(settings)
            for info in await provider.list():
                await provider.kill(info.id)
            for snapshot in await provider.snapshots():
                await provider.drop_snapshot(snapshot.id)
            await provider.aclose()
            assert await engine_objects(settings.coder_deployment) == []


async def rest(settings: Settings) -> None:
    """Waits until the task is in review and nothing is due."""
    store = Store(settings.database_url)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                tasks = await store.tasks()
                if tasks and tasks[0].state is State.IN_REVIEW and not await store.jobs():
                    return
                if tasks and tasks[0].state is State.WAITING and not await store.jobs():
                    last = await store.last_episode(tasks[0].id)
                    raise AssertionError(f"the task ended with {last.code}: {last.detail}")
                await asyncio.sleep(0.1)
    finally:
        await store.aclose()


async def look(github: LocalGitHub, settings: Settings, issue: int) -> Seen:
    await github.settled()
    store = Store(settings.database_url)
    try:
        [task] = await store.tasks()
        steps = await store.steps(task.id)
    finally:
        await store.aclose()
    pulls = github.pull_requests(REPOSITORY)
    own = [item for item in github.issue_comments(REPOSITORY, issue) if item.author.endswith("[bot]")]
    return Seen(
        trees=tuple(pull.head_tree for pull in pulls),
        files=github.file(REPOSITORY, pulls[0].head_sha, "calc.py") if pulls else None,
        comments=len(own),
        branches=tuple(sorted(github.branches(REPOSITORY))),
        steps=len(steps),
        calls=sum(len(step.calls) for step in steps),
    )
