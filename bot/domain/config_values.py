"""What a value in a repository's config may be, and what is said of one that may not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from bot.domain.commands_policy import rule_problem

PACKAGE_MANAGERS = frozenset({"npm", "pip", "go", "cargo", "maven", "gem", "composer"})
"""Names that stand for a package manager's registry in a network list."""


_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_SIZE = re.compile(r"([0-9]{1,6})(KiB|MiB|GiB)")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_BYTES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
_YEAR = 366 * 86400


def _amount(
    value: object, info: ValidationInfo, *, pattern: re.Pattern[str], units: Mapping[str, int], like: str
) -> int:
    if isinstance(value, int) and not info.context:
        return value  # made in Python, not read from a file
    if not isinstance(value, str) or not (match := pattern.fullmatch(value)):
        raise ValueError(f"expected {like}")
    amount = int(match[1]) * units[match[2]]
    if not amount:
        raise ValueError(f"expected {like}, more than nothing")
    return amount


def _read_duration(value: object, info: ValidationInfo) -> int:
    seconds = _amount(value, info, pattern=_DURATION, units=_SECONDS, like="a duration such as `10m` (s, m, h or d)")
    if seconds > _YEAR:
        raise ValueError("expected at most a year")
    return seconds


def _read_size(value: object, info: ValidationInfo) -> int:
    return _amount(value, info, pattern=_SIZE, units=_BYTES, like="a size such as `512MiB` (KiB, MiB or GiB)")


def _show(amount: int, units: Mapping[str, int]) -> str:
    unit = next(unit for unit, size in units.items() if amount % size == 0)
    return f"{amount // units[unit]}{unit}"


def show_duration(seconds: int) -> str:
    """As the file would say it."""
    return _show(seconds, _SECONDS)


def show_size(size: int) -> str:
    """As the file would say it; whole KiB only, as all that `parse` reads are."""
    return _show(size, _BYTES)


def _read_decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("expected a number")
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError("expected a number that is finite")
    if not 0 <= number <= 1_000_000 or number != number.quantize(Decimal("0.0001")):
        raise ValueError("expected a number from 0 to 1000000 with at most four decimal places")
    return number


def read_text(value: str) -> str:
    """Text that says something and holds no control characters; a ValueError says what is wrong."""
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", value):
        raise ValueError("control characters can't be used here")
    if not value.strip():
        raise ValueError("expected text that is not empty")
    return value


Duration = Annotated[
    int,
    BeforeValidator(_read_duration),
    PlainSerializer(show_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
"""Seconds."""
Size = Annotated[
    int,
    BeforeValidator(_read_size),
    PlainSerializer(show_size),
    WithJsonSchema({"type": "string", "pattern": f"^{_SIZE.pattern}$"}),
]
"""Bytes."""
Number = Annotated[
    Decimal,
    BeforeValidator(_read_decimal),
    PlainSerializer(float),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1_000_000}),
]
Text = Annotated[str, AfterValidator(read_text)]
Whole = Annotated[int, Field(ge=1, le=1_000_000_000)]


def _read_path(value: str) -> str:
    if value.startswith("~") or "\\" in value or {"", ".", ".."} & set(value.split("/")):
        raise ValueError("expected a path inside the repository, such as `build/junit.xml`")
    return value


def _read_glob(value: str) -> str:
    if value.startswith(("~", "!")) or "\\" in value or {"", ".", ".."} & set(value.removesuffix("/").split("/")):
        raise ValueError("expected a pattern for paths inside the repository, such as `migrations/**`")
    return value


_HIDES = {
    r"\|\|[\s({]*(?:(?:/usr)?/bin/)?(?:true|:|exit\s+0|exit(?=\s*(?:$|[;&|)}\n])))(?![\w./-])": "`||`",
    r"\|\|\s*(?:echo|printf)\b[^;&|\n]*$": "`||`",
    r"[;\n]\s*(?:true|:)[\s;)}]*$": "its last command",
    r"\bexit\s+0[\s;)}]*$": "`exit 0`",
    r"(?<![&>|])&\s*$": "the `&` at its end",
    r"[;&\n]\s*wait[\s;)}]*$": "`wait`",
    r"\bset\s+(?:-\w+\s+)*\+(?:[a-z]*e|o\s+(?:errexit|pipefail))": "`set +`",
    r"^\s*!\s": "the `!`",
}
"""Ways to end in success whatever the tests said. They catch slips: whoever writes this file may set the rules."""
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)


def _read_check_line(value: str) -> str:
    bare = _QUOTED.sub("''", value)
    for pattern, what in _HIDES.items():
        if re.search(pattern, bare):
            raise ValueError(
                f"this check hides its exit status by {what}, so that it could never fail; take that out"
            )
    return value


def _read_rule(value: str) -> str:
    if problem := rule_problem(value):
        raise ValueError(problem)
    return value


_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(
    rf"(?:\*\.{_LABEL}(?:\.{_LABEL})+|{_LABEL}(?:\.{_LABEL})+(?::[0-9]{{1,5}})?|{_LABEL}:[0-9]{{1,5}})"
)


def read_network(value: str) -> str:
    """An entry of a network list in its one spelling; a ValueError says what it may be."""
    entry = value.lower()
    if entry in PACKAGE_MANAGERS or entry == "all":
        return entry
    port = entry.partition(":")[2]
    if len(entry) > 253 or not _HOST.fullmatch(entry) or (port and not 0 < int(port) < 65536):
        names = ", ".join(f"`{name}`" for name in sorted(PACKAGE_MANAGERS))
        raise ValueError(f"expected `example.org`, `*.example.org`, `host:port` or one of {names}")
    return entry


def _read_ref(value: str) -> str:
    bad = re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|^[./-]|[./]$|^@$", value)
    if bad or len(value) > 200:
        raise ValueError("expected the name of a branch as git allows it")
    return value


def _read_branch(value: str) -> str:
    filled = value.replace("{number}", "1")
    if filled == value or "{" in filled or "}" in filled:
        raise ValueError(
            "expected a name with `{number}` in it (and no other braces), such as `coder/issue-{number}`"
        )
    _read_ref(filled)
    return value


_STEERS = re.compile(r"GIT_|LD_|BASH_ENV$|ENV$")


def _read_env(value: dict[str, str]) -> dict[str, str]:
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) for name in value):
        raise ValueError("expected names of letters, digits and `_` that start with no digit")
    if ours := next((name for name in value if _STEERS.match(name.upper())), None):
        raise ValueError(f"`{ours}` can't be set here: it would steer the bot's own git and shells in the sandbox")
    return value


def _read_bot(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,98})\[bot\]", value):
        raise ValueError('expected the login of a bot, such as `"dependabot[bot]"`; people need no entry')
    return value.lower()


def _read_name(value: str) -> str:
    if len(value) > 60 or re.search(r"[`|\n\t]", value) or value != value.strip():
        raise ValueError("expected a short name on one line")
    return value


Path = Annotated[Text, AfterValidator(_read_path)]
Glob = Annotated[Text, AfterValidator(_read_glob)]
Host = Annotated[Text, AfterValidator(read_network)]
Line = Annotated[str, Field(max_length=4000), AfterValidator(read_text)]
CheckLine = Annotated[Line, AfterValidator(_read_check_line)]
Rule = Annotated[Line, AfterValidator(_read_rule)]
Ref = Annotated[Text, AfterValidator(_read_ref)]
Branch = Annotated[Text, AfterValidator(_read_branch)]
Env = Annotated[dict[str, Text], AfterValidator(_read_env)]
Name = Annotated[Text, AfterValidator(_read_name)]
Bot = Annotated[Text, AfterValidator(_read_bot)]
Grant = Literal["read", "write", "exec"]
