"""Repositories, issues, branches and installations that move or end, on the local GitHub."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bot.demo.github import LocalGitHub
from tests.adapters.local_github import (
    FILES,
    NAME,
    REPO,
    Receiver,
    app_jwt,
    call,
    client,
    git,
    git_ok,
    local_github,
    mint,
    receiving,
    token,
)


@pytest.fixture
async def github(tmp_path: Path) -> AsyncIterator[LocalGitHub]:
    async with local_github(tmp_path) as github:
        yield github


def told(receiver: Receiver) -> list[tuple[str, Any]]:
    found = [(headers["x-github-event"], json.loads(body)) for headers, body in receiver.got]
    return [(f"{event}.{payload['action']}" if "action" in payload else event, payload) for event, payload in found]


async def test_a_renamed_repository_is_found_by_its_old_name(github: LocalGitHub, tmp_path: Path) -> None:
    credential = await token(github, contents="write", issues="write")
    number = github.open_issue(NAME, title="Broken", author="reporter").number
    async with receiving(github) as receiver:
        await github.rename_repository(NAME, "better")
    [(event, payload)] = told(receiver)
    assert (event, payload["repository"]["full_name"]) == ("repository.renamed", "octo/better")
    assert payload["changes"] == {"repository": {"name": {"from": "sample"}}}
    read = await call(github, "GET", f"{REPO}/contents/README.md", credential=credential, ref="main")
    where = f"{github.api_url}/repositories/{payload['repository']['id']}/contents/README.md?ref=main"
    assert (read.status_code, read.headers["location"], read.json()["url"]) == (301, where, where)
    async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {credential}"}) as web:
        assert (await web.get(where)).json()["name"] == "README.md"
    written = await call(github, "POST", f"{REPO}/issues/{number}/comments", {"body": "x"}, credential=credential)
    assert written.status_code == 307
    path = written.headers["location"].removeprefix(github.api_url)
    assert (await call(github, "POST", path, {"body": "x"}, credential=credential)).status_code == 201
    assert (await call(github, "GET", f"{REPO}/installation", credential=app_jwt(github))).status_code == 301
    assert (await call(github, "GET", "/repositories/1", credential=credential)).status_code == 404
    origin = github.api_url.removesuffix("/api/v3")
    await git_ok("clone", "-q", f"{origin}/{NAME}.git", tmp_path / "work", token=credential, origin=origin)
    # Whoever takes the name has it.
    await github.create_repository(NAME, FILES)
    assert (await call(github, "GET", REPO, credential=credential)).status_code == 404


async def test_a_repository_is_transferred_with_or_without_the_app(github: LocalGitHub) -> None:
    old = await token(github, contents="read")
    async with receiving(github) as receiver:
        await github.transfer_repository(NAME, "newer")
        await github.transfer_repository("newer/sample", "stranger", installed=False)
    [(event, payload)] = told(receiver)
    assert (event, payload["changes"]["owner"]["from"]["organization"]["login"]) == ("repository.transferred", "octo")
    assert (await call(github, "GET", "/repos/newer/sample", credential=old)).status_code == 404
    found = await call(github, "GET", "/repos/stranger/sample/installation", credential=app_jwt(github))
    assert found.status_code == 404


async def test_archived_and_deleted_repositories(github: LocalGitHub) -> None:
    credential = await token(github, contents="write")
    async with receiving(github) as receiver:
        await github.archive_repository(NAME)
        written = await call(github, "POST", f"{REPO}/git/blobs", {"content": "x"}, credential=credential)
        assert written.status_code == 403
        await github.delete_repository(NAME)
        assert (await call(github, "GET", REPO, credential=credential)).status_code == 404
    assert [event for event, _ in told(receiver)] == ["repository.archived", "repository.deleted"]


async def test_a_suspended_installation_gives_no_tokens_and_its_tokens_die(github: LocalGitHub) -> None:
    first = (await mint(github)).json()["token"]
    number = github.open_issue(NAME, title="Broken", author="reporter").number
    async with receiving(github) as receiver:
        await github.suspend("octo")
        refused = await mint(github)
        assert (refused.status_code, refused.json()["message"]) == (403, "This installation has been suspended")
        unheard = await github.comment(NAME, number, "hello", author="reporter")
        assert (unheard.status, unheard in github.deliveries) == (None, False)
        await github.unsuspend("octo")
        assert (await mint(github)).status_code == 201
        await github.uninstall("octo")
    events = told(receiver)
    assert [event for event, _ in events] == [
        "installation.suspend",
        "installation.unsuspend",
        "installation.deleted",
    ]
    assert events[0][1]["installation"]["suspended_at"] is not None
    assert [item["full_name"] for item in events[2][1]["repositories"]] == [NAME]
    assert (await call(github, "GET", REPO, credential=first)).status_code == 401
    assert (await call(github, "GET", f"{REPO}/installation", credential=app_jwt(github))).status_code == 404
    origin = github.api_url.removesuffix("/api/v3")
    code, _ = await git("ls-remote", f"{origin}/{NAME}.git", token=first, origin=origin)
    assert code != 0


async def test_issues_are_deleted_transferred_and_reopened(github: LocalGitHub) -> None:
    await github.create_repository("octo/other", FILES)
    gone, moved = (github.open_issue(NAME, title=title, author="reporter").number for title in ("a", "b"))
    await github.comment(NAME, moved, "hello", author="reporter")
    async with receiving(github) as receiver, client(github) as asks:
        await github.delete_issue(NAME, gone)
        new = await github.transfer_issue(NAME, moved, "octo/other")
        assert (await asks("GET", f"/issues/{gone}", expect=410))["message"] == "This issue was deleted"
        sent_on = await asks("GET", f"/issues/{moved}/comments", expect=301)
        assert sent_on["url"].endswith(f"/issues/{new.number}/comments")
        last = github.open_issue(NAME, title="c", author="reporter").number
        assert last == 3
        await github.close_issue(NAME, last, author="reporter")
        await github.reopen(NAME, last)
        assert (await asks("GET", f"/issues/{last}"))["state"] == "open"
    events = told(receiver)
    assert [event for event, _ in events] == [
        "issues.deleted",
        "issues.transferred",
        "issues.opened",
        "issues.closed",
        "issues.reopened",
    ]
    assert events[1][1]["changes"]["new_repository"]["full_name"] == "octo/other"
    assert events[2][1]["changes"]["old_issue"]["number"] == moved
    assert [comment.body for comment in github.issue_comments("octo/other", new.number)] == ["hello"]


async def test_a_deleted_branch_closes_its_pull_requests(github: LocalGitHub) -> None:
    async with client(github) as asks:
        await github.commit(NAME, "fix", {"src/a.py": b"a = 2\n"}, author="maintainer")
        number = (await asks("POST", "/pulls", {"title": "Fix", "head": "fix", "base": "main"}, 201))["number"]
        head = github.branches(NAME)["fix"]
        async with receiving(github) as receiver:
            await github.delete_branch(NAME, "fix")
            await github.create_branch(NAME, "fix", head)
            await github.reopen(NAME, number)
        events = told(receiver)
        assert [event for event, _ in events] == ["delete", "pull_request.closed", "pull_request.reopened"]
        assert (events[0][1]["ref"], events[0][1]["ref_type"]) == ("fix", "branch")
        assert github.pull_requests(NAME)[0].state == "open"
