"""Source text as tokens."""

from __future__ import annotations

import pytest

from bot.domain.literals import ending, is_code, tokens


def read(path: str, text: str) -> list[str]:
    return [f"{token.kind[0]}:{token.value}" for token in tokens(path, text)]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.py", "x = f'a' # 'b'", ["w:x", "m:=", "t:a"]),
        ("a.py", '"""a\n"b" """ + rb"c"', ['t:a\n"b" ', "m:+", "t:c"]),
        ("a.py", "'''open", ["t:open"]),
        ("a.py", "1_000 == 1000.0 != 1.5e1 0x_ff 0b11", ["n:1000", "m:==", "n:1000", "m:!=", "n:15", "n:255", "n:3"]),
        ("a.py", "0.5 " + "9" * 50, ["n:0.5", "n:" + "9" * 50]),
        ("a.py", "0x" + "f" * 50, ["n:0x" + "f" * 50]),
        ("a.js", "/* 'a' */ `b\n${c}` // 'd'", ["t:b\n${c}"]),
        ("a.js", r"'a\n\'b'", ["t:a\n'b"]),
        ("a.rs", '\'a\' &\'b x r#"c"d"# b"e" 7u8', ["t:a", "m:&", "w:x", 't:c"d', "t:e", "n:7"]),
        ("a.go", "`a\\b` := 'c'", ["t:ab", "m::=", "t:c"]),
        ("a.sh", 'x "$(y "a b")" # c\n# d "e"', ["w:x", "m:$", "m:(", "w:y", "t:a b", "m:)", "m:#", "w:c"]),
        ("a.txt", "a 7\n\n", ["t:a 7", "w:a", "n:7"]),
    ],
)
def test_literals_are_told_from_words_and_comments(path: str, text: str, expected: list[str]) -> None:
    assert read(path, text) == expected


def test_lines_are_counted_through_long_texts() -> None:
    assert [token.line for token in tokens("a.py", '"""\n\n"""\nx\n\ny')] == [1, 4, 6]


def test_a_language_is_known_by_the_ending() -> None:
    assert [ending(path) for path in ("a/b.PY", "Makefile", "run", "a.tar.gz")] == ["py", "sh", "sh", "gz"]
    assert is_code("a.rs")
    assert not is_code("a.md")
