"""Git over HTTP: git's own CGI program behind a check of installation tokens."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from fastapi import Request, Response
from starlette.types import Send

from bot.demo import bare
from bot.demo.state import Repository, Token
from bot.demo.world import World

SERVE_S = 600.0
"""How long one fetch or push may take."""
BODY_LIMIT = 1024 * 1024 * 1024
CHUNK = 65536

_ADDRESS = re.compile(r"/([\w.-]+/[\w.-]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)")


async def serve(world: World, home: Path, request: Request, send: Send) -> None:
    """Fetching needs a token that may read the repository's contents, pushing one that may write them."""
    if world.on_git is not None:
        await world.on_git(request.url.path)
    admitted = _admit(world, request)
    if isinstance(admitted, Response):
        await admitted(request.scope, request.receive, send)
        return
    repository, action = admitted
    program = Path(repository.bare.git("--exec-path").decode().strip(), "git-http-backend")
    env = {
        **bare.environment(home),
        "GIT_PROJECT_ROOT": str(repository.bare.path),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{action}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": request.url.query,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "REMOTE_USER": "x-access-token",
        "REMOTE_ADDR": "127.0.0.1",
    }
    with tempfile.TemporaryFile(dir=home) as spool:
        # The whole request first: git may begin to answer before it has read everything, and a client that is still
        # sending would then wait for us as we wait for it. It gives a chunked body its length, too.
        async for chunk in request.stream():
            spool.write(chunk)
            if spool.tell() > BODY_LIMIT:
                await Response("Too large.", 413)(request.scope, request.receive, send)
                return
        env["CONTENT_LENGTH"] = str(spool.tell())
        spool.seek(0)
        async with asyncio.timeout(SERVE_S), _running(program, env, spool) as stdout:
            await _relay(stdout, send)


async def _relay(stdout: asyncio.StreamReader, send: Send) -> None:
    """A CGI program's answer as an HTTP answer."""
    status, headers = 200, []
    while line := (await stdout.readline()).strip():
        name, _, value = line.partition(b": ")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    while chunk := await stdout.read(CHUNK):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _admit(world: World, request: Request) -> tuple[Repository, str] | Response:
    match = _ADDRESS.fullmatch(request.url.path)
    if match is None:
        return Response(status_code=404)
    full_name, action = match.groups()
    service = request.query_params.get("service") if action == "info/refs" else action
    if service not in ("git-upload-pack", "git-receive-pack"):
        return Response(status_code=404)
    token = _token(world, request)
    if token is None:
        return Response("Authentication failed.", 401, {"WWW-Authenticate": 'Basic realm="GitHub"'})
    token.used_by_git = True
    repository = world.find(full_name)
    if repository is None or not token.reaches(repository) or not token.allows("contents", "read"):
        return Response("Repository not found.", 404)
    if service == "git-receive-pack" and not token.allows("contents", "write"):
        return Response("Write access to repository not granted.", 403)
    if repository.full_name != full_name:
        return Response(status_code=301, headers={"Location": _address(repository, action, request)})
    return repository, action


def _address(repository: Repository, action: str, request: Request) -> str:
    """Where a repository is that is asked for by a former name."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"/{repository.full_name}.git/{action}{query}"


def _token(world: World, request: Request) -> Token | None:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, _, value = base64.b64decode(credential, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return world.live_token(value) if user == "x-access-token" else None


@contextlib.asynccontextmanager
async def _running(program: Path, env: dict[str, str], spool: IO[bytes]) -> AsyncIterator[asyncio.StreamReader]:
    """What the program prints; it is ended with the block."""
    process = await asyncio.create_subprocess_exec(
        program, env=env, stdin=spool, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        # After its answer it ends by itself; a signal to one that just has would reap it behind asyncio's back.
        try:
            async with asyncio.timeout(1):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
