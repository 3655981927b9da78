"""The local GitHub as tests call it: over HTTP, with git, and with a webhook address."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import jwt

from bot.demo.github import LocalGitHub, serving

NAME = "octo/sample"
REPO = f"/repos/{NAME}"
FILES = {"README.md": b"# Sample\n", "src/a.py": b"a = 1\n", "src/b.py": b"b = 1\n", "run.sh": b"#!/bin/sh\n"}
GIT_ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.com",
    "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.com",
}


@dataclass
class Clock:
    now: datetime = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Receiver:
    """A webhook address that remembers what it got, and answers as it is told."""

    status: int = 202
    got: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.got.append(({k.decode(): v.decode() for k, v in scope["headers"]}, body))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def app_jwt(github: LocalGitHub, *, key: str | None = None, lifetime: int = 300, **claims: object) -> str:
    now = int(time.time())
    payload = {"iat": now - 60, "exp": now + lifetime, "iss": str(github.app.app_id), **claims}
    return jwt.encode(payload, key or github.app.private_key, algorithm="RS256")


async def call(
    github: LocalGitHub,
    method: str,
    path: str,
    body: object = None,
    *,
    credential: str | None = None,
    **query: object,
) -> httpx.Response:
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    content = None if body is None else json.dumps(body).encode()
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.request(
            method,
            github.api_url + path,
            content=content,
            headers=headers,
            params={k: str(v) for k, v in query.items()},
        )


async def mint(github: LocalGitHub, body: object = None) -> httpx.Response:
    found = await call(github, "GET", f"{REPO}/installation", credential=app_jwt(github))
    path = f"/app/installations/{found.json()['id']}/access_tokens"
    return await call(github, "POST", path, body, credential=app_jwt(github))


async def token(github: LocalGitHub, **permissions: str) -> str:
    value = (await mint(github, {"repositories": ["sample"], "permissions": permissions})).json()["token"]
    assert isinstance(value, str)
    return value


@asynccontextmanager
async def client(github: LocalGitHub) -> AsyncIterator[Callable[..., Any]]:
    """Calls with everything that the App may do."""
    credential = (await mint(github)).json()["token"]

    async def asks(method: str, path: str, body: object = None, expect: int = 200, **query: object) -> Any:
        answer = await call(github, method, REPO + path, body, credential=credential, **query)
        assert answer.status_code == expect, answer.text
        return answer.json() if answer.content else None

    yield asks


async def git(*args: str | Path, token: str | None = None, origin: str = "") -> tuple[int, str]:
    """Git as the sandbox runs it: the token in that one process's environment."""
    extra = {}
    if token is not None:
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        extra = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"http.{origin}/.extraHeader"}
        extra["GIT_CONFIG_VALUE_0"] = f"Authorization: Basic {basic}"
    process = await asyncio.create_subprocess_exec(
        "git", *args, env={**GIT_ENV, **extra}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def git_ok(*args: str | Path, **more: str) -> str:
    code, output = await git(*args, **more)
    assert code == 0, output
    return output.strip()


async def commit(asks: Callable[..., Any], branch: str, content: str) -> str:
    """A commit on top of a branch, not yet on it."""
    head = (await asks("GET", f"/git/ref/heads/{branch}"))["object"]["sha"]
    entry = {"path": "src/a.py", "mode": "100644", "type": "blob", "content": content}
    base = (await asks("GET", f"/git/commits/{head}"))["tree"]["sha"]
    tree = (await asks("POST", "/git/trees", {"base_tree": base, "tree": [entry]}, 201))["sha"]
    body = {"message": f"Write {content}", "tree": tree, "parents": [head]}
    return str((await asks("POST", "/git/commits", body, 201))["sha"])


@asynccontextmanager
async def receiving(github: LocalGitHub) -> AsyncIterator[Receiver]:
    """Gets the webhooks until the block ends."""
    receiver = Receiver()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver.url = github.webhook_url = f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        async with serving(receiver, listener):
            yield receiver
            await github.settled()


@asynccontextmanager
async def local_github(directory: Path, clock: Callable[[], datetime] | None = None) -> AsyncIterator[LocalGitHub]:
    """With one repository; what both sides said must fit GitHub's own description in the end."""
    async with LocalGitHub(directory / "github", clock=clock or Clock()) as github:
        await github.create_repository(NAME, FILES)
        yield github
    assert github.violations == []
