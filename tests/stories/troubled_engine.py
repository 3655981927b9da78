"""Stands between the bot and the Docker engine, and breaks connections when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Literal

ENGINE = "/var/run/docker.sock"

Trouble = Literal["unheard", "unanswered", "cut"]
"""What befalls the next connection that says something: the engine never hears it, or it hears it and the answer is
lost; or all that are open break."""


class TroubledEngine:
    """A socket to give as DOCKER_HOST; all that comes in goes to the engine, but for the trouble."""

    def __init__(self, socket: Path) -> None:
        self.host = f"unix://{socket}"
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._due: list[Trouble] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> TroubledEngine:
        self._server = await asyncio.start_unix_server(self._serve, self._socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()

    def trouble(self, kind: Trouble) -> None:
        if kind == "cut":
            self._cut()
        else:
            self._due.append(kind)

    def _cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_unix_connection(ENGINE)
        both = {writer, engine_writer}
        self._open |= both
        answer = asyncio.Event()

        async def asking() -> None:
            while data := await reader.read(65536):
                due = self._due.pop(0) if self._due else None
                if due == "unheard":
                    break
                engine_writer.write(data)
                await engine_writer.drain()
                if due == "unanswered":
                    answer.set()
            if not answer.is_set() and not reader.at_eof():
                writer.transport.abort()
            with contextlib.suppress(OSError):
                engine_writer.write_eof()

        async def answering() -> None:
            while data := await engine_reader.read(65536):
                if answer.is_set():
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()
            with contextlib.suppress(OSError):
                writer.write_eof()

        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(asking(), answering())
        finally:
            self._open -= both
            for each in both:
                each.transport.abort()
