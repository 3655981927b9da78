"""The second task of a repository starts where the first one's set-up ended, and nothing gets into it that way."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.db.store import SavedReceipt, SnapshotRecord
from bot.domain.task import Task
from tests.stories.harness import FILES, REPOSITORY, Story, call, fix, say, story, submit

CONFIG = """\
setup:
  - head -c 16 /dev/urandom | od -An -tx1 > "$HOME/mark"
{more}checks:
  - {{name: tests, run: 'cat "$HOME/mark"; {look}; python3 -m pytest -q', timeout: 1m}}
{tail}"""
TEST = FILES["test_calc.py"].replace(b"from calc", b"from lib.calc")


def files(more: str = "", *, look: str = "ls", tail: str = "") -> dict[str, bytes]:
    """The sample repository with further set-up lines; before it runs the tests, its check prints what it sees."""
    config = CONFIG.format(more=more, look=look, tail=tail)
    return {**FILES, ".github/coder.yml": config.encode(), "package-lock.json": b"{}\n"}


@asynccontextmanager
async def bot(repository: Mapping[str, bytes], **settings: str) -> AsyncIterator[Story]:
    async with story(repository, **settings) as s:
        try:
            yield s
        finally:
            for info in await s.bot.deps.provider.list():
                await s.bot.deps.provider.kill(info.id)
            for snapshot in await s.bot.deps.provider.snapshots():
                await s.bot.deps.provider.drop_snapshot(snapshot.id)
            assert await s.containers() == []


async def solve(s: Story, path: str = "calc.py") -> Task:
    """A new issue, solved to a pull request."""
    s.script(fix(path=path), submit())
    issue = s.github.open_issue(s.repository, title="add() is wrong", body="2 + 3 gives -1.", author="reporter")
    await s.comment(number=issue.number)
    await s.settle()
    task = next(
        task
        for task in await s.bot.deps.store.tasks()
        if (task.full_name, task.number) == (s.repository, issue.number)
    )
    assert task.pull_request is not None, (await s.bot.deps.store.last_episode(task.id)).detail
    return task


async def push(s: Story, changes: Mapping[str, bytes | None], *, branch: str = "main") -> str:
    """A person's commit; None removes a file. Gives the new head."""
    with tempfile.TemporaryDirectory() as folder:

        def git(*args: str) -> str:
            who = ["-c", "user.name=maintainer", "-c", "user.email=maintainer@localhost"]
            done = subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)
            return done.stdout.decode().strip()

        git("clone", "-q", str(s.github.path(s.repository)), ".")
        git("checkout", "-q", "-B", branch, f"origin/{branch}")
        for name, content in changes.items():
            path = Path(folder, name)
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        git("add", "-A")
        git("commit", "-q", "-m", "A person's change")
        git("push", "-q", "origin", f"HEAD:{branch}")
        return git("rev-parse", "HEAD")


async def work_file(s: Story, task: Task, path: str) -> bytes:
    [record] = await s.bot.deps.store.sandboxes(task.id)
    assert record.provider_id is not None
    epoch = (await s.bot.deps.store.lease(task.id)).epoch
    sandbox = await s.bot.deps.provider.connect(record.provider_id, lifetime_s=600, epoch=epoch)
    try:
        return await sandbox.read(path, max_bytes=100_000)
    finally:
        await sandbox.pause()
        await sandbox.aclose()


async def receipt(s: Story, task: Task) -> SavedReceipt:
    saved = await s.bot.deps.store.receipt(task.id)
    assert saved is not None
    assert saved.document["verdict"] == "Passed"
    return saved


async def snapshots(s: Story) -> list[SnapshotRecord]:
    """What the store knows; the provider knows the same."""
    known = await s.bot.deps.store.snapshots()
    assert {each.id for each in known} == {info.id for info in await s.bot.deps.provider.snapshots()}
    return known


async def close(s: Story, task: Task) -> None:
    assert task.pull_request is not None
    await s.github.close_pull(s.repository, task.pull_request, author="maintainer")
    await s.settle()


def clones(s: Story) -> int:
    return sum(token.used_by_git for token in s.github.tokens)


async def test_a_second_task_starts_from_the_first_ones_set_up_with_todays_commit() -> None:
    async with bot(files()) as s:
        first = await solve(s)
        [snapshot] = await snapshots(s)
        assert snapshot.commit == first.base_sha
        assert (await receipt(s, first)).document["snapshot"] == {"id": snapshot.id, "commit": first.base_sha}
        assert f"snapshot `{snapshot.id}`" in s.pull_requests[0].body
        mark = await work_file(s, first, ".home/mark")
        same = await solve(s)
        assert await work_file(s, same, ".home/mark") == mark
        assert clones(s) == 3  # set-up's, and one for each verification: the same commit is there already

        await push(s, {"README.md": b"New.\n", "calc.py": None})
        head = await push(s, {"lib/calc.py": FILES["calc.py"], "test_calc.py": TEST})
        before = clones(s)
        task = await solve(s, "lib/calc.py")
        assert task.base_sha == head
        assert await work_file(s, task, ".home/mark") == mark
        assert await work_file(s, task, "repo/README.md") == b"New.\n"
        with pytest.raises(FileNotFoundError):
            await work_file(s, task, "repo/calc.py")
        saved = await receipt(s, task)
        assert saved.document["snapshot"] == {"id": snapshot.id, "commit": first.base_sha}
        assert saved.document["base"] == head
        assert mark.decode().strip() in saved.evidence.checks[0].output
        assert "\ncalc.py\n" not in saved.evidence.checks[0].output, "a file that is gone is gone there as well"
        assert "\nlib\n" in saved.evidence.checks[0].output
        assert clones(s) == before + 2  # a fetch for work and one for verification
        assert [each.id for each in await snapshots(s)] == [snapshot.id]


@pytest.mark.slow
async def test_another_lock_file_makes_another_snapshot_in_the_place_of_the_old() -> None:
    async with bot(files()) as s:
        first = await solve(s)
        [old] = await snapshots(s)
        mark = await work_file(s, first, ".home/mark")
        await push(s, {"package-lock.json": b'{"new": 1}\n'})
        second = await solve(s)
        assert await work_file(s, second, ".home/mark") != mark
        kept, new = sorted(await snapshots(s), key=lambda each: each.created_at)
        assert kept.id == old.id, "somebody's work still lives on it"
        assert (await receipt(s, second)).document["snapshot"]["id"] == new.id
        await close(s, first)
        await push(s, {"package-lock.json": b'{"new": 2}\n'})
        third = await solve(s)
        assert {each.commit for each in await snapshots(s)} == {second.base_sha, third.base_sha}


async def test_a_change_of_the_candidates_own_lock_file_is_verified_from_a_new_clone() -> None:
    async with bot(files()) as s:
        s.script(fix(), say(call("write_file", path="package-lock.json", contents="{ }\n")), submit())
        await s.comment()
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        saved = await receipt(s, task)
        assert saved.document["snapshot"] is None
        assert (await work_file(s, task, ".home/mark")).decode().strip() not in saved.evidence.checks[0].output


async def test_work_that_is_not_based_on_the_default_branch_leaves_no_snapshot() -> None:
    async with bot(files(tail="pull_request: {base: next}\n")) as s:
        await s.github.create_branch(REPOSITORY, "next", s.github.branches(REPOSITORY)["main"])
        await push(s, {"README.md": b"Next.\n"}, branch="next")
        task = await solve(s)
        assert await snapshots(s) == []
        assert (await receipt(s, task)).document["snapshot"] is None
        assert await work_file(s, task, "repo/README.md") == b"Next.\n"


EVIL = b"""\
set -eu
rm -f .git/hooks/*; mkdir -p .git/hooks .git/info .git/objects/info "$HOME/.config/git"
fake=$(sed 's/a - b/5/' calc.py | git hash-object -w --stdin)
git replace -f "$(git rev-parse HEAD:calc.py)" "$fake"
git init -q --bare /workspace/store; echo /workspace/store/objects > .git/objects/info/alternates
git update-index --assume-unchanged calc.py
printf '#!/bin/sh\ntouch /workspace/hook-has-run\n' > .git/hooks/post-index-change
chmod +x .git/hooks/*; cp .git/hooks/post-index-change .git/hooks/post-checkout
printf '* eol=crlf filter=evil\n' | tee .git/info/attributes > "$HOME/.config/git/attributes"
cat > "$HOME/.gitconfig" <<END
[core]
\tfsmonitor = touch /workspace/monitor-has-run; false
[filter "evil"]
\tsmudge = sed s/+/-/
[url "file:///workspace/store"]
\tinsteadOf = http
END
cat "$HOME/.gitconfig" >> .git/config
mkdir /workspace/elsewhere; ln -s /workspace/elsewhere later
"""
CORRUPT = b"""\
blob=$(git rev-parse HEAD:test_calc.py)
at=$(git verify-pack -v .git/objects/pack/*.idx | awk -v blob="$blob" '$1 == blob { print $5 }')
chmod u+w .git/objects/pack/*.pack
printf nonsense | dd of="$(echo .git/objects/pack/*.pack)" bs=1 seek="$((at + 3))" conv=notrunc 2>/dev/null
"""
LOOK = "cat calc.py; find .git -newer $HOME/mark -name config -o -name replace; cat .git/config; ls -l . /workspace"


@pytest.mark.parametrize("corrupt", [b"", pytest.param(CORRUPT, marks=pytest.mark.slow)], ids=["poisoned", "corrupt"])
async def test_what_set_up_does_to_git_is_not_in_what_is_verified(corrupt: bytes) -> None:
    repository = {**files("  - sh evil.sh\n", look=LOOK), "evil.sh": EVIL + corrupt}
    async with bot(repository) as s:
        first = await solve(s)
        [snapshot] = await snapshots(s)
        head = await push(s, {"later/x.txt": b"a + b\n"})
        second = await solve(s)
        assert second.base_sha == head
        # Where an object is broken, git does not take the new commit, and a new snapshot is made.
        start = {"id": snapshot.id, "commit": first.base_sha}
        for task in (first, second):
            saved = await receipt(s, task)
            if task is second and corrupt:
                assert saved.document["snapshot"]["commit"] == head
            else:
                assert saved.document["snapshot"] == start
            pull = next(each for each in s.pull_requests if each.number == task.pull_request)
            assert pull.head_tree == saved.document["tree"]
            seen = saved.evidence.checks[0].output
            assert "def add(a, b):\n    return a + b\n" in seen
            assert "bare = false" in seen
            for trace in ("has-run", "evil", "insteadOf", "replace", "\r"):
                assert trace not in seen.replace("evil.sh", "")
        assert "later -> " not in (await receipt(s, second)).evidence.checks[0].output


@pytest.mark.slow
async def test_a_snapshot_that_takes_no_new_commit_is_made_anew_and_nobody_notices() -> None:
    async with bot(files("  - rm .git/shallow && mkdir .git/shallow\n")) as s:
        await solve(s)
        [old] = await snapshots(s)
        head = await push(s, {"README.md": b"New.\n"})
        task = await solve(s)
        assert await work_file(s, task, "repo/README.md") == b"New.\n"
        [new] = await s.bot.deps.store.snapshots()
        assert (new.commit, new.key) == (head, old.key)
        assert new.id != old.id


async def test_a_snapshot_that_is_gone_is_made_anew_and_nobody_notices() -> None:
    async with bot(files()) as s:
        first = await solve(s)
        [old] = await snapshots(s)
        await close(s, first)
        await s.bot.deps.provider.drop_snapshot(old.id)
        second = await solve(s)
        [new] = await snapshots(s)
        assert new.id != old.id
        assert (await receipt(s, second)).document["snapshot"]["id"] == new.id


@pytest.mark.slow
async def test_a_snapshot_that_is_gone_before_verification_is_done_without() -> None:
    async with bot(files()) as s:
        s.script(fix(), submit())
        await s.comment()
        working = asyncio.create_task(s.settle())
        await s.until("working")
        [snapshot] = await s.bot.deps.store.snapshots()
        await s.bot.deps.store.forget_snapshot(snapshot.id)
        await working
        [task] = await s.bot.deps.store.tasks()
        assert (await receipt(s, task)).document["snapshot"] is None


@pytest.mark.slow
async def test_snapshots_that_take_too_much_room_end_the_least_used_first() -> None:
    big = files('  - head -c 3000000 /dev/urandom > "$HOME/big"\n')
    async with bot(big, CODER_SNAPSHOT_DISK="5000000") as s:
        made = {}
        for name in ("octo/sample", "octo/second", "octo/third"):
            if name != REPOSITORY:
                await s.github.create_repository(name, source=big)
                s.github.grant(name, "maintainer", "write")
            s.repository = name
            task = await solve(s)
            made[name] = (await receipt(s, task)).document["snapshot"]["id"]
            if name == "octo/second":
                assert len(await snapshots(s)) == 2, "both are in use"
                await close(s, task)
        assert {each.id for each in await snapshots(s)} == {made["octo/sample"], made["octo/third"]}


@pytest.mark.parametrize("disk", ["0", pytest.param("1000", marks=pytest.mark.slow)])
async def test_without_room_for_it_no_snapshot_is_kept(disk: str) -> None:
    async with bot(files(), CODER_SNAPSHOT_DISK=disk) as s:
        task = await solve(s)
        assert await snapshots(s) == []
        assert (await receipt(s, task)).document["snapshot"] is None


async def test_a_token_is_never_where_something_of_the_repository_has_run() -> None:
    async with bot(files()) as s:
        watching = asyncio.create_task(watch(s))
        await solve(s)
        await push(s, {"README.md": b"New.\n"})
        await solve(s)
        watching.cancel()
        [seen] = await asyncio.gather(watching)
        assert seen == {"setup", "fetch"}


async def watch(s: Story) -> set[str]:
    """The kinds of sandboxes in which a process had a token, as long as this runs: seen from outside."""
    found: set[str] = set()
    kinds: dict[str, str] = {}
    try:
        while True:
            tokens = [base64.b64encode(f"x-access-token:{token.value}".encode()) for token in s.github.tokens]
            for path in Path("/proc").glob("[0-9]*/environ"):
                try:
                    environment = path.read_bytes()
                    if not any(token in environment for token in tokens):
                        continue
                    mounts = path.with_name("mountinfo").read_text()
                except OSError:
                    continue
                [workspace] = [line for line in mounts.splitlines() if " /workspace " in line]
                [volume] = re.findall(r"coder-[0-9a-f]{16}", workspace)[:1]
                found.add(volume)
                if volume not in kinds:
                    kinds |= {info.id: info.kind for info in await s.bot.deps.provider.list()}
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        return {kinds[volume] for volume in found}
