"""The agent loop: model, tools, model … until something is submitted or a limit stands in the way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Protocol

from pydantic import TypeAdapter

from bot.agent.tools import Observation, Submit, Toolbox, may_change, submission
from bot.domain.budget import Allowance, Exceeded, Spend, Usage, before_call, before_reply
from bot.domain.episode import Code
from bot.domain.transcript import LOST_CALL, NOT_RUN, Call, Step, too_large, too_large_note
from bot.llm.protocol import Message, Model, Reply, ToolCall, ToolResult, UserMessage

MAX_OUTPUT_TOKENS = 16_000
REPLY_TIMEOUT_S = 600.0
REFUSALS = 8
"""Calls refused in a row that end an episode."""
REFUSALS_IN_ALL = 60
"""Calls refused in an episode that end it, whatever was allowed between them."""
SILENCES = 2
"""Replies without any tool call in a row that end an episode."""
TOO_LARGE_STEPS = 3
"""Steps in a row that may begin with a change too large to be kept."""
CHARS_PER_TOKEN = 3
"""A prompt's tokens are never more than its characters by this; text in the wild has about four."""

NUDGE = "You called no tool. Go on with your tools, or call `submit` if you are done."

_replies = TypeAdapter(Reply)


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """The agent, or a person by `/coder finish`, says the work is done."""

    title: str
    summary: str
    replies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The episode is over without a submission."""

    code: Code
    detail: str


class Record(Protocol):
    """Where steps are saved as they happen; each method is one durable write."""

    async def add_step(
        self,
        *,
        number: int,
        note: str | None,
        reply: dict[str, object],
        usage: Usage,
        cost: Decimal | None,
        duration_s: float,
    ) -> Step: ...

    async def add_call(self, step_id: int, call: Call) -> None: ...

    async def checkpoint(self) -> str | None:
        """Keeps what the work tree holds now; else what about it is too large, or can't be read."""
        ...

    async def is_finishing(self) -> bool: ...


async def run(
    *,
    model: Model,
    system: str,
    task: str,
    steps: tuple[Step, ...],
    feedback: str | None,
    earlier: Spend,
    toolbox: Toolbox,
    allowed: Allowance,
    record: Record,
) -> Submitted | Ended:
    """Goes on from the steps that were saved, so that after a crash at most the call in flight is repeated. The
    changes of each step are kept before the next reply is asked for: at most one step is lost with a sandbox.

    `earlier` is what former episodes of the task used of its tokens and cost."""
    messages, spend = _replay(task, steps, earlier)
    refusals, silences = _streaks(steps)
    refused = sum(call.refused for step in steps for call in step.calls)
    unfinished = _unfinished(steps)
    resumed = unfinished is not None
    changed = bool(steps) and _changes(steps[-1].calls)
    large = too_large(steps)
    number = len(steps)
    while True:
        if unfinished is None:
            if await record.is_finishing():
                return Submitted(title="", summary="Finished at request, with what was there.")
            if silences >= SILENCES:
                return Ended(code=Code.NO_PROGRESS, detail="The model stopped without submitting anything.")
            if changed or large:
                started = time.monotonic()
                problem = await record.checkpoint()
                spend = replace(spend, duration_s=spend.duration_s + time.monotonic() - started)
                large = large + 1 if problem else 0
                if problem and large > TOO_LARGE_STEPS:
                    return _paused(problem, number - large)
                if problem:
                    feedback = "\n\n".join(filter(None, (too_large_note(problem), feedback)))
            if silences:
                feedback = feedback or NUDGE
            if feedback:
                messages.append(UserMessage(text=feedback))
            worst = Usage(input_tokens=_tokens(system, messages), output_tokens=MAX_OUTPUT_TOKENS)
            if stop := before_reply(spend, allowed, worst=worst, price=model.price):
                return _over(stop)
            started = time.monotonic()
            reply = await model.reply(
                system=system,
                messages=messages,
                tools=toolbox.specs(),
                max_output_tokens=MAX_OUTPUT_TOKENS,
                timeout_s=min(REPLY_TIMEOUT_S, max(1.0, allowed.duration_s - spend.duration_s)),
            )
            took = time.monotonic() - started
            number += 1
            step = await record.add_step(
                number=number,
                note=feedback,
                reply=_replies.dump_python(reply, mode="json"),
                usage=reply.usage,
                cost=None if model.price is None else model.price.of(reply.usage),
                duration_s=took,
            )
            spend = spend.after_reply(reply.usage, price=model.price, duration_s=took)
            messages.append(reply)
            feedback = None
            changed = False
            done = 0
        else:
            step, reply, done = unfinished
            unfinished = None
        silences = 0 if reply.tool_calls else silences + 1
        for position, call in enumerate(reply.tool_calls[done:], done):
            if stop := before_call(spend, allowed):
                return _over(stop)
            started = time.monotonic()
            left = max(1.0, allowed.duration_s - spend.duration_s)
            observation = await toolbox.run(call, timeout_s=left, repeated=resumed)
            resumed = False
            took = time.monotonic() - started
            finished = _finished(position, call, observation, took)
            await record.add_call(step.id, finished)
            changed = changed or may_change(finished)
            spend = spend.after_call(took)
            messages.append(ToolResult(call_id=call.id, text=observation.text))
            refusals = refusals + 1 if observation.refused else 0
            refused += observation.refused
            if observation.denied:
                return Ended(code=Code.PERMISSION_DENIED, detail=observation.text)
            if refusals >= REFUSALS or (observation.refused and refused >= REFUSALS_IN_ALL):
                times = f"{refusals} calls in a row" if refusals >= REFUSALS else f"{refused} calls"
                return Ended(code=Code.POLICY_REFUSED, detail=f"{times} were refused: {observation.text}")
            if observation.submitted:
                return _submitted(observation.submitted)


def submitted(steps: tuple[Step, ...]) -> Submitted | None:
    """The submission that the last saved step ended with, if it did: work after it was lost, not the step."""
    if not steps or not steps[-1].calls:
        return None
    last = steps[-1].calls[-1]
    found = submission(last.name, last.arguments) if last.result not in (LOST_CALL, NOT_RUN) else None
    return _submitted(found) if found else None


def _submitted(said: Submit) -> Submitted:
    return Submitted(title=said.title, summary=said.summary, replies=said.replies)


def lost(steps: tuple[Step, ...]) -> tuple[tuple[Call, ...], int]:
    """What the loss of the sandbox means for an episode: how the last step's open calls ended, to be saved, and the
    step whose files the last checkpoint surely holds (0: those the episode began with)."""
    if not steps:
        return (), 0
    last, large = steps[-1], too_large(steps)
    calls: list[Call] = []
    if unfinished := _unfinished(steps):
        _, reply, done = unfinished
        for position, asked in enumerate(reply.tool_calls[done:], done):
            result = NOT_RUN if calls else LOST_CALL
            calls.append(_finished(position, asked, Observation(text=result), 0.0))
    if large:
        return tuple(calls), max(0, last.number - large - 1)
    return tuple(calls), last.number - 1 if calls or _changes(last.calls) else last.number


def _changes(calls: tuple[Call, ...]) -> bool:
    return any(may_change(call) for call in calls)


def _replay(task: str, steps: tuple[Step, ...], earlier: Spend) -> tuple[list[Message], Spend]:
    messages: list[Message] = [UserMessage(text=task)]
    spend = Spend(tokens=earlier.tokens, cost=earlier.cost)
    for step in steps:
        reply = _replies.validate_python(step.reply)
        if step.note:
            messages.append(UserMessage(text=step.note))
        messages.append(reply)
        for call, asked in zip(step.calls, reply.tool_calls, strict=False):
            messages.append(ToolResult(call_id=asked.id, text=call.result))
        if step is not steps[-1] or submitted(steps):
            # A call that was never run, because the step ended at an earlier one, still needs an answer.
            messages += [ToolResult(call_id=c.id, text="Not run.") for c in reply.tool_calls[len(step.calls) :]]
        spend = Spend(
            steps=spend.steps + 1,
            tool_calls=spend.tool_calls + len(step.calls),
            tokens=spend.tokens + step.usage.tokens,
            duration_s=spend.duration_s + step.duration_s + sum(call.duration_s for call in step.calls),
            cost=None if spend.cost is None or step.cost is None else spend.cost + step.cost,
        )
    return messages, spend


def _unfinished(steps: tuple[Step, ...]) -> tuple[Step, Reply, int] | None:
    """The last step, if calls of it are still to be run (a good submission ends its step)."""
    if not steps or submitted(steps):
        return None
    reply = _replies.validate_python(steps[-1].reply)
    done = len(steps[-1].calls)
    return (steps[-1], reply, done) if done < len(reply.tool_calls) else None


def _streaks(steps: tuple[Step, ...]) -> tuple[int, int]:
    """How many calls in a row, and replies without calls in a row, the saved steps end with."""
    refusals = silences = 0
    for step in steps:
        for call in step.calls:
            refusals = refusals + 1 if call.refused else 0
    for step in steps:
        silences = 0 if step.reply["tool_calls"] else silences + 1
    return refusals, silences


def _finished(position: int, call: ToolCall, observation: Observation, duration_s: float) -> Call:
    return Call(
        position=position,
        name=call.name,
        arguments=call.arguments,
        result=observation.text,
        exit_code=observation.exit_code,
        duration_s=duration_s,
        refused=observation.refused,
    )


def _tokens(system: str, messages: list[Message]) -> int:
    characters = len(system)
    for message in messages:
        match message:
            case UserMessage(text=text) | ToolResult(text=text):
                characters += len(text)
            case Reply(text=text, tool_calls=calls, raw=raw):
                characters += len(str(raw)) if raw else len(text) + sum(len(str(call.arguments)) for call in calls)
    return characters // CHARS_PER_TOKEN + 2_000  # the tools' own descriptions


def _paused(problem: str, kept: int) -> Ended:
    what = f"what there was after step {kept}" if kept > 0 else "what there was before this episode"
    return Ended(
        code=Code.LIMIT_EXCEEDED,
        detail=f"The change can't be kept: {problem.rstrip('.')}. It stayed so for {TOO_LARGE_STEPS} steps after the "
        f"model was told. The last checkpoint holds {what}. (`limits.files`, `limits.patch`)",
    )


def _over(stop: Exceeded) -> Ended:
    code = Code.BUDGET_EXCEEDED if stop.is_budget else Code.LIMIT_EXCEEDED
    return Ended(code=code, detail=f"{stop.sentence} (`limits.{stop.limit}`)")
