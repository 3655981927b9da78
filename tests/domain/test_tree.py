"""Our tree ids are git's, and a patch git could not hold is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.domain.patch import Change, Mode, Patch
from bot.domain.tree import (
    CALL_BYTES,
    CALL_ENTRIES,
    INLINE_LIMIT,
    Entry,
    TreeEntry,
    batches,
    blob_id,
    parse_ls_tree,
    publishable,
    tree_id,
)

Files = Mapping[str, tuple[str, bytes]]
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
COMMIT = "1" * 40


class Git:
    """A bare index over a real object store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run("init", "-q", "--bare")

    def run(self, *args: str, stdin: bytes = b"") -> bytes:
        env = {
            "PATH": os.environ["PATH"],
            "GIT_DIR": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        return subprocess.run(["git", *args], input=stdin, env=env, check=True, capture_output=True).stdout

    def tree(self, files: Files) -> str:
        """The tree git writes for these files; mode 160000 takes its content as the commit."""
        self.run("read-tree", "--empty")
        lines = []
        for path, (mode, content) in files.items():
            gitlink = mode == "160000"
            sha = content if gitlink else self.run("hash-object", "-w", "--stdin", stdin=content).strip()
            lines.append(b"%s %s\t%s\0" % (mode.encode(), sha, os.fsencode(path)))
        self.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
        return self.run("write-tree").decode().strip()

    def listing(self, files: Files) -> tuple[TreeEntry, ...]:
        return parse_ls_tree(self.run("ls-tree", "-r", "-z", self.tree(files)))


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("objects"))


def put(path: str, content: bytes = b"new\n", mode: Mode = "100644") -> Change:
    return Change(path=path, mode=mode, content=content)


def gone(path: str) -> Change:
    return Change(path=path, mode=None)


BASE: Files = {
    "a": ("100644", b"one\n"),
    "a.b": ("100755", b"#!/bin/sh\n"),
    "lib/x/deep.txt": ("100644", b"deep\r\n"),
    "lib-a": ("100644", b""),
    "link": ("120000", b"a"),
    "sub": ("160000", COMMIT.encode()),
    "\udce9t\udce9": ("100644", b"\x00\xff"),
}


def applied(files: Files, patch: Patch) -> Files:
    after = dict(files)
    for change in patch.changes:
        if change.mode is None:
            del after[change.path]
        else:
            after[change.path] = (change.mode, change.content)
    return after


@pytest.mark.parametrize(
    "patch",
    [
        Patch(),
        Patch.of(put("a", b"two\r\n")),
        Patch.of(put("a", b"one\n", "100755"), put("a.b", b"#!/bin/sh\n")),
        Patch.of(put("link", b"lib/x/deep.txt", "120000"), put("other", b"../out", "120000")),
        Patch.of(put("link", b"now a file"), put("a", b"link", "120000")),
        Patch.of(gone("lib/x/deep.txt")),
        Patch.of(gone("lib/x/deep.txt"), put("lib/y/deep.txt", b"deep\r\n")),
        Patch.of(gone("lib/x/deep.txt"), put("lib", b"a file where a folder was")),
        Patch.of(gone("a"), put("a/b/c", b"folders where a file was")),
        Patch.of(put("empty", b""), put("binary", bytes(range(256)))),
        Patch.of(put("lib.c"), put("lib0"), put("lib/a"), put("a-"), put("a/".replace("/", "0"))),
        Patch.of(
            put("with space"), put('q"uote\\'), put("tab\there"), put("line\nbreak"), put("emoji 🙂/ü"), put("-n")
        ),
        Patch.of(put(".github/x.yml"), put(".gitignore"), put("x.git"), put(".git-blame"), put("...")),
    ],
    ids=lambda patch: ",".join(patch.paths)[:40] or "nothing",
)
def test_the_id_is_the_one_git_gives(git: Git, patch: Patch) -> None:
    assert tree_id(git.listing(BASE), patch) == git.tree(applied(BASE, patch))


def test_a_tree_that_loses_everything_is_the_empty_tree(git: Git) -> None:
    only: Files = {"a/b/c": ("100644", b"x")}
    assert tree_id(git.listing(only), Patch.of(gone("a/b/c"))) == EMPTY_TREE
    assert tree_id((), Patch()) == EMPTY_TREE


def test_a_thousand_folders_deep_is_no_trouble() -> None:
    path = "/".join(["d"] * 3000)
    assert len(tree_id((), Patch.of(put(path)))) == 40


names = st.sampled_from(["a", "b", "a.b", "a-b", "a0", "é", "B", "a b"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
states = st.tuples(st.sampled_from(["100644", "100755", "120000"]), st.sampled_from([b"", b"x", b"y\r\n", b"\0\xff"]))


def fits(files: Mapping[str, object]) -> bool:
    return not any(other.startswith(path + "/") for path in files for other in files)


@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    base=st.dictionaries(paths, states, max_size=6).filter(fits),
    changes=st.dictionaries(paths, st.none() | states, max_size=5),
)
def test_any_patch_gives_gits_id_or_is_refused(
    git: Git, base: Files, changes: Mapping[str, tuple[Mode, bytes] | None]
) -> None:
    patch = Patch.of(
        *(gone(path) if state is None else put(path, state[1], state[0]) for path, state in changes.items())
    )
    listing = git.listing(base)
    missing = [path for path, state in changes.items() if state is None and path not in base]
    if missing or not fits(applied(base, patch)):
        with pytest.raises(ValueError, match=r"isn't there|both a file and a folder"):
            tree_id(listing, patch)
    else:
        assert tree_id(listing, patch) == git.tree(applied(base, patch))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "./a",
        ".git",
        "a/.GIT/config",
        ".git./x",
        ".Git /x",
        "git~1",
        "a\0b",
    ],
)
def test_a_path_git_would_not_take_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path git takes"):
        tree_id((), Patch(changes=(put(path),)))


def test_what_cannot_be_applied_is_refused(git: Git) -> None:
    base = git.listing(BASE)
    for change, why in {
        gone("nowhere"): "isn't there",
        gone("lib"): "isn't there",
        put("lib"): "'lib' can't be both",
        put("a/b"): "'a' can't be both",
        put("sub/x"): "'sub' can't be both",
        put("sub"): "is a submodule",
        gone("sub"): "is a submodule",
    }.items():
        with pytest.raises(ValueError, match=why):
            tree_id(base, Patch.of(change))


def test_a_listing_is_read_as_git_writes_it(git: Git) -> None:
    entries = {entry.path: entry for entry in git.listing(BASE)}
    assert set(entries) == set(BASE)
    assert entries["sub"] == TreeEntry(mode="160000", type="commit", sha=COMMIT, path="sub")
    assert entries["a"] == TreeEntry(mode="100644", type="blob", sha=blob_id(b"one\n"), path="a")
    assert parse_ls_tree(b"") == ()


@pytest.mark.parametrize(
    "data",
    [
        b"100644 blob 12\ta",
        b"100644 blob 12\t\0",
        b"100644 blob 12\0",
        b"100644 blob\ta\0",
        b"040000 tree 12\ta\0",
        b"100644 blob 12\ta\0100644 blo",
        b"\xff blob 12\ta\0",
    ],
)
def test_anything_else_is_no_listing(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"listing|ascii"):
        parse_ls_tree(data)


def test_a_blobs_id_is_gits(git: Git) -> None:
    for content in (b"", b"x\r\n", bytes(range(256)) * 99):
        assert blob_id(content) == git.run("hash-object", "--stdin", stdin=content).decode().strip()


def test_text_goes_inline_and_everything_else_as_a_blob() -> None:
    big = b"x" * INLINE_LIMIT
    patch = Patch.of(
        put("big", big),
        put("bigger", big + b"x"),
        put("binary", b"a\0b"),
        put("empty", b""),
        gone("gone"),
        put("latin", b"\xe9"),
        put("link", "ü".encode(), "120000"),
        put("run", b"\r\n", "100755"),
    )
    assert publishable(patch) == (
        Entry(path="big", mode="100644", content=big.decode()),
        Entry(path="bigger", mode="100644", upload=big + b"x"),
        Entry(path="binary", mode="100644", upload=b"a\0b"),
        Entry(path="empty", mode="100644", upload=b""),
        Entry(path="gone", mode=None),
        Entry(path="latin", mode="100644", upload=b"\xe9"),
        Entry(path="link", mode="120000", content="ü"),
        Entry(path="run", mode="100755", content="\r\n"),
    )


def test_content_the_base_has_already_is_named_and_not_sent_again(git: Git) -> None:
    base = git.listing(BASE)
    patch = Patch.of(put("a", b"one\n", "100755"), put("moved", b"deep\r\n"), gone("lib/x/deep.txt"))
    assert publishable(patch, base) == (
        Entry(path="a", mode="100755", sha=blob_id(b"one\n")),
        Entry(path="lib/x/deep.txt", mode=None),
        Entry(path="moved", mode="100644", sha=blob_id(b"deep\r\n")),
    )


def removal(path: str) -> Entry:
    return Entry(path=path, mode=None)


def put_text(path: str, content: str = "x") -> Entry:
    return Entry(path=path, mode="100644", content=content)


@pytest.mark.parametrize(
    ("entries", "calls"),
    [
        ([], []),
        ([removal("a"), put_text("b"), put_text("c/d")], [[removal("a"), put_text("b"), put_text("c/d")]]),
        ([removal("a"), put_text("a/b"), put_text("c")], [[removal("a"), put_text("c")], [put_text("a/b")]]),
        ([put_text("a"), removal("a/b/c"), removal("d")], [[removal("a/b/c"), removal("d")], [put_text("a")]]),
    ],
)
def test_what_makes_room_goes_in_an_earlier_call(entries: list[Entry], calls: list[list[Entry]]) -> None:
    assert [list(call) for call in batches(entries)] == calls


def test_a_call_has_a_bounded_number_of_entries_and_of_bytes() -> None:
    many = [put_text(str(number)) for number in range(CALL_ENTRIES + 1)]
    assert [len(call) for call in batches(many)] == [CALL_ENTRIES, 1]
    large = [put_text(str(number), "é" * (CALL_BYTES // 5)) for number in range(5)]
    assert [len(call) for call in batches(large)] == [2, 2, 1]
    assert [entry for call in batches(large) for entry in call] == large
