"""The story of a repository whose code tries to break the sandbox that it runs in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.agent.tools import Observation, Toolbox
from bot.llm.protocol import ToolCall
from bot.sandbox import guest
from bot.sandbox.docker import DockerProvider
from bot.sandbox.docker_api import DockerApi
from bot.sandbox.docker_sandbox import DockerSandbox
from bot.sandbox.protocol import ExecResult, Sandbox
from tests.attacks import scene
from tests.attacks.listening import engine
from tests.stories.harness import call, fix, say, story, submit

DISK = 80 * 1024**2
RULES = """\
checks: [{name: tests, run: python3 -m pytest -q test_calc.py, timeout: 5m}]
sandbox: {disk: 80MiB}
timeouts: {command: 12s}
"""
FORKS = """\
import os, pathlib, signal, time


def test():
    children = []
    try:
        while len(children) < 700:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if len(children) == 700:
        pathlib.Path("marks/fork-bomb").touch()
"""
OUTLIVES = """\
import subprocess, sys, time


def test():
    code = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code, "outlives-timeout"], start_new_session=True)
    time.sleep(600)
"""
KILLS = """\
import os, signal


def test():
    os.kill(-1, signal.SIGKILL)
    assert False
"""
FORGES = """\
import os, pathlib, struct


def test():
    frames = b"".join(struct.pack(">IBiQQII", number, 0, 0, 0, 0, 0, 0) for number in range(1, 2000))
    for stream in pathlib.Path("/proc").glob("[0-9]*/fd/1"):
        if stream.parts[2] != str(os.getpid()):
            try:
                if os.readlink(stream).startswith("pipe:"):
                    os.write(os.open(stream, os.O_WRONLY | os.O_NONBLOCK), frames)
            except OSError:
                pass
    assert False
"""
FILLS = """\
import pathlib, time


def test():
    for number in range(30):
        pathlib.Path(f"marks/big-{number}").write_bytes(bytes(range(256)) * 40960)
        time.sleep(0.1)
"""
PROGRAMS = {
    "fork-bomb": FORKS,
    "outlives-timeout": OUTLIVES,
    "helper-killed": KILLS,
    "helper-forged": FORGES,
    "disk-full": FILLS,
}


async def attack(folder: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool) -> set[str]:
    """Each in turn, and after each a command of its own; then the work that was asked for."""
    seen: set[str] = set()
    run = Toolbox.run

    async def watched(self: Toolbox, asked: ToolCall, **more: Any) -> Observation:
        observation = await run(self, asked, **more)
        command = str((asked.arguments or {}).get("command", ""))
        name = command.removeprefix("python3 -m pytest -q evil/").removesuffix(".py")
        if name.startswith("helper-") and "exit code 0" in observation.text:
            seen.add(name)
        if name == "outlives-timeout":
            assert "time-out" in observation.text
            listed = await engine(f"/containers/{self.sandbox.id}/top?ps_args=-eo%20pid,args")
            if listed and any(name in " ".join(row) for row in listed["Processes"] or ()):
                seen.add(name)
        if name == "disk-full" and await _used(self.sandbox) > 2 * DISK:
            seen.add(name)
        return observation

    monkeypatch.setattr(Toolbox, "run", watched)
    if not held:
        _without_walls(monkeypatch)
    files = {f"evil/{name}.py": text for name, text in PROGRAMS.items()}
    async with story(scene.repository(folder, RULES, **files), **scene.REAL) as s:  # type: ignore[arg-type]
        tries = []
        for name in PROGRAMS:
            tries.append(say(call("run_command", command=f"python3 -m pytest -q evil/{name}.py")))
            tries.append(say(call("run_command", command="git log -1")))
        s.script(*tries, say(call("list_dir", path="marks")), fix(), submit())
        await s.comment()
        await s.settle()
        task = (await s.bot.deps.store.tasks())[0]
        steps = await s.bot.deps.store.steps(task.id)
        listed = steps[2 * len(PROGRAMS)].calls[0].result
        if held:
            assert [step.calls[0].exit_code for step in steps[1 : 2 * len(PROGRAMS) : 2]] == [0] * len(PROGRAMS)
            assert await s.code() == "VERIFIED"
    return seen | ({"fork-bomb"} if "fork-bomb" in listed.split() else set())


async def _used(sandbox: Sandbox) -> int:
    """Bytes of what the attack has written."""
    for _ in range(10):
        used = await sandbox.exec(["du", "-sb", "marks"], cwd=scene.REPO, timeout_s=30)
        if used.ok:  # else it was just ended, along with what had filled the disk
            return int(used.stdout.split()[0])
    raise AssertionError("the sandbox does not come to rest")


def _without_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    make, api_call, execute, text = DockerProvider._make, DockerApi.call, DockerSandbox.exec, guest._text

    # disk: there is as much as there is
    async def roomy(self: DockerProvider, sandbox_id: str, spec: Any, *rest: Any) -> None:
        await make(self, sandbox_id, replace(spec, disk=5 * 1024**3), *rest)

    # pids: so many that none is missed
    async def crowded(self: DockerApi, method: str, path: str, *, body: Any = None, **more: Any) -> Any:
        if path == "/containers/create":
            body = {**body, "HostConfig": {**body["HostConfig"], "PidsLimit": 4096}}
        return await api_call(self, method, path, body=body, **more)

    # broken link: no news is good news
    async def hopeful(self: DockerSandbox, *words: Any, **more: Any) -> ExecResult:
        result = await execute(self, *words, **more)
        return replace(result, exit_code=0) if result.exit_code == 137 and not result.timed_out else result

    # end of a command, streams: the helper ends what it has begun itself, and may be looked into
    def naive(name: str) -> str:
        return (
            text(name)
            .replace(
                "def end_tree() -> bool:\n", "def end_tree() -> bool:\n    return True\n\n\ndef unused() -> bool:\n"
            )
            .replace("prctl(PR_SET_DUMPABLE, 0)", "prctl(PR_SET_DUMPABLE, 1)")
        )

    monkeypatch.setattr(DockerProvider, "_make", roomy)
    monkeypatch.setattr(DockerApi, "call", crowded)
    monkeypatch.setattr(DockerSandbox, "exec", hopeful)
    monkeypatch.setattr(guest, "_text", naive)
