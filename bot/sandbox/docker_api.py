"""The plain HTTP of a Docker engine on its unix socket: calls, and the two-way stream of an exec."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from bot.domain.errors import SandboxError
from bot.sandbox.guest.output import Output

NEWEST_API = (1, 51)
OLDEST_API = (1, 40)
CALL_TIMEOUT_S = 60.0
FRAME = struct.Struct(">BxxxI")
"""One byte for the stream, three for nothing, four for the length: "Stream format" in the engine's reference,
https://docs.docker.com/reference/api/engine/ (ContainerAttach)."""


class EngineRefusal(Exception):
    """An answer of the engine that we did not want. Its text is the engine's: for classifying, never for showing."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"status {status}: {text}")
        self.status = status
        self.text = text


class DockerApi:
    """One engine. Raises SandboxError where it can't be reached, EngineRefusal for a status of 400 and more."""

    def __init__(self, docker_host: str) -> None:
        scheme, _, path = docker_host.partition("://")
        if scheme != "unix" or not path.startswith("/"):
            raise SandboxError(
                "invalid_config",
                "DOCKER_HOST must be unix:///path/to/docker.sock: a sandbox's way out is a socket on the engine's "
                "own machine, so a remote engine can't be used.",
            )
        self._socket = path
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=path),
            base_url="http://docker",
            timeout=CALL_TIMEOUT_S,
            trust_env=False,
        )
        self._version: str | None = None

    async def aclose(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        archive: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Any:
        """The answer's JSON, None where it has none. `archive` is a tar to send instead of a body."""
        prefix = await self._prefix()
        response = await self._request(
            method, prefix + path, body=body, params=params, archive=archive, timeout_s=timeout_s
        )
        if response.status_code >= 400:
            raise EngineRefusal(response.status_code, response.text)
        return response.json() if response.content.strip() else None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        archive: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Any:
        """As `call`, for whoever can make nothing of a refusal: it becomes a SandboxError."""
        try:
            return await self.call(method, path, body=body, params=params, archive=archive, timeout_s=timeout_s)
        except EngineRefusal as exc:
            raise SandboxError(
                "unknown_outcome", "The Docker engine failed in a call; its own log says why."
            ) from exc

    async def log(self, container: str) -> bytes:
        """What a container of ours that has ended wrote to its stdout."""
        response = await self._request(
            "GET", f"{await self._prefix()}/containers/{container}/logs", params={"stdout": "1"}
        )
        out, rest = bytearray(), response.content if response.status_code == 200 else b""
        while len(rest) >= FRAME.size:
            _, size = FRAME.unpack_from(rest)
            out += rest[FRAME.size : FRAME.size + size]
            rest = rest[FRAME.size + size :]
        return bytes(out)

    async def _prefix(self) -> str:
        if self._version is None:
            response = await self._request("GET", "/_ping")
            try:
                offered = tuple(int(part) for part in response.headers.get("Api-Version", "").split("."))
            except ValueError:
                offered = ()
            if len(offered) != 2 or offered < OLDEST_API:
                raise SandboxError(
                    "invalid_config", f"What answers at {self._socket} is no Docker engine of 19.03 or later."
                )
            self._version = "/v{}.{}".format(*min(offered, NEWEST_API))
        return self._version

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        archive: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> httpx.Response:
        headers = {} if archive is None else {"Content-Type": "application/x-tar"}
        try:
            return await self._http.request(
                method, path, json=body, content=archive, params=params, headers=headers, timeout=timeout_s
            )
        except httpx.ConnectError as exc:
            raise self._unreachable() from exc
        except httpx.TransportError as exc:
            if method == "GET":
                raise self._unreachable() from exc
            raise SandboxError(
                "unknown_outcome", "The Docker engine took a call and did not answer; it may have happened or not."
            ) from exc

    def _unreachable(self) -> SandboxError:
        if os.path.exists(self._socket) and not os.access(self._socket, os.R_OK | os.W_OK):
            return SandboxError(
                "permission_denied",
                f"This user may not use the Docker engine at {self._socket}; usually the group `docker` may.",
            )
        return SandboxError(
            "unreachable",
            f"No Docker engine answers at {self._socket}. Start it (`systemctl start docker`, `scripts/docker-up` "
            "on a bare Debian machine), or set DOCKER_HOST to its socket; `coder-bot doctor` shows what is wrong.",
            retryable=True,
        )

    @contextlib.asynccontextmanager
    async def exec_stream(self, exec_id: str) -> AsyncIterator[ExecStream]:
        """Starts a prepared exec; leaving the block lets go of its output, not of the process."""
        prefix = await self._prefix()
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(self._socket)
        except (OSError, TimeoutError) as exc:
            raise self._unreachable() from exc
        try:
            body = json.dumps({"Detach": False, "Tty": False}).encode()
            # httpx can't half-close a connection that was upgraded, and the end of stdin is a half-close.
            head = (
                f"POST {prefix}/exec/{exec_id}/start HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
                f"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    writer.write(head.encode() + body)
                    answer = await reader.readuntil(b"\r\n\r\n")
            except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as exc:
                raise SandboxError(
                    "unknown_outcome", "The Docker engine did not say whether a command began."
                ) from exc
            status = int(answer.split(b" ", 2)[1])
            if status not in (101, 200):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        answer += await reader.read(4096)
                raise EngineRefusal(status, answer.decode(errors="replace"))
            yield ExecStream(reader, writer)
        finally:
            writer.transport.abort()


class ExecStream:
    """What a running exec reads and writes. A connection that breaks looks like an end: the engine says what became
    of the command."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._taken = bytearray()

    async def feed(self, data: bytes) -> None:
        """Writes all of stdin and its end; a command that does not read it is no error."""
        with contextlib.suppress(OSError):
            await self.send(data)
            self._writer.write_eof()

    async def send(self, *pieces: bytes) -> None:
        """Writes to stdin and leaves it open; OSError where nobody reads any more."""
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                self._writer.write(rest[:65536])
                rest = rest[65536:]
                await self._writer.drain()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def drain(self, stdout: Output, stderr: Output) -> None:
        """Takes all output until its end, piece by piece."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind, left = await self._head()
                output = stderr if kind == 2 else stdout
                while left:
                    piece = await self._reader.read(min(left, 65536))
                    if not piece:
                        return
                    left -= len(piece)
                    output.add(piece)

    async def take(self, size: int) -> bytes:
        """That many bytes of stdout, stderr being dropped; IncompleteReadError at its end."""
        while len(self._taken) < size:
            kind, left = await self._head()
            while left:
                piece = await self._reader.readexactly(min(left, 65536))
                left -= len(piece)
                if kind == 1:
                    self._taken += piece
        found = bytes(self._taken[:size])
        del self._taken[:size]
        return found

    async def _head(self) -> tuple[int, int]:
        kind, size = FRAME.unpack(await self._reader.readexactly(FRAME.size))
        return kind, size
