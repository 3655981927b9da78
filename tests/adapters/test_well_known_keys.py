"""The public keys at their well-known address: what is there, and that a new key is there at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from bot import signing
from bot.db.store import Store
from bot.domain.errors import UserError
from bot.settings import load
from bot.web import server
from bot.web.keys import PATH


async def get(folder: Path, keys: Callable[[], Mapping[str, Any]] | None) -> httpx.Response:
    async def ready() -> None:
        return None

    store = Store(f"sqlite+aiosqlite:///{folder / 'coder.db'}")
    app = server.create(store=store, secret="s", wake=lambda: None, ready=ready, clock=signing.utc_now, keys=keys)
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bot.test") as client:
            return await client.get(PATH)
    finally:
        await store.aclose()


async def test_the_keys_are_published_and_a_rotated_one_is_there_at_once(tmp_path: Path) -> None:
    settings = load({"CODER_HOME": str(tmp_path)})

    def published() -> dict[str, Any]:
        return signing.document(signing.known(settings))

    assert (await get(tmp_path, published)).json() == {"version": 1, "keys": []}
    assert not (tmp_path / "keys").exists()
    first = signing.load(settings).keyid
    second = signing.rotate(settings).keyid
    answer = await get(tmp_path, published)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "public, max-age=60"
    keys = signing.read(answer.content, "answer")
    assert [(key.keyid, key.in_use) for key in keys] == [(second, True), (first, False)]
    assert b"PRIVATE" not in answer.content


async def test_keys_that_can_not_be_read_are_the_operators_business_alone(tmp_path: Path) -> None:
    def broken() -> dict[str, Any]:
        raise UserError("/home/coder/keys/receipt.pem is empty.")

    answer = await get(tmp_path, broken)
    assert (answer.status_code, answer.json()) == (
        503,
        {"message": "The keys can't be read now; the log says why."},
    )


async def test_without_keys_to_publish_there_is_no_such_page(tmp_path: Path) -> None:
    assert (await get(tmp_path, None)).status_code == 404
