"""A bare git repository, read and written by git's own plumbing, so that every id is the one git gives.

Calls take milliseconds and are made where they stand, the event loop waiting; only fetching from another repository
and serving clones are worth a process of their own and are asynchronous."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path

from bot.demo.borrowed import borrowed
from bot.domain.errors import InfraError, UserError

QUICK_S = 60.0
FETCH_S = 600.0
ZERO = "0" * 40


class BadObject(Exception):
    """Git does not know such an object, or refuses to make it. The message is a sentence of ours."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a tree; a path deeper than one level comes from a recursive listing."""

    mode: str
    type: str
    sha: str
    path: str
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class TreeChange:
    """What becomes of one path: `sha` None removes it."""

    path: str
    mode: str
    sha: str | None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Who made a commit, and when."""

    name: str
    email: str
    date: datetime


@dataclass(frozen=True, kw_only=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much lies between two commits."""

    commits: int
    files: int
    additions: int
    deletions: int


@dataclass(frozen=True, kw_only=True)
class Changed:
    """One file between two commits, in GitHub's words; `sha` is the blob's after the change, before it for one that
    was removed."""

    path: str
    status: str
    sha: str
    additions: int
    deletions: int


@cache
def executable() -> str:
    """Where git is."""
    found = shutil.which("git")
    if found is None:
        raise UserError("git is not installed; install it and try again.")
    return found


def environment(home: Path) -> dict[str, str]:
    """All that a git process here sees: nothing of the operator's own configuration, hooks or credentials."""
    return {
        "PATH": os.pathsep.join((str(Path(executable()).parent), os.defpath)),
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


async def fetch_head(source: Path, directory: Path, home: Path) -> Bare:
    """A new bare repository with the commit that `source` has checked out, and its history, on a branch of the same
    name. `source` is only read."""
    async with borrowed(source) as ours:
        probe = Bare(path=ours.git_dir, home=home)
        if not probe.try_git("rev-parse", "--verify", "--quiet", "HEAD^{commit}"):
            raise UserError(f"{source} is not a git repository with a commit.")
        branch = probe.try_git("symbolic-ref", "--short", "--quiet", "HEAD").decode().strip() or "main"
        bare = create(directory, home, branch)
        # A shallow source stays shallow here instead of being refused; tags and other branches are not our business.
        fetch = ["fetch", "--quiet", "--no-tags", "--update-shallow", str(ours.git_dir), f"HEAD:refs/heads/{branch}"]
        process = await asyncio.create_subprocess_exec(
            executable(),
            *fetch,
            cwd=directory,
            env=environment(home),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(FETCH_S):
                code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if code:
        raise UserError(f"git could not read {source} (exit code {code}).")
    return bare


def from_files(files: Mapping[str, bytes], directory: Path, home: Path, who: Signature) -> Bare:
    """A new bare repository with one commit of these files on `main`."""
    bare = create(directory, home, "main")
    changes = [TreeChange(path=path, mode="100644", sha=bare.write_blob(data)) for path, data in files.items()]
    commit = bare.write_commit("Initial commit\n", bare.write_tree(None, changes), [], who, who)
    bare.move("refs/heads/main", commit.sha, ZERO)
    return bare


def create(directory: Path, home: Path, branch: str) -> Bare:
    """A new, empty bare repository that can be cloned the ways GitHub allows."""
    directory.mkdir(parents=True)
    bare = Bare(path=directory, home=home)
    bare.git("init", "--quiet", "--bare", "--template=", f"--initial-branch={branch}", ".")
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        bare.git("config", key, "true")
    return bare


@dataclass(frozen=True, kw_only=True)
class Bare:
    path: Path
    home: Path

    def git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """What git prints. A refusal or a warning is a `BadObject`: plumbing is silent when all is well."""
        done = self._run(args, stdin, env)
        if done.returncode or done.stderr:
            raise BadObject(f"git {args[0]} refused")
        return done.stdout

    def try_git(self, *args: str) -> bytes:
        """What git prints, or nothing if it fails."""
        done = self._run(args, b"", None)
        return b"" if done.returncode else done.stdout

    def _run(
        self, args: Sequence[str], stdin: bytes, env: Mapping[str, str] | None
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [executable(), *args],
                cwd=self.path,
                env={**environment(self.home), **(env or {})},
                input=stdin,
                capture_output=True,
                timeout=QUICK_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise InfraError(f"git {args[0]} did not end within {QUICK_S:.0f} seconds.") from exc

    def kind(self, sha: str) -> str | None:
        """`blob`, `tree`, `commit`, `tag`, or None where there is no such object."""
        if len(sha) != 40 or not set(sha) <= set("0123456789abcdef"):
            return None
        return self.try_git("cat-file", "-t", sha).decode().strip() or None

    def resolve(self, revision: str) -> str | None:
        """The commit that a branch, a tag, a full ref or an id names."""
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            query = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            if found := self.try_git(*query).decode().strip():
                return found
        return None

    def ref(self, name: str) -> str | None:
        """Where exactly this ref (`refs/…`) points."""
        return self.try_git("rev-parse", "--verify", "--quiet", "--end-of-options", name).decode().strip() or None

    def branches(self) -> dict[str, str]:
        lines = self.git("for-each-ref", "--format=%(objectname) %(refname:strip=2)", "refs/heads").decode()
        return {name: sha for sha, name in (line.split(" ", 1) for line in lines.splitlines())}

    def refs(self, beginning: str) -> dict[str, str]:
        """The refs whose names begin so, and where they point."""
        lines = self.git("for-each-ref", "--format=%(objectname) %(refname)").decode().splitlines()
        found = {name: sha for sha, name in (line.split(" ", 1) for line in lines)}
        return {name: sha for name, sha in found.items() if name.startswith(beginning)}

    def move(self, name: str, new: str, old: str) -> bool:
        """Points a ref elsewhere if it is still at `old`; `ZERO` stands for not being there, before or after."""
        try:
            self.git("update-ref", name, new, old)
        except BadObject:
            return False
        return True

    def is_ref_name(self, name: str) -> bool:
        return name.startswith("refs/") and self._run(("check-ref-format", name), b"", None).returncode == 0

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        return self._run(("merge-base", "--is-ancestor", ancestor, descendant), b"", None).returncode == 0

    def blob(self, sha: str) -> bytes:
        return self.git("cat-file", "blob", sha)

    def write_blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def write_blobs(self, contents: Sequence[bytes]) -> list[str]:
        """The ids of these contents, by one process however many there are."""
        with tempfile.TemporaryDirectory(dir=self.home) as scratch:
            paths = [Path(scratch, str(number)) for number in range(len(contents))]
            for path, content in zip(paths, contents, strict=True):
                path.write_bytes(content)
            named = "".join(f"{path}\n" for path in paths).encode()
            return self.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=named).decode().split()

    def tree(self, treeish: str, *, recursive: bool = False) -> list[Entry]:
        """The entries of a tree; a recursive listing names the folders as well, as GitHub's does."""
        flags = ("-r", "-t") if recursive else ()
        listed = self.git("ls-tree", "-z", "--long", *flags, treeish)
        entries = []
        for line in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            about, path = line.split("\t", 1)
            mode, kind, sha, size = about.split()
            entries.append(
                Entry(mode=mode, type=kind, sha=sha, path=path, size=int(size) if size.isdigit() else None)
            )
        return entries

    def entry(self, commit: str, path: str) -> Entry | None:
        """What a commit has at a path (not the top folder)."""
        *folders, name = path.split("/")
        folder = "/".join(folders)
        if folder and self.try_git("cat-file", "-t", f"{commit}:{folder}").strip() != b"tree":
            return None
        return next((entry for entry in self.tree(f"{commit}:{folder}") if entry.path == name), None)

    def write_tree(self, base: str | None, changes: Sequence[TreeChange]) -> str:
        """The id of base's tree (or of nothing) with the changes, built in an index of its own."""
        with tempfile.TemporaryDirectory(dir=self.home) as scratch:
            env = {"GIT_INDEX_FILE": f"{scratch}/index"}
            if base is not None:
                self.git("read-tree", base, env=env)
            for is_file, group in groupby(changes, lambda change: change.sha is not None and change.mode != "040000"):
                if is_file:
                    self._put([(each.mode, each.sha or ZERO, each.path) for each in group], env)
                    continue
                for change in group:
                    if change.sha is None:
                        self._remove(change.path, env)
                        continue
                    self._drop(change.path, env)
                    files = self.tree(change.sha, recursive=True)
                    inside = [(f.mode, f.sha, f"{change.path}/{f.path}") for f in files if f.type != "tree"]
                    self._put(inside, env)
            return self.git("write-tree", env=env).decode().strip()

    def _put(self, files: Iterable[tuple[str, str, str]], env: Mapping[str, str]) -> None:
        lines = "".join(f"{mode} {sha}\t{path}\0" for mode, sha, path in files)
        self.git("update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"), env=env)

    def _remove(self, path: str, env: Mapping[str, str]) -> None:
        if not self._drop(path, env):
            raise BadObject(f"{path} is not there to be removed")

    def _drop(self, path: str, env: Mapping[str, str]) -> bool:
        """Takes a file or a whole folder out of the index; false if there is none."""
        listed = self.git("--literal-pathspecs", "ls-files", "-z", "--", path, env=env)
        names = listed.decode("utf-8", "surrogateescape").split("\0")[:-1]
        self._put([("0", ZERO, name) for name in names], env)
        return bool(names)

    def commit(self, sha: str) -> Commit:
        head, _, message = self.git("cat-file", "commit", sha).decode("utf-8", "replace").partition("\n\n")
        fields = [line.split(" ", 1) for line in head.split("\n") if not line.startswith(" ")]
        named = dict(fields)
        return Commit(
            sha=sha,
            tree=named["tree"],
            parents=tuple(value for key, value in fields if key == "parent"),
            author=_signature(named["author"]),
            committer=_signature(named["committer"]),
            message=message,
        )

    def write_commit(
        self, message: str, tree: str, parents: Sequence[str], author: Signature, committer: Signature
    ) -> Commit:
        """Makes a commit whose message is stored to the letter."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {_written(author)}", f"committer {_written(committer)}"]
        raw = "\n".join(lines) + "\n\n" + message
        sha = self.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode()).decode().strip()
        return self.commit(sha)

    def merge_tree(self, ours: str, theirs: str) -> str | None:
        """The tree of a merge of two commits, or None where they conflict."""
        merged = self.try_git("merge-tree", "--write-tree", ours, theirs).decode()
        return merged.split("\n", 1)[0] or None

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor."""
        return self.try_git("merge-base", one, other).decode().strip() or None

    def commits(self, base: str, head: str) -> list[str]:
        """What head has and base has not, oldest first."""
        return self.git("rev-list", "--reverse", f"{base}..{head}").decode().split()

    def changed(self, base: str, head: str) -> list[Changed]:
        """The files that differ."""
        rows = self.git("diff", "--raw", "--numstat", "-z", "--abbrev=40", "--no-renames", base, head).split(b"\0")[
            :-1
        ]
        told = 2 * sum(row.startswith(b":") for row in rows)
        counts = {row.split(b"\t", 2)[2]: row.split(b"\t", 2)[:2] for row in rows[told:]}
        return [
            _changed(about, path, counts[path]) for about, path in zip(rows[:told:2], rows[1:told:2], strict=True)
        ]

    def difference(self, base: str, head: str) -> Difference:
        """What a pull request from base to head would hold: the change since they parted."""
        commits = int(self.git("rev-list", "--count", f"{base}..{head}").decode())
        rows = self.git("diff", "--numstat", "-z", "--no-renames", f"{base}...{head}").split(b"\0")[:-1]
        counts = [row.split(b"\t", 2)[:2] for row in rows]
        return Difference(
            commits=commits,
            files=len(rows),
            # Git prints `-` for a binary file.
            additions=sum(int(added) for added, _ in counts if added != b"-"),
            deletions=sum(int(gone) for _, gone in counts if gone != b"-"),
        )


def _changed(about: bytes, path: bytes, counts: Sequence[bytes]) -> Changed:
    _, _, before, after, status = about.decode().split()
    # Git prints `-` for a binary file.
    added, gone = (0 if count == b"-" else int(count) for count in counts)
    return Changed(
        path=path.decode("utf-8", "replace"),
        status={"A": "added", "D": "removed"}.get(status, "modified"),
        sha=before if status == "D" else after,
        additions=added,
        deletions=gone,
    )


def _signature(text: str) -> Signature:
    who, seconds, _ = text.rsplit(" ", 2)
    name, _, email = who.rpartition(" <")
    return Signature(name=name, email=email.rstrip(">"), date=datetime.fromtimestamp(int(seconds), UTC))


def _written(signature: Signature) -> str:
    for text in (signature.name, signature.email):
        if set(text) & set("<>\n\0"):
            raise BadObject("a name or an address that git can't store")
    return f"{signature.name} <{signature.email}> {int(signature.date.timestamp())} +0000"
