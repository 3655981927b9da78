"""Somebody asks for something: who that is, whether they may, and which rules hold where they ask."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import structlog

from bot.db.store import Delivery
from bot.domain import comment, config
from bot.domain.config import Config, ConfigError
from bot.domain.errors import GitHubError, UserError
from bot.domain.event import Marked, Trigger
from bot.github.client import NOBODY, Permission, Repository
from bot.pipeline import audit
from bot.pipeline.deps import Deps

CONFIG_PATH = ".github/coder.yml"
MISNAMED = ".github/coder.yaml"
"""Where somebody may have written rules that would otherwise not hold."""

log = structlog.get_logger()


def final(event: Trigger) -> str | None:
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


def where(event: Trigger) -> dict[str, object]:
    return {"repository": event.repository.full_name, "number": event.number, "by": event.actor.login}


@dataclass(frozen=True, kw_only=True)
class Ask:
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
        audit.note("a command was denied", reason=reason, **where(self.event))
        await self.conclude(f"denied: {reason}")

    async def refuse(self, wanted: str) -> None:
        """With a word to whoever asked, once."""
        actor = self.event.actor
        if actor.is_bot:  # two bots that answer each other never end
            await self.deny(f"the bot has no {wanted} access")
            return
        audit.note("a command was refused", reason=f"no {wanted} access", **where(self.event))
        await self.conclude("refused: permission", comment.refusal(actor.login, wanted), once=f"@{actor.id}")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the default branch says: the commit, the file's text and the rules in it; no `config` where something is
    wrong, which `problem` then says as a comment."""

    sha: str = ""
    text: str | None = None
    config: Config | None = None
    problem: str = ""


async def permission_of(ask: Ask) -> Permission | None:
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
            **where(ask.event),
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


async def rules_of(deps: Deps, repository: Repository, branch: str) -> Rules:
    """The repository's rules, or what is wrong with them."""
    try:
        sha = (await repository.head(branch)).sha
        data = await repository.read_file(CONFIG_PATH, sha)
        if data is None and await repository.read_file(MISNAMED, sha) is not None:
            return Rules(problem=comment.config_problem(MISNAMED, f"It has to be named `{CONFIG_PATH}`."))
        rules = config.parse(data)
        problems = config.over(rules, deps.ceilings)
    except ConfigError as exc:
        problems = exc.problems
    except UserError as exc:
        return Rules(problem=comment.config_problem(CONFIG_PATH, str(exc)))
    except GitHubError as exc:
        if exc.retryable:
            raise
        return Rules(problem=comment.config_problem(CONFIG_PATH, f"It could not be read: {exc}"))
    else:
        if not problems:
            return Rules(sha=sha, text=None if data is None else data.decode("utf-8"), config=rules)
    lines = [f"- line {p.line}, column {p.column}: {p.message}" if p.line else f"- {p.message}" for p in problems]
    return Rules(problem=comment.config_problem(CONFIG_PATH, "\n".join(lines)))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
