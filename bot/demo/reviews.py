"""Reviews of pull requests, their comments on lines, and the threads that these form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from bot.demo.bare import Bare
from bot.demo.state import Issue, Pull, Repository, Review, ReviewComment, ReviewState
from bot.demo.world import World

CONTEXT = 3
"""Lines around a change that belong to its hunk."""


@dataclass(frozen=True, kw_only=True)
class Inline:
    """One comment of a review that is being written."""

    path: str
    line: int
    body: str


@dataclass(frozen=True, kw_only=True)
class Thread:
    """A conversation on a line; `line` is where it was begun, `outdated` that this line has changed since."""

    path: str
    line: int
    outdated: bool
    comments: tuple[ReviewComment, ...]


def threads(reviews: Sequence[Review], bare: Bare, head: str) -> tuple[Thread, ...]:
    """In the order in which they were begun, as they look on a pull request with that head."""
    comments = [comment for review in reviews for comment in review.comments]
    return tuple(
        Thread(
            path=first.path,
            line=first.line,
            outdated=line_now(first, bare, head) is None,
            comments=(first, *(comment for comment in comments if comment.in_reply_to == first.id)),
        )
        for first in comments
        if first.in_reply_to is None
    )


def line_now(comment: ReviewComment, bare: Bare, head: str) -> int | None:
    """Where in its file the line is that was commented on, or None if it is not there as it was."""
    if comment.sha == head:
        return comment.line
    before, after = lines(bare, comment.sha, comment.path), lines(bare, head, comment.path)
    for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        if block.a < comment.line <= block.a + block.size:
            return comment.line - block.a + block.b
    return None


def lines(bare: Bare, commit: str, path: str) -> list[str]:
    """A file's lines, none where there is no such file."""
    entry = bare.entry(commit, path)
    text = bare.blob(entry.sha).decode("utf-8", "replace") if entry is not None and entry.type == "blob" else ""
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")


def hunk(bare: Bare, base: str, head: str, path: str, line: int) -> tuple[str, int]:
    """The part of a pull request's diff that ends with that line of the new file, and where in the file's diff that
    is. Of a line outside of the diff, which GitHub's pages have no button for: the lines before it."""
    diff = bare.git("diff", f"-U{CONTEXT}", "--no-renames", f"{base}...{head}", "--", path)
    rows = diff.decode("utf-8", "replace").split("\n")
    first = next((number for number, row in enumerate(rows) if row.startswith("@@")), len(rows))
    start, now = first, 0
    for number in range(first, len(rows)):
        if rows[number].startswith("@@"):
            start, now = number, int(rows[number].split("+")[1].split(" ")[0].split(",")[0]) - 1
            continue
        now += not rows[number].startswith(("-", "\\"))
        if now == line and not rows[number].startswith(("-", "\\")):
            return "\n".join(rows[start : number + 1]), number - first
    above = max(line - CONTEXT, 1)
    shown = [f" {text}" for text in lines(bare, head, path)[above - 1 : line]]
    return "\n".join((f"@@ -{above},{len(shown)} +{above},{len(shown)} @@", *shown)), len(shown)


def write(
    world: World,
    repository: Repository,
    issue: Issue,
    pull: Pull,
    *,
    state: ReviewState,
    body: str,
    comments: Sequence[Inline],
    author: str,
) -> Review:
    """A review of the pull request's head."""
    review = _begin(world, issue, pull, state=state, body=body, author=author)
    for inline in comments:
        text, position = hunk(repository.bare, pull.base_sha, pull.head_sha, inline.path, inline.line)
        review.comments.append(
            ReviewComment(
                id=world.next_id(),
                review_id=review.id,
                author=review.author,
                body=inline.body,
                path=inline.path,
                line=inline.line,
                sha=pull.head_sha,
                hunk=text,
                position=position,
                created_at=review.submitted_at,
                updated_at=review.submitted_at,
            )
        )
    return review


def reply_to(world: World, issue: Issue, pull: Pull, first: ReviewComment, *, body: str, author: str) -> Review:
    """One more comment in a thread, which is a review of its own as well."""
    review = _begin(world, issue, pull, state="commented", body="", author=author)
    comment = replace(
        first,
        id=world.next_id(),
        review_id=review.id,
        author=review.author,
        body=body,
        created_at=review.submitted_at,
        updated_at=review.submitted_at,
        in_reply_to=first.id,
        reactions=[],
    )
    review.comments.append(comment)
    return review


def _begin(world: World, issue: Issue, pull: Pull, *, state: ReviewState, body: str, author: str) -> Review:
    now = world.clock()
    review = Review(
        id=world.next_id(),
        author=world.account(author).login,
        state=state,
        body=body,
        sha=pull.head_sha,
        submitted_at=now,
    )
    pull.reviews.append(review)
    issue.updated_at = now
    return review
