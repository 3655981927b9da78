"""Reviews, their comments on lines and the threads of these, on the local GitHub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bot.demo.github import LocalGitHub
from bot.demo.reviews import Inline
from tests.adapters.local_github import NAME, client, local_github, receiving

TEXT = b"".join(b"line %d\n" % number for number in range(1, 21))


async def pull(github: LocalGitHub, asks: Any) -> int:
    """A pull request that changes line 10 of a file."""
    await github.commit(NAME, "main", {"src/long.py": TEXT}, author="maintainer")
    await github.commit(NAME, "fix", {"src/long.py": TEXT.replace(b"line 10\n", b"ten\n")}, author="maintainer")
    made = await asks("POST", "/pulls", {"title": "Fix", "head": "fix", "base": "main"}, 201)
    return int(made["number"])


async def test_a_review_is_told_with_each_of_its_comments(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        number = await pull(github, asks)
        async with receiving(github) as receiver:
            inline = [
                Inline(path="src/long.py", line=10, body="Why?"),
                Inline(path="src/long.py", line=12, body="No"),
            ]
            review = await github.review(NAME, number, state="changes_requested", body="Hm.", comments=inline)
            later = await github.review(NAME, number, comments=inline[:1], comments_first=True)
        told = [(headers["x-github-event"], json.loads(body)) for headers, body in receiver.got]
        assert [(event, payload["action"]) for event, payload in told] == [
            ("pull_request_review", "submitted"),
            ("pull_request_review_comment", "created"),
            ("pull_request_review_comment", "created"),
            ("pull_request_review_comment", "created"),
            ("pull_request_review", "submitted"),
        ]
        assert (told[0][1]["review"]["state"], told[0][1]["review"]["body"]) == ("changes_requested", "Hm.")
        assert (told[4][1]["review"]["id"], told[4][1]["review"]["body"]) == (later.id, None)
        assert {payload["comment"]["pull_request_review_id"] for _, payload in told[1:3]} == {review.id}
        assert told[1][1]["pull_request"]["number"] == number
        listed = await asks("GET", f"/pulls/{number}/reviews")
        assert [(item["id"], item["state"], item["body"]) for item in listed] == [
            (review.id, "CHANGES_REQUESTED", "Hm."),
            (later.id, "COMMENTED", ""),
        ]
        assert await asks("GET", f"/pulls/{number}/reviews/{review.id}") == listed[0]
        of_review = await asks("GET", f"/pulls/{number}/reviews/{review.id}/comments")
        # As GitHub has it: this list alone does not say the line.
        assert [(item["path"], item["position"], "line" in item) for item in of_review] == [
            ("src/long.py", 5, False),
            ("src/long.py", 7, False),
        ]
        assert len(await asks("GET", f"/pulls/{number}/comments")) == 3
        assert len(await asks("GET", f"/pulls/{number}/comments", since="2030-01-01T00:00:00Z")) == 0
        one = await asks("GET", f"/pulls/comments/{review.comments[0].id}")
        assert (one["line"], one["user"]["login"]) == (10, "maintainer")
        assert one["diff_hunk"].startswith("@@ -7,7 +7,7 @@")
        assert one["diff_hunk"].split("\n")[-2:] == ["-line 10", "+ten"]
        await asks("GET", f"/pulls/{number}/reviews/1", expect=404)
        await asks("GET", "/pulls/comments/1", expect=404)


async def test_a_reply_is_a_review_of_its_own_and_stays_in_the_thread(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        number = await pull(github, asks)
        review = await github.review(NAME, number, comments=[Inline(path="src/long.py", line=10, body="Why?")])
        first = review.comments[0].id
        path = f"/pulls/{number}/comments/{first}/replies"
        async with receiving(github) as receiver:
            mine = await asks("POST", path, {"body": "Because."}, 201)
            theirs = await github.reply(NAME, mine["id"], "I see.")
        assert (mine["in_reply_to_id"], theirs.in_reply_to) == (first, first)
        told = [(headers["x-github-event"], json.loads(body)["sender"]["login"]) for headers, body in receiver.got]
        assert told == [
            ("pull_request_review", "coder-bot-local[bot]"),
            ("pull_request_review_comment", "coder-bot-local[bot]"),
            ("pull_request_review", "maintainer"),
            ("pull_request_review_comment", "maintainer"),
        ]
        await asks("POST", f"/pulls/{number}/comments/{mine['id']}/replies", {"body": "x"}, 422)
        await asks("POST", path, {"body": " "}, 422)
        for status in (201, 200):
            await asks("POST", f"/pulls/comments/{first}/reactions", {"content": "eyes"}, status)
        assert github.reactions(first) == ["eyes"]
        [thread] = github.threads(NAME, number)
        assert [comment.body for comment in thread.comments] == ["Why?", "Because.", "I see."]
        github.lock(NAME, number)
        await asks("POST", path, {"body": "x"}, 403)


async def test_a_comment_moves_with_its_line_and_is_outdated_once_that_changes(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github, client(github) as asks:
        number = await pull(github, asks)
        inline = [Inline(path="src/long.py", line=line, body="?") for line in (10, 12)]
        review = await github.review(NAME, number, comments=inline)
        changed = b"new first line\n" + TEXT.replace(b"line 10\n", b"zehn\n")
        await github.commit(NAME, "fix", {"src/long.py": changed}, author="maintainer")
        first, second = await asks("GET", f"/pulls/{number}/comments")
        assert (first["line"], first["original_line"], first["position"]) == (None, 10, None)
        assert first["commit_id"] == first["original_commit_id"] == review.sha
        assert (second["line"], second["original_line"]) == (13, 12)
        assert second["commit_id"] != second["original_commit_id"] == review.sha
        assert [thread.outdated for thread in github.threads(NAME, number)] == [True, False]
