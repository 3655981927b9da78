"""From a delivery to a decision: who asks, may they, what does it do to the task; then what people see of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import assert_never

import structlog

from bot.db.store import Delivery
from bot.domain import comment, config
from bot.domain.command import Approve, Ask, Fix, Help, Plan, ShowConfig, Usage, parse
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import GitHubError
from bot.domain.event import (
    ChecksEnded,
    Closed,
    Commented,
    Ignored,
    Marked,
    Pushed,
    Renamed,
    Reviewed,
    Trigger,
    Uninstalled,
)
from bot.domain.review import Asked
from bot.domain.task import Decision, Postponed, Request, Task, Trusted, close, decide, ended
from bot.github.client import NOBODY, Repository
from bot.pipeline import asking, audit, later_commits, names, repairs, reviews, talk
from bot.pipeline.asking import CONFIG_PATH, Rules, digest, final, permission_of, rules_of, where
from bot.pipeline.deps import Deps

BUSY_FOR = timedelta(seconds=15)
"""How long a review waits until it is asked again whether the work on its pull request has ended."""

READ_TALK = {"issues": "read", "pull_requests": "read"}

log = structlog.get_logger()


async def run(deps: Deps, guid: str) -> Postponed | None:
    """Decides a delivery if that is still to be done, and shows what came of it; or says when to ask again."""
    delivery = await deps.store.delivery(guid)
    assert delivery is not None, "a job is only ever made with its delivery"
    try:
        return await _take(deps, delivery)
    except GitHubError as exc:
        event = delivery.event
        if exc.status not in names.GONE or isinstance(event, Uninstalled | Ignored):
            raise
        today = await names.learn(deps, event.installation_id, event.repository)
        if today is None:
            raise
    again = await deps.store.delivery(guid)
    assert again is not None, "it was there a moment ago"
    return await _take(deps, replace(again, event=replace(event, repository=today)))


async def _take(deps: Deps, delivery: Delivery) -> Postponed | None:
    guid = delivery.guid
    match delivery.event:
        case Commented() | Marked() as event:
            await _trigger(deps, delivery, event)
        case Reviewed() as event:
            return await _reviewed(deps, delivery, event)
        case ChecksEnded() as event:
            await follow(deps, await repairs.take(deps, delivery, event))
        case Closed() as event:
            await _closed(deps, delivery, event)
        case Pushed() as event:
            await _pushed(deps, delivery, event)
        case Renamed() as event:
            await _renamed(deps, delivery, event)
        case Uninstalled() as event:
            for task in await deps.store.open_tasks_of(event.installation_id, event.repository_ids):
                await _end(deps, task, event.reason, Code.UNINSTALLED)
            await deps.store.conclude(guid, "decided")
        case Ignored():
            pass
        case _ as never:
            assert_never(never)
    return None


async def _reviewed(deps: Deps, delivery: Delivery, event: Reviewed) -> Postponed | None:
    """A review is taken up when the work that goes on is done: it is about what was there before."""
    if not delivery.outcome:
        task = await deps.store.open_task(event.repository.id, event.number)
        if task is None or task.pull_request != event.number:
            await deps.store.conclude(delivery.guid, "ignored: not a pull request of ours")
            return None
        if event.actor.is_bot and event.actor.login == await deps.github.login():
            await deps.store.conclude(delivery.guid, "ignored: the bot itself")
            return None
        if task.is_busy:
            return Postponed(until=deps.clock() + BUSY_FOR)
    await _trigger(deps, delivery, event)
    concluded = await deps.store.delivery(delivery.guid)
    assert concluded is not None
    return None if concluded.outcome else Postponed(until=deps.clock() + BUSY_FOR)


async def _trigger(deps: Deps, delivery: Delivery, event: Trigger) -> None:
    if isinstance(event, Commented) and parse(event.comment_body) is None:
        await deps.store.conclude(delivery.guid, "ignored: no command")
        return
    if reason := final(event):
        log.warning("nothing can be written here", code=str(Code.WRITE_REFUSED), reason=reason, **where(event))
        await deps.store.conclude(delivery.guid, f"ignored: {reason}")
        return
    async with deps.github.repository(
        event.installation_id, event.repository.owner, event.repository.name, permissions=deps.permissions
    ) as repository:
        if not delivery.outcome:
            ask = asking.Ask(deps=deps, delivery=delivery, event=event, repository=repository)
            asked = await _asked(repository, event)
            if asked is None:
                await ask.conclude("ignored: no command")
            else:
                await _decide(ask, asked)
        concluded = await deps.store.delivery(delivery.guid)
        assert concluded is not None
        await _show(deps, concluded, event, repository)
        if concluded.task_id is not None:
            await _check_open(deps, repository, concluded.task_id)
    if event.is_pull_request and concluded.task_id is not None:
        await later_commits.look(deps, concluded.task_id)


async def _asked(repository: Repository, event: Trigger) -> Asked | None:
    match event:
        case Commented():
            command = parse(event.comment_body)
            return None if command is None else Asked(command=command)
        case Marked():
            return Asked(command=Fix(text=""))
        case Reviewed():
            return await reviews.read(repository, event)
        case _ as never:
            assert_never(never)


async def _decide(ask: asking.Ask, asked: Asked) -> None:
    event, deps = ask.event, ask.deps
    via_app = event.via_app if isinstance(event, Commented) else None
    if await ask.repository.is_own(event.actor, via_app):
        await ask.conclude("ignored: the bot itself")
        return
    rules: Rules | None = None
    if isinstance(event, Marked) or event.actor.is_bot:
        # Neither counts unless the rules say so, and most labels are none of ours: the rules come first.
        rules = await rules_of(deps, ask.repository, event.repository.default_branch)
        if reason := await _uncalled(ask, rules.config):
            await (ask.deny(reason) if event.actor.is_bot else ask.conclude(f"ignored: {reason}"))
            return
    permission = await permission_of(ask)
    if permission is None:
        return
    is_listed_app = permission == NOBODY
    if not (is_listed_app or permission.allows("write")):
        await _refuse(ask, asked, "write")
        return
    rules = rules or await rules_of(deps, ask.repository, event.repository.default_branch)
    wanted = rules.config.trigger.permission if rules.config else "write"
    if not (is_listed_app or permission.allows(wanted)):
        await _refuse(ask, asked, wanted)
        return
    await _obey(ask, asked, rules)


async def _refuse(ask: asking.Ask, asked: Asked, wanted: str) -> None:
    """Whoever reviews without a word to the bot has asked it for nothing, and gets no answer."""
    await (ask.refuse(wanted) if asked.explicit else ask.deny(f"a reviewer without {wanted} access"))


async def _uncalled(ask: asking.Ask, rules: Config | None) -> str | None:
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


async def _obey(ask: asking.Ask, asked: Asked, rules: Rules) -> None:
    """What a command of somebody who may give it comes to."""
    deps, event, command = ask.deps, ask.event, asked.command
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
        await ask.conclude("refused: config", rules.problem, once=f"!{digest(rules.problem)}")
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
    trusted = Trusted(branch="", sha=rules.sha, base_sha="", config_text=rules.text)
    if isinstance(command, Fix | Ask | Plan):
        ground = await _ground(ask, rules)
        if ground is None:
            return
        trusted = ground
    request = Request(
        event=event,
        command=command,
        trusted=trusted,
        task_id=deps.new_id(),
        episode_id=deps.new_id(),
        threads=asked.threads,
    )
    decision = await deps.store.decide(
        ask.delivery.guid,
        lambda task, last: decide(request, task=task, last=last, now=deps.clock()),
        repository_id=event.repository.id,
        number=event.number,
        comment_id=event.comment_id or None,
        now=deps.clock(),
    )
    audit.note("a command was decided", verb=command.verb, made=decision is not None, **where(event))
    await follow(deps, decision)


async def _ground(ask: asking.Ask, rules: Rules) -> Trusted | None:
    """What work begins with: where it is the first on a person's pull request, that one's branch, else the base
    branch; None where that was the end of it. What GitHub says now counts, not what it said when it told us."""
    event, repository = ask.event, ask.repository
    assert rules.config is not None, "only asked with rules"
    base, is_open = rules.config.pull_request.base or event.repository.default_branch, True
    if await ask.deps.store.open_task(event.repository.id, event.number) is not None:
        sha: str | None = rules.sha  # it has its ground already
    elif event.is_pull_request:
        pull = await repository.pull(event.number)
        if await repository.is_own_account(event.author):
            await ask.conclude("refused: over", comment.OVER)
            return None
        if pull.is_from_fork:
            await ask.conclude("refused: fork", comment.FORK)
            return None
        base, sha, is_open = pull.head_branch, pull.head_sha, pull.state == "open"
    else:
        sha = rules.sha if base == event.repository.default_branch else await repository.branch(base)
        is_open = (await repository.issue(event.number)).state == "open"
    if not is_open:
        await ask.conclude("refused: closed", "This is closed; reopen it first.")
        return None
    if sha is None:
        told = f"`pull_request.base` names the branch `{base}`, which is not there."
        await ask.conclude("refused: config", comment.config_problem(CONFIG_PATH, told), once=f"!{digest(told)}")
        return None
    return Trusted(branch=base, sha=rules.sha, base_sha=sha, config_text=rules.text)


async def _show(deps: Deps, delivery: Delivery, event: Trigger, repository: Repository) -> None:
    """What people see at once; each of it may be done twice. The live comment is left to the task's own stages:
    two that run side by side would make two. Where GitHub takes it for good and all from nobody (a comment that was
    deleted meanwhile, an issue that was locked), what was decided stands."""
    if not delivery.outcome or delivery.outcome.startswith(("ignored", "denied", "duplicate")):
        return
    try:
        if isinstance(event, Commented):
            refused = delivery.outcome.startswith("refused")
            await repository.react(event.comment_id, "confused" if refused else "eyes")
        if isinstance(event, Reviewed) and delivery.task_id is not None:
            await reviews.acknowledge(deps, repository, event, delivery.task_id)
        if delivery.answer:
            await talk.answer(deps, repository, event.number, delivery.guid, delivery.answer)
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("an answer could not be given", reason=str(exc), **where(event))


async def _closed(deps: Deps, delivery: Delivery, event: Closed) -> None:
    """What is open again by now goes on: events come late, and in any order."""
    there = event.repository
    if delivery.outcome:
        return
    looked_at = await deps.store.open_task(there.id, event.number)
    if event.reason is None and looked_at is not None:
        async with deps.github.repository(
            event.installation_id, there.owner, there.name, permissions=READ_TALK
        ) as repository:
            if not await _is_closed(repository, event.number):
                await deps.store.conclude(delivery.guid, "ignored: it is open again")
                return

    def closing(task: Task | None, last: Episode | None) -> Decision:
        if task is None or looked_at is None or task.id != looked_at.id:
            return Decision()  # one that was just made has been looked at by whoever made it
        return close(event, task=task, last=last, now=deps.clock())

    decision = await deps.store.decide(
        delivery.guid,
        closing,
        repository_id=there.id,
        number=event.number,
        comment_id=None,
        now=deps.clock(),
    )
    await follow(deps, decision)


async def _is_closed(repository: Repository, number: int) -> bool:
    """Whether an issue or a pull request is closed, or not there any more, as GitHub has it now."""
    try:
        return (await repository.issue(number)).state == "closed"
    except GitHubError as exc:
        if exc.retryable or exc.status not in (301, 404, 410):
            raise
        return True


async def _check_open(deps: Deps, repository: Repository, task_id: str) -> None:
    """Ends a task whose issue was closed while it was made: the event may have come before it."""
    task = await deps.store.task(task_id)
    if not task.is_busy or task.pull_request is not None or not await _is_closed(repository, task.number):
        return
    await _end(deps, task, "issue closed", Code.ISSUE_CLOSED)


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


async def _renamed(deps: Deps, delivery: Delivery, event: Renamed) -> None:
    """What was told may be old already: GitHub is asked for the names of today."""
    there = event.repository
    for task in await deps.store.tasks(only_open=True):
        if task.repository_id == there.id:
            known = replace(there, owner=task.owner, name=task.name, clone_url=task.clone_url)
            await names.learn(deps, event.installation_id, known)
            break
    await deps.store.conclude(delivery.guid, "decided")


async def _end(deps: Deps, task: Task, reason: str, code: Code) -> None:
    def over(task: Task, last: Episode) -> Decision:
        return ended(code, reason, task=task, last=last, now=deps.clock())

    await follow(deps, await deps.store.amend(task.id, over, now=deps.clock()))


async def follow(deps: Deps, decision: Decision | None) -> None:
    if decision is None or decision.task is None or decision.stage is None:
        return
    if not decision.task.is_busy:
        await deps.engine.preempt(decision.task.id)  # its lease is lost; this only makes it notice at once
    deps.engine.wake()
