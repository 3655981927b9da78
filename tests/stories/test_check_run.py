"""The check run on what was published, its signed receipt, and commits that somebody adds later."""

from __future__ import annotations

import json

import structlog

from bot.domain import attestation
from bot.domain.task import Stage
from tests.stories.harness import REPOSITORY, Story, call, fix, say, story, submit

NOTICE = "**The receipt below is for an earlier commit, `"


async def test_a_published_commit_has_its_receipt_and_says_so_when_it_is_not_the_newest() -> None:
    async with story() as s:
        # Nobody has accepted yet that the App may write checks: everything else goes on.
        s.github.forbid("checks")
        s.script(fix(), submit())
        await s.comment()
        with structlog.testing.capture_logs() as logs:
            await s.settle()
        [pull] = s.pull_requests
        assert await s.code() == "VERIFIED"
        assert s.github.check_runs(REPOSITORY, pull.head_sha) == []
        assert "The App may write no checks here" in pull.body
        assert any(line["event"] == "no check runs can be written" for line in logs)

        s.github.permit("checks", "write")
        s.script(say(call("write_file", path="NOTES.md", contents="Adds.\n")), submit("Say so", "Notes."))
        await s.comment("/coder fix write a note about it", number=pull.number)
        await s.settle()
        [pull] = s.pull_requests
        await check_is_right(s, pull.head_sha, pull.head_tree)
        assert f"/commit/{pull.head_sha}/checks" in pull.body
        assert NOTICE not in pull.body

        # Done again, it is the same one.
        [task] = await s.bot.deps.store.tasks()
        await s.bot.engine.enqueue(Stage.CLEANUP, task.id)
        await s.settle()
        await check_is_right(s, pull.head_sha, pull.head_tree)

        await s.github.commit(REPOSITORY, pull.head_branch, {"theirs.txt": b"x\n"}, author="maintainer")
        await s.settle()
        [moved] = s.pull_requests
        assert moved.body.startswith(f"> ⚠️ {NOTICE}{pull.head_sha[:12]}`.**")
        assert moved.body.endswith(pull.body)
        told = [each for each in s.github.deliveries if each.action == "synchronize"][-1]
        await s.github.redeliver(told.guid)
        await s.github.commit(REPOSITORY, pull.head_branch, {"theirs.txt": b"y\n"}, author="maintainer")
        await s.settle()
        [again] = s.pull_requests
        assert again.body == moved.body
        assert s.github.check_runs(REPOSITORY, again.head_sha) == []
        await check_is_right(s, pull.head_sha, pull.head_tree)

        # What the bot could not hear of is put right by the next thing that it hears of.
        s.github.issue(REPOSITORY, pull.number).body = pull.body
        await s.comment("/coder status", number=pull.number)
        await s.settle()
        assert s.pull_requests[0].body == moved.body

        # And a new result comes on top of what somebody else has pushed.
        s.script(say(call("write_file", path="NOTES.md", contents="More.\n")), submit())
        await s.comment("/coder fix more", number=pull.number)
        await s.settle()
        assert await s.code() == "VERIFIED"
        [last] = s.pull_requests
        assert s.github.file(REPOSITORY, last.head_sha, "theirs.txt") == b"y\n"
        assert NOTICE not in last.body
        await check_is_right(s, last.head_sha, last.head_tree, episode=3)


async def check_is_right(s: Story, head: str, tree: str, *, episode: int = 2) -> None:
    [run] = s.github.check_runs(REPOSITORY, head)
    [task] = await s.bot.deps.store.tasks()
    assert (run.name, run.status, run.conclusion) == ("coder", "completed", "success")
    assert run.external_id == f"{task.id}/{episode}/{tree}"
    assert run.output["title"].startswith("Passed: ")
    assert "| `tests` | 0 | 1 | 0 |" in run.output["summary"]
    _, _, fenced = run.output["text"].partition("```json\n")
    envelope = json.loads(fenced.removesuffix("\n```"))
    signer = s.bot.deps.signer
    [signature] = envelope["signatures"]
    assert signature["keyid"] == signer.keyid
    opened = attestation.open(
        json.dumps(envelope).encode(), {signer.keyid: lambda given, message: given == signer.make(message)}
    )
    assert (opened.document["commit"], opened.document["tree"]) == (head, tree)
    saved = await s.bot.deps.store.receipt(task.id)
    assert saved is not None
    assert saved.envelope == envelope
