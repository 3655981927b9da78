"""Patches and bases that have moved on."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.merging import COMPARED, File, Merge, conflicts, has_marks, merge
from bot.domain.patch import Change, Mode, Patch

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
    sides = (one(OLD), one(ours), one(new))
    assert [change.content for change in merge(*sides).patch.changes] in ([done.stdout], [])


def one(content: bytes | None, mode: Mode = "100644") -> dict[str, File | None]:
    return {"a": None if content is None else File(mode=mode, content=content)}


def test_our_work_on_theirs_is_a_patch_of_what_they_do_not_have() -> None:
    ours = one(OLD.replace(b"one", b"1"), "100755")
    theirs = one(OLD.replace(b"five", b"5"))
    both = Change(path="a", mode="100755", content=b"1\ntwo\nthree\nfour\n5\n")
    assert merge(one(OLD), ours, theirs) == Merge(patch=Patch.of(both), clashing=())
    assert merge(one(OLD), ours, ours) == Merge(patch=Patch(), clashing=())
    assert merge(one(OLD), one(OLD), theirs) == Merge(patch=Patch(), clashing=())
    assert merge(one(OLD), one(OLD, "100755"), one(OLD + b"six\n")).patch.changes == (
        Change(path="a", mode="100755", content=OLD + b"six\n"),
    )
    assert merge(one(OLD), one(b"new\n"), one(OLD, "100755")).patch.changes == (
        Change(path="a", mode="100755", content=b"new\n"),
    )
    assert merge(one(None), one(b"new\n"), one(None)).patch == put(b"new\n")
    assert merge(one(OLD), one(None), one(OLD)).patch == put(None)


@pytest.mark.parametrize(
    ("old", "ours", "theirs"),
    [
        (one(OLD), one(OLD + b"6\n"), one(OLD + b"six\n")),
        (one(OLD), one(None), one(OLD + b"six\n")),
        (one(OLD), one(OLD + b"6\n"), one(None)),
        (one(b"to", "120000"), one(b"there", "120000"), one(b"here", "120000")),
        (one(OLD), one(b"\0" + OLD), one(OLD + b"six\n")),
        (one(OLD), one(b"x\n" * (COMPARED + 1)), one(OLD + b"six\n")),
    ],
)
def test_what_does_not_go_together_is_left_out_and_named(
    old: dict[str, File | None], ours: dict[str, File | None], theirs: dict[str, File | None]
) -> None:
    assert merge(old, ours, theirs) == Merge(patch=Patch(), clashing=("a",))


def test_marks_hold_both_versions_and_are_found_again() -> None:
    old, ours, theirs = one(b"a\nb\nz"), one(b"a\nours\nz"), one(b"a\ntheirs\nz")
    marked = merge(old, ours, theirs, marked=True)
    assert marked.clashing == ("a",)
    [change] = marked.patch.changes
    assert change.content == b"a\n<<<<<<< pull request\nours\n=======\ntheirs\n>>>>>>> base\nz"
    assert has_marks(change.content)
    assert not has_marks(b"a\n=======\n<<<<<<< x\n")
    at_the_end = merge(one(b"a"), one(b"ours"), one(b"theirs"), marked=True)
    assert at_the_end.patch.changes[0].content == (b"<<<<<<< pull request\nours\n=======\ntheirs\n>>>>>>> base\n")
    gone = merge(one(OLD), one(None), one(OLD + b"six\n"), marked=True)
    assert gone == Merge(patch=Patch(), clashing=("a",))
