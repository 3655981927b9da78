"""The Chat Completions API, which most servers that call themselves OpenAI-compatible speak."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from pydantic import BaseModel, Field, ValidationError

from bot.domain.budget import Price
from bot.domain.errors import ModelError
from bot.llm.connection import OPENAI, Connection
from bot.llm.protocol import Message, Reply, ToolCall, ToolResult, ToolSpec, UserMessage
from bot.llm.reading import parse_arguments, parse_json, read_usage


class ChatModel:
    """A model behind an OpenAI-compatible server. Only what every such server knows is sent: the reply's limit as
    `max_tokens`, tools with their plain schemas. OpenAI itself (no `base_url`) has renamed the limit to
    `max_completion_tokens`, refuses the old name for newer models, and is told to store nothing."""

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        price: Price | None = None,
        reasoning_effort: str | None = None,
        max_retries: int = 2,
    ) -> None:
        self._model = name
        self._price = price
        self._effort = reasoning_effort
        self._is_openai = base_url is None
        # Servers of one's own often ask for no key, but the client library insists on sending one.
        key = "none" if api_key is None and base_url else api_key or ""
        self._connection = Connection(api_key=key, base_url=base_url or OPENAI, max_retries=max_retries)

    @property
    def name(self) -> str:
        return f"chat:{self._model}"

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
        sent = [entry for message in messages for entry in _entries(message)]
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, *sent],
        }
        if tools:  # many servers refuse an empty list
            request["tools"] = [_tool(spec) for spec in tools]
        if self._is_openai:
            request |= {"max_completion_tokens": max_output_tokens, "store": False}
        else:
            request["max_tokens"] = max_output_tokens
        if self._effort is not None:
            request["reasoning_effort"] = self._effort
        answer = await self._connection.post("/chat/completions", request, timeout_s=timeout_s)
        try:
            choice = _Answer.model_validate(answer).choices[0]
            if choice.finish_reason == "content_filter":
                raise ModelError("unusable_reply", "The model's provider held the reply back (its content filter).")
            said = _Said.model_validate(choice.message)
        except ValidationError as exc:
            raise ModelError("unusable_reply", f"The reply of {self.name} has no form that we can read.") from exc
        raw = _with_ids(choice.message, number=sum(isinstance(message, Reply) for message in messages) + 1)
        is_cut = choice.finish_reason == "length"
        calls = _calls(raw, is_cut, {spec.name: spec for spec in tools})
        text = said.content or said.refusal or ""
        if is_cut and not text and not calls:
            raise ModelError(
                "unusable_reply",
                f"The model used all {max_output_tokens:,} tokens of its reply without saying anything; "
                "give a smaller task or a lower reasoning effort.",
            )
        usage = read_usage(answer.get("usage"), sent=request, received=raw)
        return Reply(text=text, tool_calls=calls, usage=usage, raw=(raw,))

    async def aclose(self) -> None:
        await self._connection.aclose()


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _entries(message: Message) -> list[dict[str, Any]]:
    match message:
        case UserMessage(text=text):
            return [{"role": "user", "content": text}]
        case ToolResult(call_id=call_id, text=text):
            return [{"role": "tool", "tool_call_id": call_id, "content": text}]
        case Reply(text="", tool_calls=()):  # servers refuse a message that says nothing
            return []
        case Reply(raw=(raw,)) if "type" not in raw:
            return [_mended(raw)]
        case Reply(text=text, tool_calls=calls):  # of another adapter: the operator has changed the model since
            asked = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments or {})},
                }
                for call in calls
            ]
            return [{"role": "assistant", "content": text or None} | ({"tool_calls": asked} if asked else {})]
        case _:
            assert_never(message)


def _mended(raw: dict[str, Any]) -> dict[str, Any]:
    """The server's own message, in which arguments that are no JSON object have become `{}`: some servers parse what
    they are sent back, and one bad call would make every later request fail."""
    if all(_is_object(call["function"].get("arguments")) for call in raw.get("tool_calls") or ()):
        return raw
    calls = [
        call
        if _is_object(call["function"].get("arguments"))
        else call | {"function": call["function"] | {"arguments": "{}"}}
        for call in raw["tool_calls"]
    ]
    return raw | {"tool_calls": calls}


def _is_object(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(parse_json(text), dict)
    except ValueError:
        return False


def _with_ids(message: dict[str, Any], *, number: int) -> dict[str, Any]:
    """The message with ids that tell its calls apart; some servers send none, or the same one each time."""
    asked = message.get("tool_calls") or []
    ids = {call.get("id") for call in asked}
    if len(ids) == len(asked) and all(ids):
        return message
    named = [call | {"id": f"call-{number}-{place}"} for place, call in enumerate(asked, 1)]
    return message | {"tool_calls": named}


class _Function(BaseModel):
    name: str


class _Asked(BaseModel):
    id: str | None = None
    function: _Function


class _Said(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Asked] | None = None


class _Choice(BaseModel):
    message: dict[str, Any]
    finish_reason: str | None = None


class _Answer(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


def _calls(message: dict[str, Any], is_cut: bool, tools: Mapping[str, ToolSpec]) -> tuple[ToolCall, ...]:
    asked = message.get("tool_calls") or []
    calls = []
    for entry in asked:
        name = entry["function"]["name"]
        # Where a reply was cut, its last call was, even if the server has made JSON of what is left of it.
        is_whole = not (is_cut and entry is asked[-1])
        arguments = parse_arguments(entry["function"].get("arguments"), name, tools) if is_whole else None
        calls.append(ToolCall(id=entry["id"], name=name, arguments=arguments))
    return tuple(calls)
