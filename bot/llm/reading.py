"""Reads what models and their servers send, which may be anything, into values that can be stored and sent on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from pydantic import AliasChoices, BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError

from bot.domain.budget import Usage
from bot.llm.protocol import ToolSpec

_CHARS_PER_TOKEN = 3
"""Text has about four characters a token; fewer here, so that an estimate is not too low."""


def parse_json(data: str | bytes) -> Any:
    """Strict JSON or `ValueError`: no NaN, no infinity, no nesting beyond Python's. Half a surrogate pair, which a
    reply cut in the middle of an emoji ends with, becomes a question mark: no database would take it."""
    try:
        value = json.loads(data, parse_constant=_refuse)
        whole = json.dumps(value, ensure_ascii=False).encode(errors="replace")
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc
    return json.loads(whole, parse_constant=_refuse)


def parse_arguments(text: object, name: str, tools: Mapping[str, ToolSpec]) -> dict[str, Any] | None:
    """A tool call's arguments, None where they are no JSON object.

    Strict schemas make a model send null for an optional argument it doesn't want to give; that null is dropped."""
    try:
        value = parse_json(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if name not in tools:
        return value
    required = tools[name].parameters.get("required", ())
    return {key: item for key, item in value.items() if item is not None or key in required}


def read_usage(usage: object, *, sent: object, received: object) -> Usage:
    """The tokens that a provider counted; where it counted none, or nonsense, an estimate from what was sent and
    received, because a budget must not take an unknown for nothing."""
    try:
        counted = _Counted.model_validate(usage)
    except ValidationError:
        return Usage(input_tokens=_estimate(sent), output_tokens=_estimate(received))
    cached = (counted.details.cached_tokens if counted.details else None) or 0
    return Usage(
        input_tokens=counted.input_tokens,
        output_tokens=counted.output_tokens,
        cached_tokens=min(cached, counted.input_tokens),
    )


class _Details(BaseModel):
    cached_tokens: NonNegativeInt | None = None


class _Counted(BaseModel):
    """Usage by its names in either API; many servers leave the details out."""

    input_tokens: PositiveInt = Field(validation_alias=AliasChoices("input_tokens", "prompt_tokens"))
    output_tokens: NonNegativeInt = Field(validation_alias=AliasChoices("output_tokens", "completion_tokens"))
    details: _Details | None = Field(
        default=None, validation_alias=AliasChoices("input_tokens_details", "prompt_tokens_details")
    )


def _estimate(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // _CHARS_PER_TOKEN + 1


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
