"""The front door: proved, recorded once, answered before any work."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from bot.github import webhook
from bot.web.server import MAX_BODY
from tests.stories.harness import Story, fix, story, submit


async def post(s: Story, body: bytes, **headers: str) -> httpx.Response:
    assert s.github.webhook_url is not None
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(
            s.github.webhook_url,
            content=body,
            headers={
                "content-type": "application/json",
                "x-github-event": "ping",
                "x-github-delivery": "d",
                **headers,
            },
        )


def signed(s: Story, body: bytes) -> dict[str, str]:
    import hashlib
    import hmac

    secret = s.github.app.webhook_secret.encode()
    return {"x-hub-signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()}


async def test_the_door_answers_bad_input_by_its_kind() -> None:
    async with story() as s:
        good = b'{"zen": "x"}'
        assert (await post(s, good, **signed(s, good))).status_code == 202
        assert (await post(s, good)).status_code == 401
        assert (await post(s, good, **{"x-hub-signature-256": "sha256=" + "0" * 64})).status_code == 401
        strange = [(b"x-hub-signature-256", "sha256=é".encode("latin-1")), (b"x-github-event", b"ping")]
        async with httpx.AsyncClient() as client:
            assert (await client.post(s.github.webhook_url or "", content=good, headers=strange)).status_code == 401
        assert (await post(s, b"[]", **signed(s, b"[]"), **{"x-github-event": "issues"})).status_code == 400
        assert (await post(s, b"{", **signed(s, b"{"), **{"x-github-event": "issues"})).status_code == 400
        assert (await post(s, good, **signed(s, good), **{"x-github-event": ""})).status_code == 400
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert (await post(s, good, **signed(s, good), **form)).status_code == 415
        assert s.comments == []


async def test_a_body_over_the_cap_is_refused_while_it_streams() -> None:
    async with story() as s:
        sent = 0

        async def endless():  # type: ignore[no-untyped-def]
            nonlocal sent
            for _ in range(4 * MAX_BODY // 65536):
                sent += 65536
                yield b"x" * 65536

        async with httpx.AsyncClient(timeout=30) as client:
            try:
                answer = await client.post(s.github.webhook_url or "", content=endless())
                assert answer.status_code == 413
            except httpx.TransportError:
                pass  # the connection was closed on us, which is a refusal too
        assert sent < 3 * MAX_BODY


async def test_five_deliveries_at_once_and_a_redelivery_make_one_task() -> None:
    async with story() as s:
        s.script(fix(), submit())
        guid = await s.comment()
        [delivery] = [d for d in s.github.deliveries if d.guid == guid]
        headers = {**signed(s, delivery.body), "x-github-event": "issue_comment"}
        same = [post(s, delivery.body, **headers, **{"x-github-delivery": guid}) for _ in range(5)]
        other = [post(s, delivery.body, **headers, **{"x-github-delivery": f"other-{n}"}) for n in range(3)]
        answers = await asyncio.gather(*same, *other)
        assert {answer.status_code for answer in answers} == {202}
        await s.settle()
        await s.github.redeliver(guid)
        await s.settle()
        assert len(await s.bot.deps.store.tasks()) == 1
        assert len(s.pull_requests) == 1
        assert len(s.comments) == 1


async def test_what_is_said_twice_under_different_ids_is_answered_once() -> None:
    async with story() as s:
        for text in ("/coder status", "/coder frobnicate", "/coder help"):
            guid = await s.comment(text)
            [delivery] = [d for d in s.github.deliveries if d.guid == guid]
            headers = {**signed(s, delivery.body), "x-github-event": "issue_comment"}
            again = [post(s, delivery.body, **headers, **{"x-github-delivery": f"{guid}-{n}"}) for n in range(4)]
            assert {answer.status_code for answer in await asyncio.gather(*again)} == {202}
            copies = [await s.bot.deps.store.delivery(f"{guid}-{n}") for n in range(4)]
            assert [copy.outcome for copy in copies if copy] == ["duplicate of another delivery"] * 4
        await s.settle()
        assert len(s.comments) == 3


async def test_health_says_ok_and_readiness_looks_at_the_database() -> None:
    async with story() as s:
        origin = (s.github.webhook_url or "").removesuffix("/github/webhook")
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{origin}/healthz")).status_code == 200
            assert (await client.get(f"{origin}/readyz")).status_code == 200


async def test_the_bots_own_comments_start_nothing() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        own = [d for d in s.github.deliveries if b"[bot]" in d.body]
        assert own
        assert len(await s.bot.deps.store.tasks()) == 1


def test_an_empty_secret_is_refused_at_start_up() -> None:
    from bot.web import server

    with pytest.raises(ValueError, match="secret"):
        server.create(store=None, secret="", wake=lambda: None, ready=None, clock=None)  # type: ignore[arg-type]
    assert not webhook.verify("", b"", "sha256=" + "0" * 64)
