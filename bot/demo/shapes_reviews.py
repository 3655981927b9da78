"""The JSON for reviews of pull requests, and for their comments on lines."""

from __future__ import annotations

from dataclasses import dataclass

from bot.demo.reviews import line_now
from bot.demo.shapes_base import Object, node, when
from bot.demo.shapes_talk import Talk
from bot.demo.state import Issue, Pull, Repository, Review, ReviewComment


@dataclass(frozen=True, kw_only=True)
class Reviews(Talk):
    def review(self, repository: Repository, issue: Issue, review: Review) -> Object:
        """As calls give it; webhooks say the state in small letters, and null for no body."""
        page = f"{self._issue_page(repository, issue)}#pullrequestreview-{review.id}"
        pull = self.url(repository, f"/pulls/{issue.number}")
        return {
            "id": review.id,
            "node_id": node("PullRequestReview", review.id),
            "user": self.user(review.author),
            "author_association": self.association(repository, review.author),
            "body": review.body,
            "state": review.state.upper(),
            "commit_id": review.sha,
            "submitted_at": when(review.submitted_at),
            "html_url": page,
            "pull_request_url": pull,
            "_links": {"html": {"href": page}, "pull_request": {"href": pull}},
        }

    def review_comment(self, repository: Repository, issue: Issue, pull: Pull, comment: ReviewComment) -> Object:
        """Its line is null once it is outdated."""
        line = line_now(comment, repository.bare, pull.head_sha)
        return {
            **self.comment_of_review(repository, issue, pull, comment),
            "line": line,
            "original_line": comment.line,
            "start_line": None,
            "original_start_line": None,
            "start_side": None,
            "side": "RIGHT",
            "subject_type": "line",
        }

    def comment_of_review(self, repository: Repository, issue: Issue, pull: Pull, comment: ReviewComment) -> Object:
        """The older form that the list of one review's comments has: it knows of no lines."""
        url = self.url(repository, f"/pulls/comments/{comment.id}")
        page = f"{self._issue_page(repository, issue)}#discussion_r{comment.id}"
        pull_url = self.url(repository, f"/pulls/{issue.number}")
        outdated = line_now(comment, repository.bare, pull.head_sha) is None
        body: Object = {
            "id": comment.id,
            "node_id": node("PullRequestReviewComment", comment.id),
            "pull_request_review_id": comment.review_id,
            "path": comment.path,
            "diff_hunk": comment.hunk,
            "position": None if outdated else comment.position,
            "original_position": comment.position,
            "commit_id": comment.sha if outdated else pull.head_sha,
            "original_commit_id": comment.sha,
            "user": self.user(comment.author),
            "author_association": self.association(repository, comment.author),
            "body": comment.body,
            "created_at": when(comment.created_at),
            "updated_at": when(comment.updated_at),
            "url": url,
            "html_url": page,
            "pull_request_url": pull_url,
            "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull_url}},
            "reactions": self._reactions(url, comment.reactions),
        }
        if comment.in_reply_to is not None:
            body["in_reply_to_id"] = comment.in_reply_to
        return body
