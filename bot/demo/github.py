"""A GitHub on this machine: its REST calls, git over HTTP and webhooks, and what a person would do on its pages."""

from __future__ import annotations

import contextlib
import json
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from bot.demo import contract, door, git_http, job_logs, manifests
from bot.demo.calls import Answer, Logged
from bot.demo.door import Door
from bot.demo.lifecycle import Lifecycle
from bot.demo.owners import Owners
from bot.demo.people import People
from bot.demo.rest import Asked, Fault, Rest
from bot.demo.reviewers import Reviewers
from bot.demo.server import serving
from bot.demo.shapes import Shapes
from bot.demo.shapes_base import DOCUMENTATION
from bot.demo.state import AppCredentials, CheckRun, Comment, Issue, ReviewComment, Token
from bot.demo.webhooks import Delivery, Webhooks
from bot.demo.workflows import Workflows
from bot.demo.world import World

API = "/api/v3"
"""Where Enterprise Server has it; git's addresses then start at the origin."""
BODY_LIMIT = 64 * 1024 * 1024

MANIFEST = {
    "actions": "read",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What the App's manifest asks for, and so what an installation of it may do."""
EVENTS = (
    "check_run",
    "check_suite",
    "delete",
    "issue_comment",
    "issues",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "repository",
    "workflow_run",
)
"""What the App's manifest subscribes to; of its own installations it hears unasked."""


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request as a person would find it now."""

    number: int
    title: str
    body: str
    author: str
    draft: bool
    state: Literal["open", "closed"]
    merged: bool
    base: str
    head_branch: str
    head_sha: str
    head_tree: str
    labels: tuple[str, ...]
    reviewers: tuple[str, ...]


class LocalGitHub(People, Reviewers, Workflows, Lifecycle, Owners):
    """Everything is on loopback and private: only what a live installation token may reach is served, to whomever.

    Use it as an async context manager. It keeps bare repositories under `directory` and everything else in memory.
    Handlers run on the event loop one at a time, so what a method answers is never half changed. What a test or a
    person reads here is the state itself: change it through the methods."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        permissions: Mapping[str, str] = MANIFEST,
    ) -> None:
        self._home = directory.resolve()
        self._clock = clock
        self._stack = contextlib.AsyncExitStack()
        self._door = Door(self, self._look)
        self._world = World(manifests.credentials(app_id=1000, slug="coder-bot-local"), clock, permissions, EVENTS)

    async def __aenter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        # Repositories are named to us by the operator; git would refuse those that belong to another user.
        (self._home / "gitconfig").write_text("[safe]\n\tdirectory = *\n[gc]\n\tauto = 0\n", encoding="utf-8")
        async with contextlib.AsyncExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            self._origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            shapes = Shapes(world=self._world, origin=self._origin, api_url=self.api_url)
            self._webhooks = Webhooks(self._world, shapes)
            self._rest = Rest(self._world, shapes, self._webhooks, contract.github())
            await stack.enter_async_context(serving(self._serve, listener))
            await stack.enter_async_context(self._webhooks.sending())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, exc, trace)

    @property
    def app(self) -> AppCredentials:
        return self._world.app

    @property
    def api_url(self) -> str:
        return self._origin + API

    @property
    def door_url(self) -> str:
        """Where a person acts from another process: see docs/local-github.md. It is a secret."""
        return f"{self._origin}{door.PATH}{self._door.secret}"

    @property
    def webhook_url(self) -> str | None:
        """Where deliveries go; None, as at first: they are written down as not sent."""
        return self._webhooks.url

    @webhook_url.setter
    def webhook_url(self, url: str | None) -> None:
        self._webhooks.url = url

    # What a person does.

    def fail(
        self,
        operation: str,
        status: int,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        times: int = 1,
        *,
        accepted: bool = False,
    ) -> None:
        """The next calls of that operation are answered so, whatever they ask. A body that is a text is sent as a
        page; None is GitHub's usual error. `accepted`: what was asked for happens, and its answer is lost."""
        said = {"message": "", "documentation_url": DOCUMENTATION} if body is None else body
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        fault = Fault(answer=Answer(status=status, body=said, headers=lowered), accepted=accepted)
        self._rest.faults.setdefault(operation, deque()).extend([fault] * times)

    def trouble(self, operation: str, status: int, message: str = "", *, times: int = 1, **headers: str) -> None:
        """The same with a message; `_` in a header's name is a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.fail(operation, status, {"message": message, "documentation_url": DOCUMENTATION}, named, times)

    def limit_primary(self, remaining: int = 0, reset_in_s: float = 900) -> None:
        """So many calls are left to every installation, until then."""
        self._rest.limits.primary(remaining, reset_in_s)

    def limit_content(self, per_minute: int = 80, per_hour: int = 500, *, retry_after_s: int | None = None) -> None:
        """From now on an installation may write no more issues, pull requests, comments and reactions than that. As
        on GitHub, the refusal seldom says when to come back."""
        self._rest.limits.content(per_minute, per_hour, retry_after_s)

    async def redeliver(self, guid: str) -> Delivery:
        """Sends a delivery once more, under the same id."""
        return await self._webhooks.finished(self._webhooks.redeliver(guid))

    async def settled(self) -> None:
        """Returns once every webhook that is due was tried."""
        await self._webhooks.settled()

    # What a person, or a test, sees.

    def give_short_tokens(self) -> None:
        """From now on tokens are of the former kind: `ghs_` and 36 letters and digits, as on older servers."""
        self._world.gives_short_tokens = True

    def on_git(self, call: Callable[[str], Awaitable[None]] | None) -> None:
        """Awaited before each answer to git, with the path it asks for; None: no longer."""
        self._world.on_git = call

    @property
    def deliveries(self) -> list[Delivery]:
        """In the order in which they were due; the newest 10,000."""
        return list(self._webhooks.log)

    @property
    def requests(self) -> deque[Logged]:
        """The newest calls of the REST API."""
        return self._rest.calls

    @property
    def violations(self) -> list[str]:
        """What broke GitHub's own description of its API, by either side. Tests assert that there is nothing."""
        return self._rest.violations

    @property
    def tokens(self) -> list[Token]:
        """Every installation token there ever was."""
        return self._world.tokens

    def issue(self, full_name: str, number: int) -> Issue:
        return self._repository(full_name).issues[number]

    def issue_comments(self, full_name: str, number: int) -> list[Comment]:
        """The conversation of an issue or a pull request."""
        return self.issue(full_name, number).comments

    def reactions(self, comment_id: int) -> list[str]:
        """What a comment was given: `eyes`, `+1` …"""
        for repository in self._world.repositories.values():
            if found := repository.comment(comment_id) or repository.review_comment(comment_id):
                return [reaction.content for reaction in found[1].reactions]
        raise KeyError(comment_id)

    def pull_requests(self, full_name: str) -> list[PullRequest]:
        """Open and closed ones, oldest first."""
        repository = self._repository(full_name)
        return [
            PullRequest(
                number=issue.number,
                title=issue.title,
                body=issue.body or "",
                author=issue.author,
                draft=pull.draft,
                state=issue.state,
                merged=pull.merged_at is not None,
                base=pull.base,
                head_branch=pull.head_branch,
                head_sha=pull.head_sha,
                head_tree=repository.bare.commit(pull.head_sha).tree,
                labels=tuple(issue.labels),
                reviewers=tuple(pull.reviewers),
            )
            for issue, pull in repository.pulls()
        ]

    def check_runs(self, full_name: str, sha: str) -> list[CheckRun]:
        """What was reported of a commit, oldest first."""
        return [run for run in self._repository(full_name).checks.values() if run.head_sha == sha]

    def branches(self, full_name: str) -> dict[str, str]:
        """Each branch's commit."""
        return self._repository(full_name).bare.branches()

    def path(self, full_name: str) -> Path:
        """The bare repository, for git."""
        return self._repository(full_name).bare.path

    def file(self, full_name: str, ref: str, path: str) -> bytes | None:
        """A file as a branch, a tag or a commit has it (of a link, where it leads), or None."""
        repository = self._repository(full_name)
        commit = repository.bare.resolve(ref)
        entry = repository.bare.entry(commit, path) if commit is not None else None
        return repository.bare.blob(entry.sha) if entry is not None and entry.type == "blob" else None

    def _look(self, full_name: str) -> Mapping[str, Any]:
        """What a person would find on a repository's pages."""
        pulls = {pull.number: asdict(pull) for pull in self.pull_requests(full_name)}
        issues = []
        for issue in self._repository(full_name).issues.values():
            seen: dict[str, Any] = {name: getattr(issue, name) for name in ("number", "title", "state", "labels")}
            seen["comments"] = [_said(comment) for comment in issue.comments]
            if issue.number in pulls:
                seen["pull_request"] = pulls[issue.number]
                seen["threads"] = [
                    {
                        "path": thread.path,
                        "line": thread.line,
                        "outdated": thread.outdated,
                        "comments": [_said(comment) for comment in thread.comments],
                    }
                    for thread in self.threads(full_name, issue.number)
                ]
            issues.append(seen)
        return {"branches": self.branches(full_name), "issues": issues}

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        request = Request(scope, receive)
        path = scope["raw_path"].decode("latin-1")
        if path.startswith(door.PATH):
            page = await self._door.answer(request)
            await page(scope, receive, send)
            return
        if path.startswith(job_logs.PATH):
            await job_logs.answer(self._world, request)(scope, receive, send)
            return
        if manifests.PAGE.fullmatch(path):
            known = self._door.is_known(request)
            form = await manifests.take(self._world, request) if known else Response("Sign in first.", 401)
            await form(scope, receive, send)
            return
        if not path.startswith(f"{API}/"):
            await git_http.serve(self._world, self._home, request, send)
            return
        content = bytearray()
        async for chunk in request.stream():
            content += chunk
            if len(content) > BODY_LIMIT:
                await Response(status_code=413)(scope, receive, send)
                return
        answer = self._rest.answer(
            Asked(
                method=request.method,
                path=path.removeprefix(API),
                query=scope["query_string"].decode("latin-1"),
                authorization=request.headers.get("authorization", ""),
                content=bytes(content),
                if_none_match=request.headers.get("if-none-match", ""),
            )
        )
        if isinstance(answer.body, str):
            body, kind = answer.body.encode(), "text/html; charset=utf-8"
        else:
            body, kind = json.dumps(answer.body).encode(), "application/json; charset=utf-8"
        if answer.body is None:
            await Response(b"", answer.status, dict(answer.headers))(scope, receive, send)
            return
        headers = {"content-type": kind, **answer.headers}
        await Response(body, answer.status, headers)(scope, receive, send)


def _said(comment: Comment | ReviewComment) -> Mapping[str, Any]:
    return {"id": comment.id, "author": comment.author, "body": comment.body}
