"""Git and patches over any sandbox: the first clone, the patch that comes out, the tree that is verified.

A token is only ever handed to one `git fetch` in a sandbox in which nothing of the repository has run; there it lives
in that process's environment and nowhere else. A sandbox in which something has run gets its commits as a pack."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.domain.cuts import ending
from bot.domain.errors import InfraError, SandboxError, UserError
from bot.domain.patch import Change, Patch
from bot.domain.tree import TreeEntry, parse_ls_tree
from bot.sandbox import guest
from bot.sandbox.careful_git import FROM_A_FILE, GIT_ENV, MACHINE, fetching
from bot.sandbox.protocol import WORKSPACE, ExecResult, Sandbox

REPO = f"{WORKSPACE}/repo"
SCRATCH = f"{WORKSPACE}/.coder"
QUICK_S = 60.0
"""For commands of our own that only touch local files."""
LISTING_LIMIT = 64 * 1024 * 1024
MANIFEST_LIMIT = 256 * 1024
PACK_LIMIT = 64 * 1024 * 1024
"""Bytes of a pack on its way from one sandbox to another; the bot holds all of it."""

# What git says, in the language that GIT_ENV asks for, when the server does not take what it was shown.
_REFUSED = re.compile(rb"Authentication failed|could not read (?:Username|Password)|error: 401")


class CloneFailed(UserError):
    """The repository could not be brought into the sandbox."""


class TokenRefused(CloneFailed):
    """The server did not take the token; nothing has come into the sandbox, which is as pristine as before."""


class PackRefused(InfraError):
    """Commits could not be carried from one sandbox to another as a pack; a new clone is the way then."""


class PatchRefused(UserError):
    """The work tree holds something that can't be published; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A repository on a server, with a token that reads it."""

    url: str
    token: str

    @property
    def host(self) -> str:
        """As `Sandbox.allow` takes it: the bare name for the usual ports."""
        parts = urlsplit(self.url)
        name = parts.hostname or ""
        return f"{name}:{parts.port}" if parts.port not in (None, 80, 443) else name


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A repository as one file made by `git bundle`."""

    data: bytes


Origin = Remote | Bundle


async def clone(
    sandbox: Sandbox, origin: Origin, commit: str, *, timeout_s: float, others: Sequence[str] = ()
) -> None:
    """Fetches one commit into `REPO`, without its history, and checks nothing out; from a server, some more beside
    it. The network is closed again afterwards. The sandbox must be pristine; if this raises anything but
    TokenRefused, or is cancelled, it is to be killed."""
    if not all(re.fullmatch(r"[0-9a-f]{40}", each) for each in (commit, *others)):
        raise CloneFailed("What is to be cloned is not named by the id of a commit.")
    await _git(sandbox, "init", "-q", REPO, cwd=WORKSPACE)
    match origin:
        case Bundle(data=data):
            await sandbox.write(f"{SCRATCH}/origin.bundle", data)
            argv = ["git", "fetch", "-q", f"{SCRATCH}/origin.bundle", commit]
            result = await sandbox.exec(argv, cwd=REPO, env=FROM_A_FILE, timeout_s=timeout_s)
            await sandbox.remove(f"{SCRATCH}/origin.bundle")
        case Remote() as remote:
            await sandbox.allow(frozenset({remote.host}))
            try:
                result = await _fetch(sandbox, remote, [commit, *others], timeout_s)
            finally:
                await sandbox.allow(frozenset())
    if result.timed_out:
        raise CloneFailed(f"Cloning did not end within {timeout_s:.0f} seconds.")
    if result.exit_code:
        kind = TokenRefused if _REFUSED.search(result.stderr) else CloneFailed
        raise kind(f"Cloning failed (git's exit code {result.exit_code}):\n{tail(result)}")
    await _git(sandbox, "update-ref", "--no-deref", "HEAD", commit)


async def _fetch(sandbox: Sandbox, remote: Remote, commits: Sequence[str], timeout_s: float) -> ExecResult:
    """The one process that ever sees a token; it and what it starts see nothing of the repository's own variables."""
    env = {**fetching(remote.url, remote.token), **sandbox.proxy_env}
    names = ",".join((*env, *MACHINE))
    argv = ["python3", "-IS", "-c", guest.source("alone"), names]
    argv += ["git", "fetch", "-q", "--depth=1", "--no-tags", "--", remote.url, *commits]
    return await sandbox.exec(argv, cwd=REPO, env=env, timeout_s=timeout_s)


async def check_out(sandbox: Sandbox, commit: str) -> None:
    """Puts a commit's files into the work tree byte for byte, as they are verified and published: no line ends or
    encodings are changed, and what LFS keeps elsewhere stays a pointer. What has run here may have had a hand in it.
    """
    if not (await _python(sandbox, "checkout", REPO, commit, "--anew")).ok:
        raise InfraError(f"The commit {commit} could not be checked out.")


async def check_out_exactly(sandbox: Sandbox, tree: str, files: Sequence[TreeEntry]) -> tuple[str, ...]:
    """Puts a tree's files there byte for byte, whatever attributes say, and proves by hashing them again that they
    are these `files`: what git here takes the tree for does not count. Gives those that were otherwise before."""
    lines = (f"{entry.mode} {entry.sha}\t{entry.path}" for entry in files if entry.type == "blob")
    proof = "\0".join(lines).encode("utf-8", "surrogateescape")
    result = await _python(sandbox, "checkout", REPO, tree, stdin=proof)
    if not result.ok:
        raise InfraError(f"The tree {tree} could not be checked out exactly: {tail(result, 200)}")
    return tuple(name.decode("utf-8", "surrogateescape") for name in result.stdout.split(b"\0")[:-1])


async def listing(sandbox: Sandbox, commit: str) -> tuple[TreeEntry, ...]:
    """Every file of a commit, as git lists it."""
    shell = f"git ls-tree -r -z {commit} > {SCRATCH}/listing"
    await sandbox.write(f"{SCRATCH}/listing", b"")
    result = await sandbox.exec(["sh", "-c", shell], cwd=REPO, env=GIT_ENV, timeout_s=QUICK_S)
    if not result.ok:
        raise InfraError(f"git could not list {commit}.")
    return parse_ls_tree(await sandbox.read(f"{SCRATCH}/listing", max_bytes=LISTING_LIMIT))


async def contents(sandbox: Sandbox, blobs: Mapping[str, str]) -> dict[str, bytes]:
    """The content of blobs (name → id), read from git's objects; one that is larger than 256 KiB is left out."""
    out = f"{SCRATCH}/texts.json"
    await sandbox.write(out, b"")
    asked = json.dumps(dict(blobs)).encode()
    result = await _python(sandbox, "texts", REPO, str(MANIFEST_LIMIT), out, stdin=asked)
    if not result.ok:
        raise InfraError("git could not read files of the repository.")
    found = json.loads(await sandbox.read(out, max_bytes=2 * MANIFEST_LIMIT * (len(blobs) + 1)))
    return {name: base64.b64decode(content) for name, content in found.items()}


async def texts(sandbox: Sandbox, blobs: Mapping[str, str]) -> dict[str, str]:
    """The same as text."""
    found = await contents(sandbox, blobs)
    return {name: content.decode("utf-8", "replace") for name, content in found.items()}


async def pack(sandbox: Sandbox, commit: str, *, without: str | None = None) -> bytes:
    """A commit with its tree as a pack that needs nothing else; `without` another commit's, only what that one's tree
    does not have. Both must have been cloned."""
    file = f"{SCRATCH}/pack"
    await sandbox.write(file, b"")
    wanted = [commit] if without is None else [commit, f"^{without}", f"^{without}^{{tree}}"]
    result = await sandbox.exec(
        ["sh", "-c", f"git pack-objects -q --revs --stdout > {file}"],
        cwd=REPO,
        env=GIT_ENV,
        stdin="".join(f"{line}\n" for line in wanted).encode(),
        timeout_s=QUICK_S,
    )
    if not result.ok:
        raise PackRefused(f"git could not pack {commit}.")
    try:
        return await sandbox.read(file, max_bytes=PACK_LIMIT)
    except SandboxError as exc:
        if exc.reason != "limit_exceeded":
            raise
        raise PackRefused(f"The pack of {commit} is larger than {PACK_LIMIT} bytes.") from exc


async def move(sandbox: Sandbox, pack: bytes, old: str, new: str) -> None:
    """Brings a clone of the commit `old` to `new`: its objects from a pack without those of `old`, and its files.
    Files git does not know stay. What has run here may have had a hand in it."""
    await _receive(sandbox, REPO, pack, shallow=(old, new))
    await check_out(sandbox, new)


async def renew(sandbox: Sandbox, pack: bytes, old: Sequence[TreeEntry], new: str) -> None:
    """Gives `REPO`, a clone with the files `old`, a new git directory that holds the commit `new` and nothing else.
    Nothing of the former one is read: whatever ran when it was there may have changed it. Files of `old` count as
    git's own, so that checking out another tree removes them. Nothing must run in the sandbox meanwhile."""
    fresh = f"{WORKSPACE}/.git-{secrets.token_hex(16)}"  # a name that nothing can have prepared
    await _git(sandbox, "init", "-q", fresh, cwd=WORKSPACE)
    await _receive(sandbox, fresh, pack, shallow=(new,))
    index = "".join(f"{entry.mode} {entry.sha}\t{entry.path}\0" for entry in old)
    await _git(
        sandbox, "update-index", "-z", "--index-info", cwd=fresh, stdin=index.encode("utf-8", "surrogateescape")
    )
    shell = '[ ! -L "$1" ] && rm -rf -- "$1/.git" && mv -- "$2/.git" "$1/.git" && rmdir -- "$2"'
    swapped = await sandbox.exec(["sh", "-c", shell, "sh", REPO, fresh], timeout_s=QUICK_S)
    if not swapped.ok:
        raise PackRefused("The former git directory could not be replaced.")


async def _receive(sandbox: Sandbox, repo: str, pack: bytes, *, shallow: Sequence[str]) -> None:
    """Takes a pack in after git's strict checks, and makes HEAD the last of the commits whose history is cut off."""
    # Before the objects: a parent that this file does not cut off would be missed.
    await sandbox.write(f"{repo}/.git/shallow", "".join(f"{commit}\n" for commit in shallow).encode())
    taken = await _try_git(sandbox, "index-pack", "--strict", "--stdin", cwd=repo, stdin=pack)
    if not taken.ok:
        raise PackRefused(f"git did not take the pack of {shallow[-1]}.")
    await _git(sandbox, "update-ref", "--no-deref", "HEAD", shallow[-1], cwd=repo)


async def build_tree(sandbox: Sandbox, base: str, patch: Patch) -> str:
    """The id git gives to base's tree with the patch applied, built without filters or attributes."""
    await sandbox.write(f"{SCRATCH}/changes.json", _dump(patch))
    result = await _python(sandbox, "candidate", REPO, base, f"{SCRATCH}/changes.json")
    if not result.ok:
        raise InfraError("git could not build the candidate's tree.")
    return result.stdout.decode().strip()


async def collect(sandbox: Sandbox, base: str, *, max_files: int, max_bytes: int) -> Patch:
    """What the work tree holds beyond its base commit. It is only a proposal: whatever ran in this sandbox may have
    had a hand in it."""
    out = f"{SCRATCH}/patch.json"
    await sandbox.write(out, b"")
    result = await _python(
        sandbox, "collect", REPO, base, str(max_files), str(max_bytes), out, f"{SCRATCH}/made.json"
    )
    if not result.ok:
        raise PatchRefused(f"The changes could not be read from the work tree:\n{tail(result)}")
    try:
        document = json.loads(await sandbox.read(out, max_bytes=2 * max_bytes + 1024 * max_files + 4096))
        if document["problem"]:
            raise PatchRefused(f"The change can't be published: {document['problem']}.")
        changes = [
            Change(path=str(path), mode=mode, content=base64.b64decode(content, validate=True))
            for path, mode, content in document["changes"]
        ]
        if any(change.mode not in ("100644", "100755", "120000", None) for change in changes):
            raise ValueError("a mode that git does not know")
        return Patch.of(*changes)
    except (ValueError, KeyError, TypeError) as exc:
        raise PatchRefused("The changes could not be read from the work tree.") from exc


async def note_made(sandbox: Sandbox, base: str) -> None:
    """Remembers which files set-up has left in the work tree: they are not part of the patch."""
    await sandbox.write(f"{SCRATCH}/made.json", b"[]")
    result = await _python(sandbox, "collect", REPO, base, "0", "0", f"{SCRATCH}/made.json", "--made")
    if not result.ok:
        raise InfraError("What set-up left in the work tree could not be listed.")


async def apply(sandbox: Sandbox, patch: Patch) -> None:
    """Brings a checkpoint's changes back into a fresh work tree."""
    await sandbox.write(f"{SCRATCH}/changes.json", _dump(patch))
    result = await _python(sandbox, "apply", REPO, f"{SCRATCH}/changes.json")
    if not result.ok:
        raise InfraError("The last checkpoint could not be brought into the work tree.")


def tail(result: ExecResult, limit: int = 2000) -> str:
    """The end of what a command printed, both streams, as text."""
    text = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
    return text if len(text) <= limit else "…" + ending(text, limit)


def _dump(patch: Patch) -> bytes:
    return json.dumps([[c.path, c.mode, base64.b64encode(c.content).decode()] for c in patch.changes]).encode()


async def _python(sandbox: Sandbox, name: str, *args: str, stdin: bytes = b"") -> ExecResult:
    argv = ["python3", "-IS", "-c", guest.source(name), *args]
    return await sandbox.exec(argv, env=GIT_ENV, stdin=stdin, timeout_s=QUICK_S * 5, trusted_status=True)


async def _try_git(sandbox: Sandbox, *args: str, cwd: str = REPO, stdin: bytes = b"") -> ExecResult:
    return await sandbox.exec(["git", *args], cwd=cwd, env=GIT_ENV, stdin=stdin, timeout_s=QUICK_S)


async def _git(sandbox: Sandbox, *args: str, cwd: str = REPO, stdin: bytes = b"") -> None:
    result = await _try_git(sandbox, *args, cwd=cwd, stdin=stdin)
    if not result.ok:
        raise InfraError(f"git {args[0]} failed in the sandbox (exit code {result.exit_code}).")
