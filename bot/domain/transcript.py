"""What was said and done in an episode, step by step: the record that survives a crash and that a person can read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Any

from bot.domain.budget import Spend, Usage
from bot.domain.markdown import one_line

LOST_CALL = "The sandbox was lost while this ran; its outcome is unknown."
"""The result of a call that was in flight when its sandbox went."""
NOT_RUN = "Not run: the sandbox was lost before this."
"""The result of the calls that the same reply asked for after it."""
HOSTS_SHOWN = 10

_LOST = "The sandbox was lost"
_TOO_LARGE = "The change can't be kept as it is"
_BLOCKED = "No network to "
_COMMANDS = ("run_command", "run_tests")
_UNSAFE = re.compile(r"[^A-Za-z0-9._:\[\]-]")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One finished tool call. `exit_code` is there where a command ran; `refused` where policy or grants said no."""

    position: int
    name: str
    arguments: dict[str, Any] | None
    result: str
    exit_code: int | None
    duration_s: float
    refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Step:
    """One model reply (`reply` is its JSON) and the finished ones of the calls it asked for, in order. `note` is what
    the model was told before it; `cost` is None where nobody knows the price."""

    id: int
    number: int
    note: str | None
    reply: dict[str, Any]
    usage: Usage
    cost: Decimal | None
    duration_s: float
    calls: tuple[Call, ...] = ()


def spend(steps: tuple[Step, ...]) -> Spend:
    """What these steps used."""
    costs = [step.cost for step in steps]
    known = [cost for cost in costs if cost is not None]
    return Spend(
        steps=len(steps),
        tool_calls=sum(len(step.calls) for step in steps),
        tokens=sum(step.usage.tokens for step in steps),
        duration_s=sum(step.duration_s + sum(call.duration_s for call in step.calls) for step in steps),
        cost=sum(known, Decimal(0)) if len(known) == len(costs) else None,
    )


def lost_note(step: int) -> str:
    """What the model is told before its next step once its sandbox was replaced; the files are those of that step."""
    files = f"as they were after step {step}" if step else "as they were when this episode began"
    return (
        f"{_LOST} and a new one was made. Files are {files}; later changes are lost, and so is what ran in the "
        "background or was installed by hand. Look at what is there before you go on."
    )


def too_large_note(problem: str) -> str:
    """What the model is told while its change is more than can be kept; `problem` says what is too large."""
    return (
        f"{_TOO_LARGE}: {one_line(problem, 500).rstrip('.')}. Remove or ignore files that are by-products; a change "
        "that stays like this is not kept, and the work is paused."
    )


def losses(steps: Iterable[Step], feedback: str | None) -> int:
    """How often an episode's sandbox was replaced, by what the model was told, or (`feedback`) will be."""
    return sum(_told(note, _LOST) for note in (*(step.note for step in steps), feedback))


def too_large(steps: tuple[Step, ...]) -> int:
    """How many steps in a row, up to the last one, began with the change being more than can be kept."""
    return sum(1 for _ in takewhile(lambda step: _told(step.note, _TOO_LARGE), reversed(steps)))


def replaced(times: int) -> str:
    """For people: that an episode's sandbox was replaced; empty where it was not."""
    if not times:
        return ""
    how = "once" if times == 1 else f"{times} times"
    return (
        f"The sandbox was lost {how} during this work and replaced by a new one; "
        "the work went on from the last checkpoint."
    )


def blocked_line(hosts: Iterable[str]) -> str:
    """The first line of a command's result: the `host:port` it was not allowed to reach."""
    return (
        f"{_BLOCKED}{_shown(hosts)}: not allowed for the agent; only the hosts under `network.agent` in "
        "`.github/coder.yml` are."
    )


def blocked(steps: Iterable[Step]) -> tuple[str, ...]:
    """Each `host:port` that the steps' commands were not allowed to reach, in order of its first time."""
    hosts: dict[str, None] = {}
    for step in steps:
        for call in step.calls:
            # What a command prints never comes first in its result, so that no command can speak here.
            if call.name in _COMMANDS and call.result.startswith(_BLOCKED):
                names = call.result.removeprefix(_BLOCKED).partition(": ")[0].partition(" and ")[0]
                hosts |= dict.fromkeys(names.split(", "))
    return tuple(hosts)


def blocked_hosts(hosts: Iterable[str]) -> str:
    """For people, as Markdown: which hosts commands were not allowed to reach; empty where there are none."""
    names = tuple(hosts)
    return f"Blocked hosts: {_shown(names, mark='`')}." if names else ""


def _shown(hosts: Iterable[str], mark: str = "") -> str:
    names = tuple(dict.fromkeys(_UNSAFE.sub("?", host)[:100] for host in hosts))
    listed = ", ".join(f"{mark}{name}{mark}" for name in names[:HOSTS_SHOWN])
    return f"{listed} and {len(names) - HOSTS_SHOWN} more" if len(names) > HOSTS_SHOWN else listed


def _told(note: str | None, mark: str) -> int:
    """How many of our own paragraphs that begin like this lead a note; what follows them may be anybody's words."""
    own = takewhile(lambda text: text.startswith((_LOST, _TOO_LARGE)), (note or "").split("\n\n"))
    return sum(text.startswith(mark) for text in own)
