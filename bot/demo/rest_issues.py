"""Conversations: issues, comments, labels and reactions."""

from __future__ import annotations

from datetime import datetime

from bot.demo.calls import READ_TALK, TALK, Answer, Call, Operations, Refused


def get_issue(call: Call) -> Answer:
    return Answer(body=call.shapes.issue(call.repository, call.issue()))


def list_comments(call: Call) -> Answer:
    issue = call.issue()
    since = datetime.fromisoformat(call.query["since"]) if "since" in call.query else None
    comments = [comment for comment in issue.comments if since is None or comment.updated_at >= since]
    return call.page([call.shapes.comment(call.repository, issue, comment) for comment in comments])


def create_comment(call: Call) -> Answer:
    issue = call.issue()
    if issue.locked:
        raise Refused(403, "Unable to create comment because issue is locked.")
    comment = call.world.add_comment(issue, body=call.text("IssueComment"), author=call.me)
    call.webhooks.commented(call.repository, issue, comment, call.me)
    return Answer(status=201, body=call.shapes.comment(call.repository, issue, comment))


def update_comment(call: Call) -> Answer:
    issue, comment = call.comment()
    before = comment.body
    call.world.edit_comment(comment, call.text("IssueComment"))
    call.webhooks.commented(call.repository, issue, comment, call.me, before=before)
    return Answer(body=call.shapes.comment(call.repository, issue, comment))


def create_reaction(call: Call) -> Answer:
    return call.react(call.comment()[1].reactions)


def add_labels(call: Call) -> Answer:
    issue = call.issue()
    named = (call.body or {}).get("labels", ())
    for label in (label if isinstance(label, str) else label["name"] for label in named):
        if label not in issue.labels:
            issue.labels.append(label)
    return Answer(body=[call.shapes.label(call.repository, name) for name in issue.labels])


OPERATIONS: Operations = {
    "issues/get": (READ_TALK, get_issue),
    "issues/list-comments": (READ_TALK, list_comments),
    "issues/create-comment": (TALK, create_comment),
    "issues/update-comment": (TALK, update_comment),
    "issues/add-labels": (TALK, add_labels),
    "reactions/create-for-issue-comment": (TALK, create_reaction),
}
