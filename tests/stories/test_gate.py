"""The patch gate as people see it: what is refused is told and never published, what is strange stands on top."""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot import local
from bot.demo import repository
from bot.domain.patch import Change, Patch
from bot.domain.task import Stage, State
from bot.settings import load
from tests.stories.harness import FILES, call, fix, say, story, submit

CHMOD = "import os\n\n\ndef test_it():\n    os.chmod('test_calc.py', 0o755)\n"


def write(path: str, contents: str) -> dict[str, Any]:
    return say(call("write_file", path=path, contents=contents))


async def test_what_is_refused_is_told_once_and_published_never_and_a_new_mode_stands_on_top() -> None:
    token = "ghp_" + secrets.token_hex(18)
    async with story() as s:
        store = s.bot.deps.store
        s.script(fix(), write("notes.txt", f"one\nkey {token}\n"), submit(), submit())
        await s.comment()
        await s.settle()
        assert await s.code() == "POLICY_REFUSED"
        assert (s.branches, list(s.pull_requests)) == (["main"], [])
        assert "`notes.txt` line 2 adds what looks like a secret" in s.comments[0]
        [task] = await store.tasks()
        [note] = [step.note for step in await store.steps(task.id) if step.note]
        assert "can't be published as it is" in note
        assert token not in s.comments[0] + note

        # A patch that comes to verification past the episode: it is refused before anything of it runs.
        lease, episode = await store.lease(task.id), await store.last_episode(task.id)
        rules = Change(path=".GitHub/coder.yml", mode="100644", content=b"checks: [{name: a, run: 'true'}]\n")
        await store.add_checkpoint(lease, task.base_sha, Patch.of(rules))
        verifying = replace(task, state=State.VERIFYING)
        await store.save(lease, verifying, replace(episode, code=None), stage=Stage.VERIFY, now=s.clock())
        await s.settle()
        assert await s.code() == "POLICY_REFUSED"
        assert "the bot's own rules are changed by people" in s.comments[0]
        assert await store.receipt(task.id) is None

        s.script(
            say(call("remove_file", path="notes.txt"), call("write_file", path="chmod.py", contents=CHMOD)),
            say(call("run_command", command="python3 -m pytest -q chmod.py"), call("remove_file", path="chmod.py")),
            submit(),
        )
        await s.comment("/coder fix leave the notes out")
        await s.settle()
        [pull] = s.pull_requests
        before, _, after = pull.body.partition("The sign was wrong.")
        assert "**Mind these:**\n\n- `test_calc.py` only changes its mode, from 100644 to 100755" in before
        assert "Receipt: Passed" in after


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    as_us = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*as_us, *command], check=True)
    return folder


async def test_verification_by_itself_refuses_as_well(repo: Path, tmp_path: Path) -> None:
    base = await repository.resolve(repo, "HEAD")
    link = Patch.of(Change(path="docs", mode="120000", content=b".github"), Change(path="calc.py", mode=None))
    settings = load({"CODER_HOME": str(tmp_path / "home")})
    receipt, seconds = await local.verify(settings, repo=repo, base=base, patch=link, config_text=None)
    document = local.verified_document(receipt, seconds)
    assert (document["code"], document["outcome"]) == ("POLICY_REFUSED", "blocked")
    assert document["receipt"]["verdict"] == "Unverified"
    assert "`docs` is a link that gives a protected path a second name" in document["receipt"]["reasons"][0]
    assert document["receipt"]["checks"] == []
