"""A repository's template for pull requests as it stands in our text."""

from __future__ import annotations

import pytest

from bot.domain import pull_template


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([], None),
        (["README.md", "src/pull_request_template.md", "pull_request_template.py"], None),
        (["pull_request_template.md"], "pull_request_template.md"),
        (["PULL_REQUEST_TEMPLATE.TXT"], "PULL_REQUEST_TEMPLATE.TXT"),
        (["docs/Pull_Request_Template.md", "x"], "docs/Pull_Request_Template.md"),
        (["docs/pull_request_template.md", "pull_request_template.md"], "pull_request_template.md"),
        (["pull_request_template.md", ".github/pull_request_template.md"], ".github/pull_request_template.md"),
        (
            [".github/PULL_REQUEST_TEMPLATE/b.md", ".github/PULL_REQUEST_TEMPLATE/a.md"],
            ".github/PULL_REQUEST_TEMPLATE/a.md",
        ),
        (
            [".github/PULL_REQUEST_TEMPLATE/a.md", ".github/pull_request_template.md"],
            ".github/pull_request_template.md",
        ),
    ],
)
def test_it_is_found_where_github_looks(paths: list[str], found: str | None) -> None:
    assert pull_template.find(paths) == found


@pytest.mark.parametrize(
    ("template", "before", "after"),
    [
        ("", "", ""),
        ("Say why.\n", "", "Say why."),
        ("# Why\n\ntext\n", "# Why", "text"),
        (
            "intro\n\n## Why\n<!-- one -->\n\n<!-- two\nlines -->\ntext",
            "intro\n\n## Why\n<!-- one -->\n\n<!-- two\nlines -->",
            "text",
        ),
        ("<!--\n# no heading\n-->\n# Why\n\ntext", "<!--\n# no heading\n-->\n# Why", "text"),
        ("<!-- a -->\n# Why\nb", "<!-- a -->\n# Why", "b"),
        ("```\n# code\n```\n## Why\r\ntext", "```\n# code\n```\n## Why", "text"),
        ("#hashtag\ntext", "", "#hashtag\ntext"),
        ("# Why\n<!-- no end", "# Why\n<!-- no end\n-->", ""),
    ],
)
def test_our_text_goes_behind_its_first_heading(template: str, before: str, after: str) -> None:
    assert pull_template.split(template) == (before, after)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Fixes #12", "F\u200bixes #\u200b12"),
        ("closes octo/r#3", "c\u200bloses octo/r#\u200b3"),
        ("Resolved: GH-4", "R\u200besolved: GH-\u200b4"),
        ("@octo/team", "@\u200bocto/team"),
        ("see https://github.com/o/r/pull/9", "see https://github.com/o/r/pull/\u200b9"),
        ("  /deploy now", "  /\u200bdeploy now"),
        ("- [x] done\n1. [X] too", "- [ ] done\n1. [ ] too"),
        ("<!-- coder-bot:end -->", "<!-- \u200b coder-bot:end -->"),
        ("[guide](https://example.com) ![logo](logo.png)", "[guide](https://example.com) ![logo](logo.png)"),
        ("| a | b |", "| a | b |"),
    ],
)
def test_what_it_says_does_nothing(written: str, shown: str) -> None:
    assert pull_template.split(f"{written}\n") == ("", shown.strip("\n"))


def test_a_very_long_one_is_cut() -> None:
    before, after = pull_template.split("# Why\n" + "text\n" * 10_000)
    assert before == "# Why"
    assert len(after) < pull_template.LIMIT
    assert after.endswith("… *the rest was cut*")
