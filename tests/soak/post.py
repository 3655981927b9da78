"""A post office between GitHub and the bot: it takes what GitHub sends, and hands it on when it is asked to."""

from __future__ import annotations

import contextlib
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bot.demo.server import serving

GUID = "x-github-delivery"
PATIENCE_S = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Letter:
    """One delivery as GitHub has signed it."""

    headers: dict[str, str]
    body: bytes = field(repr=False)


class Post:
    """GitHub sends to `url`, and is told each time that it has arrived; the bot is at `bot_url`."""

    def __init__(self, url: str, bot_url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.answered = 0
        """How many deliveries the bot has answered with a 202."""
        self._bot_url = bot_url
        self._client = client
        self._new: list[Letter] = []

    async def take(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        kept = {
            name: value
            for name, value in request.headers.items()
            if name == "content-type" or name.startswith(("x-github-", "x-hub-"))
        }
        self._new.append(Letter(headers=kept, body=await request.body()))
        await Response(status_code=202)(scope, receive, send)

    def taken(self) -> list[Letter]:
        """What came since this was asked last, in its order."""
        new, self._new = self._new, []
        return new

    async def deliver(self, letter: Letter, *, renamed: bool = False) -> bool:
        """Whether the bot has accepted it; False where it isn't there. `renamed`: under a GUID of its own."""
        headers = {**letter.headers, GUID: str(uuid.uuid4())} if renamed else letter.headers
        try:
            answer = await self._client.post(self._bot_url, content=letter.body, headers=headers)
        except httpx.TransportError:
            return False
        assert answer.status_code == 202, (answer.status_code, answer.text, letter.headers)
        self.answered += 1
        return True


@asynccontextmanager
async def office(bot_url: str) -> AsyncIterator[Post]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
            post = Post(f"http://127.0.0.1:{listener.getsockname()[1]}/", bot_url, client)
            async with serving(post.take, listener):
                yield post
