"""What GitHub said, as values: the shapes that come out of a webhook once strangers' JSON has been read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository as one event named it; `id` survives renames, the names do not."""

    id: int
    owner: str
    name: str
    default_branch: str
    clone_url: str
    archived: bool = False
    """Nobody can write there, not even a comment."""
    has_issues: bool = True

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who did it. `id` is GitHub's numeric id; a login can be renamed and taken by somebody else."""

    id: int
    login: str
    is_bot: bool


@dataclass(frozen=True, kw_only=True)
class Commented:
    """A new comment in the conversation of an issue or a pull request."""

    installation_id: int
    repository: Repository
    number: int
    is_pull_request: bool
    title: str
    body: str
    author: Person
    is_open: bool
    is_locked: bool
    comment_id: int
    comment_body: str
    commenter: Person
    created_at: datetime
    via_app: int | None = None
    """The App through which the comment was written, if any, whoever its author is."""
    kind: Literal["commented"] = "commented"

    @property
    def actor(self) -> Person:
        return self.commenter

    @property
    def subject(self) -> str:
        """What it is about, whatever the delivery; GitHub numbers comments over all repositories."""
        return f"comment {self.comment_id}"


NO_COMMENT = 0
"""The comment's id where an episode was started by no comment; GitHub counts from 1."""


@dataclass(frozen=True, kw_only=True)
class Marked:
    """An issue was given a label, or was assigned to somebody; one of `label` and `assignee` is there. Title and body
    are as they were then, and `actor` is who did it."""

    installation_id: int
    repository: Repository
    number: int
    title: str
    body: str
    author: Person
    is_open: bool
    is_locked: bool
    label: str | None
    assignee: Person | None
    actor: Person
    created_at: datetime
    kind: Literal["marked"] = "marked"

    @property
    def is_pull_request(self) -> bool:
        return False

    @property
    def comment_id(self) -> int:
        return NO_COMMENT

    @property
    def subject(self) -> str:
        """As a comment's. The same label given again is something new, but for the same person in the same second:
        GitHub counts in those."""
        what = f"label {self.label}" if self.assignee is None else f"assignee {self.assignee.id}"
        return f"{self.repository.id}#{self.number} {self.created_at.isoformat()} {what} by {self.actor.id}"


@dataclass(frozen=True, kw_only=True)
class Reviewed:
    """Somebody has reviewed a pull request, or written a comment to a line of it, which GitHub makes a review of its
    own. What is in the review is to be asked of GitHub: each of its comments is told of apart, in any order."""

    installation_id: int
    repository: Repository
    number: int
    title: str
    body: str
    author: Person
    is_open: bool
    is_locked: bool
    review_id: int
    actor: Person
    created_at: datetime
    kind: Literal["reviewed"] = "reviewed"

    @property
    def is_pull_request(self) -> bool:
        return True

    @property
    def comment_id(self) -> int:
        return NO_COMMENT

    @property
    def subject(self) -> str:
        """One for all that GitHub tells of a review."""
        return f"{self.repository.id} review {self.review_id}"


@dataclass(frozen=True, kw_only=True)
class ChecksEnded:
    """A program has finished its checks of a commit, well or not."""

    installation_id: int
    repository: Repository
    head_sha: str
    app_id: int | None
    kind: Literal["checks_ended"] = "checks_ended"


@dataclass(frozen=True, kw_only=True)
class Renamed:
    """A repository has another name or owner now. Every event tells the names, so nothing else is to be done."""

    installation_id: int
    repository: Repository
    kind: Literal["renamed"] = "renamed"


@dataclass(frozen=True, kw_only=True)
class Closed:
    """An issue or a pull request was closed (`merged` only ever for a pull request); `reason` is why it is over where
    it was deleted or has moved away."""

    installation_id: int
    repository: Repository
    number: int
    is_pull_request: bool
    merged: bool
    actor: Person
    reason: str | None = None
    kind: Literal["closed"] = "closed"


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """Somebody has moved the branch of a pull request."""

    installation_id: int
    repository: Repository
    number: int
    actor: Person
    kind: Literal["pushed"] = "pushed"


@dataclass(frozen=True, kw_only=True)
class Uninstalled:
    """Nothing can be done any more in these repositories, or in all of the installation where there are no ids."""

    installation_id: int
    repository_ids: tuple[int, ...] | None
    reason: str = "uninstalled"
    kind: Literal["uninstalled"] = "uninstalled"


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """An event nothing is done about, with the reason kept for the operator."""

    reason: str
    kind: Literal["ignored"] = "ignored"


Event = Commented | Marked | Reviewed | ChecksEnded | Renamed | Closed | Pushed | Uninstalled | Ignored

Trigger = Commented | Marked | Reviewed
"""What may start something, if whoever did it may."""
