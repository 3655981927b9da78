"""Strangers' text in our comments: it can be read, and does nothing."""

from __future__ import annotations

import html
import re

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.command import parse
from bot.domain.markdown import Fence, defuse, fence, one_line, step, truncate

B = "\u200b"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Thanks @octocat and @org/team", f"Thanks @{B}octocat and @{B}org/team"),
        ("`@octocat` in code", f"`@{B}octocat` in code"),
        ("_x_@octocat é@octocat \\@octocat", f"_x_@{B}octocat é@{B}octocat \\@{B}octocat"),
        ("&#64;octocat &lt;b&gt; a & b; c", f"&#{B}64;octocat &{B}lt;b&{B}gt; a & b; c"),
        ("&commat;octocat &num;3", f"&{B}commat;octocat &{B}num;3"),
        ("\uff20octocat \ufe6boctocat", "\uff20octocat \ufe6boctocat"),  # no mentions to GitHub
        ("@\u200boctocat @\u2060octocat", f"@{B}octocat @{B}octocat"),
        ("@babel/core", f"@{B}babel/core"),
        ("write to user@example.com", f"write to user@{B}example.com"),
        ("a @ b", "a @ b"),
        ("<b>x</b> <!-- y --> 1 < 2", f"<{B}b>x<{B}/b> <{B}!-- y --{B}> 1 < 2"),
        ("</details>\n--!>", f"<{B}/details>\n--{B}!>"),
        ("![x](https://evil.test/b.png)", f"!{B}[x]{B}(https:{B}//evil.test/b.png)"),
        ("![x][y]\n\n[y]: //evil.test/b", f"!{B}[x]{B}[y]\n\n[y]{B}: //evil.test/b"),
        ("[https://good.test](https://evil.test)", f"[https:{B}//good.test]{B}(https:{B}//evil.test)"),
        ("<https://evil.test> www.evil.test", f"<{B}https:{B}//evil.test> www{B}.evil.test"),
        ("[^1]\n\n[^1]: note", f"[^1]\n\n[^1]{B}: note"),
        ("/lgtm\n  /approve a/b", f"/{B}lgtm\n  /{B}approve a/b"),
        ("\u00a0/merge\n.deploy\n!help\nbors r+", f"\u00a0/{B}merge\n.{B}deploy\n!{B}help\nbors{B} r+"),
        ("a/b and / c", "a/b and / c"),
        ("- [x] done\n1. [ ] not\n> - [X] y", f"- [{B}x] done\n1. [{B} ] not\n> - [{B}X] y"),
        ("a[x] = b[0]", "a[x] = b[0]"),
        ("Fixes #2175, closes o/other#3", f"F{B}ixes #{B}2175, c{B}loses o/other#{B}3"),
        ("resolved: GH-3 or gh-4", f"r{B}esolved: GH-{B}3 or gh-{B}4"),
        ("fix https://github.test/o/r/issues/3", f"f{B}ix https:{B}//github.test/o/r/issues/3"),
        ("Closes [this](https://github.test/3)", f"C{B}loses [this]{B}(https:{B}//github.test/3)"),
        ("close **#3** and see #4", f"c{B}lose **#{B}3** and see #{B}4"),
        ("Fixes\n\n  #3", f"F{B}ixes\n\n  #{B}3"),
        ("it fixes the bug", "it fixes the bug"),
        ("a\0b\u202ec\U000e0041d\r\ne", "abcd\ne"),
        ("\x1b[31mred\x1b[0m \x9b1mbold \x1b]8;;http://evil.test\x07link", "red bold link"),
        (
            "thumbs \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f469\u200d\U0001f4bb",
            "thumbs \U0001f44d\U0001f3fd \u2764\ufe0f \U0001f469\u200d\U0001f4bb",
        ),
        ("a [skip ci] b", f"a [{B}skip ci] b"),
        ("x" * 2001, "x" * 2000 + "\nx"),
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
    for forged in ("<!-- coder-bot:task=1 -->", "<!--coder-bot:task=1-->", "<!\u200b-- coder-bot:task=1 -->"):
        assert "<!--" not in defuse(forged)
    assert "<!-- coder-bot" not in fence("<!-- coder-bot:task=1 -->")
    assert fence("<!-- other -->") == "```\n<!-- other -->\n```"


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
        ("Closes #4 for @bob", 120, f"C{B}loses #{B}4 for @{B}bob"),
        ("Fix #3: It breaks", 120, f"F{B}ix #{B}3: It breaks"),
        ("Fix #3: It closes #4", 120, f"F{B}ix #{B}3: It c{B}loses #{B}4"),
        ("o/other#3, GH-4, http://x.test/1", 120, f"o/other#{B}3, GH-{B}4, http:{B}//x.test/1"),
        ("a [skip ci] [ci skip] [no ci]", 120, f"a [{B}skip ci] [{B}ci skip] [{B}no ci]"),
        ("***NO_CI*** skip-checks: true", 120, f"***{B}NO_CI*** skip-checks{B}: true"),
        ("arr[0] skips", 120, "arr[0] skips"),
        ("<img src=//x.test> ![a](//x.test)", 120, f"<{B}img src=//x.test> !{B}[a]{B}(//x.test)"),
        ("```sh", 120, f"{B}```sh"),
        ("~" * 20, 10, f"{B}~~~~~~~~~"),
        ("\x1b[31mred", 120, "red"),
        ("x" * 200, 10, "xxxxxxxxx…"),
        ("\u202e\0", 10, ""),
        ("@a" * 100, 10, f"@{B}a@{B}a@{B}a…"),
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
    assert not re.search(r"@\w|<[A-Za-z/!?]|!\[|-->|&#?[A-Za-z0-9]{1,32};|#\d|://", safe)
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


EXTENSIONS = ["table", "autolink", "strikethrough", "tasklist"]
MARKDOWN = frozenset(
    [
        *["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong"],
        *["del", "hr", "br", "table", "thead", "tbody", "tr", "th", "td"],
    ]
)
"""What Markdown's own formatting makes."""


def rendered(text: str) -> str:
    """As GitHub's own Markdown library has it, everything it can do switched on."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return str(cmarkgfm.markdown_to_html_with_extensions(text, options=options, extensions=EXTENSIONS))


def live(page: str) -> list[str]:
    """What is on a page beside formatted text: links, images, boxes, HTML of any kind, mentions and references."""
    tags = [tag for tag in re.findall(r"<[/!?]?([^\s>/]*)", page) if tag not in MARKDOWN]
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    return tags + re.findall(r"@\w[\w-]*|[\w./-]*#\d+|\bGH-\d+|https?://", text)


ALIVE = [
    "[a](https://evil.test)",
    "![a](https://evil.test/x.png)",
    "![a][b]\n\n[b]: https://evil.test",
    "[b]\n\n[b]: https://evil.test 'x'",
    "<https://evil.test>",
    "https://evil.test www.evil.test",
    "www.evil.test",
    "<img src=x>",
    "<a@evil.test> a@evil.test",
    "@octocat",
    "&#64;octocat",
    "\\@octocat",
    "- [x] done",
    "x[^1]\n\n[^1]: y",
    "o/r#3",
    "GH-3",
    "<!-- x -->",
    "<?x?>",
    "| a |\n|---|\n| ![x](y) |",
]


@pytest.mark.parametrize("text", ALIVE)
def test_what_would_be_alive_on_githubs_page_is_not_once_it_is_defused(text: str) -> None:
    assert live(rendered(text)), "the positive control"
    assert live(rendered(defuse(text))) == []


@given(st.lists(PIECES | st.sampled_from(ALIVE) | st.text(max_size=3), max_size=12).map("".join))
def test_nothing_is_alive_on_the_page_of_any_text_once_it_is_defused(text: str) -> None:
    page = rendered(f"Ours.\n\n{defuse(text)}\n\n- {one_line(text, 120)}\n\nOurs.")
    assert live(page) == []
    assert page.endswith("<p>Ours.</p>\n")


@pytest.mark.parametrize(
    "piece", ["@", "<details>", "```\n", "fixes ", "- ", "![", "&a", "fixes _", "\x1b]", "`\n", "- [", "[skip "]
)
def test_a_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """The suite's time-out is what ends work that takes more than linear time."""
    text = piece * (100_000 // len(piece))
    assert len(truncate(defuse(text), 65_000, "cut")) <= 65_000
    assert fence(text)
