"""What the bot needs to work, checked one by one, each with the way to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot import app
from bot.db.store import Store
from bot.domain.errors import CoderError
from bot.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check. `fix` is empty where nothing needs mending."""

    name: str
    ok: bool
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "detail": self.detail, "fix": self.fix}


async def examine(settings: Settings) -> list[Finding]:
    """All checks; a failing one does not keep the others from being made."""
    return [
        await _database(settings),
        await _sandbox(settings),
        await _model(settings),
        _github(settings),
        _webhook(settings),
    ]


async def _database(settings: Settings) -> Finding:
    store = Store(settings.database_url)
    kind = store.engine.dialect.name
    try:
        await store.next_run()
    except Exception as exc:  # any driver's error means the same here: the database can't be read
        fix = "Run `coder-bot db upgrade`; on Postgres see that CODER_DATABASE_URL is right and the server is up."
        return Finding(name="database", ok=False, detail=f"{kind}: {type(exc).__name__}", fix=fix)
    finally:
        await store.aclose()
    return Finding(name="database", ok=True, detail=f"{kind}, schema is there")


async def _sandbox(settings: Settings) -> Finding:
    try:
        provider = app.sandbox_provider(settings)
        try:
            image = await provider.image_id(settings.coder_image)
        finally:
            await provider.aclose()
    except CoderError as exc:
        fix = "Start Docker, and build the image with scripts/sandbox-image."
        return Finding(name="sandbox", ok=False, detail=str(exc), fix=fix)
    return Finding(name="sandbox", ok=True, detail=f"{settings.coder_image} is {image[:19]}")


async def _model(settings: Settings) -> Finding:
    try:
        model = app.model(settings, None)
        await model.aclose()
    except CoderError as exc:
        return Finding(name="model", ok=False, detail=str(exc), fix="Set OPENAI_API_KEY, or CODER_MODEL and its key.")
    priced = "price known" if model.price else "price unknown: limits.cost can't hold; set CODER_PRICES"
    return Finding(name="model", ok=True, detail=f"{model.name} ({priced})")


def _github(settings: Settings) -> Finding:
    try:
        app.github_app(settings)
    except CoderError as exc:
        return Finding(name="github", ok=False, detail=str(exc), fix="See the README on making a GitHub App.")
    return Finding(name="github", ok=True, detail=f"App {settings.github_app_id} at {settings.github_api_url}")


def _webhook(settings: Settings) -> Finding:
    secret = settings.github_webhook_secret
    if secret is None or not secret.get_secret_value():
        fix = "Set it to the secret in your GitHub App's webhook settings."
        return Finding(name="webhook", ok=False, detail="GITHUB_WEBHOOK_SECRET is not set.", fix=fix)
    return Finding(name="webhook", ok=True, detail="secret is set")
