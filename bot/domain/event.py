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
    kind: Literal["commented"] = "commented"


@dataclass(frozen=True, kw_only=True)
class Closed:
    """An issue or a pull request was closed (`merged` only ever for a pull request)."""

    installation_id: int
    repository: Repository
    number: int
    is_pull_request: bool
    merged: bool
    actor: Person
    kind: Literal["closed"] = "closed"


@dataclass(frozen=True, kw_only=True)
class Uninstalled:
    """The App lost repositories: these ids, or every one of the installation when it is None."""

    installation_id: int
    repository_ids: tuple[int, ...] | None
    kind: Literal["uninstalled"] = "uninstalled"


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """An event nothing is done about, with the reason kept for the operator."""

    reason: str
    kind: Literal["ignored"] = "ignored"


Event = Commented | Closed | Uninstalled | Ignored
