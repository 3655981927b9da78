"""Pull requests."""

from __future__ import annotations

from bot.demo.bare import BadObject
from bot.demo.calls import READ_PULLS, WRITE_PULLS, Answer, Call, Operations, Refused, invalid
from bot.demo.shapes import Object
from bot.demo.state import Pull


def create_pull(call: Call) -> Answer:
    repository, bare, base = call.repository, call.repository.bare, str(call.body["base"])
    owner, _, branch = str(call.body["head"]).rpartition(":")
    head_sha, base_sha = bare.ref(f"refs/heads/{branch}"), bare.ref(f"refs/heads/{base}")
    if "title" not in call.body:
        raise invalid("Issue", "title", "missing_field")
    if base_sha is None:
        raise invalid("PullRequest", "base")
    if head_sha is None or owner not in ("", repository.owner):
        raise invalid("PullRequest", "head")
    for issue, pull in repository.pulls():
        if issue.state == "open" and (pull.head_branch, pull.base) == (branch, base):
            message = f"A pull request already exists for {repository.owner}:{branch}."
            raise Refused(422, "Validation Failed", [_custom(message)])
    if bare.is_ancestor(head_sha, base_sha):
        raise Refused(422, "Validation Failed", [_custom(f"No commits between {base} and {branch}")])
    pull = Pull(
        head_branch=branch,
        head_sha=head_sha,
        base=base,
        base_sha=base_sha,
        draft=bool(call.body.get("draft", False)),
    )
    try:
        bare.difference(base_sha, head_sha)
    except BadObject as exc:
        message = f"The {branch} branch has no history in common with {base}"
        raise Refused(422, "Validation Failed", [_custom(message)]) from exc
    issue = call.world.open_issue(
        repository, title=call.body["title"], body=call.body.get("body"), author=call.me, pull=pull
    )
    call.webhooks.pull_request("opened", repository, issue, call.me)
    return Answer(status=201, body=call.shapes.full_pull(repository, issue, pull))


def _custom(message: str) -> Object:
    return {"resource": "PullRequest", "code": "custom", "message": message}


def list_pulls(call: Call) -> Answer:
    state, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    newest_first = call.query.get("direction", "desc" if call.query.get("sort", "created") == "created" else "asc")
    found = [
        call.shapes.pull(call.repository, issue, pull)
        for issue, pull in call.repository.pulls()
        if state in ("all", issue.state)
        and head in (None, f"{call.repository.owner}:{pull.head_branch}")
        and base in (None, pull.base)
    ]
    return call.page(found[::-1] if newest_first == "desc" else found)


def get_pull(call: Call) -> Answer:
    return Answer(body=call.shapes.full_pull(call.repository, *call.pull()))


def update_pull(call: Call) -> Answer:
    issue, pull = call.pull()
    asked = call.body or {}
    if "base" in asked:
        base_sha = call.repository.bare.ref(f"refs/heads/{asked['base']}")
        if base_sha is None:
            raise invalid("PullRequest", "base")
        pull.base, pull.base_sha = asked["base"], base_sha
    edited = [key for key in ("title", "body") if key in asked and asked[key] != getattr(issue, key)]
    issue.title, issue.body = asked.get("title", issue.title), asked.get("body", issue.body)
    issue.updated_at = call.world.clock()
    if edited:
        call.webhooks.pull_request("edited", call.repository, issue, call.me)
    if asked.get("state", issue.state) != issue.state:
        if asked["state"] == "open":
            call.world.reopen(issue)
            call.webhooks.reopened(call.repository, issue, call.me)
        else:
            call.world.close(issue)
            call.webhooks.closed(call.repository, issue, call.me)
    return Answer(body=call.shapes.full_pull(call.repository, issue, pull))


def request_reviewers(call: Call) -> Answer:
    issue, pull = call.pull()
    for login in (call.body or {}).get("reviewers", ()):
        if login == issue.author:
            raise Refused(422, "Review cannot be requested from pull request author.")
        if call.world.permission(call.repository, login) in (None, "none"):
            raise Refused(422, "Reviews may only be requested from collaborators.")
        if login not in pull.reviewers:
            pull.reviewers.append(login)
    return Answer(status=201, body=call.shapes.pull(call.repository, issue, pull))


OPERATIONS: Operations = {
    "pulls/create": (WRITE_PULLS, create_pull),
    "pulls/list": (READ_PULLS, list_pulls),
    "pulls/get": (READ_PULLS, get_pull),
    "pulls/update": (WRITE_PULLS, update_pull),
    "pulls/request-reviewers": (WRITE_PULLS, request_reviewers),
}
