"""Patches are values: sorted, and each path once."""

from __future__ import annotations

import pytest

from bot.domain.patch import COMPARED, Change, Mode, Patch, unified


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


def diff(content: bytes, before: bytes | None, mode: Mode | None = "100644") -> list[str]:
    return list(unified(Change(path="a.py", mode=mode, content=content), before))


def test_a_change_is_shown_as_a_diff() -> None:
    assert diff(b"1\n2\nthree\n4\n", b"1\n2\n3\n4\n") == [
        "--- a/a.py",
        "+++ b/a.py",
        "@@ -1,5 +1,5 @@",
        " 1",
        " 2",
        "-3",
        "+three",
        " 4",
        " ",
    ]


def test_a_new_and_a_removed_file_are_shown_whole() -> None:
    assert diff(b"x", None) == ["--- /dev/null", "+++ b/a.py", "@@ -0,0 +1 @@", "+x"]
    assert diff(b"", b"x", None) == ["--- a/a.py", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"]


def test_what_else_a_change_does_is_said() -> None:
    assert diff(b"same", b"same", "100755")[2:] == ["(executable)"]
    assert diff(b"/etc", None, "120000")[2:] == [
        "(a symbolic link; its content is its target)",
        "@@ -0,0 +1 @@",
        "+/etc",
    ]
    assert diff(b"\0" * 5, b"text")[2:] == ["(binary: 4 bytes before, 5 bytes after)"]


def test_what_nobody_would_see_is_spelled_out() -> None:
    assert diff("a\u202eb\u200b".encode(), None)[-1] == "+a\\u202eb\\u200b"
    assert diff(b"one\r\ntwo\r\n", b"one\r\n2\r\n")[3:6] == [" one", "-2", "+two"]
    assert "+one\\r" in diff(b"one\r\n", b"one\n")


def test_long_files_are_shown_from_where_they_differ() -> None:
    old = [str(number) for number in range(COMPARED)]
    new = [*old[:100], "x", *old[101:]]
    assert diff("\n".join(new).encode(), "\n".join(old).encode())[2:] == ["@@ from line 101 @@", "-100", "+x"]
    assert diff("\n".join(old).encode(), "\n".join(old[:-1]).encode())[2:] == [
        f"@@ from line {COMPARED} @@",
        f"+{COMPARED - 1}",
    ]
