"""Checks of the App and of others, the logs of CI, and what lies between commits, on the local GitHub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from bot.demo.github import LocalGitHub
from tests.adapters.local_github import NAME, REPO, call, client, local_github, receiving, token


async def fix(github: LocalGitHub, asks: Any) -> str:
    """The head of a pull request."""
    sha = await github.commit(NAME, "fix", {"src/a.py": b"a = 2\n"}, author="maintainer")
    await asks("POST", "/pulls", {"title": "Fix", "head": "fix", "base": "main"}, 201)
    return sha


async def test_the_ci_of_another_app_is_told_and_can_be_looked_into(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        sha = await fix(github, asks)
        async with receiving(github) as receiver:
            run = await github.ci(
                NAME, sha, title="1 failed", summary="test_add", annotations=[("src/a.py", 1, "wrong")], log="boom\n"
            )
        told = {headers["x-github-event"]: json.loads(body) for headers, body in receiver.got}
        assert [payload["action"] for payload in told.values()] == ["completed"] * 3
        suite, workflow = told["check_suite"]["check_suite"], told["workflow_run"]["workflow_run"]
        assert (suite["head_sha"], suite["head_branch"], suite["conclusion"]) == (sha, "fix", "failure")
        assert [pull["number"] for pull in suite["pull_requests"]] == [1]
        assert (suite["app"]["slug"], told["check_run"]["check_run"]["id"]) == ("github-actions", run.id)
        assert workflow["check_suite_id"] == suite["id"]
        [listed] = (await asks("GET", f"/check-suites/{suite['id']}/check-runs"))["check_runs"]
        assert (listed["id"], listed["output"]["title"], listed["output"]["annotations_count"]) == (
            run.id,
            "1 failed",
            1,
        )
        [annotation] = await asks("GET", f"/check-runs/{run.id}/annotations")
        assert (annotation["path"], annotation["start_line"], annotation["message"]) == ("src/a.py", 1, "wrong")
        runs = await asks("GET", "/actions/runs", head_sha=sha, status="failure")
        assert [item["id"] for item in runs["workflow_runs"]] == [workflow["id"]]
        assert (await asks("GET", "/actions/runs", status="success"))["total_count"] == 0
        assert (await asks("GET", f"/actions/runs/{workflow['id']}"))["head_sha"] == sha
        [job] = (await asks("GET", f"/actions/runs/{workflow['id']}/jobs"))["jobs"]
        assert (job["id"], job["conclusion"]) == (run.id, "failure")
        await asks("PATCH", f"/check-runs/{run.id}", {"conclusion": "success"}, 403)
        await asks("GET", "/check-suites/1/check-runs", expect=404)


async def test_a_log_is_at_another_origin_that_takes_no_credential(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        sha = await fix(github, asks)
        run = await github.ci(NAME, sha, log="line 1\nline 2\n")
        quiet = await github.ci(NAME, sha, name="lint")
        credential = await token(github, actions="read")
        found = await call(github, "GET", f"{REPO}/actions/jobs/{run.id}/logs", credential=credential)
        assert (found.status_code, found.content) == (302, b"")
        address = httpx.URL(found.headers["location"])
        assert (address.host, address.port) == ("localhost", httpx.URL(github.api_url).port)
        async with httpx.AsyncClient(trust_env=False) as plain:
            refused = await plain.get(address, headers={"Authorization": f"Bearer {credential}"})
            assert refused.status_code == 400
            assert (await plain.get(address)).text == "line 1\nline 2\n"
            assert (await plain.get(address.copy_with(path="/_job-logs/guessed"))).status_code == 403
        await asks("GET", f"/actions/jobs/{quiet.id}/logs", expect=404)
        other = await token(github, checks="read")
        assert (await call(github, "GET", f"{REPO}/actions/runs", credential=other)).status_code == 403


async def test_the_app_hears_of_the_end_of_its_own_checks_too(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        sha = await fix(github, asks)
        async with receiving(github) as receiver:
            made = await asks("POST", "/check-runs", {"name": "coder", "head_sha": sha, "status": "in_progress"}, 201)
            for _ in range(2):
                await asks("PATCH", f"/check-runs/{made['id']}", {"conclusion": "failure"})
        told = [(headers["x-github-event"], json.loads(body)) for headers, body in receiver.got]
        assert [(event, payload["action"]) for event, payload in told] == [
            ("check_run", "created"),
            ("check_run", "completed"),
            ("check_suite", "completed"),
        ]
        suite = told[2][1]["check_suite"]
        assert (suite["app"]["id"], suite["conclusion"]) == (github.app.app_id, "failure")


async def test_commits_are_compared_as_they_parted(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        start = github.branches(NAME)["main"]
        head = await github.commit(NAME, "a/fix", {"src/a.py": b"a = 2\n", "new.py": b"x\n"}, author="maintainer")
        ahead = await asks("GET", f"/compare/{start}...a/fix")
        assert (ahead["status"], ahead["ahead_by"], ahead["behind_by"]) == ("ahead", 1, 0)
        assert [commit["sha"] for commit in ahead["commits"]] == [head]
        assert [(f["filename"], f["status"], f["additions"], f["deletions"]) for f in ahead["files"]] == [
            ("new.py", "added", 1, 0),
            ("src/a.py", "modified", 1, 1),
        ]
        assert (await asks("GET", f"/compare/a/fix...{start}"))["status"] == "behind"
        assert (await asks("GET", f"/compare/{head}...{head}"))["status"] == "identical"
        await github.commit(NAME, "main", {"README.md": b"# More\n"}, author="maintainer")
        apart = await asks("GET", "/compare/main...a%2Ffix")
        assert (apart["status"], apart["ahead_by"], apart["behind_by"]) == ("diverged", 1, 1)
        assert apart["merge_base_commit"]["sha"] == start
        for wrong in ("main...nothing", "main"):
            await asks("GET", f"/compare/{wrong}", expect=404)
