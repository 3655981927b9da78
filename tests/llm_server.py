"""A strict OpenAI-compatible server on loopback: both APIs, planned answers, and a refusal for every request that the
real one would refuse."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import uvicorn
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.llm.testing import Answer, Planned, Seen, Silence, Trouble, Variant

STRICT_KEYWORDS = {
    "type",
    "description",
    "enum",
    "const",
    "anyOf",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "$ref",
    "$defs",
}


class Refused(Exception):
    """The request breaks a rule of the API."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.trouble = Trouble(status=400, text=message, param=param, code=code)


class LlmServer:
    """Answers in the order planned, whichever API is asked. A request that is not right gets a 400, takes no planned
    answer, and its reason is kept in `complaints`."""

    def __init__(self) -> None:
        self.api_key = f"sk-{secrets.token_hex(16)}"
        self.seen: list[Seen] = []
        self.bodies: list[dict[str, Any]] = []
        self.given: list[tuple[dict[str, Any], ...]] = []
        self.complaints: list[str] = []
        self.attempts = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self.knows_reasoning = True
        """Without it, asking for encrypted reasoning is refused, as OpenAI does for models that don't reason."""
        self.url = ""
        self._answers: deque[Answer] = deque()

    def will(self, *answers: Answer) -> None:
        self._answers.extend(answers)

    @property
    def unused(self) -> int:
        return len(self._answers)

    async def responses(self, request: Request) -> Response:
        return await self._serve(request, _Responses(self))

    async def chat(self, request: Request) -> Response:
        return await self._serve(request, _Chat(self))

    async def _serve(self, request: Request, api: _Responses | _Chat) -> Response:
        self.attempts += 1
        if request.headers.get("authorization") != f"Bearer {self.api_key}":
            return _problem(Trouble(status=401, code="invalid_api_key"))
        try:
            body = json.loads(await request.body())
            seen, result = api.understand(body)
            if not self._answers:
                raise Refused("no further answer was planned")
            answer = self._answers[0]
            planned = answer.reply if isinstance(answer, Variant) else answer
            if isinstance(planned, Planned) and planned.expects is not None:
                _require(re.search(planned.expects, result), f"expected {planned.expects!r}, met {result!r}")
        except (ValidationError, Refused) as exc:
            self.complaints.append(str(exc))
            return _problem(exc.trouble if isinstance(exc, Refused) else Trouble(status=400, text=str(exc)))
        self.seen.append(seen)
        self.bodies.append(body)
        match self._answers.popleft():
            case Trouble() as trouble:
                return _problem(trouble)
            case Silence():
                self.asked.set()
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                self.gone.set()
                return Response()
            case Planned() as reply:
                return JSON(api.answer(Variant(reply=reply)))
            case Variant() as variant:
                return JSON(api.answer(variant))


@asynccontextmanager
async def llm_server() -> AsyncIterator[LlmServer]:
    """A server on a free port of loopback, on the caller's own event loop."""
    llm = LlmServer()
    app = Starlette(
        routes=[
            Route("/v1/responses", llm.responses, methods=["POST"]),
            Route("/v1/chat/completions", llm.chat, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        llm.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        # Without `serve()`, which takes over the process's signals and looks only ten times a second for its end.
        await server.startup(sockets=[listener])
        try:
            yield llm
        finally:
            server.force_exit = True
            await server.shutdown(sockets=[listener])


class JSON(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()  # Starlette's own would not send half a surrogate pair


def _problem(trouble: Trouble) -> Response:
    error = {"message": trouble.text, "type": "error", "param": trouble.param, "code": trouble.code}
    body = json.dumps({"error": error}) if trouble.body is None else trouble.body
    return Response(
        body, status_code=trouble.status, media_type=trouble.content_type, headers={"retry-after-ms": "1"}
    )


def _require(condition: object, complaint: str) -> None:
    if not condition:
        raise Refused(complaint)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _arguments(arguments: dict[str, Any] | None) -> str:
    return '{"pattern": "a",' if arguments is None else json.dumps(arguments)


def _usage(variant: Variant, before: str, after: str) -> dict[str, Any]:
    counted = variant.reply.usage
    plain: dict[str, Any] = {
        f"{before}_tokens": counted.input_tokens,
        f"{after}_tokens": counted.output_tokens,
        "total_tokens": counted.tokens,
    }
    match variant.usage:
        case "detailed":
            cached = {f"{before}_tokens_details": {"cached_tokens": counted.cached_tokens}}
            return {"usage": plain | cached | {f"{after}_tokens_details": {"reasoning_tokens": 2}}}
        case "plain":
            return {"usage": plain}
        case "nonsense":
            return {"usage": plain | {f"{before}_tokens": -5}}
        case "none":
            return {}


# Responses


class _FlatTool(_Strict):
    type: Literal["function"]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str
    parameters: dict[str, Any]
    strict: Literal[True]


class _Easy(_Strict):
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(min_length=1)]


class _OutputText(_Strict):
    type: Literal["output_text"]
    text: str
    annotations: list[Any]


class _OutputMessage(_Strict):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: Literal["completed", "incomplete"]
    content: list[_OutputText]


class _Reasoning(_Strict):
    id: str
    type: Literal["reasoning"]
    summary: list[Any]
    encrypted_content: str


class _FunctionCall(_Strict):
    id: str | None = None
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    status: Literal["completed", "incomplete"] = "completed"


class _FunctionOutput(_Strict):
    type: Literal["function_call_output"]
    call_id: str
    output: str


def _kind(item: Any) -> str:
    return str(item.get("type", "easy")) if isinstance(item, dict) else "none"


_Item = Annotated[
    Annotated[_Easy, Tag("easy")]
    | Annotated[_OutputMessage, Tag("message")]
    | Annotated[_Reasoning, Tag("reasoning")]
    | Annotated[_FunctionCall, Tag("function_call")]
    | Annotated[_FunctionOutput, Tag("function_call_output")],
    Discriminator(_kind),
]


class _ReasoningOption(_Strict):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class _ResponsesRequest(_Strict):
    model: str
    instructions: str
    input: list[_Item]
    tools: list[_FlatTool]
    parallel_tool_calls: bool
    store: Literal[False]
    max_output_tokens: Annotated[int, Field(ge=16)]
    include: list[Literal["reasoning.encrypted_content"]] = Field(default_factory=list)
    reasoning: _ReasoningOption | None = None


class _Responses:
    def __init__(self, server: LlmServer) -> None:
        self._server = server

    def understand(self, body: dict[str, Any]) -> tuple[Seen, str]:
        request = _ResponsesRequest.model_validate(body)
        if request.include and not self._server.knows_reasoning:
            raise Refused("Encrypted content is not supported with this model.", param="include")
        for tool in request.tools:
            _check_strict(tool.parameters)
        open_calls: dict[str, str] = {}
        given = {item["id"]: item for reply in self._server.given for item in reply}
        replies: list[list[dict[str, Any]]] = []
        result, before = "", "easy"
        for place, (item, raw) in enumerate(zip(request.input, body["input"], strict=True)):
            if isinstance(item, _OutputMessage | _Reasoning | _FunctionCall) and item.id:
                _require(given.get(item.id) == raw, f"input[{place}] is not the item that was given out")
                if before not in ("message", "reasoning", "function_call"):
                    replies.append([])
                replies[-1].append(raw)
            if before == "reasoning":
                follows = isinstance(item, _OutputMessage | _FunctionCall | _Reasoning)
                _require(follows, f"input[{place - 1}] of type 'reasoning' lacks its required following item")
            match item:
                case _FunctionCall(call_id=call_id, name=name):
                    open_calls[call_id] = name
                case _FunctionOutput(call_id=call_id, output=result):
                    _require(open_calls.pop(call_id, None), f"No tool call found for call_id {call_id}")
                case _Easy(role="user"):
                    _require(not open_calls, f"No tool output found for {sorted(open_calls)}")
            before = _kind(raw)
        _require(before != "reasoning", "the last item of type 'reasoning' lacks its required following item")
        _require(not open_calls, f"No tool output found for {sorted(open_calls)}")
        seen = Seen(
            model=request.model,
            system=request.instructions,
            max_output_tokens=request.max_output_tokens,
            tools=tuple(tool.name for tool in request.tools),
            replies=tuple(tuple(items) for items in replies),
        )
        return seen, result

    def answer(self, variant: Variant) -> dict[str, Any]:
        reply, state = variant.reply, "completed" if variant.ending == "whole" else "incomplete"
        items: list[dict[str, Any]] = []
        if self._server.knows_reasoning:
            secret = secrets.token_urlsafe(48)
            items.append({"id": _id("rs"), "type": "reasoning", "summary": [], "encrypted_content": secret})
        if reply.text:
            content = [{"type": "output_text", "text": reply.text, "annotations": []}]
            items.append(
                {"id": _id("msg"), "type": "message", "role": "assistant", "status": state, "content": content}
            )
        for name, arguments in reply.tool_calls:
            items.append(
                {
                    "id": _id("fc"),
                    "type": "function_call",
                    "call_id": _id("call"),
                    "name": name,
                    "arguments": _arguments(arguments),
                    "status": "completed",
                }
            )
        if variant.last_arguments is not None:
            items[-1] |= {"arguments": variant.last_arguments}
        self._server.given.append(tuple(items))
        reason = {"cut": "max_output_tokens", "withheld": "content_filter"}.get(variant.ending)
        return {
            "id": _id("resp"),
            "object": "response",
            "created_at": 1,
            "model": "model-1",
            "status": state,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": items,
            **_usage(variant, "input", "output"),
        }


def _check_strict(schema: Any) -> None:
    """The rules for schemas of strict mode that adapters trip over."""
    if isinstance(schema, list):
        for part in schema:
            _check_strict(part)
        return
    _require(set(schema) <= STRICT_KEYWORDS, f"not permitted: {sorted(set(schema) - STRICT_KEYWORDS)}")
    if schema.get("type") == "object":
        _require(schema.get("additionalProperties") is False, "'additionalProperties' is required to be false")
        _require(set(schema["required"]) == set(schema["properties"]), "'required' must name every property")
    for part in schema.get("properties", {}).values():
        _check_strict(part)
    _check_strict(schema.get("anyOf", []))
    if "items" in schema:
        _check_strict(schema["items"])


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(8)}"


# Chat Completions, as servers other than OpenAI's know it


class _ChatFunction(_Strict):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str
    parameters: dict[str, Any]


class _ChatTool(_Strict):
    type: Literal["function"]
    function: _ChatFunction


class _AskedFunction(_Strict):
    name: str
    arguments: str


class _AskedCall(_Strict):
    id: str
    type: Literal["function"]
    function: _AskedFunction


class _System(_Strict):
    role: Literal["system"]
    content: str


class _User(_Strict):
    role: Literal["user"]
    content: Annotated[str, Field(min_length=1)]


class _Assistant(_Strict):
    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    reasoning_content: str | None = None
    tool_calls: Annotated[list[_AskedCall], Field(min_length=1)] | None = None


class _ToolAnswer(_Strict):
    role: Literal["tool"]
    tool_call_id: str
    content: str


_ChatMessage = Annotated[_System | _User | _Assistant | _ToolAnswer, Field(discriminator="role")]


class _ChatRequest(_Strict):
    model: str
    messages: Annotated[list[_ChatMessage], Field(min_length=2)]
    max_tokens: Annotated[int, Field(ge=1)]
    tools: Annotated[list[_ChatTool], Field(min_length=1)] | None = None
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None


_object = TypeAdapter(dict[str, Any])


class _Chat:
    def __init__(self, server: LlmServer) -> None:
        self._server = server

    def understand(self, body: dict[str, Any]) -> tuple[Seen, str]:
        request = _ChatRequest.model_validate(body)
        first, *messages = request.messages
        _require(isinstance(first, _System), "the first message must be the system's")
        open_calls: set[str] = set()
        given = [reply[0] for reply in self._server.given]
        replies: list[tuple[dict[str, Any], ...]] = []
        result = ""
        for message, raw in zip(messages, body["messages"][1:], strict=True):
            if not isinstance(message, _ToolAnswer):
                _require(not open_calls, f"tool calls without an answer: {sorted(open_calls)}")
            match message:
                case _System():
                    raise Refused("only the first message may be the system's")
                case _Assistant(content=content, tool_calls=calls):
                    _require(content or calls, "an assistant's message must have content or tool calls")
                    for call in calls or []:
                        _object.validate_json(call.function.arguments)  # as vLLM's chat templates do
                        open_calls.add(call.id)
                    if raw in given:
                        replies.append((raw,))
                case _ToolAnswer(tool_call_id=call_id, content=result):
                    _require(call_id in open_calls, f"no tool call {call_id}")
                    open_calls.remove(call_id)
                case _User():
                    pass
        _require(not open_calls, f"tool calls without an answer: {sorted(open_calls)}")
        _require(not isinstance(messages[-1], _Assistant), "the last message is the assistant's own")
        seen = Seen(
            model=request.model,
            system=first.content or "",
            max_output_tokens=request.max_tokens,
            tools=tuple(tool.function.name for tool in request.tools or ()),
            replies=tuple(replies),
        )
        return seen, result

    def answer(self, variant: Variant) -> dict[str, Any]:
        reply = variant.reply
        calls = [
            {"id": _id("call"), "type": "function", "function": {"name": name, "arguments": _arguments(arguments)}}
            for name, arguments in reply.tool_calls
        ]
        if variant.last_arguments is not None:
            calls[-1]["function"] = {"name": reply.tool_calls[-1][0], "arguments": variant.last_arguments}
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
        if self._server.knows_reasoning:
            message["reasoning_content"] = "thinking"
        if calls:
            message["tool_calls"] = calls
        self._server.given.append((message,))
        endings = {"cut": "length", "withheld": "content_filter"}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": endings.get(variant.ending, "tool_calls" if calls else "stop"),
            "logprobs": None,
        }
        return {
            "id": _id("chatcmpl"),
            "object": "chat.completion",
            "created": 1,
            "model": "model-1",
            "choices": [choice],
            **_usage(variant, "prompt", "completion"),
        }
