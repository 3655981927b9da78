"""The rules an episode runs under: the copy of the repository's config that was recorded with it."""

from __future__ import annotations

from bot.domain import config
from bot.domain.config import Config
from bot.domain.episode import Episode


def of(episode: Episode) -> Config:
    """They were right when the command was given, so an error here is ours."""
    return config.parse(None if episode.config_text is None else episode.config_text.encode())
