"""Publishing by itself: a base and a change as files, put on a local GitHub, and what git makes of the same."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.db.store import Checkpoint
from bot.demo.github import MANIFEST, LocalGitHub
from bot.domain import config
from bot.domain.budget import Spend
from bot.domain.config import Config
from bot.domain.episode import Episode
from bot.domain.patch import Change, Patch
from bot.domain.receipt import Place, Receipt
from bot.domain.report import Counts, Report
from bot.domain.task import Task
from bot.domain.tree import parse_ls_tree, tree_id
from bot.domain.verification import CheckResult, Draft, Evidence, Passed, Policy, Run, judge
from bot.github.auth import App
from bot.pipeline.publish import Result, publish

NAME = "octo/sample"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MODES = {"f": "100644", "x": "100755", "l": "120000", "s": "160000"}

Files = Mapping[str | bytes, tuple[str, bytes]]
"""By its path, what kind of thing lies there (a key of MODES) and its content; of a submodule its commit."""


def git(folder: Path, *words: str, stdin: bytes = b"", **env: str) -> bytes:
    own = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "somebody",
        "GIT_AUTHOR_EMAIL": "somebody@example.com",
        "GIT_COMMITTER_NAME": "somebody",
        "GIT_COMMITTER_EMAIL": "somebody@example.com",
    }
    done = subprocess.run(
        ["git", *words], cwd=folder, input=stdin, env={**own, **env}, capture_output=True, check=True
    )
    return done.stdout


def tree_of(folder: Path, files: Files) -> str:
    """The tree that git itself writes for these files."""
    with tempfile.TemporaryDirectory() as scratch:
        env = {"GIT_INDEX_FILE": f"{scratch}/index"}
        written = [(path, kind, content) for path, (kind, content) in files.items() if kind != "s"]
        for number, (_, _, content) in enumerate(written):
            (Path(scratch) / str(number)).write_bytes(content)
        names = "".join(f"{scratch}/{number}\n" for number in range(len(written)))
        ids = git(folder, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names.encode()).split()
        lines = [(MODES[kind], sha, path) for (path, kind, _), sha in zip(written, ids, strict=True)]
        lines += [(MODES[kind], content, path) for path, (kind, content) in files.items() if kind == "s"]
        listed = b"".join(
            b"%s %s\t%s\0" % (mode.encode(), sha, path if isinstance(path, bytes) else path.encode())
            for mode, sha, path in lines
        )
        git(folder, "update-index", "-z", "--index-info", stdin=listed, **env)
        return git(folder, "write-tree", **env).decode().strip()


def change(before: Files, after: Files) -> Patch:
    """What leads from one to the other."""
    changes = []
    for path in {*before, *after}:
        if before.get(path) == after.get(path):
            continue
        assert isinstance(path, str), "only the base may have other names"
        kind, content = after.get(path, ("", b""))
        changes.append(Change(path=path, mode=MODES.get(kind), content=content))  # type: ignore[arg-type]  # one of them
    return Patch.of(*changes)


@dataclass
class Bench:
    """A local GitHub whose repository has these files, an issue, and the bot's App."""

    github: LocalGitHub
    app: App
    base: Files
    base_sha: str
    base_tree: str
    task: Task
    episode: Episode
    rules: Config = field(default_factory=Config)
    signed: list[dict[str, Any]] = field(default_factory=list)
    checked: bool = True

    @property
    def folder(self) -> Path:
        return self.github.path(NAME)

    def verdict(self, patch: Patch, *, draft: bool = False) -> tuple[Evidence, Passed | Draft]:
        """What checks would have to say for it."""
        tree = tree_id(parse_ls_tree(git(self.folder, "ls-tree", "-r", "-z", self.base_tree)), patch)
        report = None if draft else Report(runner="pytest", counts=Counts(passed=3))
        result = CheckResult(
            name="tests", command="pytest", exit_code=0, timed_out=False, duration_s=1.0, report=report
        )
        evidence = Evidence(
            base=self.base_sha,
            tree=tree,
            expected_tree=tree,
            runs=(Run(kind="candidate", tree=tree, checks=(result,), sandbox="v"),),
            policy=Policy(unverified="draft"),
        )
        verdict = judge(evidence)
        assert isinstance(verdict, Draft if draft else Passed)
        return evidence, verdict

    async def publish(self, patch: Patch, *, draft: bool = False, **of_episode: Any) -> Task:
        """Publishes it as what the checks said would let it be. The task remembers it, as a row would."""
        evidence, verdict = self.verdict(patch, draft=draft)
        receipt = Receipt(
            repository=NAME,
            evidence=evidence,
            verdict=verdict,
            config_sha=self.base_sha,
            image="sha256:1",
            sandbox=None,
            verification_sandbox=Place(provider="docker", id="v"),
            model="scripted",
            spent=Spend(),
            created_at=NOW,
            bot_version="1",
        )
        result = Result(
            task=self.task,
            episode=replace(self.episode, **of_episode),
            checkpoint=Checkpoint(id=1, base_sha=self.base_sha, patch=patch),
            verdict=verdict,
            rules=self.rules,
            receipt=receipt.to_dict(),
            checked=self.checked,
        )

        async def sign(document: Mapping[str, Any]) -> None:
            self.signed.append(dict(document))

        [installation] = {token.installation_id for token in self.github.tokens} or {self.task.installation_id}
        permissions = {"contents": "write", "issues": "write", "pull_requests": "write"}
        async with self.app.repository(installation, "octo", "sample", permissions=permissions) as repository:
            self.task = await publish(repository, result, sign=sign, redact=lambda text: text)
        return self.task

    async def becomes(self, after: Files) -> None:
        """Publishes what leads there, and compares the tree that git makes of those files, the one on the branch, and
        the one in the receipt."""
        verified = tree_of(self.folder, after)
        patch = change(self.base, after)
        published = await self.publish(patch)
        [pull] = self.github.pull_requests(NAME)
        assert published.head_sha == pull.head_sha
        head = git(self.folder, "rev-parse", f"{pull.head_sha}^{{tree}}").decode().strip()
        assert head == verified
        assert [(each["tree"], each["commit"]) for each in self.signed] == [(verified, pull.head_sha)]
        git(self.folder, "fsck", "--strict", pull.head_sha)


@asynccontextmanager
async def bench(base: Files, *, rules: str = "", permissions: Mapping[str, str] = MANIFEST) -> AsyncIterator[Bench]:
    with tempfile.TemporaryDirectory() as home:
        async with LocalGitHub(Path(home) / "github", permissions=permissions) as github:
            made = await github.create_repository(NAME, {"placeholder": b""})
            issue = github.open_issue(NAME, title="It breaks", author="reporter")
            folder = github.path(NAME)
            tree = tree_of(folder, base)
            sha = git(folder, "commit-tree", tree, "-m", "Base").decode().strip()
            git(folder, "update-ref", "refs/heads/main", sha)
            task = Task(
                id="t1",
                installation_id=made.installation_id,
                repository_id=made.id,
                owner="octo",
                name="sample",
                clone_url=f"{github.api_url.removesuffix('/api/v3')}/{NAME}.git",
                number=issue.number,
                title="It breaks",
                body="",
                author="reporter",
                requester="maintainer",
                requested_at=NOW,
                created_at=NOW,
                updated_at=NOW,
                base_branch="main",
                base_sha=sha,
            )
            episode = Episode(
                id="e1",
                task_id="t1",
                number=1,
                kind="fix",
                instruction="",
                requester="maintainer",
                comment_id=1,
                created_at=NOW,
                config_sha=sha,
                config_text=None,
                title="Mend it",
                summary="The sign was wrong.",
            )
            yield Bench(
                github=github,
                app=App(github.app.app_id, github.app.private_key, github.api_url),
                base=base,
                base_sha=sha,
                base_tree=tree,
                task=task,
                episode=episode,
                rules=config.parse(rules.encode() or None),
            )
            assert github.violations == []
