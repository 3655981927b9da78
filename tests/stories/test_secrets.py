"""A token is used by one process in a pristine sandbox, and is then in no file, environment, argv, log or row; the
bot's own keys are in no sandbox at all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import sys
from pathlib import Path

import pytest

from bot.domain.task import State
from bot.sandbox.docker_api import DockerApi, EngineRefusal
from tests.stories.harness import Story, call, fix, say, story, submit, with_config
from tests.stories.hunter import Find, Hunter, run_inside

WAIT = "until [ -e /tmp/go ]; do sleep 0.05; done"
RULES = f"""\
setup: ['{WAIT}']
checks:
  - {{name: tests, run: '{WAIT}; python3 -m pytest -q', timeout: 1m}}
timeouts: {{setup: 1m}}
"""
# The agent's own look: it reads whatever its user may, the memory of processes included.
LOOK = """\
import os, pathlib, re, subprocess
def test():
    child = subprocess.Popen(["sleep", "60"])
    with open("/workspace/hunt.bin", "wb") as out:
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            for name in ("environ", "cmdline"):
                try: out.write((path / name).read_bytes())
                except OSError: pass
            try:
                if path.name == str(os.getpid()): continue
                with open(path / "mem", "rb") as memory:
                    for line in (path / "maps").read_text().splitlines():
                        ends = re.match("([0-9a-f]+)-([0-9a-f]+) rw", line)
                        if ends:
                            start, end = (int(each, 16) for each in ends.groups())
                            memory.seek(start)
                            out.write(memory.read(min(end - start, 1 << 24)))
                    out.write(b"MEMORY OF " + (path / "comm").read_bytes())
            except OSError: pass
    child.kill()
"""


async def hunt(hunter: Hunter, seen: dict[str, set[Find]], api: DockerApi) -> None:
    """Searches each sandbox that runs the repository's lines while they wait for it, and lets them go on."""
    while True:
        for container in await hunter.sandboxes(api):
            with contextlib.suppress(EngineRefusal):  # it has ended meanwhile
                running = await api.call("GET", f"/containers/{container['Id']}/top")
                if any("sleep 0.05" in " ".join(process) for process in running["Processes"] or ()):
                    seen[container["Labels"]["coder-bot.kind"]] = await hunter.sandbox(api, container["Id"])
                    await run_inside(api, container["Id"], ["touch", "/tmp/go"])
        await asyncio.sleep(0.1)


async def test_no_secret_is_left_anywhere(capfd: pytest.CaptureFixture[str]) -> None:
    model_key = "sk-" + secrets.token_urlsafe(40)
    api = DockerApi("unix:///var/run/docker.sock")
    async with story(with_config(RULES), OPENAI_API_KEY=model_key) as s:
        hunter = Hunter(
            deployment=s.settings.coder_deployment,
            secrets={
                "App key": s.github.app.private_key,
                "webhook secret": s.github.app.webhook_secret,
                "model key": model_key,
            },
        )
        cloning: dict[str, set[Find]] = {}
        waiting: dict[str, set[Find]] = {}

        async def while_cloning(path: str) -> None:
            if path.endswith("git-upload-pack"):
                hunter.secrets |= {f"token {number}": token.value for number, token in enumerate(s.github.tokens)}
                for container in await hunter.sandboxes(api):
                    with contextlib.suppress(EngineRefusal):  # one beside it that begins or ends just now
                        found = await hunter.sandbox(api, container["Id"])
                        kind = container["Labels"]["coder-bot.kind"]
                        cloning[kind] = cloning.get(kind, set()) | found

        s.github.on_git(while_cloning)
        s.script(
            say(call("write_file", path="test_look.py", contents=LOOK)),
            say(call("run_command", command="python3 -m pytest -q test_look.py")),
            say(call("remove_file", path="test_look.py")),
            fix(),
            submit(),
        )
        await s.comment()
        watching = [asyncio.create_task(hunter.watch()), asyncio.create_task(hunt(hunter, waiting, api))]
        await s.settle()
        for each in watching:
            assert not each.done()
            each.cancel()
        await asyncio.wait(watching)
        [task] = await s.bot.deps.store.tasks()
        assert task.state is State.IN_REVIEW

        # While it is cloned, the token is in the environment of git's own processes, in these two sandboxes.
        git = {"environment of git", "environment of git-remote-http"}
        assert {find.place for find in cloning["setup"] | cloning["fetch"]} == git
        assert all(find.secret.startswith("token") for finds in cloning.values() for find in finds)
        assert cloning.get("work", set()) | cloning.get("verify", set()) == set()
        # While the repository's code runs, there is none.
        assert waiting == {"setup": set(), "verify": set()}

        hunter.secrets |= {f"token {number}": token.value for number, token in enumerate(s.github.tokens)}
        assert len([token for token in s.github.tokens if token.used_by_git]) == 2
        assert all(token.revoked for token in s.github.tokens)
        [record] = await s.bot.deps.store.sandboxes(task.id)
        assert record.provider_id is not None
        sandbox = await s.bot.deps.provider.connect(record.provider_id, lifetime_s=600, epoch=1000)
        try:
            looked = await sandbox.read("hunt.bin", max_bytes=512 * 1024 * 1024)
            assert set(re.findall(rb"MEMORY OF (.*)", looked)) == {b"sleep"}, "not the helper's"
            assert hunter.look("the agent's look", looked) == set()
            [container] = await hunter.sandboxes(api)
            assert await hunter.sandbox(api, container["Id"]) == set()
            logs = capfd.readouterr()
            assert hunter.look("logs", (logs.out + logs.err).encode()) == set()
            said = "".join(s.comments) + "".join(pull.body for pull in s.pull_requests)
            assert hunter.look("GitHub", said.encode()) == set()
            assert hunter.files(s.settings.coder_home) == set()
            assert hunter.machine() == set()
            await the_hunter_finds_what_is_there(s, api, container["Id"])
        finally:
            await sandbox.aclose()
            await api._http.aclose()


async def the_hunter_finds_what_is_there(s: Story, api: DockerApi, container: str) -> None:
    """The positive control: one value in every place that was searched."""
    bait = "-".join(["bait", secrets.token_hex(16)])
    hunter = Hunter(deployment=s.settings.coder_deployment, secrets={"bait": bait})
    line = (
        'printf "%s" "$BAIT" | base64 >/workspace/.home/encoded; echo "$BAIT" >/tmp/plain; mkdir "/workspace/d";'
        ' touch "/workspace/d/$BAIT"; ln -s "$BAIT" /workspace/link; exec >/dev/null 2>&1; sleep 600 &'
        ' sh -c "sleep 600; true" "$BAIT" &'
    )
    await run_inside(api, container, ["env", f"BAIT={bait}", "sh", "-c", line])
    found = await hunter.sandbox(api, container)
    assert {find.place for find in found} >= {
        "/workspace/.home/encoded",
        "/tmp/plain",
        "name of a file",
        "/workspace/link",
        "environment of sleep",
        "argv of sh",
    }
    kept = Path(s.settings.coder_home, "kept")
    kept.write_text(f"Authorization: Basic {bait.encode().hex()}")
    assert {find.place for find in hunter.files(s.settings.coder_home)} == {"file kept"}
    watching = asyncio.create_task(hunter.watch())
    sleep = "import time; time.sleep(600)"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", sleep, bait, env={**os.environ, "BAIT": bait}
    )
    async with asyncio.timeout(60):
        while len(hunter.machine()) < 2:
            await asyncio.sleep(0.1)
    process.kill()
    await process.wait()
    watching.cancel()
