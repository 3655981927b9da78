"""Every sentence the bot says to people on GitHub."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.domain import gate, receipt_text
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
_VERIFIED = "verified in a fresh sandbox"
_STEPS = ("sandbox ready", "working", _VERIFIED, "pull request")

_NEXT: Mapping[Code, tuple[str, str]] = {
    Code.NO_CHANGE: (
        "`/coder fix …` says more of what is wrong.",
        "Close the issue if there is nothing to do.",
    ),
    Code.ANSWERED: ("`/coder fix` starts the work.", "`/coder ask …` asks on."),
    Code.CHECKS_FAILED: (
        "`/coder fix …` tells me what to mind, and I go on from this change.",
        "`/coder retry` tries again as it is.",
    ),
    Code.UNVERIFIED: (
        "Name checks that run tests under `checks` in `.github/coder.yml`, then `/coder retry`.",
        "`/coder fix …` tells me which test to write, or what to leave as it was.",
    ),
    Code.NO_PROGRESS: (
        "`/coder fix …` starts again with more detail.",
        "`/coder plan` shows first what I would do.",
    ),
    Code.MODEL_UNUSABLE: (
        "Ask the operator of this bot to look at the model's settings (`coder-bot doctor`).",
        "`/coder retry` goes on then.",
    ),
    Code.SETUP_FAILED: (
        "Mend `setup` in `.github/coder.yml`, or what it installs.",
        "`/coder retry` starts again then.",
    ),
    Code.CLONE_FAILED: (
        "`/coder retry` tries again.",
        "If it fails again, ask the operator of this bot to run `coder-bot doctor`.",
    ),
    Code.SANDBOX_LOST: (
        "`/coder retry` goes on with what was saved.",
        "If it fails again, ask the operator of this bot to run `coder-bot doctor`.",
    ),
    Code.CONFIG_INVALID: (
        "Mend `.github/coder.yml`; `coder-bot config check` names each error.",
        "`/coder retry` starts again then.",
    ),
    Code.WRITE_REFUSED: (
        "See that the App may write here, and that no rule of the repository forbids it.",
        "`/coder retry` goes on then.",
    ),
    Code.PERMISSION_DENIED: (
        "Widen `grants` in `.github/coder.yml`.",
        "`/coder retry` starts again then.",
    ),
    Code.BUDGET_EXCEEDED: (
        "Raise the limit under `limits` in `.github/coder.yml`, then `/coder retry`.",
        "Open an issue for a smaller part of it, and say `/coder fix` there.",
    ),
    Code.LIMIT_EXCEEDED: (
        "`/coder retry` goes on with a fresh allowance.",
        "Raise the limit under `limits` in `.github/coder.yml` first if it was too low.",
    ),
    Code.POLICY_REFUSED: (
        "`/coder fix …` says what to leave out.",
        "Change `commands` or `paths` in `.github/coder.yml` if it ought to be allowed, then `/coder retry`.",
    ),
    Code.STOPPED: ("`/coder retry` goes on.", "`/coder fix …` goes on in another way."),
}
"""What a person can do after each end."""


@dataclass(frozen=True, kw_only=True)
class Diff:
    """A change as text; `left_out` says what did not fit, empty where all did."""

    text: str
    files: int
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class Unpublished:
    """What an episode leaves that ended without a pull request. `outputs` are the ends of what failing checks have
    printed, by a check's name and how it ended; `diff` is the change, None where it is not shown; `kept` says why."""

    outputs: Mapping[str, str]
    diff: Diff | None
    kept: str = ""


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
    task: Task,
    episode: Episode,
    spent: Spend,
    receipt: Mapping[str, Any] | None,
    notices: Sequence[str] = (),
    unpublished: Unpublished | None = None,
) -> str:
    """The live comment of a task, whole; `notices` are sentences of ours about what happened on the way."""
    judged = receipt if episode.attempts else None
    is_draft = judged is not None and bool(judged.get("draft"))
    parts = [_headline(task, episode, judged)]
    resting = task.state in (State.AWAITING_APPROVAL, State.IN_REVIEW) and (is_draft or _is_good(episode))
    if episode.kind == "fix" and (task.is_busy or resting):
        parts.append(_checklist(task, is_draft=is_draft))
    if episode.code in (Code.ANSWERED, Code.NO_CHANGE) and episode.summary:
        parts.append(defuse(episode.summary))
    if judged is not None:
        parts.append(receipt_text.table(judged))
    if unpublished is not None:
        parts.extend(_unpublished(unpublished))
    waits = task.is_busy or task.state is State.AWAITING_APPROVAL
    if episode.code is not None and episode.code in _NEXT and not waits and not (is_draft and resting):
        one, other = _NEXT[episode.code]
        parts.append(f"What you can do next:\n- {one}\n- {other}")
    parts.extend(notices)
    parts.append(f"<sub>{_spend(spent)} · asked for by {episode.requester}</sub>")
    return f"{truncate(chr(10).join(_spaced(parts)), LIMIT, 'the rest was cut')}\n\n{task_marker(task.id)}"


def _unpublished(left: Unpublished) -> Iterator[str]:
    for name, output in left.outputs.items():
        told = html.escape(gate.shown(name))
        yield f"<details><summary>The end of the output: {told}</summary>\n\n{fence(output)}\n\n</details>"
    if left.diff is not None:
        yield _details(left.diff)
        if left.diff.left_out:
            yield f"Too long to be shown whole here: {left.diff.left_out}. All of it is kept for `/coder retry`."
    if left.kept:
        yield left.kept


def _details(diff: Diff) -> str:
    return (
        f"<details><summary>The change: {diff.files} file{'s' * (diff.files != 1)}</summary>\n\n"
        f"{fence(diff.text, 'diff')}\n\n</details>"
    )


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


def rebuild(paths: Sequence[str], former: Diff) -> str:
    """What the model is told when its change no longer merges with the base. `is_rebuild` knows it again."""
    cut = f"\n(The rest is left out: {former.left_out}.)" if former.left_out else ""
    named = ", ".join(f"`{gate.shown(path)}`" for path in paths[:20])
    return (
        f"{_REBUILD}: both changed {named}. The work tree is a new one now, with the base as it is today and without "
        f"your change. Make your change again there, and keep what others have done. This was it:\n"
        f"{fence(former.text, 'diff')}{cut}\nThen call `submit` again."
    )


def is_rebuild(note: str | None) -> bool:
    """Whether a note to the model says so."""
    return any(part.startswith(_REBUILD) for part in (note or "").split("\n\n"))


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
    """The comment that shows a change, verified or to be a draft, before it is published anywhere."""
    tree = str(receipt["tree"])
    what = "Unverified, to be published as a draft" if receipt.get("draft") else "Verified"
    parts = [
        f"✋ **{what}, and waiting for approval.** Nothing is published yet.\n\n{one_line(episode.title, 120)}",
        mind((*receipt.get("findings", ()), *receipt.get("flags", ()))),
        truncate(receipt_text.table(receipt), 8_000, "the rest was cut"),
        _details(diff),
        f"⚠️ Too long to be shown whole here: {diff.left_out}; look at the rest before you approve it."
        if diff.left_out
        else "",
        f"`/coder approve` by anybody with write access publishes exactly the tree `{tree[:12]}`, and nothing that "
        "comes later. `/coder fix …` goes on with the work, `/coder stop` ends it.",
    ]
    shown = "\n\n".join(filter(None, parts))
    return f"{truncate(shown, LIMIT, 'the rest was cut')}\n\n{approval_marker(task.id, episode.number, tree)}"


def feedback(reasons: tuple[str, ...], outputs: Mapping[str, str]) -> str:
    """What the model is told when verification says no."""
    blocks = [f"Output of `{name}`:\n{fence(text)}" for name, text in outputs.items()]
    told = "\n".join(f"- {reason}" for reason in reasons)
    return (
        f"Your change was verified in a fresh sandbox and did not pass:\n{told}\n\n"
        + "\n\n".join(blocks)
        + "\n\nMend it and call `submit` again."
    )


_REBUILD = "Your change was verified, but no longer merges with the base branch"
_REFUSED = "Your change can't be published as it is"


def _finding(finding: Mapping[str, Any]) -> str:
    return one_line(str(finding["text"]), 1000)


def _headline(task: Task, episode: Episode, receipt: Mapping[str, Any] | None) -> str:
    is_draft = receipt is not None and bool(receipt.get("draft"))
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
            what = "Unverified, to be a draft" if is_draft else "Verified"
            return f"✋ {what}. {approve} in a comment of its own here.{refusal}"
        case State.IN_REVIEW if is_draft and episode.code is Code.UNVERIFIED:
            return f"📝 Unverified: #{task.pull_request} is a draft that says why."
        case State.IN_REVIEW if _is_good(episode):
            return f"🚀 Done: #{task.pull_request}."
        case State.CLOSED:
            return f"🏁 Ended: {task.closed_reason}."
        case _:
            return _ended(task, episode, receipt)


def _is_good(episode: Episode) -> bool:
    return episode.code in (None, Code.VERIFIED)


def _ended(task: Task, episode: Episode, receipt: Mapping[str, Any] | None) -> str:
    if episode.code in (Code.ANSWERED, Code.NO_CHANGE):
        return "💬 Here is what I found." if episode.code is Code.ANSWERED else f"🤷 {_said(episode)}"
    if episode.code is None:
        return "⏸️ Waiting."
    mark = "🛑" if episode.code.outcome == "cancelled" else "😕"
    what = "No pull request" if task.pull_request is None else f"Nothing new on #{task.pull_request}"
    if receipt is not None and episode.detail == " ".join(receipt["reasons"]):
        return f"{mark} {what} ({episode.code}). The receipt says why."
    return f"{mark} {what} ({episode.code}). {_said(episode)}"


def _said(episode: Episode) -> str:
    first, _, rest = episode.detail.partition("\n")
    return f"{defuse(first)}\n\n{fence(rest)}" if rest.strip() else defuse(first)


def _checklist(task: Task, *, is_draft: bool) -> str:
    """An unverified draft has its step as one that was not taken."""
    reached = _STAGES.get(task.state, 0)
    done = [place < reached and not (is_draft and name == _VERIFIED) for place, name in enumerate(_STEPS)]
    return "\n".join(f"- [{'x' if is_done else ' '}] {name}" for is_done, name in zip(done, _STEPS, strict=True))


def _spend(spent: Spend) -> str:
    cost = "cost unknown" if spent.cost is None else f"${spent.cost:.2f}"
    return f"{spent.steps} steps, {spent.tool_calls} tool calls, {spent.tokens:,} tokens, {cost}"


def _spaced(parts: list[str]) -> list[str]:
    return [line for part in parts for line in (part, "")][:-1]
