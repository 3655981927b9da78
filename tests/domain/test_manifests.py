"""Manifests taken apart: which parts decide how tests run, and what a merge of two versions has of each."""

from __future__ import annotations

import json
import tomllib

import pytest

from bot.domain.manifests import LIMIT, differing, is_known, is_runner, merged, scripts


def parts(path: str, before: str | None, after: str | None) -> tuple[str, ...]:
    old, new = (text.encode() if text is not None else None for text in (before, after))
    return differing(path, old, new)


def merge(path: str, before: str, after: str) -> str | None:
    made = merged(path, before.encode(), after.encode())
    return made.decode() if made is not None else None


@pytest.mark.parametrize(
    "name", ["pytest", "Jest", "@jest/core", "pytest-cov", "rspec-core", "ts-jest", "@vitest/ui"]
)
def test_runners_are_known_by_their_names(name: str) -> None:
    assert is_runner(name)


@pytest.mark.parametrize("name", ["left-pad", "requests", "pytestify", "jester"])
def test_other_packages_are_no_runners(name: str) -> None:
    assert not is_runner(name)


DECIDING: list[tuple[str, str | None, str | None, tuple[str, ...]]] = [
    ("package.json", "{}", '{"scripts": {"test": "x"}, "type": "module"}', ("scripts.test", "type")),
    ("package.json", "{}", '{"dependencies": {"left": "git+ssh://x"}, "version": "2"}', ()),
    ("package.json", "{}", '{"devDependencies": {"jest": "^29.0.0 || ~30", "mocha": ">=1 <2"}}', ()),
    ("package.json", "{}", '{"devDependencies": {"jest": "file:./fake"}}', ("devDependencies.jest",)),
    ("package.json", "{}", '{"devDependencies": {"jest": "npm:other@1"}}', ("devDependencies.jest",)),
    ("package.json", "{}", '{"scripts": 1, "dependencies": 2}', ()),
    ("package.json", None, '{"name": "x"}', ()),
    ("package.json", '{"jest": {}}', None, ("jest",)),
    ("package.json", "{}", "[]", ("",)),
    ("package.json", "{", "{", ()),
    (
        "composer.json",
        "{}",
        '{"autoload": {"files": ["a.php"], "psr-4": {}}, "scripts": {}}',
        ("autoload.files", "scripts"),
    ),
    ("composer.json", "{}", '{"require": {"a/b": "1"}, "autoload": {"psr-4": {"A": "src"}}}', ()),
    ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = '-x'\n", ("tool.pytest",)),
    ("pyproject.toml", "", "tool.coverage.run.plugins = ['x']\n", ("tool.coverage",)),
    ("pyproject.toml", "", "[project.entry-points.pytest11]\na = 'b'\n", ("project.entry-points",)),
    ("pyproject.toml", "", "[build-system]\nbackend-path = ['.']\n", ("build-system",)),
    ("pyproject.toml", "", "[project]\ndependencies = ['requests']\n[tool.black]\nline-length = 1\n", ()),
    ("pyproject.toml", "", "[project.scripts]\nmine = 'a:b'\n[tool.poetry.scripts]\nmine = 'a:b'\n", ()),
    ("pyproject.toml", "", "[project.scripts]\npytest = 'a:b'\n", ("project.scripts",)),
    ("pyproject.toml", "", "[tool.poetry.scripts]\npytest = 'a:b'\n", ("tool.poetry.scripts",)),
    (
        "pyproject.toml",
        "",
        "[project]\ndependencies = ['pytest @ file:fake', 'a @ file:b', 3]\n",
        ("the source of pytest",),
    ),
    (
        "pyproject.toml",
        "",
        "[tool.uv.sources]\npytest = {path = 'fake'}\na = {path = 'b'}\n",
        ("the source of pytest",),
    ),
    ("pyproject.toml", "", "[tool.poetry.group.dev.dependencies]\npytest = {git = 'x'}\n", ("the source of pytest",)),
    ("pyproject.toml", "", "[tool.poetry.dependencies]\npytest = '^8'\ncoverage = {version = '7'}\n", ()),
    ("pyproject.toml", "", "[project", ("",)),
    ("Cargo.toml", "", "[dependencies]\nrand = '1'\n[[bin]]\nname = 'x'\npath = 'y.rs'\n[lib]\nname = 'z'\n", ()),
    ("Cargo.toml", "", "[[test]]\nname = 'x'\nharness = false\n[profile.test]\nopt-level = 0\n", ("profile", "test")),
    ("Cargo.toml", "", "[lib]\ntest = false\n[[bin]]\nname = 'x'\ntest = false\n", ("bin", "lib")),
    ("Cargo.toml", "", "[package]\nautotests = false\nbuild = 'x.rs'\n", ("package.autotests", "package.build")),
    ("Cargo.toml", "", "[workspace]\nexclude = ['a']\nresolver = '2'\n", ("workspace.exclude",)),
    ("Cargo.toml", "", "[dev-dependencies]\nrstest = {path = 'fake'}\n", ("the source of rstest",)),
    ("Cargo.toml", "", "bin = 3\nlib = 4\n", ()),
    ("setup.cfg", "", "[tool:pytest]\naddopts = -x\n[metadata]\nname = a\n", ("tool:pytest",)),
    ("setup.cfg", "", "[options]\ninstall_requires = a\n[options.entry_points]\nconsole_scripts =\n  a = b\n", ()),
    ("setup.cfg", "", "[options.entry_points]\npytest11 =\n  a = b\n", ("options.entry_points.pytest11",)),
    (
        "setup.cfg",
        "",
        "[options.entry_points]\nconsole_scripts =\n  pytest = b\nempty\n",
        ("options.entry_points.console_scripts",),
    ),
    ("setup.cfg", "", "[options]\ncmdclass = a\n", ("options.cmdclass",)),
    ("setup.cfg", "", "no section\n", ("",)),
    ("go.mod", "module a\n", "module a\n\nrequire b v1\n", ()),
    ("go.mod", "module a\n", "module a\n\nreplace b => ./b\n", ("replace, exclude or toolchain",)),
    (
        "go.mod",
        "module a\n",
        "module a\n\nreplace (\n\tb => ./b // x\n)\n\nrequire c v1\n",
        ("replace, exclude or toolchain",),
    ),
    ("requirements.txt", "a==1\n", "a==2\n-r other.txt\n", ()),
    ("requirements-dev.txt", "a\n", "a\n--index-url x\n", ("sources",)),
    ("requirements.txt", "a\n", "a\npytest @ file:fake\n", ("sources",)),
    ("requirements.txt", "a\n", "a\n./fake\n", ("sources",)),
    ("Gemfile", "source 'a'\n", "source 'a'\ngem 'rails', '~> 7'\ngroup :test do\n  gem 'rspec'\nend\n", ()),
    ("Gemfile", "source 'a'\n", "source 'b'\n", ("sources",)),
    ("Gemfile", "", "gem 'rspec', path: 'fake'\n", ("sources",)),
    ("Gemfile", "", "system('x')\n", ("sources",)),
    ("Makefile", "SRCS = a.c\ntest: a\n\t./a\n", "SRCS = a.c b.c\ntest: a\n\t./a\n", ()),
    ("Makefile", "test: a\n\t./a\n", "test: a\n\t./a || true\n", ("rules",)),
    ("CMakeLists.txt", "add_library(a a.c)\n", "add_library(a a.c b.c)\n", ()),
    ("CMakeLists.txt", "add_test(a b)\n", "add_test(a true)\n", ("tests",)),
    ("pom.xml", "<project></project>", "<project><dependencies/></project>", ()),
    ("pom.xml", "<project></project>", "<project><build><x/></build></project>", ("build",)),
    ("pom.xml", "<p></p>", "<p><properties><skipTests>true</skipTests></properties></p>", ("properties",)),
    ("pom.xml", "<p></p>", "<p><build></p>", ("",)),
    ("build.gradle", "dependencies {\n}\n", "dependencies {\n    implementation 'a:b:1'\n}\n", ()),
    ("build.gradle", "test {\n}\n", "test {\n  x\n}\n", ("the build",)),
    ("build.gradle.kts", "dependencies {\n}\n", "dependencies {\n}\ntest {\n}\n", ("the build",)),
    ("build.gradle", "dependencies {\n}\n", "dependencies {\n    exec('x')\n}\n", ("the build",)),
]


@pytest.mark.parametrize(("path", "before", "after", "expected"), DECIDING)
def test_what_decides_is_named(path: str, before: str | None, after: str | None, expected: tuple[str, ...]) -> None:
    assert parts(path, before, after) == expected


def test_what_is_too_long_or_no_text_differs_as_a_whole() -> None:
    assert differing("package.json", b"{}", b" " * (LIMIT + 1)) == ("",)
    assert differing("package.json", b"{}", b"\xff") == ("",)
    assert differing("package.json", b"{}", b"[" * 100_000) == ("",)
    assert merged("package.json", b"{}", b"\xff") is None


def test_a_package_keeps_its_new_dependencies_and_gets_its_old_scripts() -> None:
    before = '{"name": "a", "scripts": {"test": "jest"}, "devDependencies": {"jest": "^29"}}'
    after = (
        '{"name": "b", "scripts": {}, "type": "module", '
        '"devDependencies": {"jest": "file:x", "left": "1", "ava": "git:y"}}'
    )
    made = merge("package.json", before, after)
    assert made is not None
    assert json.loads(made) == {
        "name": "b",
        "scripts": {"test": "jest"},
        "devDependencies": {"jest": "^29", "left": "1"},
    }


def test_a_composer_package_gets_its_old_autoload() -> None:
    made = merge(
        "composer.json", '{"autoload": {"files": ["a"]}}', '{"require": {"b": "1"}, "autoload": {"files": ["c"]}}'
    )
    assert made is not None
    assert json.loads(made) == {"require": {"b": "1"}, "autoload": {"files": ["a"]}}


def test_tables_of_toml_are_exchanged() -> None:
    before = "[project]\nname = 'a'\n\n[tool.pytest.ini_options]\naddopts = '-ra'\n"
    after = "[project]\nname = 'a'\ndependencies = ['b']\n[tool.pytest.ini_options]\naddopts = '-x'\n[tool.black]"
    made = merge("pyproject.toml", before, after)
    assert made is not None
    assert tomllib.loads(made) == {
        "project": {"name": "a", "dependencies": ["b"]},
        "tool": {"pytest": {"ini_options": {"addopts": "-ra"}}, "black": {}},
    }


def test_what_can_not_be_exchanged_by_tables_is_not() -> None:
    assert merge("pyproject.toml", "", "tool.pytest.ini_options.addopts = '-x'\n") is None
    assert merge("pyproject.toml", "", "[tool.poetry.dependencies]\npytest = {path = 'x'}\n") is None
    assert merge("Cargo.toml", "", "[package]\nautotests = false\n") is None


def test_targets_of_cargo_are_exchanged() -> None:
    before = "[package]\nname = 'a'\n\n[[test]]\nname = 'x'\n"
    after = "[package]\nname = 'a'\n\n[dependencies]\nrand = '1'\n\n[[test]]\nname = 'x'\nharness = false\n"
    made = merge("Cargo.toml", before, after)
    assert made is not None
    assert tomllib.loads(made) == {
        "package": {"name": "a"},
        "dependencies": {"rand": "1"},
        "test": [{"name": "x"}],
    }


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        (
            "setup.cfg",
            "[tool:pytest]\naddopts = -ra\n",
            "[options]\ninstall_requires = a\n[tool:pytest]\naddopts = -x\n",
            "[options]\ninstall_requires = a\n[tool:pytest]\naddopts = -ra\n",
        ),
        ("go.mod", "module a\n", "module a\nrequire b v1\nreplace b => ./c\n", "module a\nrequire b v1\n"),
        ("requirements.txt", "a\n--pre\n", "a\nb\n--no-index\n", "a\nb\n--pre\n"),
        (
            "Makefile",
            "OBJS = a.o\n\ntest:\n\t./a\n",
            "OBJS = a.o b.o\n\ntest:\n\ttrue\n",
            "OBJS = a.o b.o\n\ntest:\n\t./a\n",
        ),
        (
            "pom.xml",
            "<p><build>old</build></p>",
            "<p><build>new</build><dependencies/></p>",
            "<p><build>old</build><dependencies/></p>",
        ),
        ("pom.xml", "<p></p>", "<p><build>new</build></p>", None),
        (
            "build.gradle",
            "dependencies {\n}\ntest {}\n",
            "dependencies {\n    api 'a:b:1'\n}\n",
            "dependencies {\n    api 'a:b:1'\n}\ntest {}\n",
        ),
    ],
)
def test_other_manifests_are_merged_by_lines_or_blocks(
    path: str, before: str, after: str, expected: str | None
) -> None:
    assert merge(path, before, after) == expected


def test_scripts_are_told_by_their_tasks() -> None:
    assert scripts('{"scripts": {"a": "b", "c": ["d", "e", 1]}}') == {"a": "b", "c": "d; e"}
    assert scripts("{") == {}


def test_only_some_names_are_known() -> None:
    assert is_known("deep/Package.json")
    assert not is_known("package.jsonc")
