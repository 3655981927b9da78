"""The main job on an E2B-compatible service through the real SDK; and, there as on Docker, a review a week later."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2b_server import E2BServer
from tests.stories.harness import IMAGE, REPOSITORY, Story, call, fix, say, story, submit

WEEK = timedelta(days=7)


@pytest.fixture
async def server() -> AsyncIterator[E2BServer]:
    async with E2BServer(templates={"coder-bot-sandbox": IMAGE}, private_addresses=True) as running:
        yield running


def on(server: E2BServer) -> dict[str, Any]:
    return {
        "E2B_API_KEY": server.api_key,
        "E2B_API_URL": server.api_url,
        "E2B_SANDBOX_URL": server.sandbox_url,
        "CODER_SANDBOX": "e2b",
    }


async def test_the_demo_runs_on_e2b(server: E2BServer, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bot", "demo", "--json"),
        env={**os.environ, **on(server), "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    said = json.loads(out.decode().splitlines()[-1])
    assert process.returncode == 0
    assert (said["outcome"], said["code"]) == ("succeeded", "VERIFIED")
    assert said["pull_request"]["head_tree"] == said["receipt"]["tree"]
    assert said["sandbox"]["provider"] == said["verification_sandbox"]["provider"] == "e2b"
    assert said["sandbox"]["id"] != said["verification_sandbox"]["id"]
    assert (server.sandbox_ids, server.snapshot_ids) == (set(), set())


@pytest.mark.slow
async def test_a_paused_sandbox_is_continued_a_week_later_on_docker() -> None:
    async with story() as s:
        await _continued(s, None)


async def test_a_paused_sandbox_is_continued_a_week_later_on_e2b(server: E2BServer) -> None:
    async with story(**on(server)) as s:
        await _continued(s, server)


async def _continued(s: Story, server: E2BServer | None) -> None:
    s.script(fix(), submit())
    await s.comment()
    await s.settle()
    [first] = s.pull_requests
    store, provider = s.bot.deps.store, s.bot.deps.provider
    [task] = await store.tasks()
    [before] = await store.sandboxes(task.id)
    assert before.provider_id is not None
    assert [info.running for info in await provider.list(task=task.id)] == [False]
    s.clock.ahead += WEEK
    if server is not None:
        await server.advance(WEEK.total_seconds())
    reply = say(call("write_file", path="NOTES.md", contents="Adds.\n"), call("read_file", path="calc.py"))
    s.script(reply, submit("Say so", "Notes.") | {"expect": r"return a \+ b"})
    await s.comment("/coder fix write a note about it", number=first.number)
    await s.settle()
    [pull] = s.pull_requests
    assert (pull.number, pull.head_sha != first.head_sha) == (first.number, True)
    assert s.github.file(REPOSITORY, pull.head_sha, "NOTES.md") == b"Adds.\n"
    assert await store.sandboxes(task.id) == [before], "the same sandbox"
    [info] = await provider.list(task=task.id)
    assert (info.id, info.running) == (before.provider_id, False)
