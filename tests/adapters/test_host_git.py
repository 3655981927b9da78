"""What the bot's own machine does with a repository somebody names to it: git is never started in one, so that
nothing which lies there runs."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

import bot
from bot.demo import bare, repository
from bot.domain.errors import UserError
from bot.domain.patch import Change, Patch
from tests import planted

PATCH = b"""\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+two
"""


def git(repo: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *who, *words], cwd=repo, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """With a commit, and a submodule that is checked out."""
    inner = tmp_path / "repo" / "sub"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        git(folder, "init", "-q")
        (folder / "a.txt").write_text("one\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "base")
    return inner.parent


async def test_nothing_that_lies_in_a_repository_runs_while_it_is_read_and_changed(
    repo: Path, tmp_path: Path
) -> None:
    head = git(repo, "rev-parse", "HEAD")
    blob = git(repo, "rev-parse", "HEAD:a.txt")
    record = planted.plant(repo, tmp_path / "traps")
    inner = planted.plant(repo / "sub", tmp_path / "inner")
    later = os.stat(repo / "a.txt").st_mtime + 10
    os.utime(repo / "a.txt", (later, later))  # git has to look into it now, through its filter

    assert await repository.resolve(repo, "main") == head
    assert await repository.resolve(repo, head[:12]) == head
    assert not await repository.is_dirty(repo)
    assert await repository.show(repo, head, "a.txt") == b"one\n"
    assert await repository.show(repo, head, "b.txt") is None
    assert await repository.read_patch(repo, head, PATCH) == Patch.of(
        Change(path="a.txt", mode="100644", content=b"two\n")
    )
    (tmp_path / "home").mkdir()
    taken = await bare.fetch_head(repo, tmp_path / "taken.git", tmp_path / "home")
    assert taken.branches() == {"main": head}
    (tmp_path / "bundle").write_bytes(await repository.bundle(repo, head))
    assert head in git(tmp_path, "bundle", "list-heads", "bundle")
    await repository.apply(repo, PATCH)
    assert (repo / "a.txt").read_bytes() == b"two\n"
    assert await repository.is_dirty(repo)
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UserError):
        await repository.show(repo, head, "a.txt")
    assert (planted.ran(record), planted.ran(inner)) == (set(), set())


def test_the_same_repository_runs_it_all_for_a_git_that_is_started_in_it(repo: Path, tmp_path: Path) -> None:
    """The positive control: what is planted there works."""
    blob = git(repo, "rev-parse", "HEAD:a.txt")
    record = planted.plant(repo, tmp_path / "traps")
    inner = planted.plant(repo / "sub", tmp_path / "inner")
    for file in (repo / "a.txt", repo / "sub" / "a.txt"):
        file.write_text("two\n")
    env = {**os.environ, "CARRIED": "a token, say"}
    for words in (["status"], ["-p", "log"], ["diff"], ["checkout", "a.txt"]):
        subprocess.run(["git", *words], cwd=repo, env=env, capture_output=True, check=False)
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    subprocess.run(["git", "cat-file", "blob", blob], cwd=repo, env=env, capture_output=True, check=False)
    assert {"fsmonitor", "filter", "diff", "pack", "hook post-index-change"} <= planted.ran(record)
    assert "fsmonitor" in planted.ran(inner)
    assert "CARRIED=a token, say" in record.read_text()


def test_no_part_of_the_bot_starts_git_but_in_a_directory_of_its_own() -> None:
    """Programs are started on the bot's machine from these places alone: a new one has to be looked at."""
    root = Path(bot.__file__).parent
    starts = {}
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        if name.startswith("sandbox/guest/"):
            continue  # these run in sandboxes
        calls = [
            ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        starting = ("subprocess", "os.exec", "os.spawn", "os.posix_spawn", "os.system", "os.popen", "pty.")
        if found := sorted({call for call in calls if any(word in call for word in starting)}):
            starts[name] = found
    assert starts == {
        "demo/bare.py": ["asyncio.create_subprocess_exec", "subprocess.run"],  # a bare repository it has made
        "demo/git_http.py": ["asyncio.create_subprocess_exec"],  # the same, served
        "demo/repository.py": ["asyncio.create_subprocess_exec"],  # a borrowed one
    }
    for name in starts:
        text = (root / name).read_text()
        assert "shell=True" not in text
        assert "os.environ" not in text, "nothing of the bot's own environment, its keys, goes along"
