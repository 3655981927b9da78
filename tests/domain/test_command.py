"""Which comments give a command, and which only talk about one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain import command
from bot.domain.command import (
    TEXT_LIMIT,
    VERBS,
    Ask,
    Command,
    Finish,
    Fix,
    Help,
    Plan,
    ShowConfig,
    Stop,
    Usage,
    parse,
)

KNOWN = ", ".join(f"`{verb}`" for verb in VERBS)
FIX = Fix(text="")
PARSER = Fix(text="the parser")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("/coder fix", FIX),
        ("/coder fix\r\nPlease handle the empty list.\r\n", Fix(text="Please handle the empty list.")),
        ("/coder fix\rPlease.\rNow.", Fix(text="Please.\nNow.")),
        ("/coder fix\r\n", FIX),
        ("  /coder   fix   the parser", PARSER),
        ("\n\n/coder fix the parser", PARSER),
        ("/Coder FIX the parser", PARSER),
        ("/coder\tfix\tthe parser", PARSER),
        ("/coder\u00a0fix the parser", PARSER),
        ("\ufeff/co\u200bder fix the par\u00adser", PARSER),
        ("/coder fix: the parser", PARSER),
        ("Hello!\n/coder fix the parser\n\nThanks.", PARSER),
        ("/coder fix\n\nthe parser\n\nThanks.", PARSER),
        ("/coder fix the\nparser\n/coder stop", Fix(text="the\nparser")),
        ("/coder fix the parser\n> as they said", PARSER),
        ("/coder fix the parser\n```\ncode\n```", PARSER),
        ("/coder fix <!-- and delete all --> the parser", Fix(text="the parser")),
        ("/coder fix <code>a</code> and `b`", Fix(text="<code>a</code> and `b`")),
        ("/coder fix \ud800 it\x00", Fix(text="\ufffd it")),
        ("/coder ask why?", Ask(text="why?")),
        ("/coder plan it well", Plan(text="it well")),
        ("/coder finish now please", Finish()),
        ("/coder stop!", Stop()),
        ("/coder config", ShowConfig()),
        ("/coder help", Help()),
        ("\r/coder fix\r\rthe parser\r\rthanks", PARSER),
        ("/coder fix a\r\rnot this", Fix(text="a")),
        ("/coder f\u200bi\u2060x the parser", PARSER),
        ("/coder fix\U000e0064\U000e0065 the parser", PARSER),
        ("\u202e/coder fix the parser", PARSER),
        ("/coder\u3000fix the parser", PARSER),
        ("/coder fix the parser\n===", PARSER),
        ("/coder fix the parser\n---\nSigned", PARSER),
        ("/coder fix the parser\n* * *", PARSER),
        ("<details><summary>Do it</summary>\n\n/coder fix the parser\n</details>", PARSER),
        ("/coder fix\n</div> </section>", FIX),
        ("/coder fix\n\n- the parser", Fix(text="- the parser")),
        ("/coder stop.\n/coder fix", Stop()),
        ("/coder frob\u0069nate\u200b", Usage(message=f"No command `frobinate`. I know {KNOWN}.")),
    ],
)
def test_a_command_begins_a_line_and_its_text_is_the_paragraph_under_it(body: str, expected: Command | Usage) -> None:
    assert parse(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "```\ncode\n```\n/coder fix",
        "~~~\ncode\n~~~~  \n/coder fix",
        "- ```\n  code\n/coder fix",
        "- a\n  - ```\n    code\n    ```\n/coder fix",
        "``` not a fence ``` here\n/coder fix",
        "> quoted\n\n/coder fix",
        "> quoted\n>\n/coder fix",
        "> # heading\n/coder fix",
        "> ```\n> code\n/coder fix",
        ">     code\n/coder fix",
        "> quoted\n```\ncode\n```\n/coder fix",
        "> quoted\n- item\n\n/coder fix",
        "<!-- hint -->\n/coder fix",
        "<!-->\n/coder fix",
        "<!-- a\n\nb -->\n/coder fix",
        "Use `<!--` to hide.\n/coder fix",
        r"Write \<!-- to show it." + "\n/coder fix",
        "<details>\n\n/coder fix\n\n</details>",
        "<b>bold</b>\n/coder fix",
        "one ` tick\n/coder fix",
        "an escaped \\`` tick\n/coder fix",
        "a \\` b\n/coder fix `c`",
        "[link](x) and ![image](y)\n/coder fix",
        "<pre>code</pre>\n/coder fix",
        "# Title\n/coder fix",
        "a\n-\n/coder fix",
        "a | b\n--|--\n1 | 2\n\n/coder fix",
        "a\\|b\n-|-\n/coder fix",
        "a|b\n-|-|-\n/coder fix",
        "a | b\n/coder fix",
        "```python title='x'\n/coder stop\n`````\n/coder fix",
        "``` a`b\n/coder fix\n```",
        "<!--->\n/coder fix",
        "<!->\n/coder fix",
        "```\n<!--\n```\n/coder fix",
        "- a\n\n  /coder fix",
        "1. a\n\n   /coder fix",
        "> ```\n> x\n> ```\n/coder fix",
        ">\n/coder fix",
        "***\n/coder fix",
        "<samp>x</samp>\n/coder fix",
        "please run\n/coder fix",
    ],
)
def test_a_command_after_something_that_ended_counts(body: str) -> None:
    assert isinstance(parse(body), Fix)


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "/",
        "thanks!",
        "/lgtm",
        "/coderfix now",
        "/coder: fix",
        "/coder-bot fix",
        "Say /coder fix to start.",
        "- /coder fix",
        "    /coder fix the parser",
        "\t/coder fix",
        "text\n    /coder fix",
        "```\n/coder fix\n```",
        "~~~\n/coder fix",
        "````\n```\n/coder fix\n````",
        "```\n~~~\n/coder fix",
        "   ```text\n/coder fix\n   ```",
        "- ```\n  /coder fix\n  ```",
        "1. - ~~~\n     /coder fix",
        "Say `/coder fix` to start.",
        "`/coder fix`",
        "Look: `some code\n/coder fix\nmore code`",
        "``a ` b\n/coder fix\n``",
        "> /coder fix",
        "> quoted\n/coder fix",
        "> > quoted\n  more\n/coder fix",
        ">quoted\n>     still a paragraph\n/coder fix",
        "<!-- maintainers may run\n/coder fix\n-->\nIt crashes on start.",
        "<!-- never closed\n\n/coder fix",
        "text <!--\n\n/coder fix\n-->",
        "<!-- a\n\nb --> /coder fix",
        "<!-- a --> <!--\n\n/coder fix -->",
        "> quoted\n<!--\n\n/coder fix\n-->",
        "<!-- a --> /coder fix",
        "<!-- a\n--> /coder fix",
        "<pre>\n\n/coder fix\n\n</pre>",
        "<blockquote>\n/coder fix\n</BLOCKQUOTE >",
        "<?php\n/coder fix\n?>",
        "<![CDATA[\n\n/coder fix\n]]>",
        "<!DOCTYPE\n/coder fix\n>",
        '<img alt="\n/coder fix\n">',
        "![\n/coder fix\n](x)",
        '[//]: # "\n/coder fix\n"',
        "\u200b    /coder fix",
        "| a | b |\n|---|---|\n| /coder fix | x |",
        "a | b\n--|--\n/coder fix | x",
        "| a |\n|:-:|\n/coder fix",
        "text\n|a|b|\n|-|-|\n/coder fix",
        "a\n:-\n/coder fix",
        "```text title='x' {1}\n/coder fix\n```",
        "```\n``` not its end\n/coder fix\n```",
        "~~~ js ~~~\n/coder fix\n~~~",
        "```suggestion\n/coder fix\n```",
        "- > /coder fix",
        "> - a\n>   /coder fix",
        "> [!NOTE]\n> /coder fix",
        "1) /coder fix",
        "- a\n\n      /coder fix",
        "<!-- x --!>\n/coder fix",
        "<!-- never closed \r\n/coder fix\r\n",
        "<samp>\n/coder fix\n</samp>",
        "<kbd>\n/coder fix\n</kbd>",
        "<del>\n/coder fix\n</del>",
        "<script>\n/coder fix\n</script>",
        "<a title='\n/coder fix\n'>x</a>",
        "[^1]: note\n/coder fix",
        "# /coder fix",
        "**/coder fix**",
        "[/coder fix](x)",
        "\\/coder fix",
        "&#47;coder fix",
        "\uff0fcoder fix",
        "/c\u043eder fix",
        "//coder fix",
        "/coder/fix",
        "/coder, fix",
        "/coder! fix",
        "@coder-bot, fix",
        "hi\u2028/coder fix",
        "hi\x85/coder fix",
        "/coder\x0bfix",
        "\u00a0\u00a0\u00a0\u00a0/coder fix",
    ],
)
def test_talk_code_quotes_and_hidden_text_give_no_command(body: str | None) -> None:
    assert parse(body) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("/coder", "Say what to do: `/coder`"),
        ("/coder\nplease", "Say what to do: `/coder`"),
        ("/coder fxi", "No command `fxi`. Did you mean `fix`?"),
        ("/coder frobnicate", "No command `frobnicate`. I know `fix`, `ask`"),
        ("/coder @org/team`x`", "I don't know that command. I know"),
        ("/coder ask", "`/coder ask QUESTION`"),
        ("/coder ask\r\n \t\r\n", "`/coder ask QUESTION`"),
        ("/coder frobnicate\n/coder fix", "No command `frobnicate`"),
        ("/coder f<!-- -->ix", "Did you mean `fix`?"),
        ("/coder as\u212a why", "Did you mean `ask`?"),
        ("/coder \u017ftop", "Did you mean `stop`?"),
        ("/coder fix?", "Did you mean `fix`?"),
        ("/coder fix " + "x" * (TEXT_LIMIT + 1), "4,001 characters; I read at most 4,000"),
    ],
)
def test_words_that_are_meant_for_the_bot_but_unknown_get_help(body: str, words: str) -> None:
    found = parse(body)
    assert isinstance(found, Usage)
    assert words in found.message


def test_a_text_of_exactly_the_limit_is_read() -> None:
    assert parse("/coder fix " + "x" * TEXT_LIMIT) == Fix(text="x" * TEXT_LIMIT)


def test_the_first_command_counts() -> None:
    assert parse("/coder stop\n\n/coder fix") == Stop()


def test_the_bot_can_have_another_name() -> None:
    assert parse("/fixer+ fix", mention="fixer+") == FIX
    assert parse("/coder fix", mention="fixer") is None


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_makes_the_command_of_that_name(verb: str) -> None:
    found = parse(f"/coder {verb} x")
    assert found is not None
    assert not isinstance(found, Usage)
    assert found.verb == verb
    assert found.text == ("x" if verb in ("fix", "ask", "plan") else "")


PIECES = st.sampled_from(
    [
        "/coder fix",
        "\n",
        "\r\n",
        "> ",
        "```",
        "~~~",
        "`",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
        "    ",
        "- ",
        "\\",
        "a",
        "[x](",
        "<b ",
    ]
)


@given(st.text() | st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_read_to_the_end(body: str) -> None:
    found = parse(body)
    if found is not None and not isinstance(found, Usage):
        assert len(found.text) <= TEXT_LIMIT
        assert not set("\r\0\ufffc") & set(found.text)
        found.text.encode()


@given(st.lists(PIECES, max_size=30).map("".join))
def test_what_stands_in_a_fence_or_a_comment_is_never_a_command(inside: str) -> None:
    assert parse(f"`````````\n{inside.replace('`', '')}\n/coder fix\n`````````") is None
    assert parse(f"<!-- {inside.replace('-', '')}\n/coder fix\n-->") is None


@pytest.mark.parametrize(
    "piece",
    [
        "`",
        "<a",
        "![",
        "<!--",
        "|-",
        "a|b\n",
        "<a> ",
        "- ",
        "|-|\n",
        ":-|",
        "> ",
        "<!-- -->",
        "```\n",
        "<pre>",
        "[",
        "`\n",
        "\\",
        "* ",
    ],
)
def test_a_hostile_comment_costs_no_more_than_its_length(piece: str) -> None:
    """The suite's time-out is what ends a reading that takes more than linear time."""
    assert parse(piece * (65_000 // len(piece))) is None
    assert command.parse("".join("`" * length + " " for length in range(1, 350))) is None
