"""Git's own objects and refs."""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase

from bot.demo import branches
from bot.demo.bare import ZERO, BadObject, Commit, Signature, TreeChange
from bot.demo.calls import READ_CODE, WRITE_CODE, Answer, Call, Operations, Refused, invalid
from bot.demo.shapes import Object
from bot.demo.state import Repository


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
    if name.startswith("refs/heads/"):
        branch = name.removeprefix("refs/heads/")
        removed = branches.remove(call.world, call.webhooks, call.repository, branch, old, call.me) is not None
    else:
        removed = bare.move(name, ZERO, old)
    if not removed:
        raise Refused(409, "Reference has changed meanwhile")
    return Answer(status=204)


def create_blob(call: Call) -> Answer:
    text = str(call.body["content"])
    try:
        if call.body.get("encoding", "utf-8") == "base64":
            content = base64.b64decode("".join(text.split()), validate=True)
        else:
            content = text.encode()
    except (binascii.Error, UnicodeEncodeError) as exc:
        raise invalid("Blob", "content") from exc
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


OPERATIONS: Operations = {
    "git/get-ref": (READ_CODE, get_ref),
    "git/list-matching-refs": (READ_CODE, list_matching_refs),
    "git/create-ref": (WRITE_CODE, create_ref),
    "git/update-ref": (WRITE_CODE, update_ref),
    "git/delete-ref": (WRITE_CODE, delete_ref),
    "git/create-blob": (WRITE_CODE, create_blob),
    "git/create-tree": (WRITE_CODE, create_tree),
    "git/get-tree": (READ_CODE, get_tree),
    "git/create-commit": (WRITE_CODE, create_git_commit),
    "git/get-commit": (READ_CODE, get_git_commit),
}
