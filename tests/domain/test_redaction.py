"""No secret leaves, in any encoding or shape; everything else stays as it is."""

from __future__ import annotations

import base64
import html
import json
import random
import shlex
import string
import subprocess
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.redaction import LEARNED, MASK, Redactor
from bot.domain.secret_forms import REACH, forms

# Made up here: a test file holds nothing that a scanner would take for a secret.
CHANCE = random.Random(1)
WORD = "".join(CHANCE.choices(string.ascii_letters + string.digits, k=80))
LOW = WORD.lower()
SECRET = "Zx9+/q?&=<'" + "t" * 8 + '"w\\é'
PLAIN = "k" + WORD[:31]
JWT = ".".join(["eyJ" + "hbGciOiJSUzI1NiJ9", "eyJ" + "pc3MiOiIxMjM0NTYifQ", "ab-cd_ef-" * 20])
LONG = "_".join(["ghs", "123456", JWT])
SHORT = f"ghs_{WORD[:36]}"
BASIC = base64.b64encode(f"x-access-token:{LONG}".encode()).decode()
KEY = "-----{} RSA PRIVATE " + "KEY-----"
NOTHING = Redactor([])


def in_base64(value: str, *, lines: int = 0) -> list[str]:
    """As a part of something larger, at each of the three places; cut into lines of that length."""
    found = []
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in ("", "x", "xy", "x-access-token:"):
            for after in ("", "z", "zz"):
                text = encode((before + value + after).encode()).decode()
                found.append("\n".join(text[at : at + lines] for at in range(0, len(text), lines)) if lines else text)
    return found


def spelt(value: str) -> dict[str, str]:
    escapes = "".join(f"\\u{ord(char):04x}" for char in value)
    return {
        "as it is": value,
        "url": quote(value, safe=""),
        "url, small digits": quote(value, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3F", "%3f"),
        "url with slashes": quote(value),
        "form": quote_plus(value),
        "url in a url": quote(quote(value, safe=""), safe=""),
        "json": json.dumps(value)[1:-1],
        "json, unicode": json.dumps(value, ensure_ascii=False)[1:-1],
        "json, slashes": json.dumps(value)[1:-1].replace("/", "\\/"),
        "json, html-safe": json.dumps(value)[1:-1].replace("&", "\\u0026").replace("<", "\\u003C"),
        "json in json": json.dumps(json.dumps(value))[3:-3],
        "escapes": escapes,
        "hex": value.encode().hex(),
        "HEX": value.encode().hex().upper(),
        "hex, parted": value.encode().hex(" "),
        "hex escapes": "".join(f"\\x{byte:02x}" for byte in value.encode()),
        "shell": shlex.quote(value).removeprefix("'").removesuffix("'"),
        "shell, backslashes": "".join(char if char.isalnum() else f"\\{char}" for char in value),
        "python": repr(value)[1:-1],
        "python, ascii": ascii(value)[1:-1],
        "python, bytes": repr(value.encode())[2:-1],
        "html": html.escape(value),
        "html, numbers": "".join(f"&#{ord(char)};" for char in value),
        "html, hex": "".join(f"&#x{ord(char):X};" for char in value),
        "broken for markdown": value.replace("<", "<\u200b"),
    }


@pytest.mark.parametrize("form", spelt(SECRET))
@pytest.mark.parametrize("secret", [SECRET, PLAIN])
def test_a_known_value_goes_in_every_spelling(secret: str, form: str) -> None:
    shown = spelt(secret)[form]
    assert Redactor([secret]).redact(f"fatal: could not read {shown} here") == f"fatal: could not read {MASK} here"


@pytest.mark.parametrize("lines", [0, 60, 76])
@pytest.mark.parametrize("secret", [SECRET, PLAIN, "v1." + LOW[:40]])
def test_a_known_value_goes_inside_base64(secret: str, lines: int) -> None:
    redactor = Redactor([secret])
    for shown in in_base64(secret, lines=lines):
        for escaped in (shown, json.dumps(shown)[1:-1], shown.replace("/", "\\/"), quote(shown, safe="")):
            cleaned = redactor.redact(f"see {escaped} here")
            # What may stay of an encoding are characters that say less than a byte of the value.
            kept = cleaned.replace(MASK, "").replace("see ", "").replace(" here", "").strip("=\n")
            assert MASK in cleaned
            assert len(kept) <= len("eC1hY2Nlc3MtdG9rZW46") + 8, cleaned


def test_a_value_broken_into_lines_is_found() -> None:
    assert Redactor([PLAIN]).redact(f"a {PLAIN[:20]}\n{PLAIN[20:]} b") == f"a {MASK} b"


def test_a_value_read_from_a_file_is_found_without_its_line_end() -> None:
    assert Redactor(["hunter2-secret\n"]).redact("it is hunter2-secret.") == f"it is {MASK}."


def test_a_longer_value_goes_before_a_shorter_one_in_it() -> None:
    assert Redactor(["abcdef", "abcdefghij"]).redact("abcdefghij abcdef") == f"{MASK} {MASK}"


def test_no_mask_is_part_of_a_secret() -> None:
    assert NOTHING.redact(f"redis://u:p{MASK}{SHORT}@h") == f"redis://u:p{MASK}{MASK}@h"
    assert Redactor(["redacted", f"{MASK} and more"]).redact(f"{MASK} and more") == f"{MASK} and more"


def test_values_that_overlap_go_as_one() -> None:
    assert Redactor(["abcdefgh", "efghijkl"]).redact("xabcdefghijklx") == f"x{MASK}x"


def test_a_value_that_begins_in_a_token_goes_to_its_end() -> None:
    secret = WORD[30:36] + "!and more"
    assert Redactor([secret]).redact(f"{SHORT}!and more.") == f"{MASK}."
    assert Redactor(["abcdefgh"]).redact("abcdefg abcdefgi") == "abcdefg abcdefgi"


def test_a_token_that_goes_on_behind_a_known_value_goes_whole() -> None:
    assert Redactor([SHORT[:20]]).redact(f"it is {SHORT}") == f"it is {MASK}"


@pytest.mark.parametrize("secret", ["", "a", "short", "   "])
def test_a_value_too_short_to_be_a_secret_is_left(secret: str) -> None:
    assert Redactor([secret]).redact("a short text   with words") == "a short text   with words"


def test_a_credential_is_known_without_its_scheme_and_decoded() -> None:
    redactor = Redactor([f"Basic {base64.b64encode(b'robot:quiet-rain').decode()}", f"Bearer {LOW[:20]}", "Basic ?"])
    assert redactor.redact(f"sent {LOW[:20]}; password quiet-rain") == f"sent {MASK}; password {MASK}"


def test_values_that_come_later_are_known_until_many_others_have_come() -> None:
    redactor = Redactor()
    assert redactor.redact("v1.first-one") == "v1.first-one"
    redactor.learn("v1.first-one")
    redactor.learn("v1.first-one")
    redactor.keep(["for-ever"])
    assert redactor.redact("v1.first-one for-ever") == f"{MASK} {MASK}"
    for number in range(LEARNED):
        redactor.learn(f"v1.other-{number:03}")
    assert redactor.redact("v1.first-one v1.other-000 for-ever") == f"v1.first-one {MASK} {MASK}"


def test_a_key_goes_whole_by_the_line_and_cut_off() -> None:
    body = "\n".join([WORD[:64], WORD[16:80]])
    key = f"{KEY.format('BEGIN')}\n{body}\n{KEY.format('END')}"
    assert NOTHING.redact(f"see {key} end") == f"see {MASK} end"
    assert NOTHING.redact(f'{{"key": {json.dumps(key)}}}') == f'{{"key": "{MASK}"}}'
    assert NOTHING.redact(key[:60]) == MASK
    assert NOTHING.redact(f"{key}\n{key}") == f"{MASK}\n{MASK}"
    assert NOTHING.redact(f"see {KEY.format('BEGIN')}.") == f"see {KEY.format('BEGIN')}."
    for secret in (key, key.replace("\n", "\\n")):
        assert Redactor([secret]).redact("line " + WORD[16:80]) == f"line {MASK}"
        encoded = base64.b64encode(key.encode()).decode()
        assert len(Redactor([secret]).redact(encoded)) <= len(MASK) + 2


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"token {LONG}", f"token {MASK}"),
        (f"It was {LONG}.", f"It was {MASK}."),
        (f'{{"token":"{LONG}"}}', f'{{"token":"{MASK}"}}'),
        (f"https://x-access-token:{LONG}@github.test/o/r", f"https://{MASK}@github.test/o/r"),
        *((f"{kind}_{WORD[:36]}", MASK) for kind in ("ghp", "gho", "ghu", "ghs", "ghr", "github_pat")),
        (f"header {BASIC} sent", f"header {MASK} sent"),
        (f"header {BASIC[:76]}\n{BASIC[76:]}\nfatal: no", f"header {MASK}\nfatal: no"),
        (f"header {BASIC}\nfatal: no", f"header {MASK}\nfatal: no"),
        *((base64.b64encode(f"{kind}_{WORD[:36]}".encode()).decode(), MASK) for kind in ("ghp", "github_pat")),
        (f"x {base64.b64encode(f'a:{LONG}'.encode()).decode()} y", f"x YT{MASK} y"),
        (f"x {base64.b64encode(f'a{SHORT}'.encode()).decode()} y", f"x Y{MASK} y"),
        (f"hex {SHORT.encode().hex()}!", f"hex {MASK}!"),
        (f"key sk-proj-{'a1-_' * 6}!", f"key {MASK}!"),
        (f"sk-{WORD[:48]}", MASK),
        (f"jwt {JWT}", f"jwt {MASK}"),
        (f"AKIA{WORD[:16].upper()}", MASK),
        (f"xoxb-{'12-ab' * 3}", MASK),
        (f"e2b_{'0a' * 20}", MASK),
        (f"glpat-{'a' * 20}.", f"{MASK}."),
        (f"npm_{'a' * 36}", MASK),
        (f"AIza{'a' * 35}", MASK),
        (f"sk_live_{WORD[:24]}", MASK),
        (f"SG.{WORD[:22]}.{WORD[:43]}", MASK),
        (f"https://hooks.slack.com/services/T{WORD[:8]}/B1/{WORD[:24]}", f"https://hooks.slack.com/services/{MASK}"),
        ("Authorization: Basic dXNlcjpwYXNz", f"Authorization: {MASK}"),
        ("http.extraheader=AUTHORIZATION: basic eC1hY2Nlc3M=", f"http.extraheader=AUTHORIZATION: {MASK}"),
        ('{"authorization": "Bearer abc.def"}', f'{{"authorization": "{MASK}"}}'),
        (f"authorization: {LOW[:20]}", f"authorization: {MASK}"),
        ("x-api-key: abcdefgh", f"x-api-key: {MASK}"),
        (f"sent Bearer {'ab12' * 6}=", f"sent Bearer {MASK}"),
        ("postgresql://bot:p%40ss:w@db/x", f"postgresql://{MASK}@db/x"),
        ("redis://:a/b#c@db/0", f"redis://{MASK}@db/0"),
        ("http:\\/\\/me:it@host\\/x", f"http:\\/\\/{MASK}@host\\/x"),
        ("https://token@host/x", f"https://{MASK}@host/x"),
        ("machine h login me password it-is", f"machine h login me password {MASK}"),
        ('{"auths":{"h":{"auth":"dXNlcjpwYXNz"}}}', f'{{"auths":{{"h":{{"auth":"{MASK}"}}}}}}'),
        ("//r.test/:_authToken=abcdef", f"//r.test/:_authToken={MASK}"),
        ("password=Tr0ub4dor&3!", f"password={MASK}&3!"),
        ('DB_PASSWORD: "Tr0ub4dor&3!"', f'DB_PASSWORD: "{MASK}"'),
        (f"aws_secret_access_key = {WORD[:40]}", f"aws_secret_access_key = {MASK}"),
        (f"AccountKey={WORD[:64]}==;End", f"AccountKey={MASK};End"),
        (f"https://h/x?sig={WORD[:20]}&y", f"https://h/x?sig={MASK}&y"),
        (f"run --token {LOW[:20]} now", f"run --token {MASK} now"),
        (f"Set-Cookie: sid={LOW[:20]}; Path=/", f"Set-Cookie: sid={MASK}; Path=/"),
        (f"token={WORD[:16]}&password={WORD[:20]}", f"token={MASK}&password={MASK}"),
        (f"token=a.b/ghp_{WORD[:36]}", f"token={MASK}"),
        (f'password="x9!y8!z7,{"word" * 12}"', f'password="{MASK},{"word" * 12}"'),
        ("api_key=JBSWY3DPEHPK3PXP", f"api_key={MASK}"),
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
        "id 123e4567-e89b-12d3-a456-426614174000",
        '"integrity": "sha512-' + base64.b64encode(bytes(range(64))).decode() + '"',
        "image sha256:" + "0123456789abcdef" * 4,
        "the authorization is fine",
        "authorization: required",
        "Authorization: string;",
        'authorization = request.headers.get("Authorization")',
        'headers={"X-API-KEY": self.server.api_key}',
        "basic internationalization-support and bearer authentication",
        "token = get_token()",
        "token: nextToken2",
        "password: str = settings.database_password",
        'password = os.environ["DATABASE_PASSWORD_2"]',
        "PASSWORD=${DATABASE_PASSWORD}",
        'f"sk-{secrets.token_hex(24)}"',
        "private_key: ed25519.Ed25519PrivateKey",
        "max_tokens=16000, token: 1700000000",
        "secret: projects/12345/secrets/foo-2",
        "--token FILE --password-stdin",
        "docker run -u www-data:www-data",
        "machine learning, and a login to a password",
        "cookie: chocolate=delicious",
        "ghs_short",
        "eyJhbGciOiJSUzI1NiJ9 and eyJ",
        MASK,
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert NOTHING.redact(text) == text


def test_this_repository_stays_as_it_is() -> None:
    """What an agent would be shown of it, tests and what is named below left out."""
    root = Path(__file__).parents[2]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "bot", "docs", "migrations", "scripts"], cwd=root, check=True, capture_output=True
    )
    masks = {}
    for name in listed.stdout.decode().split("\0")[:-1]:
        path = root / name
        if path.is_file():
            text = path.read_text("utf-8", "surrogateescape")
            if masked := NOTHING.redact(text).count(MASK) - text.count(MASK):
                masks[name] = masked
    assert sum(masks.values()) <= 5, masks


def test_a_document_is_cleaned_in_all_its_texts() -> None:
    dirty = {"a": [SHORT, 1, None, True, 1.5], SHORT: {"b": (SHORT,)}, "c": ValueError(SHORT), "d": {SHORT}}
    clean = {"a": [MASK, 1, None, True, 1.5], MASK: {"b": [MASK]}, "c": f"ValueError('{MASK}')", "d": [MASK]}
    assert NOTHING.clean(dirty) == clean


PIECES = st.sampled_from(
    [
        *f"{MASK} [ redacted] gh ghs_ {'a' * 20} sk- AKIA {'A' * 16} :// @ : secret-x c2VjcmV0LXg % eyJ . =".split(),
        "\\",
        *(
            KEY.format("BEGIN"),
            KEY.format("END"),
            "authorization: ",
            "Bearer ",
            "\n",
            " ",
            "password=",
            LOW,
            "\ud800",
        ),
        *("https", "redis", "machine ", "login ", "password ", '"', "'", "--token ", "Cookie: a="),
    ]
)
TEXTS = st.text() | st.lists(PIECES, max_size=20).map("".join)
FEW = Redactor(["secret-x", "[redacted", "redacted]", "\u00e9\U0001f600\ud800abc", "\\\\\\\\\\\\"])


@given(TEXTS)
def test_redacting_twice_changes_nothing_and_no_value_is_left(text: str) -> None:
    once = FEW.redact(text)
    assert FEW.redact(once) == once
    assert "secret-x" not in once


@settings(max_examples=30)
@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=2))
def test_no_value_is_too_strange_to_be_known(texts: list[str], secrets: list[str]) -> None:
    redactor = Redactor(secrets)
    for text in texts:
        once = redactor.redact(text)
        assert redactor.redact(once) == once


@given(st.text(min_size=6, max_size=40), st.sampled_from(sorted(spelt(SECRET))))
def test_every_beginning_is_short_enough_to_be_found(secret: str, form: str) -> None:
    assert all(len(max(unit, key=len)) <= REACH // 20 for each in forms(secret) for unit in each.units[:7])


@pytest.mark.parametrize(
    "piece",
    [
        *(
            KEY.format("BEGIN"),
            KEY.format("BEGIN") + "A" * 16,
            "://",
            "ghs_",
            "eyJ",
            "eyJ" + "a" * 9,
            "a:",
            "Bearer ",
        ),
        *("-", "https://a", "://a:", "redis://", "password=", "password=a1", 'token="', "machine ", "Cookie: a="),
        *("--token ", "secret-x", "c2VjcmV0LXg", "[redacted", "\\u0073", "%73", "AKIA" + "A" * 16, "Z2hzX", MASK),
    ],
)
def test_a_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    """The suite's time-out is what ends a search that takes more than linear time."""
    assert isinstance(FEW.redact(piece * (50_000 // len(piece))), str)
