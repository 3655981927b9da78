"""The words of a test report: numbers of tests, outcomes, and names that are fit to be shown and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "failed", "skipped"]

NAME_LIMIT = 500
"""Characters of a test's name; the rest is left out."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of tests. `errors` are what kept tests from running: a broken import, a suite that did not compile."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0

    @property
    def ran(self) -> int:
        """Tests that came to a result of their own."""
        return self.passed + self.failed

    @property
    def red(self) -> bool:
        """Whether anything went wrong."""
        return bool(self.failed or self.errors)


Lines = Sequence[str]
"""What a run printed, without escapes and line ends."""

Result = tuple[str, Outcome]
"""A test's name, and what it came to; a name may come twice."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """Names in a run's output. `results` is None where it did not name every test."""

    results: tuple[Result, ...] | None = None
    failing: tuple[str, ...] = ()


_UNSEEN = dict.fromkeys(map(chr, [*range(0x20), *range(0x7F, 0xA0)]), " ")
_TABLE = str.maketrans(_UNSEEN)


def clean(name: str) -> str:
    """A name on one line, without control characters, not longer than `NAME_LIMIT`."""
    return " ".join(name[: 4 * NAME_LIMIT].translate(_TABLE).split())[:NAME_LIMIT]


def joined(results: Iterable[Result]) -> dict[str, Outcome]:
    """Each name once: failed if it ever failed, else passed if it ever passed."""
    outcomes: dict[str, Outcome] = {}
    for name, outcome in results:
        known = outcomes.get(name := clean(name))
        if known is None or _WEIGHT[outcome] > _WEIGHT[known]:
            outcomes[name] = outcome
    return outcomes


def agree(results: Sequence[Result], counts: Counts) -> bool:
    """Whether these are all the tests that a runner's closing lines count."""
    outcomes = [outcome for _, outcome in results]
    said = (outcomes.count("passed"), outcomes.count("failed"), outcomes.count("skipped"))
    return said == (counts.passed, counts.failed, counts.skipped)


_WEIGHT: dict[Outcome, int] = {"skipped": 0, "passed": 1, "failed": 2}
