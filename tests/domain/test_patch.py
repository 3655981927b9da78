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
