"""The container's first process: envd's HTTP and Connect-RPC on a unix socket, and the way out of the container.

Run in the folder that is shared with the server outside: `config.json` says whose sandbox this is, `envd.sock` is
answered here, `proxy.sock` there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from . import files, http, users
from .errors import Refused
from .processes import Event, Processes

STREAM = {"content-type": "application/connect+json"}
MAX_MESSAGE = 16 * 1024 * 1024


def frame(message: object, *, last: bool = False) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack(">BI", 2 if last else 0, len(data)) + data


async def messages(request: http.Request) -> AsyncIterator[Any]:
    """The enveloped messages of a body, each as soon as it is there."""
    kept = bytearray()
    async for piece in request.pieces():
        kept += piece
        while len(kept) >= 5:
            size = struct.unpack(">BI", kept[:5])[1]
            if size > MAX_MESSAGE:
                raise Refused("invalid_argument", "message is too large")
            if len(kept) < 5 + size:
                break
            yield json.loads(kept[5 : 5 + size])
            del kept[: 5 + size]


class Envd:
    """Every call of envd that this sandbox knows."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._user = config["user"]
        self._workdir = config["workdir"]
        self._processes = Processes(config["envs"])
        self._calls = {
            "/process.Process/List": self._processes.list,
            "/process.Process/SendSignal": self._processes.send_signal,
            "/process.Process/SendInput": self._processes.send_input,
            "/process.Process/CloseStdin": self._processes.close_stdin,
        }

    async def handle(self, request: http.Request, reply: http.Reply) -> None:
        if request.path == "/health":
            await reply.send(204)
        elif request.path == "/files":
            await self._files(request, reply)
        elif request.headers.get("content-type", "").startswith("application/connect+json"):
            await reply.begin(200, STREAM)
            try:
                await self._stream(request, reply)
                await reply.write(frame({}, last=True))
            except Refused as exc:
                await reply.write(frame({"error": exc.rpc()}, last=True))
        else:
            try:
                await reply.send(200, await self._unary(request))
            except Refused as exc:
                await reply.send(exc.status, exc.rpc())

    def _as(self, request: http.Request) -> users.User:
        name = request.query.get("username") or users.named_in(request.headers.get("authorization", ""))
        return users.find(name or self._user, self._workdir)

    async def _files(self, request: http.Request, reply: http.Reply) -> None:
        try:
            if request.method == "GET":
                await files.read(request, reply, self._as(request))
            else:
                await files.write(request, reply, self._as(request))
        except Refused as exc:
            await reply.send(exc.status, exc.plain())

    async def _unary(self, request: http.Request) -> Event:
        body = json.loads(await request.body() or b"{}")
        service, _, name = request.path[1:].partition("/")
        if service == "filesystem.Filesystem" and name in files.CALLS:
            try:
                return files.CALLS[name](body, self._as(request))
            except OSError as exc:
                raise Refused("internal", str(exc.strerror)) from exc
        if request.path in self._calls:
            return await self._calls[request.path](body)
        raise Refused("unimplemented", request.path)

    async def _stream(self, request: http.Request, reply: http.Reply) -> None:
        received = messages(request)
        if request.path == "/process.Process/StreamInput":
            await self._stream_input(received)
            await reply.write(frame({}))
            return
        body = await anext(received)
        async for _ in received:
            pass
        timeout_ms = int(request.headers.get("connect-timeout-ms") or 0)
        timeout_s = timeout_ms / 1000 if timeout_ms else None
        # Counted from here, so that who listens hears of the time-out before the end that it brings.
        until = asyncio.get_running_loop().time() + timeout_s if timeout_s else None
        if request.path == "/process.Process/Start":
            process = await self._processes.start(body, self._as(request), timeout_s)
        elif request.path == "/process.Process/Connect":
            selector = body.get("process") or {}
            ended = self._processes.outcome(selector)
            if ended:
                await reply.write(frame({"event": {"start": {"pid": ended[0]}}}) + frame(ended[1]))
                return
            process = self._processes.find(selector)
        else:
            raise Refused("unimplemented", request.path)
        queue = process.listen()  # at once: what nobody listens to is lost
        ping_s = float(request.headers.get("keepalive-ping-interval") or 50)
        try:
            await _until_gone(request, _events(reply, process.pid, queue, until, ping_s))
        finally:
            process.leave(queue)

    async def _stream_input(self, received: AsyncIterator[Any]) -> None:
        process = None
        async for message in received:
            if "start" in message:
                process = self._processes.find(message["start"].get("process") or {})
            elif "data" in message and process:
                await self._processes.send_input(
                    {"process": {"pid": process.pid}, "input": message["data"].get("input")}
                )


async def _events(
    reply: http.Reply, pid: int, queue: asyncio.Queue[Event], until: float | None, ping_s: float
) -> None:
    """Writes what happens until the process's end."""
    try:
        async with asyncio.timeout_at(until):
            await reply.write(frame({"event": {"start": {"pid": pid}}}))
            while True:
                try:
                    async with asyncio.timeout(ping_s):
                        event = await queue.get()
                except TimeoutError:
                    event = {"event": {"keepalive": {}}}
                await reply.write(frame(event))
                if "end" in event["event"]:
                    return
    except TimeoutError:
        raise Refused("deadline_exceeded", "context deadline exceeded") from None


async def _until_gone(request: http.Request, work: Any) -> None:
    """Does the work, and stops it when the caller hangs up."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.left())
    await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        raise ConnectionResetError
    task.result()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(http.PIECE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        out_reader, out_writer = await asyncio.open_unix_connection("proxy.sock")
    except OSError:
        writer.close()
        return
    try:
        await asyncio.gather(_carry(reader, out_writer), _carry(out_reader, writer))
    finally:
        out_writer.close()
        writer.close()


async def main(port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    with open("config.json", encoding="utf-8") as file:
        envd = Envd(json.load(file))
    forwarder = await asyncio.start_server(_forward, "127.0.0.1", port)
    with contextlib.suppress(FileNotFoundError):
        os.unlink("envd.sock")  # of the run before a restart
    server = await http.serve("envd.sock", envd.handle)
    os.chmod("envd.sock", 0o666)  # for whoever runs the server outside; the folder is closed to all others
    async with forwarder, server:
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
