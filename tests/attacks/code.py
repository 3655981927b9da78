"""The story in which the agent writes a test that attacks whatever is around it, and has it run."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from bot.agent.tools import Toolbox
from bot.sandbox import egress
from bot.sandbox.protocol import Sandbox
from tests.attacks import evil, scene
from tests.attacks.listening import Listeners, engine, forms, gateway, listeners
from tests.stories.harness import REPOSITORY, Story, call, fix, say, story, submit


def planted(folder: Path) -> dict[str, str]:
    """Settings that hold a secret each, made for this run."""
    index = folder / "index.json"
    index.write_text(json.dumps({"index.example.org": f"Basic {secrets.token_hex(20)}"}))
    index.chmod(0o600)
    return {
        "CODER_SANDBOX": "docker",
        "CODER_INDEX_CREDENTIALS_FILE": str(index),
        "OPENAI_API_KEY": f"sk-{secrets.token_hex(24)}",
        "E2B_API_KEY": f"e2b_{secrets.token_hex(20)}",
    }


def known(s: Story, folder: Path) -> set[bytes]:
    """Every secret of the story, as it might be found."""
    index = json.loads((folder / "index.json").read_text()).values()
    return forms([*s.settings.secrets, *index, *(token.value for token in s.github.tokens)])


async def attack(folder: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool) -> set[str]:
    """A first fix and one more on its pull request, with what the first has planted still there."""
    looked_up: list[str] = []
    resolve = egress._resolve

    async def recorded(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return [] if host.endswith(".test") else await resolve(host, port)

    monkeypatch.setattr(egress, "_resolve", recorded)
    repo, host_folder = folder / "repo", folder / "host"
    private = f"127.0.0.1,{await gateway()}"
    async with (
        listeners() as net,
        story(scene.repository(repo), **planted(folder), CODER_PRIVATE_HOSTS=private) as s,  # type: ignore[arg-type]
    ):
        targets = {
            "hosts": [await gateway(), "127.0.0.1"],
            "tcp": net.tcp,
            "udp": net.udp,
            "host_folder": str(host_folder),
            "origin": s.github.api_url.removesuffix("/api/v3"),
        }
        if not held:
            _without_walls(monkeypatch, s, net, targets["hosts"])
        text = Path(evil.__file__).read_text().replace("TARGETS: dict = {}", f"TARGETS: dict = {targets!r}")
        s.script(
            say(call("write_file", path="test_evil.py", contents=text)),
            say(call("run_command", command="python3 -m pytest -q test_evil.py"), expect="Wrote"),
            say(call("remove_file", path="test_evil.py"), expect=r"5 passed|4 passed"),
            fix(),
            submit(),
        )
        await s.comment()
        await s.settle()
        assert await s.code() == "VERIFIED"
        [pull] = s.pull_requests
        task = (await s.bot.deps.store.tasks())[0]
        [record] = await s.bot.deps.store.sandboxes(task.id)
        seen = {"left-behind"} if await _runs(str(record.provider_id)) else set()
        s.script(say(call("write_file", path="NOTES.md", contents="kept\n")), submit("Say so", "Notes."))
        await s.comment("/coder fix write a note", number=pull.number)
        await s.settle()
        [pull] = s.pull_requests
        assert s.github.file(REPOSITORY, pull.head_sha, "NOTES.md") == b"kept\n"
        if b"EVIL" in (s.github.file(REPOSITORY, pull.head_sha, "calc.py") or b""):
            seen.add("git-filter-bytes")
        sandbox = await s.bot.deps.provider.connect(str(record.provider_id), lifetime_s=600, epoch=1000)
        try:
            if not held:
                token = s.github.tokens[-1].value
                await _fetch_in_a_used_sandbox(s, sandbox, token)
                seen |= await _git_on_the_host(sandbox, folder / "copy", host_folder)
            seen |= await _found(sandbox, known(s, folder))
        finally:
            await sandbox.aclose()
        seen |= {path.name for path in host_folder.glob("*")}
        seen |= {name for name in ("net-tcp", "net-proxy") if net.asked(name)}
        seen |= {"net-udp"} if any(b"net-udp" in packet for packet in net.packets) else set()
        seen |= {"net-lookup"} if "data.net-lookup.test" in looked_up else set()
        seen |= {"git-instead-of"} if net.asked("net-git") else set()
    return seen


async def _runs(container: str) -> bool:
    """Whether the engine still knows a process of that name there."""
    listed = await engine(f"/containers/{container}/top?ps_args=-eo%20pid,args")
    return listed is not None and any("left-behind" in " ".join(row) for row in listed["Processes"] or ())


async def _found(sandbox: Sandbox, values: set[bytes]) -> set[str]:
    found = set()
    for name in ("hunt-environment", "hunt-processes", "hunt-files"):
        data = await sandbox.read(f"repo/marks/{name}", max_bytes=64 * 1024**2)
        assert data, "the hunt has brought something home"
        if any(value in data for value in values):
            found.add(name)
    names = {entry.name for entry in await sandbox.list("repo/marks")}
    found |= {"net-name"} & names
    dumps = await sandbox.exec(["sh", "-c", "mkdir -p dumps; tar cf dumps.tar dumps"], timeout_s=30)
    assert dumps.ok
    data = await sandbox.read("dumps.tar", max_bytes=64 * 1024**2)
    return found | ({"git-token"} if any(value in data for value in values) else set())


def _without_walls(monkeypatch: pytest.MonkeyPatch, s: Story, net: Listeners, hosts: list[str]) -> None:
    from bot.sandbox.docker import DockerProvider
    from bot.sandbox.docker_api import DockerApi
    from bot.sandbox.docker_sandbox import DockerSandbox
    from bot.sandbox.egress import EgressProxy

    make, allow, api_call, run = DockerProvider._make, EgressProxy.allow, DockerApi.call, Toolbox.run
    key = s.settings.openai_api_key
    assert key is not None

    # secrets: the sandbox is given the bot's own environment, git keeps its token, and a helper holds it as well
    async def with_key(self: DockerProvider, sandbox_id: str, spec: Any, *rest: Any) -> None:
        from dataclasses import replace

        env = {**spec.env, "OPENAI_API_KEY": key.get_secret_value()}
        await make(self, sandbox_id, replace(spec, env=env), *rest)

    ready: list[Sandbox] = []

    async def with_token(self: Toolbox, *words: Any, **more: Any) -> Any:
        if not ready:
            ready.append(self.sandbox)
            token = s.github.tokens[-1].value
            line = (
                f"git config credential.{s.github.api_url}.password {token}; "
                f"TOKEN={token} setsid sleep 100 >/dev/null 2>&1 </dev/null &"
            )
            await self.sandbox.exec(["sh", "-c", line], cwd=scene.REPO, timeout_s=30)
        return await run(self, *words, **more)

    # network: a container on the engine's usual network
    async def on_the_bridge(self: DockerApi, method: str, path: str, *, body: Any = None, **more: Any) -> Any:
        if path == "/containers/create":
            body = {**body, "HostConfig": {**body["HostConfig"], "NetworkMode": "bridge"}}
        return await api_call(self, method, path, body=body, **more)

    # egress: the proxy lets through what the attack asks for
    async def open_wide(self: EgressProxy, names: Any) -> None:
        await allow(self, {*names, "*.net-lookup.test", *(f"{host}:{net.tcp}" for host in hosts)})

    # pause: the sandbox runs on
    async def let_go(self: DockerSandbox) -> None:
        await self.aclose()

    monkeypatch.setattr(DockerProvider, "_make", with_key)
    monkeypatch.setattr(Toolbox, "run", with_token)
    monkeypatch.setattr(DockerApi, "call", on_the_bridge)
    monkeypatch.setattr(EgressProxy, "allow", open_wide)
    monkeypatch.setattr(DockerSandbox, "pause", let_go)


async def _fetch_in_a_used_sandbox(s: Story, sandbox: Sandbox, token: str) -> None:
    """pristine: what the product does in a new sandbox alone."""
    origin = s.github.api_url.removesuffix("/api/v3")
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    env = {
        **sandbox.proxy_env,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{origin}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
    }
    await sandbox.allow(frozenset())
    await sandbox.exec(["git", "fetch", f"{origin}/{REPOSITORY}.git", "HEAD"], cwd=scene.REPO, env=env, timeout_s=60)


async def _git_on_the_host(sandbox: Sandbox, folder: Path, host_folder: Path) -> set[str]:
    """host-git: the tree comes out with its git directory, and git is asked about it here."""
    import io
    import tarfile

    packed = await sandbox.exec(
        ["sh", "-c", "tar cf /workspace/repo.tar -C /workspace/repo .git calc.py"], timeout_s=30
    )
    assert packed.ok
    data = await sandbox.read("repo.tar", max_bytes=64 * 1024**2)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(folder, filter="fully_trusted")
    (folder / "calc.py").write_bytes((folder / "calc.py").read_bytes() + b"# add\n")
    scene.git(folder, "status")
    scene.git(folder, "add", "calc.py")
    scene.git(folder, "commit", "-qm", "x", "calc.py")
    return {"git-filter-bytes"} if "EVIL" in scene.git(folder, "show", "HEAD:calc.py") else set()
