"""Git and patches over any sandbox: the first clone, the patch that comes out, the tree that is verified.

A token is only ever handed to one `git fetch` in a sandbox in which nothing of the repository has run; there it lives
in that process's environment and nowhere else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from bot.domain.errors import InfraError, UserError
from bot.domain.patch import Change, Patch
from bot.domain.tree import TreeEntry, parse_ls_tree
from bot.sandbox import guest
from bot.sandbox.protocol import WORKSPACE, ExecResult, Sandbox

REPO = f"{WORKSPACE}/repo"
SCRATCH = f"{WORKSPACE}/.coder"
QUICK_S = 60.0
"""For commands of our own that only touch local files."""
LISTING_LIMIT = 64 * 1024 * 1024

# Nothing a repository brings along is run or followed: no hooks, no submodules, no LFS, no strange transports.
_CAREFUL = [
    "-c",
    "protocol.allow=never",
    "-c",
    "protocol.https.allow=always",
    "-c",
    "protocol.http.allow=always",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "fetch.recurseSubmodules=false",
    "-c",
    "filter.lfs.smudge=",
    "-c",
    "filter.lfs.process=",
    "-c",
    "filter.lfs.required=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "credential.helper=",
    "-c",
    "advice.detachedHead=false",
]
_GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TEMPLATE_DIR": "",
}


class CloneFailed(UserError):
    """The repository could not be brought into the sandbox."""


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


async def clone(sandbox: Sandbox, origin: Origin, commit: str, *, timeout_s: float) -> None:
    """Fetches one commit into `REPO`, without its history, and checks nothing out. The network is closed again
    afterwards. The sandbox must be pristine; if this raises, or is cancelled, it is to be killed."""
    await _git(sandbox, "init", "-q", REPO, cwd=WORKSPACE)
    match origin:
        case Bundle(data=data):
            await sandbox.write(f"{SCRATCH}/origin.bundle", data)
            result = await _try_git(sandbox, "fetch", "-q", f"{SCRATCH}/origin.bundle", commit, local=True)
            await sandbox.remove(f"{SCRATCH}/origin.bundle")
        case Remote() as remote:
            await sandbox.allow(frozenset({remote.host}))
            try:
                result = await sandbox.exec(
                    ["git", *_CAREFUL, "fetch", "-q", "--depth=1", "--no-tags", remote.url, commit],
                    cwd=REPO,
                    env={**_GIT_ENV, **sandbox.proxy_env, **_authorization(remote)},
                    timeout_s=timeout_s,
                )
            finally:
                await sandbox.allow(frozenset())
    if result.timed_out:
        raise CloneFailed(f"Cloning did not end within {timeout_s:.0f} seconds.")
    if result.exit_code:
        raise CloneFailed(f"Cloning failed (git's exit code {result.exit_code}):\n{tail(result)}")
    await _git(sandbox, "update-ref", "--no-deref", "HEAD", commit)


async def check_out(sandbox: Sandbox, commit: str) -> None:
    """Puts a commit's files into the work tree as git would for a person, attributes applied."""
    await _git(sandbox, "reset", "-q", "--hard", commit)


async def check_out_exactly(sandbox: Sandbox, tree: str) -> None:
    """Puts a tree's files there byte for byte, whatever attributes say, and proves it by hashing them again."""
    result = await _python(sandbox, "checkout", REPO, tree)
    if not result.ok:
        raise InfraError(f"The tree {tree} could not be checked out exactly: {tail(result, 200)}")


async def listing(sandbox: Sandbox, commit: str) -> tuple[TreeEntry, ...]:
    """Every file of a commit, as git lists it."""
    shell = f"git ls-tree -r -z {commit} > {SCRATCH}/listing"
    await sandbox.write(f"{SCRATCH}/listing", b"")
    result = await sandbox.exec(["sh", "-c", shell], cwd=REPO, env=_GIT_ENV, timeout_s=QUICK_S)
    if not result.ok:
        raise InfraError(f"git could not list {commit}.")
    return parse_ls_tree(await sandbox.read(f"{SCRATCH}/listing", max_bytes=LISTING_LIMIT))


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
    for change in patch.changes:
        path = f"{REPO}/{change.path}"
        if change.mode is None:
            await sandbox.remove(path)
        elif change.mode == "120000":
            link = change.content.decode("utf-8", "surrogateescape")
            await sandbox.exec(["ln", "-sfn", "--", link, path], timeout_s=QUICK_S)
        else:
            await sandbox.write(path, change.content, mode=int(change.mode[-3:], 8))


def tail(result: ExecResult, limit: int = 2000) -> str:
    """The end of what a command printed, both streams, as text."""
    text = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
    return text if len(text) <= limit else "…" + text[-limit:]


def _authorization(remote: Remote) -> dict[str, str]:
    parts = urlsplit(remote.url)
    basic = base64.b64encode(f"x-access-token:{remote.token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{parts.scheme}://{parts.netloc}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {basic}",
    }


def _dump(patch: Patch) -> bytes:
    return json.dumps([[c.path, c.mode, base64.b64encode(c.content).decode()] for c in patch.changes]).encode()


async def _python(sandbox: Sandbox, name: str, *args: str) -> ExecResult:
    argv = ["python3", "-IS", "-c", guest.source(name), *args]
    return await sandbox.exec(argv, env=_GIT_ENV, timeout_s=QUICK_S * 5, trusted_status=True)


async def _try_git(sandbox: Sandbox, *args: str, cwd: str = REPO, local: bool = False) -> ExecResult:
    careful: Sequence[str] = [*_CAREFUL, *(("-c", "protocol.file.allow=always") if local else ())]
    return await sandbox.exec(["git", *careful, *args], cwd=cwd, env=_GIT_ENV, timeout_s=QUICK_S)


async def _git(sandbox: Sandbox, *args: str, cwd: str = REPO) -> None:
    result = await _try_git(sandbox, *args, cwd=cwd)
    if not result.ok:
        raise InfraError(f"git {args[0]} failed in the sandbox (exit code {result.exit_code}).")
