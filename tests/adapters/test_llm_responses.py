"""What is particular to OpenAI's Responses API."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import respx

from bot.agent.tools import TOOLS
from bot.domain.errors import ModelError, ModelReason, UserError
from bot.llm.protocol import ToolSpec, UserMessage
from bot.llm.responses import ResponsesModel, strict_schema
from bot.llm.testing import SEARCH, TASK, Planned, Trouble, ask
from tests.llm_server import LlmServer, llm_server


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
async def model(server: LlmServer) -> AsyncIterator[ResponsesModel]:
    model = ResponsesModel("model-1", api_key=server.api_key, base_url=server.url)
    yield model
    await model.aclose()


def answered(server: LlmServer, *items: dict[str, Any], **rest: Any) -> None:
    """The server's next answer is exactly this."""
    server.will(Trouble(status=200, body=json.dumps({"status": "completed", "output": items, **rest})))


def call(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": call_id, "name": "submit", "arguments": "{}"}


async def test_nothing_is_stored_at_openai_and_reasoning_comes_back_encrypted(
    model: ResponsesModel, server: LlmServer
) -> None:
    server.will(Planned(text="Hello."))
    await ask(model, TASK, tools=[SEARCH])
    (body,) = server.bodies
    tool = {
        "type": "function",
        "name": "search",
        "description": "Search files for a pattern.",
        "strict": True,
        "parameters": strict_schema(SEARCH.parameters),
    }
    assert body == {
        "model": "model-1",
        "instructions": "Fix it.",
        "input": [{"role": "user", "content": TASK.text}],
        "tools": [tool],
        "parallel_tool_calls": True,
        "max_output_tokens": 321,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


async def test_the_reasoning_effort_is_sent_when_there_is_one(server: LlmServer) -> None:
    model = ResponsesModel("model-1", api_key=server.api_key, base_url=server.url, reasoning_effort="low")
    server.will(Planned(text="Hello."))
    await ask(model, TASK)
    await model.aclose()
    assert server.bodies[0]["reasoning"] == {"effort": "low"}


async def test_a_model_that_does_not_reason_is_asked_for_its_reasoning_only_once(
    model: ResponsesModel, server: LlmServer
) -> None:
    server.knows_reasoning = False
    server.will(Planned(text="One."), Planned(text="Two."))
    first = await ask(model, TASK)
    second = await ask(model, TASK, first, UserMessage(text="Go on."))
    assert (first.text, second.text) == ("One.", "Two.")
    assert server.attempts == 3
    assert ["include" in body for body in server.bodies] == [False, False]


@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        ("server_error", "unavailable", True),
        ("rate_limit_exceeded", "rate_limited", True),
        ("invalid_prompt", "unusable_reply", False),
    ],
)
async def test_a_reply_that_failed_at_openai_is_an_error(
    model: ResponsesModel, server: LlmServer, code: str, reason: ModelReason, retryable: bool
) -> None:
    answered(server, status="failed", error={"code": code, "message": "vendor-text"})
    with pytest.raises(ModelError) as caught:
        await ask(model, TASK)
    assert (caught.value.reason, caught.value.retryable) == (reason, retryable)
    assert "vendor-text" not in str(caught.value)


async def test_two_calls_of_one_id_make_a_reply_unusable(model: ResponsesModel, server: LlmServer) -> None:
    answered(server, call("same"), call("same"))
    with pytest.raises(ModelError, match="the same id") as caught:
        await ask(model, TASK)
    assert caught.value.reason == "unusable_reply"


async def test_a_refusal_is_text(model: ResponsesModel, server: LlmServer) -> None:
    answered(server, {"type": "message", "content": [{"type": "refusal", "refusal": "I won't."}]})
    assert (await ask(model, TASK)).text == "I won't."


async def test_items_of_other_kinds_are_carried_but_not_read(model: ResponsesModel, server: LlmServer) -> None:
    items = {"type": "news_of_2031", "content": 7}, call("a")
    answered(server, *items)
    reply = await ask(model, TASK)
    assert reply.raw == items
    assert [each.id for each in reply.tool_calls] == ["a"]


async def test_reasoning_that_was_cut_off_is_not_sent_back(model: ResponsesModel, server: LlmServer) -> None:
    said = {"type": "message", "content": [{"type": "output_text", "text": "First,"}]}
    answered(server, said, {"type": "reasoning", "id": "rs", "summary": []}, status="incomplete")
    reply = await ask(model, TASK)
    assert (reply.text, reply.raw) == ("First,", (said,))


async def test_a_call_marked_as_cut_has_no_arguments_wherever_it_stands(
    model: ResponsesModel, server: LlmServer
) -> None:
    answered(server, call("a") | {"status": "incomplete"}, call("b"))
    assert [each.arguments for each in (await ask(model, TASK)).tool_calls] == [None, {}]


async def test_without_an_address_it_is_openai_itself() -> None:
    model = ResponsesModel("model-1", api_key="key-made-up-here")
    with respx.mock() as router:
        route = router.post("https://api.openai.com/v1/responses")
        route.mock(return_value=httpx.Response(200, json={"status": "completed", "output": []}))
        await ask(model, TASK)
    await model.aclose()
    assert route.calls.last.request.headers["authorization"] == "Bearer key-made-up-here"


async def test_a_provider_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
    model = ResponsesModel("model-1", api_key="key", base_url=url, max_retries=0)
    with pytest.raises(ModelError, match="OPENAI_BASE_URL") as caught:
        await ask(model, TASK)
    await model.aclose()
    assert (caught.value.reason, caught.value.retryable) == ("unavailable", True)


@pytest.mark.parametrize("key", ["", "two words", "line\n", "schlüssel"])
def test_a_key_that_can_be_none_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UserError, match="set OPENAI_API_KEY") as caught:
        ResponsesModel("model-1", api_key=key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("url", ["models.example.com/v1", "ftp://example.com", "http://", "https://a:b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="OPENAI_BASE_URL"):
        ResponsesModel("model-1", api_key="key", base_url=url)


def test_the_client_library_is_loaded_with_the_first_call_only() -> None:
    code = (
        "import sys; from bot.llm.responses import ResponsesModel; from bot.llm.chat import ChatModel; "
        "ResponsesModel('m', api_key='k'); ChatModel('m', api_key='k'); print('openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (
            {"type": "string", "minLength": 1, "title": "A", "description": "d"},
            {"type": "string", "description": "d"},
        ),
        ({"type": "array", "items": {"enum": [1], "default": 1}}, {"type": "array", "items": {"enum": [1]}}),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "description": "d"}}},
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"type": "integer", "description": "d"}, {"type": "null"}]}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            {
                "type": "object",
                "properties": {
                    "a": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "d"},
                    "b": {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "e"},
                },
            },
            {
                "type": "object",
                "properties": {
                    "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "d"},
                    "b": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}], "description": "e"},
                },
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        ),
        (
            {"$defs": {"X": {"type": "string", "pattern": "x"}}, "anyOf": [{"$ref": "#/$defs/X"}]},
            {"$defs": {"X": {"type": "string"}}, "anyOf": [{"$ref": "#/$defs/X"}]},
        ),
    ],
)
def test_schemas_are_made_strict(schema: dict[str, Any], strict: dict[str, Any]) -> None:
    assert strict_schema(schema) == strict


async def test_every_tool_of_the_agent_is_one_that_openai_takes(model: ResponsesModel, server: LlmServer) -> None:
    server.will(Planned(text="Hello."))
    specs = [
        ToolSpec(name=name, description=arguments.__doc__ or "", parameters=arguments.model_json_schema())
        for name, (arguments, _) in TOOLS.items()
    ]
    await ask(model, TASK, tools=specs)
    assert server.seen[0].tools == tuple(TOOLS)
