"""A token is used by one process in a pristine sandbox, and is then in no file, environment, argv, log or row."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from bot.domain.task import State
from tests.stories.harness import FILES, call, fix, say, story, submit

HUNT = """\
import os, pathlib
out = open("hunt.bin", "wb")
for name in ("environ", "cmdline"):
    for path in pathlib.Path("/proc").glob(f"[0-9]*/{name}"):
        try: out.write(path.read_bytes())
        except OSError: pass
for root in ("/workspace", "/tmp", "/run", "/etc", "/home", "/root"):
    for folder, _, names in os.walk(root):
        for name in names:
            path = pathlib.Path(folder, name)
            try:
                if name != "hunt.bin" and path.is_file() and path.stat().st_size < 200_000:
                    out.write(path.read_bytes())
            except OSError: pass
"""


async def test_no_token_is_left_anywhere(capfd: object) -> None:
    async with story({**FILES, ".gitignore": b"hunt.bin\n"}) as s:
        s.script(
            say(call("write_file", path="hunt.py", contents=HUNT)),
            say(
                call(
                    "write_file",
                    path="test_hunt.py",
                    contents="import runpy\n\n\ndef test():\n    runpy.run_path('hunt.py')\n",
                )
            ),
            say(call("run_command", command="python3 -m pytest -q test_hunt.py")),
            fix(),
            say(call("remove_file", path="hunt.py"), call("remove_file", path="test_hunt.py")),
            submit(),
        )
        await s.comment()
        watching = asyncio.create_task(_watch_processes())
        await s.settle()
        watching.cancel()
        seen_argv = await _result(watching)
        [task] = await s.bot.deps.store.tasks()
        assert task.state is State.IN_REVIEW
        [record] = await s.bot.deps.store.sandboxes(task.id)
        assert record.provider_id is not None
        sandbox = await s.bot.deps.provider.connect(record.provider_id, lifetime_s=600, epoch=1000)
        found = await sandbox.read("repo/hunt.bin", max_bytes=64 * 1024 * 1024)
        everything = await sandbox.exec(
            ["sh", "-c", "grep -raE 'ghs_|eC1hY2Nlc3MtdG9rZW' /workspace /tmp | head"], timeout_s=60
        )
        await sandbox.aclose()
        tokens = [token.value for token in s.github.tokens]
        assert len([t for t in s.github.tokens if t.used_by_git]) == 2  # the two clones
        assert all(token.revoked for token in s.github.tokens)
        assert b"GIT_CONFIG_VALUE" not in found
        assert everything.stdout == b""
        rows = b"".join(path.read_bytes() for path in Path(s.settings.coder_home).rglob("coder.db*"))
        logs = str(capfd.readouterr()).encode()  # type: ignore[attr-defined]
        for token in tokens:
            for form in (token, base64.b64encode(f"x-access-token:{token}".encode()).decode()):
                for place in (found, rows, logs, seen_argv):
                    assert form.encode() not in place
        said = "".join(s.comments) + "".join(pull.body for pull in s.pull_requests)
        assert not any(token in said for token in tokens)


async def _watch_processes() -> bytes:
    """Every command line on this machine, sampled for as long as the story runs."""
    seen: set[bytes] = set()
    try:
        while True:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:
                    continue
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        return b"\n".join(seen)


async def _result(task: asyncio.Task[bytes]) -> bytes:
    return await task
