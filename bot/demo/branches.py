"""What else happens when a branch is removed."""

from __future__ import annotations

from bot.demo.bare import ZERO
from bot.demo.sender import Delivery
from bot.demo.state import Repository
from bot.demo.webhooks import Webhooks
from bot.demo.world import World


def remove(
    world: World, webhooks: Webhooks, repository: Repository, branch: str, old: str, sender: str
) -> list[Delivery] | None:
    """Closes the pull requests from it and into it, and tells of all that; None if it is no longer at `old`."""
    open_ones = [(issue, pull) for issue, pull in repository.pulls() if issue.state == "open"]
    if not repository.bare.move(f"refs/heads/{branch}", ZERO, old):
        return None
    sent = [webhooks.branch_deleted(repository, branch, sender)]
    for issue, pull in open_ones:
        if branch in (pull.head_branch, pull.base):
            world.close(issue)
            sent.append(webhooks.closed(repository, issue, sender))
    return sent
