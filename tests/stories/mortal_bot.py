"""The bot as a process of its own that dies by SIGKILL at a chosen save point.

Usage: `mortal_bot.py PORT LOG [PHASE NUMBER]`. PHASE is `before` or `after` the commit; LOG gets the name of each
save point as it is passed. Settings come from the environment, as they do for `coder-bot serve`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvicorn
from sqlalchemy import event
from sqlalchemy.orm import Session

from bot import app
from bot.settings import load


def die_at(log: Path, phase: str | None, number: int) -> None:
    passed = 0

    def named(session: Session) -> bool:
        return "save_point" in session.info

    @event.listens_for(Session, "before_commit")
    def before(session: Session) -> None:
        if named(session) and phase == "before" and passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(Session, "after_commit")
    def after(session: Session) -> None:
        nonlocal passed
        if not named(session):
            return
        with log.open("a") as file:
            file.write(session.info["save_point"] + "\n")
        if phase == "after" and passed == number:
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1


async def main() -> None:
    port, log = int(sys.argv[1]), Path(sys.argv[2])
    phase, number = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else (None, -1)
    async with app.open_bot(load()) as bot:
        die_at(log, phase, number)
        server = uvicorn.Server(
            uvicorn.Config(bot.web, host="127.0.0.1", port=port, log_level="error", lifespan="off")
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(bot.work())
            group.create_task(server.serve())


asyncio.run(main())
