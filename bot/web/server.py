"""The HTTP door: a webhook is proved, recorded, and answered; no work happens in the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any

import structlog
from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse

from bot.db.store import Store
from bot.github import webhook
from bot.web import keys as key_page

MAX_BODY = 25 * 1024 * 1024
"""GitHub sends no payload above 25 MB."""

log = structlog.get_logger()


def create(
    *,
    store: Store,
    secret: str,
    wake: Callable[[], None],
    ready: Callable[[], Awaitable[str | None]],
    clock: Callable[[], datetime],
    keys: Callable[[], Mapping[str, Any]] | None = None,
) -> FastAPI:
    """The application. `ready` says what is missing, or None; `keys` are the public keys to publish, if any; an empty
    secret is a ValueError, for it would let everybody in."""
    if not secret:
        raise ValueError("the webhook secret is empty")
    app = FastAPI(title="coder-bot", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/github/webhook")
    async def github_webhook(
        request: Request,
        x_github_event: Annotated[str, Header(max_length=100)] = "",
        x_github_delivery: Annotated[str, Header(max_length=100)] = "",
    ) -> JSONResponse:
        body = await _body(request)
        if body is None:
            refused = _said(413, f"The body is larger than {MAX_BODY} bytes.")
            refused.headers["connection"] = "close"  # or the rest of it would still be read
            return refused
        if not webhook.verify(secret, body, request.headers.get("x-hub-signature-256")):
            log.warning("webhook refused", reason="signature", delivery=x_github_delivery)
            return _said(401, "The signature does not fit; is the webhook secret the same on both sides?")
        if not x_github_event or not x_github_delivery:
            return _said(400, "X-GitHub-Event and X-GitHub-Delivery are required.")
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return _said(415, "Set the webhook's content type to application/json.")
        try:
            event = webhook.parse(x_github_event, body)
        except webhook.Malformed as exc:
            return _said(400, str(exc))
        new = await store.accept(x_github_delivery, x_github_event, event, now=clock())
        if new:
            wake()
        return _said(202, "accepted" if new else "known already")

    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        return _said(200, "ok")

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        missing = await ready()
        return _said(503, missing) if missing else _said(200, "ok")

    if keys is not None:
        key_page.publish(app, keys)
    return app


async def _body(request: Request) -> bytes | None:
    """The raw body, or None once it is larger than allowed; never more than that in memory."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


def _said(status: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message}, status_code=status)
