"""Reviewers talk to the same task on its pull request: one review, one episode, one answer in each thread."""

from __future__ import annotations

from bot.demo.reviews import Inline
from tests.stories.harness import REPOSITORY, Story, fix, say, call, story, submit, with_config

CONFIG = "checks:\n  - {name: tests, run: python3 -m pytest -q, timeout: 1m}\n"


async def published(s: Story) -> int:
    s.script(fix(), submit())
    await s.comment()
    await s.settle()
    [pull] = s.pull_requests
    return int(pull.number)


def answered(text: str, **replies: str) -> dict[str, object]:
    return say(call("submit", title="Say it in words", summary=text, replies=replies))


def documented() -> dict[str, object]:
    return fix("def add(a, b):\n", 'def add(a, b):\n    """The sum."""\n')


async def test_a_review_is_one_episode_whatever_comes_first_and_each_thread_is_answered_once() -> None:
    async with story(with_config(CONFIG)) as s:
        number = await published(s)
        before = s.pull_requests[0]
        s.script(
            documented(),
            answered("Documented.", **{"1": "It has a docstring now.", "2": "The test is right as it is, @bob."}),
        )
        review = await s.github.review(
            REPOSITORY,
            number,
            state="changes_requested",
            body="Please document it.",
            comments=[
                Inline(path="calc.py", line=1, body="What does it do?"),
                Inline(path="test_calc.py", line=4, body="Is this right?"),
            ],
            author="maintainer",
            comments_first=True,
        )
        await s.settle()
        [pull] = s.pull_requests
        [task] = await s.bot.deps.store.tasks()
        first, second = await s.bot.deps.store.episodes(task.id)
        assert (second.review_id, [each.path for each in second.threads]) == (review.id, ["calc.py", "test_calc.py"])
        assert pull.head_sha != before.head_sha
        threads = s.github.threads(REPOSITORY, number)
        ours = {thread.path: [each.body for each in thread.comments[1:]] for thread in threads}
        assert [len(bodies) for bodies in ours.values()] == [1, 1]
        assert ours["calc.py"][0].startswith(f"Addressed in {pull.head_sha}.\n\nIt has a docstring now.")
        assert ours["test_calc.py"][0].startswith(f"{pull.head_sha} leaves `test_calc.py` as it is.")
        assert "@\u200bbob" in ours["test_calc.py"][0]
        briefing = await s.bot.deps.store.briefing(second.id)
        print(briefing)
        print(s.comments[-1])
