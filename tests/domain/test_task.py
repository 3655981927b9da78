"""What each command and event does to a task in each state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.domain import command as commands
from bot.domain.command import Command
from bot.domain.episode import Code, Episode, Thread
from bot.domain.event import NO_COMMENT, ChecksEnded, Closed, Commented, Person, Repository, Reviewed
from bot.domain.task import (
    STAGE_OF,
    Decision,
    Request,
    Stage,
    State,
    Task,
    Trusted,
    close,
    decide,
    ended,
    repair,
)

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
REPOSITORY = Repository(id=7, owner="octo", name="r", default_branch="main", clone_url="http://h/octo/r.git")
ALICE = Person(id=1, login="alice", is_bot=False)
EVENT = Commented(
    installation_id=5,
    repository=REPOSITORY,
    number=3,
    is_pull_request=False,
    title="It breaks",
    body="Here.",
    author=ALICE,
    is_open=True,
    is_locked=False,
    comment_id=11,
    comment_body="/coder fix",
    commenter=ALICE,
    created_at=NOW,
)
TRUSTED = Trusted(branch="main", sha="c" * 40, base_sha="c" * 40, config_text=None)


def request(command: Command, event: Commented = EVENT) -> Request:
    return Request(event=event, command=command, trusted=TRUSTED, task_id="t1", episode_id="e1")


def started() -> tuple[Task, Episode]:
    decision = decide(request(commands.Fix(text="mind the gap")), task=None, last=None, now=NOW)
    assert decision.task is not None
    assert decision.episode is not None
    return decision.task, decision.episode


def in_state(state: State) -> Task:
    return replace(started()[0], state=state)


def test_fix_makes_a_task_with_its_first_episode() -> None:
    decision = decide(request(commands.Fix(text="mind the gap")), task=None, last=None, now=NOW)
    assert decision.stage is Stage.PROVISION
    task, episode = started()
    assert (task.id, task.state, task.full_name, task.base_sha) == ("t1", State.QUEUED, "octo/r", "c" * 40)
    assert (episode.number, episode.kind, episode.instruction) == (1, "fix", "mind the gap")
    assert task.is_busy
    assert task.is_open


@pytest.mark.parametrize(("command", "kind"), [(commands.Ask(text="why?"), "ask"), (commands.Plan(), "plan")])
def test_ask_and_plan_make_episodes_of_their_kind(command: Command, kind: str) -> None:
    decision = decide(request(command), task=None, last=None, now=NOW)
    assert decision.episode is not None
    assert decision.episode.kind == kind


def test_a_pull_request_of_a_person_is_worked_for_on_its_own_branch() -> None:
    theirs = replace(TRUSTED, branch="feature", base_sha="f" * 40)
    asked = replace(request(commands.Fix(text=""), replace(EVENT, is_pull_request=True)), trusted=theirs)
    decision = decide(asked, task=None, last=None, now=NOW)
    assert decision.task is not None
    assert decision.episode is not None
    assert (decision.task.base_branch, decision.task.base_sha) == ("feature", "f" * 40)
    assert decision.episode.config_sha == "c" * 40, "the rules are the default branch's all the same"


REVIEWED = Reviewed(
    installation_id=5,
    repository=REPOSITORY,
    number=4,
    title="Mend it",
    body="",
    author=ALICE,
    is_open=True,
    is_locked=False,
    review_id=9,
    actor=ALICE,
    created_at=NOW,
)
THREAD = Thread(comment_id=21, root_id=21, path="a.py", line=3, hunk="", text="Why?", author="alice")


def test_a_review_goes_on_with_the_task_of_its_pull_request_and_never_starts_one() -> None:
    asked = replace(request(commands.Fix(text="rename it")), event=REVIEWED, threads=(THREAD,))
    decision = decide(asked, task=in_state(State.IN_REVIEW), last=started()[1], now=NOW)
    assert decision.episode is not None
    assert (decision.episode.review_id, decision.episode.threads) == (9, (THREAD,))
    assert (decision.episode.number, decision.episode.comment_id) == (2, NO_COMMENT)
    assert decide(asked, task=None, last=None, now=NOW) == Decision()
    busy = decide(asked, task=in_state(State.WORKING), last=started()[1], now=NOW)
    assert busy == Decision(later=True), "it waits for what goes on"
    assert REVIEWED.subject == "7 review 9", "the same for all that is told of it"
    assert REVIEWED.is_pull_request


FAILED = ChecksEnded(installation_id=5, repository=REPOSITORY, head_sha="h" * 40, app_id=1)


@pytest.mark.parametrize(
    ("changes", "repairs", "done", "starts"),
    [
        ({}, None, 0, True),
        ({}, None, 2, False),
        ({}, "h" * 40, 1, False),
        ({}, "g" * 40, 1, True),
        ({"head_sha": "i" * 40}, None, 0, False),
        ({"state": State.WAITING}, None, 0, False),
        ({"state": State.WORKING}, None, 0, False),
    ],
)
def test_failing_checks_start_as_many_rounds_as_allowed_one_for_each_commit(
    changes: dict[str, Any], repairs: str | None, done: int, starts: bool
) -> None:
    task = replace(in_state(State.IN_REVIEW), **{"head_sha": "h" * 40, **changes})
    last = replace(started()[1], code=Code.VERIFIED, repairs=repairs)
    decision = repair(FAILED, task=task, last=last, done=done, allowed=2, trusted=TRUSTED, episode_id="e2", now=NOW)
    assert (decision.task is not None) is starts
    if decision.episode is not None:
        assert (decision.episode.repairs, decision.episode.number) == ("h" * 40, 2)
        assert decision.stage is Stage.PROVISION


def test_failing_checks_of_nobodys_commit_do_nothing() -> None:
    nothing = repair(FAILED, task=None, last=None, done=0, allowed=2, trusted=TRUSTED, episode_id="e2", now=NOW)
    assert nothing == Decision()


@pytest.mark.parametrize("state", sorted(STAGE_OF))
def test_a_busy_task_takes_no_second_instruction(state: State) -> None:
    decision = decide(request(commands.Fix(text="")), task=in_state(state), last=started()[1], now=NOW)
    assert decision.task is None
    assert "/coder stop" in (decision.answer or "")


@pytest.mark.parametrize("state", [State.WAITING, State.IN_REVIEW, State.AWAITING_APPROVAL])
def test_a_resting_task_goes_on_with_its_next_episode(state: State) -> None:
    task, first = in_state(state), started()[1]
    decision = decide(request(commands.Fix(text="more")), task=task, last=first, now=NOW)
    assert decision.task is not None
    assert decision.task.id == task.id
    assert decision.task.state is State.QUEUED
    assert decision.episode is not None
    assert decision.episode.number == 2


def test_retry_repeats_the_instruction_of_a_waiting_task() -> None:
    last = replace(started()[1], code=Code.CHECKS_FAILED)
    decision = decide(request(commands.Retry()), task=in_state(State.WAITING), last=last, now=NOW)
    assert decision.episode is not None
    assert decision.episode.instruction == "mind the gap"
    silent = decide(
        request(commands.Retry()), task=in_state(State.WAITING), last=replace(last, instruction=""), now=NOW
    )
    assert silent.episode is not None
    assert "where you stopped" in silent.episode.instruction
    assert "waiting" not in (decide(request(commands.Retry()), task=None, last=None, now=NOW).answer or "")
    refused = decide(request(commands.Retry()), task=in_state(State.WORKING), last=last, now=NOW)
    assert "nothing to retry" in (refused.answer or "")


@pytest.mark.parametrize("state", [*sorted(STAGE_OF), State.AWAITING_APPROVAL])
def test_stop_ends_the_episode_and_keeps_the_task(state: State) -> None:
    decision = decide(request(commands.Stop()), task=in_state(state), last=started()[1], now=NOW)
    assert decision.task is not None
    assert decision.task.state is State.WAITING
    assert decision.stage is Stage.CLEANUP
    assert decision.episode is not None
    assert decision.episode.code is Code.STOPPED
    assert "@alice" in decision.episode.detail


SHOWN = replace(started()[1], shown_tree="t" * 40, shown_at=NOW)


def test_an_approval_is_for_the_tree_that_was_shown() -> None:
    waiting = in_state(State.AWAITING_APPROVAL)
    decision = decide(request(commands.Approve()), task=waiting, last=SHOWN, now=NOW)
    assert decision.stage is Stage.PUBLISH
    assert decision.task == waiting
    assert decision.episode == replace(SHOWN, approved_tree="t" * 40, approved_by="alice")


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (started()[1], "before the change was shown"),
        (replace(SHOWN, shown_at=NOW + timedelta(seconds=1)), "before the change was shown"),
        (replace(SHOWN, approved_tree="t" * 40, approved_by="bob"), "bob has approved this already"),
    ],
)
def test_an_approval_of_what_was_not_shown_or_is_approved_already_changes_nothing(last: Episode, said: str) -> None:
    decision = decide(request(commands.Approve()), task=in_state(State.AWAITING_APPROVAL), last=last, now=NOW)
    assert (decision.task, decision.episode, decision.stage) == (None, None, None)
    assert said in (decision.answer or "")


@pytest.mark.parametrize("state", sorted(set(State) - {State.AWAITING_APPROVAL}))
def test_what_does_not_wait_can_not_be_approved(state: State) -> None:
    decision = decide(request(commands.Approve()), task=in_state(state), last=SHOWN, now=NOW)
    assert decision.stage is None
    assert "nothing to approve" in (decision.answer or "")


def test_going_on_while_it_waits_makes_an_episode_that_nobody_has_approved() -> None:
    approved = replace(SHOWN, approved_tree="t" * 40, approved_by="bob")
    decision = decide(
        request(commands.Fix(text="more")), task=in_state(State.AWAITING_APPROVAL), last=approved, now=NOW
    )
    assert decision.episode is not None
    assert (decision.episode.shown_tree, decision.episode.approved_tree) == (None, None)


@pytest.mark.parametrize(
    ("command", "fits", "stage"),
    [
        (commands.Finish(), State.WORKING, None),
        (commands.Stop(), State.WORKING, Stage.CLEANUP),
    ],
)
def test_a_command_that_does_not_fit_the_state_is_answered(
    command: Command, fits: State, stage: Stage | None
) -> None:
    last = started()[1]
    assert decide(request(command), task=in_state(fits), last=last, now=NOW).stage is stage
    for task in (None, in_state(State.WAITING), in_state(State.IN_REVIEW)):
        decision = decide(request(command), task=task, last=last if task else None, now=NOW)
        assert decision.task is None
        assert f"nothing to {command.verb}" in (decision.answer or "")


def test_finish_marks_the_running_episode() -> None:
    decision = decide(request(commands.Finish()), task=in_state(State.WORKING), last=started()[1], now=NOW)
    assert decision.episode is not None
    assert decision.episode.finishing


def test_status_says_where_the_task_stands() -> None:
    last = started()[1]

    def said(task: Task | None, episode: Episode | None) -> str:
        return decide(request(commands.Status()), task=task, last=episode, now=NOW).answer or ""

    assert "No task" in said(None, None)
    assert "working" in said(in_state(State.WORKING), last)
    assert "#9" in said(replace(in_state(State.IN_REVIEW), pull_request=9), last)
    ended = said(in_state(State.WAITING), replace(last, code=Code.NO_CHANGE, detail="Nothing to do."))
    assert "NO_CHANGE" in ended
    assert "Nothing to do." in ended


@pytest.mark.parametrize("command", [commands.Help(), commands.ShowConfig()])
def test_help_and_config_change_nothing(command: Command) -> None:
    assert decide(request(command), task=None, last=None, now=NOW).task is None


CLOSED = Closed(installation_id=5, repository=REPOSITORY, number=3, is_pull_request=False, merged=False, actor=ALICE)


@pytest.mark.parametrize(
    ("event", "state", "reason"),
    [
        (CLOSED, State.WORKING, "issue closed"),
        (replace(CLOSED, reason="issue deleted"), State.WORKING, "issue deleted"),
        (replace(CLOSED, is_pull_request=True), State.WORKING, "pull request closed"),
        (replace(CLOSED, is_pull_request=True, number=4), State.IN_REVIEW, "pull request closed"),
        (replace(CLOSED, is_pull_request=True, number=4, merged=True), State.IN_REVIEW, "merged"),
    ],
)
def test_an_end_on_github_ends_the_task(event: Closed, state: State, reason: str) -> None:
    task = replace(in_state(state), pull_request=4)
    decision = close(event, task=task, last=started()[1], now=NOW)
    assert decision.task is not None
    assert (decision.task.state, decision.task.closed_reason) == (State.CLOSED, reason)
    assert not decision.task.is_open
    assert decision.stage is Stage.CLEANUP
    assert decision.episode is not None
    assert decision.episode.code is Code.ISSUE_CLOSED


def test_what_the_app_has_lost_ends_with_the_reason() -> None:
    decision = ended(Code.UNINSTALLED, "uninstalled", task=in_state(State.WORKING), last=started()[1], now=NOW)
    assert decision.task is not None
    assert (decision.task.state, decision.task.closed_reason) == (State.CLOSED, "uninstalled")
    assert decision.episode is not None
    assert (decision.episode.code, decision.episode.detail) == (Code.UNINSTALLED, "Ended: uninstalled.")


def test_an_end_leaves_an_earlier_outcome_alone() -> None:
    done = replace(started()[1], code=Code.VERIFIED)
    task = replace(in_state(State.IN_REVIEW), pull_request=4)
    decision = close(replace(CLOSED, is_pull_request=True, number=4), task=task, last=done, now=NOW)
    assert decision.episode == done
    assert close(CLOSED, task=in_state(State.WORKING), last=None, now=NOW).episode is None


def test_closing_the_issue_of_a_published_task_waits_for_its_pull_request() -> None:
    assert close(CLOSED, task=in_state(State.IN_REVIEW), last=started()[1], now=NOW).task is None


def test_each_code_has_one_outcome() -> None:
    outcomes = {code: code.outcome for code in Code}
    assert outcomes[Code.VERIFIED] == "succeeded"
    assert outcomes[Code.CHECKS_FAILED] == "failed"
    assert outcomes[Code.BUDGET_EXCEEDED] == "blocked"
    assert outcomes[Code.STOPPED] == "cancelled"


@pytest.mark.parametrize(
    ("state", "then"),
    [
        (State.QUEUED, State.QUEUED),
        (State.PROVISIONING, State.QUEUED),
        (State.WORKING, State.WORKING),
        (State.VERIFYING, State.VERIFYING),
    ],
)
def test_a_task_that_waits_for_a_sandbox_stays_where_it_is(state: State, then: State) -> None:
    task = in_state(state)
    later = NOW + timedelta(minutes=1)
    assert task.waiting_for_slot(later) == replace(task, state=then, needs_slot=True, updated_at=later)


def test_status_says_that_a_task_waits_for_a_sandbox_while_it_does() -> None:
    waiting = in_state(State.VERIFYING).waiting_for_slot(NOW)
    told = decide(request(commands.Status()), task=waiting, last=started()[1], now=NOW).answer or ""
    assert "waits for a free sandbox" in told
    stopped = replace(waiting, state=State.WAITING)
    told = decide(request(commands.Status()), task=stopped, last=started()[1], now=NOW).answer or ""
    assert "waits for a free sandbox" not in told


def test_a_new_instruction_waits_for_no_sandbox_yet() -> None:
    stopped = replace(in_state(State.WAITING), needs_slot=True)
    decision = decide(request(commands.Fix(text="more")), task=stopped, last=started()[1], now=NOW)
    assert decision.task is not None
    assert not decision.task.needs_slot
