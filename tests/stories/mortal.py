"""Bots that die: each a process of its own, forked from one that has the imports done."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from pydantic import SecretStr

from bot.settings import Settings

PATIENCE_S = 300


class Mortal:
    """One running bot, as `asyncio.subprocess.Process` would have it."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self._ended = log.with_name(f"ended-{pid}")

    @property
    def returncode(self) -> int | None:
        return int(said) if self._ended.exists() and (said := self._ended.read_text()) else None

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        while (code := self.returncode) is None:
            await asyncio.sleep(0.02)
        return code


class Parent:
    """`async with Parent() as parent`: starts bots; at its end all of them end."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._asking = asyncio.Lock()

    async def __aenter__(self) -> Parent:
        root = Path(__file__).parents[2]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(root / "tests" / "stories" / "mortal_bot.py"),
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def start(self, settings: Settings, port: int, log: Path, phase: str | None, number: int) -> Mortal:
        """Answers once its door is open, or once it has ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = [port, str(log), phase, number, environment(settings)]
        async with self._asking:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            bot = Mortal(int(await self._process.stdout.readline()), log)
        async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient() as client:
            while bot.returncode is None:
                try:
                    if (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200:
                        break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        if bot.returncode not in (None, -signal.SIGKILL):
            raise AssertionError(f"the bot did not start:\n{log.with_name('stderr').read_text()[-4000:]}")
        return bot


def environment(settings: Settings) -> dict[str, str]:
    """Settings as the environment that gives them."""
    found = {}
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if value in (None, (), frozenset()) or name == "coder_prices":
            continue
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        found[name.upper()] = ",".join(value) if isinstance(value, frozenset | tuple) else str(value)
    return found
