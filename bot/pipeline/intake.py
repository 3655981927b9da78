"""From a delivery to a decision: who asks, may they, what does it do to the task; then what people see of it."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

import structlog

from bot.db.store import Delivery
from bot.domain import comment, config
from bot.domain.command import Command, Help, ShowConfig, Usage, parse
from bot.domain.config import Config, ConfigError
from bot.domain.errors import UserError
from bot.domain.event import Closed, Commented, Ignored, Uninstalled
from bot.domain.task import Decision, Request, Task, Trusted, close, decide
from bot.github.client import Repository
from bot.pipeline import talk
from bot.pipeline.deps import Deps

CONFIG_PATH = ".github/coder.yml"

log = structlog.get_logger()


async def run(deps: Deps, guid: str) -> None:
    """Decides a delivery if that is still to be done, and shows what came of it."""
    delivery = await deps.store.delivery(guid)
    assert delivery is not None, "a job is only ever made with its delivery"
    match delivery.event:
        case Commented() as event:
            await _comment(deps, delivery, event)
        case Closed() as event:
            await _close(deps, delivery, event, event.repository.id, event.number)
        case Uninstalled() as event:
            for task in await deps.store.open_tasks_of(event.installation_id, event.repository_ids):
                await _end(deps, task, event)
            await deps.store.conclude(guid, "decided")
        case Ignored():
            pass
        case _ as never:
            assert_never(never)


async def _comment(deps: Deps, delivery: Delivery, event: Commented) -> None:
    command = parse(event.comment_body)
    if command is None or event.commenter.is_bot or event.is_locked:
        if not delivery.outcome:
            await deps.store.conclude(delivery.guid, "ignored: no command of a person")
        return
    async with deps.github.repository(
        event.installation_id, event.repository.owner, event.repository.name, permissions=deps.permissions
    ) as repository:
        if not delivery.outcome:
            await _decide(deps, delivery, event, command, repository)
        concluded = await deps.store.delivery(delivery.guid)
        assert concluded is not None
        await _show(deps, concluded, event, repository)


async def _decide(
    deps: Deps, delivery: Delivery, event: Commented, command: Command | Usage, repository: Repository
) -> None:
    branch = event.repository.default_branch
    head = await repository.head(branch)
    problem, rules = await _rules(deps, repository, head.sha)
    wanted = rules.trigger.permission if rules else "write"
    permission = await repository.permission(event.commenter.login)
    if not permission.allows(wanted):
        who = f"{event.repository.id}#{event.number}@{event.commenter.id}"
        said = await deps.store.was_refused(who)
        text = None if said else comment.refusal(event.commenter.login, wanted)
        await deps.store.conclude(delivery.guid, "refused: permission", answer=text, refused=who)
        return
    if isinstance(command, Usage):
        await deps.store.conclude(delivery.guid, "answered: usage", answer=command.message)
        return
    if isinstance(command, Help):
        await deps.store.conclude(delivery.guid, "answered: help", answer=comment.HELP)
        return
    if rules is None:
        await deps.store.conclude(delivery.guid, "refused: config", answer=problem)
        return
    if isinstance(command, ShowConfig):
        text = f"The rules at `{head.sha[:12]}`:\n\n```yaml\n{config.render(rules)}\n```"
        await deps.store.conclude(delivery.guid, "answered: config", answer=text)
        return
    if not rules.enabled:
        text = f"I am switched off here (`enabled: false` in `{CONFIG_PATH}`)."
        await deps.store.conclude(delivery.guid, "refused: disabled", answer=text)
        return
    if not event.is_open:
        await deps.store.conclude(delivery.guid, "refused: closed", answer="This is closed; reopen it first.")
        return
    base = rules.pull_request.base or branch
    trusted = Trusted(
        branch=base,
        sha=head.sha,
        base_sha=head.sha if base == branch else (await repository.head(base)).sha,
        config_text=await _config_text(repository, head.sha),
    )
    request = Request(event=event, command=command, trusted=trusted, task_id=deps.new_id(), episode_id=deps.new_id())
    decision = await deps.store.decide(
        delivery.guid,
        lambda task, last: decide(request, task=task, last=last, now=deps.clock()),
        repository_id=event.repository.id,
        number=event.number,
        comment_id=event.comment_id,
        now=deps.clock(),
    )
    log.info("command decided", verb=command.verb, by=event.commenter.login, made=decision is not None)
    await _follow(deps, decision)


async def _show(deps: Deps, delivery: Delivery, event: Commented, repository: Repository) -> None:
    """What people see at once; each of it may be done twice. The live comment is left to the task's own stages:
    two that run side by side would make two."""
    if delivery.outcome.startswith(("ignored", "duplicate")):
        return
    if delivery.outcome.startswith("refused"):
        await repository.react(event.comment_id, "confused")
    else:
        await repository.react(event.comment_id, "eyes")
    if delivery.answer:
        await talk.answer(deps, repository, event.number, delivery.guid, delivery.answer)


async def _rules(deps: Deps, repository: Repository, sha: str) -> tuple[str, Config | None]:
    """The repository's rules, or what is wrong with them as a comment."""
    try:
        text = await _config_text(repository, sha)
        rules = config.parse(text.encode() if text is not None else None)
        problems = config.over(rules, deps.ceilings)
    except ConfigError as exc:
        problems = exc.problems
    except UserError as exc:
        return comment.config_problem(CONFIG_PATH, str(exc)), None
    else:
        if not problems:
            return "", rules
    lines = [f"- line {p.line}, column {p.column}: {p.message}" if p.line else f"- {p.message}" for p in problems]
    return comment.config_problem(CONFIG_PATH, "\n".join(lines)), None


async def _config_text(repository: Repository, sha: str) -> str | None:
    data = await repository.read_file(CONFIG_PATH, sha)
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UserError("The file is not UTF-8 text.") from exc


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
