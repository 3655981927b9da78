"""Every adapter keeps the models' contract."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import pytest

from bot.llm.chat import ChatModel
from bot.llm.protocol import Model
from bot.llm.responses import ResponsesModel
from bot.llm.scripted import ScriptedModel
from bot.llm.testing import ModelContract, Plan, Planned, RemoteModelContract
from tests.llm_server import LlmServer, llm_server


class OverLoopback(RemoteModelContract):
    """Both remote adapters against the strict server; at the end it must have had nothing to complain about that the
    test did not mean."""

    adapter: type[ResponsesModel] | type[ChatModel]

    @pytest.fixture
    async def server(self) -> AsyncIterator[LlmServer]:
        async with llm_server() as server:
            yield server
            assert [said for said in server.complaints if said != "no further answer was planned"] == []

    @pytest.fixture
    async def plan(self, server: LlmServer) -> AsyncIterator[Plan]:
        made: list[Model] = []

        def plan(*replies: Planned) -> Callable[[], Model]:
            server.will(*replies)

            def make() -> Model:
                made.append(self.adapter("model-1", api_key=server.api_key, base_url=server.url))
                return made[-1]

            return make

        yield plan
        for model in made:
            await model.aclose()


class TestResponsesModel(OverLoopback):
    adapter = ResponsesModel


class TestChatModel(OverLoopback):
    adapter = ChatModel


class TestScriptedModel(ModelContract):
    @pytest.fixture
    def plan(self, tmp_path: Path) -> Plan:
        numbers = count()

        def plan(*replies: Planned) -> Callable[[], Model]:
            path = tmp_path / f"script-{next(numbers)}.jsonl"
            path.write_text("".join(json.dumps(_line(reply)) + "\n" for reply in replies))
            return lambda: ScriptedModel(path)

        return plan


def _line(reply: Planned) -> dict[str, object]:
    calls = [{"name": name, "arguments": arguments} for name, arguments in reply.tool_calls]
    usage = {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
    return {"text": reply.text, "tool_calls": calls, "usage": usage, "expect": reply.expects}
