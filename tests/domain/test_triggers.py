"""What a label or an assignment does to the task of its issue."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bot.domain.command import Fix
from bot.domain.event import NO_COMMENT, Commented, Marked, Person, Repository
from bot.domain.task import Decision, Request, Stage, State, Trusted, decide

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
ANNA = Person(id=11, login="anna", is_bot=False)
BERT = Person(id=12, login="bert", is_bot=False)
BOT = Person(id=13, login="coder[bot]", is_bot=True)
LABELED = Marked(
    installation_id=5,
    repository=Repository(id=7, owner="octo", name="r", default_branch="main", clone_url="http://h/octo/r.git"),
    number=3,
    title="It breaks",
    body="Here.",
    author=ANNA,
    is_open=True,
    is_locked=False,
    label="fix-me",
    assignee=None,
    actor=BERT,
    created_at=NOW - timedelta(minutes=1),
)


def request(event: Marked = LABELED) -> Request:
    trusted = Trusted(branch="main", sha="c" * 40, base_sha="c" * 40, config_text=None)
    return Request(event=event, command=Fix(text=""), trusted=trusted, task_id="t1", episode_id="e1")


def test_a_label_starts_a_task_of_whoever_gave_it_on_the_issue_as_it_was_then() -> None:
    decision = decide(request(), task=None, last=None, now=NOW)
    assert decision.stage is Stage.PROVISION
    assert decision.task is not None
    assert decision.episode is not None
    assert (decision.task.requester, decision.task.author, decision.task.body) == ("bert", "anna", "Here.")
    assert decision.task.requested_at == LABELED.created_at, "what was said later is not read"
    assert (decision.episode.kind, decision.episode.instruction, decision.episode.comment_id) == (
        "fix",
        "",
        NO_COMMENT,
    )


def test_where_a_task_is_open_it_starts_nothing_in_whatever_state_that_is() -> None:
    started = decide(request(), task=None, last=None, now=NOW)
    assert started.task is not None
    for state in State:
        task = replace(started.task, state=state)
        assert decide(request(), task=task, last=started.episode, now=NOW) == Decision()


def test_the_same_label_given_again_is_something_new_and_delivered_again_is_not() -> None:
    again = replace(LABELED, created_at=NOW)
    assigned = replace(LABELED, label=None, assignee=BOT)
    assert LABELED.subject == replace(LABELED, body="edited").subject
    other = replace(LABELED, actor=replace(LABELED.actor, id=LABELED.actor.id + 1))
    label = replace(LABELED, label="x")
    assert len({one.subject for one in (LABELED, again, assigned, label, other)}) == 5
    assert not LABELED.is_pull_request


def test_a_comment_is_the_same_in_every_delivery() -> None:
    said = Commented(
        installation_id=5,
        repository=LABELED.repository,
        number=3,
        is_pull_request=False,
        title="It breaks",
        body="Here.",
        author=ANNA,
        is_open=True,
        is_locked=False,
        comment_id=9,
        comment_body="/coder fix",
        commenter=BERT,
        created_at=NOW,
    )
    assert said.subject == replace(said, title="Renamed", is_locked=True).subject
    assert said.subject != replace(said, comment_id=10).subject
    assert said.actor == BERT
