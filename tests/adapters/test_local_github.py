"""The local GitHub, driven as the bot and as people drive it: HTTP calls, real git, signed webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.demo import contract, sample
from bot.demo.github import LocalGitHub
from bot.demo.rest import OPERATIONS
from bot.domain.errors import UserError
from tests.adapters.local_github import (
    FILES,
    NAME,
    REPO,
    Clock,
    Receiver,
    app_jwt,
    call,
    client,
    commit,
    git,
    git_ok,
    local_github,
    mint,
    receiving,
    token,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def github(tmp_path: Path, clock: Clock) -> AsyncIterator[LocalGitHub]:
    async with local_github(tmp_path, clock) as github:
        yield github


@pytest.fixture
async def receiver(github: LocalGitHub) -> AsyncIterator[Receiver]:
    async with receiving(github) as receiver:
        yield receiver


# The contract


def test_every_operation_of_the_document_is_answered_and_no_other() -> None:
    assert {operation.id for operation in contract.github().operations} == set(OPERATIONS)


@pytest.mark.parametrize(
    ("method", "path", "operation", "variables"),
    [
        ("GET", "/repos/o/r/contents/a/b%20c.py", "repos/get-content", {"path": "a/b c.py"}),
        ("GET", "/repos/o/r/contents/", "repos/get-content", {"path": ""}),
        ("GET", "/repos/o/r/git/ref/heads%2Fcoder%2Fissue-1", "git/get-ref", {"ref": "heads/coder/issue-1"}),
        ("GET", "/repos/o/r/commits/a/b/check-runs", "checks/list-for-ref", {"ref": "a/b"}),
        ("GET", "/repos/o/r/commits/a/b", "repos/get-commit", {"ref": "a/b"}),
    ],
)
def test_paths_are_matched_as_github_matches_them(
    method: str, path: str, operation: str, variables: dict[str, str]
) -> None:
    found = contract.github().operation(method, path)
    assert found is not None
    assert (found[0].id, found[1]) == (operation, {"owner": "o", "repo": "r", **variables})


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "problem"),
    [
        ("POST", "/repos/o/r/issues/1/comments", {}, {}, "'body' is a required property"),
        ("POST", "/repos/o/r/issues/1/comments", {}, {"body": "x", "boby": "y"}, "'boby' was unexpected"),
        ("POST", "/repos/o/r/issues/1/comments", {}, None, "no body"),
        ("POST", "/repos/o/r/git/trees", {}, {"tree": [{"path": "a", "mode": "100777"}]}, "'100777' is not one of"),
        ("POST", "/repos/o/r/git/trees", {}, {"tree": [{"path": "a", "hash": "1"}]}, "'hash' was unexpected"),
        ("PATCH", "/repos/o/r/git/refs/heads/a", {}, {"sha": "1", "force": "no"}, "'no' is not of type 'boolean'"),
        ("PATCH", "/repos/o/r/pulls/1", {}, {"state": "merged"}, "'merged' is not one of"),
        ("GET", "/repos/o/r/pulls", {"state": "merged"}, None, "'merged' is not one of"),
        ("GET", "/repos/o/r/pulls", {"stat": "open"}, None, "unknown parameter stat"),
        ("GET", "/repos/o/r/issues/one", {}, None, "'one' is not of type 'integer'"),
        ("GET", "/repos/o/r/issues/1/comments", {"since": "yesterday"}, None, "'yesterday' is not a 'date-time'"),
        ("GET", "/repos/o/r", {}, {"a": 1}, "a body, which this operation does not take"),
        (
            "POST",
            "/app/installations/1/access_tokens",
            {},
            {"permissions": {"contents": "all"}},
            "'all' is not one of",
        ),
    ],
)
def test_a_call_that_github_does_not_describe_is_found_out(
    method: str, path: str, query: dict[str, str], body: object, problem: str
) -> None:
    found = contract.github().operation(method, path)
    assert found is not None
    problems = contract.github().request_problems(*found, query, body)
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("status", "body", "right"),
    [
        (201, {"id": 1}, False),
        (200, {}, False),
        (403, {"message": "no"}, True),
        (401, {"message": "no"}, True),  # not in the document of this operation, but possible everywhere
        (401, {"error": "no"}, False),
    ],
)
def test_an_answer_that_github_would_not_give_is_found_out(status: int, body: object, right: bool) -> None:
    found = contract.github().operation("POST", "/repos/o/r/issues/1/comments")
    assert found is not None
    assert (contract.github().answer_problems(found[0], status, body) == []) is right


async def test_a_wrong_call_is_refused_and_written_down(tmp_path: Path) -> None:
    async with LocalGitHub(tmp_path) as github:
        await github.create_repository(NAME, FILES)
        credential = (await mint(github)).json()["token"]
        answer = await call(github, "POST", f"{REPO}/issues/1/comments", {"text": "x"}, credential=credential)
        unknown = await call(github, "GET", f"{REPO}/stargazers", credential=credential)
        assert (answer.status_code, unknown.status_code) == (422, 404)
        assert [violation.split(" ")[0] for violation in github.violations] == ["issues/create-comment", "GET"]


async def test_calls_are_kept_in_a_journal(github: LocalGitHub) -> None:
    credential = await token(github, contents="read")
    await call(github, "GET", REPO, credential=credential)
    last = github.requests[-1]
    assert (last.method, last.path, last.status, last.operation) == ("GET", REPO, 200, "repos/get")


# Who may


async def test_a_token_is_given_to_the_app_alone(github: LocalGitHub) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    refused = [
        app_jwt(github, key=stranger.decode()),
        app_jwt(github, iss="1"),
        app_jwt(github, lifetime=3600),
        app_jwt(github, lifetime=-120),
        (await mint(github)).json()["token"],
        None,
    ]
    answers = [await call(github, "GET", "/app", credential=credential) for credential in refused]
    assert [answer.status_code for answer in answers] == [401] * len(refused)
    good = await call(github, "GET", "/app", credential=app_jwt(github))
    assert good.json()["slug"] == github.app.slug


async def test_a_token_is_narrowed_to_what_was_asked(github: LocalGitHub) -> None:
    await github.create_repository("octo/other", FILES)
    narrow = await mint(github, {"repositories": ["sample"], "permissions": {"contents": "read"}})
    assert narrow.status_code == 201
    assert narrow.json()["permissions"] == {"contents": "read", "metadata": "read"}
    assert [repository["full_name"] for repository in narrow.json()["repositories"]] == [NAME]
    value = narrow.json()["token"]
    assert (await call(github, "GET", REPO, credential=value)).status_code == 200
    assert (await call(github, "GET", "/repos/octo/other", credential=value)).status_code == 404
    assert (await call(github, "GET", f"{REPO}/git/ref/heads/main", credential=value)).status_code == 200
    written = await call(github, "POST", f"{REPO}/git/blobs", {"content": "x"}, credential=value)
    assert (written.status_code, written.json()["message"]) == (403, "Resource not accessible by integration")
    talked = await call(github, "GET", f"{REPO}/issues/1", credential=value)
    assert talked.status_code == 403


async def test_a_token_asks_for_no_more_than_the_installation_has(github: LocalGitHub) -> None:
    await github.create_repository("elsewhere/private", FILES)
    for body in ({"permissions": {"workflows": "write"}}, {"repositories": ["private"]}, {"repository_ids": [1]}):
        assert (await mint(github, body)).status_code == 422
    path = "/app/installations/99/access_tokens"
    assert (await call(github, "POST", path, credential=app_jwt(github))).status_code == 404


async def test_a_token_looks_as_githubs_do_now(github: LocalGitHub) -> None:
    value = await token(github, contents="read")
    assert value.startswith(f"ghs_{github.app.app_id}_")
    assert len(value) > 450
    assert set("._-") & set(value)
    assert [known.value for known in github.tokens] == [value]


async def test_a_token_ends_when_it_is_revoked_or_an_hour_old(github: LocalGitHub, clock: Clock) -> None:
    first, second = await token(github, contents="read"), await token(github, contents="read")
    assert (await call(github, "DELETE", "/installation/token", credential=first)).status_code == 204
    assert (await call(github, "GET", REPO, credential=first)).json()["message"] == "Bad credentials"
    assert (await call(github, "GET", REPO, credential=second)).status_code == 200
    clock.now += timedelta(hours=1)
    assert (await call(github, "GET", REPO, credential=second)).status_code == 401
    assert [known.revoked for known in github.tokens] == [True, False]


async def test_permissions_of_people(github: LocalGitHub) -> None:
    github.grant(NAME, "maintainer", "write")
    github.grant(NAME, "lead", "maintain")
    github.open_issue(NAME, title="t", author="reporter")
    async with client(github) as asks:
        answers = {
            who: await asks("GET", f"/collaborators/{who}/permission") for who in ("maintainer", "lead", "reporter")
        }
        shown = {who: (answer["permission"], answer["role_name"]) for who, answer in answers.items()}
        assert shown == {
            "maintainer": ("write", "write"),
            "lead": ("write", "maintain"),
            "reporter": ("none", "none"),
        }
        await asks("GET", "/collaborators/nobody/permission", expect=404)


# Issues


async def test_comments_come_in_pages(github: LocalGitHub) -> None:
    issue = github.open_issue(NAME, title="Broken", body="It is.", author="reporter")
    for number in range(5):
        await github.comment(NAME, issue.number, f"comment {number}", author="reporter")
    credential = await token(github, issues="read")
    path = f"{REPO}/issues/{issue.number}/comments"
    middle = await call(github, "GET", path, credential=credential, per_page=2, page=2)
    assert [comment["body"] for comment in middle.json()] == ["comment 2", "comment 3"]
    assert {name: link["url"].rsplit("=", 1)[1] for name, link in middle.links.items()} == {
        "first": "1",
        "prev": "1",
        "next": "3",
        "last": "3",
    }
    async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {credential}"}) as http:
        assert [c["body"] for c in (await http.get(middle.links["next"]["url"])).json()] == ["comment 4"]
    alone = await call(github, "GET", path, credential=credential)
    assert len(alone.json()) == 5
    assert alone.links == {}


async def test_the_bot_comments_edits_and_reacts(github: LocalGitHub, receiver: Receiver) -> None:
    issue = github.open_issue(NAME, title="Broken", author="reporter")
    async with client(github) as asks:
        made = await asks("POST", f"/issues/{issue.number}/comments", {"body": "On it."}, 201)
        await asks("PATCH", f"/issues/comments/{made['id']}", {"body": "Done."})
        await asks("POST", f"/issues/comments/{made['id']}/reactions", {"content": "eyes"}, 201)
        await asks("POST", f"/issues/comments/{made['id']}/reactions", {"content": "eyes"}, 200)
        await asks("POST", f"/issues/{issue.number}/comments", {"body": " "}, 422)
        labels = await asks("POST", f"/issues/{issue.number}/labels", {"labels": ["coder", "coder"]})
        assert (await asks("GET", f"/issues/{issue.number}"))["labels"] == labels
    [comment] = github.issue_comments(NAME, issue.number)
    assert (comment.author, comment.body, comment.edited) == ("coder-bot-local[bot]", "Done.", 1)
    assert made["performed_via_github_app"]["id"] == github.app.app_id
    assert github.reactions(comment.id) == ["eyes"]
    assert [label["name"] for label in labels] == ["coder"]
    await github.settled()
    payloads = [json.loads(body) for _, body in receiver.got]
    assert [payload["action"] for payload in payloads] == ["created", "edited"]
    assert payloads[1]["changes"] == {"body": {"from": "On it."}}
    assert {payload["sender"]["type"] for payload in payloads} == {"Bot"}


# Webhooks


async def test_a_comment_is_told_with_a_good_signature(github: LocalGitHub, receiver: Receiver) -> None:
    issue = github.open_issue(NAME, title="Broken", body="It is.", author="reporter")
    delivery = await github.comment(NAME, issue.number, "/coder fix", author="maintainer")
    [(headers, body)] = receiver.got
    signature = hmac.new(github.app.webhook_secret.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-hub-signature-256"] == f"sha256={signature}"
    assert (headers["x-github-event"], headers["x-github-delivery"]) == ("issue_comment", delivery.guid)
    assert (delivery.status, delivery.error) == (202, None)
    payload = json.loads(body)
    origin = github.api_url.removesuffix("/api/v3")
    assert payload["repository"]["clone_url"] == f"{origin}/{NAME}.git"
    assert payload["repository"]["default_branch"] == "main"
    assert (payload["issue"]["number"], payload["issue"]["state"]) == (issue.number, "open")
    assert "pull_request" not in payload["issue"]
    assert (payload["comment"]["body"], payload["sender"]["login"]) == ("/coder fix", "maintainer")
    assert payload["comment"]["created_at"] == "2026-11-30T12:00:00Z"
    found = await call(github, "GET", f"{REPO}/installation", credential=app_jwt(github))
    assert payload["installation"]["id"] == found.json()["id"]


async def test_a_delivery_is_tried_once_and_again_only_by_hand(github: LocalGitHub, receiver: Receiver) -> None:
    issue = github.open_issue(NAME, title="Broken", author="reporter")
    github.webhook_url = "http://127.0.0.1:9/closed"
    lost = await github.comment(NAME, issue.number, "/coder fix", author="maintainer")
    assert (lost.status, lost.error) == (None, "ConnectError")
    github.webhook_url, receiver.status = receiver.url, 500
    failed = await github.redeliver(lost.guid)
    assert (failed.guid, failed.status, failed.body) == (lost.guid, 500, lost.body)
    assert [(d.guid, d.redelivery) for d in github.deliveries] == [(lost.guid, False), (lost.guid, True)]
    assert [body for _, body in receiver.got] == [lost.body]


async def test_without_an_address_nothing_is_sent(github: LocalGitHub) -> None:
    issue = github.open_issue(NAME, title="Broken", author="reporter")
    delivery = await github.comment(NAME, issue.number, "hello", author="reporter")
    assert (delivery.status, delivery.error) == (None, "not sent: no webhook address")
    closed = await github.close_issue(NAME, issue.number, author="reporter")
    assert (closed.event, closed.action, closed.payload["issue"]["state"]) == ("issues", "closed", "closed")
    assert github.deliveries == [delivery, closed]


# Git data


async def test_a_tree_gets_the_id_that_git_gives_it(github: LocalGitHub, tmp_path: Path) -> None:
    work = tmp_path / "work"
    await git_ok("clone", "-q", github.path(NAME), work)
    (work / "README.md").write_bytes("# Größe 🚀\r\nno newline at the end".encode())
    (work / "src/a.py").unlink()
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("src/b.py")
    (work / "binary").write_bytes(bytes(range(256)))
    (work / "empty").write_bytes(b"")
    (work / "new/deep").mkdir(parents=True)
    (work / "new/deep/sp ace'q.txt").write_bytes(b"x\n")
    await git_ok("-C", work, "add", "-A")
    expected = await git_ok("-C", work, "write-tree")
    async with client(github) as asks:
        head = (await asks("GET", "/git/ref/heads/main"))["object"]["sha"]
        base = (await asks("GET", f"/git/commits/{head}"))["tree"]["sha"]
        binary = {"content": base64.b64encode(bytes(range(256))).decode(), "encoding": "base64"}
        blob = (await asks("POST", "/git/blobs", binary, 201))["sha"]
        old = {entry["path"]: entry["sha"] for entry in (await asks("GET", f"/git/trees/{base}"))["tree"]}
        file = {"mode": "100644", "type": "blob"}
        entries = [
            {**file, "path": "README.md", "content": "# Größe 🚀\r\nno newline at the end"},
            {**file, "path": "src/a.py", "sha": None},
            {"mode": "100755", "type": "blob", "path": "run.sh", "sha": old["run.sh"]},
            {"mode": "120000", "type": "blob", "path": "link", "content": "src/b.py"},
            {**file, "path": "binary", "sha": blob},
            {**file, "path": "empty", "content": ""},
            {**file, "path": "new/deep/sp ace'q.txt", "content": "x\n"},
        ]
        tree = await asks("POST", "/git/trees", {"base_tree": base, "tree": entries}, 201)
        assert tree["sha"] == expected
        whole = await asks("GET", f"/git/trees/{expected}", recursive=1)
        listed = await git_ok("-C", work, "ls-files", "-s")
        blobs = [f"{e['mode']} {e['sha']} 0\t{e['path']}" for e in whole["tree"] if e["type"] == "blob"]
        assert blobs == listed.splitlines()


async def test_folders_are_taken_over_and_removed_whole(github: LocalGitHub) -> None:
    async with client(github) as asks:
        top = {entry["path"]: entry["sha"] for entry in (await asks("GET", "/git/trees/main"))["tree"]}
        moved = [
            {"path": "lib", "mode": "040000", "type": "tree", "sha": top["src"]},
            {"path": "src", "mode": "040000", "type": "tree", "sha": None},
        ]
        made = await asks("POST", "/git/trees", {"base_tree": "0" * 40, "tree": moved}, 422)
        assert made["message"] == "base_tree is not a valid tree oid"
        base = (await asks("GET", "/commits/main"))["commit"]["tree"]["sha"]
        made = await asks("POST", "/git/trees", {"base_tree": base, "tree": moved}, 201)
        assert [entry["path"] for entry in made["tree"]] == ["README.md", "lib", "run.sh"]
        assert {entry["path"]: entry["sha"] for entry in made["tree"]}["lib"] == top["src"]


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "../a", "mode": "100644", "content": "x"},
        {"path": "a/.GIT/config", "mode": "100644", "content": "x"},
        {"path": "/a", "mode": "100644", "content": "x"},
        {"path": "git~1", "mode": "100644", "content": "x"},  # what git itself would pass over in silence
        {"path": "a", "mode": "100644", "content": "x", "sha": "0" * 40},
        {"path": "a", "mode": "100644"},
        {"path": "a", "mode": "100644", "sha": "0" * 40},
        {"path": "a", "mode": "100644", "sha": None},
        {"path": "a", "content": "x"},
        {"path": "a", "mode": "100644", "content": "\ud800"},
    ],
)
async def test_a_tree_that_can_not_be_made_is_refused(github: LocalGitHub, entry: dict[str, object]) -> None:
    async with client(github) as asks:
        await asks("POST", "/git/trees", {"tree": [entry]}, 422)


async def test_a_commit_without_an_author_is_the_apps(github: LocalGitHub) -> None:
    async with client(github) as asks:
        head = (await asks("GET", "/git/ref/heads/main"))["object"]["sha"]
        tree = (await asks("GET", f"/git/commits/{head}"))["tree"]["sha"]
        body = {"message": "Fix it\n\nTwo lines, and no newline", "tree": tree, "parents": [head]}
        made = await asks("POST", "/git/commits", body, 201)
        assert made["author"]["name"] == made["committer"]["name"] == "coder-bot-local[bot]"
        assert made["author"]["date"] == "2026-11-30T12:00:00Z"
        assert (made["message"], made["tree"]["sha"], made["parents"][0]["sha"]) == (body["message"], tree, head)
        assert made["verification"]["verified"] is False
        stored = await git_ok("-C", github.path(NAME), "cat-file", "commit", made["sha"])
        assert stored.endswith("\n\n" + body["message"])
        await git_ok("-C", github.path(NAME), "fsck", "--strict")
        await asks("POST", "/git/commits", {**body, "tree": head}, 422)
        await asks("POST", "/git/commits", {**body, "parents": [tree]}, 422)
        named = await asks("POST", "/git/commits", {**body, "author": {"name": "A", "email": "a@b"}}, 201)
        assert named["committer"]["name"] == "A"


async def test_refs_are_made_moved_forward_and_removed(github: LocalGitHub) -> None:
    main = github.branches(NAME)["main"]
    async with client(github) as asks:
        one, other = await commit(asks, "main", "a = 2\n"), await commit(asks, "main", "a = 3\n")
        ref = "refs/heads/coder/issue-1"
        await asks("POST", "/git/refs", {"ref": ref, "sha": one}, 201)
        assert (await asks("POST", "/git/refs", {"ref": ref, "sha": one}, 422))[
            "message"
        ] == "Reference already exists"
        for name, sha in (
            ("refs/heads/x", "0" * 40),
            ("refs/heads/a..b", one),
            ("heads/x", one),
            ("refs/heads/coder", one),
        ):
            await asks("POST", "/git/refs", {"ref": name, "sha": sha}, 422)
        refused = await asks("PATCH", "/git/refs/heads/coder/issue-1", {"sha": other}, 422)
        assert refused["message"] == "Update is not a fast forward"
        assert github.branches(NAME) == {"main": main, "coder/issue-1": one}
        two = await commit(asks, "coder/issue-1", "a = 4\n")
        await asks("PATCH", "/git/refs/heads%2Fcoder%2Fissue-1", {"sha": two})
        assert (await asks("GET", "/branches/coder/issue-1"))["commit"]["sha"] == two
        await asks("PATCH", "/git/refs/heads/coder/issue-1", {"sha": other, "force": True})
        assert github.file(NAME, "coder/issue-1", "src/a.py") == b"a = 3\n"
        await asks("DELETE", "/git/refs/heads/coder/issue-1", expect=204)
        await asks("DELETE", "/git/refs/heads/coder/issue-1", expect=422)
        await asks("GET", "/git/ref/heads/coder/issue-1", expect=404)
        await asks("GET", "/git/ref/heads/coder", expect=404)
        await asks("GET", "/branches/coder/issue-1", expect=404)
    assert github.branches(NAME) == {"main": main}


async def test_contents_are_files_folders_and_links(github: LocalGitHub, tmp_path: Path) -> None:
    work = tmp_path / "work"
    await git_ok("clone", "-q", github.path(NAME), work)
    (work / "src/link").symlink_to("../README.md")
    (work / "out").symlink_to("../../etc/passwd")
    (work / "large").write_bytes(b"x" * 1_000_001)
    await git_ok("-C", work, "add", "-A")
    await git_ok("-C", work, "update-index", "--add", "--cacheinfo", f"160000,{github.branches(NAME)['main']},module")
    await git_ok("-C", work, "commit", "-qm", "more")
    await git_ok("-C", work, "push", "-q")
    async with client(github) as asks:
        file = await asks("GET", "/contents/src/a.py")
        assert base64.b64decode(file["content"]) == b"a = 1\n"
        folder = await asks("GET", "/contents/src")
        assert [(e["type"], e["path"]) for e in folder] == [
            ("file", "src/a.py"),
            ("file", "src/b.py"),
            ("symlink", "src/link"),
        ]
        assert [e["name"] for e in await asks("GET", "/contents/")] == [
            "README.md",
            "large",
            "module",
            "out",
            "run.sh",
            "src",
        ]
        followed = await asks("GET", "/contents/src/link")
        assert (followed["type"], base64.b64decode(followed["content"])) == ("file", b"# Sample\n")
        outside = await asks("GET", "/contents/out")
        assert (outside["type"], outside["target"]) == ("symlink", "../../etc/passwd")
        large = await asks("GET", "/contents/large")
        assert (large["encoding"], large["content"], large["size"]) == ("none", "", 1_000_001)
        assert (await asks("GET", "/contents/module"))["type"] == "submodule"
        for path in ("nothing", "src/a.py/deeper", "nothing/at/all"):
            await asks("GET", f"/contents/{path}", expect=404)
        await asks("GET", "/contents/large", expect=404, ref="main~1")
        await asks("GET", "/contents/README.md", expect=404, ref="no-branch")


# Pull requests


async def test_a_pull_request_is_opened_once_and_merged(github: LocalGitHub, receiver: Receiver) -> None:
    issue = github.open_issue(NAME, title="Broken", author="reporter")
    github.grant(NAME, "maintainer", "write")
    async with client(github) as asks:
        fix = await commit(asks, "main", "a = 2\n")
        await asks("POST", "/git/refs", {"ref": "refs/heads/coder/issue-1", "sha": fix}, 201)
        body = {"title": "Fix", "body": f"Fixes #{issue.number}", "head": "coder/issue-1", "base": "main"}
        for wrong in ({"base": "none"}, {"head": "none"}, {"head": "else:coder/issue-1"}, {"head": "main"}):
            await asks("POST", "/pulls", {**body, **wrong}, 422)
        made = await asks("POST", "/pulls", {**body, "draft": True}, 201)
        assert (made["changed_files"], made["additions"], made["commits"]) == (1, 1, 1)
        assert (made["mergeable"], made["draft"], made["head"]["sha"]) == (True, True, fix)
        again = await asks("POST", "/pulls", body, 422)
        assert again["errors"][0]["message"] == "A pull request already exists for octo:coder/issue-1."
        assert [p["number"] for p in await asks("GET", "/pulls", head="octo:coder/issue-1")] == [made["number"]]
        assert await asks("GET", "/pulls", head="octo:other") == []
        await asks("PATCH", f"/pulls/{made['number']}", {"title": "Better"})
        await asks("POST", f"/pulls/{made['number']}/requested_reviewers", {"reviewers": ["maintainer"]}, 201)
        await asks("POST", f"/pulls/{made['number']}/requested_reviewers", {"reviewers": ["nobody"]}, 422)
        assert "pull_request" in await asks("GET", f"/issues/{made['number']}")
        await github.merge_pull(NAME, made["number"], author="maintainer")
        merged = await asks("GET", f"/pulls/{made['number']}")
        assert (merged["merged"], merged["state"], merged["merged_by"]["login"]) == (True, "closed", "maintainer")
        assert await asks("GET", "/pulls") == []
        assert len(await asks("GET", "/pulls", state="all")) == 1
    [pull] = github.pull_requests(NAME)
    assert (pull.title, pull.body, pull.author) == ("Better", "Fixes #1", "coder-bot-local[bot]")
    assert (pull.head_sha, pull.base, pull.state, pull.merged) == (fix, "main", "closed", True)
    assert pull.head_tree == await git_ok("-C", github.path(NAME), "rev-parse", f"{fix}^{{tree}}")
    assert pull.reviewers == ("maintainer",)
    assert github.file(NAME, "main", "src/a.py") == b"a = 2\n"
    assert github.issue(NAME, issue.number).state == "closed"
    await github.settled()
    told = [(h["x-github-event"], json.loads(b)["action"]) for h, b in receiver.got]
    assert told == [
        ("pull_request", "opened"),
        ("pull_request", "edited"),
        ("pull_request", "closed"),
        ("issues", "closed"),
    ]
    assert json.loads(receiver.got[2][1])["pull_request"]["merged"] is True


async def test_a_pull_request_follows_its_branch_and_ends_with_it(github: LocalGitHub) -> None:
    async with client(github) as asks:
        first = await commit(asks, "main", "a = 2\n")
        await asks("POST", "/git/refs", {"ref": "refs/heads/fix", "sha": first}, 201)
        made = await asks("POST", "/pulls", {"title": "Fix", "head": "fix", "base": "main"}, 201)
        second = await commit(asks, "fix", "a = 3\n")
        await asks("PATCH", "/git/refs/heads/fix", {"sha": second})
        assert (await asks("GET", f"/pulls/{made['number']}"))["head"]["sha"] == second
        await asks("DELETE", "/git/refs/heads/fix", expect=204)
        closed = await asks("GET", f"/pulls/{made['number']}")
        assert (closed["state"], closed["merged"], closed["head"]["sha"]) == ("closed", False, second)


async def test_check_runs_are_reported_and_listed(github: LocalGitHub, tmp_path: Path) -> None:
    head = github.branches(NAME)["main"]
    async with client(github) as asks:
        run = await asks("POST", "/check-runs", {"name": "coder", "head_sha": head, "status": "in_progress"}, 201)
        word = {"path": "a.py", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "m"}
        output = {"title": "Passed", "summary": "6 passed", "annotations": [word]}
        await asks("PATCH", f"/check-runs/{run['id']}", {"conclusion": "success", "output": output})
        await asks("PATCH", f"/check-runs/{run['id']}", {"conclusion": "success", "output": output})
        listed = await asks("GET", "/commits/main/check-runs", check_name="coder")
        assert listed["total_count"] == 1
        [found] = listed["check_runs"]
        assert (found["status"], found["conclusion"], found["output"]["title"]) == ("completed", "success", "Passed")
        assert found["output"]["annotations_count"] == 2  # they are added, never replaced
        [kept] = github.check_runs(NAME, head)
        assert kept.annotations == [word, word]
        await asks("POST", "/check-runs", {"name": "coder", "head_sha": "0" * 40}, 422)


async def test_check_runs_need_their_permission(github: LocalGitHub) -> None:
    head = github.branches(NAME)["main"]
    body = {"name": "coder", "head_sha": head}
    refused = await call(github, "POST", f"{REPO}/check-runs", body, credential=await token(github, contents="write"))
    assert refused.status_code == 403
    assert github.check_runs(NAME, head) == []


async def test_refs_are_listed_by_how_they_begin(github: LocalGitHub) -> None:
    head = github.branches(NAME)["main"]
    for name in ("coder", "coder-2"):
        await github.create_branch(NAME, name, head)
    async with client(github) as asks:
        listed = await asks("GET", "/git/matching-refs/heads/coder")
        assert [each["ref"] for each in listed] == ["refs/heads/coder", "refs/heads/coder-2"]
        assert await asks("GET", "/git/matching-refs/heads/other") == []


async def test_a_rule_keeps_the_app_from_a_branch_and_people_not(github: LocalGitHub) -> None:
    head = github.branches(NAME)["main"]
    github.protect(NAME, "coder/*")
    async with client(github) as asks:
        refused = await asks("POST", "/git/refs", {"ref": "refs/heads/coder/a", "sha": head}, 422)
        assert "rule violations" in refused["message"]
        await asks("POST", "/git/refs", {"ref": "refs/heads/other", "sha": head}, 201)
    await github.commit(NAME, "coder/a", {"a.txt": b"a"}, author="anna")
    assert "coder/a" in github.branches(NAME)


async def test_a_push_to_a_pull_request_is_told(github: LocalGitHub, receiver: Receiver) -> None:
    async with client(github) as asks:
        first = await github.commit(NAME, "fix", {"a.txt": b"a"}, author="anna")
        await asks("POST", "/pulls", {"title": "Fix", "head": "fix", "base": "main"}, 201)
    second = await github.commit(NAME, "fix", {"a.txt": b"b"}, author="anna")
    await github.settled()
    [told] = [each.payload for each in github.deliveries if each.action == "synchronize"]
    assert (told["before"], told["after"], told["sender"]["login"]) == (first, second, "anna")
    assert told["pull_request"]["head"]["sha"] == second


async def test_a_name_that_is_not_utf8_is_listed_with_what_json_can_say_of_it(github: LocalGitHub) -> None:
    path = github.path(NAME)

    def git(*words: str, stdin: bytes = b"") -> str:
        return subprocess.run(["git", *words], cwd=path, input=stdin, capture_output=True, check=True).stdout.decode()

    blob = git("hash-object", "-w", "--stdin", stdin=b"x").strip()
    tree = git("mktree", "-z", stdin=b"100644 blob %s\tcaf\xe9.txt\0" % blob.encode()).strip()
    async with client(github) as asks:
        listed = await asks("GET", f"/git/trees/{tree}")
    assert [entry["path"] for entry in listed["tree"]] == ["caf\N{REPLACEMENT CHARACTER}.txt"]


# Git over HTTP


async def test_git_clones_with_a_token_that_reads(github: LocalGitHub, tmp_path: Path) -> None:
    origin = github.api_url.removesuffix("/api/v3")
    address = f"{origin}/{NAME}.git"
    reads = await token(github, contents="read")
    await git_ok(
        "clone", "-q", "--depth=1", "--filter=blob:none", address, tmp_path / "a", token=reads, origin=origin
    )
    assert (tmp_path / "a/src/a.py").read_bytes() == FILES["src/a.py"]
    assert [known.used_by_git for known in github.tokens] == [True]
    for number, refused in enumerate([None, "wrong", await token(github, issues="write")]):
        code, output = await git("clone", "-q", address, tmp_path / f"no{number}", token=refused, origin=origin)
        assert code != 0, output
    await call(github, "DELETE", "/installation/token", credential=reads)
    code, output = await git("ls-remote", address, token=reads, origin=origin)
    assert code != 0
    assert FILES["README.md"].decode().strip() not in output


async def test_git_pushes_only_with_a_token_that_writes(github: LocalGitHub, tmp_path: Path) -> None:
    origin, work = github.api_url.removesuffix("/api/v3"), tmp_path / "work"
    address = f"{origin}/{NAME}.git"
    reads, writes = await token(github, contents="read"), await token(github, contents="write")
    await git_ok("clone", "-q", address, work, token=reads, origin=origin)
    # More than the pipes hold, in both directions.
    (work / "big").write_bytes(os.urandom(8_000_000))
    await git_ok("-C", work, "add", "-A")
    await git_ok("-C", work, "commit", "-qm", "big")
    before = github.branches(NAME)
    code, output = await git("-C", work, "push", "-q", "origin", "HEAD:pushed", token=reads, origin=origin)
    assert code != 0
    assert "403" in output
    assert github.branches(NAME) == before
    await git_ok("-C", work, "push", "-q", "origin", "HEAD:pushed", token=writes, origin=origin)
    assert github.branches(NAME)["pushed"] == await git_ok("-C", work, "rev-parse", "HEAD")
    await git_ok("clone", "-q", "-b", "pushed", address, tmp_path / "again", token=reads, origin=origin)
    assert (tmp_path / "again/big").stat().st_size == 8_000_000


async def test_any_commit_that_is_there_can_be_fetched(github: LocalGitHub, tmp_path: Path) -> None:
    origin = github.api_url.removesuffix("/api/v3")
    async with client(github) as asks:
        loose = await commit(asks, "main", "a = 2\n")
    await git_ok("init", "-q", tmp_path / "work")
    reads = await token(github, contents="read")
    fetch = ("fetch", "-q", "--depth=1", f"{origin}/{NAME}.git", loose)
    await git_ok("-C", tmp_path / "work", *fetch, token=reads, origin=origin)
    assert await git_ok("-C", tmp_path / "work", "rev-parse", "FETCH_HEAD") == loose


async def test_nothing_but_gits_own_addresses_is_served(github: LocalGitHub) -> None:
    origin = github.api_url.removesuffix("/api/v3")
    basic = httpx.BasicAuth("x-access-token", await token(github, contents="write"))
    async with httpx.AsyncClient(trust_env=False, auth=basic) as http:
        for path in (
            f"/{NAME}.git/HEAD",
            f"/{NAME}.git/config",
            f"/{NAME}.git/info/refs",
            "/octo/../x.git/info/refs",
        ):
            assert (await http.get(origin + path)).status_code == 404
        good = await http.get(f"{origin}/{NAME}.git/info/refs", params={"service": "git-upload-pack"})
        assert good.status_code == 200
        assert "www-authenticate" not in good.headers


# Where repositories come from


async def test_a_local_repository_is_taken_as_it_is_checked_out(github: LocalGitHub, tmp_path: Path) -> None:
    source = tmp_path / "source"
    await git_ok("init", "-q", "-b", "trunk", source)
    (source / "a.txt").write_bytes(b"one\n")
    await git_ok("-C", source, "add", "-A")
    await git_ok("-C", source, "commit", "-qm", "one")
    await git_ok("-C", source, "commit", "-qm", "two", "--allow-empty")
    await git_ok("-C", source, "branch", "private")
    (source / "a.txt").write_bytes(b"not committed\n")
    before = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    repository = await github.create_repository("octo/taken", source)
    assert repository.default_branch == "trunk"
    assert github.branches("octo/taken") == {"trunk": await git_ok("-C", source, "rev-parse", "HEAD")}
    assert github.file("octo/taken", "trunk", "a.txt") == b"one\n"
    assert github.file("octo/taken", "trunk", "b.txt") is None
    assert await git_ok("-C", github.path("octo/taken"), "rev-list", "--count", "trunk") == "2"
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == before


async def test_shallow_clones_and_linked_work_trees_can_be_taken(github: LocalGitHub, tmp_path: Path) -> None:
    await git_ok("clone", "-q", "--depth=1", f"file://{github.path(NAME)}", tmp_path / "shallow")
    await git_ok("-C", tmp_path / "shallow", "worktree", "add", "-q", "-b", "side", tmp_path / "linked")
    for number, source in enumerate(("shallow", "linked")):
        taken = await github.create_repository(f"octo/taken{number}", tmp_path / source)
        assert github.file(taken.full_name, taken.default_branch, "README.md") == FILES["README.md"]
        assert taken.default_branch == ("main", "side")[number]


async def test_what_is_no_repository_is_said_in_a_sentence(github: LocalGitHub, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for source in (tmp_path / "plain", tmp_path / "missing"):
        with pytest.raises(UserError, match="is not a git repository with a commit"):
            await github.create_repository("octo/none", source)
    with pytest.raises(UserError, match="can't be a repository's name"):
        await github.create_repository("octo/my project", FILES)


# The sample


def test_the_sample_fails_one_test_and_its_script_mends_it(tmp_path: Path) -> None:
    for path, content in sample.files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)

    def tests() -> tuple[int, str]:
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    code, before = tests()
    assert code == 1
    assert "1 failed, 5 passed" in before
    replies = [json.loads(line) for line in sample.script().read_text(encoding="utf-8").splitlines()]
    made = [each for reply in replies for each in reply["tool_calls"]]
    for edit in (each["arguments"] for each in made if each["name"] == "edit_file"):
        file = tmp_path / edit["path"]
        assert file.read_text().count(edit["old"]) == 1
        file.write_text(file.read_text().replace(edit["old"], edit["new"]))
    assert tests()[0] == 0
    assert made[-1]["name"] == "submit"
