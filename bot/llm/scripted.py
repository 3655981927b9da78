"""A model whose replies are written down in a file: for demonstrations and for tests of everything around a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, field_validator

from bot.domain.budget import FREE, Price, Usage
from bot.domain.errors import ModelError, UserError
from bot.llm.protocol import Message, Reply, ToolCall, ToolResult, ToolSpec

_SHOWN = 500
"""Characters of a tool result that an error shows."""


class ScriptedModel:
    """Replies line by line from a JSON Lines file. Which line comes next follows from the transcript alone, by the
    replies it already holds, so a script goes on where it was after a restart. A file that is no script is a
    `UserError` at construction, with the line."""

    def __init__(self, path: Path, *, price: Price = FREE) -> None:
        self._path = path
        self._price = price
        self._lines = _load(path)

    @property
    def name(self) -> str:
        return f"scripted:{self._path}"

    @property
    def price(self) -> Price:
        return self._price

    async def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        max_output_tokens: int,
        timeout_s: float,
    ) -> Reply:
        """See `Model.reply`. A script that has ended, or that expected another tool result, is a `ModelError`."""
        number = sum(isinstance(message, Reply) for message in messages) + 1
        if number > len(self._lines):
            raise ModelError(
                "script",
                f"The script {self._path} has no reply number {number}; it ends after {len(self._lines)}.",
            )
        line = self._lines[number - 1]
        if line.expect is not None:
            results = [message.text for message in messages if isinstance(message, ToolResult)]
            met = results[-1] if results else ""
            if not re.search(line.expect, met):
                raise ModelError(
                    "script",
                    f"Reply number {number} of the script {self._path} expects a tool result like "
                    f"{line.expect!r}, and met: {met[:_SHOWN]!r}",
                )
        return Reply(
            text=line.text,
            tool_calls=tuple(
                ToolCall(id=f"call-{number}-{place}", name=call.name, arguments=call.arguments)
                for place, call in enumerate(line.tool_calls, 1)
            ),
            usage=Usage(input_tokens=line.usage.input_tokens, output_tokens=line.usage.output_tokens),
        )

    def unused(self, replies_used: int) -> int:
        """How many replies are left after that many were given; a script that was played to its end leaves none."""
        return max(0, len(self._lines) - replies_used)

    async def aclose(self) -> None:
        """Nothing is open."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Call(_Strict):
    """`arguments: null` stands for arguments that were no JSON object."""

    name: str
    arguments: dict[str, Any] | None = Field(default_factory=dict)


class _Usage(_Strict):
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0


class _Line(_Strict):
    text: str = ""
    tool_calls: list[_Call] = Field(default_factory=list)
    usage: _Usage = Field(default_factory=_Usage)
    expect: str | None = None

    @field_validator("expect")
    @classmethod
    def _is_regex(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as exc:
            raise ValueError(f"no regular expression: {exc}") from exc
        return value


def _load(path: Path) -> list[_Line]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise UserError(f"The script {path} can't be read: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"The script {path} is not UTF-8 text.") from exc
    return [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _line(path: Path, number: int, line: str) -> _Line:
    try:
        return _Line.model_validate_json(line)
    except ValidationError as exc:
        error = exc.errors()[0]
        where = "".join(f"{part}: " for part in error["loc"])
        raise UserError(f"The script {path} is wrong in line {number}: {where}{error['msg']}") from exc
