"""Which files are tests, and how a patch is told apart into what it does to the code and to the tests."""

from __future__ import annotations

import pytest

from bot.domain.config import Check
from bot.domain.patch import Change, Mode, Patch
from bot.domain.testfiles import Split, is_test, needed, split
from bot.domain.tree import TreeEntry, blob_id, tree_id

TESTS = [
    *("tests/a.py", "test/a.rb", "pkg/__tests__/a.js", "spec/a_spec.rb", "x/testdata/a.json", "__snapshots__/a.snap"),
    *("test_a.py", "pkg/a_test.py", "a_test.go", "a.test.js", "a.test.mts", "a.spec.tsx", "a.spec.rb", "a_test.rb"),
    *("src/test/java/A.java", "ATest.java", "AKtTest.kt", "ATest.php", "ATests.cs", "TestA.java", "ASpec.scala"),
    *(
        "src/tests.rs",
        "t/a.t",
        "features/a.feature",
        "features/steps/a.rb",
        "tests.py",
        "App.Tests/A.cs",
        "Tests/a.swift",
    ),
    *("test.js", "test-a.js", "a_test.exs", "run.bats", "cypress/e2e/a.cy.ts", "tests/fixtures/package.json"),
]
CODE = [
    *("a.py", "src/a.rs", "latest.py", "contest.py", "src/features/auth.ts", "src/attest.go", "testing.py", "a.go"),
    *("Test.md", "docs/test_plan.md", "src/Latest.java", "protest.js", "spec.py", "tests", "src/greatest.js"),
]


@pytest.mark.parametrize("path", TESTS)
def test_tests_are_known_by_their_folders_and_names(path: str) -> None:
    assert is_test(path)


@pytest.mark.parametrize("path", CODE)
def test_code_is_no_test(path: str) -> None:
    assert not is_test(path)


def test_globs_take_the_place_of_what_is_known() -> None:
    assert is_test("checks/a.py", ["checks/**"])
    assert not is_test("tests/a.py", ["checks/**"])
    assert not is_test("tests/a.py", [])


BASE: dict[str, bytes] = {
    "app.py": b"x = 1\n",
    "conftest.py": b"",
    "package.json": b'{"scripts": {"test": "jest"}}\n',
    "src/lib.rs": (
        b"pub fn f() -> u8 {\n"
        b"    1\n"
        b"}\n"
        b"\n"
        b"#[cfg(test)]\n"
        b"mod tests {\n"
        b"    #[test]\n"
        b"    fn a() {\n"
        b"        assert_eq!(super::f(), 1);\n"
        b"    }\n"
        b"}\n"
    ),
    "src/plain.rs": b"pub fn g() {}\n",
    "tests/data/in.txt": b"1\n",
    "tests/test_a.py": (
        b"def test_a():\n    assert f(1) == 3\n    assert f(2) == 4\n\n\ndef test_b():\n    assert f(3)\n"
    ),
    "tests/test_z.py": b"def test_z():\n    assert f(9)\n",
}
ENTRIES = tuple(TreeEntry(mode="100644", type="blob", sha=blob_id(data), path=path) for path, data in BASE.items())
CHECKS = (Check(name="tests", run="npm test"),)


def put(path: str, text: str | bytes, mode: Mode = "100644") -> Change:
    return Change(path=path, mode=mode, content=text.encode() if isinstance(text, str) else text)


def gone(path: str) -> Change:
    return Change(path=path, mode=None)


def done(*changes: Change, globs: list[str] | None = None, before: dict[str, bytes] | None = None) -> Split:
    result = split(Patch.of(*changes), ENTRIES, BASE if before is None else before, CHECKS, globs)
    tree_id(ENTRIES, result.old_tests)  # which raises where no tree could be made
    tree_id(ENTRIES, result.new_tests or Patch())
    return result


def said(result: Split) -> list[tuple[str, str, bool]]:
    return [(flag.kind, flag.text, flag.grave) for flag in result.flags]


def test_a_patch_of_code_alone_is_left_as_it_is() -> None:
    patch = Patch.of(put("app.py", "x = 2\n"), put("src/plain.rs", "pub fn g() -> u8 {\n    1\n}\n"))
    assert split(patch, ENTRIES, BASE, CHECKS, None) == Split(
        old_tests=patch, new_tests=None, flags=(), tests=(), reverted=()
    )


def test_tests_that_are_changed_are_as_on_base_in_one_half_and_alone_in_the_other() -> None:
    code, test = put("app.py", "x = 2\n"), put("tests/test_a.py", "def test_a():\n    assert f(1)\n")
    result = done(code, test)
    assert result.old_tests == Patch.of(code)
    assert result.new_tests == Patch.of(test)
    assert result.tests == result.reverted == ("tests/test_a.py",)
    assert said(result) == [
        ("test_changed", "`tests/test_a.py`: is changed: 1 test fewer, 2 assertions fewer", False)
    ]


def test_a_new_test_and_its_data_need_no_word() -> None:
    test, data = put("tests/test_new.py", "def test_new():\n    assert f(1) == 3\n"), put("tests/data/new.txt", "1\n")
    result = done(put("app.py", "x = 2\n"), test, data)
    assert result.old_tests == Patch.of(put("app.py", "x = 2\n"))
    assert result.new_tests == Patch.of(test, data)
    assert result.flags == ()


def test_tests_that_are_deleted_come_back() -> None:
    result = done(put("app.py", "x = 2\n"), gone("tests/test_a.py"))
    assert result.old_tests == Patch.of(put("app.py", "x = 2\n"))
    assert result.new_tests is None
    assert said(result) == [("test_removed", "`tests/test_a.py`: is deleted with 2 tests", False)]


def test_tests_that_move_are_where_they_were() -> None:
    moved = put("tests/test_b.py", BASE["tests/test_a.py"])
    result = done(gone("tests/test_a.py"), moved)
    assert (result.old_tests, result.new_tests) == (Patch(), Patch.of(moved))
    assert said(result) == [("test_changed", "`tests/test_a.py`: is renamed to `tests/test_b.py`", False)]
    away = done(gone("tests/test_a.py"), put("old/a.txt", BASE["tests/test_a.py"]))
    assert said(away) == [
        ("test_removed", "`tests/test_a.py`: is moved to `old/a.txt`, where it is no test any more", False)
    ]


def test_what_becomes_of_a_test_is_said_as_far_as_it_is_cheap() -> None:
    old = BASE["tests/test_a.py"].decode()
    skipped = done(put("tests/test_a.py", "@pytest.mark.skip\n" + old))
    assert said(skipped) == [("test_changed", "`tests/test_a.py`: is changed: more that is skipped", False)]
    assert said(done(put("tests/test_a.py", old + "x = 1\n"))) == [
        ("test_changed", "`tests/test_a.py`: is changed", False)
    ]
    assert said(done(put("tests/test_a.py", old, "100755"))) == [
        ("test_changed", "`tests/test_a.py`: only changes its mode", False)
    ]
    assert said(done(gone("tests/test_a.py"), before={})) == [
        ("test_removed", "`tests/test_a.py`: is deleted", False)
    ]


def test_files_that_decide_are_as_on_base_and_in_no_half_alone() -> None:
    code, planted = put("app.py", "x = 2\n"), put("conftest.py", "x\n")
    result = done(code, planted, put("tests/conftest.py", "x\n"), put("sitecustomize.py", "x\n"))
    assert (result.old_tests, result.new_tests) == (Patch.of(code), None)
    assert result.reverted == ("conftest.py", "sitecustomize.py", "tests/conftest.py")
    assert said(result) == [
        ("decider", "`conftest.py`: is changed; it is loaded by pytest before any test", False),
        (
            "decider",
            "`sitecustomize.py`: is new; it is loaded by an interpreter or a runner as soon as that starts",
            True,
        ),
        ("decider", "`tests/conftest.py`: is new; it is loaded by pytest before any test", False),
    ]


def test_a_decider_that_is_deleted_comes_back() -> None:
    result = done(gone("conftest.py"))
    assert result.old_tests == Patch()
    assert said(result) == [("decider", "`conftest.py`: is deleted; it is loaded by pytest before any test", False)]


def test_a_manifest_keeps_the_dependencies_of_the_candidate() -> None:
    after = '{"scripts": {"test": "true"}, "dependencies": {"left": "1"}}\n'
    result = done(put("package.json", after))
    assert result.old_tests == Patch.of(
        put(
            "package.json",
            '{\n  "dependencies": {\n    "left": "1"\n  },\n  "scripts": {\n    "test": "jest"\n  }\n}\n',
        )
    )
    assert result.reverted == ("package.json",)
    link = done(put("package.json", "app.py", "120000"))
    assert link.old_tests == Patch()


def test_a_script_that_a_manifest_of_base_runs_decides() -> None:
    base = {**BASE, "package.json": b'{"scripts": {"test": "node scripts/run.js"}}'}
    result = done(put("scripts/run.js", "process.exit(0)\n"), before=base)
    assert said(result) == [("decider", "`scripts/run.js`: is new; it is run by a check's command", False)]


def test_a_test_that_a_check_names_is_a_test() -> None:
    patch = Patch.of(put("tests/test_a.py", "x\n"))
    named = (Check(name="tests", run="bash tests/test_a.py"),)
    assert [flag.kind for flag in split(patch, ENTRIES, BASE, named, None).flags] == ["test_changed"]


RUST = BASE["src/lib.rs"].decode()


def test_tests_inside_of_rust_are_taken_from_base_with_the_candidate_s_code() -> None:
    fixed, weakened = RUST.replace("    1\n", "    2\n"), RUST.replace("super::f(), 1", "1, 1")
    both = weakened.replace("    1\n", "    2\n")
    result = done(put("src/lib.rs", both))
    assert result.old_tests == Patch.of(put("src/lib.rs", fixed))
    assert result.new_tests == Patch.of(put("src/lib.rs", weakened))
    assert result.tests == result.reverted == ("src/lib.rs",)
    assert said(result) == [("test_changed", "`src/lib.rs`: has other tests inside of it", False)]
    assert done(put("src/lib.rs", fixed)).reverted == ()
    assert done(put("src/lib.rs", weakened)).old_tests == Patch()


def test_tests_that_rust_code_loses_come_back() -> None:
    bare = RUST.partition("\n#[cfg")[0]
    result = done(put("src/lib.rs", bare.replace("    1\n", "    2\n")))
    assert result.old_tests == Patch.of(put("src/lib.rs", RUST.replace("    1\n", "    2\n")))
    assert result.new_tests is None
    assert said(result) == [
        ("test_removed", "`src/lib.rs`: loses the tests in it: 1 test fewer, 1 assertion fewer", False)
    ]
    deleted = done(gone("src/lib.rs"))
    assert deleted.old_tests == Patch.of(gone("src/lib.rs"))
    assert said(deleted) == [("test_removed", "`src/lib.rs`: is deleted with the tests in it", False)]


def test_new_tests_inside_of_rust_need_no_word() -> None:
    tests = RUST.partition("\n\n")[2]
    result = done(put("src/plain.rs", f"pub fn g() {{}}\n\n{tests}"))
    assert result.new_tests == Patch.of(put("src/plain.rs", f"pub fn g() {{}}\n\n{tests}"))
    assert result.flags == ()
    new = done(put("src/new.rs", RUST))
    assert new.new_tests is None
    assert new.flags == ()
    assert b"#[test]" not in new.old_tests.changes[0].content


def test_tests_that_can_not_be_told_from_code_are_grave() -> None:
    for result in (done(put("src/lib.rs", RUST + "}")), done(put("src/lib.rs", RUST + "\n"), before={})):
        assert said(result) == [
            (
                "test_changed",
                "`src/lib.rs`: has tests among its code which are changed and can't be told apart from it",
                True,
            )
        ]


def test_what_is_in_the_way_of_tests_that_come_back_gives_way() -> None:
    file = done(
        gone("tests/data/in.txt"), gone("tests/test_a.py"), gone("tests/test_z.py"), put("tests", "x", "120000")
    )
    assert file.old_tests == Patch()
    assert "tests" in file.reverted
    below = done(gone("tests/test_a.py"), put("tests/test_a.py/x.py", "x\n"), globs=["tests/*.py"])
    assert below.old_tests == Patch()


def test_what_is_wanted_of_base_is_what_changes_and_what_checks_run() -> None:
    patch = Patch.of(put("tests/test_a.py", "x"), put("src/lib.rs", "x"), put("app.py", "x"), put("new.py", "x"))
    assert [entry.path for entry in needed(patch, ENTRIES, CHECKS)] == [
        "package.json",
        "app.py",
        "tests/test_a.py",
        "src/lib.rs",
    ]
