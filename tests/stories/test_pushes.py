"""Others work on the pull request's branch as well: their commits are brought in, never undone, and never forced."""

from __future__ import annotations

import subprocess
import tempfile

import pytest

from bot.domain.task import State
from tests.stories.harness import REPOSITORY, Story, call, fix, say, story, submit, with_config
from tests.stories.test_reviews import CONFIG, documented, published
from tests.stories.test_warm_start import push

BRANCH = "coder/issue-1"
BARE = b"from calc import add\n\n\ndef test_bare():\n    assert add.__doc__ is None\n"


def rewrite(s: Story) -> str:
    """Somebody makes the branch's last commit anew, and forces it."""
    with tempfile.TemporaryDirectory() as folder:

        def git(*args: str) -> str:
            who = ["-c", "user.name=maintainer", "-c", "user.email=maintainer@localhost"]
            done = subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)
            return done.stdout.decode().strip()

        git("clone", "-q", str(s.github.path(s.repository)), ".")
        git("checkout", "-q", "-B", "again", f"origin/{BRANCH}")
        git("commit", "-q", "--amend", "-m", "In other words")
        git("push", "-q", "--force", "origin", f"HEAD:{BRANCH}")
        return git("rev-parse", "HEAD")


def parents(s: Story, sha: str) -> list[str]:
    asked = ["git", "-C", str(s.github.path(s.repository)), "rev-parse", f"{sha}^@"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()


async def test_what_others_pushed_before_a_round_is_what_it_works_on() -> None:
    async with story(with_config(CONFIG)) as s:
        number = await published(s)
        theirs = await push(
            s, {"notes.md": b"By hand.\n", "calc.py": b"def add(a, b):\n    return b + a\n"}, branch=BRANCH
        )
        s.script(say(call("submit", title="", summary="It adds.")))
        await s.comment("/coder ask What does it do?", number=number)
        await s.settle()
        assert s.pull_requests[0].head_sha == theirs
        assert "The receipt below is for an earlier commit" in s.pull_requests[0].body
        s.script(documented(), submit())
        await s.comment("/coder fix Document it.", number=number)
        await s.settle()
        [pull] = s.pull_requests
        assert "earlier commit" not in pull.body
        assert f"The receipt's base is `{theirs[:12]}`, which others have pushed to this branch" in pull.body
        assert parents(s, pull.head_sha) == [theirs]
        content = s.github.file(REPOSITORY, pull.head_sha, "calc.py")
        assert content == b'def add(a, b):\n    """The sum."""\n    return b + a\n'
        assert s.github.file(REPOSITORY, pull.head_sha, "notes.md") == b"By hand.\n"
        saved = await s.bot.deps.store.receipt((await s.bot.deps.store.tasks())[0].id)
        assert saved is not None
        assert (saved.document["base"], saved.document["tree"]) == (theirs, pull.head_tree)
        # Rewritten while nobody was at work: what is there now is gone on from.
        rewritten = rewrite(s)
        s.script(fix('"""The sum."""', '"""The sum of both."""'), submit())
        await s.comment("/coder fix Of both.", number=number)
        await s.settle()
        assert parents(s, s.pull_requests[0].head_sha) == [rewritten]


@pytest.mark.parametrize("where", ["elsewhere", "same lines", "rewritten"])
async def test_what_others_push_during_a_round_is_kept_and_ours_as_well(where: str) -> None:
    async with story(with_config(CONFIG)) as s:
        number = await published(s)
        s.script(documented(), submit())
        if where == "elsewhere":  # it merges, and does not go together
            s.script(documented(), submit(), fix('"""The sum."""', "# The sum."), submit())
        await s.comment("/coder fix Document it.", number=number)
        pushed: list[str] = []

        async def meanwhile(call: str) -> None:
            [task] = await s.bot.deps.store.tasks()
            if pushed or task.state is not State.VERIFYING:
                return
            pushed.append("")
            if where == "rewritten":
                pushed[0] = rewrite(s)
            elif where == "elsewhere":
                pushed[0] = await push(s, {"notes.md": b"By hand.\n", "test_bare.py": BARE}, branch=BRANCH)
            else:
                pushed[0] = await push(
                    s, {"calc.py": b'def add(a, b):\n    "By hand."\n    return a + b\n'}, branch=BRANCH
                )

        s.github.on_git(meanwhile)
        await s.settle()
        assert pushed
        [pull] = s.pull_requests
        [task] = await s.bot.deps.store.tasks()
        if where == "elsewhere":
            assert parents(s, pull.head_sha) == pushed
            assert s.github.file(REPOSITORY, pull.head_sha, "notes.md") == b"By hand.\n"
            assert b"# The sum." in (s.github.file(REPOSITORY, pull.head_sha, "calc.py") or b"")
            episode = await s.bot.deps.store.last_episode(task.id)
            assert episode.attempts == 3, "passed alone, failed together, passed together"
            saved = await s.bot.deps.store.receipt(task.id)
            assert saved is not None
            assert (saved.document["base"], saved.document["tree"]) == (pushed[0], pull.head_tree)
            return
        assert pull.head_sha == pushed[0], "nothing was forced, and nothing undone"
        assert (task.state, await s.code()) == (State.WAITING, "WRITE_REFUSED")
        assert '+    """The sum."""' in s.comments[-1], "the work is kept, and shown"
        assert ("rewritten" if where == "rewritten" else "has changed the same lines of `calc.py`") in s.comments[-1]
        if where == "same lines":
            s.script(documented(), submit(), fix('    "By hand."\n', '    """The sum, by hand."""\n'), submit())
            await s.comment("/coder retry", number=number)
            await s.settle()
            assert parents(s, s.pull_requests[0].head_sha) == pushed
            steps = await s.bot.deps.store.steps(task.id)
            assert any("what you had done to these files is not in it" in (step.note or "") for step in steps)


async def test_a_pull_request_that_conflicts_with_its_base_is_merged_by_a_commit_that_has_both() -> None:
    async with story(with_config(CONFIG)) as s:
        number = await published(s)
        before = s.pull_requests[0].head_sha
        tip = await push(s, {"calc.py": b"def add(a, b):\n    return a - b  # odd\n", "new.py": b"x = 1\n"})
        marked = "<<<<<<< pull request\n    return a + b\n=======\n    return a - b  # odd\n>>>>>>> base\n"
        s.script(submit(), fix(marked, "    return a + b  # not odd\n"), submit())
        await s.comment("/coder fix It conflicts.", number=number)
        await s.settle()
        [pull] = s.pull_requests
        assert parents(s, pull.head_sha) == [before, tip]
        assert s.github.file(REPOSITORY, pull.head_sha, "new.py") == b"x = 1\n"
        assert s.github.file(REPOSITORY, pull.head_sha, "calc.py") == b"def add(a, b):\n    return a + b  # not odd\n"
        [task] = await s.bot.deps.store.tasks()
        assert (task.merges, task.base_sha) == (None, tip)
        assert "others have pushed" not in pull.body
        steps = await s.bot.deps.store.steps(task.id)
        assert any("still has the marks of a conflict" in (step.note or "") for step in steps)
