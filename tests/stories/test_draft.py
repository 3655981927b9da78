"""Results that are not verified, where the rules let them be published: as drafts that say so."""

from __future__ import annotations

import pytest

from bot.domain.task import State
from bot.pipeline.publish import PublishRefused
from tests.stories.harness import REPOSITORY, call, fix, say, story, submit
from tests.stories.publishing import NAME, Files, bench, change

BASE: Files = {"a.py": ("f", b"a = 1\n")}
EDIT = change(BASE, {"a.py": ("f", b"a = 2\n")})
MORE = change(BASE, {"a.py": ("f", b"a = 3\n")})
RULES = b"checks: [{name: tests, run: python3 -m pytest -q}]\nverification: {unverified: draft}\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"


async def test_an_unverified_draft_becomes_a_verified_pull_request_by_a_later_result() -> None:
    async with story({"calc.py": b"def add(a, b):\n    return a - b\n", ".github/coder.yml": RULES}) as s:
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        [draft] = s.pull_requests
        assert draft.draft
        assert draft.title == "Unverified: Add instead of subtracting"
        assert draft.body.startswith("⚠️ **Unverified:**\n\n- `tests` ran no test")
        [run] = s.github.check_runs(REPOSITORY, draft.head_sha)
        assert (run.name, run.status, run.conclusion) == ("coder", "completed", "failure")
        assert run.output["title"].startswith("Unverified: `tests` ran no test")
        assert await s.code() == "UNVERIFIED"
        assert s.comments[0].startswith(f"📝 Unverified: #{draft.number} is a draft that says why.")
        saved = await s.bot.deps.store.receipt((await s.bot.deps.store.tasks())[0].id)
        assert saved is not None
        assert (saved.document["draft"], saved.document["tree"]) == (True, draft.head_tree)

        s.script(say(call("write_file", path="test_calc.py", contents=TEST)), submit("Test it", "With a test."))
        await s.comment("/coder fix add a test", number=draft.number)
        await s.settle()
        [verified] = s.pull_requests
        assert (verified.number, verified.title) == (draft.number, "Add instead of subtracting")
        assert "Unverified" not in verified.body
        assert (
            "- This is verified now, and can be marked as ready for review. I can't do that myself." in verified.body
        )
        [passed] = s.github.check_runs(REPOSITORY, verified.head_sha)
        assert passed.conclusion == "success"
        [kept] = s.github.check_runs(REPOSITORY, draft.head_sha)
        assert kept.conclusion == "failure"
        assert await s.code() == "VERIFIED"
        assert (await s.bot.deps.store.tasks())[0].state is State.IN_REVIEW


async def test_what_is_a_draft_only_people_change_and_the_text_says_so() -> None:
    async with bench(BASE) as b:
        await b.publish(EDIT, draft=True)
        [first] = b.github.pull_requests(NAME)
        assert (first.draft, first.title) == (True, "Unverified: Mend it")
        await b.publish(MORE)
        [second] = b.github.pull_requests(NAME)
        assert (second.draft, second.title) == (True, "Mend it")
        assert "can be marked as ready for review" in second.body
    async with bench(BASE) as b:
        await b.publish(EDIT)
        [first] = b.github.pull_requests(NAME)
        assert (first.draft, first.title) == (False, "Mend it")
        b.github.issue(NAME, first.number).title = "Words of somebody"
        await b.publish(MORE, draft=True)
        [second] = b.github.pull_requests(NAME)
        assert (second.draft, second.title) == (False, "Unverified: Words of somebody")
        assert "should be a draft. I can't make it one myself" in second.body
    async with bench(BASE, rules="pull_request: {draft: true}\n") as b:
        await b.publish(EDIT)
        await b.publish(MORE)
        [asked] = b.github.pull_requests(NAME)
        assert (asked.draft, asked.title) == (True, "Mend it")
        assert "ready for review" not in asked.body


async def test_where_github_has_no_drafts_nothing_is_opened_in_their_place() -> None:
    async with bench(BASE) as b:
        b.github.trouble("pulls/create", 422, "Draft pull requests are not supported in this repository.")
        with pytest.raises(PublishRefused, match=r"opened no draft.*unverified: comment"):
            await b.publish(EDIT, draft=True)
        assert not b.github.pull_requests(NAME)
