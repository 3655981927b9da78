"""Everything that a GitHub remembers, and the rules by which it changes. No HTTP."""

from __future__ import annotations

import itertools
import secrets
import string
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.demo.state import (
    Account,
    AccountType,
    AppCredentials,
    CheckSuite,
    Comment,
    Installation,
    Issue,
    Permission,
    Pull,
    Repository,
    Review,
    ReviewComment,
    Token,
    WorkflowRun,
)

TOKEN_LIFETIME = timedelta(hours=1)


class World:
    """Everything there is. One App, installed once for each owner of a repository."""

    def __init__(
        self,
        app: AppCredentials,
        clock: Callable[[], datetime],
        permissions: Mapping[str, str],
        events: Sequence[str],
    ) -> None:
        self.app = app
        self.clock = clock
        self.permissions = dict(permissions)
        self.events = list(events)
        self.created_at = clock()
        self.accounts: dict[str, Account] = {}
        self.installations: dict[int, Installation] = {}
        self.repositories: dict[str, Repository] = {}
        self.moved: dict[str, int] = {}
        """The former names of repositories."""
        self.tokens: list[Token] = []
        self.gives_short_tokens = False
        self.manifests: dict[str, tuple[Any, datetime]] = {}
        """By their code, the manifests of Apps that are still to be made, and until when."""
        self.log_links: dict[str, tuple[WorkflowRun, datetime]] = {}
        """By their secret, the logs that can be fetched, and until when."""
        self.on_git: Callable[[str], Awaitable[None]] | None = None
        self._ids: Iterator[int] = itertools.count(1001)

    def next_id(self) -> int:
        """Never the same twice, whatever it is for: ids that are mixed up are then found."""
        return next(self._ids)

    def account(self, login: str, kind: AccountType | None = None) -> Account:
        """Somebody by that name, who is there from the first time they are named."""
        if login not in self.accounts:
            kind = kind or ("Bot" if login.endswith("[bot]") else "User")
            self.accounts[login] = Account(id=self.next_id(), login=login, type=kind)
        return self.accounts[login]

    def rename(self, login: str, new: str) -> None:
        """The account keeps its id and what it may do; its old name is free."""
        self.accounts[new] = replace(self.accounts.pop(login), login=new)
        for repository in self.repositories.values():
            if login in repository.grants:
                repository.grants[new] = repository.grants.pop(login)
            for issue in repository.issues.values():
                reviews = issue.pull.reviews if issue.pull is not None else []
                inline = [comment for review in reviews for comment in review.comments]
                written: list[Issue | Comment | Review | ReviewComment] = [issue, *issue.comments, *reviews, *inline]
                for item in written:
                    item.author = new if item.author == login else item.author

    def installation(self, owner: str) -> Installation:
        """The App's installation with that owner, made when it is first asked for."""
        for installation in self.installations.values():
            if installation.owner == owner:
                return installation
        made = Installation(id=self.next_id(), owner=owner)
        self.installations[made.id] = made
        return made

    def move(self, repository: Repository, owner: str, name: str) -> None:
        """Gives it another name or owner; its former name leads to it."""
        self.moved[repository.full_name] = repository.id
        del self.repositories[repository.full_name]
        repository.owner, repository.name = owner, name
        self.repositories[repository.full_name] = repository
        self.moved.pop(repository.full_name, None)

    def find(self, full_name: str) -> Repository | None:
        """By its name or a former one."""
        if full_name in self.repositories:
            return self.repositories[full_name]
        return self.repository(self.moved[full_name]) if full_name in self.moved else None

    def revoke_all(self, installation: Installation) -> None:
        for token in self.tokens:
            if token.installation_id == installation.id:
                token.revoked = True

    def repository(self, number: int) -> Repository | None:
        return next((known for known in self.repositories.values() if known.id == number), None)

    def mint(self, installation_id: int, permissions: dict[str, str], repositories: tuple[int, ...] | None) -> Token:
        # As long, and of the same letters, as the tokens GitHub gives out now: code that expects 40 of [0-9A-Za-z_]
        # must not pass here.
        parts = (secrets.token_urlsafe(size) for size in (48, 256, 64))
        long = f"{self.app.app_id}_{'.'.join(parts)}"
        short = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(36))
        token = Token(
            value=f"ghs_{short if self.gives_short_tokens else long}",
            installation_id=installation_id,
            permissions=permissions,
            repositories=repositories,
            expires_at=self.clock() + TOKEN_LIFETIME,
        )
        self.tokens.append(token)
        return token

    def live_token(self, value: str) -> Token | None:
        """The token, unless it is unknown, revoked or expired."""
        for token in self.tokens:
            if secrets.compare_digest(token.value.encode(), value.encode()):
                return None if token.revoked or token.expires_at <= self.clock() else token
        return None

    def open_issue(
        self, repository: Repository, *, title: str, body: str | None, author: str, pull: Pull | None = None
    ) -> Issue:
        now = self.clock()
        issue = Issue(
            id=self.next_id(),
            number=len(repository.issues) + len(repository.gone) + 1,
            title=title,
            body=body,
            author=self.account(author).login,
            created_at=now,
            updated_at=now,
            pull=pull,
        )
        repository.issues[issue.number] = issue
        return issue

    def add_comment(self, issue: Issue, *, body: str, author: str) -> Comment:
        now = self.clock()
        comment = Comment(
            id=self.next_id(), author=self.account(author).login, body=body, created_at=now, updated_at=now
        )
        issue.comments.append(comment)
        issue.updated_at = now
        return comment

    def edit_comment(self, comment: Comment, body: str) -> None:
        comment.body = body
        comment.edited += 1
        comment.updated_at = self.clock()

    def close(self, issue: Issue) -> None:
        issue.state = "closed"
        issue.closed_at = issue.updated_at = self.clock()

    def reopen(self, issue: Issue) -> None:
        issue.state, issue.closed_at, issue.updated_at = "open", None, self.clock()

    def open_suite(self, repository: Repository, sha: str, *, ours: bool) -> CheckSuite:
        """The suite for a new check run: our App has one for each commit, every workflow has its own."""
        for suite in repository.suites.values():
            if ours and suite.ours and suite.head_sha == sha:
                return suite
        heads = [branch for branch, head in repository.bare.branches().items() if head == sha]
        suite = CheckSuite(
            id=self.next_id(),
            ours=ours,
            head_sha=sha,
            head_branch=heads[0] if heads else None,
            created_at=self.clock(),
        )
        repository.suites[suite.id] = suite
        return suite

    def permission(self, repository: Repository, login: str) -> Permission | None:
        """What somebody may do there; None where GitHub knows nobody by that name."""
        if login in repository.grants:
            return repository.grants[login]
        if login == repository.owner:
            return "admin"
        if login not in self.accounts or self.accounts[login].type == "Bot":
            return None
        return "none" if repository.private else "read"
