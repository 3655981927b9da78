"""A receipt as Markdown: a compact table for conversations, and all of it for its own page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.domain.gate import shown
from bot.domain.markdown import one_line

NAMED = 10
"""Tests that a set names here; the document itself has more."""

_RUNS = {
    "baseline": "the base",
    "candidate": "the change",
    "old_tests": "the change, with tests and test settings as before",
    "new_tests": "the base, with the change's tests",
}
_SETS = {
    "fixed": "Failing before, passing now",
    "broken": "Passing before, failing now",
    "still_failing": "Failing before and now",
    "newly_skipped": "Skipped now",
    "gone": "No longer there",
    "added": "New",
}


def table(receipt: Mapping[str, Any]) -> str:
    """The receipt as reviewers see it, of whatever version."""
    rows = [
        f"| `{check['name']}` | {_exit_code(check)} "
        f"| {_count(check['passed'])} | {_count(check['failed'])} | {_count(check['skipped'])} |"
        for check in receipt["checks"]
    ]
    head = ["| check | exit code | passed | failed | skipped |", "|---|---|---|---|---|"]
    snapshot = receipt.get("snapshot")  # older receipts don't say
    start = f", started from snapshot `{snapshot['id']}` of commit `{snapshot['commit'][:12]}`" if snapshot else ""
    where = (
        f"Tree `{receipt['tree'][:12]}` on base `{receipt['base'][:12]}`, run in a fresh sandbox "
        f"that the agent never touched{start}."
    )
    parts = [
        f"**Receipt: {receipt['verdict']}**",
        reasons(receipt),
        "\n".join([*head, *rows]) if rows else "",
        f"<sub>{where}</sub>",
    ]
    return "\n\n".join(filter(None, parts))


def whole(receipt: Mapping[str, Any]) -> str:
    """The same with every run, what became of the tests, the rules it was judged by, and what it cost."""
    tests, runs = _tests(receipt.get("tests", {})), _runs(receipt.get("runs", ()))
    parts = [table(receipt), tests, runs, _coverage(receipt.get("coverage")), _terms(receipt)]
    return "\n\n".join(filter(None, parts))


def reasons(receipt: Mapping[str, Any]) -> str:
    """Why the verdict is what it is, as a list."""
    return "\n".join(f"- {one_line(reason, 1000)}" for reason in receipt["reasons"])


def _tests(sets: Mapping[str, Any]) -> str:
    lines = [
        f"- {words}: {sets[key]['count']} ({_names(sets[key])})"
        for key, words in _SETS.items()
        if key in sets and sets[key]["count"]
    ]
    return "\n".join(lines)


def _names(found: Mapping[str, Any]) -> str:
    named: Sequence[str] = found["names"][:NAMED]
    more = ", …" if found["count"] > len(named) else ""
    return one_line(", ".join(f"`{shown(name)}`" for name in named), 2_000) + more


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return ""
    head = [
        "| run on | tree | check | exit code | passed | failed | skipped | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {_RUNS[run['kind']]}{' (known from before)' if run['cached'] else ''} | `{run['tree'][:12]}` "
        f"| `{check['name']}` | {_exit_code(check)} | {_count(check['passed'])} | {_count(check['failed'])} "
        f"| {_count(check['skipped'])} | {check['seconds']:.1f} |"
        for run in runs
        for check in run["checks"]
    ]
    return "\n".join(["**What was run**", "", *head, *rows])


def _coverage(seen: Mapping[str, Any] | None) -> str:
    if seen is None:
        return ""
    return f"Of {seen['lines']} changed lines, the tests ran {seen['covered']}, says `{shown(seen['report'])}`."


def _terms(receipt: Mapping[str, Any]) -> str:
    cost = "unknown" if receipt["cost_usd"] is None else f"${receipt['cost_usd']:.2f}"
    terms = [f"image `{shown(receipt['image'])}`", f"model `{shown(receipt['model'] or 'none')}`", f"cost {cost}"]
    if policy := receipt.get("policy"):
        rules = ("repeat", "weakened", "unverified")
        terms.insert(0, "`verification`: " + ", ".join(f"{name} {policy[name]}" for name in rules))
    return f"<sub>{'; '.join(terms)}; coder-bot {receipt['bot']}, {receipt['created_at']}.</sub>"


def _exit_code(check: Mapping[str, Any]) -> str:
    return "time-out" if check["timed_out"] else str(check["exit_code"])


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)
