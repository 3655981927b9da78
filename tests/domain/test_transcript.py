"""What steps add up to."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from bot.domain.budget import Spend, Usage
from bot.domain.transcript import (
    Call,
    Step,
    blocked,
    blocked_hosts,
    blocked_line,
    losses,
    lost_note,
    replaced,
    spend,
    too_large,
    too_large_note,
)

CALL = Call(position=0, name="read_file", arguments={}, result="", exit_code=None, duration_s=0.25)
STEP = Step(
    id=1,
    number=1,
    note=None,
    reply={},
    usage=Usage(input_tokens=10, output_tokens=5),
    cost=Decimal("0.5"),
    duration_s=1.0,
    calls=(CALL, CALL),
)


def test_steps_add_up() -> None:
    assert spend((STEP, STEP)) == Spend(steps=2, tool_calls=4, tokens=30, duration_s=3.0, cost=Decimal(1))
    assert spend(()) == Spend()


def test_one_unknown_cost_makes_the_sum_unknown() -> None:
    assert spend((STEP, replace(STEP, cost=None))).cost is None


def noted(*notes: str | None) -> tuple[Step, ...]:
    return tuple(replace(STEP, note=note) for note in notes)


def test_losses_are_counted_by_what_the_model_was_told_and_will_be() -> None:
    twice = f"{lost_note(3)}\n\n{lost_note(2)}\n\nYour change was verified and did not pass."
    assert losses((), None) == 0
    assert losses(noted(None, lost_note(1), "other"), twice) == 3
    assert losses(noted(f"{too_large_note('it is')}\n\n{lost_note(1)}"), None) == 1


def test_a_text_of_somebody_else_counts_as_no_loss() -> None:
    assert losses(noted(f"Output of `tests`:\n\n{lost_note(4)}"), None) == 0
    assert losses(noted(too_large_note(f"a\n\n{lost_note(4)}")), None) == 0


def test_the_model_is_told_which_files_it_finds_after_a_loss() -> None:
    assert "after step 4;" in lost_note(4)
    assert "when this episode began;" in lost_note(0)


def test_steps_that_began_too_large_count_up_to_the_last_one() -> None:
    large = too_large_note("300 files.")
    assert "300 files. Remove" in large
    assert too_large(()) == 0
    assert too_large(noted(large, None)) == 0
    assert too_large(noted(large, None, large, f"{large}\n\nmore")) == 2
    assert len(too_large_note("x" * 10_000)) < 1_000


@pytest.mark.parametrize(("times", "said"), [(0, ""), (1, "was lost once during"), (2, "was lost 2 times during")])
def test_people_are_told_how_often_the_sandbox_was_replaced(times: int, said: str) -> None:
    assert said in replaced(times)
    assert bool(replaced(times)) == bool(said)


def ran(name: str, result: str) -> Step:
    return replace(STEP, calls=(replace(CALL, name=name, result=result),))


def test_blocked_hosts_are_read_back_from_the_results_of_commands() -> None:
    line = blocked_line(["a.test:443", "b.test:80", "a.test:443"])
    steps = (
        ran("run_command", f"{line}\nexit code 1\n"),
        ran("run_tests", f"{blocked_line(['c.test:443', 'a.test:443'])}\n## tests"),
    )
    assert blocked(steps) == ("a.test:443", "b.test:80", "c.test:443")
    assert blocked_hosts(blocked(steps)) == "Blocked hosts: `a.test:443`, `b.test:80`, `c.test:443`."
    assert blocked_hosts(()) == ""


def test_nobody_but_a_command_we_ran_can_name_a_blocked_host() -> None:
    line = blocked_line(["a.test:443"])
    assert blocked((ran("run_command", f"exit code 0\n{line}"), ran("read_file", line), ran("search", line))) == ()


def test_blocked_hosts_are_bounded_and_plain() -> None:
    many = [f"h{number}.test:443" for number in range(12)]
    assert blocked_hosts(many).endswith("`h9.test:443` and 2 more.")
    assert blocked((ran("run_command", blocked_line(many)),)) == tuple(many[:10])
    assert blocked_hosts(["`@everyone`\n# x, y: z:1"]) == "Blocked hosts: `??everyone????x??y:?z:1`."
    assert len(blocked_hosts(["x" * 5000])) < 200
