"""A GitHub on this machine: its REST calls, git over HTTP and webhooks, and what a person would do on its pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import uvicorn
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from bot.demo import bare, contract, git_http
from bot.demo.bare import Signature, TreeChange
from bot.demo.rest import Answer, Logged, Rest
from bot.demo.shapes import Shapes
from bot.demo.state import AppCredentials, CheckRun, Comment, Issue, Permission, Pull, Repository, Token, World
from bot.demo.webhooks import Delivery, Webhooks
from bot.domain.errors import UserError

API = "/api/v3"
"""Where Enterprise Server has it; git's addresses then start at the origin."""
START_S = 20.0
STOP_S = 10
BODY_LIMIT = 64 * 1024 * 1024

MANIFEST = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What the App's manifest asks for, and so what an installation of it may do."""

_NAME = re.compile(r"[A-Za-z0-9-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+")
_CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b", re.IGNORECASE)


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


class LocalGitHub:
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
        self._world = World(_credentials(), clock, permissions)

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
    def webhook_url(self) -> str | None:
        """Where deliveries go; None, as at first: they are written down as not sent."""
        return self._webhooks.url

    @webhook_url.setter
    def webhook_url(self, url: str | None) -> None:
        self._webhooks.url = url

    # What a person does.

    async def create_repository(
        self, full_name: str, source: Path | Mapping[str, bytes], *, private: bool = True
    ) -> Repository:
        """A repository with what a local one has checked out (its last commit and the history behind it; it is only
        read), or with one commit of these files. The App is installed on it."""
        if not _NAME.fullmatch(full_name):
            raise UserError(
                f"{full_name} can't be a repository's name: letters, digits, `-`, `_` and `.` can be in it."
            )
        owner, name = full_name.split("/")
        directory = self._home / owner / f"{name}.git"
        if isinstance(source, Path):
            made = await bare.fetch_head(source, directory, self._home)
        else:
            who = Signature(name=owner, email=f"{owner}@users.noreply.localhost", date=self._clock())
            made = bare.from_files(source, directory, self._home, who)
        (branch,) = made.branches()
        self._world.account(owner, "Organization")
        repository = Repository(
            id=self._world.next_id(),
            owner=owner,
            name=name,
            default_branch=branch,
            private=private,
            created_at=self._clock(),
            installation_id=self._world.installation(owner),
            bare=made,
        )
        self._world.repositories[full_name] = repository
        return repository

    def grant(self, full_name: str, login: str, permission: Permission) -> None:
        """From now on that is what somebody may do there."""
        self._world.account(login)
        self._repository(full_name).grants[login] = permission

    def permit(self, permission: str, level: str) -> None:
        """The App is given one more permission, and whoever has installed it accepts that."""
        self._world.permissions[permission] = level

    def forbid(self, permission: str) -> None:
        """The App has that permission no longer, or nobody has accepted it yet."""
        del self._world.permissions[permission]

    def open_issue(self, full_name: str, *, title: str, body: str | None = None, author: str) -> Issue:
        return self._world.open_issue(self._repository(full_name), title=title, body=body, author=author)

    async def comment(self, full_name: str, number: int, body: str, *, author: str) -> Delivery:
        """Comments on an issue or a pull request; returns when the webhook was answered, or could not be sent."""
        repository = self._repository(full_name)
        issue = repository.issues[number]
        comment = self._world.add_comment(issue, body=body, author=author)
        return await self._webhooks.finished(self._webhooks.commented(repository, issue, comment, author))

    async def edit_comment(self, full_name: str, comment_id: int, body: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        found = repository.comment(comment_id)
        assert found is not None, "a comment that is there"
        issue, comment = found
        before = comment.body
        self._world.edit_comment(comment, body)
        return await self._webhooks.finished(
            self._webhooks.commented(repository, issue, comment, author, before=before)
        )

    async def delete_comment(self, full_name: str, comment_id: int, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        found = repository.comment(comment_id)
        assert found is not None, "a comment that is there"
        issue, comment = found
        issue.comments.remove(comment)
        return await self._webhooks.finished(self._webhooks.deleted(repository, issue, comment, author))

    async def label(self, full_name: str, number: int, label: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        issue = repository.issues[number]
        issue.labels.append(label)
        issue.updated_at = self._clock()
        return await self._webhooks.finished(self._webhooks.labeled("labeled", repository, issue, label, author))

    async def unlabel(self, full_name: str, number: int, label: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        issue = repository.issues[number]
        issue.labels.remove(label)
        issue.updated_at = self._clock()
        return await self._webhooks.finished(self._webhooks.labeled("unlabeled", repository, issue, label, author))

    async def assign(self, full_name: str, number: int, assignee: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        issue = repository.issues[number]
        issue.assignees.append(assignee)
        issue.updated_at = self._clock()
        return await self._webhooks.finished(self._webhooks.assigned(repository, issue, assignee, author))

    def lock(self, full_name: str, number: int) -> None:
        """From now on nobody can comment there."""
        self._repository(full_name).issues[number].locked = True

    def archive(self, full_name: str) -> None:
        """From now on nobody can write anything there."""
        self._repository(full_name).archived = True

    def switch_issues_off(self, full_name: str) -> None:
        self._repository(full_name).has_issues = False

    def rename(self, login: str, new: str) -> None:
        """Somebody takes another name; theirs is free for anybody then."""
        self._world.rename(login, new)

    def trouble(self, operation: str, status: int, message: str = "", *, times: int = 1, **headers: str) -> None:
        """The next calls of that operation are answered so, whatever they ask; `_` in a header's name is a hyphen."""
        answer = Answer(
            status=status,
            body={"message": message, "documentation_url": "https://docs.github.com/rest"},
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )
        self._rest.trouble.setdefault(operation, deque()).extend([answer] * times)

    async def close_issue(self, full_name: str, number: int, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        self._world.close(repository.issues[number])
        return await self._webhooks.finished(self._webhooks.closed(repository, repository.issues[number], author))

    async def close_pull(self, full_name: str, number: int, *, author: str) -> Delivery:
        """Closes a pull request without merging it."""
        self._pull(full_name, number)
        return await self.close_issue(full_name, number, author=author)

    async def merge_pull(self, full_name: str, number: int, *, author: str) -> Delivery:
        """Merges as the green button does, which also closes the issues that the body says it closes."""
        repository = self._repository(full_name)
        issue, pull = self._pull(full_name, number)
        base = repository.bare.ref(f"refs/heads/{pull.base}")
        assert base is not None, "the base branch is there"
        tree = repository.bare.merge_tree(base, pull.head_sha)
        assert tree is not None, "a pull request that merges"
        who = Signature(name=author, email=f"{author}@users.noreply.localhost", date=self._clock())
        message = f"Merge pull request #{number} from {repository.owner}/{pull.head_branch}\n\n{issue.title}"
        merged = repository.bare.write_commit(message, tree, [base, pull.head_sha], who, who)
        moved = repository.bare.move(f"refs/heads/{pull.base}", merged.sha, base)
        assert moved, "nobody else moves the base meanwhile"
        pull.merge_sha, pull.merged_at, pull.merged_by = merged.sha, self._clock(), self._world.account(author).login
        self._world.close(issue)
        delivery = self._webhooks.closed(repository, issue, author)
        for named in _CLOSES.findall(issue.body or "") if pull.base == repository.default_branch else ():
            fixed = repository.issues.get(int(named))
            if fixed is not None and fixed.state == "open":
                self._world.close(fixed)
                self._webhooks.closed(repository, fixed, author)
        return await self._webhooks.finished(delivery)

    async def create_branch(self, full_name: str, branch: str, sha: str) -> None:
        """A person's push of a new branch."""
        made = self._repository(full_name).bare.move(f"refs/heads/{branch}", sha, bare.ZERO)
        assert made, "a name that is free and a commit that is there"

    async def commit(self, full_name: str, branch: str, files: Mapping[str, bytes], *, author: str) -> str:
        """A person's push of one commit that writes these files, to a branch or to a new one of the default branch's
        head."""
        repository = self._repository(full_name)
        held, ref = repository.bare, f"refs/heads/{branch}"
        head = held.ref(ref)
        parent = head or held.ref(f"refs/heads/{repository.default_branch}")
        assert parent is not None, "a repository with a commit"
        changes = [TreeChange(path=path, mode="100644", sha=held.write_blob(data)) for path, data in files.items()]
        who = Signature(name=author, email=f"{author}@users.noreply.localhost", date=self._clock())
        made = held.write_commit("Change files", held.write_tree(parent, changes), [parent], who, who)
        moved = held.move(ref, made.sha, head or bare.ZERO)
        assert moved, "nobody else moves the branch meanwhile"
        for delivery in self._webhooks.pushed(repository, ref, parent, author):
            await self._webhooks.finished(delivery)
        return made.sha

    def protect(self, full_name: str, pattern: str) -> None:
        """From now on a rule of the repository keeps the App from making or moving the branches that fit."""
        self._repository(full_name).protected = pattern

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
            if found := repository.comment(comment_id):
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

    def _repository(self, full_name: str) -> Repository:
        return self._world.repositories[full_name]

    def _pull(self, full_name: str, number: int) -> tuple[Issue, Pull]:
        return next(found for found in self._repository(full_name).pulls() if found[0].number == number)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        request = Request(scope, receive)
        path = scope["raw_path"].decode("latin-1")
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
            request.method,
            path.removeprefix(API),
            scope["query_string"].decode("latin-1"),
            request.headers.get("authorization", ""),
            bytes(content),
        )
        body = b"" if answer.body is None else json.dumps(answer.body).encode()
        headers = {**answer.headers, "Content-Type": "application/json; charset=utf-8"}
        await Response(body, answer.status, headers if body else answer.headers)(scope, receive, send)


def _credentials() -> AppCredentials:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return AppCredentials(
        app_id=1000,
        slug="coder-bot-local",
        private_key=private.decode(),
        public_key=public.decode(),
        webhook_secret=secrets.token_hex(32),
    )


class _Server(uvicorn.Server):
    """Leaves the process's signals alone: they belong to the program this runs in."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: Callable[[Scope, Receive, Send], object], listener: socket.socket) -> AsyncIterator[None]:
    """Serves an app in this process, on a socket that listens, until the block ends."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        interface="asgi3",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(START_S):
            await server.ready.wait()
        yield
    finally:
        server.should_exit = True
        await running
