"""What verification costs beyond the tests it runs, from a warm snapshot with the baseline remembered.

    make bench        (or: python -m benchmarks.verification [--rounds N])

A bot on a local GitHub mends the same bug in one issue after another, each time with a change of a test, so that the
candidate, the old tests and the new tests are all run. `raw` is the same check run by the engine's own exec, in a
container that began with the same snapshot, as often as verification ran it. Milliseconds are medians of this machine
at this moment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot import app, local
from bot.app import Bot
from bot.db.store import Store
from bot.demo.github import LocalGitHub
from bot.domain.task import State, Task
from bot.pipeline import runs, stages
from bot.sandbox.docker_api import DockerApi
from bot.sandbox.protocol import SandboxSpec
from bot.sandbox.workspace import REPO
from bot.settings import load

REPOSITORY = "octo/bench"
CHECK = "python3 -m pytest -q"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
FILES = {
    "calc.py": b"def add(a, b):\n    return a - b\n",
    "test_calc.py": TEST.encode(),
    ".github/coder.yml": f"checks:\n  - {{name: tests, run: {CHECK}, timeout: 1m}}\n".encode(),
}
REPLIES: list[dict[str, Any]] = [
    {"name": "edit_file", "arguments": {"path": "calc.py", "old": "a - b", "new": "a + b"}},
    {
        "name": "write_file",
        "arguments": {"path": "test_calc.py", "contents": f"{TEST}\n\ndef test_more():\n    assert add(1, 1) == 2\n"},
    },
    {"name": "submit", "arguments": {"title": "Add", "summary": "The sign was wrong."}},
]


async def main(rounds: int) -> None:
    home = Path(tempfile.mkdtemp(prefix="coder-"))
    try:
        async with LocalGitHub(home / "github") as github:
            await github.create_repository(REPOSITORY, source=FILES)
            github.grant(REPOSITORY, "you", "write")
            script = home / "script.jsonl"
            script.write_text("".join(json.dumps({"tool_calls": [call]}) + "\n" for call in REPLIES))
            settings = load({"CODER_HOME": str(home / "home"), "CODER_MODEL": f"scripted:{script}"}).model_copy(
                update={
                    "coder_deployment": "bench",
                    "coder_private_hosts": frozenset({github.api_url.removesuffix("/api/v3").partition("://")[2]}),
                    "github_api_url": github.api_url,
                    "github_app_id": github.app.app_id,
                    "github_private_key": SecretStr(github.app.private_key),
                    "github_webhook_secret": SecretStr(github.app.webhook_secret),
                }
            )
            async with app.open_bot(settings) as bot, local.listening(bot, github):
                await _measure(bot, github, rounds)
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _measure(bot: Bot, github: LocalGitHub, rounds: int) -> None:
    spent: list[float] = []
    verify = stages.verify.run

    async def timed(deps: Any, task_id: str) -> None:
        began = time.perf_counter()
        await verify(deps, task_id)
        spent.append(time.perf_counter() - began)

    stages.verify.run = timed
    started: list[str] = []
    run_line = runs.run_line

    async def counted(*args: Any, **options: Any) -> Any:
        started.append("a check")
        return await run_line(*args, **options)

    runs.run_line = counted
    own, times = 0.0, 0
    overheads: list[float] = []
    for number in range(rounds + 1):
        started.clear()
        task = await _solve(bot, github)
        saved = await bot.deps.store.receipt(task.id)
        assert saved is not None
        if number:  # the first one has made the snapshot and the baseline
            assert saved.document["snapshot"] is not None
            assert [run.kind for run in saved.evidence.runs if run.cached] == ["baseline"]
            times = len(started)
            own = await _raw(bot.deps.store, saved.document["image"], times)
            overheads.append(spent[-1] - own)
            print(f"  {spent[-1] * 1000:6.0f} ms in all, {times} runs; raw {own * 1000:6.0f} ms", flush=True)
    beyond = statistics.median(overheads)
    print(
        f"verification             {beyond * 1000:8.0f} ms beyond its {times} runs of the tests ({beyond / own:.1f}x)"
    )


async def _solve(bot: Bot, github: LocalGitHub) -> Task:
    issue = github.open_issue(REPOSITORY, title="add() is wrong", body="2 + 3 gives -1.", author="you")
    await github.comment(REPOSITORY, issue.number, "/coder fix", author="you")
    while True:
        await bot.engine.settle()
        await github.settled()
        task = next(task for task in await bot.deps.store.tasks() if task.number == issue.number)
        if not task.is_busy and await bot.deps.store.next_run() is None:
            assert task.state is State.IN_REVIEW, await bot.deps.store.last_episode(task.id)
            return task


async def _raw(store: Store, image: str, times: int) -> float:
    """Seconds that the check takes that often, by the engine's own exec."""
    [snapshot] = await store.snapshots()
    provider = app.sandbox_provider(
        load({"CODER_HOME": tempfile.gettempdir()}).model_copy(update={"coder_deployment": "bench"})
    )
    api = DockerApi("unix:///var/run/docker.sock")
    spec = SandboxSpec(name="raw", kind="work", task="bench", image=image, lifetime_s=600, snapshot=snapshot.id)
    sandbox = await provider.create(spec)
    try:
        began = time.perf_counter()
        for _ in range(times):
            body = {"Cmd": ["sh", "-c", CHECK], "WorkingDir": REPO, "AttachStdout": True, "AttachStderr": True}
            made = await api.call("POST", f"/containers/{sandbox.id}/exec", body=body)
            async with api.exec_stream(made["Id"]) as stream:
                await stream.drain(_Nothing(), _Nothing())  # type: ignore[arg-type]
        return time.perf_counter() - began
    finally:
        await sandbox.aclose()
        await provider.kill(sandbox.id)
        await provider.aclose()
        await api.aclose()


class _Nothing:
    size = 0

    def add(self, piece: bytes) -> None:
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
