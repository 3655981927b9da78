"""The JSON that GitHub gives for what it remembers, in calls and in webhooks alike."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.demo.bare import Bare, Commit, Entry, Signature
from bot.demo.state import REACTIONS, CheckRun, Comment, Issue, Pull, Reaction, Repository, Token, World

Object = dict[str, Any]

DOCUMENTATION = "https://docs.github.com/rest"
INLINE_LIMIT = 1_000_000
"""Bytes of a file up to which its content is part of the answer."""

_REPOSITORY_URLS = {
    "archive": "/{archive_format}{/ref}",
    "assignees": "/assignees{/user}",
    "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}",
    "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}",
    "commits": "/commits{/sha}",
    "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}",
    "contributors": "/contributors",
    "deployments": "/deployments",
    "downloads": "/downloads",
    "events": "/events",
    "forks": "/forks",
    "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}",
    "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}",
    "keys": "/keys{/key_id}",
    "labels": "/labels{/name}",
    "languages": "/languages",
    "merges": "/merges",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "pulls": "/pulls{/number}",
    "releases": "/releases{/id}",
    "stargazers": "/stargazers",
    "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "tags": "/tags",
    "teams": "/teams",
    "trees": "/git/trees{/sha}",
}
_USER_URLS = {
    "events": "/events{/privacy}",
    "followers": "/followers",
    "following": "/following{/other_user}",
    "gists": "/gists{/gist_id}",
    "organizations": "/orgs",
    "received_events": "/received_events",
    "repos": "/repos",
    "starred": "/starred{/owner}{/repo}",
    "subscriptions": "/subscriptions",
}
_UNSIGNED = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}
_ROLES = {"maintain": "write", "triage": "read"}
"""How the permission endpoint's older field names the two newer roles."""


def when(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _maybe(moment: datetime | None) -> str | None:
    return None if moment is None else when(moment)


def _node(kind: str, number: int | str) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """Needs the addresses, since GitHub's objects are full of them."""

    world: World
    origin: str
    api_url: str

    def error(self, status: int, message: str, errors: list[Object] | None = None) -> Object:
        body = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status)}
        return {**body, "errors": errors} if errors else body

    def url(self, repository: Repository, path: str = "") -> str:
        return f"{self.api_url}/repos/{repository.full_name}{path}"

    def page(self, repository: Repository, path: str = "") -> str:
        return f"{self.origin}/{repository.full_name}{path}"

    def user(self, login: str) -> Object:
        account = self.world.account(login)
        api = f"{self.api_url}/users/{login}"
        return {
            "id": account.id,
            "login": login,
            "type": account.type,
            "node_id": _node(account.type, account.id),
            "avatar_url": f"{self.origin}/avatars/{account.id}",
            "gravatar_id": "",
            "url": api,
            "html_url": f"{self.origin}/{login}",
            "site_admin": False,
            **{f"{name}_url": api + path for name, path in _USER_URLS.items()},
        }

    def repository(self, repository: Repository) -> Object:
        """All of it: what the full form of a repository asks for is more than every shorter form does."""
        url, page, created = self.url(repository), self.page(repository), when(repository.created_at)
        opened = sum(issue.state == "open" for issue in repository.issues.values())
        return {
            "id": repository.id,
            "node_id": _node("Repository", repository.id),
            "name": repository.name,
            "full_name": repository.full_name,
            "owner": self.user(repository.owner),
            "private": repository.private,
            "visibility": "private" if repository.private else "public",
            "default_branch": repository.default_branch,
            "description": None,
            "homepage": None,
            "language": None,
            "license": None,
            "mirror_url": None,
            "fork": False,
            "archived": repository.archived,
            "disabled": False,
            "has_issues": repository.has_issues,
            "has_projects": False,
            "has_wiki": False,
            "has_pages": False,
            "has_downloads": False,
            "has_discussions": False,
            "size": 0,
            "topics": [],
            "url": url,
            "html_url": page,
            "clone_url": f"{page}.git",
            "svn_url": page,
            "git_url": f"{page}.git",
            "ssh_url": f"{page}.git",
            "created_at": created,
            "updated_at": created,
            "pushed_at": created,
            "open_issues": opened,
            "open_issues_count": opened,
            **dict.fromkeys(("forks", "forks_count", "network_count", "stargazers_count"), 0),
            **dict.fromkeys(("subscribers_count", "watchers", "watchers_count"), 0),
            **{f"{name}_url": url + path for name, path in _REPOSITORY_URLS.items()},
        }

    def app(self) -> Object:
        app, created = self.world.app, when(self.world.created_at)
        return {
            "id": app.app_id,
            "slug": app.slug,
            "node_id": _node("Integration", app.app_id),
            "owner": self.user(app.login),
            "name": app.slug,
            "description": None,
            "external_url": self.origin,
            "html_url": f"{self.origin}/apps/{app.slug}",
            "created_at": created,
            "updated_at": created,
            "permissions": self.world.permissions,
            "events": self.world.events,
        }

    def installation(self, number: int) -> Object:
        owner, created = self.user(self.world.installations[number]), when(self.world.created_at)
        return {
            "id": number,
            "app_id": self.world.app.app_id,
            "app_slug": self.world.app.slug,
            "account": owner,
            "target_id": owner["id"],
            "target_type": owner["type"],
            "repository_selection": "all",
            "permissions": self.world.permissions,
            "events": self.world.events,
            "single_file_name": None,
            "suspended_at": None,
            "suspended_by": None,
            "access_tokens_url": f"{self.api_url}/app/installations/{number}/access_tokens",
            "repositories_url": f"{self.api_url}/installation/repositories",
            "html_url": f"{self.origin}/settings/installations/{number}",
            "created_at": created,
            "updated_at": created,
        }

    def token(self, token: Token) -> Object:
        body: Object = {
            "token": token.value,
            "expires_at": when(token.expires_at),
            "permissions": token.permissions,
            "repository_selection": "all" if token.repositories is None else "selected",
        }
        if token.repositories is not None:
            named = [self.world.repositories[name] for name in token.repositories]
            body["repositories"] = [self.repository(repository) for repository in named]
        return body

    def permission(self, login: str, role: str) -> Object:
        user = {**self.user(login), "role_name": role}
        return {"permission": _ROLES.get(role, role), "role_name": role, "user": user}

    def label(self, repository: Repository, name: str) -> Object:
        number = repository.labels.setdefault(name, len(repository.labels) + 1)
        return {
            "id": number,
            "node_id": _node("Label", number),
            "url": self.url(repository, f"/labels/{number}"),
            "name": name,
            "description": "",
            "color": "ededed",
            "default": False,
        }

    def association(self, repository: Repository, login: str) -> str:
        if login == repository.owner:
            return "OWNER"
        return "COLLABORATOR" if repository.grants.get(login, "none") != "none" else "NONE"

    def issue(self, repository: Repository, issue: Issue) -> Object:
        url = self.url(repository, f"/issues/{issue.number}")
        body: Object = {
            "id": issue.id,
            "node_id": _node("Issue", issue.id),
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
            "closed_at": _maybe(issue.closed_at),
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
                "merged_at": _maybe(issue.pull.merged_at),
            }
        return body

    def _issue_page(self, repository: Repository, issue: Issue) -> str:
        return self.page(repository, f"/{'issues' if issue.pull is None else 'pull'}/{issue.number}")

    def comment(self, repository: Repository, issue: Issue, comment: Comment) -> Object:
        url = self.url(repository, f"/issues/comments/{comment.id}")
        counts: Object = {name: sum(r.content == name for r in comment.reactions) for name in REACTIONS}
        return {
            "id": comment.id,
            "node_id": _node("IssueComment", comment.id),
            "url": url,
            "html_url": f"{self._issue_page(repository, issue)}#issuecomment-{comment.id}",
            "issue_url": self.url(repository, f"/issues/{issue.number}"),
            "user": self.user(comment.author),
            "author_association": self.association(repository, comment.author),
            "body": comment.body,
            "created_at": when(comment.created_at),
            "updated_at": when(comment.updated_at),
            "performed_via_github_app": self.app() if comment.author == self.world.app.login else None,
            "reactions": {"url": f"{url}/reactions", "total_count": len(comment.reactions), **counts},
        }

    def reaction(self, reaction: Reaction) -> Object:
        return {
            "id": reaction.id,
            "node_id": _node("Reaction", reaction.id),
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
            "node_id": _node("PullRequest", issue.id),
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
            "head": self._side(repository, pull.head_branch, pull.head_sha),
            "base": self._side(repository, pull.base, pull.base_sha),
            "merge_commit_sha": pull.merge_sha,
            "created_at": when(issue.created_at),
            "updated_at": when(issue.updated_at),
            "closed_at": _maybe(issue.closed_at),
            "merged_at": _maybe(pull.merged_at),
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
            "review_comments": 0,
            "commits": difference.commits,
            "additions": difference.additions,
            "deletions": difference.deletions,
            "changed_files": difference.files,
        }

    def _side(self, repository: Repository, branch: str, sha: str) -> Object:
        return {
            "label": f"{repository.owner}:{branch}",
            "ref": branch,
            "sha": sha,
            "user": self.user(repository.owner),
            "repo": self.repository(repository),
        }

    def git_commit(self, repository: Repository, commit: Commit) -> Object:
        """The form of the Git Data API. Nothing is signed here, and it says so."""
        return {
            "sha": commit.sha,
            "node_id": _node("Commit", commit.sha),
            "url": self.url(repository, f"/git/commits/{commit.sha}"),
            "html_url": self.page(repository, f"/commit/{commit.sha}"),
            "author": _person(commit.author),
            "committer": _person(commit.committer),
            "message": commit.message,
            "tree": {"sha": commit.tree, "url": self.url(repository, f"/git/trees/{commit.tree}")},
            "parents": [self._parent(repository, sha, "/git/commits/") for sha in commit.parents],
            "verification": _UNSIGNED,
        }

    def commit(self, repository: Repository, commit: Commit) -> Object:
        url = self.url(repository, f"/commits/{commit.sha}")
        inner = self.git_commit(repository, commit)
        kept = ("author", "committer", "message", "tree", "url", "verification")
        return {
            "sha": commit.sha,
            "node_id": inner["node_id"],
            "url": url,
            "html_url": inner["html_url"],
            "comments_url": f"{url}/comments",
            "commit": {**{key: inner[key] for key in kept}, "comment_count": 0},
            "author": None,
            "committer": None,
            "parents": [self._parent(repository, sha, "/commits/") for sha in commit.parents],
        }

    def _parent(self, repository: Repository, sha: str, path: str) -> Object:
        page = self.page(repository, f"/commit/{sha}")
        return {"sha": sha, "url": self.url(repository, path + sha), "html_url": page}

    def branch(self, repository: Repository, name: str, commit: Commit) -> Object:
        url = self.url(repository, f"/branches/{name}")
        return {
            "name": name,
            "commit": self.commit(repository, commit),
            "_links": {"self": url, "html": self.page(repository, f"/tree/{name}")},
            "protected": False,
            "protection": {"enabled": False},
            "protection_url": f"{url}/protection",
        }

    def ref(self, repository: Repository, name: str, sha: str, kind: str) -> Object:
        target = {"sha": sha, "type": kind, "url": self.url(repository, f"/git/{kind}s/{sha}")}
        url = self.url(repository, f"/git/{name}")
        return {"ref": name, "node_id": _node("Ref", name), "url": url, "object": target}

    def blob(self, repository: Repository, sha: str) -> Object:
        return {"sha": sha, "url": self.url(repository, f"/git/blobs/{sha}")}

    def tree(self, repository: Repository, sha: str, entries: list[Entry]) -> Object:
        return {
            "sha": sha,
            "url": self.url(repository, f"/git/trees/{sha}"),
            "truncated": False,
            "tree": [self._tree_entry(repository, entry) for entry in entries],
        }

    def _tree_entry(self, repository: Repository, entry: Entry) -> Object:
        # JSON has no way to say a name that is not UTF-8.
        path = entry.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        body: Object = {"path": path, "mode": entry.mode, "type": entry.type, "sha": entry.sha}
        if entry.size is not None:
            body["size"] = entry.size
        if entry.type != "commit":
            body["url"] = self.url(repository, f"/git/{entry.type}s/{entry.sha}")
        return body

    def folder(self, repository: Repository, path: str, entries: list[Entry], ref: str) -> list[Object]:
        prefix = f"{path}/" if path else ""
        return [self._content(repository, prefix + entry.path, entry, ref) for entry in entries]

    def file(self, repository: Repository, path: str, entry: Entry, ref: str, bare: Bare) -> Object:
        """One file; a link is a link, a submodule a submodule."""
        body = self._content(repository, path, entry, ref)
        if body["type"] == "symlink":
            return {**body, "target": bare.blob(entry.sha).decode("utf-8", "replace")}
        if body["type"] == "submodule":
            return {**body, "submodule_git_url": f"{self.origin}/unknown.git"}
        content = bare.blob(entry.sha)
        if len(content) > INLINE_LIMIT:
            return {**body, "content": "", "encoding": "none"}
        return {**body, "content": base64.encodebytes(content).decode(), "encoding": "base64"}

    def _content(self, repository: Repository, path: str, entry: Entry, ref: str) -> Object:
        kind = {"tree": "dir", "commit": "submodule"}.get(entry.type, "symlink" if entry.mode == "120000" else "file")
        url = self.url(repository, f"/contents/{path}?ref={ref}")
        page = self.page(repository, f"/{'tree' if kind == 'dir' else 'blob'}/{ref}/{path}")
        git_url = self.url(repository, f"/git/{entry.type}s/{entry.sha}")
        return {
            "type": kind,
            "name": path.rsplit("/", 1)[-1],
            "path": path,
            "sha": entry.sha,
            "size": entry.size or 0,
            "url": url,
            "html_url": page,
            "git_url": git_url,
            "download_url": None,
            "_links": {"self": url, "git": git_url, "html": page},
        }

    def check_run(self, repository: Repository, run: CheckRun) -> Object:
        url = self.url(repository, f"/check-runs/{run.id}")
        output: Object = {key: run.output.get(key) for key in ("title", "summary", "text")}
        return {
            "id": run.id,
            "node_id": _node("CheckRun", run.id),
            "name": run.name,
            "head_sha": run.head_sha,
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": when(run.started_at),
            "completed_at": run.completed_at,
            "external_id": run.external_id,
            "details_url": run.details_url,
            "url": url,
            "html_url": self.page(repository, f"/runs/{run.id}"),
            "check_suite": {"id": run.id},
            "output": {**output, "annotations_count": len(run.annotations), "annotations_url": f"{url}/annotations"},
            "app": self.app(),
            "pull_requests": [],
        }


def _person(signature: Signature) -> Object:
    return {"name": signature.name, "email": signature.email, "date": when(signature.date)}
