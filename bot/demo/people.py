"""What people do on issues and pull requests, and with git."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bot.demo import bare, branches
from bot.demo.bare import Signature, TreeChange
from bot.demo.scene import Scene
from bot.demo.state import Issue, Pull
from bot.demo.webhooks import Delivery

_CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b", re.IGNORECASE)


class People(Scene):
    """What is told by webhooks returns when they were answered, or could not be sent."""

    def open_issue(self, full_name: str, *, title: str, body: str | None = None, author: str) -> Issue:
        return self._world.open_issue(self._repository(full_name), title=title, body=body, author=author)

    async def comment(self, full_name: str, number: int, body: str, *, author: str) -> Delivery:
        """Comments on an issue or a pull request; returns when the webhook was answered, or could not be sent."""
        repository = self._repository(full_name)
        issue = repository.issues[number]
        comment = self._world.add_comment(issue, body=body, author=author)
        return await self._webhooks.finished(self._webhooks.commented(repository, issue, comment, author))

    async def edit_comment(self, full_name: str, comment_id: int, body: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        found = repository.comment(comment_id)
        assert found is not None, "a comment that is there"
        issue, comment = found
        before = comment.body
        self._world.edit_comment(comment, body)
        return await self._webhooks.finished(
            self._webhooks.commented(repository, issue, comment, author, before=before)
        )

    async def delete_comment(self, full_name: str, comment_id: int, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        found = repository.comment(comment_id)
        assert found is not None, "a comment that is there"
        issue, comment = found
        issue.comments.remove(comment)
        return await self._webhooks.finished(self._webhooks.deleted(repository, issue, comment, author))

    async def label(self, full_name: str, number: int, label: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        issue = repository.issues[number]
        issue.labels.append(label)
        issue.updated_at = self._clock()
        return await self._webhooks.finished(self._webhooks.labeled("labeled", repository, issue, label, author))

    async def unlabel(self, full_name: str, number: int, label: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        issue = repository.issues[number]
        issue.labels.remove(label)
        issue.updated_at = self._clock()
        return await self._webhooks.finished(self._webhooks.labeled("unlabeled", repository, issue, label, author))

    async def assign(self, full_name: str, number: int, assignee: str, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        issue = repository.issues[number]
        issue.assignees.append(assignee)
        issue.updated_at = self._clock()
        return await self._webhooks.finished(self._webhooks.assigned(repository, issue, assignee, author))

    async def open_pull(
        self, full_name: str, *, head: str, base: str, title: str, author: str, from_fork: bool = False
    ) -> int:
        """A person's pull request, and its number. `from_fork` has it come from another repository."""
        repository = self._repository(full_name)
        head_sha, base_sha = (repository.bare.ref(f"refs/heads/{branch}") for branch in (head, base))
        assert head_sha is not None, "a branch that is there"
        assert base_sha is not None, "a base that is there"
        pull = Pull(
            head_branch=head, head_sha=head_sha, base=base, base_sha=base_sha, draft=False, from_fork=from_fork
        )
        issue = self._world.open_issue(repository, title=title, body=None, author=author, pull=pull)
        await self._webhooks.finished(self._webhooks.pull_request("opened", repository, issue, author))
        return issue.number

    async def close_issue(self, full_name: str, number: int, *, author: str) -> Delivery:
        repository = self._repository(full_name)
        self._world.close(repository.issues[number])
        return await self._webhooks.finished(self._webhooks.closed(repository, repository.issues[number], author))

    async def close_pull(self, full_name: str, number: int, *, author: str) -> Delivery:
        """Closes a pull request without merging it."""
        self._pull(full_name, number)
        return await self.close_issue(full_name, number, author=author)

    async def merge_pull(self, full_name: str, number: int, *, author: str) -> Delivery:
        """Merges as the green button does, which also closes the issues that the body says it closes."""
        repository = self._repository(full_name)
        issue, pull = self._pull(full_name, number)
        base = repository.bare.ref(f"refs/heads/{pull.base}")
        assert base is not None, "the base branch is there"
        tree = repository.bare.merge_tree(base, pull.head_sha)
        assert tree is not None, "a pull request that merges"
        who = Signature(name=author, email=f"{author}@users.noreply.localhost", date=self._clock())
        message = f"Merge pull request #{number} from {repository.owner}/{pull.head_branch}\n\n{issue.title}"
        merged = repository.bare.write_commit(message, tree, [base, pull.head_sha], who, who)
        moved = repository.bare.move(f"refs/heads/{pull.base}", merged.sha, base)
        assert moved, "nobody else moves the base meanwhile"
        pull.merge_sha, pull.merged_at, pull.merged_by = merged.sha, self._clock(), self._world.account(author).login
        self._world.close(issue)
        delivery = self._webhooks.closed(repository, issue, author)
        for named in _CLOSES.findall(issue.body or "") if pull.base == repository.default_branch else ():
            fixed = repository.issues.get(int(named))
            if fixed is not None and fixed.state == "open":
                self._world.close(fixed)
                self._webhooks.closed(repository, fixed, author)
        return await self._webhooks.finished(delivery)

    async def delete_branch(self, full_name: str, name: str, *, author: str = "maintainer") -> None:
        """Removes a branch, which closes its open pull requests."""
        repository = self._repository(full_name)
        head = repository.bare.ref(f"refs/heads/{name}")
        assert head is not None, "a branch that is there"
        sent = branches.remove(self._world, self._webhooks, repository, name, head, author)
        assert sent is not None, "nobody else moves the branch meanwhile"
        for delivery in sent:
            await self._webhooks.finished(delivery)

    async def create_branch(self, full_name: str, branch: str, sha: str) -> None:
        """A person's push of a new branch."""
        made = self._repository(full_name).bare.move(f"refs/heads/{branch}", sha, bare.ZERO)
        assert made, "a name that is free and a commit that is there"

    async def commit(self, full_name: str, branch: str, files: Mapping[str, bytes], *, author: str) -> str:
        """A person's push of one commit that writes these files, to a branch or to a new one of the default branch's
        head."""
        repository = self._repository(full_name)
        held, ref = repository.bare, f"refs/heads/{branch}"
        head = held.ref(ref)
        parent = head or held.ref(f"refs/heads/{repository.default_branch}")
        assert parent is not None, "a repository with a commit"
        changes = [TreeChange(path=path, mode="100644", sha=held.write_blob(data)) for path, data in files.items()]
        who = Signature(name=author, email=f"{author}@users.noreply.localhost", date=self._clock())
        made = held.write_commit("Change files", held.write_tree(parent, changes), [parent], who, who)
        moved = held.move(ref, made.sha, head or bare.ZERO)
        assert moved, "nobody else moves the branch meanwhile"
        for delivery in self._webhooks.pushed(repository, ref, parent, author):
            await self._webhooks.finished(delivery)
        return made.sha
