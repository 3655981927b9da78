"""The one moment at which a sandbox holds a token: what a repository, and its config, may try to make of it."""

from __future__ import annotations

import base64
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.demo.github import LocalGitHub, serving
from bot.domain.patch import Patch
from bot.domain.tree import tree_id
from bot.github.auth import App
from bot.sandbox import workspace
from bot.sandbox.careful_git import fetching
from bot.sandbox.docker import DockerProvider
from bot.sandbox.protocol import Sandbox, SandboxSpec
from bot.sandbox.workspace import REPO, CloneFailed, Remote, TokenRefused

NAME = "octo/sample"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 12\n" % (b"0" * 64)


@dataclass
class Stranger:
    """A server that writes down what it is sent."""

    seen: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def stranger() -> AsyncIterator[Stranger]:
    there = Stranger()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serving(there, listener):
            yield there


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="coder-"))  # a socket's path has to be short
    yield path
    shutil.rmtree(path)


def hostile(folder: Path, elsewhere: str) -> Path:
    """A repository with submodules whose addresses are all somebody else's, and with a file that LFS keeps."""
    repo = folder / "hostile"
    repo.mkdir()
    modules = {
        "one": f"{elsewhere}/x.git",
        "two": "../other.git",
        "three": "ext::sh -c touch% /workspace/pwned",
        "deep/four": "-u./pwned",
        "five\r": "../../workspace/pwned",
        "../six": f"{elsewhere}/y.git",
    }
    quoted = {path: path.replace("\r", "\\r") for path in modules}
    (repo / ".gitmodules").write_text(
        "".join(
            f'[submodule "{quoted[path]}"]\n\tpath = "{path}"\n\turl = "{url}"\n\tupdate = checkout\n'
            for path, url in modules.items()
        ),
        newline="",
    )
    (repo / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (repo / ".lfsconfig").write_text(f"[lfs]\n\turl = {elsewhere}/lfs\n")
    (repo / "large.bin").write_bytes(POINTER)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main"]
    links = [word for path in modules if ".." not in path for word in ("--cacheinfo", f"160000,{'1' * 40},{path}")]
    for words in (["init", "-q"], ["add", "-A"], ["update-index", "--add", *links], ["commit", "-qm", "base"]):
        subprocess.run(["git", *who, *words], cwd=repo, check=True)
    return repo


@asynccontextmanager
async def pristine(home: Path, hosts: frozenset[str], env: Mapping[str, str]) -> AsyncIterator[Sandbox]:
    provider = DockerProvider(
        deployment=f"test-{secrets.token_hex(6)}", egress_dir=home / "egress", private_hosts=hosts
    )
    name = f"clone-{secrets.token_hex(6)}"
    spec = SandboxSpec(name=name, kind="fetch", task="t", image="coder-bot-sandbox:latest", lifetime_s=600, env=env)
    sandbox = await provider.create(spec)
    try:
        yield sandbox
    finally:
        await sandbox.aclose()
        await provider.kill(sandbox.id)
        await provider.aclose()


async def holds(sandbox: Sandbox, token: str) -> str:
    """Which files have the token in them, in any of the forms it has on its way."""
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    argv = ["grep", "-rlaF", "-e", token, "-e", basic, "/workspace", "/tmp"]
    return (await sandbox.exec(argv, timeout_s=60)).stdout.decode()


async def test_submodules_and_lfs_are_left_alone_and_no_token_is_written_down(home: Path, stranger: Stranger) -> None:
    asked: list[str] = []

    async def note(path: str) -> None:
        asked.append(path)

    async with LocalGitHub(home / "github") as github:
        await github.create_repository(NAME, hostile(home, stranger.url))
        await github.create_repository("octo/other", {"secret.txt": b"x\n"})
        github.on_git(note)
        head = github.branches(NAME)["main"]
        origin = github.api_url.removesuffix("/api/v3")
        hosts = frozenset(url.removeprefix("http://") for url in (origin, stranger.url))
        # What a repository's `sandbox.env` may say, to have the token written down or sent elsewhere.
        env = {
            "GIT_TRACE_CURL": "/workspace/curl",
            "GIT_TRACE_REDACT": "0",
            "GIT_TRACE2_EVENT": "/workspace/trace",
            "GIT_TRACE2_ENV_VARS": ",".join(f"GIT_CONFIG_VALUE_{number}" for number in range(100)),
            "GIT_CONFIG_PARAMETERS": f"'url.{stranger.url}/.insteadOf={origin}/'",
            "GIT_SSL_NO_VERIFY": "1",
            "SSLKEYLOGFILE": "/workspace/keys",
        }
        app = App(github.app.app_id, github.app.private_key, github.api_url)
        installation = github._repository(NAME).installation_id
        async with (
            pristine(home, hosts, env) as sandbox,
            app.token(installation, "sample", {"contents": "read"}) as token,
        ):
            remote = Remote(url=f"{origin}/{NAME}.git", token=token)
            await workspace.clone(sandbox, remote, head, timeout_s=60)
            await workspace.check_out(sandbox, head)
            files = await workspace.listing(sandbox, head)
            assert {entry.path for entry in files if entry.type == "commit"} >= {"one", "two", "five\r"}
            tree = await workspace.build_tree(sandbox, head, Patch.of())
            assert tree == tree_id(files, Patch.of())
            await workspace.check_out_exactly(sandbox, tree, files)
            assert await sandbox.read(f"{REPO}/large.bin", max_bytes=1000) == POINTER
            await workspace.note_made(sandbox, head)
            assert not await workspace.collect(sandbox, head, max_files=9, max_bytes=999)
            there = {entry.name for entry in await sandbox.list(".")}
            assert there - {".coder", ".home", "repo", "curl", "trace"} == set()
            assert await holds(sandbox, token) == ""
            assert {path.split(".git/")[0] for path in asked} == {f"/{NAME}"}
            assert stranger.seen == []

            # The control: a git with the same token, and with what the config says.
            await sandbox.allow(hosts)
            loose = {**env, **fetching(remote.url, token), **sandbox.proxy_env}
            await sandbox.exec(["git", "fetch", "-q", remote.url], cwd=REPO, env=loose, timeout_s=60)
            assert stranger.seen, "rewritten"
            assert "/workspace/trace" in await holds(sandbox, token)


async def test_a_token_that_is_refused_is_told_apart_and_leaves_the_sandbox_as_it_was(home: Path) -> None:
    async with LocalGitHub(home / "github") as github:
        await github.create_repository(NAME, {"a.txt": b"a\n"})
        head = github.branches(NAME)["main"]
        origin = github.api_url.removesuffix("/api/v3")
        app = App(github.app.app_id, github.app.private_key, github.api_url)
        async with pristine(home, frozenset({origin.removeprefix("http://")}), {}) as sandbox:
            remote = Remote(url=f"{origin}/{NAME}.git", token="long gone")
            with pytest.raises(TokenRefused):
                await workspace.clone(sandbox, remote, head, timeout_s=60)
            async with app.token(github._repository(NAME).installation_id, "sample", {"contents": "read"}) as token:
                await workspace.clone(sandbox, Remote(url=remote.url, token=token), head, timeout_s=60)
                for wrong in ("--upload-pack=/bin/sh", "main", head[:20], f"{head}\n"):
                    with pytest.raises(CloneFailed, match="not named by the id"):
                        await workspace.clone(sandbox, remote, wrong, timeout_s=60)
            await workspace.check_out(sandbox, head)
            assert await sandbox.read(f"{REPO}/a.txt", max_bytes=9) == b"a\n"
            # A second name for a file from outside: the helper that reads files could not tell it from a new one.
            for outside in ("/etc/passwd", "/run/egress/epoch", "/proc/self/environ"):
                assert not (await sandbox.exec(["ln", outside, f"{REPO}/second"], timeout_s=60)).ok
