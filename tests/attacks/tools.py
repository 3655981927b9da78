"""The story in which a model calls its tools with what leads out, runs something else or loosens a guard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.agent import loop
from bot.agent.tools import EditFile, ListDir, Observation, ReadFile, RemoveFile, Search, Toolbox, WriteFile
from bot.demo import repository
from bot.domain.commands_policy import Allowed, Policy
from bot.llm.protocol import ToolCall
from tests.attacks import scene
from tests.attacks.attack import Attack
from tests.attacks.scene import REPO, Watch
from tests.attacks.tool_attacks import TOOLS
from tests.stories.harness import REPOSITORY, call, fix, say, story, submit

NAIVE = """
import json, os, sys, urllib.parse
asked = json.load(sys.stdin)
path = asked["path"].split("\\0")[0].replace("\\\\", "/")
if path.startswith("file:"):
    path = urllib.parse.unquote(urllib.parse.urlparse(path).path)
path = os.path.join(os.getcwd(), os.path.expanduser(path))
if asked["verb"] == "ListDir":
    print(*os.listdir(path), sep="\\n")
elif asked["verb"] == "RemoveFile":
    os.unlink(path)
elif asked["verb"] == "ReadFile":
    print(open(path).read())
else:
    text = asked.get("contents")
    if asked["verb"] == "EditFile":
        text = open(path).read().replace(asked["old"], asked["new"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
"""


async def attack(folder: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool) -> set[str]:
    """Every call, one after the other, each looked after; then the work that was asked for."""
    # One sandbox for all of them: the end that so many refusals make is a wall of its own (`limits`).
    monkeypatch.setattr(loop, "REFUSALS_IN_ALL", 10_000)
    if not held:
        _without_walls(monkeypatch)
    order: list[Attack | None] = [None]
    calls = [call("read_file", path="inside/code.py")]
    for number, each in enumerate(TOOLS):
        if number % 4 == 0:
            calls.append(call("run_command", command=scene.FINE[number // 4 % len(scene.FINE)]))
            order.append(None)
        assert each.call is not None
        calls.append(dict(each.call))
        order.append(each)
    watch = Watch(order, first="echo victim | tee ../victim ../edited ../removed")

    async def run(toolbox: Toolbox, asked: ToolCall, **more: Any) -> Observation:
        return await watch.run(toolbox, asked, **more)

    monkeypatch.setattr(Toolbox, "run", run)
    async with story(scene.repository(folder)) as s:  # type: ignore[arg-type]
        s.script(say(*calls), fix(), submit())
        await s.comment()
        await s.settle()
        assert watch.tried == [each.id for each in TOOLS]
        if held:
            assert "PLACE" in watch.answers.pop(0), "a link that stays inside works"
            assert [text for text in watch.answers if not text.startswith("exit code 0")] == []
            assert await s.code() == "VERIFIED"
            [pull] = s.pull_requests
            base = s.github.branches(REPOSITORY)["main"]
            changed = await repository.diff(s.github.path(REPOSITORY), base, pull.head_sha)
            assert changed.count(b"diff --git") == 1, "the mended file and nothing else"
    return watch.seen


def _without_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    """policy: every line is allowed, and a shell reads it. paths, search: they are taken as they come by whatever
    opens them, with no rules, nothing resolved, links followed."""
    do = Toolbox._do

    async def naive(self: Toolbox, arguments: Any, timeout_s: float, repeated: bool) -> Observation:
        if isinstance(arguments, Search):
            argv = ["rg", arguments.pattern, arguments.path or "."]
            result = await self.sandbox.exec(argv, cwd=REPO, timeout_s=30)
        elif isinstance(arguments, ReadFile | WriteFile | EditFile | RemoveFile | ListDir):
            asked = json.dumps({"verb": type(arguments).__name__, **arguments.model_dump()}).encode()
            result = await self.sandbox.exec(["python3", "-c", NAIVE], cwd=REPO, stdin=asked, timeout_s=30)
        else:
            return await do(self, arguments, timeout_s, repeated)
        return Observation(text=(result.stdout + result.stderr).decode())

    allowed = lambda _, command: Allowed(argv=("bash", "-c", command), rule="the wall is down")  # noqa: E731
    monkeypatch.setattr(Policy, "decide", allowed)
    monkeypatch.setattr(Toolbox, "_do", naive)
