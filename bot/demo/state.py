"""What a GitHub remembers: people, repositories, issues, pull requests, tokens. Values and rules, no HTTP."""

from __future__ import annotations

import itertools
import secrets
import string
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from bot.demo.bare import Bare

AccountType = Literal["User", "Organization", "Bot"]
Permission = Literal["admin", "maintain", "write", "triage", "read", "none"]
State = Literal["open", "closed"]

TOKEN_LIFETIME = timedelta(hours=1)
LEVELS = ("read", "write", "admin")
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


@dataclass(frozen=True, kw_only=True)
class AppCredentials:
    """The App that is installed everywhere here; key and secret are made anew each time and never stored."""

    app_id: int
    slug: str
    private_key: str = field(repr=False)
    public_key: str = field(repr=False)
    webhook_secret: str = field(repr=False)

    @property
    def login(self) -> str:
        """The App's own account, as it signs comments and pull requests."""
        return f"{self.slug}[bot]"


@dataclass(frozen=True, kw_only=True)
class Account:
    id: int
    login: str
    type: AccountType


@dataclass(frozen=True, kw_only=True)
class Reaction:
    id: int
    login: str
    content: str
    created_at: datetime


@dataclass(kw_only=True)
class Comment:
    """One comment; `edited` counts how often its body was replaced."""

    id: int
    author: str
    body: str
    created_at: datetime
    updated_at: datetime
    edited: int = 0
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(kw_only=True)
class Pull:
    """What makes an issue a pull request. `head_sha` stands still once it is closed."""

    head_branch: str
    head_sha: str
    base: str
    base_sha: str
    draft: bool
    reviewers: list[str] = field(default_factory=list)
    merge_sha: str | None = None
    merged_at: datetime | None = None
    merged_by: str | None = None


@dataclass(kw_only=True)
class Issue:
    id: int
    number: int
    title: str
    body: str | None
    author: str
    created_at: datetime
    updated_at: datetime
    state: State = "open"
    closed_at: datetime | None = None
    locked: bool = False
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    pull: Pull | None = None


@dataclass(kw_only=True)
class CheckRun:
    """A check run; what the App said of it is kept as it came. Annotations are only ever added to."""

    id: int
    name: str
    head_sha: str
    started_at: datetime
    status: str = "queued"
    conclusion: str | None = None
    completed_at: str | None = None
    details_url: str | None = None
    external_id: str | None = None
    output: dict[str, str] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True)
class Repository:
    id: int
    owner: str
    name: str
    default_branch: str
    private: bool
    created_at: datetime
    installation_id: int
    bare: Bare
    archived: bool = False
    has_issues: bool = True
    protected: str | None = None
    """A pattern of branches that only people may make or move, by a rule of the repository."""
    issues: dict[int, Issue] = field(default_factory=dict)
    checks: dict[int, CheckRun] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    grants: dict[str, Permission] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def comment(self, comment_id: int) -> tuple[Issue, Comment] | None:
        for issue in self.issues.values():
            for comment in issue.comments:
                if comment.id == comment_id:
                    return issue, comment
        return None

    def pulls(self) -> list[tuple[Issue, Pull]]:
        """Every pull request, each open one with the head its branch has now."""
        found = [(issue, issue.pull) for issue in self.issues.values() if issue.pull is not None]
        for issue, pull in found:
            if issue.state == "open":
                pull.head_sha = self.bare.ref(f"refs/heads/{pull.head_branch}") or pull.head_sha
        return found


@dataclass(kw_only=True)
class Token:
    """An installation token; `repositories` None means all of the installation's."""

    value: str = field(repr=False)
    installation_id: int
    permissions: dict[str, str]
    repositories: tuple[str, ...] | None
    expires_at: datetime
    revoked: bool = False
    used_by_git: bool = False

    def allows(self, permission: str, level: str) -> bool:
        """Reading what is public about a repository is always in."""
        held = self.permissions.get(permission) or ("read" if permission == "metadata" else None)
        return held is not None and LEVELS.index(held) >= LEVELS.index(level)

    def reaches(self, repository: Repository) -> bool:
        if repository.installation_id != self.installation_id:
            return False
        return self.repositories is None or repository.full_name in self.repositories


class World:
    """Everything there is. One App, installed once for each owner of a repository."""

    def __init__(self, app: AppCredentials, clock: Callable[[], datetime], permissions: Mapping[str, str]) -> None:
        self.app = app
        self.clock = clock
        self.permissions = dict(permissions)
        self.events = ["issue_comment", "issues", "pull_request"]
        self.created_at = clock()
        self.accounts: dict[str, Account] = {}
        self.installations: dict[int, str] = {}
        self.repositories: dict[str, Repository] = {}
        self.tokens: list[Token] = []
        self.gives_short_tokens = False
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
                written: list[Issue | Comment] = [issue, *issue.comments]
                for item in written:
                    item.author = new if item.author == login else item.author

    def installation(self, owner: str) -> int:
        """The App's installation with that owner, made when it is first asked for."""
        for number, account in self.installations.items():
            if account == owner:
                return number
        number = self.next_id()
        self.installations[number] = owner
        return number

    def mint(self, installation_id: int, permissions: dict[str, str], repositories: tuple[str, ...] | None) -> Token:
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
            number=len(repository.issues) + 1,
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

    def permission(self, repository: Repository, login: str) -> Permission | None:
        """What somebody may do there; None where GitHub knows nobody by that name."""
        if login in repository.grants:
            return repository.grants[login]
        if login == repository.owner:
            return "admin"
        if login not in self.accounts or self.accounts[login].type == "Bot":
            return None
        return "none" if repository.private else "read"
