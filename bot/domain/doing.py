"""What is going on with a task right now, in plain words that do nothing on GitHub but be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.domain.gate import shown
from bot.domain.markdown import one_line
from bot.domain.transcript import Step
from bot.domain.verification import Run, RunKind, says_nothing

SHOWN = 80
"""Characters of what a tool was called with."""

_WORDS: Mapping[str, tuple[str, str | None]] = {
    "read_file": ("reading", "path"),
    "list_dir": ("looking into", "path"),
    "search": ("searching for", "pattern"),
    "write_file": ("writing", "path"),
    "edit_file": ("editing", "path"),
    "remove_file": ("removing", "path"),
    "run_command": ("running", "command"),
    "run_tests": ("running the checks", "filter"),
    "submit": ("handing in the result", None),
}
"""What each tool does, and the argument that says with what."""

_RUNS: Mapping[RunKind, str] = {
    "candidate": "the change",
    "baseline": "the base",
    "old_tests": "the change, with the tests as before",
    "new_tests": "the base, with the change's tests",
}


def step(steps: Sequence[Step], limit: int, redact: Callable[[str], str], *, is_told: bool = False) -> str:
    """The step that an episode is at, by its steps so far: what its next open call does, or that the model is asked,
    which it surely is where it `is_told` something. Secrets are taken out before anything is cut."""
    if not steps or is_told:
        return _step(min(len(steps) + 1, limit), limit, "waiting for the model")
    last = steps[-1]
    asked = last.reply.get("tool_calls") or []
    done = len(last.calls)
    if done < len(asked):
        return _step(last.number, limit, _call(asked[done], redact))
    if asked and asked[-1]["name"] == "submit":
        return _step(last.number, limit, _call(asked[-1], redact))
    return _step(min(last.number + 1, limit), limit, "waiting for the model")


def verification(ended: Sequence[Run]) -> str:
    """How the runs of a verification have ended so far. Which others there will be, nobody knows before."""
    if not ended:
        return f"The checks run on {_RUNS['candidate']} first."
    runs = ", ".join(f"{_RUNS[run.kind]} ({_ended(run)})" for run in ended)
    return f"The checks have run on {runs}."


def queue(ahead: int) -> str:
    """The place among the tasks that wait for a sandbox."""
    if not ahead:
        return "No other task has waited longer."
    return "1 other task has waited longer." if ahead == 1 else f"{ahead} other tasks have waited longer."


def coarse(passed: timedelta) -> str:
    """A time in words that do not change with every look."""
    minutes = int(passed.total_seconds() // 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 10:
        return _count(minutes, "minute")
    if minutes < 60:
        return _count(minutes - minutes % 5, "minute")
    if minutes < 48 * 60:
        return _count(minutes // 60, "hour")
    return _count(minutes // (24 * 60), "day")


def ago(since: datetime, now: datetime) -> str:
    return f"{coarse(now - since)} ago"


def code(text: str, limit: int = SHOWN) -> str:
    """Anybody's text as code on one line; empty where there is nothing to be seen."""
    line = one_line(shown(" ".join(text.split())), limit)
    return f"`{line}`" if line else ""


def _step(number: int, limit: int, what: str) -> str:
    return f"Step {number} of at most {limit}: {what}."


def _call(asked: Mapping[str, Any], redact: Callable[[str], str]) -> str:
    verb, argument = _WORDS.get(str(asked["name"]), ("calling a tool that there is not", None))
    value = (asked.get("arguments") or {}).get(argument)
    what = code(redact(value)) if isinstance(value, str) else ""
    return f"{verb} {what}".rstrip()


def _ended(run: Run) -> str:
    if any(check.is_red or check.timed_out for check in run.checks):
        return "did not pass"
    return "passed" if run.checks and not any(says_nothing(check) for check in run.checks) else "says nothing"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' * (number != 1)}"
