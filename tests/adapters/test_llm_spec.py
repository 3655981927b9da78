"""The words by which people say which model to use."""

from __future__ import annotations

import pytest

from bot.domain.errors import UserError
from bot.llm.spec import parse_spec


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("openai:gpt-5", ("openai", "gpt-5")),
        ("chat:qwen3:8b", ("chat", "qwen3:8b")),
        ("scripted:/a b/c.jsonl", ("scripted", "/a b/c.jsonl")),
        ("openai: gpt-5 ", ("openai", "gpt-5")),
    ],
)
def test_a_spec_has_a_kind_and_a_name(spec: str, parsed: tuple[str, str]) -> None:
    assert parse_spec(spec) == parsed


@pytest.mark.parametrize("spec", ["", "gpt-5", "openai", "openai:", "chat: ", "OpenAI:x", "azure:x", ":x", "x" * 999])
def test_anything_else_is_answered_with_the_forms(spec: str) -> None:
    with pytest.raises(UserError, match=r"openai:NAME.*chat:NAME.*scripted:FILE") as caught:
        parse_spec(spec)
    assert len(str(caught.value)) < 300
