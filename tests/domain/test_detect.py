"""A repository that says nothing of the bot still says how it is tested."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.config import Check, Config, Network
from bot.domain.detect import MANIFESTS, Detected, applied, detect, is_manifest

VENV = 'python3 -m venv "$HOME/venv"'
PIP = '"$HOME/venv"/bin/python -m pip install --quiet'
ACTIVE = '. "$HOME/venv"/bin/activate && python -m'


def look(*names: str, **texts: str) -> Detected:
    """Texts by their names with `__` for a dot and `_` for a dash."""
    files = {name.replace("__", "."): text for name, text in texts.items()}
    return detect([*names, *files], files)


def found(run: str | None, *setup: str, network: str | None = None, ecosystem: str) -> Detected:
    return Detected(
        ecosystems=frozenset({ecosystem}),
        setup=setup,
        checks=(Check(name="tests", run=run),) if run else (),
        network=(network,) if network else (),
    )


def node(run: str | None, *setup: str) -> Detected:
    return found(run, *setup, network="npm" if setup else None, ecosystem="node")


TESTED = json.dumps({"scripts": {"test": "jest"}, "devDependencies": {"jest": "1"}})


@pytest.mark.parametrize(
    ("names", "package", "wanted"),
    [
        (["package-lock.json"], TESTED, node("npm test", "npm ci")),
        (["npm-shrinkwrap.json"], TESTED, node("npm test", "npm ci")),
        ([], TESTED, node("npm test", "npm install --no-package-lock")),
        (["pnpm-lock.yaml"], TESTED, node("pnpm test", "pnpm install --frozen-lockfile")),
        (["yarn.lock"], TESTED, node("yarn test", "yarn install --frozen-lockfile")),
        (["yarn.lock", ".yarnrc.yml"], TESTED, node("yarn test", "yarn install --immutable")),
        ([], '{"scripts": {"test": "node --test"}}', node("npm test")),
        (["test"], "{}", node("node --test")),
        (["a.test.mjs"], "{}", node("node --test")),
        (["tests"], '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}', node("node --test")),
        ([], '{"scripts": ["test"], "dependencies": {}}', node(None)),
        ([], "{broken", node(None)),
        ([], "[]", node(None)),
        ([], "[" * 100_000, node(None)),
    ],
)
def test_node(names: list[str], package: str, wanted: Detected) -> None:
    assert detect([*names, "package.json"], {"package.json": package}) == wanted


def python(run: str, *packages: str) -> Detected:
    if not packages:
        return found(f"python3 -m {run}", ecosystem="python")
    return found(f"{ACTIVE} {run}", VENV, f"{PIP} {' '.join(packages)}", network="pip", ecosystem="python")


@pytest.mark.parametrize(
    ("names", "texts", "wanted"),
    [
        (["test_calc.py", "calc.py"], {}, python("pytest")),
        (["calc_test.py"], {}, python("pytest")),
        (["tests"], {"pyproject.toml": "[tool.ruff]\n"}, python("pytest")),
        ([], {"pyproject.toml": "[tool.pytest.ini_options]\n"}, python("pytest")),
        ([], {"setup.cfg": "[tool:pytest]\n"}, python("pytest")),
        ([], {"pyproject.toml": "", "tox.ini": "[pytest]\n"}, python("pytest")),
        (["conftest.py"], {"requirements.txt": "# none\n"}, python("pytest")),
        ([], {"setup.py": "setup()"}, python("unittest")),
        ([], {"requirements.txt": "flask\n"}, python("unittest", "-r requirements.txt")),
        ([], {"requirements.txt": "pytest\n"}, python("pytest", "pytest", "-r requirements.txt")),
        (
            ["requirements-dev.txt", "tests"],
            {"requirements.txt": "flask\n"},
            python("pytest", "pytest", "-r requirements-dev.txt", "-r requirements.txt"),
        ),
        ([], {"pyproject.toml": '[project]\nname="x"\ndependencies=["a"]\n'}, python("unittest", "-e .")),
        (["src"], {"pyproject.toml": "[build-system]\n"}, python("unittest", "-e .")),
        (
            ["tests"],
            {"pyproject.toml": "[project.optional-dependencies]\ndev=['a']\ntest=['b']\nx=['c']\n"},
            python("pytest", "pytest", "-e '.[dev,test]'"),
        ),
        (
            ["tests"],
            {"pyproject.toml": "[dependency-groups]\ndev=['pytest>=8', {include-group='x'}]\ntest='no list'\n"},
            python("pytest", "pytest", "'pytest>=8'"),
        ),
        (
            [],
            {"pyproject.toml": "[build-system]\n[tool.poetry.dependencies]\npython='3'\na='1'\n"},
            python("unittest", "-e ."),
        ),
        ([], {"setup.py": "setup(install_requires=['a'])"}, python("unittest", "-e .")),
        ([], {"setup.cfg": "[options]\ninstall_requires = a"}, python("unittest", "-e .")),
        ([], {"pyproject.toml": "this is [ no toml"}, python("unittest")),
        ([], {"pyproject.toml": "tool = 3\nproject = []\n"}, python("unittest")),
        ([], {"pyproject.toml": "a = " + "[" * 100_000}, python("unittest")),
    ],
)
def test_python(names: list[str], texts: dict[str, str], wanted: Detected) -> None:
    assert detect([*names, *texts], texts) == wanted


RUBY = 'BUNDLE_PATH="$HOME/bundle" bundle'


@pytest.mark.parametrize(
    ("names", "texts", "wanted"),
    [
        ([], {"go.mod": "module x\n"}, found("go test ./...", ecosystem="go")),
        (
            [],
            {"go.mod": "module x\nrequire (\n"},
            found("go test ./...", "go mod download", network="go", ecosystem="go"),
        ),
        ([], {"Cargo.toml": "[package]\n"}, found("cargo test", ecosystem="rust")),
        (
            ["Cargo.lock"],
            {"Cargo.toml": "[dependencies]\na='1'\n"},
            found("cargo test --offline --locked", "cargo fetch --locked", network="cargo", ecosystem="rust"),
        ),
        (
            [],
            {"Cargo.toml": "[workspace]\nmembers=['a']\n"},
            found("cargo test --offline", "cargo fetch", network="cargo", ecosystem="rust"),
        ),
        (
            ["pom.xml"],
            {},
            found("mvn -B -o test", "mvn -B -q dependency:go-offline", network="maven", ecosystem="java"),
        ),
        (
            ["pom.xml", "mvnw"],
            {},
            found("./mvnw -B -o test", "./mvnw -B -q dependency:go-offline", network="maven", ecosystem="java"),
        ),
        (
            ["build.gradle.kts", "gradlew"],
            {},
            found("./gradlew --offline test", "./gradlew --quiet testClasses", network="maven", ecosystem="java"),
        ),
        (
            ["build.gradle"],
            {},
            found("gradle --offline test", "gradle --quiet testClasses", network="maven", ecosystem="java"),
        ),
        (
            ["spec"],
            {"Gemfile": ""},
            found(f"{RUBY} exec rspec", f"{RUBY} install --quiet", network="gem", ecosystem="ruby"),
        ),
        (
            ["Rakefile", "test"],
            {"Gemfile": ""},
            found(f"{RUBY} exec rake test", f"{RUBY} install --quiet", network="gem", ecosystem="ruby"),
        ),
        ([], {"Gemfile": ""}, found(None, f"{RUBY} install --quiet", network="gem", ecosystem="ruby")),
        (
            [],
            {"composer.json": '{"scripts": {"test": "x"}, "require": {"php": "8"}}'},
            found("composer test", ecosystem="php"),
        ),
        (
            [],
            {"composer.json": '{"require-dev": {"phpunit/phpunit": "1"}}'},
            found(
                "vendor/bin/phpunit", "composer install --no-interaction --quiet", network="composer", ecosystem="php"
            ),
        ),
        (
            [],
            {"composer.json": '{"require": {"a/b": "1"}}'},
            found(None, "composer install --no-interaction --quiet", network="composer", ecosystem="php"),
        ),
        (["phpunit.xml"], {"composer.json": "{}"}, found("vendor/bin/phpunit", ecosystem="php")),
        ([], {"Makefile": "all:\n\ntest: all\n\tx\n"}, found("make test", ecosystem="make")),
        ([], {"GNUmakefile": "all:\n", "Makefile": "test:\n"}, Detected()),
        ([], {"Makefile": "test := 3\n"}, Detected()),
        (["README.md"], {}, Detected()),
    ],
)
def test_the_others(names: list[str], texts: dict[str, str], wanted: Detected) -> None:
    assert detect([*names, *texts], texts) == wanted


def test_a_makefile_speaks_only_where_nothing_else_does() -> None:
    assert look("test_a.py", Makefile="test:\n") == python("pytest")
    both = look(package__json="{}", Makefile="test:\n")
    assert both == Detected(ecosystems=frozenset({"node", "make"}), checks=(Check(name="tests", run="make test"),))


def test_two_ecosystems_are_set_up_and_tested_side_by_side() -> None:
    both = look("package-lock.json", "tests", package__json=TESTED, requirements__txt="a\n")
    assert both.ecosystems == {"node", "python"}
    assert [check.name for check in both.checks] == ["node tests", "python tests"]
    assert both.setup[0] == "npm ci"
    assert both.network == ("npm", "pip")


def test_what_is_configured_wins_and_only_what_is_absent_is_filled_in() -> None:
    detected = look("package-lock.json", package__json=TESTED)
    own = (Check(name="own", run="x"),)
    assert applied(Config(), detected) == (detected.setup, detected.checks, ("npm",))
    assert applied(Config(checks=own), detected) == (("npm ci",), own, ("npm",))
    assert applied(Config(setup=(), checks=(), network=Network(setup=())), detected) == ((), (), ())
    assert applied(Config(setup=("y",), network=Network(setup=("x.org",))), detected)[::2] == (("y",), ("x.org",))


@pytest.mark.parametrize(
    "path",
    [
        "package.json",
        "a/b/package-lock.json",
        "requirements.txt",
        "requirements-dev.txt",
        "dev_requirements.in",
        "x/constraints.txt",
        "requirements/test.txt",
        "go.sum",
        "x.gemspec",
        "Cargo.lock",
        "gradle/wrapper/gradle-wrapper.properties",
    ],
)
def test_a_change_of_a_manifest_means_set_up_again(path: str) -> None:
    assert is_manifest(path)


@pytest.mark.parametrize(
    "path", ["src/main.py", "package.json.md", "docs/requirements.md", "requirements.py", "xpackage.json"]
)
def test_other_files_do_not(path: str) -> None:
    assert not is_manifest(path)


@given(
    st.dictionaries(
        st.sampled_from(MANIFESTS), st.text(max_size=60) | st.sampled_from(["[]", "null", "{", "[project]"])
    )
)
def test_no_manifest_is_too_broken(texts: dict[str, str]) -> None:
    assert detect(list(texts), texts).ecosystems <= {"node", "python", "go", "rust", "ruby", "php", "make"}
    assert detect(list(texts), {}) is not None
