"""Trouble on demand: which call, which time, what goes wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

Call = Literal[
    # the control plane
    "create",
    "connect",
    "get",
    "list",
    "kill",
    "pause",
    "timeout",
    "network",
    "snapshot",
    "snapshots",
    "alias",
    "tags",
    "delete_template",
    # envd
    "health",
    "read",
    "write",
    "Start",
    "Connect",
    "StreamInput",
    "List",
    "SendSignal",
    "SendInput",
    "CloseStdin",
    "Stat",
    "MakeDir",
    "Move",
    "Remove",
    "ListDir",
]


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """Answers with this status. With `done`, only after having done what was asked; with `page`, with a gateway's
    HTML instead of JSON."""

    status: int
    message: str = "trouble on demand"
    retry_after_s: int | None = None
    done: bool = False
    page: bool = False


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Begins only after so many seconds, also when the caller has gone by then."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Of a stream: the connection breaks after so many messages. The start is one."""

    messages: int


@dataclass(frozen=True, kw_only=True)
class NoEnd:
    """Of a stream: ends well, but nobody says how the process did."""


@dataclass(frozen=True, kw_only=True)
class LostFiles:
    """Of `connect` to a paused sandbox: it resumes with the files of its template alone."""


@dataclass(frozen=True, kw_only=True)
class OtherId:
    """Of `connect`: answers with another, new sandbox of the same template and metadata."""


Fault = Refuse | Slow | Cut | NoEnd | LostFiles | OtherId


@dataclass
class _Plan:
    call: Call
    fault: Fault
    skip: int
    times: int


class Faults:
    """What is to go wrong. Faults of one call happen in the order they were planned, one a call."""

    def __init__(self) -> None:
        self._plans: list[_Plan] = []
        self.seen: Counter[str] = Counter()
        """How often each call came, faults included."""

    def on(self, call: Call, fault: Fault, *, skip: int = 0, times: int = 1) -> None:
        """From the `skip`th next such call on, so many times."""
        if call not in get_args(Call):
            raise ValueError(f"no such call: {call}")
        self._plans.append(_Plan(call, fault, skip, times))

    @property
    def unused(self) -> int:
        """How many planned faults have not happened."""
        return sum(plan.times for plan in self._plans)

    def clear(self) -> None:
        self._plans.clear()

    def take(self, call: Call) -> Fault | None:
        """What goes wrong with this call, which has come now."""
        self.seen[call] += 1
        plan = next((plan for plan in self._plans if plan.call == call), None)
        if plan is None:
            return None
        if plan.skip:
            plan.skip -= 1
            return None
        plan.times -= 1
        if not plan.times:
            self._plans.remove(plan)
        return plan.fault
