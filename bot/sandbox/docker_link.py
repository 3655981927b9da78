"""The bot's end of the resident helper in a container: requests out, replies in, and nothing of them trusted."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from bot.domain.errors import SandboxError
from bot.sandbox.docker_api import DockerApi, ExecStream
from bot.sandbox.guest.agent import DEAF, FULL, READY, REPLY, REQUEST, TAKEN

READY_TIMEOUT_S = 30.0


class LinkBroken(Exception):
    """The helper ended, or said what no helper says; what was asked of it may have happened or not."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """See `bot.sandbox.guest.agent.REPLY`."""

    became: int
    code: int
    sizes: tuple[int, int]
    streams: tuple[bytes, bytes]


@dataclass(eq=False)
class Asked:
    """A request on its way: its reply to come, of at most `most` bytes, and whether the helper has begun with it."""

    number: int
    answer: asyncio.Future[Reply]
    most: int
    taken: bool = False


class Link:
    """One running helper. `on_full` is called when it notices that the disk is full."""

    def __init__(self, api: DockerApi, exec_id: str, *, on_full: Callable[[], Awaitable[None]]) -> None:
        self._api = api
        self.exec_id = exec_id
        self._on_full = on_full
        self._stack = contextlib.AsyncExitStack()
        self._stream: ExecStream | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asked: dict[int, Asked] = {}
        self._next = 1
        self._sending = asyncio.Lock()
        self._side: set[asyncio.Task[None]] = set()

    @property
    def is_open(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def open(self) -> int:
        """Starts the helper; what it says of itself (`READY`, …), DEAF where it says nothing."""
        self._stream = await self._stack.enter_async_context(self._api.exec_stream(self.exec_id))
        first = self._asked[0] = Asked(0, asyncio.get_running_loop().create_future(), 0)
        self._reading = asyncio.create_task(self._read(self._stream))
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                said = (await first.answer).code
        except (LinkBroken, TimeoutError):
            said = DEAF
        except BaseException:
            await self.aclose()  # nobody else knows of it yet
            raise
        if said != READY:
            await self.aclose()
        return said

    def begin(self, *, most: int) -> Asked:
        """A place for a reply of at most so many bytes; to be forgotten in the end."""
        asked = self._asked[self._next] = Asked(self._next, asyncio.get_running_loop().create_future(), most)
        self._next += 1
        if not self.is_open:
            asked.answer.set_exception(LinkBroken())
        return asked

    def forget(self, asked: Asked) -> None:
        del self._asked[asked.number]
        if asked.answer.done() and not asked.answer.cancelled():
            asked.answer.exception()  # it has been seen
        asked.answer.cancel()

    async def send(self, asked: Asked, request: Mapping[str, object], content: bytes) -> None:
        """Raises LinkBroken where the helper takes nothing any more."""
        head = json.dumps({"id": asked.number, **request}).encode()
        async with self._sending:
            if self._stream is None:
                raise LinkBroken
            try:
                data = REQUEST.pack(len(head), len(content)) + head
                # What is small goes in one piece, so that the helper wakes once for it.
                await (
                    self._stream.send(data + content) if len(content) < 32768 else self._stream.send(data, content)
                )
            except OSError as exc:
                raise LinkBroken from exc
            except asyncio.CancelledError:
                self._stream.abort()  # half a request is none
                raise

    async def _read(self, stream: ExecStream) -> None:
        try:
            while True:
                head = await stream.take(REPLY.size)
                number, became, code, *sizes, out, err = REPLY.unpack(head)
                if number == 0 and became == FULL:
                    self._aside(self._on_full())
                    continue
                asked = self._asked.get(number)
                if out + err > (asked.most if asked else 0):
                    raise LinkBroken
                streams = (await stream.take(out), await stream.take(err))
                if asked is None or asked.answer.done():
                    continue
                if became == TAKEN:
                    asked.taken = True
                    continue
                answer = Reply(became=became, code=code, sizes=(sizes[0], sizes[1]), streams=streams)
                asked.answer.set_result(answer)
        except (LinkBroken, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for asked in self._asked.values():
                if not asked.answer.done():
                    asked.answer.set_exception(LinkBroken())
                    asked.answer.exception()  # whoever asked may be gone

    def _aside(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            with contextlib.suppress(SandboxError):
                await work

        task = asyncio.create_task(run())
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    async def aclose(self) -> None:
        """Lets the helper end, and with it the commands that run for it."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        await self._stack.aclose()
