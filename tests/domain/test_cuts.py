"""A cut never leaves half a word."""

from __future__ import annotations

import pytest

from bot.domain.cuts import LONGEST, beginning, ending
from bot.domain.redaction import MASK, Redactor
from bot.sandbox.guest.output import Output

WORDS = "one two three four five"


@pytest.mark.parametrize(
    ("limit", "first", "last"),
    [
        (23, WORDS, WORDS),
        (22, "one two three four ", " two three four five"),
        (18, "one two three four", " three four five"),
        (15, "one two three ", "three four five"),
        (5, "one ", " five"),
        (0, "", ""),
    ],
)
def test_a_word_that_would_be_cut_in_two_is_left_out(limit: int, first: str, last: str) -> None:
    assert beginning(WORDS, limit) == first
    assert ending(WORDS, limit) == last


def test_a_word_that_is_longer_than_any_secret_is_cut() -> None:
    assert beginning("x" * 10_000, 5000) == ending("x" * 10_000, 5000) == "x" * (5000 - LONGEST)
    assert beginning("語" * 100, 50) == ending("語" * 100, 50) == "語" * 50


def test_nothing_is_left_of_a_token_that_a_cut_goes_through() -> None:
    token = "_".join(["ghs", "123456", "aB3-" * 125])
    redactor = Redactor([token])
    for at in range(1990 - len(token), 2010):
        text = f"{'word ' * (at // 5)}{token} {'word ' * 1000}"
        for kept in (beginning(text, 2000), ending(text[: at + len(token) + 700], 700)):
            assert "aB3-" not in redactor.redact(kept).replace(MASK, "")


def test_nothing_is_left_of_a_token_that_the_keeper_of_a_command_s_output_cuts() -> None:
    token = "_".join(["ghs", "123456", "aB3-" * 125])
    for before in range(7_400, 8_200, 7):
        for after in (before, before + 3):
            output = Output(head=8192, tail=8192)
            text = f"{'w' * (before - 1)} {token} {'middle ' * 3000}{token} {'w' * (after - 1)}"
            for at in range(0, len(text), 1000):
                output.add(text[at : at + 1000].encode())
            kept = output.bytes().decode()
            assert "bytes left out" in kept
            assert "aB3-" not in Redactor().redact(kept).replace(MASK, "")
    output = Output(head=8192, tail=8192)
    output.add(b"x" * 20_000)
    assert len(output.bytes()) > 12_000
