"""Where two tests of ours go, how they are written, and when they were seen. Each form was tried with its runner."""

from __future__ import annotations

import ast
import unittest

import pytest

from bot.domain.canary import RUNNERS, Canary, make, seen, sites
from bot.domain.tree import TreeEntry

TOKEN = "k7f3a91c0de"
CANARY = Canary(path="a", content=b"", passes="test_k_a", fails="test_k_b")


def entry(path: str, mode: str = "100644") -> TreeEntry:
    return TreeEntry(mode=mode, type="blob" if mode != "160000" else "commit", sha="0" * 40, path=path)


def placed(runner: str, *paths: str, ran: tuple[str, ...] = ()) -> str | None:
    """The best of the files."""
    found = sites(runner, ran, [entry(path) for path in paths])
    return found[0].path if found else None


def made(runner: str, path: str, text: str) -> str:
    canary = make(runner, entry(path), text.encode(), TOKEN)
    assert canary is not None
    assert canary.path == path
    assert TOKEN in canary.passes
    assert TOKEN in canary.fails
    assert canary.content.index(canary.passes.encode()) < canary.content.index(canary.fails.encode())
    return canary.content.decode()


@pytest.mark.parametrize(
    ("runner", "paths", "expected"),
    [
        ("pytest", ["a.py", "tests/test_a.py", "tests/b_test.py", "tests/conftest.py"], "tests/test_a.py"),
        ("pytest", ["tests/test_a.py", "tools/test_b.py"], "tests/test_a.py"),
        ("pytest", ["tests/test_a.py", "tests/fixtures/test_b.py", "node_modules/x/test_c.py"], "tests/test_a.py"),
        ("pytest", ["a.py"], None),
        ("unittest", ["tests/__init__.py", "tests/test_a.py", "zoo/test_b.py"], "tests/test_a.py"),
        ("unittest", ["test_a.py", "tests/test_b.py"], "test_a.py"),
        ("node", ["test/a.test.js", "test/helper.js", "src/test.ts"], "test/a.test.js"),
        ("node", ["test/a.js"], "test/a.js"),
        ("jest", ["__tests__/a.js", "src/b.spec.tsx"], "src/b.spec.tsx"),
        ("vitest", ["src/a.test.ts", "src/b.ts"], "src/a.test.ts"),
        ("mocha", ["test/a.js", "test/deep/b.js", "test/c.mjs"], "test/c.mjs"),
        ("go", ["a_test.go", "b_windows_test.go", "testdata/c_test.go", "_d_test.go"], "a_test.go"),
        ("cargo", ["Cargo.toml", "src/lib.rs", "src/main.rs", "tests/a.rs", "tests/common/mod.rs"], "tests/a.rs"),
        ("cargo", ["Cargo.toml", "src/lib.rs", "src/main.rs"], "src/main.rs"),
        ("cargo", ["crates/a/Cargo.toml", "crates/a/src/lib.rs", "tests/a.rs"], "crates/a/src/lib.rs"),
        ("rspec", ["spec/a_spec.rb"], None),
    ],
)
def test_canaries_go_to_the_last_file_that_the_runner_would_collect(
    runner: str, paths: list[str], expected: str | None
) -> None:
    assert placed(runner, *paths) == expected


@pytest.mark.parametrize(
    ("runner", "ran", "expected"),
    [
        ("pytest", "tests/test_a.py::test_x", "tests/test_a.py"),
        ("pytest", "tests.test_a::test_x", "tests/test_a.py"),
        ("pytest", "tests.test_a.TestX::test_x", "tests/test_a.py"),
        ("pytest", "test_a.TestX::test_x", "tests/test_a.py"),
        ("pytest", "tests.test_ab::test_x", "tests/test_z.py"),
        ("unittest", "test_x (tests.test_a.TestX)", "tests/test_a.py"),
    ],
)
def test_a_file_that_is_known_to_have_run_is_taken_first(runner: str, ran: str, expected: str) -> None:
    assert placed(runner, "tests/test_a.py", "tests/test_z.py", ran=(ran,)) == expected


def test_links_and_submodules_are_no_files_to_write_to() -> None:
    assert sites("pytest", (), [entry("test_a.py", "120000"), entry("test_b.py", "160000")]) == ()


def test_pytest_s_are_functions() -> None:
    names = [
        node.name
        for node in ast.parse(made("pytest", "test_a.py", "x = 1")).body
        if isinstance(node, ast.FunctionDef)
    ]
    assert names == [f"test_{TOKEN}_a", f"test_{TOKEN}_b"]


@pytest.mark.parametrize("tail", ["", "\n\nif __name__ == '__main__':\n    unittest.main()\n"])
def test_unittest_s_are_a_case_before_the_guard(tail: str) -> None:
    text = made("unittest", "test_a.py", f"import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n{tail}")
    assert text.endswith(tail)
    module: dict[str, object] = {"__name__": "test_a"}
    exec(compile(text, "test_a.py", "exec"), module)
    case = module[f"Test_{TOKEN}"]
    assert isinstance(case, type)
    assert issubclass(case, unittest.TestCase)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert result.testsRun == 2
    assert [failed.id() for failed, _ in result.failures] == [f"test_a.Test_{TOKEN}.test_{TOKEN}_b"]


@pytest.mark.parametrize(
    ("runner", "path", "text", "line"),
    [
        (
            "node",
            "a.test.js",
            'const test = require("node:test")',
            f'const {{ test: test_{TOKEN} }} = require("node:test");',
        ),
        ("node", "a.test.cjs", "", f'const {{ test: test_{TOKEN} }} = require("node:test");'),
        ("node", "a.test.mjs", "", f'import {{ test as test_{TOKEN} }} from "node:test";'),
        ("node", "a.test.js", 'import test from "node:test"', f'import {{ test as test_{TOKEN} }} from "node:test";'),
        ("node", "a.test.js", "run();", f'import("node:test").then(({{ test: test_{TOKEN} }}) => {{'),
        ("jest", "a.test.js", 'test("x", () => {})', f'test("test_{TOKEN}_a", () => {{}});'),
        (
            "jest",
            "a.test.ts",
            'import { it } from "@jest/globals"',
            f'import {{ test as test_{TOKEN} }} from "@jest/globals";',
        ),
        (
            "jest",
            "a.test.js",
            'const { it } = require("@jest/globals")',
            f'const {{ test: test_{TOKEN} }} = require("@jest/globals");',
        ),
        ("vitest", "a.test.ts", 'import { it } from "vitest"', f'import {{ test as test_{TOKEN} }} from "vitest";'),
        ("mocha", "test/a.js", 'describe("d", () => {})', f'it("test_{TOKEN}_a", () => {{}});'),
        ("mocha", "test/a.js", 'suite("d", () => {})', f'test("test_{TOKEN}_a", () => {{}});'),
    ],
)
def test_scripts_take_their_test_function_as_the_file_does(runner: str, path: str, text: str, line: str) -> None:
    written = made(runner, path, text)
    assert written.startswith(text)
    assert line in written.splitlines()


def test_go_s_have_an_import_of_their_own() -> None:
    head = "// Copyright\n/* package no */\n//go:build linux && !windows\n\npackage a // really\n"
    text = made("go", "a_test.go", head + '\nimport tt "testing"\n\nfunc TestA(t *tt.T) {}\n')
    assert text.startswith(f'{head}\nimport testing_{TOKEN} "testing"\n\nimport tt "testing"\n')
    assert f"func Test_{TOKEN}_a(t *testing_{TOKEN}.T) {{}}\n" in text


def test_cargo_s_are_functions_or_a_module() -> None:
    assert f"\n#[test]\nfn test_{TOKEN}_a() {{\n" in made("cargo", "tests/a.rs", "#[test]\nfn a() {}\n")
    assert f"\n#[cfg(test)]\nmod mod_{TOKEN} {{\n    #[test]\n" in made("cargo", "src/lib.rs", "pub fn a() {}\n")


def test_line_ends_of_the_file_stay_as_they_are() -> None:
    assert made("pytest", "test_a.py", "x = 1\r\n").startswith("x = 1\r\n\n\ndef test_")


@pytest.mark.parametrize(
    ("runner", "path", "text"),
    [
        ("pytest", "test_a.py", "pytestmark = pytest.mark.skip\n"),
        ("pytest", "test_a.py", "pytest.importorskip('x')\n"),
        ("unittest", "test_a.py", "def load_tests(*a):\n    pass\n"),
        ("node", "a.test.js", 'test.only("x", () => {})'),
        ("jest", "a.test.js", 'fit("x", () => {})'),
        ("vitest", "a.test.js", 'describe.only("x", () => {})'),
        ("mocha", "test/a.js", 'it.only("x", () => {})'),
        ("mocha", "test/a.js", "exports.x = { y() {} };"),
        ("go", "a_test.go", "//go:build integration\n\npackage a\n"),
        ("go", "a_test.go", "func TestA() {}\n"),
        ("cargo", "tests/a.rs", '#![cfg(feature = "x")]\n'),
        ("rspec", "spec/a_spec.rb", ""),
        ("pytest", "test_a.py", "\0"),
        ("pytest", "test_a.py", "\udce9"),
    ],
)
def test_there_are_none_where_they_might_not_run(runner: str, path: str, text: str) -> None:
    assert make(runner, entry(path), text.encode("utf-8", "surrogateescape"), TOKEN) is None


@pytest.mark.parametrize("token", ["", "short", "9begins", "With_Others", "a" * 50])
def test_a_token_that_is_no_name_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        make("pytest", entry("test_a.py"), b"", token)


def test_there_is_a_form_for_each_runner() -> None:
    for runner in RUNNERS:
        assert make(runner, entry("x"), b"package a\ndescribe(\n", TOKEN) is not None


@pytest.mark.parametrize(
    ("outcomes", "failing", "exit_code", "output", "expected"),
    [
        ({"a::test_k_a": "passed", "a::test_k_b": "failed"}, (), 1, "", True),
        ({"a::test_k_a": "passed", "a::test_k_b": "error"}, (), 1, "", True),
        ({"a::test_k_a": "passed", "a::test_k_b": "failed"}, (), 0, "", False),
        ({"a::test_k_a": "passed", "a::test_k_b": "passed"}, (), 1, "test_k_b", False),
        ({"a::test_k_a": "failed", "a::test_k_b": "failed"}, (), 1, "", False),
        ({"a::test_k_b": "failed"}, ("a::test_k_b",), 1, "", False),
        ({"a::test_x": "passed"}, (), 1, "", False),
        ({}, ("a::test_k_b",), 1, "", True),
        ({}, (), 1, "--- FAIL: test_k_b", True),
        ({}, (), 1, "ok", False),
        ({}, ("a::test_k_b",), 0, "", False),
    ],
)
def test_both_have_to_be_told_with_their_outcomes(
    outcomes: dict[str, str], failing: tuple[str, ...], exit_code: int, output: str, expected: bool
) -> None:
    assert seen(CANARY, outcomes=outcomes, failing=failing, exit_code=exit_code, output=output) is expected
