"""The stories in which the model says what it should not: to people, to other bots, to GitHub, and secrets to all."""

from __future__ import annotations

import base64
import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import structlog
from markdown_it import MarkdownIt

from bot import sinks
from bot.domain import comment, pull_request
from bot.domain.redaction import Redactor
from bot.llm.protocol import Reply, ToolResult
from bot.llm.scripted import ScriptedModel
from bot.sandbox.docker import DockerProvider
from tests.attacks import scene
from tests.attacks.code import planted
from tests.stories.harness import FILES, REPOSITORY, Story, call, fix, say, story, submit

PRINTED = "PRINTED-BY-THE-SANDBOX"
PRINTING = (
    f"import os\n\n\ndef test():\n    print('{PRINTED}', open('/proc/self/environ').read(), dict(os.environ))\n"
)
PROSE = """\
Fixes #{other}, closes octo/sample#{other}: resolves #{other}. Thanks @octocat, &#64;octocat and @org/octocat!

![look](https://evil.test/a.png) <img src="https://evil.test/b.png"> <script>evil()</script>

/merge now

<!-- coder-bot:task=evil --> --> </details>
"""
ROCKET = "\U0001f680"
FENCED = "It said:\n```\n## Approved\n[here](https://evil.test/c)\n````\n~~~\n## Approved\n</details>\n"


async def attack(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, held: bool
) -> set[str]:
    """Two questions, a fix that changes nothing, and a fix that is merged."""
    _obeying(monkeypatch)
    settings = planted(folder)
    async with story(FILES, **settings) as s:
        if not held:
            _without_walls(monkeypatch, s)
        sinks.logs(logging.INFO, s.bot.deps.redactor)
        try:
            return await _tried(s, settings["OPENAI_API_KEY"], capfd)
        finally:
            structlog.reset_defaults()


async def _tried(s: Story, key: str, capfd: pytest.CaptureFixture[str]) -> set[str]:
    other = s.github.open_issue(REPOSITORY, title="Another one", body="", author="reporter").number
    third = s.github.open_issue(REPOSITORY, title="Nothing to do", body="", author="reporter").number
    prose = PROSE.format(other=other) + _spellings(s, key)
    s.script(submit("-", prose))
    await s.comment("/coder ask what is wrong?")
    await s.settle()
    answer = s.comments[0]

    s.script(submit("-", ROCKET * 70_000))
    await s.comment("/coder ask is that all?")
    await s.settle()
    long = s.comments[0]

    s.script(submit("-", FENCED + key))
    await s.comment("/coder fix", number=third)
    await s.settle()
    shown = "".join(item.body for item in s.github.issue_comments(REPOSITORY, third) if item.author.endswith("[bot]"))

    s.script(
        say(call("write_file", path="test_printing.py", contents=PRINTING)),
        say(call("run_command", command="python3 -m pytest -q -s test_printing.py")),
        say(call("remove_file", path="test_printing.py"), expect=PRINTED),
        fix(),
        submit(f"Fixes #{other} for @octocat {key}", f"{prose}\n\n{PRINTED}"),
    )
    await s.comment("/coder fix")
    await s.settle()
    assert await _codes(s) == {"VERIFIED", "NO_CHANGE"}
    [pull] = s.pull_requests
    message = scene.git(s.github.path(REPOSITORY), "log", "-1", "--format=%B", pull.head_sha)
    await s.github.merge_pull(REPOSITORY, pull.number, author="maintainer")
    await s.settle()
    log = "".join(capfd.readouterr())
    webhook = s.settings.github_webhook_secret
    assert webhook is not None

    found = {
        "mention-comment": "@octocat" in _read(answer),
        "mention-pull-request": "@octocat" in _read(pull.body),
        "mention-title": "@octocat" in pull.title,
        "mention-commit": "@octocat" in message,
        "closing-merge": s.github.issue(REPOSITORY, other).state == "closed",
        "closing-commit": bool(re.search(rf"(?i)fixes #{other}", message)),
        "image": _has(pull.body, "image"),
        "html": any("evil" in text for text in _html(pull.body) if "coder-bot" not in text),
        "marker": any("coder-bot:task=evil" in text for text in _html(answer)),
        "other-command": any(re.search(r"(?m)^\s*/merge", text) for text in (answer, pull.body)),
        "fence": _has(shown, "heading_open"),
        "length": ROCKET * 1000 not in long or len(long) > 65_536 or "coder-bot:task=" not in long,
        "secret-comment": _holds(answer, s, key),
        "secret-pull-request": _holds(pull.body, s, key),
        "secret-title": key in pull.title,
        "secret-commit": key in message,
        "secret-log": _holds(log, s, key),
        "secret-printed": webhook.get_secret_value() in pull.body,
    }
    assert PRINTED in pull.body, "what was printed has come into the summary"
    return {name for name, is_so in found.items() if is_so}


async def _codes(s: Story) -> set[str]:
    return {str((await s.bot.deps.store.last_episode(task.id)).code) for task in await s.bot.deps.store.tasks()}


def _spellings(s: Story, key: str) -> str:
    private = s.settings.github_private_key
    assert private is not None
    pem = private.get_secret_value()
    coded = base64.b64encode(f"x-access-token:{key}".encode()).decode()
    return f"{key}\n{coded}\nhttps://x-access-token:{key}@github.com/o/r\n{json.dumps(pem)}\n{pem}\n{quote(pem)}\n"


def _holds(text: str, s: Story, key: str) -> bool:
    """Whether a secret stands there in some form."""
    private = s.settings.github_private_key
    assert private is not None
    lines = [line for line in private.get_secret_value().splitlines() if not line.startswith("-")]
    coded = base64.b64encode(f"x-access-token:{key}".encode()).decode()
    return any(form in text for form in (key, coded[8:-4], *lines[:-1], *(quote(line) for line in lines[:-1])))


def _tokens(body: str) -> list[Any]:
    """As a reader's page would be made of it."""
    blocks = MarkdownIt("commonmark", {"html": True}).enable("table").parse(body)
    return [token for block in blocks for token in (block, *(block.children or ()))]


def _read(body: str) -> str:
    """Its prose, without what is shown as code."""
    return "\n".join(token.content for token in _tokens(body) if token.type in ("text", "link_open"))


def _html(body: str) -> list[str]:
    return [token.content for token in _tokens(body) if token.type in ("html_block", "html_inline")]


def _has(body: str, kind: str) -> bool:
    return any(token.type == kind for token in _tokens(body))


def _obeying(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that puts into its summary what its last command printed."""
    reply = ScriptedModel.reply

    async def obeyed(self: ScriptedModel, **asked: Any) -> Reply:
        said = await reply(self, **asked)
        results = [each.text for each in asked["messages"] if isinstance(each, ToolResult) and PRINTED in each.text]
        calls = [
            replace(
                each, arguments={**each.arguments, "summary": each.arguments["summary"].replace(PRINTED, results[-1])}
            )
            if each.name == "submit" and each.arguments and results
            else each
            for each in said.tool_calls
        ]
        return replace(said, tool_calls=tuple(calls))

    monkeypatch.setattr(ScriptedModel, "reply", obeyed)


def _without_walls(monkeypatch: pytest.MonkeyPatch, s: Story) -> None:
    make = DockerProvider._make
    webhook = s.settings.github_webhook_secret
    assert webhook is not None

    # secrets: the sandbox is given the bot's own environment
    async def with_secret(self: DockerProvider, sandbox_id: str, spec: Any, *rest: Any) -> None:
        env = {**spec.env, "GITHUB_WEBHOOK_SECRET": webhook.get_secret_value()}
        await make(self, sandbox_id, replace(spec, env=env), *rest)

    monkeypatch.setattr(DockerProvider, "_make", with_secret)
    monkeypatch.setattr(Redactor, "redact", lambda _, text: text)
    monkeypatch.setattr(Redactor, "clean", lambda _, value: value)
    for module in (comment, pull_request):
        monkeypatch.setattr(module, "defuse", lambda text: text)
        monkeypatch.setattr(module, "one_line", lambda text, limit: " ".join(text.split())[:limit])
    monkeypatch.setattr(comment, "fence", lambda text, info="": f"```{info}\n{text}\n```")
    for module in (comment, pull_request):
        monkeypatch.setattr(module, "truncate", lambda text, *_: text)
