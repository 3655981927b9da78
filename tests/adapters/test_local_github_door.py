"""The local GitHub's door for people in other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.demo import door, job_logs
from bot.demo.door import ACTIONS
from bot.demo.github import LocalGitHub
from bot.domain.errors import UserError
from tests.adapters.local_github import FILES, NAME, client, local_github, receiving


def test_every_action_is_a_method() -> None:
    assert {name for name in ACTIONS if not callable(getattr(LocalGitHub, name, None))} == set()


@pytest.mark.parametrize("path", [door.PATH, job_logs.PATH])
async def test_no_repository_can_be_where_the_server_has_its_own_pages(path: str, tmp_path: Path) -> None:
    async with local_github(tmp_path) as github:
        with pytest.raises(UserError):
            await github.create_repository(f"{path.strip('/')}/sample", FILES)


async def test_a_person_acts_and_looks_through_the_door(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks, httpx.AsyncClient(trust_env=False) as person:

        async def do(action: str, expect: int = 200, **arguments: object) -> Any:
            answer = await person.post(f"{github.door_url}/{action}", json=arguments)
            assert answer.status_code == expect, answer.text
            return answer.json()

        number = (await do("open_issue", full_name=NAME, title="Broken", author="you"))["number"]
        sha = (await do("commit", full_name=NAME, branch="fix", files={"src/a.py": "a = 2\n"}, author="you"))["sha"]
        pull = (await asks("POST", "/pulls", {"title": "Fix", "head": "fix", "base": "main"}, 201))["number"]
        async with receiving(github) as receiver:
            told = await do("comment", full_name=NAME, number=number, body="/coder fix", author="you")
            comments = [{"path": "src/a.py", "line": 1, "body": "Why?"}]
            review = await do("review", full_name=NAME, number=pull, comments=comments)
            await do("reply", full_name=NAME, comment_id=review["comments"][0], body="So.")
            await do("ci", full_name=NAME, sha=sha, annotations=[["src/a.py", 1, "wrong"]])
        assert (told["guid"], told["status"]) == (receiver.got[0][0]["x-github-delivery"], 202)
        seen = (await person.get(f"{github.door_url}/{NAME}")).json()
        assert [(issue["title"], issue["state"]) for issue in seen["issues"]] == [("Broken", "open"), ("Fix", "open")]
        assert [comment["body"] for comment in seen["issues"][0]["comments"]] == ["/coder fix"]
        assert [comment["body"] for comment in seen["issues"][1]["threads"][0]["comments"]] == ["Why?", "So."]
        assert seen["issues"][1]["pull_request"]["head_sha"] == seen["branches"]["fix"] == sha
        await do("comment", 404, full_name=NAME, number=99, body="x", author="you")
        await do("comment", 422, full_name=NAME, text="x")
        await do("create_repository", 404)
        wrong = github.door_url.rpartition("/")[0]
        assert (await person.get(f"{wrong}/guessed/{NAME}")).status_code == 404
