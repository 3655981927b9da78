"""Patches and bases that have moved on."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.merging import COMPARED, conflicts
from bot.domain.patch import Change, Patch

OLD = b"one\ntwo\nthree\nfour\nfive\n"


def put(content: bytes | None, path: str = "a") -> Patch:
    return Patch.of(Change(path=path, mode=None if content is None else "100644", content=content or b""))


@pytest.mark.parametrize(
    ("ours", "new", "merges"),
    [
        (OLD.replace(b"one", b"1"), OLD.replace(b"five", b"5"), True),
        (OLD.replace(b"one", b"1"), OLD.replace(b"one", b"I"), False),
        (OLD.replace(b"two", b"2"), OLD.replace(b"three", b"3"), False),
        (OLD.replace(b"two", b"2"), OLD.replace(b"four", b"4"), True),
        (OLD + b"six\n", OLD + b"6\n", False),
        (b"zero\n" + OLD, OLD + b"six\n", True),
        (OLD.replace(b"one", b"1"), OLD.replace(b"one", b"1"), True),
        (None, OLD.replace(b"one", b"1"), False),
        (None, None, True),
        (OLD.replace(b"one", b"1"), None, False),
        (OLD.replace(b"one", b"\0"), OLD.replace(b"five", b"5"), False),
        (b"x\n" * (COMPARED + 1), OLD.replace(b"five", b"5"), False),
    ],
)
def test_what_both_sides_changed_merges_where_lines_between_are_the_same(
    ours: bytes | None, new: bytes | None, merges: bool
) -> None:
    assert conflicts(put(ours), {"a": OLD}, {"a": new}) == (() if merges else ("a",))


def test_a_file_that_both_sides_have_made_conflicts_unless_it_is_the_same() -> None:
    assert conflicts(put(b"x"), {"a": None}, {"a": b"y"}) == ("a",)
    assert conflicts(put(b"x"), {"a": None}, {"a": b"x"}) == ()


def test_what_the_base_has_not_touched_never_conflicts() -> None:
    assert conflicts(put(b"x"), {"a": OLD}, {"a": OLD}) == ()
    assert conflicts(put(b"x"), {}, {}) == ()


_EDITS = st.lists(st.sampled_from(["keep", "drop", "change", "add"]), min_size=5, max_size=5)


def _edited(edits: list[str], who: bytes) -> bytes:
    lines = OLD.splitlines(keepends=True)
    done = {"keep": lambda line: line, "drop": lambda line: b"", "change": lambda line: who + line}
    return b"".join(
        line + who + b"\n" if edit == "add" else done[edit](line) for line, edit in zip(lines, edits, strict=True)
    )


@given(_EDITS, _EDITS)
def test_what_is_said_to_merge_does_so_for_git(our_edits: list[str], their_edits: list[str]) -> None:
    ours, new = _edited(our_edits, b"us"), _edited(their_edits, b"them")
    if conflicts(put(ours), {"a": OLD}, {"a": new}):
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("old", OLD), ("ours", ours), ("new", new)):
            Path(folder, name).write_bytes(text)
        done = subprocess.run(["git", "merge-file", "-p", "ours", "old", "new"], cwd=folder, capture_output=True)
    assert done.returncode == 0, (ours, new)
