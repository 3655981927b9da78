"""What a line's words are, what makes it none, and that no line is costly to read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from re import _constants as parts  # type: ignore[attr-defined]
from re import _parser as regexes  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest

from bot.domain import words
from bot.domain.commands_policy import Policy
from bot.domain.presets import PRESETS
from bot.domain.words import LENGTH_LIMIT, WORDS_LIMIT, NotWords, leads_out, split


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "  a\tb  ",
        "a 'b c' \"d e\"",
        "a'b'\"c\"d",
        "a ''",
        "a \"\" ''",
        r"a \' \" \\ \a \ ",
        r'a "\" \\ \a"',
        "a ';&|<>(){}[]*?~#!$`'",
        'a ";&|<>(){}[]*?~#"',
        r"a \; \& \| \< \> \( \) \{ \} \[ \] \* \? \~ \# \! \$ \`",
        "a b#c b~c ''#c ''~c HEAD~1",
        "a --b=c d:e f,g %h @i +j ^k",
        "é '日本' \"😀\"",
        "a " + "'" * 100,
    ],
)
def test_quotes_and_backslashes_are_taken_away_as_a_shell_does(line: str) -> None:
    assert split(line) == tuple(shlex.split(line))


@pytest.mark.parametrize("char", ";&|<>$`(){}*?[]~#!")
def test_what_a_shell_acts_on_is_refused_with_what_to_do_instead(char: str) -> None:
    for line in (f"a {char}", f"{char}a", f"a {char}b c", f"'a' {char}", f"a ''''  {char}"):
        found = split(line)
        assert isinstance(found, NotWords)
        assert found.reason == f"a shell would act on `{char}`"
        assert found.hint


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a b=~", "`~`"),
        ("a b=''~", "`~`"),
        ("a ''=~", "`~`"),
        ("a b=~/x:~", "`~`"),
        ("a b:~", "`~`"),
        ("a b:#", "`#`"),
        ("a '$'x", None),
        ('a "$x"', "`$` or a backtick"),
        ('a "`x`"', "`$` or a backtick"),
        (r'a "\$x"', "`$` or a backtick"),
        ('a "x!"', "`!` in double quotes"),
        ("a '", "left open"),
        ("a 'b", "left open"),
        ('a "b\\"', "left open"),
        ("a\\", "left open"),
        ("a\n", "line end"),
        ("'a\nb'", "line end"),
        ("a\r\n", "line end"),
        ("a\0", "U+0000"),
        ("a\x0b", "U+000B"),
        ("a\x7f", "U+007F"),
        ("a\x85", "U+0085"),
        ("a\u00ad", "U+00AD"),
        ("a\u061c", "U+061C"),
        ("a\u115f", "U+115F"),
        ("a\u200d", "U+200D"),
        ("a\u2028", "U+2028"),
        ("a\u2066", "U+2066"),
        ("a\u2800", "U+2800"),
        ("a\ufeff", "U+FEFF"),
        ("'a\U000e0020'", "U+E0020"),
        ("a\U0001d159", "U+1D159"),
        ("a\ue000", "U+E000"),
        ("a\uffff", "U+FFFF"),
        ("a\u0378", "U+0378"),
        ("a\udcff", "U+DCFF"),
        ("a\u2003b", "no plain space"),
        ("'a\u202fb'", "no plain space"),
        ("", "empty"),
        (" \t ", "empty"),
    ],
)
def test_what_is_no_line_of_words_is_told(line: str, said: str | None) -> None:
    found = split(line)
    if said is None:
        assert found == tuple(shlex.split(line))
    else:
        assert isinstance(found, NotWords)
        assert said in found.reason


def test_the_limits_are_the_last_that_is_read() -> None:
    assert split("a" * LENGTH_LIMIT) == ("a" * LENGTH_LIMIT,)
    assert isinstance(split("a" * (LENGTH_LIMIT + 1)), NotWords)
    assert split("a " * WORDS_LIMIT) == ("a",) * WORDS_LIMIT
    assert isinstance(split("a " * WORDS_LIMIT + "''"), NotWords)


INSIDE = """
src/a.py . ./a a..b main..HEAD HEAD^.. @{u}.. HEAD~1 HEAD~2:src/a.py ./... -run=TestA/b --opt=src -Isrc/include ...
/workspace/repo /workspace/repo/a --opt=/workspace/repo/a src/[id]/page.tsx src/(group)/a a.b:12 a,b :!b :(exclude)b
@scope/x -xvs profile: myfile:a
"""
OUTSIDE = r"""
/etc / // ..  ../x a/.. a/../b ./.././x ..\x a\..\b ~ ~root ~/x /workspace /workspace/repo2/a /workspace/repo/../x
--opt=/etc --opt=../x --opt=~/x --opt=a,/etc --opt=a:/etc -I/etc -I../x -I~/x -Ifoo=/etc -xf/etc/passwd -ab/proc/1
a:/etc a:../x HEAD:../x a;/etc :/x :!/etc :!../x :^../x :(top)../x :(top,glob)../x [a]../x @/etc/args @../x
+/etc (/etc (../x <(/etc "/etc '/etc {/etc,a} |/etc
http://evil.test ssh://x git@evil.test:/x file:a FILE:/etc x=file:a @file:a file://localhost/etc
"""


@pytest.mark.parametrize("word", INSIDE.split())
def test_a_word_that_stays_inside_is_left_alone(word: str) -> None:
    assert not leads_out(word)


@pytest.mark.parametrize("word", OUTSIDE.split())
def test_a_word_that_leads_out_is_known_in_every_spelling(word: str) -> None:
    assert leads_out(word)
    assert leads_out(f"-o {word}")
    assert leads_out(f"--name={word}")


SHAPES = [
    *(
        "'",
        '"',
        "\\",
        "''",
        '""',
        "\\\\",
        '"\\',
        "a",
        "a ",
        "-",
        "-q",
        "q",
        "=",
        "a=",
        ":",
        "/",
        "../",
        "a/",
        "~",
        "''~",
    ),
    *(
        "a~",
        "#",
        "@",
        "(",
        "%",
        "%-",
        "% ",
        ".",
        "..",
        ",",
        "[",
        "1p;",
        "/a/,/b/p;",
        "a:",
        ":a",
        "file",
        "é",
        "\u0301",
    ),
]
BEFORE = [
    "",
    "say ",
    "pytest ",
    "pytest -",
    "pytest -k'",
    "git log --format='",
    "git log -L",
    "sed -n '",
    "gradle :",
    "npm run ",
]


def _steps(policy: Policy, line: str) -> int:
    """Lines of our code that deciding takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        policy.decide(line)
    finally:
        sys.settrace(before)
    return count


def test_the_steps_grow_with_a_line_and_not_with_its_square() -> None:
    policy = Policy.of(allow=["say *", "git *"], deny=["say no", "git log -p", "npm run deploy"])
    for start in BEFORE:
        for shape in SHAPES:
            line = start + shape * ((256 - len(start)) // len(shape))
            assert _steps(policy, line) < 60 * 256 + 5_000, (start, shape)


def test_even_the_worst_line_at_the_limit_takes_few_steps() -> None:
    policy = Policy.of(allow=["say *"], deny=["say no"])
    for start in ("say ", "pytest ", "git log --format="):
        for shape in ("''~", '"\\', "a ", "-q", "a=~"):
            line = start + shape * ((LENGTH_LIMIT - len(start)) // len(shape))
            assert _steps(policy, line) < 60 * LENGTH_LIMIT, (start, shape)


def _patterns() -> Iterable[str]:
    for preset in PRESETS:
        for option in (*preset.options.values(), *preset.after.values()):
            if option.allowed:
                yield option.allowed.pattern
        for cell in getattr(preset.rest, "__closure__", None) or ():
            if isinstance(cell.cell_contents, str):
                yield cell.cell_contents
    yield from (value.pattern for value in vars(words).values() if hasattr(value, "pattern"))


def _goes_back(parsed: Any) -> int:
    """How many parts of a pattern may match more or less of a text of any length and be tried again: 1 is linear."""
    most = 0
    for kind, argument in parsed:
        match kind:
            case parts.MAX_REPEAT | parts.MIN_REPEAT:
                _, upper, body = argument
                inner = _goes_back(body)
                most += 2 * inner + 1 if upper is parts.MAXREPEAT else inner
            case parts.POSSESSIVE_REPEAT:
                assert _goes_back(argument[2]) == 0
            case parts.BRANCH:
                most += max(_goes_back(branch) for branch in argument[1])
            case parts.SUBPATTERN:
                most += _goes_back(argument[3])
            case parts.ASSERT | parts.ASSERT_NOT:
                assert _goes_back(argument[1]) <= 1
    return most


def test_no_pattern_of_ours_goes_over_a_text_again_and_again() -> None:
    patterns = sorted(set(_patterns()))
    assert len(patterns) > 30
    for pattern in patterns:
        assert _goes_back(regexes.parse(pattern)) <= 1, pattern


@pytest.mark.parametrize("pattern", ["(?:a+)*", "a*a*", "(?:a|b*)+", "(?:a*)*+", "(?:.*,)+"])
def test_a_pattern_that_does_would_be_found(pattern: str) -> None:
    try:
        assert _goes_back(regexes.parse(pattern)) > 1
    except AssertionError:
        assert "*+" in pattern
