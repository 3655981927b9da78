"""What the App's tokens may do, how long they are good, and who is shown them, against a GitHub that enforces it."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.demo.github import LocalGitHub
from bot.demo.server import serving
from bot.domain.check_run import CheckRun
from bot.domain.errors import GitHubError
from bot.github.auth import App
from bot.github.client import Repository, TreeEntry
from bot.pipeline import checks, publish
from bot.sandbox.careful_git import FROM_A_FILE, GIT_ENV, fetching

NAME = "octo/sample"
FILES = {"a.txt": b"one\n", ".github/coder.yml": b""}
LOWER = {"write": "read", "read": None}


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def github(tmp_path: Path, clock: Clock) -> AsyncIterator[LocalGitHub]:
    async with LocalGitHub(tmp_path / "github", clock=clock) as github:
        await github.create_repository(NAME, FILES)
        github.grant(NAME, "maintainer", "write")
        github.open_issue(NAME, title="it breaks", body="so", author="reporter")
        yield github


def app_of(github: LocalGitHub, **more: Any) -> App:
    return App(github.app.app_id, github.app.private_key, github.api_url, **more)


def installation(github: LocalGitHub) -> int:
    number = github._repository(NAME).installation_id
    assert number is not None
    return number


# Each job and what it needs


async def talk(repository: Repository) -> None:
    made = await repository.create_comment(1, "working on it <!-- marker -->")
    assert await repository.find_comment(1, "<!-- marker -->") == made
    await repository.update_comment(made, "done")


async def read_comments(repository: Repository) -> None:
    await repository.comments(1)


async def hear(repository: Repository) -> None:
    head = await repository.head("main")
    await repository.read_file(".github/coder.yml", head.sha)
    await repository.permission("maintainer")
    await talk(repository)


async def publishing(repository: Repository) -> None:
    base = await repository.head("main")
    blob = await repository.create_blob(b"two\n")
    tree = await repository.create_tree(base.tree, [TreeEntry(path="a.txt", mode="100644", sha=blob)])
    commit = await repository.create_commit("Mend it", tree, [base.sha])
    branch = f"coder/issue-1-{secrets.token_hex(4)}"
    await repository.create_branch(branch, commit.sha)
    pull = await repository.create_pull(title="Mend it", body="#1", head=branch, base="main")
    await repository.add_labels(pull.number, ["coder"])
    await talk(repository)


async def reporting(repository: Repository) -> None:
    head = await repository.head("main")
    assert await repository.paths(head.sha)
    run = CheckRun(external_id="1", conclusion="success", title="Passed", summary="s", text="t", annotations=())
    await repository.report(head.sha, "coder", run)


JOBS: Mapping[str, tuple[Mapping[str, str], Callable[[Repository], Awaitable[None]]]] = {
    "reading the conversation": ({"issues": "read"}, read_comments),
    "telling how it goes": ({"issues": "write"}, talk),
    "hearing a command": ({"contents": "read", "issues": "write"}, hear),
    "publishing": (publish.PERMISSIONS, publishing),
    "reporting a check": (checks.PERMISSIONS, reporting),
}


@pytest.mark.parametrize("job", JOBS)
async def test_a_job_does_with_its_permissions_and_with_none_of_them_less(github: LocalGitHub, job: str) -> None:
    permissions, work = JOBS[job]
    app = app_of(github)
    for name, level in permissions.items():
        less = {**permissions, name: LOWER[level]}
        fewer = {key: value for key, value in less.items() if value is not None} or {"metadata": "read"}
        with pytest.raises(GitHubError) as caught:
            async with app.repository(installation(github), "octo", "sample", permissions=fewer) as repository:
                await work(repository)
        assert caught.value.status == 403
    async with app.repository(installation(github), "octo", "sample", permissions=permissions) as repository:
        await work(repository)
    assert all(token.revoked for token in github.tokens)
    assert github.violations == []


async def git(*words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Git as a sandbox runs it, without the sandbox."""
    whole = {"PATH": os.environ["PATH"], **env}
    return await asyncio.to_thread(subprocess.run, ["git", *words], env=whole, capture_output=True, check=False)


async def test_cloning_does_with_reading_contents_and_can_write_nothing(github: LocalGitHub, tmp_path: Path) -> None:
    url = f"{github.api_url.removesuffix('/api/v3')}/{NAME}.git"
    head = github.branches(NAME)["main"]
    app = app_of(github)
    for permissions, works in (({"issues": "write"}, False), ({"contents": "read"}, True)):
        async with app.token(installation(github), "sample", permissions) as token:
            listed = await git("ls-remote", url, env=fetching(url, token))
            assert (listed.returncode == 0) is works, listed.stderr
            assert token.encode() not in listed.stderr
    async with app.token(installation(github), "sample", {"contents": "read"}) as token:
        await git("clone", "-q", url, str(tmp_path / "there"), env=fetching(url, token))
        pushed = await git("-C", str(tmp_path / "there"), "push", "origin", "main:new", env=fetching(url, token))
        assert (pushed.returncode, b"403" in pushed.stderr) == (128, True)
    assert github.branches(NAME) == {"main": head}


# Time


@pytest.mark.parametrize("short", [True, False])
async def test_both_kinds_of_token_work_everywhere(github: LocalGitHub, short: bool) -> None:
    if short:
        github.give_short_tokens()
    url = f"{github.api_url.removesuffix('/api/v3')}/{NAME}.git"
    async with app_of(github).token(installation(github), "sample", {"contents": "read"}) as token:
        assert (len(token) == 40) is short
        assert (len(token) > 500) is not short
        assert (await git("ls-remote", url, env=fetching(url, token))).returncode == 0
    app = app_of(github)
    async with app.repository(installation(github), "octo", "sample", permissions=publish.PERMISSIONS) as repository:
        await publishing(repository)
    assert all(token.revoked for token in github.tokens)


async def test_work_of_seventy_five_minutes_goes_on_with_one_new_token(github: LocalGitHub, clock: Clock) -> None:
    app = app_of(github)
    async with app.repository(installation(github), "octo", "sample", permissions=publish.PERMISSIONS) as repository:
        base = await repository.head("main")
        clock.now += timedelta(minutes=75)
        made = await asyncio.gather(*(repository.create_blob(b"%d\n" % number) for number in range(5)))
        await repository.create_branch("coder/issue-1", base.sha)
    assert len(set(made)) == 5
    first, second = github.tokens
    # The one that ran out was given back all the same, which GitHub refuses with a 401: that is no error.
    assert (first.revoked, second.revoked) == (False, True)
    revokings = [call.status for call in github.requests if call.operation == "apps/revoke-installation-access-token"]
    assert sorted(revokings) == [204, 401]


async def test_a_token_that_github_takes_for_bad_is_given_back_too(github: LocalGitHub, clock: Clock) -> None:
    app = app_of(github)
    async with app.repository(installation(github), "octo", "sample", permissions={"issues": "read"}) as repository:
        [first] = github.tokens
        first.expires_at, kept = clock.now, first.expires_at
        await repository.issue(1)
        first.expires_at = kept  # it was good: what said otherwise was out of date
    assert [token.revoked for token in github.tokens] == [True, True]


async def test_a_token_that_is_on_its_way_when_its_block_is_cancelled_is_given_back(github: LocalGitHub) -> None:
    app = app_of(github)
    task = asyncio.create_task(app.token(installation(github), "sample", {"contents": "read"}).__aenter__())
    while not github.tokens and not task.done():
        await asyncio.sleep(0)  # the other side of the connection runs in this very loop
        if github.tokens:
            task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [token] = github.tokens
    assert token.revoked


@pytest.mark.parametrize("minutes", [-50, -8, 0, 50])
async def test_a_machine_whose_clock_is_wrong_is_let_in(github: LocalGitHub, minutes: int) -> None:
    """The App's JWT is judged by GitHub's clock; what is off by much is put right by the time GitHub says it is."""
    app = app_of(github, clock=lambda: datetime.now(UTC) + timedelta(minutes=minutes))
    assert await app.login() == github.app.login
    async with app.token(installation(github), "sample", {"contents": "read"}):
        pass
    refused = [call for call in github.requests if call.status == 401]
    assert len(refused) == (1 if abs(minutes) > 9 else 0)  # once, not for each token


# Addresses


@pytest.mark.parametrize(
    ("api_url", "url", "ours"),
    [
        ("https://api.github.com", "https://github.com/octo/sample.git", True),
        ("https://api.github.com/", "https://github.com/Octo/Sample", True),
        ("https://api.github.com", "https://github.com:443/octo/sample.git", False),  # an odd way to say it
        ("https://api.octo.ghe.com", "https://octo.ghe.com/octo/sample.git", True),
        ("https://ghe.test:8443/api/v3", "https://ghe.test:8443/octo/sample.git", True),
        ("https://ghe.test:8443/api/v3", "https://ghe.test/octo/sample.git", False),
        ("https://api.github.com", "http://github.com/octo/sample.git", False),
        ("https://api.github.com", "https://github.com.evil.test/octo/sample.git", False),
        ("https://api.github.com", "https://evil.test/octo/sample.git", False),
        ("https://api.github.com", "https://api.github.com/octo/sample.git", False),
        ("https://api.github.com", "https://github.com@evil.test/octo/sample.git", False),
        ("https://api.github.com", "https://evil.test@github.com/octo/sample.git", False),
        ("https://api.github.com", "https://github.com/octo/other.git", False),
        ("https://api.github.com", "https://github.com/octo/sample.git/../../evil/x.git", False),
        ("https://api.github.com", "https://github.com/octo/sample.git?x=1", False),
        ("https://api.github.com", "https://github.com/octo/sample.git#x", False),
        ("https://api.github.com", "https://github.com\\@evil.test/octo/sample.git", False),
        ("https://api.github.com", "ssh://git@github.com/octo/sample.git", False),
        ("https://api.github.com", "ext::sh -c id", False),
        ("https://api.github.com", "--upload-pack=/bin/sh", False),
        ("https://api.github.com", "/octo/sample.git", False),
        ("https://api.github.com", "https://github.com/octo/sample.git\n", False),
        ("https://api.github.com", "", False),
    ],
)
def test_a_repository_is_cloned_from_the_apps_own_github_alone(
    github_key: str, api_url: str, url: str, ours: bool
) -> None:
    assert App(1, github_key, api_url).clones_from("octo", "sample", url) is ours


@pytest.fixture(scope="module")
def github_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


class Server:
    """Writes down what it is sent; answers with a redirect, or as a git server does."""

    def __init__(self, to: str | None) -> None:
        self.to = to
        self.seen: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        said = b"".join(b"%04x%s" % (len(line) + 4, line) for line in (b"version 2\n", b"ls-refs\n")) + b"0000"
        status, headers = 200, [(b"content-type", b"application/x-git-upload-pack-advertisement")]
        if self.to is not None:
            there = f"{self.to}{scope['path']}?{scope['query_string'].decode()}"
            status, headers = 301, [(b"location", there.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": said})


async def test_git_takes_a_token_to_no_other_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        home, evil = (f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in (one, two))
        there = Server(None)
        async with serving(Server(evil), one), serving(there, two):
            env = fetching(f"{home}/octo/sample.git", "a-token")
            assert (await git("ls-remote", f"{home}/octo/sample.git", env=env)).returncode == 128
            assert there.seen == []
            await git("ls-remote", f"{evil}/octo/sample.git", env=env)
            assert there.seen
            assert not any("authorization" in headers for headers in there.seen)
            # The control: a git that follows redirects takes its headers along.
            key = next(name for name, value in env.items() if value == "http.followRedirects")
            await git("ls-remote", f"{home}/octo/sample.git", env={**env, key.replace("KEY", "VALUE"): "true"})
            assert any("authorization" in headers for headers in there.seen)


async def test_git_speaks_http_and_nothing_else() -> None:
    for url in ("ext::sh -c id", "file:///etc", "/etc", "ssh://127.0.0.1/x", "git://127.0.0.1/x", "fd::0"):
        refused = await git("ls-remote", "--", url, env=GIT_ENV)
        assert (refused.returncode, b"not allowed" in refused.stderr) == (128, True), refused.stderr


def test_what_git_is_told_is_the_same_for_each_use() -> None:
    """One list for all; only a bundle of our own may come from a file."""

    def told(env: Mapping[str, str]) -> dict[str, str]:
        count = int(env["GIT_CONFIG_COUNT"])
        return {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}

    plain = told(GIT_ENV)
    assert told(FROM_A_FILE) == {**plain, "protocol.file.allow": "always"}
    header = "http.https://github.com/.extraHeader"
    assert set(told(fetching("https://github.com/octo/sample.git", "x"))) - set(plain) == {header}
