"""Deliveries come in any order, often, five at once, while the bot is killed again and again: people find the same.

`make soak` runs the long form: 2,000 deliveries over 100 issues. CODER_SOAK_SEED picks another course of events,
CODER_SOAK_DELIVERIES and CODER_SOAK_ISSUES its size."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import random
import re
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot import app
from bot.db.store import Store
from bot.demo.github import LocalGitHub
from bot.settings import Settings
from tests.soak.course import FEW, SCRIPT, History, build, course, in_turn, perform, repositories
from tests.soak.post import Letter, Post, office
from tests.soak.seen import seen
from tests.stories.harness import engine_objects, settings_for
from tests.stories.mortal import Mortal, Parent

SEED = int(os.environ.get("CODER_SOAK_SEED", "1"))
DELIVERIES = int(os.environ.get("CODER_SOAK_DELIVERIES", "2000"))
ISSUES = int(os.environ.get("CODER_SOAK_ISSUES", "100"))
DELIVERIES_TO_A_KILL = 40
CHAPTERS = 3
AT_ONCE = 5
PAUSE_S = 0.6
PATIENCE_S = 3600


@dataclass
class World:
    """One GitHub, one bot on it, and the post between them."""

    github: LocalGitHub
    settings: Settings
    post: Post
    parent: Parent
    port: int
    log: Path
    histories: Sequence[History]
    process: Mortal | None = None
    issues: list[int] = field(default_factory=list)

    async def start(self) -> None:
        self.process = await self.parent.start(self.settings, self.port, self.log, None, -1)

    async def kill(self) -> None:
        """kill -9, where it is still alive: it must not end by itself."""
        assert self.process is not None
        assert self.process.returncode is None, self._last_words()
        self.process.kill()
        await self.process.wait()

    async def act(self, seed: int, chapter: int) -> None:
        """What people do in a chapter; the bot hears of none of it before it is delivered."""
        for place, act in in_turn(seed, self.histories, chapter):
            name, issue = self.histories[place].repository, self.issues[place]
            branch = f"coder/issue-{issue}"
            pulls = (pull.number for pull in self.github.pull_requests(name) if pull.head_branch == branch)
            try:
                await perform(self.github, name, issue, next(pulls, None), act)
            except LookupError as exc:
                there = [line for line in await self.seen() if line.startswith(f"{name}#{issue}")]
                raise AssertionError("\n".join([str(exc), *there])) from exc

    async def rest(self) -> None:
        """Returns once the bot has nothing to do. What it did may have made GitHub send something."""
        store = Store(self.settings.database_url)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await store.jobs():
                    assert self.process is not None
                    assert self.process.returncode is None, self._last_words()
                    await asyncio.sleep(0.1)
            await self.github.settled()
        finally:
            await store.aclose()

    async def seen(self) -> list[str]:
        store = Store(self.settings.database_url)
        try:
            return await seen(self.github, store, repositories(self.histories))
        finally:
            await store.aclose()

    def _last_words(self) -> str:
        return f"the bot ended by itself: {self.log.with_name('stderr').read_text()[-3000:]}"


@asynccontextmanager
async def world(parent: Parent, histories: Sequence[History]) -> AsyncIterator[World]:
    home = Path(tempfile.mkdtemp(prefix="coder-s-"))
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        github = await stack.enter_async_context(LocalGitHub(home / "github"))
        post = await stack.enter_async_context(office(f"http://127.0.0.1:{port}/github/webhook"))
        github.webhook_url = post.url
        script = home / "script.jsonl"
        script.write_text("".join(json.dumps(reply) + "\n" for reply in SCRIPT))
        settings = settings_for(github, home, script)
        made = World(github, settings, post, parent, port, home / "save-points", histories)
        made.log.write_text("")
        made.issues = await build(github, histories)
        await made.start()
        try:
            yield made
        finally:
            if made.process is not None:
                made.process.kill()
                await made.process.wait()
            await sweep(settings)
        assert github.violations == []


async def sweep(settings: Settings) -> None:
    """Ends what tasks in review have kept."""
    provider = app.sandbox_provider(settings)
    for info in await provider.list():
        await provider.kill(info.id)
    for snapshot in await provider.snapshots():
        await provider.drop_snapshot(snapshot.id)
    await provider.aclose()
    assert await engine_objects(settings.coder_deployment) == []


async def ordered(parent: Parent, seed: int, histories: Sequence[History]) -> list[str]:
    """Each delivery once, in its order."""
    async with world(parent, histories) as w:
        for chapter in range(CHAPTERS):
            await w.act(seed, chapter)
            while letters := w.post.taken():
                for letter in letters:
                    assert await w.post.deliver(letter)
                await w.rest()
        return await w.seen()


@dataclass
class Soak:
    """The same deliveries, handed out by chance."""

    world: World
    random: random.Random
    kills: list[int]
    """After how many deliveries the bot is killed."""
    waiting: list[Letter] = field(default_factory=list)
    old: list[Letter] = field(default_factory=list)
    restarting: asyncio.Task[None] | None = None
    killed: int = 0

    async def chapter(self, until: int) -> None:
        """Hands out all that is due, and what is old once more, until so many deliveries have been answered."""
        post = self.world.post
        while True:
            self.waiting += post.taken()
            is_kill_due = bool(self.kills) and post.answered >= self.kills[0]
            if not self.waiting and post.answered >= until and not is_kill_due:
                await self._restarted()
                await self.world.rest()
                self.waiting += post.taken()
                if not self.waiting:
                    return
            await asyncio.gather(*(self._hand_out(letter) for letter in self._some(until)))
            if is_kill_due:
                del self.kills[0]
                await self._restarted()
                self.restarting = asyncio.create_task(self._restart(self.random.choice([0.0, 0.01, 0.5, 2.0])))
            await asyncio.sleep(self.random.uniform(0, PAUSE_S))

    def _some(self, until: int) -> list[Letter]:
        found = []
        for _ in range(self.random.randint(1, AT_ONCE)):
            spare = until - self.world.post.answered - len(self.waiting)
            if self.old and (not self.waiting or self.random.random() < spare / max(1, spare + len(self.waiting))):
                found.append(self.random.choice(self.old))
            elif self.waiting:
                found.append(self.waiting.pop(self.random.randrange(len(self.waiting))))
        return found

    async def _hand_out(self, letter: Letter) -> None:
        """Once or several times at once; what nobody has accepted comes again later."""
        copies = self.random.choices((1, 2, 5), weights=(12, 3, 1))[0]
        sent = (
            self.world.post.deliver(letter, renamed=bool(copy) and self.random.random() < 0.5)
            for copy in range(copies)
        )
        if any(await asyncio.gather(*sent)):
            self.old += [] if letter in self.old else [letter]
        else:
            self.waiting.append(letter)

    async def _restart(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self.world.kill()
        self.killed += 1
        await asyncio.sleep(self.random.uniform(0, 0.3))
        await self.world.start()

    async def _restarted(self) -> None:
        if self.restarting is not None:
            await self.restarting
            self.restarting = None


async def soaked(
    parent: Parent, seed: int, histories: Sequence[History], deliveries: int, kills: int
) -> tuple[list[str], str]:
    source = random.Random(f"soak {seed}")
    async with world(parent, histories) as w:
        soak = Soak(w, source, sorted(source.sample(range(deliveries), kills)))
        for chapter in range(CHAPTERS):
            await w.act(seed, chapter)
            await soak.chapter(deliveries * (chapter + 1) // CHAPTERS)
        said = f"{w.post.answered} deliveries of {len(soak.old)} under {soak.killed} kills"
        return await w.seen(), said


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("histories", "deliveries", "kills", "seed"),
    [
        pytest.param(FEW, 60, 2, 1, id="few"),
        pytest.param(
            course(SEED, ISSUES),
            DELIVERIES,
            DELIVERIES // DELIVERIES_TO_A_KILL,
            SEED,
            marks=pytest.mark.slow,
            id="many",
        ),
    ],
)
async def test_any_order_of_deliveries_with_duplicates_and_kills_ends_as_the_right_order_does(
    histories: Sequence[History],
    deliveries: int,
    kills: int,
    seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    async with Parent() as parent:
        right = await ordered(parent, seed, histories)
        found, said = await soaked(parent, seed, histories, deliveries, kills)
    tasks = sum(bool(re.match(r"\S+ task ", line)) for line in right)
    record_property(
        "says",
        f"soak, seed {seed}: {said} about {len(histories)} issues; {tasks} tasks, {len(right)} lines compared",
    )
    differences = [line for line in difflib.ndiff(right, found) if line[0] in "+-"]
    assert not differences, "\n".join(differences)
