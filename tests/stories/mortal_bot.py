"""The bot as a process of its own that dies by SIGKILL at a chosen save point.

Usage: `mortal_bot.py`. Each line of stdin is a JSON list: port, log, phase or null, number, settings by their names
in the environment. For each, a process is forked that runs the bot; its pid is the answer, a line of stdout, and how
it ended comes into the file `ended-PID` beside the log. The phase is `before` or `after` the commit; the log gets the
name of each save point as it is passed. Forking saves many bots their imports. When stdin ends, all end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import traceback
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


async def main(port: int, log: Path, phase: str | None, number: int, settings: dict[str, str]) -> None:
    async with app.open_bot(load(settings)) as bot:
        die_at(log, phase, number)
        server = uvicorn.Server(
            uvicorn.Config(bot.web, host="127.0.0.1", port=port, log_level="error", lifespan="off")
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(bot.work())
            group.create_task(server.serve())


def fork(port: int, log: str, phase: str | None, number: int, settings: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    ended = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = os.open(Path(log).with_name("stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number_of, stream in enumerate((nothing, nothing, errors)):
            os.dup2(stream, number_of)
        asyncio.run(main(port, Path(log), phase, number, settings))
        ended = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(ended)


def serve() -> None:
    children: dict[int, Path] = {}
    asked = b""
    while True:
        ready, _, _ = select.select([0], [], [], 0.05)
        if ready:
            data = os.read(0, 65536)
            asked += data
            if not data:
                break
        while b"\n" in asked:
            line, _, asked = asked.partition(b"\n")
            request = json.loads(line)
            child = fork(*request)
            children[child] = Path(request[1])
            print(child, flush=True)
        while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            tell(children.pop(ended[0]), *ended)
    for child, log in children.items():
        os.kill(child, signal.SIGKILL)
        tell(log, *os.waitpid(child, 0))


def tell(log: Path, child: int, status: int) -> None:
    """Where nobody is left to hear it, the folder is gone."""
    with contextlib.suppress(FileNotFoundError):
        log.with_name(f"ended-{child}").write_text(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    serve()
