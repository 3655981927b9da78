"""Every official example payload goes through the front door: signed, over HTTP, and never a 5xx."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import httpx

from tests.stories.harness import story
from tests.stories.test_deliveries import signed

EXAMPLES = next((Path(__file__).parents[1] / "payloads").glob("*.gz"))


async def test_all_official_examples_are_answered_and_start_no_task() -> None:
    events = json.loads(gzip.decompress(EXAMPLES.read_bytes()))
    bodies = [(event["name"], json.dumps(example).encode()) for event in events for example in event["examples"]]
    assert len(bodies) == 329
    async with story() as s, httpx.AsyncClient(timeout=30) as client:
        for number, (name, body) in enumerate(bodies):
            headers = {
                **signed(s, body),
                "content-type": "application/json",
                "x-github-event": name,
                "x-github-delivery": f"example-{number}",
            }
            answer = await client.post(s.github.webhook_url or "", content=body, headers=headers)
            assert answer.status_code == 202, (name, answer.text)
        assert await s.bot.deps.store.tasks() == []
