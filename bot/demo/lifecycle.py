"""Repositories and issues that move or end, and the App's installations."""

from __future__ import annotations

from bot.demo.scene import Scene
from bot.demo.sender import Delivery
from bot.demo.state import Issue


class Lifecycle(Scene):
    """What is told by webhooks returns when they were answered, or could not be sent."""

    async def rename_repository(self, full_name: str, new_name: str, *, author: str = "maintainer") -> Delivery:
        """The old name leads to the new one until somebody takes it."""
        repository = self._repository(full_name)
        before = repository.name
        self._world.move(repository, repository.owner, new_name)
        changes = {"repository": {"name": {"from": before}}}
        return await self._webhooks.finished(self._webhooks.repository("renamed", repository, author, changes))

    async def transfer_repository(
        self, full_name: str, new_owner: str, *, author: str = "maintainer", installed: bool = True
    ) -> Delivery:
        """To an owner who has the App installed, or has not: then it can't be reached any more, and nothing is
        told."""
        repository = self._repository(full_name)
        before = self._webhooks.owner(repository)
        self._world.account(new_owner, "Organization")
        self._world.move(repository, new_owner, repository.name)
        repository.installation_id = self._world.installation(new_owner).id if installed else None
        changes = {"owner": {"from": {"organization": before}}}
        return await self._webhooks.finished(self._webhooks.repository("transferred", repository, author, changes))

    async def archive_repository(self, full_name: str, *, author: str = "maintainer") -> Delivery:
        """From now on nobody can write anything there."""
        repository = self._repository(full_name)
        repository.archived = True
        return await self._webhooks.finished(self._webhooks.repository("archived", repository, author))

    async def delete_repository(self, full_name: str, *, author: str = "maintainer") -> Delivery:
        repository = self._repository(full_name)
        del self._world.repositories[full_name]
        return await self._webhooks.finished(self._webhooks.repository("deleted", repository, author))

    async def suspend(self, owner: str) -> Delivery:
        """The App may do nothing there until `unsuspend`; its tokens are dead for good."""
        installation = self._world.installation(owner)
        installation.suspended_at = self._clock()
        self._world.revoke_all(installation)
        return await self._webhooks.finished(self._webhooks.installation("suspend", installation, owner))

    async def unsuspend(self, owner: str) -> Delivery:
        installation = self._world.installation(owner)
        installation.suspended_at = None
        return await self._webhooks.finished(self._webhooks.installation("unsuspend", installation, owner))

    async def uninstall(self, owner: str) -> Delivery:
        """The App has nothing to do with that owner's repositories any more."""
        installation = self._world.installation(owner)
        delivery = self._webhooks.installation("deleted", installation, owner)
        self._world.revoke_all(installation)
        del self._world.installations[installation.id]
        for repository in self._world.repositories.values():
            if repository.installation_id == installation.id:
                repository.installation_id = None
        return await self._webhooks.finished(delivery)

    async def reopen(self, full_name: str, number: int, *, author: str = "maintainer") -> Delivery:
        """An issue or a pull request."""
        repository = self._repository(full_name)
        issue = repository.issues[number]
        self._world.reopen(issue)
        return await self._webhooks.finished(self._webhooks.reopened(repository, issue, author))

    async def delete_issue(self, full_name: str, number: int, *, author: str = "maintainer") -> Delivery:
        repository = self._repository(full_name)
        delivery = self._webhooks.issue("deleted", repository, repository.issues[number], author)
        del repository.issues[number]
        repository.gone[number] = None
        return await self._webhooks.finished(delivery)

    async def transfer_issue(
        self, full_name: str, number: int, to_full_name: str, *, author: str = "maintainer"
    ) -> Issue:
        """With its comments, to another repository of the same owner; gives the new issue. Both repositories are
        told."""
        old, new = self._repository(full_name), self._repository(to_full_name)
        before = old.issues.pop(number)
        moved = self._world.open_issue(new, title=before.title, body=before.body, author=before.author)
        moved.comments, moved.labels, moved.assignees = before.comments, before.labels, before.assignees
        old.gone[number] = (new.id, moved.number)
        for delivery in self._webhooks.issue_transferred(old, before, new, moved, author):
            await self._webhooks.finished(delivery)
        return moved
