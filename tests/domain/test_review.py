"""What a review asks of the bot, and the one answer that each of its threads gets."""

from __future__ import annotations

import pytest

from bot.domain.command import Fix, Help, Status, Usage
from bot.domain.episode import Code, Thread
from bot.domain.review import (
    HUNK_LIMIT,
    TEXT_LIMIT,
    THREADS,
    Asked,
    Inline,
    answers,
    asked,
    mentions,
    thread_marker,
)

BOT = "coder-bot[bot]"


def inline(text: str, number: int = 1, **more: object) -> Inline:
    values = {"id": number, "root_id": number, "path": "a.py", "line": 3, "hunk": "@@", "author": "anna", **more}
    return Inline(text=text, **values)  # type: ignore[arg-type]  # the names are those of the fields


def said(body: str, *inlines: Inline, wants_changes: bool = False) -> Asked | None:
    return asked(body, wants_changes=wants_changes, inline=inlines, login=BOT)


def texts(found: Asked | None) -> list[str]:
    assert found is not None
    return [each.text for each in found.threads]


def test_a_review_that_requests_changes_asks_for_all_that_is_in_it() -> None:
    found = said("Please rename.", inline("Here."), inline("And here.", 2), wants_changes=True)
    assert found is not None
    assert found.command == Fix(text="Please rename.")
    assert texts(found) == ["Here.", "And here."]
    assert not found.explicit, "nobody spoke to the bot, so nobody waits for an answer of it"


@pytest.mark.parametrize("wants_changes", [False, True])
def test_talk_among_people_asks_for_nothing(wants_changes: bool) -> None:
    assert said("", wants_changes=wants_changes) is None
    assert said("Nice.") is None
    assert said("Nice.", inline("Is it?")) is None
    assert said("As `@coder-bot` said:\n> @coder-bot please", inline("```\n/coder fix\n```")) is None


@pytest.mark.parametrize("named", ["/coder fix rename it", "@coder-bot rename it", "Hey @Coder-Bot[bot], rename it"])
def test_an_inline_comment_that_names_the_bot_asks_for_itself_alone(named: str) -> None:
    found = said("Some thoughts.", inline("Is it?"), inline(named, 2))
    assert found is not None
    assert found.command == Fix(text="")
    assert [each.comment_id for each in found.threads] == [2]
    assert "rename it" in texts(found)[0]
    assert found.explicit


def test_a_command_in_the_reviews_own_text_counts_first() -> None:
    found = said("/coder fix all of it", inline("Here."), wants_changes=True)
    assert found is not None
    assert (found.command, texts(found), found.explicit) == (Fix(text="all of it"), ["Here."], True)
    for body, command in (("/coder status", Status()), ("/coder help", Help())):
        other = said(body, inline("Here."), wants_changes=True)
        assert other is not None
        assert (other.command, other.threads) == (command, ())


def test_other_commands_can_be_given_at_a_line_as_well() -> None:
    found = said("", inline("/coder status"))
    assert found is not None
    assert found.command == Status()
    usage = said("", inline("/coder fxi"))
    assert usage is not None
    assert usage.explicit


def test_a_misspelt_command_in_the_text_is_answered() -> None:
    found = said("/coder fxi", inline("Here."))
    assert found is not None
    assert isinstance(found.command, Usage)


def test_what_is_kept_of_a_review_has_bounds() -> None:
    many = [inline("x" * (TEXT_LIMIT + 5), number, hunk="h" * (HUNK_LIMIT + 5)) for number in range(1, THREADS + 5)]
    found = said("All.", *many, wants_changes=True)
    assert found is not None
    assert len(found.threads) == THREADS
    assert {(len(each.text), len(each.hunk)) for each in found.threads} == {(TEXT_LIMIT, HUNK_LIMIT)}


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("@coder-bot?", True),
        ("(@coder-bot)", True),
        ("@coder-bots", False),
        ("@coder-bot-2", False),
        ("@coder-bot/team", False),
        ("me@coder-bot", False),
        ("x/@coder-bot", False),
        ("`@coder-bot`", False),
        ("> @coder-bot", False),
        ("<!-- @coder-bot -->", False),
    ],
)
def test_a_mention_is_one_where_github_would_make_it_one(text: str, does: bool) -> None:
    assert mentions(text, BOT) is does


THREADED = tuple(
    Thread(comment_id=number, root_id=10 + number, path=path, line=3, hunk="", text="Why?", author="anna")
    for number, path in ((1, "a.py"), (2, "b.py"))
)


def told(code: Code, commit: str | None = None, **replies: str) -> list[str]:
    found = answers("e1", THREADED, replies, code=code, commit=commit, changed=frozenset({"a.py"}))
    assert [each for each, _ in found] == list(THREADED)
    for each, body in found:
        assert body.endswith(thread_marker("e1", each.comment_id))
    return [body.rsplit("\n\n", 1)[0] for _, body in found]


def test_each_thread_is_told_the_commit_or_why_there_is_none() -> None:
    first, second = told(Code.VERIFIED, "abc", **{"1": "Renamed, @bob."})
    assert first == "Addressed in abc.\n\nRenamed, @\u200bbob."
    assert second == "abc leaves `b.py` as it is.\n\nThe status comment says what it does instead."
    assert told(Code.VERIFIED, "abc", **{"2": "It is right."})[1] == "abc leaves `b.py` as it is.\n\nIt is right."
    nothing = told(Code.NO_CHANGE, **{"1": "It is right as it is."})
    assert nothing[0] == "Nothing was changed for this.\n\nIt is right as it is."
    assert nothing[1] == "Nothing was changed for this.\n\nThe status comment says why."
    assert told(Code.VERIFIED) == told(Code.NO_CHANGE), "what was verified was there already"
    failed = told(Code.CHECKS_FAILED, **{"1": "Done!"})
    assert failed[0] == "Not addressed: this round ended with CHECKS_FAILED, and nothing new was published."
