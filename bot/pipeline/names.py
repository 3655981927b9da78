"""A repository's names of today: it may have been renamed or moved without our having heard of it."""

from __future__ import annotations

from dataclasses import replace

import structlog

from bot.domain.errors import GitHubError
from bot.domain.event import Repository
from bot.pipeline.deps import Deps

GONE = (301, 404, 422)
"""What GitHub answers to a name that is no longer there: 422 where a token for it is asked for."""

log = structlog.get_logger()


async def learn(deps: Deps, installation_id: int, known: Repository) -> Repository | None:
    """The repository by its names of today, which its open tasks go by from now on; None where these are they, or
    GitHub does not tell."""
    try:
        async with deps.github.repository(
            installation_id, known.owner, known.name, permissions={"metadata": "read"}, repository_id=known.id
        ) as repository:
            info = await repository.info()
    except GitHubError as exc:
        if exc.retryable:
            raise
        log.warning("a repository's names can't be asked for", repository=known.full_name, reason=str(exc))
        return None
    owner, _, name = info.full_name.partition("/")
    today = replace(known, owner=owner, name=name, clone_url=info.clone_url)
    if info.id != known.id or today == known:
        return None
    log.info("a repository has another name", was=known.full_name, now=today.full_name)
    await deps.store.rename(
        known.id, installation_id=installation_id, owner=owner, name=name, clone_url=info.clone_url
    )
    return today
