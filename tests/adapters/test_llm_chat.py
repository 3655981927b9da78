"""What is particular to the Chat Completions API and the many servers that speak it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import respx

from bot.domain.errors import UserError
from bot.llm.chat import ChatModel
from bot.llm.protocol import ToolResult
from bot.llm.testing import SEARCH, TASK, Planned, Trouble, ask
from tests.llm_server import LlmServer, llm_server


@pytest.fixture
async def server() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
async def model(server: LlmServer) -> AsyncIterator[ChatModel]:
    model = ChatModel("model-1", api_key=server.api_key, base_url=server.url, reasoning_effort="low")
    yield model
    await model.aclose()


def answer(message: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]}


def call(arguments: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "search", "arguments": arguments}, **rest}


async def test_only_what_every_server_knows_is_sent(model: ChatModel, server: LlmServer) -> None:
    server.will(Planned(text="Hello."))
    await ask(model, TASK, tools=[SEARCH])
    function = {"name": "search", "description": SEARCH.description, "parameters": SEARCH.parameters}
    assert server.bodies == [
        {
            "model": "model-1",
            "messages": [{"role": "system", "content": "Fix it."}, {"role": "user", "content": TASK.text}],
            "tools": [{"type": "function", "function": function}],
            "max_tokens": 321,
            "reasoning_effort": "low",
        }
    ]


async def test_openai_itself_gets_its_newer_names_and_stores_nothing() -> None:
    model = ChatModel("model-1", api_key="key-made-up-here")
    with respx.mock() as router:
        route = router.post("https://api.openai.com/v1/chat/completions")
        route.mock(return_value=httpx.Response(200, json=answer({"content": "Hello."})))
        assert (await ask(model, TASK, tools=())).text == "Hello."
    await model.aclose()
    body = json.loads(route.calls.last.request.content)
    assert {key: value for key, value in body.items() if key != "messages"} == {
        "model": "model-1",
        "max_completion_tokens": 321,
        "store": False,
    }


async def test_a_server_of_ones_own_needs_no_key(server: LlmServer) -> None:
    server.api_key = "none"
    server.will(Planned(text="Hello."))
    model = ChatModel("model-1", base_url=server.url)
    assert (await ask(model, TASK)).text == "Hello."
    await model.aclose()


def test_openai_itself_needs_one() -> None:
    with pytest.raises(UserError, match="set OPENAI_API_KEY"):
        ChatModel("model-1")


@pytest.mark.parametrize("ids", [{}, {"id": ""}, {"id": None}, {"id": "call_0"}])
async def test_calls_without_ids_of_their_own_get_some(
    model: ChatModel, server: LlmServer, ids: dict[str, Any]
) -> None:
    asked = {"content": None, "tool_calls": [call('{"pattern": "a"}', **ids), call('{"pattern": "b"}', **ids)]}
    server.will(Trouble(status=200, body=json.dumps(answer(asked))), Planned(text="Done.", expects="found b"))
    first = await ask(model, TASK)
    assert [each.id for each in first.tool_calls] == ["call-1-1", "call-1-2"]
    results = [ToolResult(call_id=f"call-1-{n}", text=f"found {what}") for n, what in ((1, "a"), (2, "b"))]
    assert (await ask(model, TASK, first, *results)).text == "Done."


@pytest.mark.parametrize(
    "arguments", [None, {"pattern": "a"}, 7, '["a"]', "", '{"pattern": NaN}', '{"pattern": 1e999}']
)
async def test_arguments_that_are_no_text_of_an_object_are_none(
    model: ChatModel, server: LlmServer, arguments: Any
) -> None:
    asked = {"content": "Hm.", "tool_calls": [call(arguments, id="a")]}
    server.will(Trouble(status=200, body=json.dumps(answer(asked))), Planned(text="Done."))
    first = await ask(model, TASK)
    assert [each.arguments for each in first.tool_calls] == [None]
    assert (await ask(model, TASK, first, ToolResult(call_id="a", text="no"))).text == "Done."


async def test_a_refusal_is_text(model: ChatModel, server: LlmServer) -> None:
    server.will(Trouble(status=200, body=json.dumps(answer({"content": None, "refusal": "I won't."}))))
    assert (await ask(model, TASK)).text == "I won't."
