"""What the loop makes of saved steps when their sandbox is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bot.agent.loop import Submitted, lost, submitted
from bot.domain.budget import Usage
from bot.domain.transcript import LOST_CALL, NOT_RUN, Call, Step, too_large_note


def step(number: int, *names: str, done: int | None = None, note: str | None = None, refused: bool = False) -> Step:
    """A step that asked for these calls, the first `done` of which are finished."""
    asked: list[dict[str, Any]] = [{"id": name, "name": name, "arguments": {}} for name in names]
    calls = tuple(
        Call(position=at, name=name, arguments={}, result="", exit_code=None, duration_s=0, refused=refused)
        for at, name in enumerate(names[:done])
    )
    reply = {"text": "", "tool_calls": asked, "usage": {"input_tokens": 0, "output_tokens": 0}}
    return Step(id=number, number=number, note=note, reply=reply, usage=Usage(), cost=None, duration_s=0, calls=calls)


LARGE = too_large_note("it is")


@pytest.mark.parametrize(
    ("steps", "results", "kept"),
    [
        ((), [], 0),
        ((step(1, "read_file"),), [], 1),
        ((step(1, "write_file"), step(2, "read_file")), [], 2),
        ((step(1, "read_file"), step(2, "write_file")), [], 1),
        ((step(1, "read_file"), step(2, "write_file", refused=True)), [], 2),
        ((step(1, "run_command", done=0),), [LOST_CALL], 0),
        ((step(1, "write_file"), step(2, "read_file", "run_tests", "submit", done=1)), [LOST_CALL, NOT_RUN], 1),
        ((step(1, "write_file"), step(2, "run_command"), step(3, "list_dir", note=LARGE)), [], 1),
        ((step(1, "run_command"), step(2, "list_dir", note=LARGE), step(3, "list_dir", note=LARGE)), [], 0),
    ],
)
def test_calls_in_flight_end_and_the_files_kept_are_those_of_a_step(
    steps: tuple[Step, ...], results: list[str], kept: int
) -> None:
    calls, of_step = lost(steps)
    assert [call.result for call in calls] == results
    assert of_step == kept


def test_a_submission_that_was_never_run_is_none() -> None:
    arguments = {"title": "t", "summary": "s"}
    done = Call(position=0, name="submit", arguments=arguments, result="Submitted.", exit_code=None, duration_s=0)
    assert submitted((replace(step(1, "submit"), calls=(done,)),)) == Submitted(title="t", summary="s")
    for result in (LOST_CALL, NOT_RUN):
        assert submitted((replace(step(1, "submit"), calls=(replace(done, result=result),)),)) is None
