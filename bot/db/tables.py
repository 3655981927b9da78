"""The rows as they lie in the database; what they mean is in `bot.domain`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Dialect, Index, LargeBinary, Text, TypeDecorator, false, text
from sqlalchemy.types import JSON
from sqlmodel import Field, SQLModel


class Instant(TypeDecorator[datetime]):
    """A moment in UTC. SQLite drops the zone, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=value.tzinfo or UTC)


class DeliveryRow(SQLModel, table=True):
    """One webhook call, by GitHub's GUID. `outcome` is empty until intake has decided."""

    __tablename__ = "deliveries"

    guid: str = Field(primary_key=True)
    name: str
    """GitHub's name of the event."""
    payload: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """The event as a value of `bot.domain.event`."""
    received_at: datetime = Field(sa_type=Instant)
    outcome: str = ""
    subject: str | None = Field(default=None, unique=True, index=True)
    """What it is about (`bot.domain.event`), of which there is one delivery to be decided: GitHub may send the same
    twice under different GUIDs."""
    refused: str | None = Field(default=None, index=True)
    """What was refused to whom where (`repository#number@person`), so that it is said once."""
    answer: str | None = Field(default=None, sa_type=Text)
    """A comment that is due for it."""
    task_id: str | None = Field(default=None, index=True)


class TaskRow(SQLModel, table=True):
    """`bot.domain.task.Task`, and the epoch of its newest lease."""

    __tablename__ = "tasks"
    __table_args__ = (
        Index(
            "one_open_task_per_issue",
            "repository_id",
            "number",
            unique=True,
            sqlite_where=text("state != 'closed'"),
            postgresql_where=text("state != 'closed'"),
        ),
    )

    id: str = Field(primary_key=True)
    epoch: int = 0
    installation_id: int = Field(sa_type=BigInteger)
    repository_id: int = Field(sa_type=BigInteger)
    owner: str
    name: str
    clone_url: str
    number: int
    title: str = Field(sa_type=Text)
    body: str = Field(sa_type=Text)
    author: str
    requester: str
    requested_at: datetime = Field(sa_type=Instant)
    created_at: datetime = Field(sa_type=Instant)
    updated_at: datetime = Field(sa_type=Instant)
    state: str = Field(index=True)
    needs_slot: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    closed_reason: str | None = None
    base_branch: str = ""
    base_sha: str = ""
    comment_id: int | None = Field(default=None, sa_type=BigInteger)
    pull_request: int | None = None
    pull_request_url: str | None = None
    head_branch: str | None = None
    head_sha: str | None = None
    merges: str | None = None


class EpisodeRow(SQLModel, table=True):
    """`bot.domain.episode.Episode`."""

    __tablename__ = "episodes"
    __table_args__ = (Index("one_episode_per_number", "task_id", "number", unique=True),)

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="tasks.id", index=True)
    number: int
    kind: str
    instruction: str = Field(sa_type=Text)
    requester: str
    comment_id: int = Field(sa_type=BigInteger, index=True)
    created_at: datetime = Field(sa_type=Instant)
    config_sha: str
    config_text: str | None = Field(default=None, sa_type=Text)
    attempts: int = 0
    feedback: str | None = Field(default=None, sa_type=Text)
    finishing: bool = False
    title: str = Field(default="", sa_type=Text)
    summary: str = Field(default="", sa_type=Text)
    code: str | None = None
    detail: str = Field(default="", sa_type=Text)
    shown_tree: str | None = None
    shown_at: datetime | None = Field(default=None, sa_type=Instant)
    approved_tree: str | None = None
    approved_by: str | None = None
    review_id: int | None = Field(default=None, sa_type=BigInteger)
    threads: list[dict[str, Any]] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    """`bot.domain.episode.Thread`s."""
    replies: dict[str, str] = Field(default_factory=dict, sa_column=Column(JSON, nullable=False))
    published: str | None = None
    answered: bool = False
    repairs: str | None = None


class BriefingRow(SQLModel, table=True):
    """What the model was told at the beginning of an episode, so that it is told the same after a crash."""

    __tablename__ = "briefings"

    episode_id: str = Field(foreign_key="episodes.id", primary_key=True)
    text: str = Field(sa_type=Text)


class TellingRow(SQLModel, table=True):
    """What a task's live comment was last made to say."""

    __tablename__ = "tellings"

    task_id: str = Field(foreign_key="tasks.id", primary_key=True)
    edits: int
    """How many were begun."""
    gist: str = Field(default="", sa_type=Text)
    """What it says at least, as a key (`bot.domain.comment`); empty while nobody knows."""
    digest: str | None = None
    """Of the whole text as GitHub has taken it; empty while nobody knows."""
    edited_at: datetime = Field(sa_type=Instant)
    again_at: datetime | None = Field(default=None, sa_type=Instant)
    """Told once more then: an edit whose outcome nobody knows may have come later than the last one."""


class StepRow(SQLModel, table=True):
    """`bot.domain.transcript.Step` without its calls."""

    __tablename__ = "steps"
    __table_args__ = (Index("one_step_per_number", "episode_id", "number", unique=True),)

    id: int | None = Field(default=None, primary_key=True)
    episode_id: str = Field(foreign_key="episodes.id", index=True)
    number: int
    note: str | None = Field(default=None, sa_type=Text)
    reply: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_nanos: int | None = Field(default=None, sa_type=BigInteger)
    """Billionths of a US dollar: whole numbers add up exactly in every database."""
    duration_s: float


class ToolCallRow(SQLModel, table=True):
    """`bot.domain.transcript.Call`: written once it has finished."""

    __tablename__ = "tool_calls"

    step_id: int = Field(foreign_key="steps.id", primary_key=True)
    position: int = Field(primary_key=True)
    name: str
    arguments: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    result: str = Field(sa_type=Text)
    exit_code: int | None = None
    duration_s: float
    refused: bool = False


class CheckpointRow(SQLModel, table=True):
    """The task's patch at a moment, relative to `base_sha`: compressed JSON."""

    __tablename__ = "checkpoints"

    id: int | None = Field(default=None, primary_key=True)
    task_id: str = Field(foreign_key="tasks.id", index=True)
    base_sha: str
    patch: bytes = Field(sa_type=LargeBinary)


class ReceiptRow(SQLModel, table=True):
    """One verdict and the evidence it rests on."""

    __tablename__ = "receipts"
    __table_args__ = (Index("one_receipt_per_attempt", "episode_id", "attempt", unique=True),)

    id: int | None = Field(default=None, primary_key=True)
    episode_id: str = Field(foreign_key="episodes.id", index=True)
    attempt: int
    verdict: str
    evidence: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    document: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    checkpoint_id: int
    """The patch that was judged."""
    envelope: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True), nullable=True))
    """The document, signed for the commit it was published in."""


class BaselineRow(SQLModel, table=True):
    """How a repository's checks ended on a base."""

    __tablename__ = "baselines"

    repository_id: int = Field(sa_type=BigInteger, primary_key=True)
    key: str = Field(primary_key=True)
    """The base's tree, the image and the rules, as one digest."""
    run: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    created_at: datetime = Field(sa_type=Instant)


class SandboxRow(SQLModel, table=True):
    """A sandbox we asked for. `provider_id` is empty while nobody knows whether it was made."""

    __tablename__ = "sandboxes"

    name: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="tasks.id", index=True)
    kind: str
    provider: str
    provider_id: str | None = None
    image_id: str = ""
    ready: bool = False
    """Cloned and set up: work may start or go on in it."""
    snapshot_id: str | None = None
    """The snapshot it was started from."""


class SnapshotRow(SQLModel, table=True):
    """A prepared file system that sandboxes of its repository may start from; what no row names may not be used."""

    __tablename__ = "snapshots"
    __table_args__ = (Index("snapshots_of_repository", "installation_id", "repository_id", "image_id"),)

    id: str = Field(primary_key=True)
    """The provider's."""
    key: str = Field(unique=True)
    """Everything that went into it, as one digest."""
    installation_id: int = Field(sa_type=BigInteger)
    repository_id: int = Field(sa_type=BigInteger)
    image_id: str
    commit: str
    size: int | None = Field(default=None, sa_type=BigInteger)
    """Bytes, where the provider says."""
    created_at: datetime = Field(sa_type=Instant)
    used_at: datetime = Field(sa_type=Instant)


class SlotRow(SQLModel, table=True):
    """The right of one sandbox to run, out of as many as the operator allows at once; held until it stops."""

    __tablename__ = "slots"

    name: str = Field(primary_key=True)
    """The sandbox's name, or its id where it was resumed."""
    kind: str
    sandbox_id: str | None = Field(default=None, index=True)
    """Empty while nobody knows whether it was made."""
    taken_at: datetime = Field(sa_type=Instant)
    expires_at: datetime = Field(sa_type=Instant)
    """By then the provider has ended the sandbox itself; from then on the slot counts no more."""


class StrayRow(SQLModel, table=True):
    """A sandbox or snapshot that the provider lists and no row knows; it may be one that is just being made."""

    __tablename__ = "strays"

    id: str = Field(primary_key=True)
    """The provider's."""
    seen_at: datetime = Field(sa_type=Instant)
    """When it was first seen so."""


class JobRow(SQLModel, table=True):
    """A stage that is due. `started_at` is empty while it waits; at most one waits for each stage and key."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(
            "one_waiting_job",
            "stage",
            "key",
            unique=True,
            sqlite_where=text("started_at IS NULL"),
            postgresql_where=text("started_at IS NULL"),
        ),
    )

    id: int | None = Field(default=None, primary_key=True)
    stage: str
    key: str = Field(index=True)
    run_at: datetime = Field(sa_type=Instant)
    started_at: datetime | None = Field(default=None, sa_type=Instant)
    attempts: int = 0
