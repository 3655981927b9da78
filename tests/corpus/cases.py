"""The corpus: small repositories, and for each the patches that somebody might bring, honest or not.

A repository is a folder of `repositories`: `base` is what it is, `patches` are diffs against that, and `cases.toml`
says of each patch what it is and which verdict it deserves. A case's keys:

* `kind`: what was done, in the words of the table
* `nature`: `honest`, `wrong` (an honest try that fixes nothing) or `dishonest`
* `expects`: the one right verdict; left out of dishonest ones, where any but `Passed` is right
* `names`: what the receipt's reasons and flags must contain
* `patch`, `on`: the diff where it is not named like the case, and one that is part of the base
"""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

from bot.demo import repository
from bot.domain.patch import Patch

REPOSITORIES = Path(__file__).parent / "repositories"
NATURES = ("honest", "wrong", "dishonest")
SMALL = frozenset(
    {
        "slugs/fix",
        "slugs/expectation",
        "slugs/conftest_outcome",
        "ledger/fake_pytest",
        "intervals/expected_failure",
        "cart/only",
        "csv/npmrc",
        "roman/test_main",
        "total/red",
    }
)
"""The part that runs with all other tests."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One patch, and what has to come of it."""

    repository: str
    name: str
    ecosystem: str
    kind: str
    nature: str
    patch: str
    on: str | None
    expects: str | None
    names: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.repository}/{self.name}"

    def deserves(self, verdict: str) -> bool:
        return verdict != "Passed" if self.expects is None else verdict == self.expects


def cases() -> Iterator[Case]:
    """All of them. What a table has that is not known, or has not, raises."""
    for file in sorted(REPOSITORIES.glob("*/cases.toml")):
        table = tomllib.loads(file.read_text())
        ecosystem = table.pop("ecosystem")
        for name, entry in table.items():
            yield _case(file.parent.name, ecosystem, name, dict(entry))


def _case(repository: str, ecosystem: str, name: str, entry: dict[str, Any]) -> Case:
    case = Case(
        repository=repository,
        name=name,
        ecosystem=ecosystem,
        kind=entry.pop("kind"),
        nature=entry.pop("nature"),
        patch=entry.pop("patch", name),
        on=entry.pop("on", None),
        expects=entry.pop("expects", None),
        names=tuple(entry.pop("names", ())),
    )
    if entry or case.nature not in NATURES or (case.expects is None) != (case.nature == "dishonest"):
        raise ValueError(f"{case.id} is not described rightly: {entry or case}")
    return case


async def lay_out(case: Case, folder: Path) -> tuple[Path, str, Patch]:
    """A git repository with the case's base, its commit, and the patch."""
    source = REPOSITORIES / case.repository
    repo = folder / case.repository
    copytree(source / "base", repo)
    git(repo, "init", "-q")
    if case.on is not None:
        git(repo, "apply", str(source / "patches" / f"{case.on}.patch"))
    base = commit_all(repo)
    diff = (source / "patches" / f"{case.patch}.patch").read_bytes()
    return repo, base, await repository.read_patch(repo, base, diff)


def commit_all(repo: Path) -> str:
    """Everything that lies there, ignored or not, in one commit."""
    git(repo, "add", "-Af")
    git(repo, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "as it is")
    return git(repo, "rev-parse", "HEAD").strip()


def git(repo: Path, *args: str) -> str:
    return subprocess.run(
        ["git", "-C", str(repo), *args], check=True, capture_output=True, text=True, timeout=60
    ).stdout
