"""OpenAI's Responses API, without any state on OpenAI's side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from pydantic import BaseModel, ValidationError

from bot.domain.budget import Price
from bot.domain.errors import ModelError
from bot.llm.connection import OPENAI, Connection, ParameterRefused
from bot.llm.protocol import Message, Reply, ToolCall, ToolResult, ToolSpec, UserMessage
from bot.llm.reading import parse_arguments, read_usage


class ResponsesModel:
    """A model behind OpenAI's Responses API. Nothing is stored there: each call carries the whole transcript, with
    the model's own items, its encrypted reasoning among them, exactly as they came."""

    def __init__(
        self,
        name: str,
        *,
        api_key: str,
        base_url: str | None = None,
        price: Price | None = None,
        reasoning_effort: str | None = None,
        max_retries: int = 2,
    ) -> None:
        self._model = name
        self._price = price
        self._effort = reasoning_effort
        self._has_reasoning = True
        self._connection = Connection(api_key=api_key, base_url=base_url or OPENAI, max_retries=max_retries)

    @property
    def name(self) -> str:
        return f"openai:{self._model}"

    @property
    def price(self) -> Price | None:
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
        """See `Model.reply`. A call that was cut off at `max_output_tokens` has the arguments None."""
        request: dict[str, Any] = {
            "model": self._model,
            "instructions": system,
            "input": [item for message in messages for item in _items(message)],
            "tools": [_tool(spec) for spec in tools],
            "parallel_tool_calls": True,
            "max_output_tokens": max_output_tokens,
            "store": False,
        }
        if self._effort is not None:
            request["reasoning"] = {"effort": self._effort}
        answer = await self._ask(request, timeout_s)
        try:
            return _read(answer, request, {spec.name: spec for spec in tools})
        except ValidationError as exc:
            raise ModelError("unusable_reply", f"The reply of {self.name} has no form that we can read.") from exc

    async def aclose(self) -> None:
        await self._connection.aclose()

    async def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Models that don't reason refuse to be asked for their reasoning; nothing else tells them apart."""
        if self._has_reasoning:
            wanted = {**request, "include": ["reasoning.encrypted_content"]}
            try:
                return await self._connection.post("/responses", wanted, timeout_s=timeout_s)
            except ParameterRefused as exc:
                if exc.parameter != "include":
                    raise
                self._has_reasoning = False
        return await self._connection.post("/responses", request, timeout_s=timeout_s)


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema as OpenAI's strict mode takes it: every property is required, an optional one may be null, and
    the keywords that strict mode refuses are left out; the tool itself checks those again.

    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    strict = {key: value for key, value in schema.items() if key in _PLAIN_KEYWORDS}
    if "anyOf" in schema:
        strict["anyOf"] = [strict_schema(choice) for choice in schema["anyOf"]]
    if "items" in schema:
        strict["items"] = strict_schema(schema["items"])
    if "$defs" in schema:
        strict["$defs"] = {name: strict_schema(part) for name, part in schema["$defs"].items()}
    if schema.get("type") == "object":
        required = schema.get("required", ())
        strict["properties"] = {
            name: strict_schema(part) if name in required else _nullable(strict_schema(part))
            for name, part in schema.get("properties", {}).items()
        }
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    return strict


_PLAIN_KEYWORDS = ("type", "description", "enum", "const", "$ref")


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    choices = schema.get("anyOf", [schema])
    if {"type": "null"} in choices:
        return schema
    rest = {"description": schema["description"]} if "anyOf" in schema and "description" in schema else {}
    return {**rest, "anyOf": [*choices, {"type": "null"}]}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": strict_schema(spec.parameters),
        "strict": True,
    }


def _items(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage(text=text):
            return [{"role": "user", "content": text}]
        case ToolResult(call_id=call_id, text=text):
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]
        case Reply(raw=raw) if raw and all("type" in item for item in raw):
            return list(raw)
        case Reply(text=text, tool_calls=calls):  # of another adapter: the operator has changed the model since
            said = [{"role": "assistant", "content": text}] if text else []
            return said + [
                {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.name,
                    "arguments": json.dumps(call.arguments or {}),
                }
                for call in calls
            ]
        case _:
            assert_never(message)


class _Part(BaseModel):
    text: str = ""
    refusal: str = ""


class _Said(BaseModel):
    content: list[_Part]


class _Asked(BaseModel):
    call_id: str
    name: str
    arguments: str
    status: str = "completed"


class _Error(BaseModel):
    code: str = ""


class _Incomplete(BaseModel):
    reason: str = ""


class _Answer(BaseModel):
    output: list[dict[str, Any]]
    status: str = "completed"
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None


def _read(answer: dict[str, Any], request: dict[str, Any], tools: Mapping[str, ToolSpec]) -> Reply:
    whole = _Answer.model_validate(answer)
    match whole.status:
        case "completed":
            is_cut = False
        case "incomplete" if whole.incomplete_details and whole.incomplete_details.reason == "content_filter":
            raise ModelError("unusable_reply", "The model's provider held the reply back (its content filter).")
        case "incomplete":
            is_cut = True
        case _ if whole.error and whole.error.code == "rate_limit_exceeded":
            raise ModelError("rate_limited", "The model's provider asks to slow down.", retryable=True)
        case _ if whole.error and whole.error.code == "server_error":
            raise ModelError("unavailable", "The model's provider failed while it made the reply.", retryable=True)
        case _:
            raise ModelError("unusable_reply", "The model's provider gave up on the reply.")
    # Reasoning that nothing follows is of a reply that was cut; OpenAI refuses to take it back.
    items = whole.output
    while items and items[-1].get("type") == "reasoning":
        items = items[:-1]
    said = [_Said.model_validate(item) for item in items if item.get("type") == "message"]
    text = "\n".join(part.text or part.refusal for message in said for part in message.content)
    calls = []
    for item in items:
        if item.get("type") == "function_call":
            asked = _Asked.model_validate(item)
            is_whole = asked.status == "completed" and not (is_cut and item is items[-1])
            arguments = parse_arguments(asked.arguments, asked.name, tools) if is_whole else None
            calls.append(ToolCall(id=asked.call_id, name=asked.name, arguments=arguments))
    if len({call.id for call in calls}) < len(calls):
        raise ModelError("unusable_reply", "The model's reply gave two tool calls the same id.")
    if is_cut and not text and not calls:
        raise ModelError(
            "unusable_reply",
            f"The model used all {request['max_output_tokens']:,} tokens of its reply without saying anything; "
            "give a smaller task or a lower reasoning effort.",
        )
    usage = read_usage(answer.get("usage"), sent=request, received=whole.output)
    return Reply(text=text, tool_calls=tuple(calls), usage=usage, raw=tuple(items))
