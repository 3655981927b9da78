"""A receipt as people read it."""

from __future__ import annotations

from typing import Any

from bot.domain import receipt_text
from tests.domain.test_comment import RECEIPT

CHECK = {"name": "tests", "exit_code": 1, "timed_out": False, "seconds": 1.26, "passed": 2, "failed": 1, "skipped": 0}
EMPTY = {"count": 0, "names": []}
DOCUMENT: dict[str, Any] = {
    **RECEIPT,
    "version": 2,
    "runs": [
        {"kind": "baseline", "tree": "b" * 40, "cached": True, "checks": [CHECK]},
        {"kind": "new_tests", "tree": "n" * 40, "cached": False, "checks": [CHECK, {**CHECK, "name": "lint"}]},
    ],
    "tests": {
        "fixed": {"count": 12, "names": [f"test_{letter}" for letter in "abcdefghijkl"]},
        "broken": {"count": 1, "names": ["odd`name fixes #12 @x"]},
        "still_failing": EMPTY,
        "newly_skipped": EMPTY,
        "gone": EMPTY,
        "added": EMPTY,
    },
    "coverage": {"report": "cov.xml", "lines": 7, "covered": 5, "missed": []},
    "policy": {"repeat": 2, "tests": None, "weakened": "refuse", "unverified": "draft"},
    "image": "sha256:1",
    "model": "gpt",
    "cost_usd": 0.5,
    "bot": "1.0",
    "created_at": "2026-11-30T12:00:00",
}


def test_a_receipt_of_the_first_version_is_shown_as_before() -> None:
    text = receipt_text.table(RECEIPT)
    assert text.startswith("**Receipt: Passed**\n\n- 3 tests passed in `tests`.\n\n| check | exit code |")
    assert "| `slow` | time-out | – | – | – |" in text
    assert text.endswith("run in a fresh sandbox that the agent never touched.</sub>")


def test_a_snapshot_is_named_and_no_checks_make_no_table() -> None:
    text = receipt_text.table({**RECEIPT, "checks": [], "snapshot": {"id": "s1", "commit": "c" * 40}})
    assert f"started from snapshot `s1` of commit `{'c' * 12}`" in text
    assert "|" not in text


def test_what_became_of_the_tests_is_counted_and_named() -> None:
    text = receipt_text.whole(DOCUMENT)
    assert "- Failing before, passing now: 12 (`test_a`, " in text
    assert "`test_j`, …)" in text
    assert "test_k" not in text
    assert "- Passing before, failing now: 1 (`odd\\x60name f\u200bixes #\u200b12 @\u200bx`)" in text
    assert "Skipped now" not in text


def test_all_of_it_has_every_run_and_its_terms() -> None:
    text = receipt_text.whole(DOCUMENT)
    assert f"| the base (known from before) | `{'b' * 12}` | `tests` | 1 | 2 | 1 | 0 | 1.3 |" in text
    assert f"| the base, with the change's tests | `{'n' * 12}` | `lint` |" in text
    assert "Of 7 changed lines, the tests ran 5, says `cov.xml`." in text
    assert (
        "`verification`: repeat 2, weakened refuse, unverified draft; image `sha256:1`; model `gpt`; cost $0.50"
        in text
    )


def test_of_an_old_receipt_all_there_is_is_shown() -> None:
    old = {**RECEIPT, "image": "sha256:1", "model": None, "cost_usd": None, "bot": "1", "created_at": "then"}
    text = receipt_text.whole(old)
    assert "What was run" not in text
    assert text.endswith("<sub>image `sha256:1`; model `none`; cost unknown; coder-bot 1, then.</sub>")
