"""Package managers say themselves where they get packages from, and nothing of a project has a say in it."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bot.domain.config import PACKAGE_MANAGERS
from bot.pipeline.registries import (
    MOST,
    RegistryUnknown,
    hosts,
    read_addresses,
    read_cargo,
    read_cargo_index,
    read_composer,
    read_go,
    read_maven,
    read_npm,
)
from bot.sandbox.docker import DockerProvider
from bot.sandbox.docker_sandbox import DockerSandbox
from bot.sandbox.protocol import SandboxSpec

IMAGE = "coder-bot-sandbox:latest"

# As the real tools print it (Go 1.19, Maven 3.8, Composer 2.5, Cargo 1.95), with hosts of our own.
GO = '{\n\t"GOPROXY": "https://u:p@go.example|https://second.example/go,direct",\n\t"GOSUMDB": "sum.example"\n}\n'
MAVEN = """\
[DEBUG] Repositories (dependencies): [central (https://repo.example/maven2, default, releases), \
own (https://u:p@own.example:8443/x, default, releases+snapshots)]
[DEBUG] Repositories (plugins)     : [central (https://repo.example/maven2, default, releases), \
no-http (http://0.0.0.0/, default, releases+snapshots, blocked)]
"""
CARGO = """\
  download of config.json failed
  failed to download from `https://index.example/sub/config.json`
"""


@pytest.mark.parametrize(
    ("read", "answer", "urls"),
    [
        (
            read_npm,
            '{"registry": "https://npm.example/", "@mine:registry": "https://scope.example/x", "email": "https://x"}',
            ["https://npm.example/", "https://scope.example/x"],
        ),
        (read_npm, '{"@mine:registry": "https://scope.example/x"}', []),
        (read_npm, "[]", []),
        (read_npm, "", []),
        (
            read_addresses,
            'a warning\n\n["https://pip.example/simple", "file:///"]\n',
            ["https://pip.example/simple", "file:///"],
        ),
        (read_addresses, "https://pip.example/simple", []),
        (read_addresses, '{"a": "https://pip.example"}', []),
        (read_addresses, "[" * 20_000, []),
        (read_go, GO, ["https://u:p@go.example", "https://second.example/go", "https://sum.example"]),
        (read_go, '{"GOPROXY": "https://go.example", "GOSUMDB": "off"}', ["https://go.example"]),
        (read_go, '{"GOPROXY": "file:///m", "GOSUMDB": ""}', ["file:///m"]),
        (
            read_go,
            '{"GOPROXY": "https://go.example", "GOSUMDB": "sum.example+0a0b+abc https://db.example/sum"}',
            ["https://go.example", "https://db.example/sum"],
        ),
        (read_go, '{"GOPROXY": "direct", "GOSUMDB": "sum.example"}', []),
        (read_go, "no JSON", []),
        (
            read_maven,
            MAVEN,
            ["https://repo.example/maven2", "https://u:p@own.example:8443/x", "https://repo.example/maven2"],
        ),
        (
            read_composer,
            '{"php.example":{"type":"composer","url":"https?://php.example"},"off":false}',
            ["https://php.example"],
        ),
        (read_composer, '[{"type":"composer","url":"https://php.example"}]', ["https://php.example"]),
        (read_composer, "null", []),
        (read_cargo, CARGO, ["https://index.example/sub"]),
        (read_cargo, "Updating git repository `https://git.example/index`", []),
        (
            read_cargo_index,
            '{"dl": "https://dl.example/{crate}/{version}", "api": "https://api.example"}',
            ["https://dl.example/", "https://api.example"],
        ),
        (read_cargo_index, '{"dl": "https://dl.example/api", "api": null}', ["https://dl.example/api"]),
        (read_cargo_index, '{"dl": 1}', []),
        (read_cargo_index, "", []),
    ],
)
def test_an_answer_is_read(read: Callable[[str], list[str]], answer: str, urls: list[str]) -> None:
    assert read(answer) == urls


# With the real npm and pip


@asynccontextmanager
async def sandbox(env: Mapping[str, str] | None = None) -> AsyncIterator[DockerSandbox]:
    folder = Path(tempfile.mkdtemp(prefix="egress-"))
    provider = DockerProvider(deployment=f"test-{secrets.token_hex(6)}", egress_dir=folder)
    spec = SandboxSpec(
        name=f"registries-{secrets.token_hex(6)}",
        kind="setup",
        task="t",
        image=IMAGE,
        lifetime_s=300,
        memory=512 * 1024**2,
        env=env or {},
    )
    made = await provider.create(spec)
    try:
        yield made
    finally:
        await provider.kill(made.id)
        await provider.aclose()
        shutil.rmtree(folder)


async def said(asked: DockerSandbox, *argv: str) -> str:
    result = await asked.exec(argv, timeout_s=60)
    assert result.ok, result.stderr
    return result.stdout.decode().strip()


async def test_npm_and_pip_say_where_packages_are_and_a_project_has_no_say_in_it() -> None:
    async with sandbox() as asked:
        registry = str(urlsplit(await said(asked, "npm", "config", "get", "registry")).hostname)
        program = "from pip._internal.models.index import PyPI; print(PyPI.netloc, PyPI.file_storage_domain)"
        pip = (await said(asked, "python3", "-c", program)).split()
        evil = "registry=https://evil.example/\n@mine:registry=https://evil.example/\n"
        for path in (".npmrc", ".home/.npmrc", ".npm-global/etc/npmrc"):
            await asked.write(path, evil.encode())
        for path in ("package.json", "node_modules/x/package.json"):
            await asked.write(path, b"{}")
        for path in (".home/.config/pip/pip.conf", ".home/.pip/pip.conf", "pip.conf"):
            await asked.write(path, b"[global]\nindex-url = https://evil.example/simple\n")
        for path in ("pip/__init__.py", "json.py", ".home/.local/lib/python3.11/site-packages/pip/__init__.py"):
            await asked.write(path, b"raise SystemExit('https://evil.example')\n")
        assert "evil.example" in await said(asked, "npm", "config", "get", "registry")
        assert await hosts(asked, ["npm"]) == {registry}
        assert await hosts(asked, ["pip", "db:5432", "npm", "*.example.org"]) == {
            registry,
            *pip,
            "db:5432",
            "*.example.org",
        }
        assert asked.refused_hosts == ()


async def test_mirrors_of_the_sandboxs_own_configuration_are_found() -> None:
    env = {
        "npm_config_registry": "https://npm.example:8443/x/",
        "npm_config_@mine:registry": "https://scope.example/",
        "PIP_INDEX_URL": "https://user:password@pip.example/simple",
        "PIP_EXTRA_INDEX_URL": "http://extra.example:8080/simple",
        "PIP_FIND_LINKS": "https://links.example/ /opt/wheels",
    }
    async with sandbox(env) as asked:
        assert await hosts(asked, ["npm"]) == {"npm.example:8443", "scope.example"}
        assert await hosts(asked, ["pip"]) == {"pip.example", "extra.example:8080", "links.example"}


async def test_pip_without_an_index_needs_no_host_and_npm_keeps_a_password_to_itself() -> None:
    env = {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "/opt/wheels",
        "npm_config_registry": "https://user:password@npm.example/",
    }
    async with sandbox(env) as asked:
        assert await hosts(asked, ["pip"]) == set()
        with pytest.raises(RegistryUnknown, match=r"`npm`, but it did not say .* List its hosts") as raised:
            await hosts(asked, ["npm"])
    assert "password" not in str(raised.value)


async def test_a_manager_that_the_image_lacks_is_named() -> None:
    async with sandbox() as asked:
        for name in sorted(PACKAGE_MANAGERS - {"npm", "pip"}):
            with pytest.raises(RegistryUnknown) as raised:
                await hosts(asked, [name])
            assert str(raised.value).startswith(f"`network` names `{name}`, but the sandbox's image has no `")
            assert str(raised.value).endswith(f"List its hosts there instead of `{name}`.")


# With programs that answer as the real ones do, in a real sandbox whose project has put them on its path


async def _installed(asked: DockerSandbox, name: str, script: str) -> None:
    await asked.write(f"bin/{name}", f"#!/bin/sh\n{script}\n".encode(), mode=0o755)


PATH = {"PATH": "/workspace/bin:/usr/local/bin:/usr/bin:/bin"}


async def test_cargo_is_asked_for_its_index_and_the_index_for_its_packages() -> None:
    script = """
if [ -z "$https_proxy" ]; then printf '%s\\n' 'failed to download from `https://index.example/config.json`' >&2; exit 101; fi
mkdir -p "$CARGO_HOME/registry/index/index.example-1"
echo '{"dl": "https://dl.example/crates", "api": "https://api.example"}' >"$CARGO_HOME/registry/index/index.example-1/config.json"
exit 101
"""  # noqa: E501 - a shell's lines
    async with sandbox(PATH) as asked:
        await _installed(asked, "cargo", script)
        assert await hosts(asked, ["cargo"]) == {"index.example", "dl.example", "api.example"}
        await _installed(asked, "cargo", "echo 'Updating git index' >&2; exit 101")
        with pytest.raises(RegistryUnknown):
            await hosts(asked, ["cargo"])


async def test_an_answer_that_names_no_host_is_an_error() -> None:
    no_host = ("https://", "https://a b.example/", "https://go.example:x/", "https://[x/", "https://2130706433/")
    too_many = ",".join(f"https://go{n}.example" for n in range(MOST + 1))
    answers = [json.dumps({"GOPROXY": proxy, "GOSUMDB": "off"}) for proxy in (*no_host, too_many)]
    scripts = [f"cat <<'END'\n{answer}\nEND" for answer in ("{}", *answers)]
    fails = ("echo https://x.example; exit 1", "head -c 200000 /dev/zero | tr '\\0' x")
    async with sandbox(PATH) as asked:
        for script in (*scripts, *fails):
            await _installed(asked, "go", script)
            with pytest.raises(RegistryUnknown, match="`go`"):
                await hosts(asked, ["go"])
        env = {"GOPROXY": "https://[2001:DB8::1]:8443/,https://[2001:db8::2]", "GOSUMDB": "off"}
        await _installed(asked, "go", f"cat <<'END'\n{json.dumps(env)}\nEND")
        assert await hosts(asked, ["go"]) == {"[2001:db8::1]:8443", "[2001:db8::2]"}
