"""Git for the operator's own repository: reads it, never changes it (`apply` excepted, which is asked for). What the
repository itself configures runs no program: see `borrowed`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from bot.demo import bare
from bot.demo.borrowed import Borrowed, borrowed
from bot.domain.errors import UserError
from bot.domain.patch import Change, Mode, Patch

TIMEOUT_S = 120.0


async def resolve(repo: Path, revision: str) -> str:
    """The commit a revision names."""
    async with borrowed(repo) as ours:
        try:
            out = await git(ours, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except UserError as exc:
            raise UserError(f"{repo} is no git repository with a commit {revision!r}.") from exc
        return out.decode().strip()


async def is_dirty(repo: Path) -> bool:
    async with borrowed(repo) as ours:
        # Git would look into a submodule with the configuration that lies there.
        return bool(await git(ours, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))


async def bundle(repo: Path, commit: str) -> bytes:
    """The commit and its history in one file."""
    async with borrowed(repo) as ours:
        # A bundle carries refs, not bare ids.
        await git(ours, "update-ref", "refs/coder/base", commit)
        file = ours.git_dir / "out.bundle"
        await git(ours, "bundle", "create", "-q", str(file), "refs/coder/base")
        return await asyncio.to_thread(file.read_bytes)


async def show(repo: Path, commit: str, path: str) -> bytes | None:
    """A file as a commit has it, or None."""
    async with borrowed(repo) as ours:
        if not (await git(ours, "ls-tree", commit, "--", path)).strip():
            return None
        return await git(ours, "cat-file", "blob", f"{commit}:{path}")


async def diff(repo: Path, base: str, head: str) -> bytes:
    """What changes from base to head, as `git apply` takes it."""
    async with borrowed(repo) as ours:
        return await git(ours, "diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", base, head)


async def apply(repo: Path, patch: bytes) -> None:
    """Applies a diff to the work tree."""
    async with borrowed(repo) as ours:
        try:
            await git(ours, "apply", "--whitespace=nowarn", "-", stdin=patch)
        except UserError as exc:
            said = f"The patch does not apply to the work tree of {repo}; it is in the file you named."
            raise UserError(said) from exc


async def read_patch(repo: Path, base: str, patch: bytes) -> Patch:
    """A diff as bytes of changed files, relative to a commit."""
    async with borrowed(repo) as ours:
        env = {"GIT_INDEX_FILE": str(ours.git_dir / "candidate")}
        await git(ours, "read-tree", base, env=env)
        try:
            await git(ours, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch, env=env)
        except UserError as exc:
            raise UserError(
                f"The patch does not apply to {base[:12]}. Is it a git diff against that commit?"
            ) from exc
        tree = (await git(ours, "write-tree", env=env)).decode().strip()
        raw = await git(ours, "diff-tree", "-r", "-z", "--no-renames", "--raw", base, tree, env=env)
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
                content = await git(ours, "cat-file", "blob", sha, env=env)
                changes.append(Change(path=path, mode=known[0], content=content))
            else:
                raise UserError(f"{path} is a submodule; submodules can't be changed.")
        return Patch.of(*changes)


async def git(ours: Borrowed, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """What git prints; UserError where it fails or does not end."""
    process = await asyncio.create_subprocess_exec(
        bare.executable(),
        *args,
        cwd=ours.work_tree,
        env={**bare.environment(ours.git_dir), **ours.environment, **(env or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            out, _ = await process.communicate(stdin)
    except TimeoutError as exc:
        raise UserError(f"git {args[0]} did not end within {TIMEOUT_S:.0f} seconds in {ours.work_tree}.") from exc
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise UserError(f"git {args[0]} failed in {ours.work_tree}.")
    return out
