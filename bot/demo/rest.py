"""GitHub's REST API for the calls the bot makes: who may, what happens, what is answered."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode

import jwt

from bot.demo.bare import ZERO, BadObject, Commit, Entry, Signature, TreeChange
from bot.demo.contract import Contract
from bot.demo.shapes import Object, Shapes
from bot.demo.state import LEVELS, CheckRun, Comment, Issue, Pull, Reaction, Repository, Token, World
from bot.demo.webhooks import Webhooks

KEPT_CALLS = 2000
JWT_LIFETIME_S = 600
COMMENT_LIMIT = 65536
PAGE_LIMIT = 100


@dataclass(frozen=True, kw_only=True)
class Logged:
    """One call as it was answered; `operation` is GitHub's own name for it, None where it is no call we know."""

    method: str
    path: str
    status: int
    operation: str | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """A call that ends with an error status."""

    def __init__(self, status: int, message: str, errors: list[Object] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors


@dataclass(frozen=True, kw_only=True)
class Needs:
    """One of these permissions at this level, on the repository that the path names."""

    permissions: tuple[str, ...]
    level: Literal["read", "write"]


Access = Literal["app", "token"] | Needs
"""The App itself by its JWT, any live installation token, or one that reaches and may."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that was let in."""

    world: World
    shapes: Shapes
    webhooks: Webhooks
    path: str
    variables: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    token: Token | None

    @property
    def me(self) -> str:
        """Who the App is to others."""
        return self.world.app.login

    @property
    def repository(self) -> Repository:
        return self.world.repositories[f"{self.variables['owner']}/{self.variables['repo']}"]

    def issue(self, name: str = "issue_number") -> Issue:
        number = int(self.variables[name])
        if number not in self.repository.issues:
            raise Refused(404, "Not Found")
        return self.repository.issues[number]

    def pull(self) -> tuple[Issue, Pull]:
        issue = self.issue("pull_number")
        for known, pull in self.repository.pulls():
            if known is issue:
                return issue, pull
        raise Refused(404, "Not Found")

    def comment(self) -> tuple[Issue, Comment]:
        found = self.repository.comment(int(self.variables["comment_id"]))
        if found is None:
            raise Refused(404, "Not Found")
        return found

    def page(self, items: Sequence[Object]) -> Answer:
        """The part of a list that was asked for, with links to its neighbours."""
        size = min(max(int(self.query.get("per_page", 30)), 1), PAGE_LIMIT)
        number = max(int(self.query.get("page", 1)), 1)
        last = max((len(items) + size - 1) // size, 1)
        wanted = {"first": 1, "prev": number - 1} if number > 1 else {}
        wanted |= {"next": number + 1, "last": last} if number < last else {}
        links = [
            f'<{self.shapes.api_url}{self.path}?{urlencode({**self.query, "page": there})}>; rel="{name}"'
            for name, there in wanted.items()
        ]
        part = list(items[(number - 1) * size : number * size])
        return Answer(body=part, headers={"Link": ", ".join(links)} if links else {})


Handler = Callable[[Call], Answer]


class Rest:
    """Answers calls. What breaks GitHub's own description, on either side, ends up in `violations`."""

    def __init__(self, world: World, shapes: Shapes, webhooks: Webhooks, contract: Contract) -> None:
        self.calls: deque[Logged] = deque(maxlen=KEPT_CALLS)
        self.violations: list[str] = []
        self.trouble: dict[str, deque[Answer]] = {}
        """By operation, what goes wrong with its next calls."""
        self._world = world
        self._shapes = shapes
        self._webhooks = webhooks
        self._contract = contract

    def answer(self, method: str, path: str, query: str, authorization: str, content: bytes) -> Answer:
        """`path` and `query` as they were sent, percent-encoded, without the API's prefix."""
        found = self._contract.operation(method, path)
        operation = found[0].id if found is not None else None
        if operation is not None and (waiting := self.trouble.get(operation)):
            answer = waiting.popleft()
            self.calls.append(Logged(method=method, path=path, status=answer.status, operation=operation))
            return answer
        try:
            answer = self._answer(method, path, query, authorization, content)
        except Refused as exc:
            answer = Answer(status=exc.status, body=self._shapes.error(exc.status, exc.message, exc.errors))
        if found is not None:
            problems = self._contract.answer_problems(found[0], answer.status, answer.body)
            if problems:
                self.violations.append(f"{operation} was answered wrongly: {'; '.join(problems)}")
                answer = Answer(status=500, body=self._shapes.error(500, "The local GitHub broke its contract."))
        self.calls.append(Logged(method=method, path=path, status=answer.status, operation=operation))
        return answer

    def _answer(self, method: str, path: str, query: str, authorization: str, content: bytes) -> Answer:
        found = self._contract.operation(method, path)
        if found is None:
            self.violations.append(f"{method} {path} is no operation that the local GitHub has")
            raise Refused(404, "Not Found")
        operation, variables = found
        access, handle = OPERATIONS[operation.id]
        token = self._admit(access, authorization, variables)
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        try:
            body = json.loads(content) if content else None
        except ValueError as exc:
            self.violations.append(f"{operation.id} was called with a body that is no JSON")
            raise Refused(400, "Problems parsing JSON") from exc
        problems = self._contract.request_problems(operation, variables, parameters, body)
        if problems:
            self.violations.append(f"{operation.id} was called wrongly: {'; '.join(problems)}")
            raise Refused(422, f"Invalid request. {'; '.join(problems)}")
        call = Call(
            world=self._world,
            shapes=self._shapes,
            webhooks=self._webhooks,
            path=path,
            variables=variables,
            query=parameters,
            body=body,
            token=token,
        )
        return handle(call)

    def _admit(self, access: Access, authorization: str, variables: Mapping[str, str]) -> Token | None:
        scheme, _, credential = authorization.partition(" ")
        if not credential or scheme.lower() not in ("bearer", "token"):
            raise Refused(401, "Requires authentication")
        if access == "app":
            self._check_app(credential.strip())
            return None
        token = self._world.live_token(credential.strip())
        if token is None:
            raise Refused(401, "Bad credentials")
        if isinstance(access, Needs):
            repository = self._world.repositories.get(f"{variables['owner']}/{variables['repo']}")
            if repository is None or not token.reaches(repository):
                raise Refused(404, "Not Found")
            wanted = _talk_of(repository, variables) if access.permissions == _EITHER else access.permissions
            if not any(token.allows(permission, access.level) for permission in wanted):
                raise Refused(403, "Resource not accessible by integration")
            if access.level == "write" and repository.archived:
                raise Refused(403, "Repository was archived so is read-only.")
        return token

    def _check_app(self, credential: str) -> None:
        """Judged by the machine's own clock, since that is the one the callers' JWT libraries go by."""
        app = self._world.app
        try:
            claims = jwt.decode(
                credential,
                app.public_key,
                algorithms=["RS256"],
                issuer=str(app.app_id),
                options={"require": ["exp", "iat", "iss"]},
            )
        except jwt.InvalidTokenError as exc:
            raise Refused(401, "A JSON web token could not be decoded") from exc
        if claims["exp"] - time.time() > JWT_LIFETIME_S:
            raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")


def _talk_of(repository: Repository, variables: Mapping[str, str]) -> tuple[str, ...]:
    """GitHub's pages say that either permission will do for a conversation; not everywhere is that so. Here it takes
    the one of its kind: whoever has that is let in by both."""
    if "comment_id" in variables:
        found = repository.comment(int(variables["comment_id"]))
        issue = found[0] if found else None
    else:
        issue = repository.issues.get(int(variables["issue_number"]))
    return ("pull_requests",) if issue is not None and issue.pull is not None else ("issues",)


def _invalid(resource: str, name: str, code: str = "invalid", message: str | None = None) -> Refused:
    error = {"resource": resource, "field": name, "code": code}
    return Refused(422, "Validation Failed", [{**error, "message": message} if message else error])


# The App


def get_app(call: Call) -> Answer:
    return Answer(body=call.shapes.app())


def get_repository_installation(call: Call) -> Answer:
    repository = call.world.repositories.get(f"{call.variables['owner']}/{call.variables['repo']}")
    if repository is None:
        raise Refused(404, "Not Found")
    return Answer(body=call.shapes.installation(repository.installation_id))


def create_token(call: Call) -> Answer:
    installation = int(call.variables["installation_id"])
    if installation not in call.world.installations:
        raise Refused(404, "Not Found")
    asked = call.body or {}
    permissions = asked.get("permissions", call.world.permissions)
    for name, level in permissions.items():
        held = call.world.permissions.get(name)
        if held is None or LEVELS.index(held) < LEVELS.index(level):
            raise Refused(422, "The permissions requested are not granted to this installation.")
    mine = [known for known in call.world.repositories.values() if known.installation_id == installation]
    names: tuple[str, ...] | None = None
    if "repositories" in asked or "repository_ids" in asked:
        by_name = {known.name: known.full_name for known in mine}
        by_id = {known.id: known.full_name for known in mine}
        chosen = [by_name.get(name) for name in asked.get("repositories", ())]
        chosen += [by_id.get(number) for number in asked.get("repository_ids", ())]
        names = tuple(name for name in chosen if name is not None)
        if len(names) != len(chosen):
            raise Refused(422, "There is at least one repository that does not exist or is not accessible.")
    token = call.world.mint(installation, {"metadata": "read", **permissions}, names)
    return Answer(status=201, body=call.shapes.token(token))


def revoke_token(call: Call) -> Answer:
    assert call.token is not None
    call.token.revoked = True
    return Answer(status=204)


# Repositories


def get_repository(call: Call) -> Answer:
    return Answer(body=call.shapes.repository(call.repository))


def get_permission(call: Call) -> Answer:
    login = call.variables["username"]
    permission = call.world.permission(call.repository, login)
    if permission is None:
        raise Refused(404, f"{login} is not a user")
    return Answer(body=call.shapes.permission(login, permission))


def get_branch(call: Call) -> Answer:
    sha = call.repository.bare.ref(f"refs/heads/{call.variables['branch']}")
    if sha is None:
        raise Refused(404, "Branch not found")
    return Answer(
        body=call.shapes.branch(call.repository, call.variables["branch"], call.repository.bare.commit(sha))
    )


def get_commit(call: Call) -> Answer:
    sha = call.repository.bare.resolve(call.variables["ref"])
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {call.variables['ref']}")
    return Answer(body=call.shapes.commit(call.repository, call.repository.bare.commit(sha)))


def get_content(call: Call) -> Answer:
    repository, bare = call.repository, call.repository.bare
    ref = call.query.get("ref", repository.default_branch)
    commit = bare.resolve(ref)
    if commit is None:
        raise Refused(404, f"No commit found for the ref {ref}")
    path = call.variables["path"].strip("/")
    entry = bare.entry(commit, path) if path else Entry(mode="040000", type="tree", sha=commit, path="")
    if entry is not None and entry.mode == "120000":
        # A link to a regular file in the repository is answered with that file.
        target = _followed(path, bare.blob(entry.sha).decode("utf-8", "replace"))
        behind = bare.entry(commit, target) if target else None
        entry = behind if behind is not None and behind.mode.startswith("100") else entry
    if entry is None:
        raise Refused(404, "Not Found")
    if entry.type == "tree":
        return Answer(body=call.shapes.folder(repository, path, bare.tree(entry.sha), ref))
    return Answer(body=call.shapes.file(repository, path, entry, ref, bare))


def _followed(link: str, target: str) -> str | None:
    """Where in the repository a link leads, or None where it leads out."""
    parts = [] if target.startswith("/") else link.split("/")[:-1]
    if target.startswith("/"):
        return None
    for part in target.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or None


# Issues


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
    comment = call.world.add_comment(issue, body=_comment_body(call), author=call.me)
    call.webhooks.commented(call.repository, issue, comment, call.me)
    return Answer(status=201, body=call.shapes.comment(call.repository, issue, comment))


def update_comment(call: Call) -> Answer:
    issue, comment = call.comment()
    before = comment.body
    call.world.edit_comment(comment, _comment_body(call))
    call.webhooks.commented(call.repository, issue, comment, call.me, before=before)
    return Answer(body=call.shapes.comment(call.repository, issue, comment))


def _comment_body(call: Call) -> str:
    text = str(call.body["body"])
    if not text.strip():
        raise _invalid("IssueComment", "body", "missing_field")
    if len(text) > COMMENT_LIMIT:
        raise _invalid("IssueComment", "body", "custom", f"body is too long (maximum is {COMMENT_LIMIT} characters)")
    return text


def create_reaction(call: Call) -> Answer:
    _, comment = call.comment()
    content = call.body["content"]
    for reaction in comment.reactions:
        if (reaction.login, reaction.content) == (call.me, content):
            return Answer(status=200, body=call.shapes.reaction(reaction))
    number, now = call.world.next_id(), call.world.clock()
    reaction = Reaction(id=number, login=call.me, content=content, created_at=now)
    comment.reactions.append(reaction)
    return Answer(status=201, body=call.shapes.reaction(reaction))


def add_labels(call: Call) -> Answer:
    issue = call.issue()
    named = (call.body or {}).get("labels", ())
    for label in (label if isinstance(label, str) else label["name"] for label in named):
        if label not in issue.labels:
            issue.labels.append(label)
    return Answer(body=[call.shapes.label(call.repository, name) for name in issue.labels])


# Git data


def get_ref(call: Call) -> Answer:
    name = f"refs/{call.variables['ref']}"
    sha = call.repository.bare.ref(name)
    if sha is None:
        raise Refused(404, "Not Found")
    return _ref(call, name, sha)


def list_matching_refs(call: Call) -> Answer:
    bare, beginning = call.repository.bare, f"refs/{call.variables['ref']}"
    found = []
    for name, sha in bare.refs(beginning).items():
        kind = bare.kind(sha)
        assert kind is not None, "a ref points at an object"
        found.append(call.shapes.ref(call.repository, name, sha, kind))
    return Answer(body=found)


def _ref(call: Call, name: str, sha: str, status: int = 200) -> Answer:
    kind = call.repository.bare.kind(sha)
    assert kind is not None, "a ref points at an object"
    return Answer(status=status, body=call.shapes.ref(call.repository, name, sha, kind))


def create_ref(call: Call) -> Answer:
    bare, name, sha = call.repository.bare, str(call.body["ref"]), str(call.body["sha"])
    if name.count("/") < 2 or not bare.is_ref_name(name):
        raise Refused(422, f"{name} is not a valid ref name.")
    if bare.kind(sha) is None or (name.startswith("refs/heads/") and bare.kind(sha) != "commit"):
        raise Refused(422, "Object does not exist")
    if bare.ref(name) is not None:
        raise Refused(422, "Reference already exists")
    _must_be_free(call.repository, name)
    if not bare.move(name, sha, ZERO):
        # Another ref is in the way: `a` and `a/b` can't both be there.
        raise Refused(422, "Reference update failed")
    return _ref(call, name, sha, 201)


def update_ref(call: Call) -> Answer:
    bare, name, sha = call.repository.bare, f"refs/{call.variables['ref']}", str(call.body["sha"])
    old = bare.ref(name)
    if old is None:
        raise Refused(422, "Reference does not exist")
    if bare.kind(sha) != "commit":
        raise Refused(422, "Object does not exist")
    if not call.body.get("force", False) and not bare.is_ancestor(old, sha):
        raise Refused(422, "Update is not a fast forward")
    _must_be_free(call.repository, name)
    if not bare.move(name, sha, old):
        raise Refused(409, "Reference has changed meanwhile")
    call.webhooks.pushed(call.repository, name, old, call.me)
    return _ref(call, name, sha)


def _must_be_free(repository: Repository, name: str) -> None:
    if repository.protected is not None and fnmatchcase(name.removeprefix("refs/heads/"), repository.protected):
        raise Refused(422, "Repository rule violations found\n\nCannot create ref due to creations being restricted.")


def delete_ref(call: Call) -> Answer:
    bare, name = call.repository.bare, f"refs/{call.variables['ref']}"
    old = bare.ref(name)
    if old is None or not name.startswith(("refs/heads/", "refs/tags/")):
        raise Refused(422, "Reference does not exist")
    orphaned = [issue for issue, pull in call.repository.pulls() if f"refs/heads/{pull.head_branch}" == name]
    if not bare.move(name, ZERO, old):
        raise Refused(409, "Reference has changed meanwhile")
    for issue in orphaned:
        if issue.state == "open":
            call.world.close(issue)
            call.webhooks.closed(call.repository, issue, call.me)
    return Answer(status=204)


def create_blob(call: Call) -> Answer:
    text = str(call.body["content"])
    try:
        if call.body.get("encoding", "utf-8") == "base64":
            content = base64.b64decode("".join(text.split()), validate=True)
        else:
            content = text.encode()
    except (binascii.Error, UnicodeEncodeError) as exc:
        raise _invalid("Blob", "content") from exc
    sha = call.repository.bare.write_blob(content)
    return Answer(status=201, body=call.shapes.blob(call.repository, sha))


def create_tree(call: Call) -> Answer:
    bare, base = call.repository.bare, call.body.get("base_tree")
    if base is not None and bare.kind(base) not in ("tree", "commit"):
        raise Refused(422, "base_tree is not a valid tree oid")
    entries = call.body["tree"]
    changes = [_change(call, entry) for entry in entries]
    texts = [place for place, entry in enumerate(entries) if "content" in entry]
    written = bare.write_blobs([entries[place]["content"].encode() for place in texts])
    for place, blob in zip(texts, written, strict=True):
        changes[place] = replace(changes[place], sha=blob)
    try:
        sha = bare.write_tree(base, changes)
    except BadObject as exc:
        raise Refused(422, "GitRPC::BadObjectState") from exc
    return Answer(status=201, body=call.shapes.tree(call.repository, sha, bare.tree(sha)))


def _change(call: Call, entry: Object) -> TreeChange:
    """One entry as it was asked for; the object of a text is still to be written."""
    path, mode, sha, bare = entry.get("path", ""), entry.get("mode", ""), entry.get("sha"), call.repository.bare
    parts = path.split("/")
    if "" in parts or {".", "..", ".git"} & {part.lower() for part in parts} or "\0" in path:
        raise Refused(422, "tree.path contains a malformed path component")
    if not mode:
        raise Refused(422, "Must supply a valid tree.mode")
    if ("content" in entry) == ("sha" in entry):
        raise Refused(422, "Must supply either tree.sha or tree.content")
    try:
        path.encode()
        if "content" in entry:
            entry["content"].encode()
            return TreeChange(path=path, mode=mode, sha=ZERO)
    except UnicodeEncodeError as exc:
        raise Refused(422, "tree holds text that is not Unicode") from exc
    kind = {"040000": "tree", "160000": None}.get(mode, "blob")
    # A submodule's commit is in another repository.
    if sha is not None and kind is not None and bare.kind(sha) != kind:
        raise Refused(422, f"tree.sha {sha} is not a valid {kind}")
    return TreeChange(path=path, mode=mode, sha=sha)


def get_tree(call: Call) -> Answer:
    bare, name = call.repository.bare, call.variables["tree_sha"]
    sha = name if bare.kind(name) == "tree" else bare.resolve(name)
    if sha is None:
        raise Refused(404, "Not Found")
    tree = sha if bare.kind(sha) == "tree" else bare.commit(sha).tree
    entries = bare.tree(tree, recursive="recursive" in call.query)
    return Answer(body=call.shapes.tree(call.repository, tree, entries))


def create_git_commit(call: Call) -> Answer:
    bare, tree, parents = call.repository.bare, call.body["tree"], call.body.get("parents", [])
    if bare.kind(tree) != "tree":
        raise Refused(422, "Tree SHA does not exist")
    if any(bare.kind(parent) != "commit" for parent in parents):
        raise Refused(422, "Parent SHA does not exist or is not a commit object")
    author = _signature(call, call.body.get("author"))
    committer = _signature(call, call.body["committer"]) if "committer" in call.body else author
    try:
        commit = bare.write_commit(call.body["message"], tree, parents, author, committer)
    except (BadObject, UnicodeEncodeError) as exc:
        raise Refused(422, "Invalid commit") from exc
    return _git_commit(call, commit, 201)


def _signature(call: Call, given: Object | None) -> Signature:
    """Where nobody is named, the App signs with its own account."""
    account, now = call.world.account(call.me), call.world.clock()
    if given is None:
        return Signature(name=account.login, email=f"{account.id}+{account.login}@users.noreply.localhost", date=now)
    date = datetime.fromisoformat(given["date"]) if "date" in given else now
    return Signature(name=given.get("name", account.login), email=given.get("email", ""), date=date)


def get_git_commit(call: Call) -> Answer:
    sha = call.variables["commit_sha"]
    if call.repository.bare.kind(sha) != "commit":
        raise Refused(404, "Not Found")
    return _git_commit(call, call.repository.bare.commit(sha), 200)


def _git_commit(call: Call, commit: Commit, status: int) -> Answer:
    return Answer(status=status, body=call.shapes.git_commit(call.repository, commit))


# Pull requests


def create_pull(call: Call) -> Answer:
    repository, bare, base = call.repository, call.repository.bare, str(call.body["base"])
    owner, _, branch = str(call.body["head"]).rpartition(":")
    head_sha, base_sha = bare.ref(f"refs/heads/{branch}"), bare.ref(f"refs/heads/{base}")
    if "title" not in call.body:
        raise _invalid("Issue", "title", "missing_field")
    if base_sha is None:
        raise _invalid("PullRequest", "base")
    if head_sha is None or owner not in ("", repository.owner):
        raise _invalid("PullRequest", "head")
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
            raise _invalid("PullRequest", "base")
        pull.base, pull.base_sha = asked["base"], base_sha
    edited = [key for key in ("title", "body") if key in asked and asked[key] != getattr(issue, key)]
    issue.title, issue.body = asked.get("title", issue.title), asked.get("body", issue.body)
    issue.updated_at = call.world.clock()
    if edited:
        call.webhooks.pull_request("edited", call.repository, issue, call.me)
    if asked.get("state", issue.state) != issue.state:
        if asked["state"] == "open":
            issue.state, issue.closed_at = "open", None
            call.webhooks.pull_request("reopened", call.repository, issue, call.me)
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


# Checks


def create_check(call: Call) -> Answer:
    if call.repository.bare.kind(call.body["head_sha"]) != "commit":
        raise Refused(422, f"No commit found for SHA: {call.body['head_sha']}")
    run = CheckRun(
        id=call.world.next_id(),
        name=call.body["name"],
        head_sha=call.body["head_sha"],
        started_at=call.world.clock(),
    )
    _report(call, run)
    call.repository.checks[run.id] = run
    return Answer(status=201, body=call.shapes.check_run(call.repository, run))


def update_check(call: Call) -> Answer:
    run = call.repository.checks.get(int(call.variables["check_run_id"]))
    if run is None:
        raise Refused(404, "Not Found")
    _report(call, run)
    return Answer(body=call.shapes.check_run(call.repository, run))


def _report(call: Call, run: CheckRun) -> None:
    asked = call.body
    if asked.get("status") == "completed" and "conclusion" not in asked:
        raise _invalid("CheckRun", "conclusion", "missing_field")
    for key in ("name", "details_url", "external_id", "status", "conclusion"):
        if key in asked:
            setattr(run, key, asked[key])
    if "output" in asked:
        run.output = {key: value for key, value in asked["output"].items() if key != "annotations"}
        run.annotations += asked["output"].get("annotations", ())
    if "conclusion" in asked:
        run.status = "completed"
        run.completed_at = asked.get("completed_at", call.world.clock().isoformat())


def list_checks(call: Call) -> Answer:
    sha = call.repository.bare.resolve(call.variables["ref"])
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {call.variables['ref']}")
    runs = [run for run in call.repository.checks.values() if run.head_sha == sha]
    runs = [run for run in runs if call.query.get("check_name", run.name) == run.name]
    runs = [run for run in runs if call.query.get("status", run.status) == run.status]
    if call.query.get("filter", "latest") == "latest":
        runs = list({run.name: run for run in runs}.values())
    page = call.page([call.shapes.check_run(call.repository, run) for run in runs])
    return Answer(body={"total_count": len(runs), "check_runs": page.body}, headers=page.headers)


_METADATA = Needs(permissions=("metadata",), level="read")
_READ_CODE = Needs(permissions=("contents",), level="read")
_WRITE_CODE = Needs(permissions=("contents",), level="write")
_EITHER = ("issues", "pull_requests")
_READ_TALK = Needs(permissions=_EITHER, level="read")
_TALK = Needs(permissions=_EITHER, level="write")
_READ_PULLS = Needs(permissions=("pull_requests",), level="read")
_WRITE_PULLS = Needs(permissions=("pull_requests",), level="write")
_READ_CHECKS = Needs(permissions=("checks",), level="read")
_WRITE_CHECKS = Needs(permissions=("checks",), level="write")

OPERATIONS: Mapping[str, tuple[Access, Handler]] = {
    "apps/get-authenticated": ("app", get_app),
    "apps/get-repo-installation": ("app", get_repository_installation),
    "apps/create-installation-access-token": ("app", create_token),
    "apps/revoke-installation-access-token": ("token", revoke_token),
    "repos/get": (_METADATA, get_repository),
    "repos/get-collaborator-permission-level": (_METADATA, get_permission),
    "repos/get-branch": (_READ_CODE, get_branch),
    "repos/get-commit": (_READ_CODE, get_commit),
    "repos/get-content": (_READ_CODE, get_content),
    "issues/get": (_READ_TALK, get_issue),
    "issues/list-comments": (_READ_TALK, list_comments),
    "issues/create-comment": (_TALK, create_comment),
    "issues/update-comment": (_TALK, update_comment),
    "issues/add-labels": (_TALK, add_labels),
    "reactions/create-for-issue-comment": (_TALK, create_reaction),
    "git/get-ref": (_READ_CODE, get_ref),
    "git/list-matching-refs": (_READ_CODE, list_matching_refs),
    "git/create-ref": (_WRITE_CODE, create_ref),
    "git/update-ref": (_WRITE_CODE, update_ref),
    "git/delete-ref": (_WRITE_CODE, delete_ref),
    "git/create-blob": (_WRITE_CODE, create_blob),
    "git/create-tree": (_WRITE_CODE, create_tree),
    "git/get-tree": (_READ_CODE, get_tree),
    "git/create-commit": (_WRITE_CODE, create_git_commit),
    "git/get-commit": (_READ_CODE, get_git_commit),
    "pulls/create": (_WRITE_PULLS, create_pull),
    "pulls/list": (_READ_PULLS, list_pulls),
    "pulls/get": (_READ_PULLS, get_pull),
    "pulls/update": (_WRITE_PULLS, update_pull),
    "pulls/request-reviewers": (_WRITE_PULLS, request_reviewers),
    "checks/create": (_WRITE_CHECKS, create_check),
    "checks/update": (_WRITE_CHECKS, update_check),
    "checks/list-for-ref": (_READ_CHECKS, list_checks),
}
"""Every operation there is here, by GitHub's name for it: who may, and what answers."""
