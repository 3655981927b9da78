"""`coder-bot deliveries …`: what came from GitHub, what did not, and having one of it tried again."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bot import settings as env
from bot.domain.errors import CoderError, UserError
from bot.domain.redaction import Redactor

if TYPE_CHECKING:
    from bot.db.store import Store
    from bot.github.auth import App
    from bot.settings import Settings

PAGES = 100
"""Of GitHub's list, a hundred attempts each, that one call of a command reads at most."""

deliveries = typer.Typer(no_args_is_help=True, help="Webhook deliveries, and trying one again.")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


@deliveries.command("list")
def deliveries_list(
    only_failed: Annotated[bool, typer.Option("--failed", help="Only those whose intake was given up.")] = False,
    on_github: Annotated[
        bool, typer.Option("--github", help="Also those that GitHub could not deliver in the last three days.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """List what came, and what became of it."""
    settings = _settings()

    async def work() -> dict[str, Any]:
        async with _store(settings) as store:
            came = await store.deliveries(limit=limit, only_failed=only_failed)
            said: dict[str, Any] = {
                "deliveries": [
                    {
                        "guid": item.guid,
                        "event": item.name,
                        "received_at": item.received_at.isoformat(),
                        "outcome": item.outcome,
                        "task": item.task_id,
                    }
                    for item in came
                ]
            }
            if on_github:
                said |= await _undelivered(store, _github(settings))
            return said

    said = asyncio.run(work())
    if as_json:
        print(json.dumps(said))
        return
    for item in said["deliveries"]:
        task = f"  task {item['task']}" if item["task"] else ""
        _line(item["guid"], item["received_at"], item["event"], (item["outcome"] or "not decided yet") + task)
    for item in said.get("github", ()):
        _line(item["guid"], item["at"], item["event"], f"not delivered: {item['attempts']} attempts, {item['last']}")
    if not said.get("complete", True):
        print(f"GitHub has more: only the newest {PAGES * 100} attempts were looked at.")


@deliveries.command("replay")
def deliveries_replay(guid: Annotated[str, typer.Argument(metavar="GUID")], as_json: Json = False) -> None:
    """Have a delivery tried again whose intake has failed, or that never came. Exit code 1 where it is decided: what
    was done for it is never done twice."""
    settings = _settings()

    async def work() -> str:
        async with _store(settings) as store:
            return await _replay(settings, store, guid)

    try:
        done = asyncio.run(work())
    except CoderError as exc:
        if not as_json:
            raise
        print(json.dumps({"ok": False, "guid": guid, "done": None, "error": str(exc)}))
        raise typer.Exit(1) from exc
    if as_json:
        print(json.dumps({"ok": True, "guid": guid, "done": done, "error": None}))
    elif done == "due":
        print("Its intake is due again: a running `coder-bot serve` takes it up within half a minute.")
    else:
        print("GitHub was asked to deliver it again; `coder-bot deliveries list` shows it once it has come.")


async def _replay(settings: Settings, store: Store, guid: str) -> str:
    """`due` or `asked`: by whom it is tried again. What is not is a UserError with the reason."""
    from bot.app import utc_now

    named = _plain(guid)
    match await store.reopen(guid, now=utc_now()):
        case "due":
            return "due"
        case "waiting":
            raise UserError(f"{named} is about to be decided: a running `coder-bot serve` does that.")
        case "duplicate":
            raise UserError(f"{named} is about the same as another delivery, which was taken in its place.")
        case "decided":
            known = await store.delivery(guid)
            assert known is not None, "it was there just now, and rows stay"
            of_task = f" (task {known.task_id})" if known.task_id else ""
            raise UserError(
                f"{named} is decided already: {_plain(known.outcome)}{of_task}. It would do nothing a second time; "
                "`/coder retry` on the issue begins anew."
            )
        case "unknown":
            await _ask(_github(settings), guid, utc_now())
    return "asked"


async def _ask(github: App, guid: str, now: datetime) -> None:
    from bot.github import hook
    from bot.pipeline.deliveries import find

    attempt = await find(github, guid, now=now, pages=PAGES)
    if attempt is None:
        raise UserError(
            f"{_plain(guid)} came never, and GitHub knows no such delivery of the last three days: "
            "`coder-bot deliveries list --github` lists those it could not deliver."
        )
    if not attempt.is_used:
        raise UserError(f"{_plain(guid)} is a {_plain(attempt.about)}, of which the bot makes no use.")
    await hook.redeliver(github, attempt.id)


async def _undelivered(store: Store, github: App) -> dict[str, Any]:
    from bot.app import utc_now
    from bot.pipeline.deliveries import Missed

    missed = Missed(store, github, utc_now)
    complete = await missed.read(pages=PAGES)
    return {
        "github": [
            {
                "guid": item.guid,
                "event": item.last.event,
                "action": item.last.action,
                "at": item.first.at.isoformat(),
                "attempts": len(item.attempts),
                "last": _answer(item.last.status),
            }
            for item in await missed.undelivered()
        ],
        "complete": complete,
    }


def _answer(status: int) -> str:
    return f"answered with {status}" if status else "no answer"


def _github(settings: Settings) -> App:
    from bot.app import github_app

    return github_app(settings)


@asynccontextmanager
async def _store(settings: Settings) -> AsyncIterator[Store]:
    """The database, migrated; a server may use it meanwhile."""
    from bot.db import migrate
    from bot.db.store import Store

    settings.coder_home.mkdir(parents=True, exist_ok=True)
    await migrate.upgrade(settings.database_url)
    store = Store(settings.database_url)
    try:
        yield store
    finally:
        await store.aclose()


def _settings() -> Settings:
    from bot import sinks

    settings = env.load()
    redactor = Redactor()
    redactor.keep(settings.secrets)
    sinks.logs(logging.WARNING, redactor)
    return settings


def _line(guid: str, at: str, event: str, outcome: str) -> None:
    print(_plain(f"{guid:<36}  {at[:19]}  {event:<28} {outcome}"))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
