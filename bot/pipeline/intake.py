"""From a delivery to a decision: who asks, may they, what does it do to the task; then what people see of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import assert_never

import structlog

from bot.db.store import Delivery
from bot.domain import comment, config
from bot.domain.command import Approve, Ask, Command, Fix, Help, Plan, ShowConfig, Usage, parse
from bot.domain.config import Config, ConfigError
from bot.domain.episode import Code
from bot.domain.errors import GitHubError, UserError
from bot.domain.event import Closed, Commented, Ignored, Marked, Pushed, Trigger, Uninstalled
from bot.domain.task import Decision, Request, Task, Trusted, close, decide
from bot.github.client import NOBODY, Permission, Repository
from bot.pipeline import audit, later_commits, talk
from bot.pipeline.deps import Deps

CONFIG_PATH = ".github/coder.yml"
MISNAMED = ".github/coder.yaml"
"""Where somebody may have written rules that would otherwise not hold."""

log = structlog.get_logger()


async def run(deps: Deps, guid: str) -> None:
    """Decides a delivery if that is still to be done, and shows what came of it."""
    delivery = await deps.store.delivery(guid)
    assert delivery is not None, "a job is only ever made with its delivery"
    match delivery.event:
        case Commented() | Marked() as event:
            await _trigger(deps, delivery, event)
        case Closed() as event:
            await _close(deps, delivery, event, event.repository.id, event.number)
        case Pushed() as event:
            await _pushed(deps, delivery, event)
        case Uninstalled() as event:
            for task in await deps.store.open_tasks_of(event.installation_id, event.repository_ids):
                await _end(deps, task, event)
            await deps.store.conclude(guid, "decided")
        case Ignored():
            pass
        case _ as never:
            assert_never(never)


async def _trigger(deps: Deps, delivery: Delivery, event: Trigger) -> None:
    command = Fix(text="") if isinstance(event, Marked) else parse(event.comment_body)
    if command is None:
        await deps.store.conclude(delivery.guid, "ignored: no command")
        return
    if reason := _final(event):
        log.warning("nothing can be written here", code=str(Code.WRITE_REFUSED), reason=reason, **_where(event))
        await deps.store.conclude(delivery.guid, f"ignored: {reason}")
        return
    async with deps.github.repository(
        event.installation_id, event.repository.owner, event.repository.name, permissions=deps.permissions
    ) as repository:
        if not delivery.outcome:
            await _decide(_Ask(deps=deps, delivery=delivery, event=event, repository=repository), command)
        concluded = await deps.store.delivery(delivery.guid)
        assert concluded is not None
        await _show(deps, concluded, event, repository)
    if event.is_pull_request and concluded.task_id is not None:
        await later_commits.look(deps, concluded.task_id)


def _final(event: Trigger) -> str | None:
    """Why nobody could be answered here, however often it is tried; then nothing is begun, and nobody is told."""
    if event.repository.archived:
        return "the repository is archived"
    if event.is_locked:
        return "the conversation is locked"
    if not event.repository.has_issues and not event.is_pull_request:
        return "issues are switched off in the repository"
    if isinstance(event, Marked) and not event.is_open:
        return "the issue is closed"
    return None


def _where(event: Trigger) -> dict[str, object]:
    return {"repository": event.repository.full_name, "number": event.number, "by": event.actor.login}


@dataclass(frozen=True, kw_only=True)
class _Ask:
    """A delivery in which somebody asks for something, and the way to answer it."""

    deps: Deps
    delivery: Delivery
    event: Trigger
    repository: Repository

    async def conclude(self, outcome: str, answer: str | None = None, *, once: str | None = None) -> None:
        """With `once` the answer is given once on this issue or pull request, by that key."""
        key = None if once is None else f"{self.event.repository.id}#{self.event.number}{once}"
        await self.deps.store.conclude(self.delivery.guid, outcome, answer=answer, once=key)

    async def deny(self, reason: str) -> None:
        """Without a word to anybody but the operator."""
        audit.note("a command was denied", reason=reason, **_where(self.event))
        await self.conclude(f"denied: {reason}")

    async def refuse(self, wanted: str) -> None:
        """With a word to whoever asked, once."""
        actor = self.event.actor
        if actor.is_bot:  # two bots that answer each other never end
            await self.deny(f"the bot has no {wanted} access")
            return
        audit.note("a command was refused", reason=f"no {wanted} access", **_where(self.event))
        await self.conclude("refused: permission", comment.refusal(actor.login, wanted), once=f"@{actor.id}")


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """What the default branch says: the commit, the file's text and the rules in it; no `config` where something is
    wrong, which `problem` then says as a comment."""

    sha: str = ""
    text: str | None = None
    config: Config | None = None
    problem: str = ""


async def _decide(ask: _Ask, command: Command | Usage) -> None:
    event, deps = ask.event, ask.deps
    via_app = event.via_app if isinstance(event, Commented) else None
    if await ask.repository.is_own(event.actor, via_app):
        await ask.conclude("ignored: the bot itself")
        return
    rules: _Rules | None = None
    if isinstance(event, Marked) or event.actor.is_bot:
        # Neither counts unless the rules say so, and most labels are none of ours: the rules come first.
        rules = await _rules(deps, ask.repository, event.repository.default_branch)
        if reason := await _uncalled(ask, rules.config):
            await (ask.deny(reason) if event.actor.is_bot else ask.conclude(f"ignored: {reason}"))
            return
    permission = await _permission(ask)
    if permission is None:
        return
    is_listed_app = permission == NOBODY
    if not (is_listed_app or permission.allows("write")):
        await ask.refuse("write")
        return
    rules = rules or await _rules(deps, ask.repository, event.repository.default_branch)
    wanted = rules.config.trigger.permission if rules.config else "write"
    if not (is_listed_app or permission.allows(wanted)):
        await ask.refuse(wanted)
        return
    await _obey(ask, command, rules)


async def _uncalled(ask: _Ask, rules: Config | None) -> str | None:
    """Why a bot, or a label or an assignment, calls for nothing here."""
    event = ask.event
    if rules is None:
        return "the rules can't be read"
    if event.actor.is_bot and event.actor.login.lower() not in rules.trigger.bots:
        return "a bot that `trigger.bots` does not list"
    if not isinstance(event, Marked):
        return None
    if not rules.enabled or not rules.grants.fix:
        return "switched off"
    if event.assignee is None:
        return None if event.label == rules.trigger.label else "a label that is not `trigger.label`"
    if rules.trigger.assignee and await ask.repository.is_own_account(event.assignee):
        return None
    return "an assignment that `trigger.assignee` does not ask for"


async def _permission(ask: _Ask) -> Permission | None:
    """What GitHub says that the actor may do, NOBODY only for a bot; None where that was the end of it. An answer
    that doesn't come is an error: the intake is tried again, and nobody is let in meanwhile."""
    actor = ask.event.actor
    try:
        permission = await ask.repository.permission(actor.login)
    except GitHubError as exc:
        if exc.retryable or exc.status != 403:
            raise
        log.error(
            "GitHub does not tell who may do what",
            reason=str(exc),
            hint="the App needs `metadata: read` on the repository; see its installation's permissions",
            **_where(ask.event),
        )
        await ask.deny("the App may not ask for permissions")
        return None
    if permission == NOBODY and actor.is_bot:
        return permission  # an App is no collaborator; that the rules list it is its permission
    if permission.user_id != actor.id:
        known = "nobody by that name" if permission.user_id is None else "somebody else by that name"
        await ask.deny(f"GitHub knows {known}")
        return None
    return permission


async def _obey(ask: _Ask, command: Command | Usage, rules: _Rules) -> None:
    """What a command of somebody who may give it comes to."""
    deps, event, delivery, repository = ask.deps, ask.event, ask.delivery, ask.repository
    match command:
        case Usage(message=message):
            await ask.conclude("answered: usage", message)
            return
        case Help():
            await ask.conclude("answered: help", comment.HELP)
            return
        case Approve() if event.actor.is_bot:
            await ask.deny("only people approve")
            return
    if rules.config is None:
        await ask.conclude("refused: config", rules.problem, once=f"!{_digest(rules.problem)}")
        return
    if isinstance(command, ShowConfig):
        text = f"The rules at `{rules.sha[:12]}`:\n\n```yaml\n{config.render(rules.config)}\n```"
        await ask.conclude("answered: config", text)
        return
    if not rules.config.enabled:
        await ask.conclude(
            "refused: disabled", f"I am switched off here (`enabled: false` in `{CONFIG_PATH}`).", once="!disabled"
        )
        return
    if isinstance(command, Fix | Ask | Plan) and not getattr(rules.config.grants, command.verb):
        off = f"`/coder {command.verb}` is switched off here (`grants.{command.verb}: []` in `{CONFIG_PATH}`)."
        await ask.conclude("refused: grants", off)
        return
    if not event.is_open:
        await ask.conclude("refused: closed", "This is closed; reopen it first.")
        return
    base_sha = await _base(repository, rules, event.repository.default_branch)
    if base_sha is None:
        told = f"`pull_request.base` names the branch `{rules.config.pull_request.base}`, which is not there."
        await ask.conclude("refused: config", comment.config_problem(CONFIG_PATH, told), once=f"!{_digest(told)}")
        return
    trusted = Trusted(
        branch=rules.config.pull_request.base or event.repository.default_branch,
        sha=rules.sha,
        base_sha=base_sha,
        config_text=rules.text,
    )
    request = Request(event=event, command=command, trusted=trusted, task_id=deps.new_id(), episode_id=deps.new_id())
    decision = await deps.store.decide(
        delivery.guid,
        lambda task, last: decide(request, task=task, last=last, now=deps.clock()),
        repository_id=event.repository.id,
        number=event.number,
        comment_id=event.comment_id or None,
        now=deps.clock(),
    )
    audit.note("a command was decided", verb=command.verb, made=decision is not None, **_where(event))
    await _follow(deps, decision)


async def _base(repository: Repository, rules: _Rules, default_branch: str) -> str | None:
    """The commit that work starts from; None where the branch is not there."""
    assert rules.config is not None, "only asked with rules"
    base = rules.config.pull_request.base or default_branch
    return rules.sha if base == default_branch else await repository.branch(base)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def _show(deps: Deps, delivery: Delivery, event: Trigger, repository: Repository) -> None:
    """What people see at once; each of it may be done twice. The live comment is left to the task's own stages:
    two that run side by side would make two. Where GitHub takes it for good and all from nobody (a comment that was
    deleted meanwhile, an issue that was locked), what was decided stands."""
    if delivery.outcome.startswith(("ignored", "denied", "duplicate")):
        return
    try:
        if isinstance(event, Commented):
            refused = delivery.outcome.startswith("refused")
            await repository.react(event.comment_id, "confused" if refused else "eyes")
        if delivery.answer:
            await talk.answer(deps, repository, event.number, delivery.guid, delivery.answer)
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("an answer could not be given", reason=str(exc), **_where(event))


async def _rules(deps: Deps, repository: Repository, branch: str) -> _Rules:
    """The repository's rules, or what is wrong with them."""
    try:
        sha = (await repository.head(branch)).sha
        data = await repository.read_file(CONFIG_PATH, sha)
        if data is None and await repository.read_file(MISNAMED, sha) is not None:
            return _Rules(problem=comment.config_problem(MISNAMED, f"It has to be named `{CONFIG_PATH}`."))
        rules = config.parse(data)
        problems = config.over(rules, deps.ceilings)
    except ConfigError as exc:
        problems = exc.problems
    except UserError as exc:
        return _Rules(problem=comment.config_problem(CONFIG_PATH, str(exc)))
    except GitHubError as exc:
        if exc.retryable:
            raise
        return _Rules(problem=comment.config_problem(CONFIG_PATH, f"It could not be read: {exc}"))
    else:
        if not problems:
            return _Rules(sha=sha, text=None if data is None else data.decode("utf-8"), config=rules)
    lines = [f"- line {p.line}, column {p.column}: {p.message}" if p.line else f"- {p.message}" for p in problems]
    return _Rules(problem=comment.config_problem(CONFIG_PATH, "\n".join(lines)))


async def _close(deps: Deps, delivery: Delivery, event: Closed, repository_id: int, number: int) -> None:
    decision = await deps.store.decide(
        delivery.guid,
        lambda task, last: close(event, task=task, last=last, now=deps.clock()) if task else Decision(),
        repository_id=repository_id,
        number=number,
        comment_id=None,
        now=deps.clock(),
    )
    await _follow(deps, decision)


async def _pushed(deps: Deps, delivery: Delivery, event: Pushed) -> None:
    """Our own pushes are seen as well, by when it is known that they were ours."""
    await deps.store.decide(
        delivery.guid,
        lambda task, last: Decision(),
        repository_id=event.repository.id,
        number=event.number,
        comment_id=None,
        now=deps.clock(),
    )
    concluded = await deps.store.delivery(delivery.guid)
    if concluded is not None and concluded.task_id is not None:
        await later_commits.look(deps, concluded.task_id)


async def _end(deps: Deps, task: Task, event: Uninstalled) -> None:
    lease = await deps.store.lease(task.id)
    last = await deps.store.last_episode(task.id)
    decision = close(event, task=task, last=last, now=deps.clock())
    assert decision.task is not None
    await deps.store.save(
        lease, decision.task, decision.episode or replace(last), stage=decision.stage, now=deps.clock()
    )
    await deps.engine.preempt(task.id)
    deps.engine.wake()


async def _follow(deps: Deps, decision: Decision | None) -> None:
    if decision is None or decision.task is None or decision.stage is None:
        return
    if not decision.task.is_busy:
        await deps.engine.preempt(decision.task.id)  # its lease is lost; this only makes it notice at once
    deps.engine.wake()
