"""Webhooks as GitHub sends them: signed, one after the other, each tried once and written down."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import uuid
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from bot.demo.shapes import Object, Shapes
from bot.demo.state import Comment, Issue, Repository, World

ANSWER_S = 10.0
"""How long GitHub waits for an answer."""
SETTLE_S = 60.0
WAITING = 1000
KEPT = 10_000


@dataclass(kw_only=True, eq=False)
class Delivery:
    """One try at telling the bot. `status` None means that no answer came, and `error` says why."""

    guid: str
    event: str
    action: str
    body: bytes = field(repr=False)
    installation_id: int
    status: int | None = None
    error: str | None = None
    redelivery: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def payload(self) -> Any:
        return json.loads(self.body)


class Webhooks:
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
        first = next(delivery for delivery in self.log if delivery.guid == guid)
        again = Delivery(
            guid=guid,
            event=first.event,
            action=first.action,
            body=first.body,
            installation_id=first.installation_id,
            redelivery=True,
        )
        return self._enqueue(again)

    def commented(
        self, repository: Repository, issue: Issue, comment: Comment, sender: str, *, before: str | None = None
    ) -> Delivery:
        """A new comment, or an edited one whose body was `before`."""
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "comment": self._shapes.comment(repository, issue, comment),
        }
        if before is None:
            return self._send("issue_comment", "created", repository, sender, payload)
        changes = {"changes": {"body": {"from": before}}}
        return self._send("issue_comment", "edited", repository, sender, {**payload, **changes})

    def deleted(self, repository: Repository, issue: Issue, comment: Comment, sender: str) -> Delivery:
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "comment": self._shapes.comment(repository, issue, comment),
        }
        return self._send("issue_comment", "deleted", repository, sender, payload)

    def labeled(self, action: str, repository: Repository, issue: Issue, label: str, sender: str) -> Delivery:
        """`labeled` or `unlabeled`."""
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "label": self._shapes.label(repository, label),
        }
        return self._send("issues", action, repository, sender, payload)

    def assigned(self, repository: Repository, issue: Issue, assignee: str, sender: str) -> Delivery:
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "assignee": self._shapes.user(assignee),
        }
        return self._send("issues", "assigned", repository, sender, payload)

    def closed(self, repository: Repository, issue: Issue, sender: str) -> Delivery:
        if issue.pull is not None:
            return self.pull_request("closed", repository, issue, sender)
        payload = {"issue": self._shapes.issue(repository, issue)}
        return self._send("issues", "closed", repository, sender, payload)

    def pushed(self, repository: Repository, ref: str, before: str, sender: str) -> list[Delivery]:
        """To the open pull requests from that branch, which was at `before`."""
        return [
            self.pull_request("synchronize", repository, issue, sender, before=before, after=pull.head_sha)
            for issue, pull in repository.pulls()
            if issue.state == "open" and f"refs/heads/{pull.head_branch}" == ref
        ]

    def pull_request(self, action: str, repository: Repository, issue: Issue, sender: str, **more: str) -> Delivery:
        assert issue.pull is not None
        pull = self._shapes.full_pull(repository, issue, issue.pull)
        payload = {"number": issue.number, "pull_request": pull, **more}
        return self._send("pull_request", action, repository, sender, payload)

    def _send(self, event: str, action: str, repository: Repository, sender: str, payload: Object) -> Delivery:
        body = {
            "action": action,
            **payload,
            "repository": self._shapes.repository(repository),
            "sender": self._shapes.user(sender),
            "installation": {"id": repository.installation_id, "node_id": str(repository.installation_id)},
        }
        return self._enqueue(
            Delivery(
                guid=str(uuid.uuid4()),
                event=event,
                action=action,
                body=json.dumps(body, separators=(",", ":")).encode(),
                installation_id=repository.installation_id,
            )
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
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/local",
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Delivery": delivery.guid,
            "X-GitHub-Hook-ID": str(app.app_id),
            "X-GitHub-Hook-Installation-Target-ID": str(app.app_id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature-256": f"sha256={digest}",
        }
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await client.post(self.url, content=delivery.body, headers=headers)
        except (httpx.HTTPError, TimeoutError) as exc:
            delivery.error = type(exc).__name__
            return
        delivery.status = answer.status_code
