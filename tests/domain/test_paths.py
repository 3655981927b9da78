"""Which paths a model may name, and which it may not write, in every spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.errors import UserError
from bot.domain.paths import (
    LIMIT,
    is_named,
    is_protected,
    is_submodules_file,
    is_workflow,
    matches,
    may_hold_protected,
    resolve,
)


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("a.py", "a.py"),
        ("./src//a.py/", "src/a.py"),
        ("/workspace/repo/src/a.py", "src/a.py"),
        ("a..b/...", "a..b/..."),
        ("x~/y z", "x~/y z"),
        ("naïve/日本.py", "naïve/日本.py"),
        (".git/config", ".git/config"),
    ],
)
def test_a_path_inside_is_made_clean(path: str, clean: str) -> None:
    assert resolve(path) == clean


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "empty"),
        ("  ", "empty"),
        (".", "top folder"),
        ("/workspace/repo", "top folder"),
        ("/workspace/repo-secrets/a", "outside"),
        ("/workspace/x", "outside"),
        ("/etc/passwd", "outside"),
        ("//workspace/repo/a", "outside"),
        ("//workspace/repo/../x", "outside"),
        ("/workspace/repo/../x", r"\.\."),
        ("../repo_2/a", r"\.\."),
        ("a/../../x", r"\.\."),
        ("sub/../.git/config", r"\.\."),
        ("~/.ssh/config", "no path inside"),
        ("~root", "no path inside"),
        ("file:///etc/passwd", "no path inside"),
        ("file:a", "no path inside"),
        ("C:/x", "no path inside"),
        ("a\0b", r"U\+0000"),
        ("a\nb", "line end"),
        ("a\tb", "tab"),
        (".g\u200cit/config", r"U\+200C"),
        ("a\u202eb", r"U\+202E"),
        ("a\udcff", r"U\+DCFF"),
        ("..\\x", "written with /"),
        ("x" * (LIMIT + 1), "longer than"),
    ],
)
def test_any_other_path_is_refused_with_the_reason(path: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        resolve(path)


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/hooks/pre-commit",
        "./.git//config",
        ".GIT/config",
        ".Git/config",
        "sub/.git/info/attributes",
        ".g\u200cit/config",
        ".git\ufeff/config",
        ".git./config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/config",
        ".git:x",
        "git~1/config",
        "GIT~1/config",
        "\uff0egit/config",
        ".git\\config",
        "sub\\.git\\config",
        ".github/coder.yml",
        ".github/coder.yaml",
        ".GitHub/CODER.yml",
        "./.github//coder.yml",
        ".github./coder.yml ",
        ".github",
        "GITHUB~1/coder.yml",
        ".github/CODER~1.YAM",
        "gi7eba~1/config",
        ".g\u0131t/config",
        ".git\u2026/config",
        ".gi\uff54hub/coder.yml",
        ".github:x/coder.yml::$DATA",
    ],
)
def test_git_and_the_bots_own_rules_are_protected_in_every_spelling(path: str) -> None:
    assert is_protected(path, ())


@pytest.mark.parametrize(
    "path",
    [
        "git~x/config",
        "gi7eba/x",
        ".gitignore",
        ".github/coder.yml.md",
        "a/.github/coder.yml",
        "git/x",
        "x.git/y",
        ".github/CODEOWNERS",
    ],
)
def test_names_that_only_look_alike_are_not(path: str) -> None:
    assert is_protected(path, ()) is None


def test_a_configured_glob_protects_and_is_named() -> None:
    assert is_protected("migrations/1.sql", ["docs/**", "migrations/**"]) == "`paths.protected` names `migrations/**`"
    assert is_protected("src/a.py", ["migrations/**"]) is None


@pytest.mark.parametrize(
    "path",
    [
        "Migrations/1.sql",
        "./migrations//1.sql",
        "migrations./1.sql",
        "migrations /1.sql",
        "\uff4digrations/1.sql",
        "migrations\\1.sql",
        "migr\u200dations/1.sql",
        "migrations::$INDEX_ALLOCATION/1.sql",
    ],
)
def test_a_configured_glob_protects_in_every_spelling(path: str) -> None:
    assert is_protected(path, ["migrations/**"])
    assert is_named(path, ["other", "MIGRATIONS/**"]) == "MIGRATIONS/**"


@pytest.mark.parametrize(
    ("folder", "holds"),
    [
        ("", True),
        (".github", True),
        (".GitHub.", True),
        (".git", True),
        (".git/hooks", True),
        ("migrations", True),
        ("MIGRATIONS/old", True),
        ("a", True),
        ("a/b", True),
        ("a/b/c", True),
        ("a/x", False),
        ("docs", False),
        ("migrations2", False),
        (".github/workflows", False),
    ],
)
def test_a_folder_that_may_hold_something_protected_is_known(folder: str, holds: bool) -> None:
    assert bool(may_hold_protected(folder, ["migrations/**", "a/b/c/*.sql", "*.lock"])) is holds


def test_the_file_of_submodules_is_known() -> None:
    assert is_submodules_file("./.GITMODULES")
    assert is_submodules_file("GITMOD~1")
    assert not is_submodules_file("docs/.gitmodules")
    assert not is_submodules_file("GITMOX~1")


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("migrations/**", "migrations/a/b.sql", True),
        ("migrations/**", "migrations", False),
        ("migrations/**", "src/migrations/a", False),
        ("migrations", "src/migrations/a", True),
        ("/migrations/", "migrations/a", True),
        ("src/db", "src/db/a/b", True),
        ("src/db", "src/dbx", False),
        ("*.lock", "a/b/yarn.lock", True),
        ("*.lock", "a/yarn.locks", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/*", "src/a/b.py", True),
        ("src/**/test_?.py", "src/test_a.py", True),
        ("src/**/test_?.py", "src/x/y/test_a.py", True),
        ("src/**/test_?.py", "src/x/test_ab.py", False),
        ("**/a/**/b/**/c", "a/x/b/y/z/c", True),
        ("**/a/**/b/**/c", "x/a/b/a/c", True),
        ("**/a/**/b/**/c", "x/b/a/c", False),
        ("a*b*c", "aXbYbZc", True),
        ("a*b*c", "aXcYb", False),
        ("a**c", "a/c", False),
        ("**", "anything/at/all", True),
        ("SRC/A.py", "src/a.PY", True),
        ("a.b[c]", "a.b[c]", True),
        ("a.b[c]", "axb[c]", False),
        ("a.b[c]", "a.bc", False),
    ],
)
def test_globs_match_as_documented(glob: str, path: str, fits: bool) -> None:
    assert matches(path, glob) is fits


def test_a_hostile_glob_costs_no_more_than_its_length() -> None:
    """The suite's time-out is what ends a match that goes back and forth."""
    assert not matches("a" * 1000, "*a" * 200 + "b")
    assert not matches("a/" * 500 + "a", "**/a/" * 100 + "b")


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        (".github/workflows/ci.yml", True),
        ("./.GitHub/Workflows/ci.yml", True),
        (".github\\workflows\\ci.yml", True),
        (".github/workflow.yml", False),
        ("docs/.github/workflows/ci.yml", False),
    ],
)
def test_workflow_files_are_known(path: str, is_one: bool) -> None:
    assert is_workflow(path) is is_one


@given(st.text(st.sampled_from("./\\~:a b\0\u200c-")) | st.text())
def test_a_path_is_clean_or_refused(path: str) -> None:
    try:
        clean = resolve(path)
    except UserError:
        return
    assert resolve(clean) == clean
    assert not {"", ".", ".."} & set(clean.split("/"))
    clean.encode()


@given(st.text(), st.text(st.sampled_from("a*?/.[")))
def test_any_path_and_glob_can_be_compared(path: str, glob: str) -> None:
    assert is_protected(path, [glob]) is None or is_protected(path, [glob])
    assert matches("x", glob) in (True, False)


@given(st.lists(st.text(st.sampled_from("ab"), min_size=1, max_size=3), min_size=1, max_size=4).map("/".join))
def test_a_path_is_matched_by_itself_and_by_its_folders_and_nothing_longer(path: str) -> None:
    assert matches(path, f"/{path}")
    assert matches(path, f"/{path.split('/')[0]}")
    assert not matches(path, f"/{path}/x")
