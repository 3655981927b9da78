"""What a repository without rules says about itself: how it is set up, and how its tests are run."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bot.domain.config import Check, Config

MANIFESTS: tuple[str, ...] = (
    "package.json",
    "pyproject.toml",
    "requirements.txt",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "go.mod",
    "Cargo.toml",
    "Gemfile",
    "composer.json",
    "Makefile",
    "makefile",
    "GNUmakefile",
)
"""Files of the root folder whose text `detect` wants."""

MANIFEST_PATHS: frozenset[str] = frozenset(
    {
        *(
            "package.json",
            "package-lock.json",
            "npm-shrinkwrap.json",
            ".npmrc",
            ".nvmrc",
            ".node-version",
            "yarn.lock",
            ".yarnrc",
            ".yarnrc.yml",
            "pnpm-lock.yaml",
            "pnpm-workspace.yaml",
        ),
        *(
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "Pipfile",
            "Pipfile.lock",
            "poetry.lock",
            "uv.lock",
            "pdm.lock",
            ".python-version",
        ),
        *("go.mod", "go.sum", "go.work", "go.work.sum"),
        *("Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml"),
        *(
            "pom.xml",
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
            "gradle.lockfile",
            "libs.versions.toml",
        ),
        *(
            "gradle-wrapper.properties",
            "Gemfile",
            "Gemfile.lock",
            ".ruby-version",
            "composer.json",
            "composer.lock",
            ".tool-versions",
        ),
    }
)
"""Names, in any folder, of what decides what set-up installs."""
_MORE_MANIFESTS = re.compile(r"(?:.*/)?(?:[\w.-]*(?:requirements|constraints)[\w.-]*\.(?:txt|in)|[\w.-]+\.gemspec)")
_REQUIREMENTS_FOLDER = re.compile(r"(?:.*/)?requirements/[^/]+\.(?:txt|in)")

Names: TypeAlias = Collection[str]
Texts: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Detected:
    """What was found; empty where nothing was. `network` is what set-up needs, in the config's words."""

    ecosystems: frozenset[str] = frozenset()
    setup: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    network: tuple[str, ...] = ()


def is_manifest(path: str) -> bool:
    """Whether a change of this path means that set-up has to run again."""
    return (
        path.rpartition("/")[2] in MANIFEST_PATHS
        or _MORE_MANIFESTS.fullmatch(path) is not None
        or _REQUIREMENTS_FOLDER.fullmatch(path) is not None
    )


def detect(names: Names, texts: Texts) -> Detected:
    """From the names in the root folder and its manifests' texts. A broken manifest says nothing, and nothing raises.
    A set-up writes outside the repository where it can choose, for what it leaves inside may look like work."""
    found = {name: hit for name, look in _ECOSYSTEMS.items() if (hit := look(names, texts)) is not None}
    if not any(hit.checks for hit in found.values()) and (made := _make(names, texts)) is not None:
        found["make"] = made
    checks = [(name, check) for name, hit in found.items() for check in hit.checks]
    return Detected(
        ecosystems=frozenset(found),
        setup=tuple(line for hit in found.values() for line in hit.setup),
        checks=tuple(
            check if len(checks) == 1 else check.model_copy(update={"name": f"{name} tests"})
            for name, check in checks
        ),
        network=tuple(entry for hit in found.values() for entry in hit.network),
    )


def applied(config: Config, detected: Detected) -> tuple[tuple[str, ...], tuple[Check, ...], tuple[str, ...]]:
    """Set-up lines, checks and set-up's network: each as the rules have it, else as it was detected."""
    return (
        detected.setup if config.setup is None else config.setup,
        detected.checks if config.checks is None else config.checks,
        detected.network if config.network.setup is None else config.network.setup,
    )


def _found(run: str | None, *, setup: tuple[str, ...] = (), network: str = "") -> Detected:
    checks = (Check(name="tests", run=run),) if run else ()
    return Detected(setup=setup, checks=checks, network=(network,) if setup and network else ())


def _node(names: Names, texts: Texts) -> Detected | None:
    if "package.json" not in names:
        return None
    package = _json(texts.get("package.json", ""))
    manager, install = _node_manager(names)
    needed = any(
        package.get(key) for key in ("dependencies", "devDependencies", "optionalDependencies", "workspaces")
    )
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    run = None
    if isinstance(script, str) and script.strip() and "no test specified" not in script:
        run = f"{manager} test"
    elif {"test", "tests"} & set(names) or any(re.search(r"\.test\.[cm]?js$", name) for name in names):
        run = "node --test"
    return _found(run, setup=(install,) if needed else (), network="npm")


def _node_manager(names: Names) -> tuple[str, str]:
    if "pnpm-lock.yaml" in names:
        return "pnpm", "pnpm install --frozen-lockfile"
    if "yarn.lock" in names:
        return "yarn", "yarn install --immutable" if ".yarnrc.yml" in names else "yarn install --frozen-lockfile"
    if "package-lock.json" in names or "npm-shrinkwrap.json" in names:
        return "npm", "npm ci"
    return "npm", "npm install --no-package-lock"


_VENV = '"$HOME/venv"'
# Not in the repository: an environment there, unless ignored, would be taken for a part of the change. Debian's own
# Python takes no packages (PEP 668), and so needs an environment as soon as anything is to be installed.


def _python(names: Names, texts: Texts) -> Detected | None:
    manifests = {"pyproject.toml", "requirements.txt", "setup.py", "setup.cfg"} & set(names)
    loose = any(re.fullmatch(r"test_.*\.py|.*_test\.py", name) for name in names)
    if not manifests and not loose:
        return None
    project = _toml(texts.get("pyproject.toml", ""))
    runner = "pytest" if loose or _uses_pytest(names, texts, project) else "unittest"
    wanted = _python_packages(names, texts, project)
    if not wanted:
        return _found(f"python3 -m {runner}")
    tool = ["pytest"] if runner == "pytest" else []
    return _found(
        f". {_VENV}/bin/activate && python -m {runner}",
        setup=(
            f"python3 -m venv {_VENV}",
            f"{_VENV}/bin/python -m pip install --quiet {' '.join([*tool, *wanted])}",
        ),
        network="pip",
    )


def _uses_pytest(names: Names, texts: Texts, project: Mapping[str, Any]) -> bool:
    if {"tests", "test", "pytest.ini", ".pytest.ini", "conftest.py"} & set(names):
        return True
    if "pytest" in _table(project, "tool"):
        return True
    words = "\n".join(texts.get(name, "") for name in ("pyproject.toml", "requirements.txt", "setup.py"))
    sections = texts.get("setup.cfg", "") + "\n" + texts.get("tox.ini", "")
    return "pytest" in words or re.search(r"^\[(?:tool:)?pytest\]", sections, re.MULTILINE) is not None


def _python_packages(names: Names, texts: Texts, project: Mapping[str, Any]) -> list[str]:
    """What pip is to install, as its arguments."""
    wanted = []
    for name in sorted(names):
        text = texts.get(name, "anything")  # a further file of requirements is there for a reason
        if re.fullmatch(r"(?:(?:dev|test|tests)-)?requirements(?:[-_](?:dev|test|tests))?\.txt", name) and re.search(
            r"^\s*[^#\s]", text, re.MULTILINE
        ):
            wanted.append(f"-r {name}")
    own, tool = _table(project, "project"), _table(project, "tool")
    groups = _table(project, "dependency-groups")
    extras = [name for name in ("dev", "test", "tests", "testing") if name in _table(own, "optional-dependencies")]
    installable = bool(own or "build-system" in project or "setup.py" in names or "setup.cfg" in names)
    poetry = set(_table(_table(tool, "poetry"), "dependencies")) - {"python"}
    old = "install_requires" in texts.get("setup.py", "") + texts.get("setup.cfg", "")
    # A package below `src` is found by its tests only once it is installed.
    if installable and (own.get("dependencies") or extras or poetry or old or "src" in names):
        wanted.append(f"-e '.[{','.join(extras)}]'" if extras else "-e .")
    for name in ("dev", "test", "tests"):
        listed = groups.get(name)  # not by `--group`, which the pip of a stable Debian doesn't know
        wanted += [shlex.quote(item) for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
    return wanted


def _go(names: Names, texts: Texts) -> Detected | None:
    if "go.mod" not in names:
        return None
    needed = re.search(r"^\s*require\b", texts.get("go.mod", ""), re.MULTILINE)
    return _found("go test ./...", setup=("go mod download",) if needed else (), network="go")


def _rust(names: Names, texts: Texts) -> Detected | None:
    if "Cargo.toml" not in names:
        return None
    manifest = _toml(texts.get("Cargo.toml", ""))
    if not any(manifest.get(key) for key in ("dependencies", "dev-dependencies", "build-dependencies", "workspace")):
        return _found("cargo test")
    locked = " --locked" if "Cargo.lock" in names else ""
    return _found(f"cargo test --offline{locked}", setup=(f"cargo fetch{locked}",), network="cargo")


def _java(names: Names, texts: Texts) -> Detected | None:
    if "pom.xml" in names:
        maven = "./mvnw" if "mvnw" in names else "mvn"
        return _found(f"{maven} -B -o test", setup=(f"{maven} -B -q dependency:go-offline",), network="maven")
    if {"build.gradle", "build.gradle.kts"} & set(names):
        gradle = "./gradlew" if "gradlew" in names else "gradle"
        return _found(f"{gradle} --offline test", setup=(f"{gradle} --quiet testClasses",), network="maven")
    return None


def _ruby(names: Names, texts: Texts) -> Detected | None:
    if "Gemfile" not in names:
        return None
    bundle = 'BUNDLE_PATH="$HOME/bundle" bundle'
    run = None
    if "spec" in names or ".rspec" in names or "rspec" in texts.get("Gemfile", ""):
        run = f"{bundle} exec rspec"
    elif "Rakefile" in names and "test" in names:
        run = f"{bundle} exec rake test"
    return _found(run, setup=(f"{bundle} install --quiet",), network="gem")


def _php(names: Names, texts: Texts) -> Detected | None:
    if "composer.json" not in names:
        return None
    package = _json(texts.get("composer.json", ""))
    run = None
    if "test" in _table(package, "scripts"):
        run = "composer test"
    elif {"phpunit.xml", "phpunit.xml.dist"} & set(names) or "phpunit/phpunit" in _table(package, "require-dev"):
        run = "vendor/bin/phpunit"
    needed = _table(package, "require-dev") or any("/" in name for name in _table(package, "require"))
    return _found(run, setup=("composer install --no-interaction --quiet",) if needed else (), network="composer")


def _make(names: Names, texts: Texts) -> Detected | None:
    """What nothing else could say how to test may have a target for it."""
    for name in ("GNUmakefile", "makefile", "Makefile"):  # the order in which make looks
        if name in names:
            target = re.search(r"^test\s*:(?!=)", texts.get(name, ""), re.MULTILINE)
            return _found("make test") if target else None
    return None


_ECOSYSTEMS: Mapping[str, Callable[[Names, Texts], Detected | None]] = {
    "node": _node,
    "python": _python,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "ruby": _ruby,
    "php": _php,
}


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _table(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
