"""What is published is, byte for byte and mode for mode, what was verified; and how it is presented on GitHub."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.domain import branches
from bot.domain.episode import Code
from bot.domain.errors import GitHubError
from bot.domain.patch import Change, Patch
from bot.domain.task import Stage
from bot.pipeline import ending
from bot.pipeline.publish import NothingChanged, PublishRefused
from tests.stories.publishing import NAME, Bench, Files, bench, change, git

SUBMODULE = b"1" * 40
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12\n"
BASE: Files = {
    ".gitattributes": ("f", b"* text=auto\n*.psd filter=lfs diff=lfs merge=lfs -text\n"),
    "README.md": ("f", b"# Sample\n"),
    "alias": ("l", b"README.md"),
    "other": ("l", b"docs/a.md"),
    "bin/run.sh": ("x", b"#!/bin/sh\n"),
    "bin/build.sh": ("x", b"#!/bin/sh\n"),
    "bin/lib.sh": ("f", b"# lib\n"),
    "crlf.txt": ("f", b"one\r\ntwo\r\n"),
    "docs/a.md": ("f", b"a\n"),
    "docs/deep/b.md": ("f", b"b\n"),
    "latin1.txt": ("f", b"caf\xe9\nsecond\n"),
    "bom.txt": ("f", b"\xef\xbb\xbffirst\nsecond\n"),
    "logo.bin": ("f", bytes(range(256))),
    "art.psd": ("f", POINTER),
    "vendor/lib": ("s", SUBMODULE),
}
TEXT = ("f", b"x\n")
LONG = "n" * 200 + "/" + "m" * 200 + ".txt"
ODD_NAMES = (
    *("a b.txt", " leading", "-rf", '"quoted".txt', "it's.txt", "back\\slash.txt", "tab\there", "#hash", "what?.txt"),
    *(
        "100%2Fsure.txt",
        "caf\u00e9-nfc.txt",
        "cafe\u0301-nfd.txt",
        "\u65e5\u672c\u8a9e/\U0001f600.txt",
        "*",
        ":(top)x",
    ),
    *("con.txt", LONG),
)


def put(files: Files, without: tuple[str, ...] = ()) -> Files:
    """The base with these, and without those."""
    kept = {path: entry for path, entry in BASE.items() if path not in without}
    return {**kept, **files}


CHANGES: dict[str, Files] = {
    "links are added, lead elsewhere and are removed": put(
        {"new": ("l", b"docs/a.md"), "dangling": ("l", b"nowhere"), "alias": ("l", b"docs/a.md")}, ("other",)
    ),
    "a link becomes a file and a file a link": put({"alias": ("f", b"README.md"), "docs/a.md": ("l", b"deep/b.md")}),
    "executable bits are set, taken away and kept": put(
        {
            "bin/lib.sh": ("x", b"# lib\n"),
            "bin/build.sh": ("f", b"#!/bin/sh\n"),
            "bin/run.sh": ("x", b"#!/bin/sh\nexit 0\n"),
            "bin/new.sh": ("x", b"#!/bin/sh\n"),
        }
    ),
    "a file and a whole folder are deleted": put({}, ("README.md", "docs/a.md", "docs/deep/b.md")),
    "files are renamed, one in its case only": put(
        {"docs/c.md": ("f", b"a\n"), "readme.MD": ("f", b"# Sample\n")}, ("docs/a.md", "README.md")
    ),
    "files and links become folders": put(
        {"README.md/index": ("f", b"# Sample\n"), "alias/a": ("f", b"a")}, ("README.md", "alias")
    ),
    "folders become files and links": put(
        {"docs": ("f", b"none\n"), "bin": ("l", b"vendor")},
        ("docs/a.md", "docs/deep/b.md", "bin/run.sh", "bin/build.sh", "bin/lib.sh"),
    ),
    "binary files are changed and added": put(
        {"logo.bin": ("f", bytes(range(255, -1, -1))), "nul.txt": ("f", b"a\0b\n")}
    ),
    "what is no UTF-8 stays so": put(
        {"latin1.txt": ("f", b"caf\xe9\nchanged\n"), "odd.txt": ("f", b"\xff\xfe\xed\xa0\x80")}
    ),
    "a BOM stays": put({"bom.txt": ("f", b"\xef\xbb\xbffirst\nchanged\n")}),
    "CRLF stays under text=auto": put({"crlf.txt": ("f", b"one\r\n2\r\n"), "new.txt": ("f", b"a\r\nb\n")}),
    "a last line has no end": put({"README.md": ("f", b"# Sample"), "new.txt": ("f", b"x")}),
    "files are empty": put({"README.md": ("f", b""), "pkg/__init__.py": ("f", b"")}),
    "names are unusual": put(dict.fromkeys(ODD_NAMES, TEXT)),
    "a submodule is not touched by what is beside it": put({"vendor/other.txt": TEXT}),
    "text is as large as goes inline, and larger": put(
        {
            "large.txt": ("f", b"line of text\n" * 69_000),
            "larger.txt": ("f", "zeil\u00e9\n".encode() * 150_000),
            "blob.bin": ("f", bytes(1_200_000)),
        }
    ),
}


@pytest.mark.parametrize("after", CHANGES.values(), ids=list(CHANGES))
async def test_the_published_tree_is_the_verified_one(after: Files) -> None:
    async with bench(BASE) as b:
        await b.becomes(after)


async def test_odd_names_in_the_base_are_edited_and_removed_and_one_that_is_no_utf8_is_left_alone() -> None:
    base: Files = {
        "-rf": ("f", b"1\n"),
        "a b/#?%2F\\.txt": ("f", b"2\n"),
        "caf\u00e9": ("f", b"3\n"),
        b"caf\xe9.txt": ("f", b"4\n"),
        b"f\xf6lder/in.txt": ("f", b"5\n"),
    }
    async with bench(base) as b:
        await b.becomes({**base, "-rf": ("x", b"1\n"), "a b/#?%2F\\.txt": ("f", b"new\n")})
    async with bench(base) as b:
        await b.becomes({path: entry for path, entry in base.items() if isinstance(path, bytes)})


async def test_a_name_that_is_no_utf8_is_refused_with_the_reason() -> None:
    async with bench(BASE) as b:
        odd = Patch(changes=(Change(path="caf\udce9.txt", mode="100644", content=b"x"),))
        with pytest.raises(PublishRefused, match=r"`caf\\udce9\.txt` has a name that is not UTF-8"):
            await b.publish(odd)
        assert sorted(b.github.branches(NAME)) == ["main"]


async def test_a_thousand_files_and_much_text_go_in_several_calls() -> None:
    many: Files = {f"gen/{number // 100}/{number}.txt": ("f", b"%d\n" % number) for number in range(1_001)}
    async with bench(BASE) as b:
        await b.becomes({**BASE, **many})
        assert calls(b, "git/create-tree") == 2
    much: Files = {f"gen/{number}.txt": ("f", b"%d\n" % number + b"text\n" * 180_000) for number in range(9)}
    async with bench(BASE) as b:
        await b.becomes({**BASE, **much})
        assert calls(b, "git/create-tree") == 2


def calls(b: Bench, operation: str) -> int:
    return sum(call.operation == operation for call in b.github.requests)


async def test_nothing_is_published_where_the_trees_differ() -> None:
    async with bench(BASE) as b:
        patch = change(BASE, put({"README.md": ("f", b"changed\n")}))
        moved = await b.github.commit(NAME, "main", {"more.txt": b"x"}, author="anna")
        b.task = replace(b.task, base_sha=moved)
        with pytest.raises(PublishRefused, match="nothing was published"):
            await b.publish(patch)
        assert sorted(b.github.branches(NAME)) == ["main"]
        assert not b.github.pull_requests(NAME)


async def test_a_change_that_comes_to_nothing_makes_no_branch() -> None:
    async with bench(BASE) as b:
        same = Patch.of(Change(path="README.md", mode="100644", content=b"# Sample\n"))
        with pytest.raises(NothingChanged):
            await b.publish(same)
        assert sorted(b.github.branches(NAME)) == ["main"]


# How it is presented


EDIT = put({"README.md": ("f", b"changed\n")})


async def test_a_branch_name_that_is_taken_is_followed_by_the_next_free_one_and_told() -> None:
    async with bench(BASE) as b:
        for taken in ("coder/issue-1", "coder/issue-1-2/extra"):
            await b.github.commit(NAME, taken, {"theirs.txt": b"x"}, author="anna")
        before = b.github.branches(NAME)
        await b.publish(change(BASE, EDIT))
        [pull] = b.github.pull_requests(NAME)
        assert pull.head_branch == "coder/issue-1-3"
        assert "The branch is `coder/issue-1-3`, because `coder/issue-1` could not be had." in pull.body
        assert before.items() <= b.github.branches(NAME).items()


@pytest.mark.parametrize(
    ("taken", "chosen"), [("coder", "coder-issue-1"), ("coder/issue-1/extra", "coder/issue-1-2")]
)
async def test_a_branch_in_the_way_of_the_name_makes_it_another_one(taken: str, chosen: str) -> None:
    async with bench(BASE) as b:
        await b.github.create_branch(NAME, taken, b.base_sha)
        await b.publish(change(BASE, EDIT))
        [pull] = b.github.pull_requests(NAME)
        assert pull.head_branch == chosen
        assert f"The branch is `{chosen}`, because `coder/issue-1` could not be had." in pull.body
        assert calls(b, "git/create-ref") == 1


async def test_where_all_names_are_taken_it_says_so_and_does_not_try_for_ever() -> None:
    async with bench(BASE) as b:
        for stem in ("coder/issue-1", "coder-issue-1"):
            for name in branches.numbered(stem):
                await b.github.create_branch(NAME, name, b.base_sha)
        with pytest.raises(PublishRefused, match=r"are all taken.*`pull_request\.branch`"):
            await b.publish(change(BASE, EDIT))
        assert calls(b, "git/create-ref") == 0


async def test_what_was_published_before_a_crash_is_found_again() -> None:
    async with bench(BASE) as b:
        await b.github.commit(NAME, "coder/issue-1", {"theirs.txt": b"x"}, author="anna")
        before = b.task
        first = await b.publish(change(BASE, EDIT))
        b.task = before
        assert await b.publish(change(BASE, EDIT)) == first
        assert len(b.github.pull_requests(NAME)) == 1
        b.task = first
        follow = change(BASE, {**EDIT, "more.txt": TEXT})
        second = await b.publish(follow)
        b.task = first
        assert await b.publish(follow) == second
        assert git(b.folder, "rev-list", "--count", f"main..{second.head_sha}") == b"2\n"


async def test_a_protected_branch_is_refused_with_the_reason() -> None:
    async with bench(BASE) as b:
        b.github.protect(NAME, "coder/*")
        with pytest.raises(GitHubError, match="a rule of the repository forbids it") as caught:
            await b.publish(change(BASE, EDIT))
        assert ending.code_of(caught.value, Stage.PUBLISH)[0] is Code.WRITE_REFUSED
        assert sorted(b.github.branches(NAME)) == ["main"]


async def test_an_archived_repository_is_refused_as_closed() -> None:
    async with bench(BASE) as b:
        b.github.archive(NAME)
        with pytest.raises(GitHubError) as caught:
            await b.publish(change(BASE, EDIT))
        assert caught.value.closed == "the repository is archived"


@pytest.mark.parametrize(("base", "link"), [("null", "Fixes"), ("main", "Fixes"), ("next", "Refs")])
async def test_the_issue_is_linked_once_and_closed_only_by_the_default_branch(base: str, link: str) -> None:
    async with bench(BASE, rules=f"pull_request: {{base: {base}}}\n") as b:
        await b.github.create_branch(NAME, "next", b.base_sha)
        b.task = replace(b.task, base_branch="next" if base == "next" else "main")
        await b.publish(change(BASE, EDIT), summary="It fixes #1, and closes #1 too.")
        [pull] = b.github.pull_requests(NAME)
        assert pull.body.startswith(f"{link} #1\n")
        assert pull.body.count("#1") == 1
        await b.github.merge_pull(NAME, pull.number, author="anna")
        assert b.github.issue(NAME, 1).state == ("closed" if link == "Fixes" else "open")


async def test_large_files_of_git_lfs_are_told_about() -> None:
    after = put(
        {"art.psd": ("f", POINTER + b"x"), "new.psd": ("f", b"8BPS plain"), "docs/c.psd": ("l", b"../art.psd")}
    )
    async with bench(BASE) as b:
        await b.becomes(after)
        [pull] = b.github.pull_requests(NAME)
        top, _, _ = pull.body.partition("The sign was wrong.")
        assert "**Mind these:**" in top
        assert "- `art.psd` is a pointer of Git LFS" in top
        assert "- `new.psd` belongs to Git LFS by `.gitattributes`, but is committed here as plain content" in top
        assert "c.psd" not in top


TEMPLATE = b"""## What

<!-- Say what. -->

Fixes #

## Checks

- [x] I ran the tests
- [ ] I read [the guide](https://example.com/guide)

/deploy production
Closes #7, thanks @octo/reviewers
<!-- coder-bot:top -->
"""


@pytest.mark.parametrize(
    "path",
    [
        ".github/PULL_REQUEST_TEMPLATE.md",
        ".github/pull_request_template.md",
        "pull_request_template.md",
        "docs/PULL_REQUEST_TEMPLATE.md",
        ".github/PULL_REQUEST_TEMPLATE/bug.md",
    ],
)
async def test_the_repositorys_template_is_kept_and_does_nothing(path: str) -> None:
    base = put({path: ("f", TEMPLATE)})
    async with bench(base) as b:
        other = b.github.open_issue(NAME, title="another", author="anna")
        assert other.number == 2
        await b.publish(change(base, {**base, "README.md": TEXT}))
        [pull] = b.github.pull_requests(NAME)
        places = [
            pull.body.index(part) for part in ("Fixes #1", "## What", "<!-- Say what. -->", "The sign", "## Checks")
        ]
        assert places == sorted(places)
        assert "- [ ] I ran the tests" in pull.body
        assert "[the guide](https://example.com/guide)" in pull.body
        assert "[x]" not in pull.body
        assert "\n/deploy" not in pull.body
        assert "@octo" not in pull.body
        assert pull.body.count("<!-- coder-bot:top -->") == 1
        assert pull.body.lower().count("closes #") == 0


async def test_what_people_write_around_ours_stays_when_there_is_a_new_result() -> None:
    base = put({"PULL_REQUEST_TEMPLATE.md": ("f", TEMPLATE)})
    async with bench(base) as b:
        await b.publish(change(base, {**base, "README.md": TEXT}))
        [first] = b.github.pull_requests(NAME)
        edited = first.body.replace("- [ ] I ran the tests", "- [x] I ran the tests").replace("\n", "\r\n")
        b.github.issue(NAME, first.number).body = edited
        task = await b.publish(change(base, {**base, "README.md": ("f", b"y\n")}), summary="Another reason.")
        [second] = b.github.pull_requests(NAME)
        assert "- [x] I ran the tests" in second.body
        assert "The sign was wrong." not in second.body
        assert second.body.count("Another reason.") == 1
        assert f"`{str(task.head_sha)[:12]}`" in second.body
        b.github.issue(NAME, first.number).body = "gone"
        await b.publish(change(base, {**base, "README.md": ("f", b"z\n")}))
        [third] = b.github.pull_requests(NAME)
        assert "gone" not in third.body
        assert "The sign was wrong." in third.body
