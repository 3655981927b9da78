"""The calls we make on one repository: GitHub's answers as small values of ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from bot.domain.check_run import AT_ONCE, Annotation, CheckRun
from bot.domain.errors import GitHubError, UserError
from bot.domain.event import Person
from bot.domain.patch import Mode
from bot.github import answers
from bot.github.answers import Level
from bot.github.calls import person
from bot.github.ci import Ci
from bot.github.reviews import Reviews

COMMENTS_LIMIT = 500
"""Comments read of one conversation, the newest ones."""
FILE_LIMIT = 1_000_000
"""Bytes of the largest file read through the API."""

_PAGE = 100

Reaction = Literal["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]


@dataclass(frozen=True, kw_only=True)
class Permission:
    """What somebody may do. `level` is GitHub's coarse one (maintain shows as write, triage as read); `role` is the
    exact or custom role's name. `user_id` is whom GitHub knows by that login now, None where it knows nobody: a login
    can be renamed, and taken by somebody else."""

    level: Level
    role: str
    user_id: int | None = None

    def allows(self, wanted: Literal["write", "maintain", "admin"]) -> bool:
        """A custom role counts as the level it was built on."""
        match wanted:
            case "write":
                return self.level in ("write", "admin")
            case "maintain":
                return self.level == "admin" or (self.level == "write" and self.role == "maintain")
            case "admin":
                return self.level == "admin"


NOBODY = Permission(level="none", role="none")
"""Of whom GitHub knows no permission at all: Apps, deleted and renamed accounts."""


@dataclass(frozen=True, kw_only=True)
class RepositoryInfo:
    id: int
    full_name: str
    default_branch: str
    clone_url: str
    private: bool
    archived: bool


@dataclass(frozen=True, kw_only=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`ahead`: the second commit descends from the first."""

    status: Literal["ahead", "behind", "diverged", "identical"]
    merge_base: str


@dataclass(frozen=True, kw_only=True)
class Issue:
    """An issue, or a pull request seen as one."""

    number: int
    title: str
    body: str
    author: Person
    state: Literal["open", "closed"]
    locked: bool
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class IssueComment:
    """A comment of the conversation. `by_this_app` says that our App itself wrote it. A time that is missing or none
    is None: nothing may be concluded from it."""

    id: int
    body: str
    author: Person
    created_at: datetime | None
    updated_at: datetime | None
    by_this_app: bool


@dataclass(frozen=True, kw_only=True)
class TreeEntry:
    """A path's new state in a tree: an object that is there already (`sha`), or text that GitHub makes one of
    (`content`). With neither, the path is deleted."""

    path: str
    mode: Mode | None
    sha: str | None = None
    content: str | None = None


@dataclass(frozen=True, kw_only=True)
class Pull:
    number: int
    url: str
    title: str
    body: str
    is_draft: bool
    head_sha: str
    head_branch: str
    base: str
    state: Literal["open", "closed"]
    is_from_fork: bool


class Repository(Reviews, Ci):
    """One repository, by its names and a session whose token is good for it. Every failure is a `GitHubError` that
    names what was asked for; `retryable` there says whether asking again may help."""

    async def info(self) -> RepositoryInfo:
        found = await self._get(answers.Repository, f"the repository {self.full_name}", [])
        return RepositoryInfo(
            id=found.id,
            full_name=found.full_name,
            default_branch=found.default_branch,
            clone_url=found.clone_url,
            private=found.private,
            archived=found.archived,
        )

    async def permission(self, login: str) -> Permission:
        """What GitHub lets that person do here. Whom it doesn't know as a person (a 404: Apps, deleted accounts) may
        do nothing."""
        segments = ("collaborators", login, "permission")
        found = await self._find(answers.Permission, f"the permission of @{login} in {self.full_name}", segments)
        if found is None:
            return NOBODY
        return Permission(
            level=found.permission,
            role=found.role_name or found.permission,
            user_id=found.user.id if found.user else None,
        )

    async def head(self, branch: str) -> Commit:
        """The commit a branch points to; a branch that isn't there is a 404."""
        found = await self._get(answers.Ref, f"the branch `{branch}` of {self.full_name}", _ref("ref", branch))
        return await self.commit(found.object.sha)

    async def branch(self, name: str) -> str | None:
        """The commit a branch of exactly that name points to, None where there is no such branch."""
        found = await self._find(answers.Ref, f"the branch `{name}` of {self.full_name}", _ref("ref", name))
        return found.object.sha if found else None

    async def branches(self, beginning: str) -> dict[str, str]:
        """The commits of all branches whose names begin so."""
        about = f"the branches `{beginning}…` of {self.full_name}"
        found = await self._get(answers.Refs, about, _ref("matching-refs", beginning))
        return {each.ref.removeprefix("refs/heads/"): each.object.sha for each in found.root}

    async def commit(self, sha: str) -> Commit:
        found = await self._get(answers.Commit, f"the commit {sha} of {self.full_name}", ["git", "commits", sha])
        return _commit(found)

    async def read_file(self, path: str, ref: str) -> bytes | None:
        """The content of a regular file at a commit, None where nothing has that path. What is no regular file there,
        on the way too, is a UserError that names it. The way goes through the trees because GitHub's contents API
        quietly follows a symbolic link: the file read would not be the file protected."""
        *folders, name = path.split("/")
        tree = ref
        for depth, folder in enumerate(folders, 1):
            entry = await self._entry(tree, folder)
            if entry is None or entry.mode in _FILES:
                return None
            if entry.mode != _FOLDER:
                raise self._no_file("/".join(folders[:depth]), entry)
            tree = entry.sha
        entry = await self._entry(tree, name)
        if entry is None:
            return None
        if entry.mode not in _FILES:
            raise self._no_file(path, entry)
        if (entry.size or 0) > FILE_LIMIT:
            raise UserError(f"`{path}` in {self.full_name} is larger than {FILE_LIMIT:,} bytes.")
        about = f"the file `{path}` of {self.full_name}"
        found = await self._get(answers.File, about, ["contents", *path.split("/")], ref=ref)
        try:
            return base64.b64decode(found.content)
        except (binascii.Error, ValueError) as exc:
            raise GitHubError(f"GitHub's answer for {about} is not base64.") from exc

    async def paths(self, ref: str) -> tuple[str, ...]:
        """The paths of all regular files at a commit; of a very large repository, those that GitHub tells at once."""
        return tuple(entry.path for entry in await self._tree(ref) if entry.mode in _FILES)

    async def states(self, ref: str, *, whole: bool = False) -> dict[str, str]:
        """Mode and id of everything but folders at a commit, by its path; as far as `paths` goes, or with `whole` a
        GitHubError where that is not all."""
        entries = await self._tree(ref, whole=whole)
        return {entry.path: f"{entry.mode} {entry.sha}" for entry in entries if entry.mode != _FOLDER}

    async def comparison(self, base: str, head: str) -> Comparison:
        """How two commits stand to each other; what has nothing to do with the other is a 404."""
        about = f"the comparison of {base[:12]} and {head[:12]} in {self.full_name}"
        found = await self._get(answers.Comparison, about, ["compare", f"{base}...{head}"], per_page=1)
        return Comparison(status=found.status, merge_base=found.merge_base_commit.sha)

    async def _tree(self, ref: str, *, whole: bool = False) -> Sequence[answers.Entry]:
        found = await self._get(answers.Tree, f"the files of {self.full_name}", ["git", "trees", ref], recursive=1)
        if whole and found.truncated:
            raise GitHubError(f"{self.full_name} has more files than GitHub lists in one answer.")
        return found.tree

    async def issue(self, number: int) -> Issue:
        found = await self._issue(number)
        return Issue(
            number=found.number,
            title=found.title,
            body=found.body or "",
            author=person(found.user),
            state=found.state,
            locked=found.locked,
            updated_at=found.updated_at,
        )

    async def comments(self, number: int) -> list[IssueComment]:
        """The conversation in its order; of a very long one the newest `COMMENTS_LIMIT`, or a few more."""
        count = (await self._issue(number)).comments
        page = 1 + max(0, count - COMMENTS_LIMIT) // _PAGE
        last = page + COMMENTS_LIMIT // _PAGE
        found: list[answers.Comment] = []
        while page <= last:
            segments = ("issues", number, "comments")
            part = await self._get(
                answers.Comments, f"the comments of {self.full_name}#{number}", segments, per_page=_PAGE, page=page
            )
            found += part.root
            if len(part.root) < _PAGE:
                break
            page += 1
        return [await self._comment(comment) for comment in found]

    async def find_comment(self, number: int, marker: str) -> int | None:
        """The first comment that our App wrote with that marker at its end; what others write with it is no match,
        nor what we repeat of them."""
        for comment in await self.comments(number):
            if comment.by_this_app and comment.body.rstrip().endswith(marker):
                return comment.id
        return None

    async def create_comment(self, number: int, body: str) -> int:
        segments = ("issues", number, "comments")
        about = f"a comment on {self.full_name}#{number}"
        return (await self._post(answers.Numbered, about, segments, {"body": body})).id

    async def update_comment(self, comment_id: int, body: str) -> None:
        segments = ("issues", "comments", comment_id)
        await self._call("PATCH", f"the comment {comment_id} in {self.full_name}", segments, json={"body": body})

    async def react(self, comment_id: int, content: Reaction) -> None:
        """Doing it twice leaves one reaction."""
        segments = ("issues", "comments", comment_id, "reactions")
        await self._call(
            "POST", f"a reaction to the comment {comment_id} in {self.full_name}", segments, json={"content": content}
        )

    async def create_branch(self, name: str, sha: str) -> None:
        """A name that is taken, or that is in the way of another branch's, is a 422."""
        body = {"ref": f"refs/heads/{name}", "sha": sha}
        await self._call("POST", f"a new branch `{name}` in {self.full_name}", ["git", "refs"], json=body)

    async def move_branch(self, name: str, sha: str) -> None:
        """Forward only: a commit that does not descend from the branch's head is a 422, and the branch stays."""
        about = f"moving the branch `{name}` of {self.full_name}"
        await self._call("PATCH", about, _ref("refs", name), json={"sha": sha, "force": False})

    async def delete_branch(self, name: str) -> None:
        """A branch that isn't there is a 422."""
        await self._call("DELETE", f"deleting the branch `{name}` of {self.full_name}", _ref("refs", name))

    async def create_blob(self, content: bytes) -> str:
        body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
        return (await self._post(answers.Object, f"a blob in {self.full_name}", ["git", "blobs"], body)).sha

    async def create_tree(self, base_tree: str, entries: Sequence[TreeEntry]) -> str:
        """The tree that `base_tree` becomes with these entries."""
        body = {"base_tree": base_tree, "tree": [_tree_entry(entry) for entry in entries]}
        return (await self._post(answers.Object, f"a tree in {self.full_name}", ["git", "trees"], body)).sha

    async def create_commit(self, message: str, tree: str, parents: Sequence[str]) -> Commit:
        """No author and no committer are given: GitHub then names the App, and signs for it."""
        body = {"message": message, "tree": tree, "parents": list(parents)}
        made = await self._post(answers.Commit, f"a commit in {self.full_name}", ["git", "commits"], body)
        return _commit(made)

    async def find_pull(self, head_branch: str) -> Pull | None:
        """The open pull request from that branch of this repository; one from a fork's branch of that name is not."""
        about = f"the pull request of the branch `{head_branch}` in {self.full_name}"
        params = {"state": "open", "head": f"{self._owner}:{head_branch}"}
        for pull in (await self._get(answers.Pulls, about, ["pulls"], **params)).root:
            if pull.head.ref == head_branch and pull.head.repo is not None and pull.head.repo == pull.base.repo:
                return _pull(pull)
        return None

    async def pull(self, number: int) -> Pull:
        return _pull(await self._get(answers.Pull, f"the pull request {self.full_name}#{number}", ("pulls", number)))

    async def create_pull(self, *, title: str, body: str, head: str, base: str, draft: bool = False) -> Pull:
        """One that is open already for that branch, or a branch without a change, is a 422."""
        asked = {"title": title, "body": body, "head": head, "base": base, "draft": draft}
        about = f"a pull request for the branch `{head}` in {self.full_name}"
        return _pull(await self._post(answers.Pull, about, ["pulls"], asked))

    async def update_pull(self, number: int, *, title: str | None = None, body: str | None = None) -> None:
        """What is None stays as it is."""
        asked = {key: value for key, value in (("title", title), ("body", body)) if value is not None}
        await self._call("PATCH", f"the pull request {self.full_name}#{number}", ("pulls", number), json=asked)

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        segments = ("issues", number, "labels")
        await self._call("POST", f"labels on {self.full_name}#{number}", segments, json={"labels": list(labels)})

    async def request_reviewers(self, number: int, logins: Sequence[str]) -> None:
        """Somebody who may not review here is a 422, and then nobody is asked."""
        segments = ("pulls", number, "requested_reviewers")
        await self._call(
            "POST", f"reviewers of {self.full_name}#{number}", segments, json={"reviewers": list(logins)}
        )

    async def report(self, sha: str, name: str, run: CheckRun) -> None:
        """The check run of that name and external id on a commit, made or brought up to date. GitHub adds to a run's
        annotations and never takes one away: those that an earlier call has brought there are not sent again."""
        about = f"the check `{name}` of {self.full_name}@{sha[:12]}"
        found = await self._get(
            answers.CheckRuns, about, ["commits", sha, "check-runs"], check_name=name, filter="all", per_page=_PAGE
        )
        mine = [each for each in found.check_runs if each.app is not None and each.app.id == self._app_id]
        known = next((each for each in mine if each.external_id == run.external_id), None)
        done = known.output.annotations_count if known else 0
        batches = [run.annotations[at : at + AT_ONCE] for at in range(done, len(run.annotations), AT_ONCE)] or [()]
        for batch in batches:
            output = {"title": run.title, "summary": run.summary, "text": run.text}
            body = {
                "external_id": run.external_id,
                "status": "completed",
                "conclusion": run.conclusion,
                "output": {**output, "annotations": [_annotation(each) for each in batch]},
            }
            if known is None:
                body |= {"name": name, "head_sha": sha}
                known = await self._post(answers.CheckRun, about, ["check-runs"], body)
            else:
                await self._call("PATCH", about, ["check-runs", known.id], json=body)

    async def _issue(self, number: int) -> answers.Issue:
        return await self._get(answers.Issue, f"the issue {self.full_name}#{number}", ("issues", number))

    async def _entry(self, tree: str, name: str) -> answers.Entry | None:
        found = await self._get(answers.Tree, f"the tree {tree} of {self.full_name}", ["git", "trees", tree])
        entry = next((entry for entry in found.tree if entry.path == name), None)
        if entry is None and found.truncated:
            raise GitHubError(f"GitHub's answer for the tree {tree} of {self.full_name} is not complete.")
        return entry

    def _no_file(self, path: str, entry: answers.Entry) -> UserError:
        kinds = {_FOLDER: "a folder", "120000": "a symbolic link", "160000": "a submodule"}
        kind = kinds.get(entry.mode, "something else")
        return UserError(f"`{path}` in {self.full_name} is {kind}; put a regular file there.")

    async def _comment(self, comment: answers.Comment) -> IssueComment:
        return IssueComment(
            id=comment.id,
            body=comment.body or "",
            author=person(comment.user),
            created_at=comment.created_at,
            updated_at=comment.updated_at,
            by_this_app=await self._is_ours(comment.user, comment.performed_via_github_app),
        )


_FILES = ("100644", "100755")
_FOLDER = "040000"


def _ref(kind: Literal["ref", "refs", "matching-refs"], branch: str) -> list[str]:
    return ["git", kind, "heads", *branch.split("/")]


def _tree_entry(entry: TreeEntry) -> dict[str, str | None]:
    said: dict[str, str | None] = {"path": entry.path, "mode": entry.mode or "100644", "type": "blob"}
    if entry.content is not None:
        return {**said, "content": entry.content}
    return {**said, "sha": entry.sha}


def _pull(found: answers.Pull) -> Pull:
    return Pull(
        number=found.number,
        url=found.html_url,
        title=found.title,
        body=found.body or "",
        is_draft=found.draft,
        head_sha=found.head.sha,
        head_branch=found.head.ref,
        base=found.base.ref,
        state=found.state,
        is_from_fork=found.head.repo is None or found.head.repo != found.base.repo,
    )


def _commit(found: answers.Commit) -> Commit:
    return Commit(sha=found.sha, tree=found.tree.sha, parents=tuple(parent.sha for parent in found.parents))


def _annotation(each: Annotation) -> dict[str, str | int]:
    return {
        "path": each.path,
        "start_line": each.start,
        "end_line": each.end,
        "annotation_level": each.level,
        "title": each.title,
        "message": each.message,
    }
