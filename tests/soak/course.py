"""What people do in a soak: for each issue a small history, made from a seed.

The right end of each history follows from what was done, whatever the order in which the bot hears of it. So nothing
is in it that means something else a moment earlier or later: no two commands that start work on one issue in the same
chapter (the later one is told that the bot is at work, or is a request of its own), and no `stop`, `finish` or
`status` while there is work."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from bot.demo.github import LocalGitHub
from bot.demo.reviews import Inline
from bot.demo.state import ReviewState
from tests.stories.harness import FILES, call, say, submit

Where = Literal["issue", "pull"]

PLAIN, CAREFUL, STUBBORN = "sample", "careful", "stubborn"
ISSUES_OF_AN_OWNER = 10
"""GitHub lets each installation make so much content in an hour, and the bot keeps to that: the issues are spread."""
CHECKS = "checks: [{name: tests, run: python3 -m pytest -q, timeout: 1m}]\n"
RULES: Mapping[str, str] = {
    PLAIN: f"trigger: {{label: coder}}\n{CHECKS}",
    CAREFUL: f"pull_request: {{publish: after_approval}}\n{CHECKS}",
    STUBBORN: "limits: {attempts: 1}\nchecks: [{name: tests, run: python3 -m pytest -q && false}]\n",
}
SCRIPT = (
    say(
        call("edit_file", path="notes.txt", old="two", new="three"),
        call("edit_file", path="notes.txt", old="one", new="two"),
        call("edit_file", path="calc.py", old="return a - b", new="return a + b"),
    ),
    submit(),
)
"""The same for each episode; the first of a task makes of the notes what the second finds."""

TALK = ("Same here.", "It worked last week.", "> /coder fix\n\nWhat would that do?", "Try `/coder fix`.", "Ping?")
PEOPLE = ("maintainer", "second")
STRANGERS = ("stranger", "reader")


@dataclass(frozen=True, kw_only=True)
class Say:
    """Comments on the issue or on its pull request; with `then`, edits that comment afterwards."""

    text: str
    by: str = "maintainer"
    on: Where = "issue"
    then: str | None = None


@dataclass(frozen=True, kw_only=True)
class Label:
    label: str
    by: str = "maintainer"
    takes_away: bool = False


@dataclass(frozen=True, kw_only=True)
class Assign:
    to: str


@dataclass(frozen=True, kw_only=True)
class Close:
    """Closes the issue or the pull request."""

    on: Where = "issue"


@dataclass(frozen=True, kw_only=True)
class Reopen:
    """Opens the issue again."""


@dataclass(frozen=True, kw_only=True)
class Merge:
    """Merges the pull request, which closes the issue as well."""


@dataclass(frozen=True, kw_only=True)
class Push:
    """A person's commit on the pull request's branch."""


@dataclass(frozen=True, kw_only=True)
class Review:
    """Reviews the pull request."""

    state: ReviewState = "commented"
    body: str = ""
    lines: tuple[Inline, ...] = ()
    by: str = "second"
    lines_first: bool = False
    """Whether GitHub tells of the comments on lines before it tells of the review."""


Act = Say | Label | Assign | Close | Reopen | Merge | Push | Review


@dataclass(frozen=True, kw_only=True)
class History:
    """What happens to one issue, in chapters between which the bot comes to rest."""

    owner: str = "octo"
    name: str = PLAIN
    kind: str
    chapters: tuple[tuple[Act, ...], ...]

    @property
    def repository(self) -> str:
        return f"{self.owner}/{self.name}"


FIX = Say(text="/coder fix")
WHY = Inline(path="calc.py", line=2, body="Why plus?")
MORE = Inline(path="notes.txt", line=1, body="One more.")
REFUSED_REVIEW = Review(state="changes_requested", body="No.", lines=(MORE,), by="stranger")
APPROVE = Say(text="/coder approve", by="second")

_WORK: Mapping[str, tuple[str, tuple[Act, ...]]] = {
    "fix": (PLAIN, (FIX,)),
    "fix, edited away": (PLAIN, (Say(text="/coder fix", then="Never mind."),)),
    "fix by another": (PLAIN, (Say(text="Please:\n\n/coder fix\n\nBoth signs.", by="second"),)),
    "label": (PLAIN, (Label(label="coder"),)),
    "label, twice": (
        PLAIN,
        (Label(label="coder"), Label(label="coder", takes_away=True), Label(label="coder")),
    ),
    "fix, closed and reopened": (PLAIN, (FIX, Close(), Reopen())),
    "closed and reopened, fix": (PLAIN, (Close(), Reopen(), FIX)),
    "to be approved": (CAREFUL, (FIX,)),
    "checks that fail": (STUBBORN, (FIX,)),
}
"""Beginnings that come to a task."""

_NO_WORK: Mapping[str, tuple[Act, ...]] = {
    "talk": (),
    "a stranger's fix": (Say(text="/coder fix", by="stranger"),),
    "edited into a fix": (Say(text="Let me see.", then="/coder fix"),),
    "fix, then closed": (FIX, Close()),
    "closed": (Close(),),
    "a stranger's label": (Label(label="coder", by="stranger"),),
}
"""Beginnings that come to none."""

_ON_PULL: Mapping[str, tuple[Act, ...]] = {
    "nothing": (),
    "talk": (Say(text="Looks good.", on="pull"), Say(text="/coder help", on="pull")),
    "a stranger's fix": (Say(text="/coder fix", by="stranger", on="pull"),),
    "status": (Say(text="/coder status", on="pull"),),
    "stop": (Say(text="/coder stop", on="issue"),),
    "push": (Push(),),
    "approved": (Review(state="approved", body="Good.", lines=(WHY,)),),
    "a stranger's review": (REFUSED_REVIEW,),
}
"""What is said of a pull request, or in it, and starts no work."""

_MORE_WORK: Mapping[str, tuple[Act, ...]] = {
    "more": (Say(text="/coder fix Count on in the notes.", on="pull"),),
    "more, from the issue": (Say(text="/coder fix Count on in the notes.", by="second"),),
    "changes requested": (
        Review(state="changes_requested", body="Count on in the notes.", lines=(WHY, MORE)),
        Say(text="I have reviewed it.", by="second", on="pull"),
    ),
    "changes requested, lines first": (
        Review(state="changes_requested", lines=(WHY, MORE), by="maintainer", lines_first=True),
    ),
    "a fix on a line": (Review(lines=(WHY, Inline(path="notes.txt", line=1, body="/coder fix Count on."))),),
}

_ENDS: Mapping[str, tuple[Act, ...]] = {
    "merged": (Merge(),),
    "closed": (Close(on="pull"),),
    "issue closed, then merged": (Close(), Merge()),
    "both closed": (Close(), Close(on="pull")),
    "left open": (Say(text="Later."),),
}

FEW = (
    History(
        kind="closed and reopened, then merged",
        chapters=(
            (Say(text="Same here."), FIX, Close(), Reopen(), Say(text="/coder help", by="second")),
            (REFUSED_REVIEW, Say(text="/coder fix", by="stranger", on="pull")),
            (Close(), Merge()),
        ),
    ),
    History(
        kind="closed before the bot hears of it",
        chapters=((FIX, Say(text="/coder fxi"), Close()), (FIX,), (Say(text="I see.", by="reader"),)),
    ),
    History(
        kind="nothing that counts",
        chapters=(
            (
                Say(text="Let me see.", then="/coder fix"),
                Say(text="/coder fix", by="stranger"),
                Say(text="/coder stop", by="stranger"),
                Label(label="coder", by="reader"),
            ),
            (Label(label="bug"), Say(text="> /coder fix")),
            (Say(text="/coder config"),),
        ),
    ),
)
"""What `make test` tries."""

TASKS = 1 / 3
"""About how many issues come to a task."""


def course(seed: int, issues: int) -> list[History]:
    source = random.Random(seed)
    works = round(issues * TASKS)
    kinds = [*_cycled(source, _WORK, works), *_cycled(source, _NO_WORK, issues - works)]
    source.shuffle(kinds)
    made = [_with_work(source, kind) if kind in _WORK else _without(source, kind) for kind in kinds]
    return [replace(each, owner=f"octo-{place // ISSUES_OF_AN_OWNER}") for place, each in enumerate(made)]


def _cycled(source: random.Random, kinds: Mapping[str, object], count: int) -> list[str]:
    """Each kind as often as the others, in random order."""
    found: list[str] = []
    while len(found) < count:
        found += source.sample(sorted(kinds), len(kinds))
    return found[:count]


def _with_work(source: random.Random, kind: str) -> History:
    name, begins = _WORK[kind]
    then: Sequence[Act]
    match name:
        case "careful":
            then = source.choice([(APPROVE,), (Say(text="Wait."),)])
        case "stubborn":
            then = source.choice(
                [(Say(text="/coder retry"),), (Say(text="/coder status"),), (Say(text="/coder stop"),)]
            )
        case _:
            then = source.choice([*_ON_PULL.values(), *_MORE_WORK.values()])
    end: Sequence[Act]
    if name != PLAIN and APPROVE not in then:
        end = source.choice([(Close(),), ()])
    else:
        # What has been worked on twice does not merge with what was once.
        end = source.choice(
            [acts for acts in _ENDS.values() if Merge() not in acts or then not in _MORE_WORK.values()]
        )
    return History(
        name=name,
        kind=kind,
        chapters=(_among(source, begins, _beside(source)), tuple(then), tuple(end)),
    )


def _without(source: random.Random, kind: str) -> History:
    begins = _NO_WORK[kind]
    later: tuple[Act, ...] = (FIX,) if Close() in begins else tuple(_beside(source))
    return History(kind=kind, chapters=(_among(source, begins, _beside(source)), later, tuple(_beside(source))))


def _beside(source: random.Random) -> list[Act]:
    """What else is said and done on an issue, to which the bot has at most an answer."""
    found: list[Act] = [Say(text=source.choice(TALK), by=source.choice(PEOPLE)) for _ in range(source.randint(0, 2))]
    some: Sequence[Act] = (
        Say(text="/coder help", by=source.choice(PEOPLE)),
        Say(text="/coder fxi", by=source.choice(PEOPLE)),
        Say(text="/coder config", by=source.choice(PEOPLE)),
        Say(text="/coder fix", by=source.choice(STRANGERS)),
        Say(text="/coder stop", by=source.choice(STRANGERS)),
        Say(text="I am not sure.", by=source.choice(STRANGERS), then="Now I am."),
        Label(label=f"area-{source.randrange(10**6)}"),
        Assign(to="second"),
    )
    return [*found, *source.sample(some, source.randint(0, 3))]


def _among(source: random.Random, acts: Sequence[Act], others: Sequence[Act]) -> tuple[Act, ...]:
    """The acts in their order, with the others somewhere between them."""
    mixed = list(acts)
    for other in others:
        mixed.insert(source.randint(0, len(mixed)), other)
    return tuple(mixed)


def in_turn(seed: int, histories: Sequence[History], chapter: int) -> Iterator[tuple[int, Act]]:
    """The acts of one chapter of all histories, each history's in order, mixed with one another."""
    source = random.Random(f"{seed} {chapter}")
    left = {place: list(history.chapters[chapter]) for place, history in enumerate(histories)}
    turns = [place for place, acts in left.items() for _ in acts]
    source.shuffle(turns)
    for place in turns:
        yield place, left[place].pop(0)


def repositories(histories: Sequence[History]) -> list[str]:
    return sorted({history.repository for history in histories})


async def build(github: LocalGitHub, histories: Sequence[History]) -> list[int]:
    """The repositories and the issues, whose numbers this gives."""
    for name in repositories(histories):
        rules = RULES[name.partition("/")[2]].encode()
        await github.create_repository(name, {**FILES, "notes.txt": b"one\n", ".github/coder.yml": rules})
        for person in PEOPLE:
            github.grant(name, person, "write")
        github.grant(name, "reader", "read")
    return [
        github.open_issue(
            history.repository, title="add() is wrong", body="2 + 3 gives -1.", author="reporter"
        ).number
        for history in histories
    ]


async def perform(github: LocalGitHub, repository: str, issue: int, pull: int | None, act: Act) -> None:
    """`pull` is the pull request of the issue, if there is one; a LookupError where there has to be."""

    def number(on: Where) -> int:
        found = issue if on == "issue" else pull
        if found is None:
            raise LookupError(f"{repository}#{issue} has no pull request for {act}")
        return found

    match act:
        case Say(text=text, by=by, on=on, then=then):
            await github.comment(repository, number(on), text, author=by)
            if then is not None:
                said = github.issue_comments(repository, number(on))[-1]
                await github.edit_comment(repository, said.id, then, author=by)
        case Label(label=label, by=by, takes_away=False):
            await github.label(repository, issue, label, author=by)
        case Label(label=label, by=by):
            await github.unlabel(repository, issue, label, author=by)
        case Assign(to=to):
            await github.assign(repository, issue, to, author="maintainer")
        case Close(on="issue"):
            await github.close_issue(repository, issue, author="maintainer")
        case Close():
            await github.close_pull(repository, number("pull"), author="maintainer")
        case Reopen():
            await github.reopen(repository, issue, author="maintainer")
        case Merge():
            await github.merge_pull(repository, number("pull"), author="second")
        case Push():
            opened = next(found for found in github.pull_requests(repository) if found.number == number("pull"))
            await github.commit(repository, opened.head_branch, {"more.txt": b"More.\n"}, author="second")
        case Review(state=state, body=body, lines=lines, by=by, lines_first=first):
            await github.review(
                repository,
                number("pull"),
                state=state,
                body=body,
                comments=lines,
                author=by,
                comments_first=first,
            )
        case _ as never:
            assert_never(never)
