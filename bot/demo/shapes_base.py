"""The JSON for who and where: people, repositories, the App, its installations and tokens."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.demo.state import Installation, Repository, Token
from bot.demo.world import World

Object = dict[str, Any]

DOCUMENTATION = "https://docs.github.com/rest"

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
_ROLES = {"maintain": "write", "triage": "read"}
"""How the permission endpoint's older field names the two newer roles."""


def when(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def maybe(moment: datetime | None) -> str | None:
    return None if moment is None else when(moment)


def node(kind: str, number: int | str) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


@dataclass(frozen=True, kw_only=True)
class Base:
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
            "node_id": node(account.type, account.id),
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
            "node_id": node("Repository", repository.id),
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
            "node_id": node("Integration", app.app_id),
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

    def installation(self, installation: Installation) -> Object:
        number, created = installation.id, when(self.world.created_at)
        owner = self.user(installation.owner)
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
            "suspended_at": maybe(installation.suspended_at),
            "suspended_by": None if installation.suspended_at is None else owner,
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
            named = [self.world.repository(number) for number in token.repositories]
            body["repositories"] = [self.repository(repository) for repository in named if repository is not None]
        return body

    def permission(self, login: str, role: str) -> Object:
        user = {**self.user(login), "role_name": role}
        return {"permission": _ROLES.get(role, role), "role_name": role, "user": user}

    def label(self, repository: Repository, name: str) -> Object:
        number = repository.labels.setdefault(name, len(repository.labels) + 1)
        return {
            "id": number,
            "node_id": node("Label", number),
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
