"""The base moves on while a verified change waits: that matters only if the two don't merge any more."""

from __future__ import annotations

from bot.domain.task import State
from tests.stories.harness import BROKEN, FIXED, REPOSITORY, Story, fix, story, submit, with_config
from tests.stories.test_warm_start import push

HELD = with_config(
    "checks:\n  - {name: tests, run: python3 -m pytest -q, timeout: 1m}\npull_request: {publish: after_approval}\n"
)
NOTED = f"{BROKEN}  # is this right?"


async def shown(s: Story) -> None:
    s.script(fix(), submit(), fix(NOTED, f"{FIXED}  # is this right?"), submit())
    await s.comment()
    await s.settle()
    assert (await s.bot.deps.store.tasks())[0].state is State.AWAITING_APPROVAL


async def test_a_change_that_no_longer_merges_is_made_again_on_the_tip_and_verified_and_shown_again() -> None:
    async with story(HELD) as s:
        await shown(s)
        tip = await push(s, {"calc.py": f"def add(a, b):\n    {NOTED}\n".encode()})
        await s.comment("/coder approve")
        await s.settle()
        assert s.branches == ["main"], "what was approved is not what would be published now"
        [task] = await s.bot.deps.store.tasks()
        assert (task.state, task.base_sha) == (State.AWAITING_APPROVAL, tip)
        steps = await s.bot.deps.store.steps(task.id)
        assert "no longer merges with the base branch: both changed `calc.py`" in (steps[2].note or "")
        await s.comment("/coder approve")
        await s.settle()
        [pull] = s.pull_requests
        saved = await s.bot.deps.store.receipt(task.id)
        assert saved is not None
        assert (saved.document["base"], saved.document["tree"]) == (tip, pull.head_tree)
        content = s.github.file(REPOSITORY, pull.head_sha, "calc.py")
        assert content == f"def add(a, b):\n    {FIXED}  # is this right?\n".encode()


async def test_a_base_that_moved_elsewhere_does_not_matter() -> None:
    async with story(HELD) as s:
        await shown(s)
        base = s.github.branches(REPOSITORY)["main"]
        await push(s, {"README.md": b"Adds.\n"})
        await s.comment("/coder approve")
        await s.settle()
        [pull] = s.pull_requests
        saved = await s.bot.deps.store.receipt((await s.bot.deps.store.tasks())[0].id)
        assert saved is not None
        assert (saved.document["base"], saved.document["tree"]) == (base, pull.head_tree)
