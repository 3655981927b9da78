"""One piece of work on one issue: its states, and what each command or event does to it. Only this file knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from bot.domain import command as commands
from bot.domain.command import Command
from bot.domain.episode import Code, Episode, EpisodeKind, Thread
from bot.domain.event import NO_COMMENT, ChecksEnded, Closed, Marked, Reviewed, Trigger


class State(StrEnum):
    """Where a task stands; see the picture in the README."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    WORKING = "working"
    VERIFYING = "verifying"
    AWAITING_APPROVAL = "awaiting_approval"
    IN_REVIEW = "in_review"
    WAITING = "waiting"
    CLOSED = "closed"


class Stage(StrEnum):
    """A file of `bot/pipeline`: what can be due for a task (intake: for a delivery)."""

    INTAKE = "intake"
    PROVISION = "provision"
    EPISODE = "episode"
    VERIFY = "verify"
    PUBLISH = "publish"
    CLEANUP = "cleanup"


STAGE_OF = {
    State.QUEUED: Stage.PROVISION,
    State.PROVISIONING: Stage.PROVISION,
    State.WORKING: Stage.EPISODE,
    State.VERIFYING: Stage.VERIFY,
}
"""The stage that moves a task on; in the other states somebody else has to act."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """`pull_request`, `head_branch` and `head_sha` are there once something was published; `base_sha` is the commit
    the work started from, known once the repository was looked at. `needs_slot` while it waits for a free sandbox."""

    id: str
    installation_id: int
    repository_id: int
    owner: str
    name: str
    clone_url: str
    number: int
    title: str
    body: str
    author: str
    requester: str
    requested_at: datetime
    created_at: datetime
    updated_at: datetime
    state: State = State.QUEUED
    needs_slot: bool = False
    closed_reason: str | None = None
    base_branch: str = ""
    base_sha: str = ""
    comment_id: int | None = None
    pull_request: int | None = None
    pull_request_url: str | None = None
    head_branch: str | None = None
    head_sha: str | None = None
    merges: str | None = None
    """A commit of the base branch that the next published commit brings into the pull request."""

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def is_busy(self) -> bool:
        return self.state in STAGE_OF

    @property
    def is_open(self) -> bool:
        return self.state is not State.CLOSED

    def waiting_for_slot(self, now: datetime) -> Task:
        """The same task when no sandbox was free for its stage: what has hardly begun is queued again."""
        state = State.QUEUED if self.state is State.PROVISIONING else self.state
        return replace(self, state=state, needs_slot=True, updated_at=now)


@dataclass(frozen=True, kw_only=True)
class Trusted:
    """What was read when the command was given: the default branch's commit and the config's text there; the branch
    that the work is for, and its commit to start from."""

    branch: str
    sha: str
    base_sha: str
    config_text: str | None


@dataclass(frozen=True, kw_only=True)
class Request:
    """A command by somebody who may give it. `task_id` and `episode_id` are used if something new is made; `threads`
    are what a review asks to be answered."""

    event: Trigger
    command: Command
    trusted: Trusted
    task_id: str
    episode_id: str
    threads: tuple[Thread, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to save (`task`, `episode`), which stage is due then, and what to answer in a comment of its own. `later`:
    nothing yet, it is to be asked again."""

    task: Task | None = None
    episode: Episode | None = None
    stage: Stage | None = None
    answer: str | None = None
    later: bool = False


def decide(request: Request, *, task: Task | None, last: Episode | None, now: datetime) -> Decision:
    """What a command does to the task of its issue or pull request (None: there is no open one). A label or an
    assignment only ever starts a task; where one is open, people go on with it by their commands."""
    if isinstance(request.event, Marked) and task is not None:
        return Decision()
    if isinstance(request.event, Reviewed) and task is None:
        return Decision()  # it was closed meanwhile
    match request.command:
        case commands.Fix(text=text):
            return _start("fix", text, request, task, last, now)
        case commands.Ask(text=text):
            return _start("ask", text, request, task, last, now)
        case commands.Plan():
            return _start("plan", "", request, task, last, now)
        case commands.Retry():
            if task is None or last is None or task.state is not State.WAITING:
                return Decision(answer=_nothing("retry", task))
            again = "Go on where you stopped; look at what is there first." if task.base_sha else last.instruction
            return _start(last.kind, last.instruction or again, request, task, last, now)
        case commands.Stop():
            if task is None or last is None or not (task.is_busy or task.state is State.AWAITING_APPROVAL):
                return Decision(answer=_nothing("stop", task))
            by = f"Stopped by @{request.event.actor.login}."
            return Decision(
                task=replace(task, state=State.WAITING, updated_at=now),
                episode=replace(last, code=Code.STOPPED, detail=by),
                stage=Stage.CLEANUP,
            )
        case commands.Finish():
            if task is None or last is None or task.state is not State.WORKING:
                return Decision(answer=_nothing("finish", task))
            return Decision(task=replace(task, updated_at=now), episode=replace(last, finishing=True))
        case commands.Approve():
            if task is None or last is None or task.state is not State.AWAITING_APPROVAL:
                return Decision(answer=_nothing("approve", task))
            return _approve(request.event, task, last, now)
        case commands.Status():
            return Decision(answer=_status(task, last))
        case commands.ShowConfig() | commands.Help():
            return Decision()
        case _ as never:
            assert_never(never)


def _approve(event: Trigger, task: Task, last: Episode, now: datetime) -> Decision:
    """An approval is for the tree that was shown when it was given, and for no other. Whoever asked for the work may
    give it: what matters is that a person who may write here has seen the change."""
    if last.approved_tree is not None:
        return Decision(answer=f"{last.approved_by} has approved this already; it is being published.")
    if last.shown_tree is None or last.shown_at is None or event.created_at < last.shown_at:
        return Decision(
            answer="That came before the change was shown here. Look at it, then say `/coder approve` again."
        )
    approved = replace(last, approved_tree=last.shown_tree, approved_by=event.actor.login)
    return Decision(task=replace(task, updated_at=now), episode=approved, stage=Stage.PUBLISH)


def close(event: Closed, *, task: Task, last: Episode | None, now: datetime) -> Decision:
    """What the end of an issue or a pull request does to an open task."""
    if event.merged:
        reason = "merged"
    elif event.number == task.pull_request:
        reason = "pull request closed"
    elif task.state is State.IN_REVIEW:
        return Decision()  # its pull request is what decides now; merging it may be what closed the issue
    else:
        reason = event.reason or ("pull request closed" if event.is_pull_request else "issue closed")
    return ended(Code.ISSUE_CLOSED, reason, task=task, last=last, now=now)


def ended(code: Code, reason: str, *, task: Task, last: Episode | None, now: datetime) -> Decision:
    """The end of an open task, and of its episode if it goes on."""
    over = last if last is None or last.code is not None else replace(last, code=code, detail=f"Ended: {reason}.")
    closed = replace(task, state=State.CLOSED, closed_reason=reason, updated_at=now)
    return Decision(task=closed, episode=over, stage=Stage.CLEANUP)


def _start(
    kind: EpisodeKind, text: str, request: Request, task: Task | None, last: Episode | None, now: datetime
) -> Decision:
    event, trusted = request.event, request.trusted
    if task is not None and task.is_busy:
        if isinstance(event, Reviewed):
            return Decision(later=True)  # it is about what was there before; what goes on is ended first
        return Decision(answer=f"I am already at work here ({task.state}). `/coder stop` ends that; then ask again.")
    if task is None:
        task = Task(
            id=request.task_id,
            installation_id=event.installation_id,
            repository_id=event.repository.id,
            owner=event.repository.owner,
            name=event.repository.name,
            clone_url=event.repository.clone_url,
            number=event.number,
            title=event.title,
            body=event.body,
            author=event.author.login,
            requester=event.actor.login,
            requested_at=event.created_at,
            created_at=now,
            updated_at=now,
            base_branch=trusted.branch,
            base_sha=trusted.base_sha,
        )
        last = None
    episode = Episode(
        id=request.episode_id,
        task_id=task.id,
        number=1 if last is None else last.number + 1,
        kind=kind,
        instruction=text,
        requester=event.actor.login,
        comment_id=event.comment_id,
        created_at=now,
        config_sha=trusted.sha,
        config_text=trusted.config_text,
        review_id=event.review_id if isinstance(event, Reviewed) else None,
        threads=request.threads,
    )
    return _queued(replace(task, requested_at=event.created_at), episode, now)


def repair(
    event: ChecksEnded,
    *,
    task: Task | None,
    last: Episode | None,
    done: int,
    allowed: int,
    trusted: Trusted,
    episode_id: str,
    now: datetime,
) -> Decision:
    """What failing CI does to the task whose pull request it is on: at most `allowed` episodes to mend it, of which
    `done` have been, one for each commit, and none while people are asked for something."""
    if task is None or last is None or task.state is not State.IN_REVIEW or task.head_sha != event.head_sha:
        return Decision()
    if last.repairs == event.head_sha or done >= allowed:
        return Decision()
    episode = Episode(
        id=episode_id,
        task_id=task.id,
        number=last.number + 1,
        kind="fix",
        instruction="",
        requester=last.requester,
        comment_id=NO_COMMENT,
        created_at=now,
        config_sha=trusted.sha,
        config_text=trusted.config_text,
        repairs=event.head_sha,
    )
    return _queued(replace(task, requested_at=now), episode, now)


def _queued(task: Task, episode: Episode, now: datetime) -> Decision:
    queued = replace(task, state=State.QUEUED, needs_slot=False, updated_at=now)
    return Decision(task=queued, episode=episode, stage=Stage.PROVISION)


def _nothing(verb: str, task: Task | None) -> str:
    if task is None:
        return f"There is nothing to {verb} here. `/coder fix` starts a task."
    return f"There is nothing to {verb}: this task is `{task.state}`."


def _status(task: Task | None, last: Episode | None) -> str:
    if task is None or last is None:
        return "No task is open here. `/coder fix` starts one."
    line = f"This task is `{task.state}` (episode {last.number}, asked for by {last.requester})."
    if task.needs_slot and task.is_busy:
        line += " It waits for a free sandbox."
    if task.pull_request:
        line += f" Its pull request is #{task.pull_request}."
    return line if last.code is None or task.is_busy else f"{line} It ended with {last.code}. {last.detail}"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A stage that is due: for a task, or (intake) for a delivery; `key` is that one's id."""

    id: int
    stage: Stage
    key: str
    attempts: int


@dataclass(frozen=True, kw_only=True)
class Postponed:
    """What a stage says that found no free sandbox: it runs again then, or as soon as one is free."""

    until: datetime


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to write for a task now; only the store makes one. A later lease of the same task ends this one."""

    task_id: str
    epoch: int
