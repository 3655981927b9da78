"""A task's record for an operator's terminal: what was asked, what the agent did, and what it was refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from bot.domain.episode import Episode
from bot.domain.invisible import clean
from bot.domain.task import Task
from bot.domain.transcript import Call, Step, spend

WIDTH = 160
"""Characters of one line that may be a model's or a stranger's."""


def lines(task: Task, episodes: Iterable[tuple[Episode, Sequence[Step]]]) -> Iterator[str]:
    """The record from the first episode on, a line for each thing that happened. No line holds a control character,
    whoever wrote it."""
    yield f"{task.id}  {task.state}  {task.full_name}#{task.number}  {_line(task.title)}"
    if task.pull_request_url:
        yield f"pull request #{task.pull_request}: {task.pull_request_url}"
    for episode, steps in episodes:
        used = spend(tuple(steps))
        refused = sum(call.refused for step in steps for call in step.calls)
        ended = f"{episode.code}: {_line(episode.detail)}" if episode.code else "not ended"
        yield ""
        yield f"episode {episode.number}: {episode.kind}, asked for by {_line(episode.requester)}; {ended}"
        yield f"  {used.steps} steps, {used.tool_calls} tool calls, {refused} of them refused, {used.tokens:,} tokens"
        for step in steps:
            yield f"  step {step.number}: {_line(str(step.reply.get('text') or ''))}".rstrip(": ")
            yield from map(_call, step.calls)


def _call(call: Call) -> str:
    arguments = " ".join(
        json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
        for value in (call.arguments or {}).values()
    )
    what = f"{_line(call.name)} {_line(arguments)}".rstrip()
    if call.refused:
        return f"    REFUSED {what}: {_line(call.result)}"
    code = "" if call.exit_code is None else f"exit {call.exit_code}, "
    return f"    {what}: {code}{call.duration_s:.1f} s"


def _line(text: str) -> str:
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= WIDTH else f"{flat[: WIDTH - 1]}…"
