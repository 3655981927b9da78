"""Which files decide how tests run, which only look like it, and what commands name."""

from __future__ import annotations

import pytest

from bot.domain.config import Check
from bot.domain.deciders import decides, is_configuration, is_planted, named, restored, sources

NONE: frozenset[str] = frozenset()


def checks(*lines: str) -> list[Check]:
    return [Check(name=f"c{at}", run=line) for at, line in enumerate(lines)]


DECIDERS = [
    *("conftest.py", "tests/conftest.py", "pkg/CONFTEST.py", "pytest.ini", ".pytest.ini", "tox.ini", "noxfile.py"),
    *(".coveragerc", "sitecustomize.py", "deep/usercustomize.py", "sitecustomize/__init__.py", "a.pth", "lib/x.pth"),
    *("evil-1.0.dist-info/entry_points.txt", "Evil.EGG-INFO/PKG-INFO", "src/x.egg-info", "pyvenv.cfg"),
    *(
        "pytest.py",
        "_pytest/__init__.py",
        "src/coverage.py",
        "tests/pytest.py",
        "json.py",
        "src/unittest/__init__.py",
    ),
    *("jest.config.js", "jest.config.ts", "jest.setup.js", "vitest.config.mts", "vite.config.js", ".mocharc.yml"),
    *("karma.conf.js", "ava.config.js", "playwright.config.ts", "babel.config.js", ".babelrc", "tsconfig.json"),
    *(".npmrc", "sub/.npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs", "pnpm-workspace.yaml", ".yarn/releases/yarn.cjs"),
    *("Rakefile", ".rspec", "spec/spec_helper.rb", "lib/minitest/evil_plugin.rb", ".cargo/config.toml", "build.rs"),
    *("rust-toolchain", "rust-toolchain.toml", "go.work", "vendor/github.com/stretchr/testify/assert.go"),
    *("settings.gradle", "gradle/wrapper/gradle-wrapper.properties", "mvnw", ".mvn/maven.config", "phpunit.xml.dist"),
    *(".env", ".env.test", ".envrc", ".bashrc", ".profile", ".bash_env", ".python-version", "tasks.py", "justfile"),
    *("node_modules/jest/index.js", "node_modules/.bin/jest", ".venv/bin/python", "venv/lib/x.py", "bin/pytest"),
    *("tools/bin/node", "bin/python3.11", "scripts/cargo", "mypy.ini", ".eslintrc.json", "eslint.config.js"),
    *("src/test/resources/META-INF/services/org.junit.platform.launcher.TestExecutionListener", ".proverc"),
]
INNOCENT = [
    *("app.py", "src/app/json.py", "src/app/pytest_helpers.py", "src/index.js", "docs/conf.py", "README.md"),
    *("src/jest.js", "src/env.py", "pkg/tasks.py", "src/build", "bin/app", "scripts/release.sh", "Dockerfile"),
    *(".env.example", "vendor/github.com/x/y.go", "main.go", "src/main.rs", "tests/fixtures/package.json"),
    *("tests/fixtures/conftest.py", "index.ts", "config.json", ".github/dependabot.yml", "lib/app/minitest.md"),
]


@pytest.mark.parametrize("path", DECIDERS)
def test_what_is_read_before_any_test_decides(path: str) -> None:
    assert decides(path, None, b"x", NONE)


@pytest.mark.parametrize("path", INNOCENT)
def test_what_is_only_code_or_data_does_not(path: str) -> None:
    assert decides(path, None, b"x", NONE) is None


def test_what_shadows_a_standard_module_counts_only_where_it_is_new() -> None:
    assert decides("json.py", None, b"x", NONE) == "can be imported in place of the standard `json`"
    assert decides("json.py", b"x", b"y", NONE) is None
    assert decides("backend/json.py", None, b"x", NONE) is None
    assert decides("backend/json.py", None, b"x", frozenset({"backend/"})) is not None


def test_a_tool_s_name_counts_where_it_could_be_started() -> None:
    assert decides("tools/go", None, b"x", NONE) is None
    assert (
        decides("tools/go", None, b"x", NONE, executable=True) == "can be taken for `go`, which runs or judges tests"
    )
    assert decides("src/cat.c", None, b"x", NONE, executable=True) is None


def test_data_of_tests_counts_where_a_check_goes_there() -> None:
    assert decides("tests/fixtures/conftest.py", None, b"x", frozenset({"tests/fixtures/"})) is not None


def test_what_a_check_runs_decides() -> None:
    assert decides("ci/go.sh", b"x", b"y", frozenset({"ci/go.sh"})) == "is run by a check's command"


@pytest.mark.parametrize(
    ("path", "planted"),
    [
        ("sitecustomize.py", True),
        ("x.dist-info/entry_points.txt", True),
        ("pytest.py", True),
        ("bin/pytest", True),
        ("node_modules/jest/index.js", True),
        ("node_modules/.bin/mocha", True),
        ("json.py", False),
        ("conftest.py", False),
        ("node_modules/left/index.js", False),
    ],
)
def test_only_what_serves_no_other_end_is_planted(path: str, planted: bool) -> None:
    assert is_planted(path, None, NONE) is planted
    assert is_planted(path, b"old", NONE) is False


def test_a_configuration_is_known_by_its_name() -> None:
    assert is_configuration("vite.config.ts")
    assert not is_configuration("src/app.ts")


LOCK = (
    "{\n"
    '  "packages": {\n'
    '    "node_modules/jest": {\n'
    '      "version": "1.0.0",\n'
    '      "resolved": "https://one.example/jest.tgz",\n'
    '      "integrity": "sha512-a"\n'
    "    }\n"
    "  }\n"
    "}\n"
)
CARGO_LOCK = (
    '[[package]]\nname = "rand"\nversion = "1.0"\nsource = "registry+https://one.example/index"\nchecksum = "aa"\n'
)


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        ("package-lock.json", LOCK, LOCK.replace("one.example", "two.example"), True),
        ("package-lock.json", LOCK, LOCK.replace("https://one.example/jest.tgz", "file:fake"), True),
        ("package-lock.json", LOCK, LOCK.replace("sha512-a", "sha512-b"), True),
        ("package-lock.json", LOCK, LOCK.replace("1.0.0", "2.0.0").replace("sha512-a", "sha512-b"), False),
        ("Cargo.lock", CARGO_LOCK, CARGO_LOCK.replace('"aa"', '"bb"'), True),
        ("Cargo.lock", CARGO_LOCK, CARGO_LOCK + CARGO_LOCK.replace("rand", "log"), False),
        ("go.sum", "x.org/a v1.0.0 h1:aa=\n", "x.org/a v1.0.0 h1:bb=\n", True),
        ("go.sum", "x.org/a v1.0.0 h1:aa=\n", "x.org/a v1.0.0 h1:aa=\nx.org/b v1.0.0 h1:bb=\n", False),
        ("yarn.lock", None, 'a:\n  resolved "https://one.example/a"\n', False),
        ("setup.py", "setup(name='a')\n", "setup(name='a', entry_points={'pytest11': ['a = b']})\n", True),
        ("setup.py", "setup(name='a')\n", "setup(name='a', install_requires=['b'])\n", False),
        ("app.csproj", "<Project></Project>", '<Project><Target Name="x"></Target></Project>', True),
        ("app.csproj", "<Project></Project>", '<Project><PackageReference Include="x"/></Project>', False),
        ("site/settings.py", "DEBUG = True\n", "TEST_RUNNER = 'fake.Runner'\n", True),
        ("site/settings.py", "TEST_RUNNER = 'a'\n", "TEST_RUNNER = 'a'\nDEBUG = True\n", False),
    ],
)
def test_some_files_decide_by_what_changes_in_them(path: str, before: str | None, after: str, expected: bool) -> None:
    old = before.encode() if before is not None else None
    assert (decides(path, old, after.encode(), NONE) is not None) is expected


def test_the_parts_that_differ_are_named() -> None:
    before = b'{"scripts": {"test": "jest"}}'
    after = b'{"scripts": {"test": "true"}, "dependencies": {"left": "1"}, "jest": {"b`\\n": 1}}'
    assert decides("package.json", before, after, NONE) == "says how tests are built or run (`jest`, `scripts.test`)"
    assert decides("package.json", before, b'{"scripts": {"te`\\nst": "x", "test": "jest"}}', NONE) == (
        "says how tests are built or run (`scripts.te??st`)"
    )
    assert decides("package.json", before, b"{", NONE) == (
        "says how tests are built or run (it can not be read in parts)"
    )
    assert decides("package.json", b'{"scripts": {}}', b'{"dependencies": {"left": "1"}}', NONE) is None


def test_what_can_be_taken_apart_is_put_back_in_part() -> None:
    assert restored("package.json", b'{"scripts": {"test": "jest"}}', b'{"scripts": {"test": "true"}}') == (
        b'{\n  "scripts": {\n    "test": "jest"\n  }\n}\n'
    )
    assert restored("package.json", None, b"{}") is None
    assert restored("package.json", b"{}", None) is None
    assert restored("conftest.py", b"x", b"y") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("./run_tests.sh", {"run_tests.sh"}),
        ("./go.sh --fast", {"go.sh"}),
        ("bash ci/go.sh", {"ci/go.sh"}),
        ("sh -e ci/go.sh", {"ci/go.sh"}),
        (". ci/env && pytest", {"ci/env"}),
        ("python scripts/test.py", {"scripts/test.py"}),
        ("python calc.py", set()),
        ("python -m tools.check", {"tools/check.py", "tools/check/__main__.py", "tools/check/__init__.py"}),
        ("python -m pytest tests/test_a.py", set()),
        ("cd backend && ./run.sh", {"backend/", "backend/run.sh"}),
        ("cd /tmp && pytest", set()),
        ("cd ../.. && ./run.sh", {"run.sh"}),
        ("make -f build/x.mk test", {"build/x.mk"}),
        ("make --makefile=x.mk", {"x.mk"}),
        ("python -m pytest -c ci.ini -p plug.in", {"ci.ini", "plug/in.py"}),
        ("python -c 'import check'", set()),
        ("pytest -c ci.ini -p plug.in", {"ci.ini", "plug/in.py"}),
        ("jest --config=ci/jest.json", {"ci/jest.json"}),
        ("PYTHONPATH=lib:$HOME/x:inner pytest", {"lib/", "inner/"}),
        ("timeout 10m env A=1 ./test.sh", {"test.sh"}),
        ("bash -c './test.sh && cat x'", {"test.sh"}),
        ("bash -c", set()),
        ("bash", set()),
        ("node --require ./setup.js test.js", {"setup.js", "test.js"}),
        ("python", set()),
        ("python -m", set()),
        ("cd", set()),
        ("A=1", set()),
        ("./test.sh 'open", {"test.sh"}),
        ("./a/../../x.sh; ~/x.sh; $HOME/x.sh", set()),
        ("true # ./x.sh", set()),
    ],
)
def test_commands_name_what_they_run(line: str, expected: set[str]) -> None:
    assert named(checks(line)) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "package.json",
            '{"scripts": {"test": "node scripts/run.js", "build": "node scripts/build.js"}}',
            {"scripts/run.js"},
        ),
        ("package.json", '{"scripts": {"test": ["./t1-test.sh", "./t2-test.sh", 3]}}', {"t1-test.sh", "t2-test.sh"}),
        ("package.json", '{"scripts": {"test": "node src/index.js"}}', set()),
        ("package.json", "{", set()),
        ("Makefile", "all:\n\t./build-test.sh\n\ntest: all\n\t@sh ci/run.sh \\\n\t  now\n\n", {"ci/run.sh"}),
        ("tox.ini", "[testenv]\ncommands = \n  ./check.sh\n", {"check.sh"}),
    ],
)
def test_what_is_run_in_turn_counts_if_it_looks_like_it(path: str, text: str, expected: set[str]) -> None:
    assert named(checks("npm test"), {path: text.encode()}) == expected


def test_a_named_script_is_read_for_what_it_runs() -> None:
    assert named(checks("./ci.sh"), {"ci.sh": b"set -e\npython tools/check.py\npython app.py\n"}) == {
        "ci.sh",
        "tools/check.py",
    }


def test_sources_are_the_scripts_and_the_manifests_where_checks_go() -> None:
    found = sources(checks("cd web && npm test", "./ci.sh"))
    assert found[0] == "ci.sh"
    assert {"package.json", "web/package.json", "Makefile", "web/Makefile"} <= set(found)
