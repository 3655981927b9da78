"""What the owners of accounts and repositories do, and who may what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bot.demo import bare
from bot.demo.bare import Signature
from bot.demo.scene import Scene
from bot.demo.state import Permission, Repository
from bot.domain.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9-]+/(?!\.{1,2}$)[A-Za-z0-9._-]+")


class Owners(Scene):
    """What is told by webhooks returns when they were answered, or could not be sent."""

    async def create_repository(
        self, full_name: str, source: Path | Mapping[str, bytes], *, private: bool = True
    ) -> Repository:
        """A repository with what a local one has checked out (its last commit and the history behind it; it is only
        read), or with one commit of these files. The App is installed on it."""
        if not _NAME.fullmatch(full_name):
            raise UserError(
                f"{full_name} can't be a repository's name: letters, digits, `-`, `_` and `.` can be in it."
            )
        owner, name = full_name.split("/")
        number = self._world.next_id()
        # A name can be somebody else's later, so that the folder is not called after it.
        directory = self._home / owner / f"{number}.git"
        if isinstance(source, Path):
            made = await bare.fetch_head(source, directory, self._home)
        else:
            who = Signature(name=owner, email=f"{owner}@users.noreply.localhost", date=self._clock())
            made = bare.from_files(source, directory, self._home, who)
        (branch,) = made.branches()
        self._world.account(owner, "Organization")
        repository = Repository(
            id=number,
            owner=owner,
            name=name,
            default_branch=branch,
            private=private,
            created_at=self._clock(),
            installation_id=self._world.installation(owner).id,
            bare=made,
        )
        self._world.repositories[full_name] = repository
        self._world.moved.pop(full_name, None)
        return repository

    def grant(self, full_name: str, login: str, permission: Permission) -> None:
        """From now on that is what somebody may do there."""
        self._world.account(login)
        self._repository(full_name).grants[login] = permission

    def permit(self, permission: str, level: str) -> None:
        """The App is given one more permission, and whoever has installed it accepts that."""
        self._world.permissions[permission] = level

    def forbid(self, permission: str) -> None:
        """The App has that permission no longer, or nobody has accepted it yet."""
        del self._world.permissions[permission]

    def rename(self, login: str, new: str) -> None:
        """Somebody takes another name; theirs is free for anybody then."""
        self._world.rename(login, new)

    def lock(self, full_name: str, number: int) -> None:
        """From now on nobody can comment there."""
        self._repository(full_name).issues[number].locked = True

    def archive(self, full_name: str) -> None:
        """From now on nobody can write anything there."""
        self._repository(full_name).archived = True

    def switch_issues_off(self, full_name: str) -> None:
        self._repository(full_name).has_issues = False

    def protect(self, full_name: str, pattern: str) -> None:
        """From now on a rule of the repository keeps the App from making or moving the branches that fit."""
        self._repository(full_name).protected = pattern
