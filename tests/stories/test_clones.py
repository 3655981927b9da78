"""Clones that go wrong: the token's part in it, and what is left."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid

import httpx

from tests.stories.harness import Story, story, with_config

RULES = "checks: [{name: tests, run: python3 -m pytest -q}]\ntimeouts: {clone: 3s}\n"


def clones(s: Story) -> list[bool]:
    """Of each token that was made for cloning, whether it was given back."""
    return [t.revoked for t in s.github.tokens if set(t.permissions) == {"contents", "metadata"}]


async def nothing_is_left(s: Story, *words: str) -> None:
    assert await s.code() == "CLONE_FAILED"
    [comment] = s.comments
    assert all(word in comment for word in words), comment
    assert await s.containers() == []
    assert all(token.revoked for token in s.github.tokens)


async def test_a_token_refused_while_cloning_is_replaced_once_and_then_it_is_an_error() -> None:
    """That it goes on where the second one is taken is in test_planted_git."""
    async with story(CODER_SNAPSHOT_DISK="0") as s:

        async def refuse(path: str) -> None:
            for token in s.github.tokens:
                token.expires_at = s.clock()

        s.github.on_git(refuse)
        await s.comment()
        await s.settle()
        assert await s.code() == "CLONE_FAILED"
        assert len(clones(s)) == 2
        assert await s.containers() == []


async def test_a_clone_that_stands_still_is_ended_with_its_sandbox_and_its_token() -> None:
    async with story(with_config(RULES)) as s:
        never = asyncio.Event()

        async def wait(path: str) -> None:
            if path.endswith("git-upload-pack"):
                await never.wait()

        s.github.on_git(wait)
        await s.comment()
        await s.settle()
        await nothing_is_left(s, "did not end within 3 seconds")
        assert clones(s) == [True]
        never.set()


async def test_a_delivery_that_says_to_clone_from_elsewhere_gets_no_token() -> None:
    async with story() as s:
        door, s.github.webhook_url = s.github.webhook_url, None
        await s.comment()
        payload = s.github.deliveries[-1].payload
        s.github.webhook_url = door
        payload["repository"]["clone_url"] = "http://127.0.0.1:9/octo/sample.git"
        body = json.dumps(payload).encode()
        signature = hmac.new(s.github.app.webhook_secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/json",
            "x-github-event": "issue_comment",
            "x-github-delivery": str(uuid.uuid4()),
            "x-hub-signature-256": f"sha256={signature}",
        }
        async with httpx.AsyncClient() as client:
            assert (await client.post(door or "", content=body, headers=headers)).status_code == 202
        await s.settle()
        await nothing_is_left(s, "not this bot's GitHub")
        assert clones(s) == []
