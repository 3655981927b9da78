"""Proves that a delivery comes from GitHub, and reads strangers' JSON into our events; pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from bot.domain.cuts import beginning
from bot.domain.errors import UserError
from bot.domain.event import (
    ChecksEnded,
    Closed,
    Commented,
    Event,
    Ignored,
    Marked,
    Person,
    Pushed,
    Renamed,
    Repository,
    Reviewed,
    Uninstalled,
)

TITLE_LIMIT = 512
"""Characters kept of a title; GitHub allows 256 today."""

GHOST = Person(id=10137, login="ghost", is_bot=False)
"""Who GitHub shows in place of a deleted account."""


class Malformed(UserError):
    """The body is not what GitHub sends for that event."""


def verify(secret: str, body: bytes, signature: str | None) -> bool:
    """Whether `X-Hub-Signature-256` was made over exactly these bytes with this secret. Whatever the header holds,
    this answers and never raises; an empty secret proves nothing, so with one nobody is let in."""
    if not secret or signature is None or not signature.isascii():
        return False
    # A secret from the environment that is not UTF-8 arrives escaped; this gives back the bytes that were set.
    digest = hmac.new(secret.encode("utf-8", "surrogateescape"), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"sha256={digest}".encode(), signature.encode())


def parse(event: str, body: bytes) -> Event:
    """What a proved delivery says. Events and actions we have no use for are `Ignored`, and so are those we can't act
    on; a body that is no JSON object, or a known event of the wrong shape, raises `Malformed`."""
    delivery = _read(_Delivery, event, body)
    action = delivery.action.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(delivery.action, str) else ""
    reader = _READERS.get((event, action))
    if reader is None:
        return Ignored(reason=f"{event}.{action[:TITLE_LIMIT]} is not used" if action else f"{event} is not used")
    if delivery.installation is None:
        return Ignored(reason=f"{event} names no installation: it comes from a webhook that is not the App's")
    return reader(event, body)


Id = Annotated[int, Field(ge=1, lt=2**63)]
"""GitHub's numbers fit the databases' integers; a larger one is no number of GitHub's."""

Text = Annotated[str, AfterValidator(lambda text: text.replace("\0", "\N{REPLACEMENT CHARACTER}"))]
"""A NUL is not text: Postgres refuses it."""


class _Payload(BaseModel):
    """Takes what we need and no more: old servers and new fields must not break us."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, hide_input_in_errors=True)


P = TypeVar("P", bound=_Payload)


class _Delivery(_Payload):
    """What every payload may hold, of whatever type: what isn't used must not be judged."""

    action: object = None
    installation: object = None


class _User(_Payload):
    id: Id
    login: Text
    type: str = "User"

    def person(self) -> Person:
        return Person(id=self.id, login=self.login, is_bot=self.type == "Bot")


class _Owner(_Payload):
    login: Text


class _Repository(_Payload):
    id: Id
    name: Text
    owner: _Owner
    default_branch: Text
    clone_url: Text
    archived: bool = False
    has_issues: bool = True

    def value(self) -> Repository:
        return Repository(
            id=self.id,
            owner=self.owner.login,
            name=self.name,
            default_branch=self.default_branch,
            clone_url=self.clone_url,
            archived=self.archived,
            has_issues=self.has_issues,
        )


class _Issue(_Payload):
    number: Id
    title: Text
    body: Text | None = None
    user: _User | None = None
    state: str
    locked: bool = False
    pull_request: dict[str, object] | None = None


class _Numbered(_Payload):
    """Something of which only the number counts: an installation, a repository, an App."""

    id: Id


class _Comment(_Payload):
    id: Id
    body: Text | None = None
    user: _User | None = None
    created_at: AwareDatetime
    performed_via_github_app: _Numbered | None = None


class _MarkedIssue(_Issue):
    updated_at: AwareDatetime


class _Label(_Payload):
    name: Text


class _ClosedIssue(_Payload):
    number: Id


class _ClosedPullRequest(_ClosedIssue):
    merged: bool | None = None


class _ReviewedPullRequest(_Payload):
    number: Id
    title: Text
    body: Text | None = None
    user: _User | None = None
    state: str
    locked: bool = False


class _Review(_Payload):
    id: Id
    user: _User | None = None
    submitted_at: AwareDatetime


class _InlineComment(_Payload):
    pull_request_review_id: Id | None = None
    user: _User | None = None
    created_at: AwareDatetime


class _Suite(_Payload):
    """A check suite, or a run of a workflow."""

    head_sha: Text
    app: _Numbered | None = None


class _Event(_Payload):
    installation: _Numbered


class _IssueComment(_Event):
    repository: _Repository
    issue: _Issue
    comment: _Comment
    sender: _User | None = None


class _MarkedIssues(_Event):
    repository: _Repository
    issue: _MarkedIssue
    label: _Label | None = None
    assignee: _User | None = None
    sender: _User | None = None


class _Issues(_Event):
    repository: _Repository
    issue: _ClosedIssue
    sender: _User | None = None


class _PullRequests(_Event):
    repository: _Repository
    pull_request: _ClosedPullRequest
    sender: _User | None = None


class _Reviews(_Event):
    repository: _Repository
    pull_request: _ReviewedPullRequest
    review: _Review
    sender: _User | None = None


class _InlineComments(_Event):
    repository: _Repository
    pull_request: _ReviewedPullRequest
    comment: _InlineComment
    sender: _User | None = None


class _CheckSuites(_Event):
    repository: _Repository
    check_suite: _Suite


class _WorkflowRuns(_Event):
    repository: _Repository
    workflow_run: _Suite


class _Repositories(_Event):
    repository: _Repository


class _InstallationRepositories(_Event):
    repositories_removed: list[_Numbered]


def _read(shape: type[P], event: str, body: bytes) -> P:
    try:
        return shape.model_validate_json(body)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][:8]) or "the body"
        raise Malformed(f"The payload of {event} is not what GitHub sends: {where} is wrong.") from exc


def _commented(event: str, body: bytes) -> Event:
    said = _read(_IssueComment, event, body)
    if said.comment.user is None:
        return Ignored(reason="the commenter's account is deleted")
    if said.sender is not None and said.sender.id != said.comment.user.id:
        return Ignored(reason="the comment was sent by somebody else than its author")
    via_app = said.comment.performed_via_github_app
    issue = said.issue
    return Commented(
        installation_id=said.installation.id,
        repository=said.repository.value(),
        number=issue.number,
        is_pull_request=issue.pull_request is not None,
        title=beginning(issue.title, TITLE_LIMIT),
        body=issue.body or "",
        author=issue.user.person() if issue.user else GHOST,
        is_open=issue.state == "open",
        is_locked=issue.locked,
        comment_id=said.comment.id,
        comment_body=said.comment.body or "",
        commenter=said.comment.user.person(),
        created_at=said.comment.created_at,
        via_app=via_app.id if via_app else None,
    )


def _labeled(event: str, body: bytes) -> Event:
    said = _read(_MarkedIssues, event, body)
    if said.label is None:
        return Ignored(reason="the label is deleted")
    return _marked(said, beginning(said.label.name, TITLE_LIMIT), None)


def _assigned(event: str, body: bytes) -> Event:
    said = _read(_MarkedIssues, event, body)
    return (
        _marked(said, None, said.assignee) if said.assignee else Ignored(reason="the assignee's account is deleted")
    )


def _marked(said: _MarkedIssues, label: str | None, assignee: _User | None) -> Event:
    if said.sender is None:
        return Ignored(reason="the account that did it is deleted")
    issue = said.issue
    return Marked(
        installation_id=said.installation.id,
        repository=said.repository.value(),
        number=issue.number,
        title=beginning(issue.title, TITLE_LIMIT),
        body=issue.body or "",
        author=issue.user.person() if issue.user else GHOST,
        is_open=issue.state == "open",
        is_locked=issue.locked,
        label=label,
        assignee=assignee.person() if assignee else None,
        actor=said.sender.person(),
        created_at=issue.updated_at,
    )


def _reviewed(event: str, body: bytes) -> Event:
    said = _read(_Reviews, event, body)
    return _of_review(said, said.pull_request, said.review.id, said.review.user, said.review.submitted_at)


def _inline_commented(event: str, body: bytes) -> Event:
    said = _read(_InlineComments, event, body)
    comment = said.comment
    if comment.pull_request_review_id is None:
        return Ignored(reason="the comment belongs to no review")
    return _of_review(said, said.pull_request, comment.pull_request_review_id, comment.user, comment.created_at)


def _of_review(
    said: _Reviews | _InlineComments,
    pull: _ReviewedPullRequest,
    review_id: int,
    author: _User | None,
    created_at: datetime,
) -> Event:
    sender = said.sender
    if author is None:
        return Ignored(reason="the reviewer's account is deleted")
    if sender is not None and sender.id != author.id:
        return Ignored(reason="the review was sent by somebody else than its author")
    return Reviewed(
        installation_id=said.installation.id,
        repository=said.repository.value(),
        number=pull.number,
        title=beginning(pull.title, TITLE_LIMIT),
        body=pull.body or "",
        author=pull.user.person() if pull.user else GHOST,
        is_open=pull.state == "open",
        is_locked=pull.locked,
        review_id=review_id,
        actor=author.person(),
        created_at=created_at,
    )


def _suite_ended(event: str, body: bytes) -> Event:
    said = _read(_CheckSuites, event, body)
    return _checks_ended(said.installation, said.repository, said.check_suite)


def _workflow_ended(event: str, body: bytes) -> Event:
    said = _read(_WorkflowRuns, event, body)
    return _checks_ended(said.installation, said.repository, said.workflow_run)


def _checks_ended(installation: _Numbered, repository: _Repository, suite: _Suite) -> Event:
    return ChecksEnded(
        installation_id=installation.id,
        repository=repository.value(),
        head_sha=suite.head_sha,
        app_id=suite.app.id if suite.app else None,
    )


def _issue_closed(event: str, body: bytes) -> Event:
    return _issue_over(event, body, None)


def _issue_deleted(event: str, body: bytes) -> Event:
    return _issue_over(event, body, "issue deleted")


def _issue_transferred(event: str, body: bytes) -> Event:
    return _issue_over(event, body, "issue moved to another repository")


def _issue_over(event: str, body: bytes, reason: str | None) -> Event:
    said = _read(_Issues, event, body)
    return Closed(
        installation_id=said.installation.id,
        repository=said.repository.value(),
        number=said.issue.number,
        is_pull_request=False,
        merged=False,
        actor=said.sender.person() if said.sender else GHOST,
        reason=reason,
    )


def _pull_request_closed(event: str, body: bytes) -> Event:
    said = _read(_PullRequests, event, body)
    return Closed(
        installation_id=said.installation.id,
        repository=said.repository.value(),
        number=said.pull_request.number,
        is_pull_request=True,
        merged=said.pull_request.merged is True,
        actor=said.sender.person() if said.sender else GHOST,
    )


def _pull_request_pushed(event: str, body: bytes) -> Event:
    said = _read(_PullRequests, event, body)
    return Pushed(
        installation_id=said.installation.id,
        repository=said.repository.value(),
        number=said.pull_request.number,
        actor=said.sender.person() if said.sender else GHOST,
    )


def _renamed(event: str, body: bytes) -> Event:
    said = _read(_Repositories, event, body)
    return Renamed(installation_id=said.installation.id, repository=said.repository.value())


def _archived(event: str, body: bytes) -> Event:
    return _repository_over(event, body, "the repository is archived")


def _repository_deleted(event: str, body: bytes) -> Event:
    return _repository_over(event, body, "the repository is deleted")


def _repository_over(event: str, body: bytes, reason: str) -> Event:
    said = _read(_Repositories, event, body)
    return Uninstalled(installation_id=said.installation.id, repository_ids=(said.repository.id,), reason=reason)


def _uninstalled(event: str, body: bytes) -> Event:
    said = _read(_Event, event, body)
    return Uninstalled(installation_id=said.installation.id, repository_ids=None)


def _suspended(event: str, body: bytes) -> Event:
    said = _read(_Event, event, body)
    return Uninstalled(installation_id=said.installation.id, repository_ids=None, reason="the App is suspended")


def _repositories_removed(event: str, body: bytes) -> Event:
    said = _read(_InstallationRepositories, event, body)
    removed = tuple(repository.id for repository in said.repositories_removed)
    return Uninstalled(installation_id=said.installation.id, repository_ids=removed)


def is_used(event: str, action: str) -> bool:
    """Whether deliveries of that event and action are ever acted on."""
    return (event, action) in _READERS


_READERS: dict[tuple[str, str], Callable[[str, bytes], Event]] = {
    ("issue_comment", "created"): _commented,
    ("issues", "labeled"): _labeled,
    ("issues", "assigned"): _assigned,
    ("issues", "closed"): _issue_closed,
    ("issues", "deleted"): _issue_deleted,
    ("issues", "transferred"): _issue_transferred,
    ("pull_request", "closed"): _pull_request_closed,
    ("pull_request", "synchronize"): _pull_request_pushed,
    ("pull_request_review", "submitted"): _reviewed,
    ("pull_request_review_comment", "created"): _inline_commented,
    ("check_suite", "completed"): _suite_ended,
    ("workflow_run", "completed"): _workflow_ended,
    ("repository", "renamed"): _renamed,
    ("repository", "transferred"): _renamed,
    ("repository", "archived"): _archived,
    ("repository", "deleted"): _repository_deleted,
    ("installation", "deleted"): _uninstalled,
    ("installation", "suspend"): _suspended,
    ("installation_repositories", "removed"): _repositories_removed,
}
