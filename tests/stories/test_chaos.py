"""Everything goes wrong at random while many tasks are worked on; then calm returns: no work is lost, nothing left.

`make chaos` runs the long form: 200 faults over 50 tasks on Docker, 40 over 10 on E2B. CODER_CHAOS_SEED picks another
course of events."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot import app, local
from bot.db.store import Store
from bot.demo.github import LocalGitHub
from bot.demo.webhooks import Delivery
from bot.domain.task import Task
from bot.pipeline import reconcile
from bot.settings import Settings
from tests.e2b_server import Cut, E2BServer, LostFiles, NoEnd, OtherId, Refuse, Slow
from tests.stories.harness import (
    BROKEN,
    FIXED,
    IMAGE,
    REPOSITORY,
    Clock,
    call,
    engine_objects,
    github_only,
    say,
    settings_for,
    submit,
)
from tests.stories.mortal import Mortal, Parent
from tests.stories.troubled_engine import TroubledEngine

AT_ONCE = 4
PATIENCE_S = 900
RETRIES = 3
"""How often a person says `/coder retry` to a task that ended with an error."""

SCRIPT = (
    say(call("run_command", command="python3 -m pytest -q")),
    say(call("edit_file", path="calc.py", old=BROKEN, new=FIXED)),
    say(call("run_tests")),
    submit(),
)


@dataclass
class Chaos:
    """One bot in trouble."""

    parent: Parent
    github: LocalGitHub
    settings: Settings
    log: Path
    port: int
    random: random.Random
    process: Mortal | None = None
    done: Counter[str] = field(default_factory=Counter)
    undelivered: list[Delivery] = field(default_factory=list)
    restarting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self) -> None:
        self.process = await self.parent.start(self.settings, self.port, self.log, None, -1)

    async def stop(self) -> str | None:
        """What it said last, had it ended by itself."""
        assert self.process is not None
        if self.process.returncode is not None:
            return self.log.with_name("stderr").read_text()[-3000:]
        self.process.kill()
        await self.process.wait()
        return None

    async def say(self, number: int, text: str) -> None:
        delivery = await self.github.comment(REPOSITORY, number, text, author="maintainer")
        if delivery.status != 202:
            self.undelivered.append(delivery)

    async def kill_bot(self) -> None:
        async with self.restarting:
            assert self.process is not None
            self.process.kill()
            await self.process.wait()
            await self.start()
        while self.undelivered:
            # As an operator does from GitHub's list of failed deliveries.
            delivery = self.undelivered.pop()
            if (await self.github.redeliver(delivery.guid)).status != 202:
                self.undelivered.append(delivery)
                break

    async def container(self) -> str | None:
        """Any container of this deployment, by the engine's own list."""
        query = {"filters": json.dumps({"label": [f"coder-bot.deployment={self.settings.coder_deployment}"]})}
        async with _engine() as engine:
            found = (await engine.get("/v1.41/containers/json", params=query)).json()
        return str(self.random.choice(found)["Id"]) if found else None


def _engine() -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    return httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=60)


async def _ask_engine(method: str, path: str, **params: str) -> None:
    async with _engine() as engine:
        await engine.request(method, f"/v1.41{path}", params=params)  # it may have ended by itself just now


async def docker_fault(chaos: Chaos, engine: TroubledEngine) -> str:
    kinds = ("unheard", "unanswered", "cut", "kill", "stop", "remove", "lose everything", "snapshot", "kill the bot")
    kind = chaos.random.choices(kinds, weights=(6, 6, 4, 4, 2, 2, 2, 1, 1))[0]
    container = await chaos.container()
    match kind:
        case "unheard" | "unanswered" | "cut":
            engine.trouble(kind)
        case "kill the bot":
            await chaos.kill_bot()
        case "snapshot":
            await _lose_snapshot(chaos.settings)
        case _ if container is None:
            engine.trouble("cut")
            return "cut"
        case "kill":
            await _ask_engine("POST", f"/containers/{container}/kill")
        case "stop":
            await _ask_engine("POST", f"/containers/{container}/stop", t="0")
        case _:
            extra = {"v": "1"} if kind == "lose everything" else {}
            await _ask_engine("DELETE", f"/containers/{container}", force="1", **extra)
    return kind


async def _lose_snapshot(settings: Settings) -> None:
    """Somebody tidies up the engine's volumes. One in use can't be removed."""
    for name in await engine_objects(settings.coder_deployment):
        if name.endswith(".sealed"):
            await _ask_engine("DELETE", f"/volumes/{name.removesuffix('.sealed')}", force="1")


async def e2b_fault(chaos: Chaos, server: E2BServer) -> str:
    faults: list[tuple[str, Any]] = [
        ("create", Refuse(status=503, done=True)),
        ("create", Refuse(status=429, retry_after_s=1)),
        ("create", Refuse(status=502, page=True)),
        ("connect", Refuse(status=502)),
        ("connect", LostFiles()),
        ("connect", OtherId()),
        ("kill", Refuse(status=500, done=True)),
        ("Start", Cut(messages=1)),
        ("Start", NoEnd()),
        ("write", Refuse(status=500)),
        ("read", Slow(seconds=1.0)),
    ]
    kind = chaos.random.randrange(len(faults) + 3)
    if kind < len(faults):
        name, fault = faults[kind]
        server.faults.on(name, fault)  # type: ignore[arg-type]  # the list's names are calls
        return f"{name}: {fault}"
    if kind == len(faults):
        await chaos.kill_bot()
        return "kill the bot"
    if server.sandbox_ids:
        sandbox = chaos.random.choice(sorted(server.sandbox_ids))
        async with httpx.AsyncClient() as client:
            await client.delete(f"{server.api_url}/sandboxes/{sandbox}", headers={"X-API-KEY": server.api_key})
    return "vanish"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("provider", "tasks", "faults"),
    [
        ("docker", 2, 10),
        ("e2b", 1, 5),
        pytest.param("docker", 50, 200, marks=pytest.mark.slow),
        pytest.param("e2b", 10, 40, marks=pytest.mark.slow),
    ],
)
async def test_whatever_breaks_no_work_is_lost_and_nothing_is_left(
    provider: str, tasks: int, faults: int, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("CODER_CHAOS_SEED", "1"))
    async with AsyncExitStack() as stack:
        github, _, first, script = await stack.enter_async_context(github_only())
        script.write_text("".join(json.dumps(reply) + "\n" for reply in SCRIPT))
        home = script.parent
        if provider == "docker":
            engine = await stack.enter_async_context(TroubledEngine(home / "engine.sock"))
            settings = settings_for(github, home, script, DOCKER_HOST=engine.host)
        else:
            server = await stack.enter_async_context(
                E2BServer(templates={"coder-bot-sandbox": IMAGE}, private_addresses=True)
            )
            settings = settings_for(
                github,
                home,
                script,
                CODER_SANDBOX="e2b",
                E2B_API_KEY=server.api_key,
                E2B_API_URL=server.api_url,
                E2B_SANDBOX_URL=server.sandbox_url,
            )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        github.webhook_url = f"http://127.0.0.1:{port}/github/webhook"
        parent = await stack.enter_async_context(Parent())
        chaos = Chaos(parent, github, settings, script.with_name("save-points"), port, random.Random(seed))
        chaos.log.write_text("")
        await chaos.start()

        async def listed() -> Collection[str]:
            if provider == "docker":
                return await engine_objects(settings.coder_deployment)
            return server.sandbox_ids | server.snapshot_ids

        async def fault() -> str:
            return await (docker_fault(chaos, engine) if provider == "docker" else e2b_fault(chaos, server))

        try:
            issues = [first] + [_issue(github, number) for number in range(1, tasks)]
            await _trouble(chaos, issues, faults, fault)
            if provider == "e2b":
                server.faults.clear()
            ended = await _recover(chaos, issues)
        finally:
            died = await chaos.stop()
        assert died is None, f"the bot ended by itself: {died}"
        await _check_work(chaos, issues)
        if provider == "docker":
            settings = settings_for(github, home, script, CODER_DEPLOYMENT=settings.coder_deployment)
        left = await _close_and_reap(chaos, settings, listed)
        record_property(
            "says",
            f"chaos on {provider}, seed {seed}: {sum(chaos.done.values())} faults over {tasks} tasks "
            f"({', '.join(f'{n} {kind}' for kind, n in chaos.done.most_common())}); endings before a retry: "
            f"{', '.join(f'{n} {code}' for code, n in ended.most_common())}; work lost 0, left {left}",
        )


def _issue(github: LocalGitHub, number: int) -> int:
    return github.open_issue(REPOSITORY, title=f"add() is wrong ({number})", body="2 + 3.", author="reporter").number


async def _trouble(chaos: Chaos, issues: Sequence[int], faults: int, fault: Callable[[], Any]) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, share: int) -> None:
        async with gate:
            await chaos.say(number, "/coder fix")
            for _ in range(share):
                await asyncio.sleep(chaos.random.uniform(0.2, 2.5))
                chaos.done[await fault()] += 1

    share = faults // len(issues)
    await asyncio.gather(*(one(number, share) for number in issues))


async def _recover(chaos: Chaos, issues: Sequence[int]) -> Counter[str]:
    """Calm: every task comes to rest, and what ended with an error is asked for again. How they ended at first."""
    while chaos.undelivered:
        await chaos.github.redeliver(chaos.undelivered.pop().guid)
    first: Counter[str] = Counter()
    for attempt in range(RETRIES + 1):
        resting = await _rest(chaos, len(issues))
        codes = {task.number: code for task, code in resting}
        if attempt == 0:
            first.update(codes.values())
        assert resting, await chaos.stop()
        failed = [task.number for task, code in resting if code != "VERIFIED"]
        if not failed:
            return first
        for number in failed:
            await chaos.say(number, "/coder retry")
    raise AssertionError(f"tasks that do not come to a good end: {codes}")


async def _rest(chaos: Chaos, tasks: int) -> list[tuple[Task, str]]:
    store = Store(chaos.settings.database_url)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                assert chaos.process is not None
                if chaos.process.returncode is not None:
                    return []
                found = await store.tasks()
                if len(found) == tasks and not await store.jobs() and not any(task.is_busy for task in found):
                    return [(task, str((await store.last_episode(task.id)).code)) for task in found]
                await asyncio.sleep(0.5)
    finally:
        await store.aclose()


async def _check_work(chaos: Chaos, issues: Sequence[int]) -> None:
    await chaos.github.settled()
    pulls = chaos.github.pull_requests(REPOSITORY)
    assert len(pulls) == len(issues), "one pull request for each issue"
    for pull in pulls:
        assert FIXED.encode() in (chaos.github.file(REPOSITORY, pull.head_sha, "calc.py") or b"")
    for number in issues:
        said = [one for one in chaos.github.issue_comments(REPOSITORY, number) if one.author.endswith("[bot]")]
        assert sum("coder-bot:task" in one.body for one in said) == 1, "one live comment for each task"


async def _close_and_reap(chaos: Chaos, settings: Settings, listed: Callable[[], Awaitable[Collection[str]]]) -> int:
    """Every pull request is closed, and the bot looks for leftovers. How many things are left by the service's own
    list, snapshots that the bot means to keep left out."""
    clock = Clock()
    async with app.open_bot(settings, clock=clock) as bot, local.listening(bot, chaos.github):
        for pull in chaos.github.pull_requests(REPOSITORY):
            await chaos.github.close_pull(REPOSITORY, pull.number, author="maintainer")
        for _ in range(3):
            await bot.engine.settle()
            await reconcile.run(bot.deps)
            clock.ahead += timedelta(hours=1)
        known = {record.id for record in await bot.deps.store.snapshots()}
        assert {one.id for one in await bot.deps.provider.snapshots()} == known, "each snapshot is known or ended"
        for snapshot_id in known:
            await bot.deps.provider.drop_snapshot(snapshot_id)
        left = await listed()
        assert sorted(left) == []
        return len(left)
