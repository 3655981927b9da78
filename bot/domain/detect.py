"""What a repository without a config says about itself: how it is set up, and how its tests are run."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bot.domain.config import Check, Config

MANIFESTS = (
    "package.json",
    "pyproject.toml",
    "requirements.txt",
    "requirements-dev.txt",
    "setup.cfg",
    "pytest.ini",
    "tox.ini",
    "Makefile",
    "composer.json",
)
"""Root files whose text is asked for."""

_MANIFEST_NAMES = frozenset(
    [
        "package.json",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "poetry.lock",
        "uv.lock",
        "Pipfile",
        "Pipfile.lock",
        "go.mod",
        "go.sum",
        "Cargo.toml",
        "Cargo.lock",
        "pom.xml",
        "build.gradle",
        "build.gradle.kts",
        "gradle.lockfile",
        "Gemfile",
        "Gemfile.lock",
        "composer.json",
        "composer.lock",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Detected:
    """What was found; empty where nothing was."""

    ecosystems: frozenset[str] = frozenset()
    setup: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    network: tuple[str, ...] = ()


def is_manifest(path: str) -> bool:
    """Whether a change of this path means that set-up has to run again."""
    name = path.rpartition("/")[2]
    return name in _MANIFEST_NAMES or re.fullmatch(r"requirements[\w.-]*\.txt", name) is not None


def detect(names: Collection[str], texts: Mapping[str, str]) -> Detected:
    """From the root folder's names and the manifests' texts; a broken manifest says nothing."""
    found = [hit for one in _ECOSYSTEMS if (hit := one(names, texts)) is not None]
    if not found:
        return Detected()
    checks = [check for hit in found for check in hit.checks]
    return Detected(
        ecosystems=frozenset(name for hit in found for name in hit.ecosystems),
        setup=tuple(line for hit in found for line in hit.setup),
        checks=tuple(checks),
        network=tuple(host for hit in found for host in hit.network),
    )


def applied(config: Config, found: Detected) -> tuple[tuple[str, ...], tuple[Check, ...], tuple[str, ...]]:
    """Set-up lines, checks and the set-up's network: what is configured wins, detection fills what is absent. Once
    checks are configured the author has said how things are run, so nothing is set up that they did not name."""
    checks = config.checks or found.checks
    if config.setup or config.checks:
        return config.setup, checks, config.network.setup
    return found.setup, checks, config.network.setup or found.network


def _check(run: str) -> tuple[Check, ...]:
    return (Check(name="tests", run=run),)


def _node(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    package = _json(texts.get("package.json"))
    if package is None:
        return None
    tool = "pnpm" if "pnpm-lock.yaml" in names else "yarn" if "yarn.lock" in names else "npm"
    install = {"npm": "npm ci", "yarn": "yarn install --frozen-lockfile", "pnpm": "pnpm install --frozen-lockfile"}
    locked = tool != "npm" or "package-lock.json" in names
    needs = any(isinstance(package.get(key), dict) and package[key] for key in ("dependencies", "devDependencies"))
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    tested = isinstance(script, str) and "no test specified" not in script
    return Detected(
        ecosystems=frozenset({"node"}),
        setup=((install[tool] if locked else "npm install",) if needs else ()),
        checks=_check(f"{tool} test") if tested else (),
        network=("npm",) if needs else (),
    )


def _python(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    project = _toml(texts.get("pyproject.toml")) or {}
    wanted = [name for name in ("requirements.txt", "requirements-dev.txt") if texts.get(name, "").strip()]
    if not wanted and not {"pyproject.toml", "setup.py", "setup.cfg"} & set(names):
        loose = any(name.endswith(".py") for name in names)
        return Detected(ecosystems=frozenset({"python"}), checks=_check("python3 -m pytest -q")) if loose else None
    installs = [f"-r {name}" for name in wanted]
    if "setup.py" in names or "build-system" in project or "project" in project:
        installs.append("-e .")
    if not installs:
        return Detected(ecosystems=frozenset({"python"}), checks=_check("python3 -m pytest -q"))
    # Debian's Python refuses to install beside its own packages (PEP 668), so there is an environment for it.
    line = f"python3 -m venv .venv && .venv/bin/python -m pip install -q pytest {' '.join(installs)}"
    return Detected(
        ecosystems=frozenset({"python"}),
        setup=(line,),
        checks=_check(".venv/bin/python -m pytest -q"),
        network=("pip",),
    )


def _go(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    return _simple("go.mod", names, "go", "go mod download", "go test -v ./...")


def _cargo(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    return _simple("Cargo.toml", names, "cargo", "cargo fetch", "cargo test")


def _maven(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    return _simple("pom.xml", names, "maven", "mvn -B -q dependency:go-offline", "mvn -B -o test")


def _ruby(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    return _simple("Gemfile", names, "gem", "bundle install", "bundle exec rspec")


def _php(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    return _simple("composer.json", names, "composer", "composer install", "vendor/bin/phpunit")


def _make(names: Collection[str], texts: Mapping[str, str]) -> Detected | None:
    """A `test` target counts where nothing else said how tests are run."""
    others = set(names) & {"package.json", "pyproject.toml", "setup.py", "go.mod", "Cargo.toml", "pom.xml", "Gemfile"}
    if others or not re.search(r"^test:", texts.get("Makefile", ""), re.MULTILINE):
        return None
    return Detected(ecosystems=frozenset({"make"}), checks=_check("make test"))


_ECOSYSTEMS = (_node, _python, _go, _cargo, _maven, _ruby, _php, _make)


def _simple(manifest: str, names: Collection[str], manager: str, setup: str, check: str) -> Detected | None:
    if manifest not in names:
        return None
    return Detected(ecosystems=frozenset({manager}), setup=(setup,), checks=_check(check), network=(manager,))


def _json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _toml(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
