"""What people find on GitHub, and the bot in its database, as lines that two runs can be compared by."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from bot.db.store import Store
from bot.demo.github import LocalGitHub, PullRequest
from bot.demo.state import Reaction

FILES = ("calc.py", "notes.txt", "more.txt")
"""Where the script and the people change something."""

# What differs between two runs of the same by its nature: ids, commits (they have a time), times, how long it took.
_NAMELESS = (
    (re.compile(r"(coder-bot:(?:task|delivery|approval|thread)=)[0-9a-f/-]+"), r"\1ID"),
    (re.compile(r"\b[0-9a-f]{12,40}\b"), "SHA"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:s|ms|min|seconds?|minutes?)\b"), "DURATION"),
    (re.compile(r", took [^<\n]*"), ", took DURATION"),
    (re.compile(r"(#(?:issuecomment|pullrequestreview)-|#discussion_r|/runs/)\d+"), r"\1ID"),
    # The first verification on a base makes a snapshot; those that run beside it can't start from it.
    (re.compile(r", started from snapshot `coder-SHA` of commit `SHA`"), ""),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "ORIGIN"),
)


async def seen(github: LocalGitHub, store: Store, repositories: Sequence[str]) -> list[str]:
    """One line for each task, comment, pull request, check run and branch, sorted."""
    found = [line async for line in _tasks(store)]
    for name in repositories:
        found += _of(github, name)
    return sorted(found)


async def _tasks(store: Store) -> AsyncIterator[str]:
    for task in await store.tasks():
        episodes = [
            f"{episode.kind} by {episode.requester}: {episode.code}" for episode in await store.episodes(task.id)
        ]
        yield f"{task.full_name}#{task.number} task {task.state} ({task.closed_reason}): {', '.join(episodes)}"


def _of(github: LocalGitHub, name: str) -> Iterator[str]:
    pulls = github.pull_requests(name)
    names = {pull.number: _issue_of(pull) for pull in pulls}
    for pull in pulls:
        where = f"{name} pull of {names[pull.number]}"
        yield (
            f"{where}: {pull.state}, {'merged' if pull.merged else 'not merged'}, by {pull.author}, from "
            f"{pull.head_branch} (tree {pull.head_tree}) to {pull.base}, labels {pull.labels}: {pull.title}: "
            f"{_bare(pull.body, names)}"
        )
        for run in github.check_runs(name, pull.head_sha):
            yield f"{where}: check {run.name} {run.status} {run.conclusion}"
        yield from _talk(github, name, pull.number, where, names)
        for thread in github.threads(name, pull.number):
            said = [(one.author, _reactions(one.reactions), _bare(one.body, names)) for one in thread.comments]
            yield f"{where} thread on {thread.path}:{thread.line} (outdated: {thread.outdated}): {said}"
    for number in _issues(github, name):
        where = f"{name}#{number}"
        yield f"{where}: {github.issue(name, number).state}"
        yield from _talk(github, name, number, where, names)
    for branch in github.branches(name):
        yield f"{name} branch {branch}: {[github.file(name, branch, path) for path in FILES]}"


def _issues(github: LocalGitHub, name: str) -> Sequence[int]:
    found: list[int] = []
    number = 1
    while True:
        try:
            issue = github.issue(name, number)
        except KeyError:
            return found
        if issue.pull is None:
            found.append(number)
        number += 1


def _talk(github: LocalGitHub, name: str, number: int, where: str, names: Mapping[int, str]) -> Iterator[str]:
    for comment in github.issue_comments(name, number):
        reactions = _reactions(comment.reactions)
        yield f"{where} comment by {comment.author} {reactions}: {_bare(comment.body, names)}"


def _reactions(given: Sequence[Reaction]) -> list[str]:
    return sorted(f"{reaction.login} {reaction.content}" for reaction in given)


def _issue_of(pull: PullRequest) -> str:
    """By the branch's name, which says it."""
    return f"#{pull.head_branch.removeprefix('coder/issue-')}"


def _bare(text: str, names: Mapping[int, str]) -> str:
    """Without what differs by its nature; a pull request goes by its issue."""

    def named(found: re.Match[str]) -> str:
        number = int(found[2])
        return f"{found[1]}PULL OF {names[number]}" if number in names else found[0]

    text = re.sub(r"(#|/pull/)(\d+)\b", named, text)
    for pattern, instead in _NAMELESS:
        text = pattern.sub(instead, text)
    return text
