"""The audit line: who was allowed or refused what, for whoever watches the bot. One event of the log each, marked
`audit`, so that a collector can keep these apart from all others."""

from __future__ import annotations

import structlog

from bot.domain.task import Task

log = structlog.get_logger()


def note(what: str, **facts: object) -> None:
    """Something that a person with the right to it did, or wanted and may not."""
    log.info(what, audit=True, **facts)


def alarm(what: str, task: Task, **facts: object) -> None:
    """Something an operator should look at: the log level is `error`."""
    log.error(what, audit=True, task=task.id, repository=task.full_name, number=task.number, **facts)
