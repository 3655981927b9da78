"""JSON from strangers: what is taken, and what is refused before it costs or misleads."""

from __future__ import annotations

import pytest

from bot.domain.strict_json import DEPTH_LIMIT, SIZE_LIMIT, NotJson, read

NESTED = b"[" * DEPTH_LIMIT + b"]" * DEPTH_LIMIT


def test_json_within_bounds_is_read_as_it_is() -> None:
    assert read(b'{"a": [1, 2.5, null, "\\u00e9"], "b": {}}') == {"a": [1, 2.5, None, "é"], "b": {}}
    assert read(NESTED) is not None
    assert read(b" " * (SIZE_LIMIT - 1) + b"1") == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b" " * SIZE_LIMIT + b"1", "is larger than 4 MiB"),
        (b'"\xff"', "is not UTF-8"),
        (b"", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b"1" * 5000, "is not JSON"),
        (b'{"a": 1} x', "is not JSON"),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "names a key twice in one object"),
        (b'{"a": 1, "\\u0061": 2}', "names a key twice in one object"),
        (b"[NaN]", "is not JSON: it holds NaN"),
        (b"-Infinity", "is not JSON: it holds -Infinity"),
        (b"1e999", "holds a number that is too large"),
        (b"[" + NESTED + b"]", "is nested too deeply"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "is nested too deeply"),
        (b"[" * 1_000_000, "is nested too deeply"),
    ],
    ids=range(14),
)
def test_what_is_costly_or_ambiguous_is_refused_with_the_reason(data: bytes, said: str) -> None:
    with pytest.raises(NotJson) as refused:
        read(data)
    assert str(refused.value) == said
