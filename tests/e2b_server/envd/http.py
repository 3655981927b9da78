"""HTTP/1.1 on a unix socket, one request a connection: as little of it as the reverse proxy outside needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

HEAD_LIMIT = 64 * 1024
PIECE = 64 * 1024


class Request:
    """One request; `body` and `pieces` may be taken once."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader) -> None:
        line, *headers = head[:-4].decode("latin-1").split("\r\n")
        self.method, target, _ = line.split(" ")
        split = urlsplit(target)
        self.path = split.path
        self.query: Mapping[str, str] = dict(parse_qsl(split.query, keep_blank_values=True))
        pairs = (header.partition(":") for header in headers)
        self.headers: Mapping[str, str] = {name.strip().lower(): value.strip() for name, _, value in pairs}
        self._reader = reader

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self._reader.readline()).split(b";")[0], 16):
                async for piece in self._exactly(size):
                    yield piece
                await self._reader.readexactly(2)
            await self._reader.readexactly(2)
        else:
            async for piece in self._exactly(int(self.headers.get("content-length", "0"))):
                yield piece

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            piece = await self._reader.read(min(size, PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            size -= len(piece)
            yield piece

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def left(self) -> None:
        """Returns when the caller has hung up; only after the body was taken."""
        with contextlib.suppress(OSError):
            while await self._reader.read(PIECE):
                pass


class Reply:
    """The answer to one request: `send` it whole, or `begin` it and `write` pieces."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._chunked = False
        self.begun = False

    async def send(self, status: int, body: object = None) -> None:
        """A body that is not None goes out as JSON."""
        data = b"" if body is None else json.dumps(body).encode()
        await self.begin(status, {"content-type": "application/json", "content-length": str(len(data))})
        await self.write(data)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.begun = True
        self._chunked = "content-length" not in headers
        lines = [
            f"HTTP/1.1 {status} -",
            "connection: close",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        if self._chunked:
            lines.append("transfer-encoding: chunked")
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await self._writer.drain()

    async def write(self, data: bytes) -> None:
        if data:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
            await self._writer.drain()

    async def end(self) -> None:
        if self._chunked:
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()


Handler = Callable[[Request, Reply], Awaitable[None]]


async def serve(path: str, handler: Handler) -> asyncio.Server:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = Request(await reader.readuntil(b"\r\n\r\n"), reader)
            reply = Reply(writer)
            await handler(request, reply)
            await reply.end()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the other side hung up
        finally:
            writer.close()

    return await asyncio.start_unix_server(connection, path, limit=HEAD_LIMIT)
