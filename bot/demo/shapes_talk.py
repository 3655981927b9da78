"""The JSON for conversations: issues, comments, reactions and pull requests."""

from __future__ import annotations

from dataclasses import dataclass

from bot.demo.shapes_base import Base, Object, maybe, node, when
from bot.demo.state import REACTIONS, Comment, Issue, Pull, Reaction, Repository


@dataclass(frozen=True, kw_only=True)
class Talk(Base):
    def issue(self, repository: Repository, issue: Issue) -> Object:
        url = self.url(repository, f"/issues/{issue.number}")
        body: Object = {
            "id": issue.id,
            "node_id": node("Issue", issue.id),
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "user": self.user(issue.author),
            "author_association": self.association(repository, issue.author),
            "state": issue.state,
            "state_reason": "completed" if issue.state == "closed" else None,
            "locked": issue.locked,
            "labels": [self.label(repository, name) for name in issue.labels],
            "assignee": self.user(issue.assignees[0]) if issue.assignees else None,
            "assignees": [self.user(login) for login in issue.assignees],
            "milestone": None,
            "comments": len(issue.comments),
            "created_at": when(issue.created_at),
            "updated_at": when(issue.updated_at),
            "closed_at": maybe(issue.closed_at),
            "url": url,
            "html_url": self._issue_page(repository, issue),
            "repository_url": self.url(repository),
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "labels_url": f"{url}/labels{{/name}}",
        }
        if issue.pull is not None:
            page = self._issue_page(repository, issue)
            body["pull_request"] = {
                "url": self.url(repository, f"/pulls/{issue.number}"),
                "html_url": page,
                "diff_url": f"{page}.diff",
                "patch_url": f"{page}.patch",
                "merged_at": maybe(issue.pull.merged_at),
            }
        return body

    def _issue_page(self, repository: Repository, issue: Issue) -> str:
        return self.page(repository, f"/{'issues' if issue.pull is None else 'pull'}/{issue.number}")

    def comment(self, repository: Repository, issue: Issue, comment: Comment) -> Object:
        url = self.url(repository, f"/issues/comments/{comment.id}")
        return {
            "id": comment.id,
            "node_id": node("IssueComment", comment.id),
            "url": url,
            "html_url": f"{self._issue_page(repository, issue)}#issuecomment-{comment.id}",
            "issue_url": self.url(repository, f"/issues/{issue.number}"),
            "user": self.user(comment.author),
            "author_association": self.association(repository, comment.author),
            "body": comment.body,
            "created_at": when(comment.created_at),
            "updated_at": when(comment.updated_at),
            "performed_via_github_app": self.app() if comment.author == self.world.app.login else None,
            "reactions": self._reactions(url, comment.reactions),
        }

    def _reactions(self, url: str, given: list[Reaction]) -> Object:
        counts = {name: sum(reaction.content == name for reaction in given) for name in REACTIONS}
        return {"url": f"{url}/reactions", "total_count": len(given), **counts}

    def reaction(self, reaction: Reaction) -> Object:
        return {
            "id": reaction.id,
            "node_id": node("Reaction", reaction.id),
            "user": self.user(reaction.login),
            "content": reaction.content,
            "created_at": when(reaction.created_at),
        }

    def pull(self, repository: Repository, issue: Issue, pull: Pull) -> Object:
        """The form that lists give."""
        url, page = self.url(repository, f"/pulls/{issue.number}"), self._issue_page(repository, issue)
        issue_url = self.url(repository, f"/issues/{issue.number}")
        links = {
            "self": url,
            "html": page,
            "issue": issue_url,
            "comments": f"{issue_url}/comments",
            "review_comments": f"{url}/comments",
            "review_comment": self.url(repository, "/pulls/comments{/number}"),
            "commits": f"{url}/commits",
            "statuses": self.url(repository, f"/statuses/{pull.head_sha}"),
        }
        return {
            "id": issue.id,
            "node_id": node("PullRequest", issue.id),
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "user": self.user(issue.author),
            "author_association": self.association(repository, issue.author),
            "state": issue.state,
            "locked": issue.locked,
            "draft": pull.draft,
            "labels": [self.label(repository, name) for name in issue.labels],
            "assignee": None,
            "assignees": [],
            "requested_reviewers": [self.user(login) for login in pull.reviewers],
            "requested_teams": [],
            "milestone": None,
            "auto_merge": None,
            "head": self._side(repository, pull.head_branch, pull.head_sha, is_fork=pull.from_fork),
            "base": self._side(repository, pull.base, pull.base_sha),
            "merge_commit_sha": pull.merge_sha,
            "created_at": when(issue.created_at),
            "updated_at": when(issue.updated_at),
            "closed_at": maybe(issue.closed_at),
            "merged_at": maybe(pull.merged_at),
            "url": url,
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "issue_url": issue_url,
            **{f"{name}_url": links[name] for name in ("comments", "review_comments", "review_comment")},
            **{f"{name}_url": links[name] for name in ("commits", "statuses")},
            "_links": {name: {"href": link} for name, link in links.items()},
        }

    def full_pull(self, repository: Repository, issue: Issue, pull: Pull) -> Object:
        """The form of one pull request by itself, which adds what has to be counted."""
        difference = repository.bare.difference(pull.base_sha, pull.head_sha)
        tip = repository.bare.ref(f"refs/heads/{pull.base}") or pull.base_sha
        mergeable = issue.state == "open" and repository.bare.merge_tree(tip, pull.head_sha) is not None
        return {
            **self.pull(repository, issue, pull),
            "merged": pull.merged_at is not None,
            "merged_by": None if pull.merged_by is None else self.user(pull.merged_by),
            "mergeable": mergeable if issue.state == "open" else None,
            "mergeable_state": ("clean" if mergeable else "dirty") if issue.state == "open" else "unknown",
            "rebaseable": None,
            "maintainer_can_modify": False,
            "comments": len(issue.comments),
            "review_comments": sum(len(review.comments) for review in pull.reviews),
            "commits": difference.commits,
            "additions": difference.additions,
            "deletions": difference.deletions,
            "changed_files": difference.files,
        }

    def _side(self, repository: Repository, branch: str, sha: str, *, is_fork: bool = False) -> Object:
        there = self.repository(repository)
        if is_fork:
            there |= {"id": -repository.id, "fork": True}
        return {
            "label": f"{repository.owner}:{branch}",
            "ref": branch,
            "sha": sha,
            "user": self.user(repository.owner),
            "repo": there,
        }
