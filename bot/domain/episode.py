"""One run from an instruction to its outcome, and the codes an outcome can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

Outcome = Literal["succeeded", "failed", "blocked", "cancelled"]
EpisodeKind = Literal["fix", "ask", "plan"]


class Code(StrEnum):
    """Why an episode ended. The outcome follows from the code."""

    VERIFIED = "VERIFIED"
    NO_CHANGE = "NO_CHANGE"
    ANSWERED = "ANSWERED"
    CHECKS_FAILED = "CHECKS_FAILED"
    UNVERIFIED = "UNVERIFIED"
    NO_PROGRESS = "NO_PROGRESS"
    MODEL_UNUSABLE = "MODEL_UNUSABLE"
    SETUP_FAILED = "SETUP_FAILED"
    CLONE_FAILED = "CLONE_FAILED"
    SANDBOX_LOST = "SANDBOX_LOST"
    CONFIG_INVALID = "CONFIG_INVALID"
    WRITE_REFUSED = "WRITE_REFUSED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    POLICY_REFUSED = "POLICY_REFUSED"
    STOPPED = "STOPPED"
    ISSUE_CLOSED = "ISSUE_CLOSED"
    UNINSTALLED = "UNINSTALLED"

    @property
    def outcome(self) -> Outcome:
        if self in _SUCCEEDED:
            return "succeeded"
        if self in _BLOCKED:
            return "blocked"
        return "cancelled" if self in _CANCELLED else "failed"


_SUCCEEDED = frozenset({Code.VERIFIED, Code.NO_CHANGE, Code.ANSWERED})
_BLOCKED = frozenset({Code.PERMISSION_DENIED, Code.BUDGET_EXCEEDED, Code.LIMIT_EXCEEDED, Code.POLICY_REFUSED})
_CANCELLED = frozenset({Code.STOPPED, Code.ISSUE_CLOSED, Code.UNINSTALLED})


@dataclass(frozen=True, kw_only=True)
class Thread:
    """An inline comment that an episode has to answer, as it stood when the review was read. `line` is None where
    the code has changed since; `root_id` is the comment that its thread begins with."""

    comment_id: int
    root_id: int
    path: str
    line: int | None
    hunk: str
    text: str
    author: str


@dataclass(frozen=True, kw_only=True)
class Episode:
    """`config_text` is the repository's config as it stood on the default branch at `config_sha`: every stage of the
    episode reads this copy, so that nobody can change the rules while it runs."""

    id: str
    task_id: str
    number: int
    kind: EpisodeKind
    instruction: str
    requester: str
    comment_id: int
    created_at: datetime
    config_sha: str
    config_text: str | None
    attempts: int = 0
    """Candidates that verification has judged."""
    feedback: str | None = None
    """What the model is told before its next step; saved with that step."""
    finishing: bool = False
    """Somebody said `/coder finish`: the loop ends with what is there."""
    title: str = ""
    summary: str = ""
    code: Code | None = None
    detail: str = ""
    shown_tree: str | None = None
    """The verified tree whose diff waits for somebody's word on the issue, since `shown_at` by GitHub's clock."""
    shown_at: datetime | None = None
    approved_tree: str | None = None
    """The tree that `approved_by` has said may be published: that one, and no later one."""
    approved_by: str | None = None
    review_id: int | None = None
    """The review that asked for it."""
    threads: tuple[Thread, ...] = ()
    """What it has to answer in the threads of that review."""
    replies: Mapping[str, str] = field(default_factory=dict)
    """What the model says in them, by the thread's place from 1."""
    published: str | None = None
    """The commit that it has published, None where that was there before."""
    answered: bool = False
    """The threads have got their answers."""
    repairs: str | None = None
    """The commit whose failing CI it was started for, by nobody's command."""
