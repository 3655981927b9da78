"""The main job with a model that is reached over HTTP, by both of OpenAI's protocols, on an independent server."""

from __future__ import annotations

import pytest

from bot.llm.testing import Planned
from tests.llm_server import llm_server
from tests.stories.harness import BROKEN, FIXED, story


@pytest.mark.parametrize("kind", ["openai", "chat"])
async def test_a_model_behind_a_server_does_the_main_job(kind: str) -> None:
    async with llm_server() as server:
        server.will(
            Planned(text="I look.", tool_calls=(("read_file", {"path": "calc.py"}), ("run_tests", {}))),
            Planned(
                tool_calls=(("edit_file", {"path": "calc.py", "old": BROKEN, "new": FIXED}),),
                expects="assert -1 == 5",
            ),
            Planned(tool_calls=(("submit", {"title": "Add", "summary": "The sign was wrong."}),), expects="Edited"),
        )
        more = {
            "CODER_MODEL": f"{kind}:gpt-5",
            "OPENAI_API_KEY": server.api_key,
            "OPENAI_BASE_URL": server.url,
            "CODER_PRICES": '{"gpt-5": [1, 10, 0.1]}',
        }
        async with story(**more) as s:
            await s.comment()
            await s.settle()
            assert await s.code() == "VERIFIED"
            assert len(s.pull_requests) == 1
            receipt = await s.bot.deps.store.receipt((await s.bot.deps.store.tasks())[0].id)
            assert receipt is not None
            assert receipt.document["model"] == f"{kind}:gpt-5"
            assert receipt.document["cost_usd"] > 0
            assert server.complaints == []
            assert server.unused == 0
