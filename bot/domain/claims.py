"""Places in source text that claim: for these literals, that literal. Branches and tables, in any language."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.domain.literals import Token

ANSWER_WITHIN = 4
"""Lines of code between a question and its answer."""
LINE_TOKENS = 200
"""Tokens of a line that are looked at."""
KEYS_LIMIT = 8
"""Literals that one line may ask for."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """For `keys`, `answers`. `is_part`: the input only has to hold the key. Without answers, the answer is one of
    those that are too common to tell anything (true, false, nothing, 0, 1)."""

    keys: tuple[str, ...]
    answers: tuple[str, ...]
    line: int
    is_branch: bool
    is_number: bool
    is_part: bool = False


_EQUALS = frozenset({"==", "===", "!=", "!==", "eq", "ne", "is", "in", "case", "when", "=", "-eq"})
_CALLS = frozenset(
    {"equals", "equalsIgnoreCase", "eql?", "eql", "strcmp", "strncmp", "is_deeply", "Equal", "EqualFold", "eq"}
)
_PART_CALLS = frozenset(
    {
        *("startswith", "startsWith", "starts_with", "start_with", "HasPrefix", "endswith", "endsWith", "ends_with"),
        *(
            "HasSuffix",
            "includes",
            "contains",
            "Contains",
            "include",
            "fullmatch",
            "match",
            "search",
            "str_starts_with",
        ),
    }
)
_ARITHMETIC = frozenset("%+-*/^.<>") | {"<=", ">="}
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_STARTERS = frozenset(
    {"return", "?", "=>", "->", "then", "=", ":=", ":", "echo", "print", "puts", "println", "yield", "{"}
)
_RESULTS = frozenset({"return", "echo", "print", "puts", "println", "yield"})
_ENDS = frozenset({";", ",", ":", "}", "if", "unless", "else", ")", "]"})
_PLAIN_WORDS = frozenset({"new", "True", "False", "None", "null", "nil", "true", "false", "undefined", "NULL"})
_CONDITION = frozenset(
    {"if", "elif", "elsif", "unless", "case", "when", "match", "?", "=>", "and", "or", "&&", "||", "while"}
)
_OTHER_STATEMENT = frozenset(
    {
        "if",
        "elif",
        "elsif",
        "for",
        "while",
        "def",
        "class",
        "with",
        "case",
        "when",
        "func",
        "fn",
        "function",
        "switch",
    }
    | {"match", "@", "assert", "raise", "throw", "import", "try", "async"}
)
"""What begins a line that is no answer to the question above it."""


def claims(tokens: Sequence[Token]) -> Iterator[Claim]:
    """All claims in a text, in no particular order; a line may make many."""
    tokens = _resolved(tokens)
    lines: dict[int, list[int]] = defaultdict(list)
    for at, token in enumerate(tokens):
        lines[token.line].append(at)
    for line, all_places in lines.items():
        places = all_places[:LINE_TOKENS]
        yield from _branches(tokens, lines, line, places)
        yield from _entries(tokens, places)


_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def _resolved(tokens: Sequence[Token]) -> list[Token]:
    """Names of constants that hold one literal, replaced by it."""
    values: dict[str, Token | None] = {}
    for at in range(len(tokens) - 2):
        name, value = tokens[at], tokens[at + 2]
        if tokens[at + 1].value != "=" or not value.is_literal or name.kind != "word":
            continue
        after = tokens[at + 3] if at + 3 < len(tokens) else None
        is_alone = after is None or after.line > value.line or after.value == ";"
        if is_alone and (_CONSTANT.fullmatch(name.value) or (at and tokens[at - 1].value in ("const", "final"))):
            values[name.value] = None if name.value in values else value
    out = list(tokens)
    for at, token in enumerate(tokens):
        constant = values.get(token.value) if token.kind == "word" else None
        if constant is not None and not _is_defined(tokens, at):
            out[at] = replace(constant, line=token.line)
    return out


def _is_defined(tokens: Sequence[Token], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].value == "="


def _branches(
    tokens: Sequence[Token], lines: Mapping[int, Sequence[int]], line: int, places: Sequence[int]
) -> Iterator[Claim]:
    if not any(tokens[at].value in _CONDITION and tokens[at].kind != "text" for at in places):
        return
    keys = list[int]()
    is_part = False
    for at in places:
        if tokens[at].is_literal and (asked := _is_asked(tokens, at, keys)):
            keys.append(at)
            is_part = is_part or asked == "part"
    keys = keys[:KEYS_LIMIT]
    if not keys:
        return
    alternatives = [keys, *([at] for at in keys)] if len(keys) > 1 else [keys]
    answers = [*_before(tokens, places, keys[0]), *_after(tokens, lines, line, places, keys[-1])]
    for answer in dict.fromkeys(answers):
        for chosen in alternatives:
            key = tuple(_key(tokens[at].value, is_part=is_part) for at in chosen)
            is_number = all(tokens[at].kind == "number" for at in chosen)
            if answer != key:
                yield Claim(keys=key, answers=answer, line=line, is_branch=True, is_number=is_number, is_part=is_part)


def _key(value: str, *, is_part: bool) -> str:
    return re.sub(r"\\(.)", r"\1", value.removeprefix("^").removesuffix("$")) if is_part else value


def _is_asked(tokens: Sequence[Token], at: int, keys: Sequence[int]) -> str:
    """Whether a literal is what something is compared with ("whole", or a "part" of it); else empty."""
    back = at - 1
    while back >= 0 and tokens[back].value in ("(", "[", "{", "&", "*", "Some", "Ok", "tuple"):
        back -= 1
    previous = tokens[back] if back >= 0 else None
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    if previous is not None and previous.line >= tokens[at].line - 1:
        if previous.value in _EQUALS and not (previous.value == "=" and not _is_test_bracket(tokens, back)):
            return "whole"
        if previous.value == "," and keys and _same_list(tokens, keys[-1], at):
            return "whole"
        call = _call(tokens, at)
        if call in _CALLS:
            return "whole"
        if call in _PART_CALLS and tokens[at].kind == "text":
            return "part"
    if following is not None and following.value in ("==", "===", "!=", "!=="):
        return "" if previous is not None and previous.value in _ARITHMETIC and back == at - 1 else "whole"
    return ""


def _is_test_bracket(tokens: Sequence[Token], at: int) -> bool:
    """Whether this `=` compares, as it does in `[ "$x" = y ]`."""
    return any(tokens[back].value == "[" for back in range(max(0, at - 8), at)) and (
        tokens[max(0, at - 8)].line <= tokens[at].line
        and "$" in "".join(t.value for t in tokens[max(0, at - 8) : at])
    )


def _same_list(tokens: Sequence[Token], first: int, at: int) -> bool:
    """Whether nothing but literals and punctuation is between two literals."""
    return all(token.is_literal or token.value in (",", "(", "[", "{", "-") for token in tokens[first + 1 : at])


def _call(tokens: Sequence[Token], at: int) -> str:
    """The name of the innermost call that a literal is an argument of."""
    depth = 0
    for back in range(at - 1, max(-1, at - 12), -1):
        value = tokens[back].value
        if value in _CLOSE:
            depth += 1
        elif value == "(" and depth == 0:
            return tokens[back - 1].value if back else ""
        elif value in _OPEN:
            depth -= 1
    return ""


def _before(tokens: Sequence[Token], places: Sequence[int], key: int) -> Iterator[tuple[str, ...]]:
    """Answers in front of their condition: `return "x" if …`."""
    for at in places:
        if at < key and tokens[at].value in ("return", "=", "(", ":", "yield", "echo", "puts", "print"):
            answer = _constant(tokens, at + 1)
            if answer is not None and answer[1] < key and tokens[answer[1]].value in ("if", "unless"):
                yield answer[0]


def _after(
    tokens: Sequence[Token], lines: Mapping[int, Sequence[int]], line: int, places: Sequence[int], key: int
) -> Iterator[tuple[str, ...]]:
    """Answers behind their condition: on its line, or on those that follow as long as nothing else begins."""
    depth = 0
    for at in places:
        if at <= key:
            continue
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(tokens[at].value, 0)
        if (
            depth <= 0
            and tokens[at].value in _STARTERS
            and (answer := _constant(tokens, at + 1, many=True)) is not None
        ):
            yield answer[0]
    for number in range(line + 1, line + 1 + ANSWER_WITHIN):
        following = lines.get(number, ())[:LINE_TOKENS]
        if not following:
            continue
        first = following[0]
        if tokens[first].value in _OTHER_STATEMENT:
            return
        for at in following:
            is_result = tokens[at].value in _RESULTS or (
                tokens[at].value in ("=", ":=") and _is_assignment(tokens, at)
            )
            if is_result and (answer := _constant(tokens, at + 1, many=True)) is not None:
                yield answer[0]
        # An expression that is a whole line is a result in Rust, Ruby, Scala and their like.
        answer = _constant(tokens, first)
        if answer is not None and (answer[1] == len(tokens) or tokens[answer[1]].line > number):
            yield answer[0]


def _is_assignment(tokens: Sequence[Token], at: int) -> bool:
    """Whether all of the line before this mark is a name, or a name behind one more word."""
    line, back = tokens[at].line, at - 1
    while (
        back >= 0 and tokens[back].line == line and (tokens[back].kind == "word" or tokens[back].value in (".", ":"))
    ):
        back -= 1
    return back < at - 1 and (back < 0 or tokens[back].line < line)


def _constant(tokens: Sequence[Token], at: int, *, many: bool = False) -> tuple[tuple[str, ...], int] | None:
    """The literals of an expression that has nothing but literals in it, and where it ends; None for any other one.
    Calls that wrap a literal are allowed, variables and operators are not; `many`: after a comma it goes on. Common
    answers come as an empty tuple."""
    found, depth, start = list[str](), 0, at
    line = tokens[at].line if at < len(tokens) else 0
    words = 0
    while at < len(tokens) and at < start + 60:
        token = tokens[at]
        is_end = token.value in _ENDS and not (many and token.value == ",")
        if depth == 0 and (is_end or token.line > line) and token.kind != "text":
            break
        if token.kind == "text" and _FILLED.search(token.value):
            return None
        if token.is_literal:
            found.append(token.value)
        elif token.kind == "word":
            after = tokens[at + 1].value if at + 1 < len(tokens) else ""
            is_method = at > start and tokens[at - 1].value in (".", "::", "new")
            if token.value in _PLAIN_WORDS:
                words += 1
            elif not (after in ("(", "!", "::", ".", "{") or is_method):
                return None
        elif token.value in _OPEN:
            depth += 1
        elif token.value in _CLOSE:
            depth -= 1
        elif token.value not in (",", ".", "::", "!", "-", "&", "*", "?", "$", ":"):
            return None
        line = max(line, token.line) if depth else line
        at += 1
    if depth > 0 or at == start or not (found or words or at == start + 2):
        return None
    return (() if all(map(_is_common, found)) else tuple(found)), at


_FILLED = re.compile(r"[$#]?\{\s*[A-Za-z_]|%[sd]")
"""Something is put into such a text, so that it is no constant."""


def _is_common(value: str) -> bool:
    return value in ("", "0", "1")


def _entries(tokens: Sequence[Token], places: Sequence[int]) -> Iterator[Claim]:
    """Entries of tables: `key: answer`, `key => answer`, `[key] = answer`, and pairs in brackets."""
    for at in places:
        token = tokens[at]
        previous = tokens[at - 1].value if at else ""
        following = [tokens[next_].value for next_ in (at + 1, at + 2) if next_ < len(tokens)]
        is_name = token.kind == "word" and previous in ("{", ",") and following[:1] == [":"]
        if not (token.is_literal or is_name) or not following:
            continue
        answer = _answer(
            tokens, at, following, is_choice=any(tokens[back].value == "?" for back in places if back < at)
        )
        if answer is not None:
            is_number = token.kind == "number"
            yield Claim(keys=(token.value,), answers=answer, line=token.line, is_branch=False, is_number=is_number)


def _answer(tokens: Sequence[Token], at: int, following: Sequence[str], *, is_choice: bool) -> tuple[str, ...] | None:
    """What a table has for a key; None where that is no constant, or this is no entry of one."""
    previous = tokens[at - 1].value if at else ""
    if following[0] in (":", "=>", "->") and not is_choice:
        found = _constant(tokens, at + 2)
        is_slice = previous == "[" and following[0] == ":"
        return found[0] if found and not (is_slice and _closes(tokens, found[1], "]")) else None
    if following == ["]", "="] and previous == "[":
        found = _constant(tokens, at + 3)
        return found[0] if found else None
    if following[0] == "," and previous in _OPEN and _is_row(tokens, at - 1):
        found = _constant(tokens, at + 2)
        return found[0] if found and len(found[0]) == 1 and _closes(tokens, found[1], ")]}") else None
    return None


_PUTS = frozenset({"replace", "replaceAll", "replace_all", "sub", "gsub", "set", "put", "insert", "of", "entry"})


def _is_row(tokens: Sequence[Token], at: int) -> bool:
    """Whether the bracket opens one of many rows, or the arguments of a call that puts one thing for another."""
    previous = tokens[at - 1] if at else None
    if previous is None or previous.line < tokens[at].line:
        return True
    return previous.value in _OPEN or previous.value == "," or (previous.value in _PUTS and tokens[at].value == "(")


def _closes(tokens: Sequence[Token], at: int, brackets: str) -> bool:
    return at < len(tokens) and tokens[at].value in tuple(brackets)
