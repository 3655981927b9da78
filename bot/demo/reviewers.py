"""What reviewers do on pull requests."""

from __future__ import annotations

from collections.abc import Sequence

from bot.demo.reviews import Inline, Thread, reply_to, threads, write
from bot.demo.scene import Scene
from bot.demo.state import Review, ReviewComment, ReviewState


class Reviewers(Scene):
    """What is told by webhooks returns when they were answered, or could not be sent."""

    async def review(
        self,
        full_name: str,
        number: int,
        *,
        state: ReviewState = "commented",
        body: str = "",
        comments: Sequence[Inline] = (),
        author: str = "maintainer",
        comments_first: bool = False,
    ) -> Review:
        """Submits a review of the pull request's head as it is now. A single comment on a line is, as on GitHub, a
        review that comments, without a body. GitHub promises no order of the webhooks: the review's own comes first
        or last."""
        issue, pull = self._pull(full_name, number)
        repository = self._repository(full_name)
        review = write(self._world, repository, issue, pull, state=state, body=body, comments=comments, author=author)
        for delivery in self._webhooks.reviewed(repository, issue, review, author, comments_first=comments_first):
            await self._webhooks.finished(delivery)
        return review

    async def reply(self, full_name: str, comment_id: int, body: str, *, author: str = "maintainer") -> ReviewComment:
        """Answers in the thread that a comment belongs to."""
        repository = self._repository(full_name)
        found = repository.review_comment(comment_id)
        assert found is not None, "a comment that is there"
        issue, comment = found
        if comment.in_reply_to is not None:
            return await self.reply(full_name, comment.in_reply_to, body, author=author)
        assert issue.pull is not None, "the comments of a review are on a pull request"
        review = reply_to(self._world, issue, issue.pull, comment, body=body, author=author)
        for delivery in self._webhooks.reviewed(repository, issue, review, author):
            await self._webhooks.finished(delivery)
        return review.comments[0]

    def threads(self, full_name: str, number: int) -> tuple[Thread, ...]:
        """The conversations on lines, in the order in which they were begun."""
        _, pull = self._pull(full_name, number)
        return threads(pull.reviews, self._repository(full_name).bare, pull.head_sha)
