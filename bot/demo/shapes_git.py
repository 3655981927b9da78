"""The JSON for git's objects, and for files as a commit has them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from bot.demo.bare import Bare, Commit, Entry, Signature
from bot.demo.shapes_base import Base, Object, node, when
from bot.demo.state import Repository

INLINE_LIMIT = 1_000_000
"""Bytes of a file up to which its content is part of the answer."""

_UNSIGNED = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


@dataclass(frozen=True, kw_only=True)
class Git(Base):
    def git_commit(self, repository: Repository, commit: Commit) -> Object:
        """The form of the Git Data API. Nothing is signed here, and it says so."""
        return {
            "sha": commit.sha,
            "node_id": node("Commit", commit.sha),
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
        return {"ref": name, "node_id": node("Ref", name), "url": url, "object": target}

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


def _person(signature: Signature) -> Object:
    return {"name": signature.name, "email": signature.email, "date": when(signature.date)}
