"""Where a sandbox's package managers get packages from, asked of themselves, so that mirrors work."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bot.domain.config import PACKAGE_MANAGERS
from bot.domain.errors import UserError
from bot.sandbox.hosts import canonical
from bot.sandbox.protocol import Sandbox

ASK_S = 60
"""Seconds for one question; Maven starts slowly."""
MOST = 30
"""Hosts that one package manager may stand for."""


class RegistryUnknown(UserError):
    """A package manager that `network` names can't say where it gets packages from; the message says what to do."""

    def __init__(self, manager: str, why: str) -> None:
        super().__init__(f"`network` names `{manager}`, but {why}. List its hosts there instead of `{manager}`.")


async def hosts(sandbox: Sandbox, network: Sequence[str]) -> frozenset[str]:
    """The hosts behind a network list: names as they are, a package manager's by asking the manager in the sandbox.
    Ask before anything of the repository has run there; its network may be closed after that. Raises RegistryUnknown.
    """
    found: set[str] = set()
    for entry in network:
        found |= await _asked(sandbox, entry) if entry in PACKAGE_MANAGERS else {entry}
    return frozenset(found)


async def _asked(sandbox: Sandbox, name: str) -> set[str]:
    manager = _MANAGERS[name]
    urls = manager.read(await _run(sandbox, name, manager.ask, {}))
    told = _told(name, urls)
    if manager.ask_registry is None or not told:
        return told
    # What a registry's own front page says belongs to the answer: Cargo's index names the host of the packages.
    await sandbox.allow(frozenset(told))
    try:
        answer = await _run(sandbox, name, manager.ask_registry, sandbox.proxy_env)
    finally:
        await sandbox.allow(frozenset())
    return told | _told(name, manager.read_registry(answer))


async def _run(sandbox: Sandbox, name: str, ask: Sequence[str], env: Mapping[str, str]) -> str:
    """What the manager says when it is asked from a folder, and with a home, that no command of the repository can
    have written to: a project must not decide whom it may talk to."""
    asked = await sandbox.exec(ask, env={**env, **_NOWHERE}, timeout_s=ASK_S)
    if asked.exit_code == 127 and not asked.timed_out:
        raise RegistryUnknown(name, f"the sandbox's image has no `{_PROGRAMS.get(name, name)}` that could be asked")
    if not asked.ok or asked.truncated:
        raise _silent(name)
    return asked.stdout.decode("utf-8", "replace")


# The sandbox keeps npm's prefix in the workspace, and npm would take the config there for the machine's own.
_NOWHERE = {
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "npm_config_globalconfig": "/nonexistent",
}
_PROGRAMS = {"pip": "python3", "maven": "mvn", "gem": "ruby"}


def _told(name: str, urls: Iterable[str]) -> set[str]:
    """The hosts of these addresses, without what else is in them: user names and passwords stay here."""
    listed = list(urls)
    if not listed:
        raise _silent(name)
    found = set()
    for url in listed:
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise _silent(name) from None
        if parts.scheme.lower() not in ("http", "https"):
            continue  # a folder of the image, say
        host = canonical(host)
        if not host:
            raise _silent(name)
        shown = f"[{host}]" if ":" in host else host
        found.add(f"{shown}:{port}" if port else shown)
    if len(found) > MOST:
        raise RegistryUnknown(name, f"it gets packages from more than {MOST} hosts")
    return found


def _silent(name: str) -> RegistryUnknown:
    return RegistryUnknown(name, "it did not say where it gets packages from")


def _json(text: str) -> Any:
    """None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


# One question and one way to read the answer for each; the answer is a list of addresses.


def _shell(program: str, script: str) -> tuple[str, ...]:
    """A shell loses variables whose names it could not set itself; npm's and Bundler's may be such."""
    return ("sh", "-c", f"cd / || exit\ncommand -v {program} >/dev/null || exit 127\n{script}")


_ASK_NPM = ("npm", "config", "list", "--json", "--prefix=/")


def read_npm(answer: str) -> list[str]:
    """From its config: the registry, and those of scopes. It leaves out an address with a password in it."""
    config = _json(answer)
    if not isinstance(config, dict) or "registry" not in config:
        return []
    return [
        value
        for key, value in config.items()
        if isinstance(value, str) and (key == "registry" or (key.startswith("@") and key.endswith(":registry")))
    ]


_ASK_PIP = """
import json, os
os.chdir("/")
from pip._internal.commands import create_command
from pip._internal.models.index import PyPI, TestPyPI
options, _ = create_command("install").parse_args([])
urls = [] if options.no_index else [options.index_url, *options.extra_index_urls]
for index in (PyPI, TestPyPI):
    if any(url.partition("://")[2].rpartition("@")[2].partition("/")[0] == index.netloc for url in urls):
        urls.append("https://" + index.file_storage_domain)
print()
print(json.dumps([*urls, *options.find_links, "file:///"]))
"""
"""Its options as `pip install` would have them from files and environment, and where it knows an index's files to be.
There is always a folder, so that no index at all is an answer, too."""


def read_addresses(answer: str) -> list[str]:
    """From a JSON list in the last line."""
    listed = _json(answer.strip().rpartition("\n")[2])
    return [url for url in listed if isinstance(url, str)] if isinstance(listed, list) else []


_ASK_GO = _shell("go", "go env -json GOPROXY GOSUMDB")


def read_go(answer: str) -> list[str]:
    """From its environment: proxies and the checksum database. Where modules come straight from version control, only
    they themselves say from where."""
    env = _json(answer)
    if not isinstance(env, dict):
        return []
    proxies = [word.strip() for word in re.split(r"[,|]", str(env.get("GOPROXY", "")))]
    proxies = [word for word in proxies if word not in ("", "direct", "off")]
    if not proxies:
        return []
    name, *url = str(env.get("GOSUMDB", "")).split() or ["off"]
    sums = [] if name == "off" else [url[0] if url else f"https://{name.partition('+')[0]}"]
    return proxies + sums


# A project with no plugin and no parent, whose repositories are therefore those of Maven itself and its settings.
_ASK_MAVEN = """
folder=$(mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/.mvn"
cat >"$folder/pom.xml" <<END
<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version>
<packaging>pom</packaging></project>
END
MAVEN_OPTS="${MAVEN_OPTS-} -Duser.home=/nonexistent" mvn --batch-mode --offline --debug \
  -Dmaven.repo.local="$folder/repository" --file "$folder/pom.xml" validate </dev/null | grep 'Repositories ('
"""


def read_maven(answer: str) -> list[str]:
    """From its plan of a build: each repository as `name (address, layout, what of it)`, mirrors put in place."""
    listed = re.findall(r"\((https?://[^\s,()]+)((?:, [^,()]+)*)\)", answer)
    return [url for url, rest in listed if "blocked" not in rest]


_ASK_GEM = """
require "json"
require "rubygems"
urls = Gem.sources.map(&:to_s)
begin
  require "bundler"
  require "bundler/fetcher"
  mirrors = urls.map { |url| Bundler.settings.mirror_for(url) }
  index = mirrors.map { |uri| Bundler::Fetcher::Dependency.new(nil, Struct.new(:uri).new(uri), nil).fetch_uri }
  urls += (mirrors + index).map(&:to_s)
rescue LoadError
end
puts
puts JSON.generate(urls)
"""
"""Its sources, Bundler's mirrors of them, and the host that Bundler asks for the index of one."""

# It writes to its home, which must therefore be a new one.
_ASK_COMPOSER = """
folder=$(mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT
home=${COMPOSER_HOME:-/nonexistent}
[ ! -f "$home/config.json" ] || cp "$home/config.json" "$folder/" || exit
COMPOSER_HOME="$folder" composer config --global --no-interaction --no-plugins repositories
"""


def read_composer(answer: str) -> list[str]:
    """From its repositories, of which each is a set of facts or `false`, by name or in a list."""
    found = _json(answer)
    listed = found.values() if isinstance(found, dict) else found if isinstance(found, list) else []
    urls = [entry["url"] for entry in listed if isinstance(entry, dict) and isinstance(entry.get("url"), str)]
    return [re.sub(r"^https\\?\?:", "https:", url) for url in urls]


# An empty project with one dependency on nothing that exists, so that Cargo has to look at its registry.
_CARGO_PROJECT = """
folder=$(mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT
home=${CARGO_HOME:-/nonexistent}
for file in config config.toml; do
  [ ! -f "$home/$file" ] || cp "$home/$file" "$folder/" || exit
done
export CARGO_HOME="$folder" CARGO_NET_RETRY=0
mkdir "$folder/p" && cd "$folder/p" && mkdir src && : >src/lib.rs || exit
cat >Cargo.toml <<END
[package]
name = "p"
version = "0.0.0"
[dependencies]
no-such-package-0 = "*"
END
"""
_ASK_CARGO = f"{_CARGO_PROJECT}cargo generate-lockfile 2>&1 | grep -F config.json"
_ASK_CARGO_INDEX = f"{_CARGO_PROJECT}cargo generate-lockfile >/dev/null 2>&1\ncat ../registry/index/*/config.json"


def read_cargo(answer: str) -> list[str]:
    """From its complaint that it can't reach the index: the sparse one of its registry, or of what replaces that."""
    return re.findall(r"`(https?://[^\s`]+)/config\.json`", answer)


def read_cargo_index(answer: str) -> list[str]:
    """From an index' own configuration: where packages are, with marks for their names, and the service beside it."""
    config = _json(answer)
    if not isinstance(config, dict) or not isinstance(config.get("dl"), str):
        return []
    api = config.get("api")
    return [config["dl"].partition("{")[0], *([api] if isinstance(api, str) and api else [])]


@dataclass(frozen=True, kw_only=True)
class _Manager:
    """How one is asked without network, and how its answer is read. Where that is not all, a second command is run
    with the way to the first answer's hosts open."""

    ask: Sequence[str]
    read: Callable[[str], list[str]]
    ask_registry: Sequence[str] | None = None
    read_registry: Callable[[str], list[str]] = read_addresses


_MANAGERS: Mapping[str, _Manager] = {
    "npm": _Manager(ask=_ASK_NPM, read=read_npm),
    "pip": _Manager(ask=("python3", "-I", "-c", _ASK_PIP), read=read_addresses),
    "go": _Manager(ask=_ASK_GO, read=read_go),
    "maven": _Manager(ask=_shell("mvn", _ASK_MAVEN), read=read_maven),
    "gem": _Manager(ask=("ruby", "-C", "/", "-e", _ASK_GEM), read=read_addresses),
    "composer": _Manager(ask=_shell("composer", _ASK_COMPOSER), read=read_composer),
    "cargo": _Manager(
        ask=_shell("cargo", _ASK_CARGO),
        read=read_cargo,
        ask_registry=_shell("cargo", _ASK_CARGO_INDEX),
        read_registry=read_cargo_index,
    ),
}
