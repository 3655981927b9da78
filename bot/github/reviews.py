"""Reviews of pull requests: what people wrote to which lines, and our answers in their threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from bot.domain.event import Person
from bot.github import answers
from bot.github.calls import Calls, person

_PAGE = 100
_LIMIT = 500
"""Inline comments read of one pull request."""

ReviewState = Literal["approved", "changes_requested", "commented", "dismissed", "pending"]


@dataclass(frozen=True, kw_only=True)
class Review:
    """What somebody said of a pull request as a whole; `commit` is the head they looked at."""

    id: int
    state: ReviewState
    body: str
    author: Person
    submitted_at: datetime | None
    commit: str
    by_this_app: bool


@dataclass(frozen=True, kw_only=True)
class InlineComment:
    """A comment on a line of a pull request. `line` is None where the code has changed since: it is outdated. The
    first comment of its thread has no `reply_to`. A time that is missing or none is None."""

    id: int
    review_id: int | None
    reply_to: int | None
    path: str
    line: int | None
    original_line: int | None
    hunk: str
    body: str
    author: Person
    created_at: datetime | None
    updated_at: datetime | None
    by_this_app: bool


class Reviews(Calls):
    """The part of a repository's calls that is about reviews."""

    async def review(self, number: int, review_id: int) -> Review | None:
        """None where there is none any more, such as one that was dismissed with its author's account."""
        about = f"the review {review_id} of {self.full_name}#{number}"
        found = await self._find(answers.Review, about, ("pulls", number, "reviews", review_id))
        if found is None:
            return None
        return Review(
            id=found.id,
            state=found.state,
            body=found.body or "",
            author=person(found.user),
            submitted_at=found.submitted_at,
            commit=found.commit_id or "",
            by_this_app=await self._is_ours(found.user, found.performed_via_github_app),
        )

    async def inline_comments(self, number: int) -> list[InlineComment]:
        """All of a pull request's, the oldest first, at most 500, the newest ones where there are more."""
        about = f"the review comments of {self.full_name}#{number}"
        found: list[answers.InlineComment] = []
        page = 1
        while True:
            asked: dict[str, str | int] = {"per_page": _PAGE, "page": page, "sort": "created", "direction": "desc"}
            part = await self._get(answers.InlineComments, about, ("pulls", number, "comments"), **asked)
            found += part.root
            if len(part.root) < _PAGE or len(found) >= _LIMIT:
                break
            page += 1
        return await self._read(sorted(found, key=lambda each: each.id))

    async def reply(self, number: int, comment_id: int, body: str) -> int:
        """An answer in the thread that begins with that comment."""
        about = f"an answer to the review comment {comment_id} of {self.full_name}#{number}"
        segments = ("pulls", number, "comments", comment_id, "replies")
        return (await self._post(answers.Numbered, about, segments, {"body": body})).id

    async def react_inline(self, comment_id: int, content: Literal["eyes", "rocket", "confused"]) -> None:
        """Doing it twice leaves one reaction."""
        about = f"a reaction to the review comment {comment_id} in {self.full_name}"
        segments = ("pulls", "comments", comment_id, "reactions")
        await self._call("POST", about, segments, json={"content": content})

    async def _read(self, found: Sequence[answers.InlineComment]) -> list[InlineComment]:
        return [
            InlineComment(
                id=each.id,
                review_id=each.pull_request_review_id,
                reply_to=each.in_reply_to_id,
                path=each.path,
                line=each.line,
                original_line=each.original_line,
                hunk=each.diff_hunk,
                body=each.body,
                author=person(each.user),
                created_at=each.created_at,
                updated_at=each.updated_at,
                by_this_app=await self._is_ours(each.user, each.performed_via_github_app),
            )
            for each in found
        ]
