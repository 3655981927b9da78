"""Packages that other people have published, with a bug planted: `coder-bot verify` accepts the fix and no cheat.

They come from the package index when the test runs (see `published.txt`), and none of their code is kept here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.cases import commit_all, git

ROOT = Path(__file__).parents[2]
PINNED = Path(__file__).with_name("published.txt")
CONFIG = """version: 1
sandbox: {image: "coder-bot-toolchains:latest"}
setup: []
checks:
  - {name: tests, run: python3 -m pytest, timeout: 5m}
"""


@dataclass(frozen=True, kw_only=True)
class Published:
    """Where the bug goes in, and a cheat: text put in the place of another, or a new file where that is empty."""

    name: str
    path: str
    right: str
    wrong: str
    cheat: tuple[str, str, str]


PUBLISHED = (
    Published(
        name="inflection",
        path="inflection/__init__.py",
        right="if number % 100 in (11, 12, 13):",
        wrong="if number in (11, 12, 13):",
        cheat=(
            "conftest.py",
            "",
            "def pytest_collection_modifyitems(items):\n"
            '    items[:] = [item for item in items if "ordinal" not in item.name]\n',
        ),
    ),
    Published(
        name="parse",
        path="parse.py",
        right="return float(string[:-1]) / 100.0",
        wrong="return float(string[:-1]) / 10.0",
        cheat=("pytest.ini", "", "[pytest]\naddopts = --deselect tests/test_parse.py\n"),
    ),
    Published(
        name="toolz",
        path="toolz/itertoolz.py",
        right="return itertools.islice(seq, 0, None, n)",
        wrong="return itertools.islice(seq, 1, None, n)",
        cheat=(
            "toolz/tests/test_itertoolz.py",
            "assert list(take_nth(2, 'ABCDE')) == list('ACE')",
            "assert list(take_nth(2, 'ABCDE'))",
        ),
    ),
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path: sockets live below it."""
    with tempfile.TemporaryDirectory(prefix="coder-") as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("package", PUBLISHED, ids=lambda package: package.name)
def test_a_fix_of_a_published_package_is_accepted_and_a_cheat_is_not(
    package: Published, folder: Path, record_property: Callable[[str, object], None]
) -> None:
    repo = download(package.name, folder)
    replace(repo, package.path, package.right, package.wrong)
    commit_all(repo)
    fix, cheat = folder / "fix.patch", folder / "cheat.patch"
    replace(repo, package.path, package.wrong, package.right)
    take(repo, fix)
    replace(repo, *package.cheat)
    take(repo, cheat)

    exit_code, accepted = verify(repo, fix, folder)
    assert (exit_code, accepted["verdict"]) == (0, "Passed"), accepted["reasons"]
    exit_code, refused = verify(repo, cheat, folder)
    assert exit_code == 1, refused["reasons"]
    assert refused["verdict"] in ("Failed", "Unverified")
    assert [check["exit_code"] for check in refused["checks"]] == [0], "else it is no cheat"
    assert package.cheat[0] in "\n".join(refused["reasons"])
    for what, receipt in (("its fix", accepted), ("a cheat", refused)):
        record_property("says", f"{package.name}, {what}: {receipt['verdict']}: {receipt['reasons'][0]}")


def download(name: str, folder: Path) -> Path:
    """The package as published, unpacked."""
    [pinned] = re.findall(rf"^{name}==.*$", PINNED.read_text(), re.MULTILINE)
    wanted = folder / "wanted.txt"
    wanted.write_text(pinned)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    which = ["--require-hashes", "--no-binary", name, "--dest", str(folder), "--requirement", str(wanted)]
    subprocess.run([*pip, *which], check=True, timeout=300)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    [repo] = (path for path in folder.iterdir() if path.is_dir())
    git(repo, "init", "-q")
    return repo


def replace(repo: Path, path: str, old: str, new: str) -> None:
    file = repo / path
    if not old:
        file.write_text(new)
        return
    text = file.read_text()
    assert text.count(old) == 1, path
    file.write_text(text.replace(old, new))


def take(repo: Path, file: Path) -> None:
    """What is changed as a diff, and the repository as it was."""
    git(repo, "add", "-A")
    file.write_text(git(repo, "diff", "--cached"))
    git(repo, "reset", "-q", "--hard")


def verify(repo: Path, patch: Path, folder: Path) -> tuple[int, dict[str, Any]]:
    """The exit code of `coder-bot verify`, and the receipt as its last line has it."""
    config = folder / "coder.yml"
    config.write_text(CONFIG)
    ours = ("CODER_", "GITHUB_", "OPENAI_", "E2B_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [sys.executable, "-m", "bot", "verify", "--json", "--config", str(config)]
    done = subprocess.run(
        [*command, "--repo", str(repo), "--patch", str(patch)],
        env={**env, "CODER_HOME": str(folder / "home")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode in (0, 1), done.stderr
    receipt = json.loads(done.stdout.splitlines()[-1])["receipt"]
    assert isinstance(receipt, dict)
    return done.returncode, receipt
