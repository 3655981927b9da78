"""Webhooks: what each of them says."""

from __future__ import annotations

from bot.demo.sender import Delivery, Sender
from bot.demo.shapes import Object
from bot.demo.state import CheckRun, Comment, Installation, Issue, Repository, Review, WorkflowRun

__all__ = ["Delivery", "Webhooks"]


class Webhooks(Sender):
    """One method for each thing that happens; whoever calls has changed the state already."""

    def commented(
        self, repository: Repository, issue: Issue, comment: Comment, sender: str, *, before: str | None = None
    ) -> Delivery:
        """A new comment, or an edited one whose body was `before`."""
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "comment": self._shapes.comment(repository, issue, comment),
        }
        if before is None:
            return self._send("issue_comment", "created", repository, sender, payload)
        changes = {"changes": {"body": {"from": before}}}
        return self._send("issue_comment", "edited", repository, sender, {**payload, **changes})

    def deleted(self, repository: Repository, issue: Issue, comment: Comment, sender: str) -> Delivery:
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "comment": self._shapes.comment(repository, issue, comment),
        }
        return self._send("issue_comment", "deleted", repository, sender, payload)

    def labeled(self, action: str, repository: Repository, issue: Issue, label: str, sender: str) -> Delivery:
        """`labeled` or `unlabeled`."""
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "label": self._shapes.label(repository, label),
        }
        return self._send("issues", action, repository, sender, payload)

    def assigned(self, repository: Repository, issue: Issue, assignee: str, sender: str) -> Delivery:
        payload = {
            "issue": self._shapes.issue(repository, issue),
            "assignee": self._shapes.user(assignee),
        }
        return self._send("issues", "assigned", repository, sender, payload)

    def closed(self, repository: Repository, issue: Issue, sender: str) -> Delivery:
        if issue.pull is not None:
            return self.pull_request("closed", repository, issue, sender)
        return self.issue("closed", repository, issue, sender)

    def reopened(self, repository: Repository, issue: Issue, sender: str) -> Delivery:
        if issue.pull is not None:
            return self.pull_request("reopened", repository, issue, sender)
        return self.issue("reopened", repository, issue, sender)

    def issue(self, action: str, repository: Repository, issue: Issue, sender: str) -> Delivery:
        payload = {"issue": self._shapes.issue(repository, issue)}
        return self._send("issues", action, repository, sender, payload)

    def issue_transferred(
        self, old: Repository, before: Issue, new: Repository, moved: Issue, sender: str
    ) -> list[Delivery]:
        """The one repository loses an issue, the other is given one."""
        lost, made = self._shapes.issue(old, before), self._shapes.issue(new, moved)
        to = {"new_issue": made, "new_repository": self._shapes.repository(new)}
        origin = {"old_issue": lost, "old_repository": self._shapes.repository(old)}
        return [
            self._send("issues", "transferred", old, sender, {"issue": lost, "changes": to}),
            self._send("issues", "opened", new, sender, {"issue": made, "changes": origin}),
        ]

    def repository(self, action: str, repository: Repository, sender: str, changes: Object | None = None) -> Delivery:
        payload = {} if changes is None else {"changes": changes}
        return self._send("repository", action, repository, sender, payload)

    def owner(self, repository: Repository) -> Object:
        return self._shapes.user(repository.owner)

    def branch_deleted(self, repository: Repository, branch: str, sender: str) -> Delivery:
        """The one event here that has no action."""
        payload = {"ref": branch, "ref_type": "branch", "pusher_type": "user"}
        return self._send("delete", None, repository, sender, payload)

    def installation(self, action: str, installation: Installation, sender: str) -> Delivery:
        """Every App hears of its own installations."""
        keys = ("id", "node_id", "name", "full_name", "private")
        known = [each for each in self._world.repositories.values() if each.installation_id == installation.id]
        shown = [self._shapes.repository(each) for each in known]
        payload = {
            "installation": self._shapes.installation(installation),
            "repositories": [{key: each[key] for key in keys} for each in shown],
            "requester": None,
            "sender": self._shapes.user(sender),
        }
        return self._enqueue(self._delivery("installation", action, installation.id, None, payload))

    def pushed(self, repository: Repository, ref: str, before: str, sender: str) -> list[Delivery]:
        """To the open pull requests from that branch, which was at `before`."""
        return [
            self.pull_request("synchronize", repository, issue, sender, before=before, after=pull.head_sha)
            for issue, pull in repository.pulls()
            if issue.state == "open" and f"refs/heads/{pull.head_branch}" == ref
        ]

    def pull_request(self, action: str, repository: Repository, issue: Issue, sender: str, **more: str) -> Delivery:
        assert issue.pull is not None
        pull = self._shapes.full_pull(repository, issue, issue.pull)
        payload = {"number": issue.number, "pull_request": pull, **more}
        return self._send("pull_request", action, repository, sender, payload)

    def reviewed(
        self, repository: Repository, issue: Issue, review: Review, sender: str, *, comments_first: bool = False
    ) -> list[Delivery]:
        """The review, and each of its comments."""
        assert issue.pull is not None, "reviews are of pull requests"
        pull = self._shapes.pull(repository, issue, issue.pull)
        told = {**self._shapes.review(repository, issue, review), "state": review.state, "body": review.body or None}
        sent = [] if comments_first else [self._reviewed(repository, sender, told, pull)]
        for comment in review.comments:
            said = self._shapes.review_comment(repository, issue, issue.pull, comment)
            payload = {"comment": said, "pull_request": pull}
            sent.append(self._send("pull_request_review_comment", "created", repository, sender, payload))
        return [*sent, self._reviewed(repository, sender, told, pull)] if comments_first else sent

    def _reviewed(self, repository: Repository, sender: str, review: Object, pull: Object) -> Delivery:
        payload = {"review": review, "pull_request": pull}
        return self._send("pull_request_review", "submitted", repository, sender, payload)

    def check_run(self, action: str, repository: Repository, run: CheckRun, sender: str) -> Delivery:
        suite = self._shapes.check_suite(repository, repository.suite_of(run))
        told = {"check_run": {**self._shapes.check_run(repository, run), "check_suite": suite}}
        return self._send("check_run", action, repository, sender, told)

    def checked(
        self, repository: Repository, run: CheckRun, workflow: WorkflowRun | None, sender: str
    ) -> list[Delivery]:
        """A run, with it its suite and, where it is one of Actions, its workflow run: each has ended."""
        suite = self._shapes.check_suite(repository, repository.suite_of(run))
        sent = [
            self.check_run("completed", repository, run, sender),
            self._send("check_suite", "completed", repository, sender, {"check_suite": suite}),
        ]
        if workflow is not None:
            payload = {
                "workflow_run": self._shapes.workflow_run(repository, workflow),
                "workflow": self._shapes.workflow(repository, workflow),
            }
            sent.append(self._send("workflow_run", "completed", repository, sender, payload))
        return sent
