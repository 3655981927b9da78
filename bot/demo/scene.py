"""What everybody who acts on the local GitHub has at hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from bot.demo.state import Issue, Pull, Repository
from bot.demo.webhooks import Webhooks
from bot.demo.world import World


class Scene:
    """Given its parts by `LocalGitHub`."""

    _home: Path
    _clock: Callable[[], datetime]
    _world: World
    _webhooks: Webhooks

    def _repository(self, full_name: str) -> Repository:
        return self._world.repositories[full_name]

    def _pull(self, full_name: str, number: int) -> tuple[Issue, Pull]:
        found = {issue.number: (issue, pull) for issue, pull in self._repository(full_name).pulls()}
        return found[number]
