r"""What a secret looks like to somebody who does not know it: tokens, keys, headers, addresses, assignments.

Each shape is a short beginning, which one quick pass over a text looks for, and the rest, which is read only behind
such a beginning. Its group is the secret; what stands before the group stays.

**An assignment** (`password=…`, `"api_key": "…"`, `--token …`) is one only where the value looks random: eight
characters or more, of three of the kinds small, capital, digit and sign, or letters and digits; and, once every word
(three letters or more of one case, a capital in front allowed) is taken out, more than a third of it left, or two
numbers inside words. So `token = get_token()`, `password: string`, `secret: projects/1/a`, `max_tokens=16000` stay,
and so does a passphrase of plain words: only as an exact value is that one known. Where a header or a file of
credentials says what the value is (`Authorization: Bearer …`, netrc, `"auth": "…"`), no such doubt is had.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# Signs between letters are no noise: a path or a name with hyphens is made of them.
_WORDS = re.compile(
    rb"(?i:ed25519|ed448|x25519|x509|sha-?[0-9]{1,3}|md5|base64|utf-?8|oauth2|aes-?[0-9]{3})"
    rb"|[A-Z]?[a-z]{3,}|[A-Z]{3,}|(?<=[A-Za-z])[._/-]+(?=[A-Za-z])"
)
_NAME = re.compile(rb"[A-Za-z_]+(?:[._][A-Za-z_]+)+")
_INNER_NUMBER = re.compile(rb"(?<=[A-Za-z])[0-9]+(?=[A-Za-z])")


def is_random(value: bytes) -> bool:
    """The module's rule for the value of an assignment."""
    small, capital, digit, sign = _kinds(value)
    if len(value) < 8 or not (small + capital + digit + sign >= 3 or (digit and (small or capital))):
        return False
    return len(_WORDS.sub(b"", value)) * 3 > len(value) or len(_INNER_NUMBER.findall(value)) >= 2


def is_mixed(value: bytes) -> bool:
    """Unlike a word or a number: of two kinds at least, signs not counted."""
    small, capital, digit, _ = _kinds(value)
    return small + capital + digit >= 2


def is_no_name(value: bytes) -> bool:
    """Unlike a name in a program: `self.api_key`."""
    return _NAME.fullmatch(value) is None


def _kinds(value: bytes) -> tuple[bool, bool, bool, bool]:
    small, capital, digit, sign = (
        re.search(kind, value) is not None for kind in (b"[a-z]", b"[A-Z]", b"[0-9]", b"[^A-Za-z0-9]")
    )
    return small, capital, digit, sign


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Regular expressions over bytes: `start`, one that RE2 knows as well, that matches little and never waits for
    something far away, and the whole `pattern`, whose one group is the secret and must please `accepts`."""

    start: bytes
    pattern: bytes
    accepts: Callable[[bytes], bool] | None = None


def _token(start: bytes, rest: bytes) -> Shape:
    """All of it is the secret."""
    return Shape(start=start, pattern=b"(" + start + rest + b")")


def _after(start: bytes, rest: bytes, accepts: Callable[[bytes], bool] | None = None) -> Shape:
    """The group in the rest is the secret."""
    return Shape(start=start, pattern=start + rest, accepts=accepts)


def _in_base64(text: bytes) -> Iterator[bytes]:
    """What base64 of something that has the text in it has in it: one expression for each of three places in a group
    of four characters."""
    for before in range(3):
        last = (before + len(text)) % 3
        seen = [
            base64.b64encode(bytes([around]) * before + text + bytes([around] * (-last % 3))) for around in range(256)
        ]
        end = len(seen[0]) - (0, 2, 1)[last]
        columns = [{code[at] for code in seen} for at in range((0, 1, 2)[before], end)]
        yield b"".join(b"[" + re.escape(bytes(sorted(column))) + b"]" for column in columns)


_GITHUB = (b"ghs_", b"ghp_", b"gho_", b"ghu_", b"ghr_", b"github_pat_")
_HEX = rb"[0-9a-fA-F]"
_B64 = rb"(?:[A-Za-z0-9+/_-]|\\/|\\u002[bBfF]|%2[bBfF])"
# The next line belongs to it only if it is nothing but such characters: it may as well begin with an ordinary word.
_B64_LINES = (
    rb"(?:" + _B64 + rb"|(?:\r?\n|\\r\\n|\\n)[ \t]*(?=" + _B64 + rb"{20}|"
    + _B64 + rb"{1,76}={0,2}(?:\s|[\"']|\\|\Z)))*+=*"
)  # fmt: skip
_HEADER_VALUE = rb"(?:[A-Za-z0-9._~+-]|\\?/|\\u002[bBfF]|%[0-9A-Fa-f]{2})"
_IS = rb"(?:\\?[\"']|&quot;)?\]?[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}"
_QUOTE = rb"(?:\\?[\"'])?"
_NAMES = (
    rb"(?i:pass(?:word|wd|phrase)|pwd|secret(?:[_-]?access)?(?:[_-]?key)?|api[_-]?(?:key|token|secret)|"
    rb"(?:access|auth|account|encryption|signing|private|client|master)[_-]?key|token|credentials?|client[_-]?secret|"
    rb"x-amz-signature|[?&]sig)"
)
_DATABASES = rb"(?i:postgres(?:ql)?|mysql|mariadb|mssql|mongodb|rediss?|valkey|amqps?|nats|kafka|ldaps?|smtps?|ftps?)"

# Behind such a beginning, as many of these as there are.
_WORD, _DASHED, _DOTTED = rb"[A-Za-z0-9]*+", rb"[A-Za-z0-9_-]*+", rb"(?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-]))*+"

SHAPES: tuple[Shape, ...] = (
    # Also one whose end was cut off, and one whose line ends are written as `\n`.
    _token(
        rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----",
        rb"(?:[A-Za-z0-9+/=\s\\:,]|-(?!----)){16,}+(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----)?",
    ),
    _after(rb"Private-Lines: ", rb"([0-9]+\s+[A-Za-z0-9+/=\s]++)"),
    # GitHub's. An installation token is `ghs_` and 36 characters, or `ghs_APPID_JWT`: some 520 with `.`, `_` and `-`.
    _token(rb"gh[pousr]_[A-Za-z0-9._-]{15}", rb"[A-Za-z0-9._-]*[A-Za-z0-9_-]"),
    _token(rb"github_pat_[A-Za-z0-9_]{16}", rb"[A-Za-z0-9_]*+"),
    # The same in base64, also as git's header has it (`x-access-token:` and the token), and in hex.
    _token(base64.b64encode(b"x-access-token:"), _B64_LINES),
    *(_token(code + rb"[A-Za-z0-9+/_-]{16}", _B64_LINES) for text in _GITHUB for code in _in_base64(text)),
    *(_token(rb"(?i:" + text.hex().encode() + rb")" + _HEX + rb"{32}", _HEX + rb"*+") for text in _GITHUB),
    # Other services'.
    _token(
        rb"eyJ[A-Za-z0-9_-]{8}",
        rb"[A-Za-z0-9_-]{0,4096}+\.(?:eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+"
        rb"|[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]{8,}+){3})",
    ),
    _token(rb"sk-(?:proj|svcacct|admin|ant|or|lf)-[A-Za-z0-9_-]{16}", _DASHED),
    _token(rb"sk-[A-Za-z0-9]{20}", _DASHED),
    _token(rb"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10}", _WORD),
    _token(rb"whsec_[A-Za-z0-9+/]{20}", rb"[A-Za-z0-9+/=]*+"),
    _token(rb"(?:AKIA|ASIA|AROA|ABIA|ACCA|LTAI)[A-Z0-9]{16}", rb"[A-Z0-9]*+"),
    _token(rb"(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10}", rb"[A-Za-z0-9-]*+"),
    _token(rb"e2b_[A-Za-z0-9]{16}", _WORD),
    _token(rb"gl(?:pat|rt|dt|ptt|cbt|ft|imt|agent|soat|ffct|oas)-[A-Za-z0-9_-]{20}", _DOTTED),
    _token(rb"npm_[A-Za-z0-9]{36}", _WORD),
    _token(rb"pypi-[A-Za-z0-9_-]{50}", _DASHED),
    _token(rb"AIza[A-Za-z0-9_-]{35}", _DASHED),
    _token(rb"ya29\.[A-Za-z0-9_-]{20}", _DOTTED),
    _token(rb"GOCSPX-[A-Za-z0-9_-]{20}", _DASHED),
    _token(rb"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16}", _DASHED),
    _token(rb"hf_[A-Za-z0-9]{30}", _WORD),
    _token(rb"(?:gsk|r8|pplx|xai|nvapi|tvly|jina|lsv2_pt|lsv2_sk)[_-][A-Za-z0-9]{30}", _DASHED),
    _token(rb"do[por]_v1_[a-f0-9]{40}", rb"[a-f0-9]*+"),
    _token(rb"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}", _HEX + rb"*+"),
    _token(rb"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20}", _DASHED),
    _token(rb"hv[sbr]\.[A-Za-z0-9_-]{20}", _DASHED),
    _token(rb"(?:glsa|sntrys|sntryu|lin_api|ntn|figd|rubygems|pul)_[A-Za-z0-9]{24}", rb"[A-Za-z0-9_=+/-]*+"),
    _token(rb"(?:ATATT3x|ATBB|ATCTT3x)[A-Za-z0-9_=-]{24}", rb"[A-Za-z0-9_=-]*+"),
    _token(rb"(?:NRAK|PMAK|tskey|xkeysib|sq0atp|sq0csp)-[A-Za-z0-9]{16}", rb"[A-Za-z0-9-]*+"),
    _token(rb"AGE-SECRET-KEY-1[A-Z0-9]{20}", rb"[A-Z0-9]*+"),
    _token(rb"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", _DASHED),
    # Addresses that are a permission, or have one in them.
    _after(rb"hooks\.slack\.com\\?/[a-z]{8,9}\\?/", rb"((?:[A-Za-z0-9_-]|\\?/){8,}+)"),
    _after(rb"discord(?:app)?\.com\\?/api\\?/webhooks\\?/", rb"((?:[A-Za-z0-9_-]|\\?/){8,}+)"),
    _after(rb"webhook\.office\.com\\?/webhookb2\\?/", rb"((?:[A-Za-z0-9@_-]|\\?/){8,}+)"),
    _after(_DATABASES + rb"(?:\+[a-z0-9]{1,20})?:\\?/\\?/", rb"([^\s:/@\"'<>]{0,200}+:[^\s\"'<>]{1,400})@"),
    Shape(
        start=rb":\\?/\\?/[^\s/?#@:\"'<>\\]*:[^\s/?#\"'<>]*@",
        pattern=rb":\\?/\\?/([^\s/?#@:\"'<>\\]*+:[^\s/?#\"'<>]*)@",
    ),
    Shape(start=rb"https?:\\?/\\?/[^\s/?#@\"'<>\\]+@", pattern=rb"https?:\\?/\\?/([^\s/?#@\"'<>\\]++)@"),
    # Headers, and files of credentials.
    _after(
        rb"(?i:authorization)" + _IS,
        _QUOTE + rb"((?i:basic|bearer|token|digest|negotiate)[ \t]+" + _HEADER_VALUE + rb"{6,}+=*)",
    ),
    _after(rb"(?i:authorization)" + _IS, _QUOTE + rb"(" + _HEADER_VALUE + rb"{6,}+=*)", is_random),
    _after(
        rb"(?i:x-[a-z]{1,12}-(?:key|token)|x-api-key|api-key|(?:private|job|deploy)-token)" + _IS,
        _QUOTE + rb"(" + _HEADER_VALUE + rb"{6,}+=*)",
        is_no_name,
    ),
    _after(rb"(?i:bearer|basic)[ \t]{1,4}", rb"(" + _HEADER_VALUE + rb"{20,}+=*)", is_mixed),
    _after(rb"(?i:cookie)" + _IS, _QUOTE + rb"[^\s=;\"']{1,80}=([^\s;\"'\\]{8,}+)", is_random),
    _after(
        rb"machine[ \t\r\n]",
        rb"\s*+\S{1,300}+\s++login\s++\S{1,300}+\s++(?:account\s++\S{1,300}+\s++)?password\s++([^\s\"'\\]++)",
    ),
    _after(rb"\"(?:auth|identitytoken|registrytoken)\\?\"[ \t]{0,4}:", rb"\s*+\\?\"([A-Za-z0-9+/=_.-]{8,}+)"),
    _after(rb":_(?:auth|authToken|password)[ \t]{0,4}=", rb"[ \t]*+\"?([^\s\"'$\\]{6,}+)"),
    # Assignments.
    _after(_NAMES + _IS, rb"[bfru]?\\?\"([^\"\\\s({\[]{8,400}+)\\?\"", is_random),
    _after(
        _NAMES + _IS,
        rb"(?:[bfru]?\\?[\"'])?([A-Za-z0-9+/_~!@#^*%.?-][^\s\"'`,;=:&<>(){}\[\]\\|]{7,400}+={0,2})",
        is_random,
    ),
    _after(
        rb"--?(?i:[a-z]{0,12}-?(?:password|passwd|token|secret|api-?key))[ \t]{1,4}",
        _QUOTE + rb"([A-Za-z0-9+/_~!@#^*%.?][^\s\"'`;&<>(){}\[\]\\|]{7,400}+)",
        is_random,
    ),
    _after(rb"(?:-u|--user|--proxy-user)[ =]", _QUOTE + rb"[A-Za-z0-9._@%+-]{1,100}+:([^\s\"'\\]{8,}+)", is_random),
)
"""Of two that begin at the same place, the first one that fits counts."""
