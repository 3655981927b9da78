"""No secret leaves, in any encoding or shape; everything else stays as it is."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.domain.redaction import MASK, Redactor

# Made up here: a test file holds nothing that a scanner would take for a secret.
SECRET = "Zx9+/q?&=" + "t" * 8 + '"w\\'
LONG = "_".join(
    ["ghs", "123456", "eyJ" + "hbGciOiJSUzI1NiJ9" + "." + "eyJpc3MiOiIxMjM0NTYifQ" + "." + "ab-cd_ef-" * 20]
)
NOTHING = Redactor([])


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        quote(SECRET, safe=""),
        quote(SECRET),
        json.dumps(SECRET)[1:-1],
        *(
            encode((before + SECRET + after).encode()).decode()
            for encode in (base64.b64encode, base64.urlsafe_b64encode)
            for before in ("", "x-access-token:", "a", "ab", "abc")
            for after in ("", "z", "zz")
        ),
    ],
)
def test_a_known_value_goes_in_every_encoding(shown: str) -> None:
    cleaned = Redactor([SECRET]).redact(f"fatal: could not read {shown} here")
    assert MASK in cleaned
    assert cleaned.startswith("fatal: could not read ")
    assert cleaned.endswith(" here")
    # What may stay of an encoding are characters that say less than a byte of the value.
    assert len(cleaned) <= len("fatal: could not read  here") + len(MASK) + len(shown) - len(SECRET)


def test_a_value_read_from_a_file_is_found_without_its_line_end() -> None:
    assert Redactor(["hunter2-secret\n"]).redact("it is hunter2-secret.") == f"it is {MASK}."


def test_a_longer_value_goes_before_a_shorter_one_in_it() -> None:
    assert Redactor(["abcdef", "abcdefghij"]).redact("abcdefghij abcdef") == f"{MASK} {MASK}"


@pytest.mark.parametrize("secret", ["", "a", "short", "   "])
def test_a_value_too_short_to_be_a_secret_is_left(secret: str) -> None:
    assert Redactor([secret]).redact("a short text   with words") == "a short text   with words"


def test_a_key_goes_whole_by_the_line_and_cut_off() -> None:
    body = "\n".join(["Ab1+" * 16, "Cd2/" * 16])
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    assert NOTHING.redact(f"see {key} end") == f"see {MASK} end"
    assert NOTHING.redact(f'{{"key": {json.dumps(key)}}}') == f'{{"key": "{MASK}"}}'
    assert NOTHING.redact(key[:100]) == MASK
    assert NOTHING.redact(f"{key}\n{key}") == f"{MASK}\n{MASK}"
    assert Redactor([key]).redact("line " + "Cd2/" * 16) == f"line {MASK}"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"token {LONG}", f"token {MASK}"),
        (f"It was {LONG}.", f"It was {MASK}."),
        (f'{{"token":"{LONG}"}}', f'{{"token":"{MASK}"}}'),
        (f"https://x-access-token:{LONG}@github.test/o/r", f"https://x-access-token:{MASK}@github.test/o/r"),
        *((f"{kind}_{'a1B2' * 9}", MASK) for kind in ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat")),
        (f"key sk-proj-{'a1-_' * 6}!", f"key {MASK}!"),
        (f"sk-{'a1' * 24}", MASK),
        (f"jwt {LONG[11:]}", f"jwt {MASK}"),
        (f"AKIA{'A1' * 8}", MASK),
        (f"xoxb-{'12-ab' * 3}", MASK),
        (f"e2b_{'0a' * 20}", MASK),
        (f"glpat-{'a' * 20}", MASK),
        (f"npm_{'a' * 36}", MASK),
        (f"AIza{'a' * 35}", MASK),
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: {MASK}"),
        ("http.extraheader=AUTHORIZATION: basic eC1hY2Nlc3M=", f"http.extraheader=AUTHORIZATION: {MASK}"),
        ('{"authorization": "Bearer abc.def"}', f'{{"authorization": "{MASK}"}}'),
        ("x-api-key: abcdefgh", f"x-api-key: {MASK}"),
        (f"sent Bearer {'ab12' * 6}=", f"sent Bearer {MASK}"),
        ("postgresql://bot:p%40ss:w@db/x", f"postgresql://{MASK}@db/x"),
        ("https://token@host/x", f"https://{MASK}@host/x"),
    ],
)
def test_whatever_has_the_shape_of_a_secret_goes_whole(text: str, cleaned: str) -> None:
    assert NOTHING.redact(text) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "ordinary words, a path/to/file.py:12 and user@example.com",
        "ssh://git@example.com/o/r and http://localhost:8080/a@b",
        "risk-based-access-control-in-the-disk-usage-report",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "the authorization is fine",
        "ghs_short",
        "eyJhbGciOiJSUzI1NiJ9 and eyJ",
        MASK,
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert NOTHING.redact(text) == text


PIECES = st.sampled_from(
    [
        *f"{MASK} [ redacted] gh ghs_ {'a' * 20} sk- AKIA {'A' * 16} :// @ : secret-x c2VjcmV0LXg % eyJ . =".split(),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "authorization: ", "Bearer ", "\n", " "),
    ]
)
TEXTS = st.text() | st.lists(PIECES, max_size=20).map("".join)


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_redacting_twice_changes_nothing_and_no_value_is_left(text: str, secrets: list[str]) -> None:
    redactor = Redactor(["secret-x", "[redacted", *secrets])
    once = redactor.redact(text)
    assert redactor.redact(once) == once
    assert "secret-x" not in once


@pytest.mark.parametrize(
    "piece", ["-----BEGIN PRIVATE KEY-----", "://", "ghs_", "eyJ", "a:", "Bearer ", "https://a", "-"]
)
def test_a_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """The suite's time-out is what ends a search that takes more than linear time."""
    assert isinstance(NOTHING.redact(piece * (100_000 // len(piece))), str)
