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

NEWEST_API = (1, 51)
OLDEST_API = (1, 40)
CALL_TIMEOUT_S = 60.0


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
    ) -> Any:
        """The answer's JSON, None where it has none."""
        prefix = await self._prefix()
        response = await self._request(method, prefix + path, body=body, params=params)
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
    ) -> Any:
        """As `call`, for whoever can make nothing of a refusal: it becomes a SandboxError."""
        try:
            return await self.call(method, path, body=body, params=params)
        except EngineRefusal as exc:
            raise SandboxError(
                "unknown_outcome", "The Docker engine failed in a call; its own log says why."
            ) from exc

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
    ) -> httpx.Response:
        try:
            return await self._http.request(method, path, json=body, params=params)
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

    async def feed(self, data: bytes) -> None:
        """Writes all of stdin and its end; a command that does not read it is no error."""
        with contextlib.suppress(OSError):
            rest = memoryview(data)
            while rest:
                self._writer.write(rest[:65536])
                rest = rest[65536:]
                await self._writer.drain()
            self._writer.write_eof()

    async def drain(self, stdout: Output, stderr: Output) -> None:
        """Takes all output until its end, piece by piece."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                # One byte for the stream, three for nothing, four for the length: "Stream format" in the engine's
                # reference, https://docs.docker.com/reference/api/engine/ (ContainerAttach).
                kind, left = struct.unpack(">BxxxI", await self._reader.readexactly(8))
                output = stderr if kind == 2 else stdout
                while left:
                    piece = await self._reader.read(min(left, 65536))
                    if not piece:
                        return
                    left -= len(piece)
                    output.add(piece)


class Output:
    """Keeps the head and the tail of what is added, in bounded memory."""

    def __init__(self, *, head: int, tail: int) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0
        """All bytes that came, kept or not."""

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        room = self._head_limit - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        # Cut now and then rather than at every piece, so that many small pieces cost no more than few large ones.
        if len(self._tail) > 2 * self._tail_limit + 65536:
            del self._tail[: len(self._tail) - self._tail_limit]

    def clear(self) -> None:
        self._head.clear()
        self._tail.clear()
        self.size = 0

    @property
    def left_out(self) -> int:
        return max(0, self.size - self._head_limit - self._tail_limit)

    def bytes(self) -> bytes:
        """What was kept, with a line in the middle for what was not."""
        if not self.left_out:
            return bytes(self._head + self._tail)
        tail = self._tail[len(self._tail) - self._tail_limit :]
        return bytes(self._head) + f"\n[... {self.left_out} bytes left out ...]\n".encode() + bytes(tail)
