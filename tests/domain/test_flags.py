"""How a flag reads."""

from __future__ import annotations

from bot.domain.flags import Flag


def test_a_flag_reads_as_one_line_that_begins_with_its_path() -> None:
    assert Flag(kind="decider", path="conftest.py", said="is new").text == "`conftest.py`: is new"
    assert Flag(kind="skip", path="tests/a.py", said="is new", line=3).text == "`tests/a.py`, line 3: is new"


def test_a_path_can_not_end_its_code_span_or_the_line() -> None:
    assert Flag(kind="decider", path="a`b\nc\u202e.py", said="is new").text == "`a\\x60b\\nc\\u202e.py`: is new"


def test_a_flag_as_json_has_its_path_as_people_see_it() -> None:
    assert Flag(kind="exit", path="a\tb", said="ends", line=1, grave=True).to_dict() == {
        "kind": "exit",
        "path": "a\\tb",
        "line": 1,
        "grave": True,
        "text": "`a\\tb`, line 1: ends",
    }
