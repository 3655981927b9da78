"""What an agent plants in its repository's git directory sees no token, runs nowhere but in its own sandbox, and
changes nothing that is published."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bot.domain.task import State
from bot.sandbox.workspace import REPO
from tests import planted
from tests.stories.harness import REPOSITORY, call, fix, say, story, submit

TRAPS, RECORD = "/workspace/traps", "/workspace/record"
PLANT = """\
import os, pathlib
for name, (text, is_program) in {files!r}.items():
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755 if is_program else 0o644)

def test():
    pass
"""
NOTES = "$Id$\none\ntwo \N{SNOWMAN}\n"
STARTING = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.spawn", "pty.spawn")

_records: list[list[str]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _records and event in STARTING:
        frame, names = sys._getframe(), set()
        while frame is not None:
            names.add(frame.f_globals.get("__name__", ""))
            frame = frame.f_back  # type: ignore[assignment]
        whose = "github" if any(name.startswith("bot.demo.") for name in names) else "bot"
        _records[-1].append(f"{whose}: {arguments[:2]!r}")


sys.addaudithook(_audit)


@contextmanager
def programs_started() -> Iterator[list[str]]:
    """Every program that this process starts: the bot's part of it, and the local GitHub's."""
    _records.append([])
    try:
        yield _records[-1]
    finally:
        _records.clear()


def plan() -> str:
    """The agent's program; it comes as a test, which is what agents may run."""
    files = planted.files(f"{REPO}/.git", TRAPS, RECORD)
    config, _ = files[f"{REPO}/.git/config"]
    files[f"{REPO}/.git/config"] = (f"{config}[core]\n\tworktree = {TRAPS}\n", False)
    files["/workspace/.home/.gitconfig"] = (config, False)
    files["/workspace/.npm-global/bin/git"] = (planted.TRAP.format(name="git", record=RECORD), True)
    return PLANT.format(files=files)


async def test_what_an_agent_plants_sees_no_token_and_changes_nothing_that_is_published() -> None:
    async with story() as s:

        async def refuse_once(path: str) -> None:
            s.github.tokens[-1].expires_at = s.clock()
            s.github.on_git(None)

        s.github.on_git(refuse_once)  # a second token is made then, and the work goes on
        s.script(
            say(call("write_file", path="test_plant.py", contents=plan())),
            say(call("run_command", command="python3 -m pytest -q test_plant.py")),
            say(call("run_command", command="git status")),
            fix(),
            say(call("write_file", path="notes.txt", contents=NOTES), call("remove_file", path="test_plant.py")),
            submit(),
        )
        with programs_started() as started:
            await s.comment()
            await s.settle()
            [pull] = s.pull_requests
            s.script(
                say(call("run_command", command="git status")),
                say(call("write_file", path="more.txt", contents=NOTES * 2)),
                submit("More"),
            )
            await s.comment("/coder fix say more")
            await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert task.state is State.IN_REVIEW
        assert [t.used_by_git for t in s.github.tokens if set(t.permissions) == {"contents", "metadata"}] == [
            *(False, True),  # the set-up sandbox's: refused, and again
            True,  # the first verification's
            False,  # by it the API was asked whether the base has moved
            False,  # whether others have pushed to the pull request
            True,  # the second verification's
            False,  # whether others have pushed meanwhile
        ]
        [after] = s.pull_requests
        assert after.head_sha != pull.head_sha
        published = {path: s.github.file(REPOSITORY, after.head_sha, path) for path in ("notes.txt", "more.txt")}
        assert published == {"notes.txt": NOTES.encode(), "more.txt": 2 * NOTES.encode()}
        assert b"return a + b" in (s.github.file(REPOSITORY, after.head_sha, "calc.py") or b"")
        assert s.github.file(REPOSITORY, after.head_sha, "test_plant.py") is None

        # The bot started no program on its machine, git or other; the local GitHub did.
        assert [line for line in started if line.startswith("bot")] == []
        assert any("git" in line for line in started)

        [record] = await s.bot.deps.store.sandboxes(task.id)
        assert record.provider_id is not None
        sandbox = await s.bot.deps.provider.connect(record.provider_id, lifetime_s=600, epoch=1000)
        try:
            found = await sandbox.read(RECORD, max_bytes=10_000_000)
            assert b"ran: fsmonitor" in found, "the agent's own git does what is planted, in its own sandbox"
            forms = [form for token in s.github.tokens for form in _forms(token.value)]
            assert [form for form in forms if form in found] == []
            assert b"Authorization" not in found

            # The control: a git with a token, started there, would have given it away.
            bait = "ghs_" + "bait" * 9
            value = f"Authorization: Basic {base64.b64encode(f'x-access-token:{bait}'.encode()).decode()}"
            env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": value}
            await sandbox.exec(["git", "status"], cwd=REPO, env=env, timeout_s=60)
            found = await sandbox.read(RECORD, max_bytes=10_000_000)
            assert any(form in found for form in _forms(bait))
        finally:
            await sandbox.aclose()
        said = json.dumps([*s.comments, after.body])
        assert not any(form.decode() in said for form in forms)


def _forms(token: str) -> list[bytes]:
    return [token.encode(), base64.b64encode(f"x-access-token:{token}".encode())]
