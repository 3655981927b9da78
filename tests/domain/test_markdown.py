"""Strangers' text in our comments: it can be read, and does nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.command import parse
from bot.domain.invisible import clean, find
from bot.domain.markdown import Fence, defuse, fence, one_line, step, truncate

B = "\u200b"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Thanks @octocat and @org/team", f"Thanks @{B}octocat and @{B}org/team"),
        ("`@octocat` in code", f"`@{B}octocat` in code"),
        ("_x_@octocat é@octocat", f"_x_@{B}octocat é@{B}octocat"),
        ("&#64;octocat &lt;b&gt; a & b; c", f"&{B}#64;octocat &{B}lt;b&{B}gt; a & b; c"),
        ("@babel/core", f"@{B}babel/core"),
        ("write to user@example.com", "write to user@example.com"),
        ("a @ b", "a @ b"),
        ("<b>x</b> <!-- y --> 1 < 2", f"<{B}b>x<{B}/b> <{B}!-- y --{B}> 1 < 2"),
        ("</details>", f"<{B}/details>"),
        ("![x](https://evil.test/b.png)", f"!{B}[x](https://evil.test/b.png)"),
        ("/lgtm\n  /approve a/b", f"/{B}lgtm\n  /{B}approve a/b"),
        ("Fixes #2175, closes o/other#3", f"F{B}ixes #2175, c{B}loses o/other#3"),
        ("resolved: GH-3", f"r{B}esolved: GH-3"),
        ("fix https://github.test/o/r/issues/3", f"f{B}ix https://github.test/o/r/issues/3"),
        ("Closes [this](https://github.test/o/r/issues/3)", f"C{B}loses [this](https://github.test/o/r/issues/3)"),
        ("close **#3** and see #4", f"c{B}lose **#3** and see #4"),
        ("it fixes the bug", "it fixes the bug"),
        ("a\0b\u202ec\U000e0041d\r\ne", "abcd\ne"),
        (
            "thumbs \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f469\u200d\U0001f4bb",
            "thumbs \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f469\u200d\U0001f4bb",
        ),
        ("```\ncode", "```\ncode\n```"),
        ("~~~~\ncode\n~~~", "~~~~\ncode\n~~~\n~~~~"),
        ("- ```\n  code", "- ```\n  code\n  ```"),
        ("- ```\n  code\n  ```", "- ```\n  code\n  ```"),
        ("- ```\n  code\n```", "- ```\n  code\n```\n```"),
        ("``` no fence ```", "``` no fence ```"),
    ],
)
def test_what_github_would_act_on_is_broken_and_reads_the_same(text: str, safe: str) -> None:
    assert defuse(text) == safe


def test_no_comment_marker_of_ours_can_be_forged() -> None:
    assert "<!-- coder-bot" not in defuse("<!-- coder-bot:task=1 -->")


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "a `b` c",
        "ok\n```\n## Approved\n![x](https://evil.test/b.png)\n````\n~~~",
        "`" * 50,
        "</details> -->",
    ],
)
def test_a_block_can_not_be_ended_from_inside(text: str) -> None:
    first, *inside, last = fence(text, "text").split("\n")
    assert first.removesuffix("text") == last
    assert set(last) == {"`"}
    assert "\n".join(inside) == text
    open_fence = None
    for line in [first, *inside]:
        open_fence, _ = step(open_fence, line)
        assert open_fence == Fence(mark=last, column=0)


def test_a_block_shows_no_terminal_colours() -> None:
    assert fence("\x1b[1;31mred\x1b[0m \x1b]8;;http://evil.test\x07link\r\n\n") == "```\nred link\n```"


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("  Mend\n the\tgap ", 120, "Mend the gap"),
        ("Closes #4 for @bob", 120, f"C{B}loses #4 for @{B}bob"),
        ("Fix #3: It breaks", 120, f"F{B}ix #3: It breaks"),
        ("Fix #3: It closes #4", 120, f"F{B}ix #3: It c{B}loses #4"),
        ("x" * 200, 10, "xxxxxxxxx…"),
        ("\u202e\0", 10, ""),
        ("@" * 100, 10, f"@{B}@{B}@{B}@{B}@…"),
    ],
)
def test_a_title_is_one_harmless_line(text: str, limit: int, line: str) -> None:
    assert one_line(text, limit) == line


def test_a_short_text_is_not_cut() -> None:
    assert truncate("x" * 100, 100, "cut") == "x" * 100


@pytest.mark.parametrize("text", ["x" * 70_000, "\U0001f600" * 70_000, "line\n" * 20_000])
def test_a_long_text_is_cut_and_says_so(text: str) -> None:
    cut = truncate(text, 65_000, "the rest was cut")
    assert len(cut) <= 65_000
    assert cut.endswith("… *the rest was cut*")
    assert len(cut) > 64_000
    assert text.startswith(cut.removesuffix("\n\n… *the rest was cut*"))


def test_what_is_open_at_the_cut_is_closed() -> None:
    text = "<details>\n\n</details>\n<details><summary>x</summary>\n\n````python\n" + "code\n" * 100
    cut = truncate(text, 200, "cut")
    assert cut.endswith("code\n````\n\n</details>\n\n… *cut*")
    assert len(cut) <= 200


def test_a_block_that_can_not_be_closed_within_the_limit_goes_whole() -> None:
    assert truncate("a\n" + "`" * 100 + "\ncode" * 60, 300, "cut") == "a\n\n\n… *cut*"
    many = truncate("x <details>" * 100, 1000, "cut")
    assert many.count("<details>") == many.count("</details>") == 5


def test_what_is_closed_before_the_cut_is_not_closed_again() -> None:
    assert truncate("</details><details></details>" + "x" * 300, 200, "cut").count("</details>") == 2


def test_a_limit_too_small_for_the_note_still_holds() -> None:
    assert len(truncate("x" * 100, 5, "cut")) == 5


PIECES = st.sampled_from(
    [
        *["`", "```", "~~~~", "<details>", "</details>", "<!--", "-->", "&#64;", "@", "!", "[", "x/y", "a"],
        *[
            "\n",
            "- ",
            "1. ",
            "  ",
            "fixes ",
            "#3",
            "/coder fix",
            "\u200b",
            "\ufe0f",
            "\u200d",
            "\U0001f600",
            "\u2764",
        ],
    ]
)
TEXTS = st.text() | st.lists(PIECES, max_size=30).map("".join)


@given(TEXTS)
def test_any_text_becomes_harmless_and_defusing_twice_changes_nothing(text: str) -> None:
    safe = defuse(text)
    assert defuse(safe) == safe
    assert not re.search(r"(?<![A-Za-z0-9])@[A-Za-z0-9]|<[A-Za-z/!?]|!\[|-->|&#?[A-Za-z0-9]{1,32};", safe)
    assert not re.search(r"(?i)\b(?:close[sd]?|fix(?:es|ed)?|resolve[sd]?)\s+#\d", safe)
    safe.encode()
    open_fence = None
    for line in safe.split("\n"):
        open_fence, _ = step(open_fence, line)
    assert open_fence is None


@given(TEXTS)
def test_a_fenced_text_gives_no_command(text: str) -> None:
    assert parse(fence(text)) is None


@given(TEXTS, st.integers(0, 60))
def test_a_cut_text_fits_and_leaves_nothing_open(text: str, limit: int) -> None:
    cut = truncate(text, limit, "cut")
    assert len(cut) <= limit
    assert cut == text or limit <= len("\n\n… *cut*") or cut.endswith("… *cut*")


@given(TEXTS, st.integers(0, 60))
def test_any_title_fits(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@given(TEXTS)
def test_cleaning_leaves_nothing_unseen_but_inside_emoji(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert find(re.sub("[\u200d\ufe0f]", "", cleaned)) is None


def test_the_unseen_is_named() -> None:
    assert find("a\u200bb") == "U+200B"
    assert find("\ud800") == "U+D800"
    assert find("seen\t\n") is None


@pytest.mark.parametrize("piece", ["@", "<details>", "```\n", "fixes ", "- ", "![", "&a", "fixes _", "\x1b]", "`\n"])
def test_a_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """The suite's time-out is what ends work that takes more than linear time."""
    text = piece * (100_000 // len(piece))
    assert len(truncate(defuse(text), 65_000, "cut")) <= 65_000
    assert fence(text)
