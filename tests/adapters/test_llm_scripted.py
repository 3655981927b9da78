"""What is particular to scripts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from bot.domain.budget import FREE, Price, Usage
from bot.domain.errors import ModelError, UserError
from bot.llm.protocol import Reply, ToolCall, ToolResult
from bot.llm.scripted import ScriptedModel
from bot.llm.testing import TASK, ask

Play = Callable[..., ScriptedModel]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Writes a script and gives back the model that plays it."""

    def play(text: str, **options: Price) -> ScriptedModel:
        path = tmp_path / "script.jsonl"
        path.write_text(text)
        return ScriptedModel(path, **options)

    return play


async def test_every_key_is_optional_and_blank_lines_say_nothing(play: Play) -> None:
    model = play('{}\n\n{"tool_calls": [{"name": "submit"}]}\n')
    first = await ask(model, TASK)
    assert first == Reply(text="", usage=Usage())
    assert await ask(model, TASK, first) == Reply(
        text="", tool_calls=(ToolCall(id="call-2-1", name="submit", arguments={}),)
    )


def test_it_goes_by_the_name_of_its_file_and_costs_nothing_unless_told(play: Play) -> None:
    price = Price(input=Decimal(1), output=Decimal(2), cached=Decimal(1))
    assert play("{}").name.startswith("scripted:/")
    assert play("{}").name.endswith("/script.jsonl")
    assert play("{}").price == FREE
    assert play("{}", price=price).price == price


async def test_a_reply_too_few_is_told_with_its_number(play: Play) -> None:
    model = play('{"text": "One."}\n')
    first = await ask(model, TASK)
    with pytest.raises(ModelError, match=r"script\.jsonl has no reply number 2; it ends after 1\.") as caught:
        await ask(model, TASK, first)
    assert (caught.value.reason, caught.value.retryable) == ("script", False)


def test_replies_too_many_can_be_counted(play: Play) -> None:
    model = play("{}\n{}\n{}\n")
    assert [model.unused(used) for used in (0, 1, 3, 4)] == [3, 2, 0, 0]


async def test_expect_looks_for_its_regex_in_the_last_tool_result_alone(play: Play) -> None:
    model = play('{"expect": "(?m)^1 passed$"}\n')
    met, other = (ToolResult(call_id=each, text=f"{each} tests\n{each} passed") for each in "12")
    assert await ask(model, TASK, other, met) == Reply(text="")
    with pytest.raises(ModelError, match="2 passed"):
        await ask(model, TASK, met, other)


async def test_an_expectation_that_is_not_met_shows_a_bounded_part_of_what_was(play: Play) -> None:
    model = play('{"expect": "passed"}\n')
    with pytest.raises(ModelError) as caught:
        await ask(model, TASK, ToolResult(call_id="a", text="1 failed " + "x" * 5000))
    message = str(caught.value)
    assert caught.value.reason == "script"
    assert "'passed'" in message
    assert "1 failed" in message
    assert len(message) < 1000


async def test_an_expectation_without_any_tool_result_is_not_met(play: Play) -> None:
    model = play('{"expect": "x"}\n')
    with pytest.raises(ModelError, match="met: ''"):
        await ask(model, TASK)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "JSON"),
        ("[1]", "object"),
        ('{"txet": "a"}', "txet"),
        ('{"text": 1}', "text"),
        ('{"tool_calls": [{"arguments": {}}]}', "tool_calls: 0: name"),
        ('{"tool_calls": [{"name": "a", "arguments": [1]}]}', "arguments"),
        ('{"usage": {"input_tokens": -1}}', "input_tokens"),
        ('{"usage": {"total": 1}}', "total"),
        ('{"expect": "("}', "no regular expression"),
    ],
)
def test_a_bad_line_is_told_by_file_and_number_before_anything_runs(play: Play, line: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        play(f"{{}}\n\n{line}\n")
    assert "script.jsonl is wrong in line 3: " in str(caught.value)
    assert problem in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.jsonl can't be read: No such file"):
        ScriptedModel(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"text": "\xe9"}')
    with pytest.raises(UserError, match=r"latin\.jsonl is not UTF-8"):
        ScriptedModel(tmp_path / "latin.jsonl")
