"""A repository: its branches, commits and files, and who may do what there."""

from __future__ import annotations

from bot.demo.bare import Entry
from bot.demo.calls import METADATA, READ_CODE, Answer, Call, Operations, Refused


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


OPERATIONS: Operations = {
    "repos/get": (METADATA, get_repository),
    "repos/get-collaborator-permission-level": (METADATA, get_permission),
    "repos/get-branch": (READ_CODE, get_branch),
    "repos/get-commit": (READ_CODE, get_commit),
    "repos/get-content": (READ_CODE, get_content),
}
