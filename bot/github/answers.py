"""The parts of GitHub's answers that the client reads."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    RootModel,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from bot.github.http import Shape

Level = Literal["admin", "write", "read", "none"]


class Object(Shape):
    sha: str


class Numbered(Shape):
    id: int


class User(Shape):
    id: int
    login: str
    type: str = "User"


class Repository(Shape):
    id: int
    full_name: str
    default_branch: str
    clone_url: str
    private: bool
    archived: bool = False


class Permission(Shape):
    permission: Level
    role_name: str | None = None
    user: User | None = None


class Ref(Shape):
    ref: str
    object: Object


class Refs(RootModel[list[Ref]]):
    pass


class Commit(Shape):
    sha: str
    tree: Object
    parents: tuple[Object, ...] = ()


class Comparison(Shape):
    status: Literal["ahead", "behind", "diverged", "identical"]
    merge_base_commit: Object


class Entry(Shape):
    path: str
    mode: str
    sha: str
    size: int | None = None


class Tree(Shape):
    tree: list[Entry]
    truncated: bool = False


class File(Shape):
    content: str
    encoding: Literal["base64"]


class Issue(Shape):
    number: int
    title: str
    body: str | None = None
    user: User | None = None
    state: Literal["open", "closed"]
    locked: bool = False
    comments: int
    updated_at: AwareDatetime


def _or_none(value: object, read: ValidatorFunctionWrapHandler) -> datetime | None:
    if not isinstance(value, str) or "T" not in value:
        return None  # a number would be read as seconds since 1970
    try:
        moment: datetime = read(value)
    except ValidationError:
        return None
    return moment


Instant = Annotated[AwareDatetime | None, WrapValidator(_or_none)]


class Comment(Shape):
    id: int
    body: str | None = None
    user: User | None = None
    created_at: Instant = None
    updated_at: Instant = None
    performed_via_github_app: Numbered | None = None


class Comments(RootModel[list[Comment]]):
    pass


def _lowered(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Review(Shape):
    id: int
    state: Annotated[
        Literal["approved", "changes_requested", "commented", "dismissed", "pending"], BeforeValidator(_lowered)
    ]
    """Upper case where it was asked for, lower case in a webhook."""
    body: str | None = None
    user: User | None = None
    submitted_at: Instant = None
    commit_id: str | None = None
    performed_via_github_app: Numbered | None = None


class InlineComment(Shape):
    id: int
    pull_request_review_id: int | None = None
    in_reply_to_id: int | None = None
    path: str
    line: int | None = None
    original_line: int | None = None
    diff_hunk: str = ""
    body: str
    user: User | None = None
    created_at: Instant = None
    updated_at: Instant = None
    performed_via_github_app: Numbered | None = None


class InlineComments(RootModel[list[InlineComment]]):
    pass


class Side(Shape):
    ref: str
    sha: str
    repo: Numbered | None = None


class Pull(Shape):
    number: int
    html_url: str
    title: str
    body: str | None = None
    draft: bool = False
    state: Literal["open", "closed"]
    head: Side
    base: Side


class Pulls(RootModel[list[Pull]]):
    pass


class Output(Shape):
    annotations_count: int = 0


class CheckRun(Shape):
    id: int
    external_id: str | None = None
    output: Output
    app: Numbered | None = None


class CheckRuns(Shape):
    check_runs: list[CheckRun]


class CheckApp(Shape):
    id: int
    slug: str = ""


class CheckWords(Shape):
    title: str | None = None
    summary: str | None = None
    annotations_count: int = 0


class OtherRun(Shape):
    id: int
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    output: CheckWords = CheckWords()
    check_suite: Numbered | None = None
    app: CheckApp | None = None


class OtherRuns(Shape):
    check_runs: list[OtherRun]


class Suite(Shape):
    status: str | None = None
    latest_check_runs_count: int
    app: CheckApp | None = None


class Suites(Shape):
    check_suites: list[Suite]


class WorkflowRun(Shape):
    workflow_id: int
    event: str
    run_number: int
    check_suite_id: int | None = None

    @property
    def kind(self) -> tuple[int, str]:
        return self.workflow_id, self.event


class WorkflowRuns(Shape):
    workflow_runs: list[WorkflowRun]


class Remark(Shape):
    path: str
    start_line: int
    annotation_level: str | None = None
    title: str | None = None
    message: str | None = None


class Remarks(RootModel[list[Remark]]):
    pass
