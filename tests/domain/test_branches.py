"""Names for branches beside those that are there."""

from __future__ import annotations

import pytest

from bot.domain import branches


@pytest.mark.parametrize(
    ("stem", "taken", "free"),
    [
        ("coder/issue-1", set(), "coder/issue-1"),
        ("coder/issue-1", {"coder/issue-10", "coder/other", "coder2"}, "coder/issue-1"),
        ("coder/issue-1", {"coder/issue-1"}, "coder/issue-1-2"),
        ("coder/issue-1", {"coder/issue-1", "coder/issue-1-2"}, "coder/issue-1-3"),
        ("coder/issue-1", {"coder/issue-1/extra"}, "coder/issue-1-2"),
        ("coder/issue-1", {"coder"}, None),
        ("coder-issue-1", {"coder"}, "coder-issue-1"),
        ("fix", set(branches.numbered("fix")), None),
    ],
)
def test_the_first_name_that_git_can_make_is_free(stem: str, taken: set[str], free: str | None) -> None:
    assert branches.free(stem, taken) == free


def test_without_folders_there_is_one_stem() -> None:
    assert branches.stems("a/b/c") == ("a/b/c", "a-b-c")
    assert branches.stems("fix") == ("fix",)


def test_the_folders_of_a_name_are_all_above_it() -> None:
    assert list(branches.folders("a/b/c")) == ["a/b", "a"]
    assert list(branches.folders("a")) == []
