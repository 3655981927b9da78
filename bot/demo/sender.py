"""Sends webhooks as GitHub does: signed, one after the other, each tried once and written down."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import httpx

from bot.demo.shapes import Object, Shapes
from bot.demo.state import Repository
from bot.demo.world import World

ANSWER_S = 10.0
"""How long GitHub waits for an answer."""
SETTLE_S = 60.0
ANSWER_LIMIT = 10_000
"""Characters of an answer that are kept."""
WAITING = 1000
KEPT = 10_000
KEPT_FOR = timedelta(days=3)
"""How long GitHub lists a delivery and sends it again."""


@dataclass(kw_only=True, eq=False)
class Delivery:
    """One try at telling the bot. `status` None means that no answer came, and `error` says why."""

    id: int
    guid: str
    event: str
    action: str | None
    body: bytes = field(repr=False)
    installation_id: int | None
    repository_id: int | None
    at: datetime
    status: int | None = None
    error: str | None = None
    redelivery: bool = False
    seconds: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    answer_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    answer: str = field(default="", repr=False)
    done: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def payload(self) -> Any:
        return json.loads(self.body)

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def verdict(self) -> tuple[str, int]:
        """As GitHub lists it: a word and a status code, its own where no answer came."""
        if self.status is None:
            timed_out = self.error is not None and "Timeout" in self.error
            return ("timed out", 0) if timed_out else ("failed to connect to host", 502)
        return ("OK" if self.succeeded else f"Invalid HTTP Response: {self.status}"), self.status


class Sender:
    """Sends in the order things happened. Nothing is repeated unless `redeliver` asks for it."""

    def __init__(self, world: World, shapes: Shapes) -> None:
        self.url: str | None = None
        self.log: deque[Delivery] = deque(maxlen=KEPT)
        self._world = world
        self._shapes = shapes
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue(WAITING)

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Sends while it is open; what is due when it closes is sent first."""
        async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False) as client:
            sender = asyncio.create_task(self._send_all(client))
            try:
                yield
                await self.settled()
            finally:
                sender.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sender

    async def settled(self) -> None:
        """Returns once nothing is left to be sent; a TimeoutError if that takes longer than a minute."""
        async with asyncio.timeout(SETTLE_S):
            await self._queue.join()

    async def finished(self, delivery: Delivery) -> Delivery:
        async with asyncio.timeout(SETTLE_S):
            await delivery.done.wait()
        return delivery

    def redeliver(self, guid: str) -> Delivery:
        """The same bytes under the same delivery id, as the button on GitHub's page does."""
        return self.send_again(next(delivery for delivery in self.log if delivery.guid == guid))

    def send_again(self, delivery: Delivery) -> Delivery:
        """The same, as a try of its own."""
        again = replace(
            delivery,
            id=self._world.next_id(),
            at=self._world.clock(),
            status=None,
            error=None,
            redelivery=True,
            seconds=0.0,
            headers={},
            answer_headers={},
            answer="",
            done=asyncio.Event(),
        )
        return self._enqueue(again)

    def listed(self) -> list[Delivery]:
        """What was tried in the last days, the newest first."""
        since = self._world.clock() - KEPT_FOR
        return [delivery for delivery in reversed(self.log) if delivery.done.is_set() and delivery.at >= since]

    def _send(self, event: str, action: str | None, repository: Repository, sender: str, payload: Object) -> Delivery:
        """Tells the App, where it is installed and may hear it."""
        told = {"repository": self._shapes.repository(repository), "sender": self._shapes.user(sender)}
        number = repository.installation_id
        if number is not None:
            told["installation"] = {"id": number, "node_id": str(number)}
        delivery = self._delivery(event, action, number, repository.id, {**payload, **told})
        installation = None if number is None else self._world.installations.get(number)
        if installation is None or installation.suspended_at is not None:
            return _unsent(delivery, "not sent: the App is not installed there, or suspended")
        if event not in self._world.events:
            return _unsent(delivery, "not sent: the App is not subscribed to that")
        return self._enqueue(delivery)

    def _delivery(
        self, event: str, action: str | None, installation: int | None, repository: int | None, payload: Object
    ) -> Delivery:
        body = payload if action is None else {"action": action, **payload}
        return Delivery(
            id=self._world.next_id(),
            guid=str(uuid.uuid4()),
            event=event,
            action=action,
            body=json.dumps(body, separators=(",", ":")).encode(),
            installation_id=installation,
            repository_id=repository,
            at=self._world.clock(),
        )

    def _enqueue(self, delivery: Delivery) -> Delivery:
        self.log.append(delivery)
        try:
            self._queue.put_nowait(delivery)
        except asyncio.QueueFull:
            delivery.error = "too many deliveries are waiting"
            delivery.done.set()
        return delivery

    async def _send_all(self, client: httpx.AsyncClient) -> None:
        while True:
            delivery = await self._queue.get()
            try:
                await self._try(client, delivery)
            finally:
                delivery.done.set()
                self._queue.task_done()

    async def _try(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        if self.url is None:
            delivery.error = "not sent: no webhook address"
            return
        app = self._world.app
        digest = hmac.new(app.webhook_secret.encode(), delivery.body, hashlib.sha256).hexdigest()
        delivery.headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/local",
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Delivery": delivery.guid,
            "X-GitHub-Hook-ID": str(app.app_id),
            "X-GitHub-Hook-Installation-Target-ID": str(app.app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature-256": f"sha256={digest}",
        }
        begun = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await client.post(self.url, content=delivery.body, headers=delivery.headers)
        except (httpx.HTTPError, TimeoutError) as exc:
            delivery.error = type(exc).__name__
            return
        finally:
            delivery.seconds = round(time.monotonic() - begun, 2)
        delivery.status, delivery.answer_headers = answer.status_code, dict(answer.headers)
        delivery.answer = answer.text[:ANSWER_LIMIT]


def _unsent(delivery: Delivery, reason: str) -> Delivery:
    """One that GitHub does not send at all; nothing of it is listed."""
    delivery.error = reason
    delivery.done.set()
    return delivery
