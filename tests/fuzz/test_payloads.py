"""Whatever comes signed to the door, however wrong: no 5xx, no stage that crashes, no task, and the bot goes on.

`make fuzz` sends more of it. CODER_FUZZ_SEED picks other payloads, CODER_FUZZ_EXAMPLES a tenth of how many."""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import httpx
import structlog

from bot.db.store import Store
from bot.demo.reviews import Inline
from bot.demo.state import ReviewState
from bot.domain.task import State
from bot.github import webhook
from tests.stories.harness import REPOSITORY, Story, fix, story, submit, with_config
from tests.stories.test_deliveries import signed
from tests.stories.test_payloads import EXAMPLES

SEED = int(os.environ.get("CODER_FUZZ_SEED", "1"))
COUNT = 10 * int(os.environ.get("CODER_FUZZ_EXAMPLES", "100"))
AT_ONCE = 20
OWNERS = 4
TRIES = 6
"""How often the bot is let work, each time an hour later; a stage is given up before that."""

RULES = "trigger: {label: coder, assignee: true}\nchecks: [{name: tests, run: python3 -m pytest -q}]\n"


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One delivery as it goes over the wire, but for its signature."""

    event: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


# What no encoder of JSON writes: stands in the text instead of the marker.
RAW = {
    "@deep": b"[" * 3_000 + b"]" * 3_000,
    "@deeper": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "@huge": b"9" * 5_000,
    "@infinite": b"1e999",
    "@minus": b"-Infinity",
    "@nan": b"NaN",
    "@half": b'"\\ud800"',
    "@halves": b'"\\udc00\\ud83d /coder fix"',
    "@latin": b'"\xe9\xff"',
    "@trailing": b"[1,]",
}
STRANGE: list[Any] = [
    *(
        None,
        True,
        False,
        [],
        {},
        "",
        "\0",
        "a\0b",
        "\ufffe",
        "..",
        "../..",
        "/",
        "%2f..%2f",
        "a b",
        "-",
        "@",
        "💥",
        "\n",
    ),
    *(0, -1, 1, 1.5, 1.0, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308, -0.0),
    *(
        "0",
        "1",
        "true",
        "null",
        "2026-13-45T99:99:99Z",
        "2026-01-01",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
    ),
    *(
        "x" * 300,
        "x" * 100_000,
        "é" * 70_000,
        "/coder fix",
        "/coder " * 2_000,
        "/coder\0fix",
        "> /coder fix\n",
        "<!--",
    ),
    *([None], [[]], [{}], {"id": 1}, {"id": "1"}, {"": ""}, {"login": "maintainer"}, *RAW),
]
EVENTS = [
    *("issue_comment", "issues", "pull_request", "pull_request_review", "pull_request_review_comment"),
    *("installation", "installation_repositories", "check_suite", "check_run", "workflow_run", "push", "ping"),
    *("repository", "label", "ISSUES", "issues.closed", "../issues", "issue_comment\xe9", "x" * 100, "x" * 5_000),
]
ACTIONS = [
    *(
        "created",
        "edited",
        "deleted",
        "opened",
        "closed",
        "reopened",
        "labeled",
        "unlabeled",
        "assigned",
        "synchronize",
    ),
    *("submitted", "dismissed", "completed", "suspend", "unsuspend", "removed", "added", "renamed", "transferred"),
    *("archived", "locked", "unlocked", "converted_to_draft", "review_requested", "Created", "", " created", None, 1),
]
KEYS = ["id", "action", "sender", "installation", "body", "state", "user", "__proto__", "", "é", "\0", "kind"]


class Twice(dict[str, Any]):
    """An object one of whose keys comes twice, the second time with another value."""

    def __init__(self, values: dict[str, Any], key: str, other: Any) -> None:
        super().__init__(values)
        self._more = (key, other)

    def items(self) -> Any:
        return [*super().items(), self._more]


def letters(seed: int, originals: list[tuple[str, dict[str, Any]]]) -> Iterator[Letter]:
    source = random.Random(seed)
    while True:
        event, payload = source.choice(originals)
        payload = _anew(source, copy.deepcopy(payload))
        for _ in range(source.choice((1, 1, 1, 2, 3, 8))):
            payload = _mutated(source, payload)
        if source.random() < 0.15:
            payload["action"] = source.choice(ACTIONS)
        if source.random() < 0.15:
            event = source.choice(EVENTS)
        letter = Letter(event=event, body=_text(payload))
        yield _on_the_way(source, letter) if source.random() < 0.2 else letter


def _anew(source: random.Random, payload: dict[str, Any]) -> dict[str, Any]:
    """Something that has not been said before, so that it is not taken for a duplicate."""
    if payload.get("comment") is not None and source.random() < 0.5:
        payload["comment"]["id"] = source.randrange(10**6, 10**12)
    if payload.get("issue") is not None:
        payload["issue"]["updated_at"] = f"20{source.randrange(10, 99)}-01-01T00:00:{source.randrange(10, 60)}Z"
    return payload


def _mutated(source: random.Random, payload: dict[str, Any]) -> dict[str, Any]:
    places = list(_places(payload)) or [({"": None}, "")]
    holder, key = source.choice(places)
    strange = copy.deepcopy(source.choice(STRANGE))
    match source.randrange(7):
        case 0:
            del holder[key]
        case 1 | 2:
            holder[key] = strange
        case 3:
            other, where = source.choice(places)
            holder[key] = copy.deepcopy(other[where])
        case 4:
            holder[key] = [holder[key]] if source.random() < 0.5 else {source.choice(KEYS): holder[key]}
        case 5 if isinstance(holder, dict):
            holder[source.choice(KEYS)] = holder.pop(key)
        case _ if isinstance(holder, dict):
            payload = _replaced(payload, holder, Twice(holder, key, strange))
        case _:
            holder.append(strange)
    return payload


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every key of every object, and every place of every list, at any depth, with what holds it."""
    for key, inner in list(enumerate(value)) if isinstance(value, list) else list(dict.items(value)):
        yield value, key
        if isinstance(inner, dict | list) and not isinstance(inner, Twice):
            yield from _places(inner)


def _replaced(value: Any, old: dict[str, Any], new: dict[str, Any]) -> Any:
    if value is old:
        return new
    if isinstance(value, list):
        return [_replaced(inner, old, new) for inner in value]
    if isinstance(value, dict) and not isinstance(value, Twice):
        return {key: _replaced(inner, old, new) for key, inner in value.items()}
    return value


def _text(payload: Any) -> bytes:
    body = json.dumps(payload).encode()
    for marker, raw in RAW.items():
        body = body.replace(f'"{marker}"'.encode(), raw)
    return body


def _on_the_way(source: random.Random, letter: Letter) -> Letter:
    """The bytes or the headers are not what they were."""
    body, headers = letter.body, letter.headers
    place = source.randrange(len(body))
    ways: list[Callable[[], tuple[bytes, dict[str, str]]]] = [
        lambda: (body[:place], headers),
        lambda: (body[:place] + source.randbytes(4) + body[place:], headers),
        lambda: (body + b"}", headers),
        lambda: (b"", headers),
        lambda: (b"\xef\xbb\xbf" + body, headers),
        lambda: (body.decode("latin-1").encode("utf-16"), headers),
        lambda: (body.decode("latin-1").encode("utf-32-be"), headers),
        lambda: (gzip.compress(body), {"content-encoding": "gzip"}),
        lambda: (b"payload=" + body, {"content-type": "application/x-www-form-urlencoded"}),
        lambda: (
            body,
            {"content-type": source.choice(["text/plain", "", "application/json; charset=utf-16", "a/b;c"])},
        ),
        lambda: (body, {"content-type": "application/json;" + "x" * 3_000}),
        lambda: (
            body,
            {"x-github-delivery": source.choice(["", "x" * 100, "x" * 500, "..", "é", "0", "a b", "'\""])},
        ),
    ]
    body, more = source.choice(ways)()
    return Letter(event=letter.event, body=body, headers=more)


async def of_this_github(s: Story) -> list[tuple[str, dict[str, Any]]]:
    """What people do for which no task is due; the bot is told of none of it. In several installations, for one is
    not written to more often than GitHub likes."""
    url, s.github.webhook_url = s.github.webhook_url, None
    for number in range(OWNERS):
        name = f"octo-{number}/sample"
        await s.github.create_repository(name, with_config(RULES))
        s.github.grant(name, "maintainer", "write")
        issue = s.github.open_issue(name, title="Another", body="/coder fix", author="reporter").number
        for author, text in (
            ("maintainer", "It is `/coder fix` that would mend this."),
            ("maintainer", "/coder help"),
            ("maintainer", "/coder fxi"),
            ("maintainer", "/coder status"),
            ("stranger", "/coder fix"),
            ("stranger", "/coder stop"),
        ):
            await s.github.comment(name, issue, text, author=author)
        said = s.github.issue_comments(name, issue)[0]
        await s.github.edit_comment(name, said.id, "/coder fix", author="maintainer")
        await s.github.label(name, issue, "bug", author="maintainer")
        await s.github.label(name, issue, "coder", author="stranger")
        await s.github.assign(name, issue, "maintainer", author="maintainer")
        await s.github.close_issue(name, issue, author="maintainer")
        await s.github.comment(name, issue, "/coder fix", author="maintainer")
    s.github.webhook_url = url
    return [(delivery.event, delivery.payload) for delivery in s.github.deliveries]


def broken(event: str, payload: dict[str, Any]) -> Iterator[Letter]:
    """A command that would start a task, but for one thing without which nothing can be done."""
    for path in (
        *("action", "installation", "installation.id", "repository", "repository.id", "repository.owner"),
        *("repository.owner.login", "repository.name", "repository.default_branch", "repository.clone_url"),
        *("issue", "issue.number", "issue.title", "issue.state", "comment", "comment.id", "comment.body"),
        *("comment.user", "comment.user.id", "comment.user.login", "comment.created_at"),
    ):
        *above, last = path.split(".")
        wrongs: tuple[Any, ...] = (None, [], -1, "@half", "@huge", "x\0")
        for wrong in wrongs:
            made = copy.deepcopy(payload)
            holder = made
            for part in above:
                holder = holder[part]
            if wrong is None:
                del holder[last]
            else:
                holder[last] = wrong
            if path not in ("issue.title", "comment.user.login") or wrong != "x\0":
                yield Letter(event=event, body=_text(made))


async def post(s: Story, client: httpx.AsyncClient, guid: str, letter: Letter) -> tuple[int, str]:
    headers = {
        "content-type": "application/json",
        "x-github-event": letter.event,
        "x-github-delivery": guid,
        **signed(s, letter.body),
        **letter.headers,
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    answer = await client.post(s.github.webhook_url or "", content=letter.body, headers=raw)
    return answer.status_code, answer.text


async def send(s: Story, name: str, every: list[Letter]) -> Counter[int]:
    """Posts some at once, and lets the bot work until nothing is due; how often each status was answered."""
    found: Counter[int] = Counter()
    with structlog.testing.capture_logs([structlog.processors.format_exc_info]) as logs:
        async with httpx.AsyncClient(timeout=60) as client:
            for start in range(0, len(every), AT_ONCE):
                batch = every[start : start + AT_ONCE]
                posts = (post(s, client, f"{name}-{start + place}", letter) for place, letter in enumerate(batch))
                for letter, (status, text) in zip(batch, await asyncio.gather(*posts), strict=True):
                    assert status < 500, f"seed {SEED}: {status} {text} for {letter.event} {letter.body[:2_000]!r}"
                    found[status] += 1
        for _ in range(TRIES):
            await s.settle_later()
    assert [line["exception"][-2_000:] for line in logs if "exception" in line] == []
    assert await s.bot.deps.store.jobs() == []
    return found


async def on_its_pull_request(s: Story) -> list[tuple[str, dict[str, Any]]]:
    """What people do on a pull request that asks the bot for nothing; the bot is told of none of it."""
    url, s.github.webhook_url = s.github.webhook_url, None
    known = len(s.github.deliveries)
    [pull] = s.pull_requests
    line = Inline(path="calc.py", line=2, body="/coder fix")
    reviews: tuple[tuple[str, ReviewState], ...] = (
        ("stranger", "changes_requested"),
        ("stranger", "commented"),
        ("maintainer", "approved"),
    )
    for author, state in reviews:
        said = [line] if author == "stranger" else []
        await s.github.review(REPOSITORY, pull.number, state=state, body="So.", comments=said, author=author)
    await s.github.comment(REPOSITORY, pull.number, "/coder fix", author="stranger")
    await s.github.ci(REPOSITORY, pull.head_sha)
    s.github.webhook_url = url
    return [(delivery.event, delivery.payload) for delivery in s.github.deliveries[known:]]


async def test_mutated_payloads_are_answered_worked_through_and_start_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    examples = json.loads(gzip.decompress(EXAMPLES.read_bytes()))
    official = [(event["name"], example) for event in examples for example in event["examples"]]
    async with story(with_config(RULES)) as s:
        ours = await of_this_github(s)
        command = next(payload for _, payload in ours if payload.get("comment", {}).get("body") == "/coder help")
        command = {**command, "comment": {**command["comment"], "id": 1_000_000, "body": "/coder fix"}}
        # A third of it is ours: only what is about our own repositories gets further than the door.
        originals = official + ours * (len(official) // len(ours) // 2)
        sent = [*islice(letters(SEED, originals), COUNT), *broken("issue_comment", command)]
        answers = await send(s, "before", sent)
        assert await s.bot.deps.store.tasks() == []
        s.script(fix(), submit())
        await s.comment("/coder fix")
        await s.settle()
        assert [task.state for task in await s.bot.deps.store.tasks()] == [State.IN_REVIEW]
        more = list(islice(letters(SEED, await on_its_pull_request(s)), COUNT // 10))
        answers += await send(s, "then", more)
        [task] = await s.bot.deps.store.tasks()
        assert (task.state, len(await s.bot.deps.store.episodes(task.id))) == (State.IN_REVIEW, 1)
        assert answers[202] > COUNT / 3 < answers.total() - answers[202], "both answers have to be tried"
        said = ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
        record_property(
            "says", f"payloads, seed {SEED}: {answers.total()} were answered ({said}), none started a task"
        )


async def test_whatever_is_read_can_be_stored(store: Store) -> None:
    """In both databases: what SQLite takes, Postgres may refuse."""
    examples = json.loads(gzip.decompress(EXAMPLES.read_bytes()))
    official = [(event["name"], example) for event in examples for example in event["examples"]]
    labeled = next(payload for name, payload in official if name == "issues" and payload["action"] == "labeled")
    ours = {**labeled, "installation": {"id": 1}}
    long = random.Random(SEED).randbytes(20_000).hex()
    known = [{**ours, "action": "a\0b"}, {**ours, "label": {**labeled["label"], "name": long}}]
    read = [(name, payload) for name, payload in official if "installation" in payload]
    every = [*islice(letters(SEED, read), COUNT // 4), *(Letter(event="issues", body=_text(body)) for body in known)]
    stored = 0
    for number, letter in enumerate(every):
        try:
            event = webhook.parse(letter.event, letter.body)
        except webhook.Malformed:
            continue
        stored += await store.accept(f"guid-{number}", "issues", event, now=datetime.now(UTC))
    assert stored > COUNT // 8
