"""What people read of what is going on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.domain import doing
from bot.domain.budget import Usage
from bot.domain.transcript import Call, Step
from bot.domain.verification import CheckResult, Run

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def step(number: int, *asked: dict[str, Any], done: int = 0) -> Step:
    calls = tuple(
        Call(position=place, name=call["name"], arguments=call["arguments"], result="", exit_code=None, duration_s=1)
        for place, call in enumerate(asked[:done])
    )
    reply = {"tool_calls": list(asked)}
    return Step(id=number, number=number, note=None, reply=reply, usage=Usage(), cost=None, duration_s=1, calls=calls)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (call("run_command", command="python3 -m  pytest"), "running `python3 -m pytest`"),
        (call("run_tests"), "running the checks"),
        (call("run_tests", filter="-k add"), "running the checks `-k add`"),
        (call("read_file", path="a.py"), "reading `a.py`"),
        (call("list_dir", path="."), "looking into `.`"),
        (call("search", pattern="def `x`"), "searching for `def \\x60x\\x60`"),
        (call("write_file", path="a\nb", contents="no"), "writing `a b`"),
        (call("edit_file", path="x" * 200, old="a", new="b"), f"editing `{'x' * 79}…`"),
        (call("remove_file", path="@octocat"), "removing `@\u200boctocat`"),
        (call("remove_file", path=7), "removing"),
        (call("submit", summary="s", title="t"), "handing in the result"),
        (call("@octocat"), "calling a tool that there is not"),
        ({"name": "read_file", "arguments": None}, "reading"),
    ],
)
def test_the_current_step_is_told_in_plain_words(asked: dict[str, Any], words: str) -> None:
    assert doing.step([step(7, asked)], 40, str) == f"Step 7 of at most 40: {words}."


def test_between_its_calls_a_step_is_at_the_next_one() -> None:
    both = (call("read_file", path="a"), call("read_file", path="b"))
    assert "reading `b`" in doing.step([step(1, *both, done=1)], 40, str)
    assert doing.step([step(1, *both, done=2)], 40, str) == "Step 2 of at most 40: waiting for the model."
    assert doing.step([step(40, *both, done=2)], 40, str) == "Step 40 of at most 40: waiting for the model."
    assert doing.step([step(3)], 40, str) == "Step 4 of at most 40: waiting for the model."
    assert doing.step([], 40, str) == "Step 1 of at most 40: waiting for the model."
    first, second, handed_in = step(1), step(2), step(3, call("submit", summary="", title=""), done=1)
    again = doing.step([first, second, handed_in], 40, str, is_told=True)
    assert again == "Step 4 of at most 40: waiting for the model."
    assert doing.step([handed_in], 40, str) == "Step 3 of at most 40: handing in the result."


def test_a_secret_is_taken_out_before_it_is_cut_in_two() -> None:
    secret = "hush" * 10
    asked = call("run_command", command=f"{'x' * 60} {secret}")
    told = doing.step([step(1, asked)], 40, lambda text: text.replace(secret, "[redacted]"))
    assert "hush" not in told
    assert "[redacted]" in told


def run(kind: Any, *exit_codes: int, timed_out: bool = False) -> Run:
    checks = tuple(
        CheckResult(
            name="tests", command="t", exit_code=code, timed_out=timed_out, duration_s=1, report=None, output=""
        )
        for code in exit_codes
    )
    return Run(kind=kind, tree="t" * 40, checks=checks)


def test_a_verification_says_how_its_runs_have_ended() -> None:
    assert doing.verification(()) == "The checks run on the change first."
    ended = [run("candidate", 0, 0), run("baseline", 0, 1), run("old_tests", 127)]
    assert doing.verification(ended) == (
        "The checks have run on the change (passed), the base (did not pass), "
        "the change, with the tests as before (says nothing)."
    )
    assert "(did not pass)" in doing.verification([run("candidate", 124, timed_out=True)])
    assert "(says nothing)" in doing.verification([run("new_tests")])


def test_the_place_in_the_queue() -> None:
    assert doing.queue(0) == "No other task has waited longer."
    assert doing.queue(1) == "1 other task has waited longer."
    assert doing.queue(2) == "2 other tasks have waited longer."


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "less than a minute"),
        (59, "less than a minute"),
        (60, "1 minute"),
        (9 * 60 + 59, "9 minutes"),
        (14 * 60, "10 minutes"),
        (59 * 60, "55 minutes"),
        (3600, "1 hour"),
        (47 * 3600, "47 hours"),
        (72 * 3600, "3 days"),
    ],
)
def test_times_are_coarse(seconds: int, words: str) -> None:
    assert doing.coarse(timedelta(seconds=seconds)) == words
    assert doing.ago(NOW, NOW + timedelta(seconds=seconds)) == f"{words} ago"
