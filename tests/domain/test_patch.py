"""Patches are values: sorted, and each path once."""

from __future__ import annotations

import pytest

from bot.domain.patch import Change, Patch


def test_changes_are_sorted_by_the_bytes_of_their_paths() -> None:
    patch = Patch.of(
        Change(path="é", mode="100644"), Change(path="b", mode="100755", content=b"xy"), Change(path="a", mode=None)
    )
    assert patch.paths == ("a", "b", "é")
    assert patch.size == 2
    assert patch
    assert not Patch.of()


def test_a_path_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="once"):
        Patch.of(Change(path="a", mode=None), Change(path="a", mode="100644"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([Change(path="a/.b", mode="100644", content=b"12"), Change(path="..c", mode=None)], None),
        ([Change(path=name, mode=None) for name in "abc"], "3 files with 0 bytes are more than 2 or 2"),
        ([Change(path="a", mode="100644", content=b"123")], "1 files with 3 bytes are more than 2 or 2"),
        *(
            ([Change(path=path, mode=None)], "no path in a work tree")
            for path in ("../a", "/a", "a//b", "a/.", ".GIT/config", "a\0b", "")
        ),
    ],
)
def test_a_patch_that_is_not_to_be_kept_says_why(changes: list[Change], said: str | None) -> None:
    excess = Patch.of(*changes).excess(max_files=2, max_bytes=2)
    assert (excess is None) == (said is None)
    assert said is None or (excess is not None and said in excess)
