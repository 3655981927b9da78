"""Reviews of pull requests, and their comments on lines."""

from __future__ import annotations

from datetime import datetime

from bot.demo.calls import READ_PULLS, WRITE_PULLS, Answer, Call, Operations, Refused
from bot.demo.reviews import reply_to
from bot.demo.state import Issue, Pull, Review


def list_reviews(call: Call) -> Answer:
    issue, pull = call.pull()
    return call.page([call.shapes.review(call.repository, issue, review) for review in pull.reviews])


def get_review(call: Call) -> Answer:
    issue, _, review = _review(call)
    return Answer(body=call.shapes.review(call.repository, issue, review))


def list_comments_of_review(call: Call) -> Answer:
    issue, pull, review = _review(call)
    shape = call.shapes.comment_of_review
    return call.page([shape(call.repository, issue, pull, comment) for comment in review.comments])


def _review(call: Call) -> tuple[Issue, Pull, Review]:
    issue, pull = call.pull()
    for review in pull.reviews:
        if review.id == int(call.variables["review_id"]):
            return issue, pull, review
    raise Refused(404, "Not Found")


def list_review_comments(call: Call) -> Answer:
    issue, pull = call.pull()
    comments = [comment for review in pull.reviews for comment in review.comments]
    if "since" in call.query:
        since = datetime.fromisoformat(call.query["since"])
        comments = [comment for comment in comments if comment.updated_at >= since]
    if call.query.get("sort") in ("created", "updated") and call.query.get("direction") == "desc":
        comments.reverse()
    return call.page([call.shapes.review_comment(call.repository, issue, pull, comment) for comment in comments])


def get_review_comment(call: Call) -> Answer:
    issue, comment = call.review_comment()
    assert issue.pull is not None, "the comments of a review are on a pull request"
    return Answer(body=call.shapes.review_comment(call.repository, issue, issue.pull, comment))


def create_reply(call: Call) -> Answer:
    issue, pull = call.pull()
    _, first = call.review_comment()
    if first.in_reply_to is not None:
        raise Refused(422, "Validation Failed: replies to replies are not supported.")
    if issue.locked:
        raise Refused(403, "Unable to create comment because issue is locked.")
    review = reply_to(call.world, issue, pull, first, body=call.text("PullRequestReviewComment"), author=call.me)
    call.webhooks.reviewed(call.repository, issue, review, call.me)
    (comment,) = review.comments
    return Answer(status=201, body=call.shapes.review_comment(call.repository, issue, pull, comment))


def create_reaction(call: Call) -> Answer:
    return call.react(call.review_comment()[1].reactions)


OPERATIONS: Operations = {
    "pulls/list-reviews": (READ_PULLS, list_reviews),
    "pulls/get-review": (READ_PULLS, get_review),
    "pulls/list-comments-for-review": (READ_PULLS, list_comments_of_review),
    "pulls/list-review-comments": (READ_PULLS, list_review_comments),
    "pulls/get-review-comment": (READ_PULLS, get_review_comment),
    "pulls/create-reply-for-review-comment": (WRITE_PULLS, create_reply),
    "reactions/create-for-pull-request-review-comment": (WRITE_PULLS, create_reaction),
}
