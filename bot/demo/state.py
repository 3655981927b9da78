"""What a GitHub remembers: people, repositories, issues, pull requests, reviews, checks, tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bot.demo.bare import Bare

AccountType = Literal["User", "Organization", "Bot"]
Permission = Literal["admin", "maintain", "write", "triage", "read", "none"]
State = Literal["open", "closed"]
ReviewState = Literal["approved", "changes_requested", "commented"]

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
class ReviewComment:
    """One comment on a line. Path, line and commit are where it was made (of a reply: where its thread was begun);
    `in_reply_to` is the thread's first comment."""

    id: int
    review_id: int
    author: str
    body: str
    path: str
    line: int
    sha: str
    hunk: str
    position: int
    created_at: datetime
    updated_at: datetime
    in_reply_to: int | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(kw_only=True)
class Review:
    id: int
    author: str
    state: ReviewState
    body: str
    sha: str
    submitted_at: datetime
    comments: list[ReviewComment] = field(default_factory=list)


@dataclass(kw_only=True)
class Pull:
    """What makes an issue a pull request. `head_sha` stands still once it is closed."""

    head_branch: str
    head_sha: str
    base: str
    base_sha: str
    draft: bool
    from_fork: bool = False
    reviewers: list[str] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
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
class CheckSuite:
    """The check runs of one App on one commit; of GitHub Actions, those of one workflow. `ours` are our App's."""

    id: int
    ours: bool
    head_sha: str
    head_branch: str | None
    created_at: datetime
    status: str = "queued"
    conclusion: str | None = None


@dataclass(kw_only=True)
class WorkflowRun:
    """A finished run of GitHub Actions, with one job, whose id is its check run's."""

    id: int
    number: int
    suite: CheckSuite
    job: CheckRun
    log: str


@dataclass(kw_only=True)
class CheckRun:
    """A check run; what the App said of it is kept as it came. Annotations are only ever added to."""

    id: int
    suite_id: int
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
    installation_id: int | None
    """None where the App is not installed."""
    bare: Bare
    archived: bool = False
    has_issues: bool = True
    protected: str | None = None
    """A pattern of branches that only people may make or move, by a rule of the repository."""
    issues: dict[int, Issue] = field(default_factory=dict)
    gone: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    """Numbers of issues that are here no longer: transferred to a repository and a number there, or deleted."""
    checks: dict[int, CheckRun] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    workflows: dict[int, WorkflowRun] = field(default_factory=dict)
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

    def review_comment(self, comment_id: int) -> tuple[Issue, ReviewComment] | None:
        for issue, pull in self.pulls():
            for review in pull.reviews:
                for comment in review.comments:
                    if comment.id == comment_id:
                        return issue, comment
        return None

    def suite_of(self, run: CheckRun) -> CheckSuite:
        return self.suites[run.suite_id]

    def pulls(self) -> list[tuple[Issue, Pull]]:
        """Every pull request, each open one with the head its branch has now."""
        found = [(issue, issue.pull) for issue in self.issues.values() if issue.pull is not None]
        heads = self.bare.branches() if found else {}
        for issue, pull in found:
            if issue.state == "open":
                pull.head_sha = heads.get(pull.head_branch, pull.head_sha)
        return found


@dataclass(kw_only=True)
class Installation:
    """The App on somebody's account, for all of its repositories."""

    id: int
    owner: str
    suspended_at: datetime | None = None


@dataclass(kw_only=True)
class Token:
    """An installation token; `repositories`, by their ids, None means all of the installation's."""

    value: str = field(repr=False)
    installation_id: int
    permissions: dict[str, str]
    repositories: tuple[int, ...] | None
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
        return self.repositories is None or repository.id in self.repositories
