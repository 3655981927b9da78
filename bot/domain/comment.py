"""Every sentence the bot says to people on GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.domain import gate
from bot.domain.budget import Spend
from bot.domain.episode import Code, Episode
from bot.domain.gate import Finding
from bot.domain.markdown import defuse, fence, one_line, truncate
from bot.domain.task import State, Task

LIMIT = 65_000
"""GitHub refuses bodies above 65,536 characters."""

HELP = """\
I fix issues and prove it: the result is checked in a fresh sandbox before a pull request is opened.

| comment | does |
|---|---|
| `/coder fix [what to mind]` | starts, or goes on with, the work on this issue |
| `/coder ask QUESTION` | answers from the code, changes nothing |
| `/coder plan` | says what would be done, changes nothing |
| `/coder finish` | wraps up with what is there |
| `/coder approve` | publishes a result that waits for approval |
| `/coder retry` | goes on after a stop, a failure or a limit |
| `/coder stop` | stops; what was done is kept |
| `/coder status`, `/coder config`, `/coder help` | says where things stand, which rules hold, this |
"""

_STAGES = {
    State.QUEUED: 0,
    State.PROVISIONING: 0,
    State.WORKING: 1,
    State.VERIFYING: 2,
    State.AWAITING_APPROVAL: 3,
    State.IN_REVIEW: 4,
}
_STEPS = ("sandbox ready", "working", "verified in a fresh sandbox", "pull request")

_NEXT = {
    Code.NO_CHANGE: "Say more with `/coder fix …`, or close the issue if there is nothing to do.",
    Code.ANSWERED: "`/coder fix` starts the work.",
    Code.CHECKS_FAILED: "`/coder retry` tries again; `/coder fix …` tells me what to mind.",
    Code.UNVERIFIED: "Name checks that run tests in `.github/coder.yml`, then `/coder retry`.",
    Code.NO_PROGRESS: "`/coder fix …` with more detail starts again.",
    Code.MODEL_UNUSABLE: "Ask the operator of this bot to look at the model's settings, then `/coder retry`.",
    Code.SETUP_FAILED: "Mend `setup` in `.github/coder.yml`, then `/coder retry`.",
    Code.CLONE_FAILED: "`/coder retry` tries again.",
    Code.SANDBOX_LOST: "`/coder retry` goes on.",
    Code.CONFIG_INVALID: "Mend `.github/coder.yml`, then `/coder retry`.",
    Code.WRITE_REFUSED: "See that the App may write here, then `/coder retry`.",
    Code.PERMISSION_DENIED: "Widen `grants` in `.github/coder.yml`, then `/coder retry`.",
    Code.BUDGET_EXCEEDED: "Raise the limit in `.github/coder.yml`, then `/coder retry`.",
    Code.LIMIT_EXCEEDED: "`/coder retry` goes on with a fresh allowance.",
    Code.POLICY_REFUSED: "See `commands` and `paths` in `.github/coder.yml`; `/coder fix …` says what to leave out.",
    Code.STOPPED: "`/coder retry` goes on.",
}


def task_marker(task_id: str) -> str:
    """What the task's live comment is found by; trusted only in comments of our own."""
    return f"<!-- coder-bot:task={task_id} -->"


def answer_marker(guid: str) -> str:
    return f"<!-- coder-bot:delivery={guid} -->"


def answer(guid: str, text: str) -> str:
    """A comment that answers one command."""
    return f"{truncate(text, LIMIT, 'the rest was cut')}\n\n{answer_marker(guid)}"


def refusal(login: str, permission: str) -> str:
    """To somebody who may not give commands; said once per person and issue."""
    return f"Sorry @{login}, I only take commands from people with {permission} access to this repository."


def config_problem(path: str, problems: str) -> str:
    return (
        f"I can't start: `{path}` on the default branch has an error, and I won't guess what was meant.\n\n{problems}"
    )


def status(
    task: Task, episode: Episode, spent: Spend, receipt: Mapping[str, Any] | None, notices: Sequence[str] = ()
) -> str:
    """The live comment of a task, whole; `notices` are sentences of ours about what happened on the way."""
    parts = [_headline(task, episode)]
    resting = task.state in (State.AWAITING_APPROVAL, State.IN_REVIEW) and _is_good(episode)
    if episode.kind == "fix" and (task.is_busy or resting):
        parts.append(_checklist(task))
    if episode.code in (Code.ANSWERED, Code.NO_CHANGE) and episode.summary:
        parts.append(defuse(episode.summary))
    if receipt is not None and episode.attempts:
        parts.append(receipt_table(receipt))
    waits = task.is_busy or task.state is State.AWAITING_APPROVAL
    if episode.code is not None and episode.code in _NEXT and not waits:
        parts.append(_NEXT[episode.code])
    parts.extend(notices)
    parts.append(f"<sub>{_spend(spent)} · asked for by {episode.requester}</sub>")
    return f"{truncate(chr(10).join(_spaced(parts)), LIMIT, 'the rest was cut')}\n\n{task_marker(task.id)}"


def pull_request_body(task: Task, episode: Episode, receipt: Mapping[str, Any]) -> str:
    """What reviewers read first: what and why, then the receipt. Links the issue exactly once."""
    summary = defuse(episode.summary) or "See the issue."
    parts = [mind(receipt.get("findings", ())), _approved(episode), summary, receipt_table(receipt)]
    body = truncate("\n\n".join(filter(None, parts)), LIMIT - 500, "the rest was cut")
    return f"Fixes #{task.number}\n\n{body}\n\n{task_marker(task.id)}"


def pull_request_title(task: Task, episode: Episode) -> str:
    return one_line(episode.title, 120) or f"Fix #{task.number}: {one_line(task.title, 100)}"


def commit_message(task: Task, episode: Episode) -> str:
    return f"{pull_request_title(task, episode)}\n\nFor issue #{task.number}, asked for by {episode.requester}."


def mind(findings: Sequence[Mapping[str, Any]]) -> str:
    """What people should look at first, as a list; empty where there is nothing."""
    if not findings:
        return ""
    return f"**Mind these:**\n\n{gate.listed([_finding(each) for each in findings])}"


def refused(findings: Sequence[Finding]) -> str:
    """What the model is told, once, of a change that may not be published. `is_refusal` knows it again."""
    return (
        f"{_REFUSED}:\n{gate.listed([each.text for each in findings])}\n"
        "Undo that and keep the rest; say in the summary what a person has to do by hand. Then call `submit` again."
    )


def is_refusal(note: str | None) -> bool:
    """Whether a note to the model says so."""
    return any(part.startswith(_REFUSED) for part in (note or "").split("\n\n"))


def refusal_reasons(findings: Sequence[Finding]) -> str:
    """The same for people."""
    return f"The change may not be published:\n{gate.listed([each.text for each in findings])}"


def workflows_refused(workflows: Sequence[str], refusal: str) -> str:
    """To people, when GitHub does not let the App publish workflow files."""
    names = ", ".join(f"`{gate.shown(path)}`" for path in workflows[:5])
    return (
        f"The change has workflow files ({names}), and GitHub refused it, most likely because the App lacks the "
        "permission `workflows: write`. Give it to the App, accept that for this installation, and say "
        "`/coder approve` again; or say `/coder fix …` to have the rest without these files. "
        f"{refusal}"
    )


def approval_marker(task_id: str, episode: int, tree: str) -> str:
    """What the comment is found by that shows a result to be approved."""
    return f"<!-- coder-bot:approval={task_id}/{episode}/{tree} -->"


def approval(task: Task, episode: Episode, receipt: Mapping[str, Any], diff: Diff) -> str:
    """The comment that shows a verified change before it is published anywhere."""
    tree = str(receipt["tree"])
    parts = [
        f"✋ **Verified, and waiting for approval.** Nothing is published yet.\n\n{one_line(episode.title, 120)}",
        mind(receipt.get("findings", ())),
        truncate(receipt_table(receipt), 8_000, "the rest was cut"),
        f"<details><summary>The change: {diff.files} file{'s' * (diff.files != 1)}</summary>\n\n"
        f"{fence(diff.text, 'diff')}\n\n</details>",
        f"⚠️ Too long to be shown whole here: {diff.left_out}." if diff.left_out else "",
        f"`/coder approve` by anybody with write access publishes exactly the tree `{tree[:12]}`, and nothing that "
        "comes later. `/coder fix …` goes on with the work, `/coder stop` ends it.",
    ]
    shown = "\n\n".join(filter(None, parts))
    return f"{truncate(shown, LIMIT, 'the rest was cut')}\n\n{approval_marker(task.id, episode.number, tree)}"


@dataclass(frozen=True, kw_only=True)
class Diff:
    """A change as text; `left_out` says what did not fit, empty where all did."""

    text: str
    files: int
    left_out: str = ""


def receipt_table(receipt: Mapping[str, Any]) -> str:
    """The receipt as reviewers see it."""
    rows = [
        f"| `{check['name']}` | {check['exit_code'] if not check['timed_out'] else 'time-out'} "
        f"| {_count(check['passed'])} | {_count(check['failed'])} | {_count(check['skipped'])} |"
        for check in receipt["checks"]
    ]
    table = "\n".join(["| check | exit code | passed | failed | skipped |", "|---|---|---|---|---|", *rows])
    reasons = "\n".join(f"- {one_line(reason, 1000)}" for reason in receipt["reasons"])
    snapshot = receipt.get("snapshot")  # older receipts don't say
    start = f", started from snapshot `{snapshot['id']}` of commit `{snapshot['commit'][:12]}`" if snapshot else ""
    where = (
        f"Tree `{receipt['tree'][:12]}` on base `{receipt['base'][:12]}`, run in a fresh sandbox "
        f"that the agent never touched{start}."
    )
    return f"**Receipt: {receipt['verdict']}**\n\n{reasons}\n\n{table if rows else ''}\n\n<sub>{where}</sub>"


def feedback(reasons: tuple[str, ...], outputs: Mapping[str, str]) -> str:
    """What the model is told when verification says no."""
    blocks = [f"Output of `{name}`:\n{fence(text)}" for name, text in outputs.items()]
    told = "\n".join(f"- {reason}" for reason in reasons)
    return (
        f"Your change was verified in a fresh sandbox and did not pass:\n{told}\n\n"
        + "\n\n".join(blocks)
        + "\n\nMend it and call `submit` again."
    )


_REFUSED = "Your change can't be published as it is"


def _finding(finding: Mapping[str, Any]) -> str:
    return one_line(str(finding["text"]), 1000)


def _approved(episode: Episode) -> str:
    return f"Approved for publishing by {episode.approved_by}." if episode.approved_by else ""


def _headline(task: Task, episode: Episode) -> str:
    if task.needs_slot and task.is_busy:
        return "⏳ Waiting for a free sandbox: all that may run at once are in use. It goes on by itself."
    match task.state:
        case State.QUEUED | State.PROVISIONING:
            return "⏳ Getting a sandbox ready."
        case State.WORKING:
            again = f" (attempt {episode.attempts + 1})" if episode.attempts else ""
            return f"🔧 Working on it{again}."
        case State.VERIFYING:
            return "🔎 Verifying the change in a fresh sandbox."
        case State.AWAITING_APPROVAL:
            refusal = f"\n\n{_said(episode)}" if episode.code is not None else ""
            approve = "`/coder approve` by somebody with write access publishes exactly the change that is shown"
            return f"✋ Verified. {approve} in a comment of its own here.{refusal}"
        case State.IN_REVIEW if _is_good(episode):
            return f"🚀 Done: #{task.pull_request}."
        case State.CLOSED:
            return f"🏁 Ended: {task.closed_reason}."
        case _:
            return _ended(task, episode)


def _is_good(episode: Episode) -> bool:
    return episode.code in (None, Code.VERIFIED)


def _ended(task: Task, episode: Episode) -> str:
    if episode.code in (Code.ANSWERED, Code.NO_CHANGE):
        return "💬 Here is what I found." if episode.code is Code.ANSWERED else f"🤷 {_said(episode)}"
    if episode.code is None:
        return "⏸️ Waiting."
    mark = "🛑" if episode.code.outcome == "cancelled" else "😕"
    what = "No pull request" if task.pull_request is None else f"Nothing new on #{task.pull_request}"
    return f"{mark} {what} ({episode.code}). {_said(episode)}"


def _said(episode: Episode) -> str:
    first, _, rest = episode.detail.partition("\n")
    return f"{defuse(first)}\n\n{fence(rest)}" if rest.strip() else defuse(first)


def _checklist(task: Task) -> str:
    reached = _STAGES.get(task.state, 0)
    return "\n".join(f"- [{'x' if place < reached else ' '}] {name}" for place, name in enumerate(_STEPS))


def _spend(spent: Spend) -> str:
    cost = "cost unknown" if spent.cost is None else f"${spent.cost:.2f}"
    return f"{spent.steps} steps, {spent.tool_calls} tool calls, {spent.tokens:,} tokens, {cost}"


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _spaced(parts: list[str]) -> list[str]:
    return [line for part in parts for line in (part, "")][:-1]
