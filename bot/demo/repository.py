"""Git on the operator's own repository: reads it, never changes it (`apply` excepted, which is asked for)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from bot.domain.errors import UserError
from bot.domain.patch import Change, Mode, Patch

TIMEOUT_S = 120.0


async def resolve(repo: Path, revision: str) -> str:
    """The commit a revision names."""
    try:
        out = await _git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except UserError as exc:
        raise UserError(f"{repo} is no git repository with a commit {revision!r}.") from exc
    return out.decode().strip()


async def is_dirty(repo: Path) -> bool:
    return bool((await _git(repo, "status", "--porcelain", "--untracked-files=no")).strip())


async def bundle(repo: Path, commit: str) -> bytes:
    """The commit and its history in one file."""
    with tempfile.TemporaryDirectory(prefix="coder-") as scratch:
        # A bundle carries refs, not bare ids: the ref is made in a scratch repository that borrows the objects.
        objects = (await _git(repo, "rev-parse", "--path-format=absolute", "--git-path", "objects")).decode().strip()
        await _git(Path(scratch), "init", "-q", "--bare", ".")
        await asyncio.to_thread(Path(scratch, "objects", "info", "alternates").write_text, objects + "\n")
        shallow = (await _git(repo, "rev-parse", "--path-format=absolute", "--git-path", "shallow")).decode().strip()
        await asyncio.to_thread(_copy_if_there, Path(shallow), Path(scratch, "shallow"))
        await _git(Path(scratch), "update-ref", "refs/heads/base", commit)
        await _git(Path(scratch), "bundle", "create", "-q", "out.bundle", "refs/heads/base")
        return await asyncio.to_thread(Path(scratch, "out.bundle").read_bytes)


def _copy_if_there(source: Path, target: Path) -> None:
    if source.exists():
        target.write_bytes(source.read_bytes())


async def show(repo: Path, commit: str, path: str) -> bytes | None:
    """A file as a commit has it, or None."""
    if not (await _git(repo, "ls-tree", commit, "--", path)).strip():
        return None
    return await _git(repo, "cat-file", "blob", f"{commit}:{path}")


async def diff(repo: Path, base: str, head: str) -> bytes:
    """What changes from base to head, as `git apply` takes it."""
    return await _git(repo, "diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", base, head)


async def apply(repo: Path, patch: bytes) -> None:
    """Applies a diff to the work tree."""
    try:
        await _git(repo, "apply", "--whitespace=nowarn", "-", stdin=patch)
    except UserError as exc:
        raise UserError(f"The patch does not apply to the work tree of {repo}; it is in the file you named.") from exc


async def read_patch(repo: Path, base: str, patch: bytes) -> Patch:
    """A diff as bytes of changed files, relative to a commit. The repository itself gains no object."""
    with tempfile.TemporaryDirectory(prefix="coder-") as scratch:
        objects = (await _git(repo, "rev-parse", "--path-format=absolute", "--git-path", "objects")).decode().strip()
        env = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": scratch,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        await _git(repo, "read-tree", base, env=env)
        try:
            await _git(repo, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch, env=env)
        except UserError as exc:
            raise UserError(
                f"The patch does not apply to {base[:12]}. Is it a git diff against that commit?"
            ) from exc
        tree = (await _git(repo, "write-tree", env=env)).decode().strip()
        raw = await _git(repo, "diff-tree", "-r", "-z", "--no-renames", "--raw", base, tree, env=env)
        fields = raw.split(b"\0")
        changes = []
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            _, mode, _, sha, status = meta[1:].decode().split()
            try:
                path = name.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise UserError(f"The name {name!r} is not UTF-8 and can't be published.") from exc
            if status == "D":
                changes.append(Change(path=path, mode=None))
            elif known := [one for one in get_args(Mode) if one == mode]:
                content = await _git(repo, "cat-file", "blob", sha, env=env)
                changes.append(Change(path=path, mode=known[0], content=content))
            else:
                raise UserError(f"{path} is a submodule; submodules can't be changed.")
        return Patch.of(*changes)


async def _git(cwd: Path, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    # The operator's own git with the operator's own environment: this is their repository.
    wanted = [f"{name}={value}" for name, value in (env or {}).items()]
    if not await asyncio.to_thread(cwd.is_dir):
        raise UserError(f"{cwd} is not a folder.")
    process = await asyncio.create_subprocess_exec(
        "env",
        *wanted,
        "git",
        *args,
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            out, _ = await process.communicate(stdin)
    except TimeoutError as exc:
        raise UserError(f"git {args[0]} did not end within {TIMEOUT_S:.0f} seconds in {cwd}.") from exc
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise UserError(f"git {args[0]} failed in {cwd}.")
    return out
