"""A bot and a local GitHub around it, so that stories can speak as a person, step, and look at what people would see.

Everything but the model is real: HTTP, signatures, git, SQL, Docker."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from bot import app, local
from bot.app import Bot
from bot.demo import sample
from bot.demo.github import LocalGitHub
from bot.settings import Settings, load
from tests.runtime import quickest

REPOSITORY = "octo/sample"
IMAGE = "coder-bot-sandbox:latest"
BROKEN, FIXED = "return a - b", "return a + b"

FILES: Mapping[str, bytes] = {
    "calc.py": b"def add(a, b):\n    return a - b\n",
    "test_calc.py": b"from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    ".github/coder.yml": b"checks:\n  - {name: tests, run: python3 -m pytest -q, timeout: 1m}\n",
}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def say(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One reply of the scripted model."""
    return {"tool_calls": list(calls), **more}


def fix(old: str = BROKEN, new: str = FIXED, path: str = "calc.py") -> dict[str, Any]:
    return say(call("edit_file", path=path, old=old, new=new))


def submit(title: str = "Add instead of subtracting", summary: str = "The sign was wrong.") -> dict[str, Any]:
    return say(call("submit", title=title, summary=summary))


@dataclass
class Clock:
    """The bot's time: the machine's, and as far ahead as a test wants."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Story:
    """One bot with one repository and one open issue."""

    bot: Bot
    github: LocalGitHub
    settings: Settings
    issue: int
    script_file: Path
    clock: Clock
    repository: str = REPOSITORY
    guids: list[str] = field(default_factory=list)

    def script(self, *replies: Mapping[str, Any]) -> None:
        """What the model will say, one reply a step, from the episode's first step on."""
        self.script_file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))

    async def comment(
        self, text: str = "/coder fix", *, author: str = "maintainer", number: int | None = None
    ) -> str:
        """Somebody comments; the webhook has been answered when this returns. Gives the delivery's GUID."""
        delivery = await self.github.comment(self.repository, number or self.issue, text, author=author)
        self.guids.append(delivery.guid)
        return delivery.guid

    async def settle_later(self) -> None:
        """The same an hour later."""
        self.clock.ahead += timedelta(hours=1)
        await self.settle()

    async def settle(self) -> None:
        """Lets the bot work, and GitHub tell it about it, until nothing is due."""
        for _ in range(20):
            await self.bot.engine.settle()
            await self.github.settled()
            due = await self.bot.deps.store.next_run()
            if due is None or due > self.clock():
                return
        raise AssertionError("the bot does not come to rest")

    async def until(self, state: str) -> None:
        """Waits for a task to reach a state while the bot works in the background."""
        async with asyncio.timeout(120):
            while not any(task.state == state for task in await self.bot.deps.store.tasks()):
                await asyncio.sleep(0.02)

    @property
    def comments(self) -> list[str]:
        """What the bot has said on the issue."""
        return [
            item.body
            for item in self.github.issue_comments(self.repository, self.issue)
            if item.author.endswith("[bot]")
        ]

    @property
    def pull_requests(self) -> Sequence[Any]:
        return self.github.pull_requests(self.repository)

    @property
    def branches(self) -> Sequence[str]:
        return sorted(self.github.branches(self.repository))

    async def code(self) -> str:
        """How the newest episode of the newest task ended."""
        task = (await self.bot.deps.store.tasks())[0]
        episode = await self.bot.deps.store.last_episode(task.id)
        return str(episode.code)

    async def containers(self) -> list[str]:
        """The engine's own list of this deployment's containers and workspaces, running or not: all but snapshots,
        which outlive their task."""
        found = await engine_objects(self.settings.coder_deployment)
        snapshots = {name.removesuffix(".sealed") for name in found if name.endswith(".sealed")}
        return sorted(
            {name.removesuffix(".changes") for name in found if name.removesuffix(".sealed") not in snapshots}
        )


async def engine_objects(deployment: str) -> list[str]:
    """Asked of the engine itself, not of our provider."""
    query = {"filters": json.dumps({"label": [f"coder-bot.deployment={deployment}"]})}
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    async with httpx.AsyncClient(transport=transport, base_url="http://docker") as client:
        containers = (await client.get("/v1.41/containers/json", params={**query, "all": "1"})).json()
        volumes = (await client.get("/v1.41/volumes", params=query)).json()
    return [item["Id"] for item in containers] + [item["Name"] for item in volumes["Volumes"] or []]


@asynccontextmanager
async def github_only(
    files: Mapping[str, bytes] = FILES,
) -> AsyncIterator[tuple[LocalGitHub, Settings, int, Path]]:
    """A local GitHub with the repository and an issue, and settings for a bot on it; no bot yet."""
    home = Path(tempfile.mkdtemp(prefix="coder-s-"))
    try:
        async with LocalGitHub(home / "github") as github:
            await github.create_repository(REPOSITORY, source=files)
            github.grant(REPOSITORY, "maintainer", "write")
            issue = github.open_issue(REPOSITORY, title="add() is wrong", body="2 + 3 gives -1.", author="reporter")
            script = home / "script.jsonl"
            yield github, settings_for(github, home, script), issue.number, script
    finally:
        shutil.rmtree(home, ignore_errors=True)


def settings_for(github: LocalGitHub, home: Path, script: Path, **more: str) -> Settings:
    origin = github.api_url.removesuffix("/api/v3").partition("://")[2]
    return load(
        {
            "CODER_HOME": str(home / "home"),
            "CODER_DEPLOYMENT": f"test-{secrets.token_hex(4)}",
            "CODER_DOCKER_RUNTIME": quickest(),
            "CODER_MODEL": f"scripted:{script}",
            "CODER_PRIVATE_HOSTS": origin,
            "GITHUB_API_URL": github.api_url,
            "GITHUB_APP_ID": str(github.app.app_id),
            "GITHUB_PRIVATE_KEY": github.app.private_key,
            "GITHUB_WEBHOOK_SECRET": github.app.webhook_secret,
            **more,
        }
    )


@asynccontextmanager
async def story(files: Mapping[str, bytes] = FILES, **more: str) -> AsyncIterator[Story]:
    """`more` are settings, by their environment names."""
    async with github_only(files) as (github, settings, issue, script):
        settings = settings_for(github, script.parent, script, **more)
        clock = Clock()
        async with app.open_bot(settings, clock=clock) as bot, local.listening(bot, github):
            yield Story(bot=bot, github=github, settings=settings, issue=issue, script_file=script, clock=clock)
        assert await engine_objects(settings.coder_deployment) == [], "sandboxes and snapshots end with the story"
        assert github.violations == [], "every request and answer fits GitHub's own OpenAPI"


def with_config(text: str, **files: bytes) -> dict[str, bytes]:
    return {**FILES, **files, ".github/coder.yml": text.encode()}


__all__ = ["FILES", "Story", "call", "fix", "sample", "say", "story", "submit", "with_config"]
