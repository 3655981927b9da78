"""Every sentence the bot says to people on GitHub."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.domain import gate, receipt_text
from bot.domain.budget import Allowance, Spend
from bot.domain.doing import ago, coarse, code, queue
from bot.domain.episode import Code, Episode
from bot.domain.gate import Finding
from bot.domain.markdown import defuse, fence, one_line, truncate
from bot.domain.next_steps import after, after_close
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

OVER = "This pull request is one of mine, and its task is over. Say `/coder fix` on its issue to start another one."
FORK = (
    "This pull request comes from a fork, where I may not write. Open an issue here and say `/coder fix` there, or "
    "have the branch pushed to this repository."
)

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


@dataclass(frozen=True, kw_only=True)
class SoFar:
    """What the rows say of a task's newest episode beside itself: `spent` is the task's over all its episodes, `own`
    that episode's part of it; `now` is the time by which people read "3 minutes ago"."""

    now: datetime
    spent: Spend
    own: Spend
    allowed: Allowance
    attempts: int
    """How many candidates verification may judge."""
    doing: str = ""
    """What is going on right now, as `bot.domain.doing` says it."""
    ahead: int = 0
    """Tasks that have waited longer for a sandbox, where it waits for one."""
    request: str | None = None
    """The address of what asked for it, where that is known."""


def task_marker(task_id: str) -> str:
    """What the task's live comment is found by; trusted only in comments of our own."""
    return f"<!-- coder-bot:task={task_id} -->"


def answer_marker(guid: str) -> str:
    return f"<!-- coder-bot:delivery={guid} -->"


def marked(text: str, marker: str) -> str:
    """A comment as GitHub takes it, in its length and its letters, that is found again by its marker."""
    sendable = text.encode("utf-8", "replace").decode()
    return f"{truncate(sendable, LIMIT, 'the rest was cut')}\n\n{marker}"


def answer(guid: str, text: str) -> str:
    """A comment that answers one command."""
    return marked(text, answer_marker(guid))


def refusal(login: str, permission: str) -> str:
    """To somebody who may not give commands; said once per person and issue."""
    return f"Sorry @{login}, I only take commands from people with {permission} access to this repository."


def config_problem(path: str, problems: str) -> str:
    return (
        f"I can't start: `{path}` on the default branch has an error, and I won't guess what was meant.\n\n{problems}"
    )


def gist(task: Task, episode: Episode, *, ahead: int, now: datetime) -> str:
    """What the live comment must say, as a key: where this is another one, the comment has to be told anew, however
    recently it was."""
    said = [task.state, task.closed_reason, task.pull_request, episode.id, episode.attempts, episode.code]
    if _waits_for_sandbox(task):
        said += ["waits", ahead, ago(episode.created_at, now)]
    return " ".join(map(str, said))


def status(
    task: Task,
    episode: Episode,
    so_far: SoFar,
    receipt: Mapping[str, Any] | None,
    notices: Sequence[str] = (),
    unpublished: Unpublished | None = None,
) -> str:
    """The live comment of a task, whole but for its marker and of any length; `notices` are sentences of ours about
    what happened on the way."""
    judged = receipt if episode.attempts else None
    is_draft = judged is not None and bool(judged.get("draft"))
    parts = [_headline(task, episode, so_far, judged)]
    resting = task.state in (State.AWAITING_APPROVAL, State.IN_REVIEW) and (is_draft or _is_good(episode))
    if task.is_busy and so_far.doing and not _waits_for_sandbox(task):
        parts.append(so_far.doing)
    if episode.kind == "fix" and (task.is_busy or resting):
        parts.append(_checklist(task, is_draft=is_draft))
    if episode.code in (Code.ANSWERED, Code.NO_CHANGE) and episode.summary:
        parts.append(defuse(episode.summary))
    waits = task.is_busy or task.state is State.AWAITING_APPROVAL
    is_over = not waits and not resting and task.closed_reason != "merged"
    if is_over and episode.code is not None and episode.code is not Code.ANSWERED:
        parts.append(_tried(episode, so_far, judged))
    if judged is not None:
        parts.append(receipt_text.table(judged))
    if unpublished is not None:
        parts.extend(_unpublished(unpublished))
    if not waits and not (is_draft and resting):
        parts.append(_next(task, episode))
    parts.extend(notices)
    parts.append(f"<sub>{_spend(so_far)} · {_asked(task, episode, so_far)}</sub>")
    return chr(10).join(_spaced([part for part in parts if part]))


def _waits_for_sandbox(task: Task) -> bool:
    return task.needs_slot and task.is_busy


def _next(task: Task, episode: Episode) -> str:
    if task.is_open:
        steps = after(episode.code) if episode.code is not None else ()
    else:
        steps = after_close(task.closed_reason)
    return "What you can do next:\n" + "\n".join(f"- {each}" for each in steps) if steps else ""


def _tried(episode: Episode, so_far: SoFar, judged: Mapping[str, Any] | None) -> str:
    own = so_far.own
    if not own.steps:
        return "**What was tried:** nothing yet; the model was not asked for anything."
    work = f"{_many(own.steps, 'step')} with {_many(own.tool_calls, 'tool call')}"
    if not episode.attempts or judged is None:
        return f"**What was tried:** {work}. Nothing was handed in that could be verified."
    times = "once" if episode.attempts == 1 else f"{episode.attempts} times"
    failed = [check for check in judged["checks"] if check["exit_code"] or check["timed_out"] or check["failed"]]
    names = ", ".join(code(str(check["name"])) for check in failed)
    red = f"; in the last one {names} failed" if names else ""
    return f"**What was tried:** {work}, verified {times} of at most {so_far.attempts}{red}."


def _unpublished(left: Unpublished) -> Iterator[str]:
    for name, output in left.outputs.items():
        told = html.escape(one_line(gate.shown(name), 200))
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


def met(paths: Sequence[str], former: Diff) -> str:
    """What the model is told when others have changed the same lines of its pull request."""
    cut = f"\n(The rest is left out: {former.left_out}.)" if former.left_out else ""
    named = ", ".join(f"`{gate.shown(path)}`" for path in paths[:20])
    return (
        f"Others have pushed to the pull request meanwhile, and have changed the same lines of {named}. The work "
        "tree is a new one now, with what they have pushed; what you had done to these files is not in it. Keep what "
        f"they did, and bring in again what is still wanted of yours. This was it:\n{fence(former.text, 'diff')}{cut}"
    )


def base_conflicts(paths: Sequence[str], base: str) -> str:
    """What the model is told when its pull request no longer merges with the branch that it is for."""
    named = ", ".join(f"`{gate.shown(path)}`" for path in paths[:20])
    return (
        f"The pull request no longer merges with `{gate.shown(base)}`. The work tree is that branch as it is today, "
        f"with the pull request done to it; {named} could not be merged. Such a file has both versions between the "
        "marks `<<<<<<<`, `=======` and `>>>>>>>`, the pull request's first, or only the base's where one side has "
        "deleted it. Make one of them that has what both meant, and leave no mark."
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


def _headline(task: Task, episode: Episode, so_far: SoFar, receipt: Mapping[str, Any] | None) -> str:
    is_draft = receipt is not None and bool(receipt.get("draft"))
    if _waits_for_sandbox(task):
        return (
            "⏳ Waiting for a free sandbox: all that may run at once are in use. It goes on by itself. "
            f"{queue(so_far.ahead)}"
        )
    match task.state:
        case State.QUEUED | State.PROVISIONING:
            return "⏳ Getting a sandbox ready."
        case State.WORKING:
            again = f" (attempt {episode.attempts + 1} of {so_far.attempts})" if episode.attempts else ""
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
            return f"🏁 Ended: {one_line(task.closed_reason or 'closed', 200)}."
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


def _spend(so_far: SoFar) -> str:
    """Where nobody knows the price, the budget in money can't be kept, and is not told."""
    spent, allowed = so_far.spent, so_far.allowed
    cost = "cost unknown" if spent.cost is None else f"${spent.cost:.2f} of ${allowed.cost:.2f}"
    return (
        f"{cost}, {spent.tokens:,} of {allowed.tokens:,} tokens, "
        f"{_many(spent.steps, 'step')}, {_many(spent.tool_calls, 'tool call')}"
    )


def _asked(task: Task, episode: Episode, so_far: SoFar) -> str:
    """Whose request it is, and since when; of what has ended by itself, how long it took."""
    requester = one_line(episode.requester, 100)
    who = f"asked for by {requester}" if so_far.request is None else f"[asked for]({so_far.request}) by {requester}"
    if episode.repairs is not None:
        who = f"failing CI on {code(episode.repairs[:12])}, in work that {requester} asked for"
    round_ = f"round {episode.number}, " if episode.number > 1 else ""
    if task.is_busy:
        return f"{round_}{who} {ago(episode.created_at, so_far.now)}"
    if task.is_open and episode.code is not None:
        return f"{round_}{who}, took {coarse(task.updated_at - episode.created_at)}"
    return f"{round_}{who}"


def _many(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' * (number != 1)}"


def _spaced(parts: list[str]) -> list[str]:
    return [line for part in parts for line in (part, "")][:-1]
