"""What comes through the front door: signatures, real payloads, and whatever else somebody may send."""

from __future__ import annotations

import copy
import gzip
import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.domain.event import (
    ChecksEnded,
    Closed,
    Commented,
    Ignored,
    Marked,
    Person,
    Pushed,
    Renamed,
    Repository,
    Reviewed,
    Uninstalled,
)
from bot.github.webhook import GHOST, TITLE_LIMIT, Malformed, parse, verify

SECRET = "a secret made up here"
REPOSITORY = Repository(
    id=7, owner="octo", name="sample", default_branch="main", clone_url="https://github.test/octo/sample.git"
)
ANNA = Person(id=11, login="anna", is_bot=False)
BERT = Person(id=12, login="bert", is_bot=False)


def _payloads() -> list[tuple[str, dict[str, Any]]]:
    packed = Path(__file__).parent.parent / "payloads" / "webhooks-examples.json.gz"
    events = json.loads(gzip.decompress(packed.read_bytes()))
    return [(event["name"], payload) for event in events for payload in event["examples"]]


PAYLOADS = _payloads()


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def repository() -> dict[str, Any]:
    return {
        "id": 7,
        "name": "sample",
        "full_name": "octo/sample",
        "owner": {"login": "octo", "id": 1},
        "default_branch": "main",
        "clone_url": "https://github.test/octo/sample.git",
    }


def user(id: int, login: str, kind: str = "User") -> dict[str, Any]:
    return {"id": id, "login": login, "type": kind}


def comment_payload() -> dict[str, Any]:
    return {
        "action": "created",
        "installation": {"id": 5, "node_id": "x"},
        "repository": repository(),
        "issue": {
            "number": 3,
            "title": "It breaks",
            "body": "Steps:\r\n1. run",
            "user": user(11, "anna"),
            "state": "open",
            "locked": False,
        },
        "comment": {
            "id": 99,
            "body": "/coder fix\r\nthe empty list",
            "user": user(12, "bert"),
            "created_at": "2026-11-30T10:00:00Z",
        },
        "sender": user(12, "bert"),
    }


def dumped(payload: object) -> bytes:
    return json.dumps(payload).encode()


# Signatures


def test_the_documented_example_is_accepted() -> None:
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert verify("It's a Secret to Everybody", b"Hello, World!", f"sha256={digest}")


def test_the_raw_bytes_are_what_counts() -> None:
    body = '{ "b" :  "caf\\u00e9 \N{ROCKET}",\t"a":1 }'.encode()
    assert verify(SECRET, body, sign(body))
    assert not verify(SECRET, dumped(json.loads(body)), sign(body))


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha1=" + hmac.new(SECRET.encode(), b"{}", hashlib.sha1).hexdigest(),
        sign(b"{}")[:-1],
        sign(b"{}") + "0",
        sign(b"{}").removeprefix("sha256="),
        sign(b"{}").upper(),
        sign(b"{}", "another secret"),
        "sha256=" + "\xe9" * 64,
        "sha256=" + "\ud800" * 64,
        "sha256=" + "\N{FULLWIDTH DIGIT ONE}" * 64,
    ],
)
def test_every_other_signature_is_refused(signature: str | None) -> None:
    assert not verify(SECRET, b"{}", signature)


def test_an_empty_secret_lets_nobody_in() -> None:
    assert not verify("", b"{}", sign(b"{}", ""))


def test_a_secret_that_is_not_utf8_is_used_as_the_bytes_it_was_set_to() -> None:
    raw = b"caf\xe9"
    signature = "sha256=" + hmac.new(raw, b"{}", hashlib.sha256).hexdigest()
    assert verify(raw.decode("utf-8", "surrogateescape"), b"{}", signature)


@given(st.binary(), st.none() | st.text(st.characters()))
def test_no_header_makes_verifying_raise_or_pass(body: bytes, signature: str | None) -> None:
    assert verify(SECRET, body, signature) is False


# Events


def test_a_comment_is_read_whole() -> None:
    assert parse("issue_comment", dumped(comment_payload())) == Commented(
        installation_id=5,
        repository=REPOSITORY,
        number=3,
        is_pull_request=False,
        title="It breaks",
        body="Steps:\r\n1. run",
        author=ANNA,
        is_open=True,
        is_locked=False,
        comment_id=99,
        comment_body="/coder fix\r\nthe empty list",
        commenter=BERT,
        created_at=datetime(2026, 11, 30, 10, tzinfo=UTC),
    )


def test_a_comment_on_a_closed_locked_pull_request_by_a_bot_says_all_of_that() -> None:
    payload = comment_payload()
    payload["issue"] |= {"pull_request": {"url": "https://github.test"}, "state": "closed", "locked": True}
    payload["comment"]["user"] = payload["sender"] = user(13, "helper[bot]", "Bot")
    event = parse("issue_comment", dumped(payload))
    assert isinstance(event, Commented)
    assert (event.is_pull_request, event.is_open, event.is_locked, event.commenter.is_bot) == (
        True,
        False,
        True,
        True,
    )


def test_bodies_that_are_null_are_empty_and_deleted_authors_are_ghosts() -> None:
    payload = comment_payload()
    payload["issue"] |= {"body": None, "user": None}
    payload["comment"]["body"] = None
    event = parse("issue_comment", dumped(payload))
    assert isinstance(event, Commented)
    assert (event.body, event.comment_body, event.author) == ("", "", GHOST)


def test_a_comment_whose_writer_is_deleted_is_ignored() -> None:
    payload = comment_payload()
    payload["comment"]["user"] = None
    assert parse("issue_comment", dumped(payload)) == Ignored(reason="the commenter's account is deleted")


def test_a_comment_that_somebody_else_sent_is_ignored() -> None:
    payload = comment_payload() | {"sender": user(11, "anna")}
    event = parse("issue_comment", dumped(payload))
    assert event == Ignored(reason="the comment was sent by somebody else than its author")


def test_the_app_a_comment_came_through_and_what_the_repository_is_are_kept() -> None:
    payload = comment_payload()
    payload["comment"]["performed_via_github_app"] = {"id": 77, "slug": "x"}
    payload["repository"] |= {"archived": True, "has_issues": False}
    event = parse("issue_comment", dumped(payload))
    assert isinstance(event, Commented)
    assert (event.via_app, event.repository.archived, event.repository.has_issues) == (77, True, False)
    payload["comment"]["performed_via_github_app"] = None
    event = parse("issue_comment", dumped(payload))
    assert isinstance(event, Commented)
    assert event.via_app is None


def marked_payload(action: str, **what: object) -> dict[str, Any]:
    payload = comment_payload()
    del payload["comment"]
    payload["issue"]["updated_at"] = "2026-11-30T10:00:00Z"
    return payload | {"action": action, **what}


@pytest.mark.parametrize(
    ("action", "what", "label", "assignee"),
    [
        ("labeled", {"label": {"id": 1, "name": "fix-me"}}, "fix-me", None),
        ("assigned", {"assignee": user(11, "anna")}, None, ANNA),
    ],
)
def test_a_label_and_an_assignment_say_who_did_it_and_how_the_issue_was(
    action: str, what: dict[str, Any], label: str | None, assignee: Person | None
) -> None:
    assert parse("issues", dumped(marked_payload(action, **what))) == Marked(
        installation_id=5,
        repository=REPOSITORY,
        number=3,
        title="It breaks",
        body="Steps:\r\n1. run",
        author=ANNA,
        is_open=True,
        is_locked=False,
        label=label,
        assignee=assignee,
        actor=BERT,
        created_at=datetime(2026, 11, 30, 10, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (marked_payload("labeled"), "the label is deleted"),
        (marked_payload("labeled", label=None), "the label is deleted"),
        (marked_payload("assigned", assignee=None), "the assignee's account is deleted"),
        (marked_payload("labeled", label={"name": "x"}, sender=None), "the account that did it is deleted"),
        (marked_payload("unlabeled", label={"name": "x"}), "issues.unlabeled is not used"),
        (marked_payload("unassigned", assignee=user(11, "anna")), "issues.unassigned is not used"),
    ],
)
def test_a_mark_of_which_something_is_missing_is_ignored(payload: dict[str, Any], reason: str) -> None:
    assert parse("issues", dumped(payload)) == Ignored(reason=reason)


@pytest.mark.parametrize("moment", [None, "", "yesterday", "2026-11-30T10:00:00", 5])
def test_a_mark_without_a_moment_is_malformed(moment: object) -> None:
    payload = marked_payload("labeled", label={"name": "x"})
    payload["issue"]["updated_at"] = moment
    with pytest.raises(Malformed):
        parse("issues", dumped(payload))


def test_a_title_is_cut_and_a_nul_in_a_text_is_replaced() -> None:
    payload = comment_payload()
    payload["issue"] |= {"title": "word " * 1000, "body": "a\0b"}
    event = parse("issue_comment", dumped(payload))
    assert isinstance(event, Commented)
    assert event.title == "word " * (TITLE_LIMIT // 5)  # no word is cut in two: it might be half of a secret
    assert event.body == "a\N{REPLACEMENT CHARACTER}b"


def test_a_closed_issue_is_read() -> None:
    payload = comment_payload() | {"action": "closed"}
    assert parse("issues", dumped(payload)) == Closed(
        installation_id=5, repository=REPOSITORY, number=3, is_pull_request=False, merged=False, actor=BERT
    )


@pytest.mark.parametrize("merged", [True, False])
def test_a_closed_pull_request_says_whether_it_was_merged(merged: bool) -> None:
    payload = {
        "action": "closed",
        "installation": {"id": 5},
        "repository": repository(),
        "pull_request": {"number": 4, "merged": merged},
        "sender": None,
    }
    assert parse("pull_request", dumped(payload)) == Closed(
        installation_id=5, repository=REPOSITORY, number=4, is_pull_request=True, merged=merged, actor=GHOST
    )


@pytest.mark.parametrize(("action", "reason"), [("deleted", "uninstalled"), ("suspend", "the App is suspended")])
def test_an_installation_that_ends_takes_everything_with_it(action: str, reason: str) -> None:
    payload = {"action": action, "installation": {"id": 5}}
    expected = Uninstalled(installation_id=5, repository_ids=None, reason=reason)
    assert parse("installation", dumped(payload)) == expected


def test_repositories_taken_from_the_app_are_named() -> None:
    payload = {"action": "removed", "installation": {"id": 5}, "repositories_removed": [{"id": 7}, {"id": 8}]}
    event = parse("installation_repositories", dumped(payload))
    assert event == Uninstalled(installation_id=5, repository_ids=(7, 8))


@pytest.mark.parametrize(
    ("event", "payload", "reason"),
    [
        ("ping", {"zen": "Keep it simple.", "hook_id": 1}, "ping is not used"),
        ("sub_issues", {"action": "sub_issue_added"}, "sub_issues.sub_issue_added is not used"),
        ("issues", {"action": "pinned"}, "issues.pinned is not used"),
        ("issues", {"action": "edited"}, "issues.edited is not used"),
        ("issue_comment", {"action": "deleted"}, "issue_comment.deleted is not used"),
        ("pull_request", {"action": "stacked"}, "pull_request.stacked is not used"),
        ("issue_comment", {"action": "edited"}, "issue_comment.edited is not used"),
        ("issue_comment", {}, "issue_comment is not used"),
        ("issue_comment", {"action": ["created"]}, "issue_comment is not used"),
    ],
)
def test_events_and_actions_without_use_are_ignored(event: str, payload: dict[str, Any], reason: str) -> None:
    assert parse(event, dumped(payload)) == Ignored(reason=reason)


@pytest.mark.parametrize("installation", [{}, {"installation": None}])
def test_an_event_of_another_webhook_is_ignored(installation: dict[str, Any]) -> None:
    payload = comment_payload()
    del payload["installation"]
    event = parse("issue_comment", dumped(payload | installation))
    assert isinstance(event, Ignored)
    assert "names no installation" in event.reason


def changed(path: str, value: object) -> bytes:
    payload = copy.deepcopy(comment_payload())
    place = payload
    *way, last = path.split(".")
    for step in way:
        place = place[step]
    place[last] = value
    return dumped(payload)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("installation.id", "5"),
        ("installation.id", True),
        ("installation.id", 2**63),
        ("installation.id", 0),
        ("installation", []),
        ("repository.id", 7.5),
        ("repository.owner", None),
        ("issue.number", -3),
        ("issue.title", None),
        ("issue.pull_request", "yes"),
        ("comment.body", 3),
        ("comment.created_at", "yesterday"),
        ("comment.created_at", "2026-11-30T10:00:00"),
        ("comment.user", "bert"),
    ],
)
def test_a_known_event_of_a_wrong_shape_is_malformed_and_says_where(path: str, value: object) -> None:
    with pytest.raises(Malformed, match=path.split(".")[0]):
        parse("issue_comment", changed(path, value))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"text"',
        b"5",
        dumped(comment_payload())[:-20],
        b"\xff\xfe{\x00}\x00",
        b'{"action": "caf\xe9"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"action": "\\ud800"}',
        b"payload=%7B%7D",
    ],
)
@pytest.mark.parametrize("event", ["issue_comment", "ping"])
def test_what_is_no_json_object_is_malformed_whatever_the_event(event: str, body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        parse(event, body)
    assert str(caught.value) == f"The payload of {event} is not what GitHub sends: the body is wrong."


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999", b"9" * 5000])
def test_numbers_that_are_none_do_no_harm(number: bytes) -> None:
    body = dumped(comment_payload()).replace(b'"number": 3', b'"number": ' + number)
    assert number in body
    with pytest.raises(Malformed):
        parse("issue_comment", body)


# Real payloads


def test_all_examples_are_here() -> None:
    assert len(PAYLOADS) == 329
    assert len({name for name, _ in PAYLOADS}) == 58


def test_every_example_is_understood_and_those_we_use_are_not_ignored() -> None:
    used = {
        ("issue_comment", "created"): Commented,
        ("issues", "closed"): Closed,
        ("issues", "labeled"): Marked,
        ("issues", "assigned"): Marked,
        ("pull_request", "closed"): Closed,
        ("pull_request", "synchronize"): Pushed,
        ("issues", "deleted"): Closed,
        ("issues", "transferred"): Closed,
        ("pull_request_review", "submitted"): Reviewed,
        ("pull_request_review_comment", "created"): Reviewed,
        ("check_suite", "completed"): ChecksEnded,
        ("workflow_run", "completed"): ChecksEnded,
        ("repository", "renamed"): Renamed,
        ("repository", "transferred"): Renamed,
        ("repository", "archived"): Uninstalled,
        ("repository", "deleted"): Uninstalled,
        ("installation", "deleted"): Uninstalled,
        ("installation", "suspend"): Uninstalled,
        ("installation_repositories", "removed"): Uninstalled,
    }
    for name, payload in PAYLOADS:
        expected: type[object] = used.get((name, payload.get("action", "")), Ignored)
        if "installation" not in payload:
            expected = Ignored
        assert isinstance(parse(name, dumped(payload)), expected), (name, payload.get("action"))


def test_every_example_of_a_used_event_is_understood_as_the_apps_own() -> None:
    # Most examples of comments come from repositories' own webhooks; the App's differ by `installation` alone.
    wanted = {
        "issue_comment": ("created", Commented),
        "pull_request": ("closed", Closed),
        "issues": ("closed", Closed),
        "pull_request_review": ("submitted", Reviewed),
        "pull_request_review_comment": ("created", Reviewed),
        "check_suite": ("completed", ChecksEnded),
        "workflow_run": ("completed", ChecksEnded),
        "repository": ("renamed", Renamed),
    }
    seen = 0
    for name, payload in PAYLOADS:
        if name in wanted:
            action, kind = wanted[name]
            body = dumped(payload | {"action": action, "installation": {"id": 5}})
            assert isinstance(parse(name, body), kind)
            seen += 1
    assert seen == 9 + 29 + 29 + 4 + 5 + 9 + 5 + 13


# Anything

EVENTS = st.sampled_from(
    ["issue_comment", "issues", "pull_request", "installation", "installation_repositories", "ping", "nonsense"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["created", "closed", "removed"])
)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(EVENTS, st.binary())
@example("issue_comment", b'{"action": "created", "installation": 1e400}')
def test_no_bytes_raise_anything_but_malformed(event: str, body: bytes) -> None:
    try:
        said = parse(event, body)
    except Malformed:
        return
    assert isinstance(said, Ignored)


@settings(max_examples=200)
@given(st.data())
def test_no_value_in_any_place_raises_anything_but_malformed(data: st.DataObject) -> None:
    payload = comment_payload()
    place: Any = payload
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    try:
        event = parse(data.draw(EVENTS), dumped(payload))
    except Malformed:
        return
    assert isinstance(event, Commented | Marked | Closed | Uninstalled | Ignored)
