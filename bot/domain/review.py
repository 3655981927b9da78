"""What a review asks for: threads that an episode works on, and the one answer that each of them gets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.domain.command import Command, Fix, Usage, parse, shown
from bot.domain.episode import Code, Thread
from bot.domain.markdown import defuse, truncate

TEXT_LIMIT = 4_000
"""Characters of one inline comment that are kept."""
HUNK_LIMIT = 2_000
"""Of the lines it was written to, the last ones: the comment stands under them."""
THREADS = 30
"""Inline comments of one review that an episode works on, the first ones."""
ANSWER_LIMIT = 4_000

_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, kw_only=True)
class Inline:
    """An inline comment as GitHub has it; `root_id` is the comment that its thread begins with."""

    id: int
    root_id: int
    path: str
    line: int | None
    hunk: str
    text: str
    author: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What somebody wants of the bot by a review. `explicit`: they named it, so they wait for an answer."""

    command: Command | Usage
    threads: tuple[Thread, ...] = ()
    explicit: bool = True


def asked(body: str, *, wants_changes: bool, inline: Sequence[Inline], login: str) -> Asked | None:
    """What a review asks of the bot, None where it is talk among people. A command in the review's own text counts
    first. A review that requests changes asks for all of them; any other for what names the bot, by a command or by
    a mention of its account."""
    command = parse(body)
    if command is not None and not isinstance(command, Fix):
        return Asked(command=command)
    named = [each for each in inline if isinstance(parse(each.text), Fix | Usage) or mentions(each.text, login)]
    others = [parse(each.text) for each in inline]
    if command is None and not wants_changes and not named:
        other = next((each for each in others if each is not None), None)
        return None if other is None else Asked(command=other)
    kept = inline if command is not None or wants_changes else named
    text = command.text if command is not None else body.strip() if wants_changes else ""
    if wants_changes and command is None and not text and not kept:
        return None  # there is nothing in it to go by
    explicit = command is not None or bool(named) or mentions(body, login)
    return Asked(command=Fix(text=text), threads=tuple(map(thread, kept[:THREADS])), explicit=explicit)


def thread(comment: Inline) -> Thread:
    command = parse(comment.text)
    said = command.text if isinstance(command, Fix) and command.text else comment.text
    return Thread(
        comment_id=comment.id,
        root_id=comment.root_id,
        path=comment.path,
        line=comment.line,
        hunk=comment.hunk[-HUNK_LIMIT:],
        text=said[:TEXT_LIMIT],
        author=comment.author,
    )


def mentions(text: str, login: str) -> bool:
    """Whether a text speaks to the bot by its account, with or without the `[bot]` that GitHub puts to its name."""
    name = re.escape(login.removesuffix("[bot]"))
    spoken = re.compile(rf"(?<![\w@/`.-])@{name}(?:\[bot\])?(?![\w/-])", re.IGNORECASE)
    return any(spoken.search(_CODE.sub("", line)) for line in shown(text))


def thread_marker(episode_id: str, comment_id: int) -> str:
    """What our answer in a thread is found by."""
    return f"<!-- coder-bot:thread={episode_id}/{comment_id} -->"


def answers(
    episode_id: str,
    threads: Sequence[Thread],
    replies: Mapping[str, str],
    *,
    code: Code,
    commit: str | None,
    changed: frozenset[str],
) -> list[tuple[Thread, str]]:
    """One answer for each thread of an episode that has ended: the commit that addresses it, or why none does.
    `replies` are the model's own words, by the thread's place from 1; `commit` is what was published, if anything
    was, and `changed` are the paths that it changes."""
    found = []
    for place, each in enumerate(threads, 1):
        said = replies.get(str(place), "").strip()
        if commit is not None and each.path in changed:
            head = f"Addressed in {commit}."
        elif commit is not None:
            head = f"{commit} leaves `{each.path.replace('`', '')}` as it is."
            said = said or "The status comment says what it does instead."
        elif code in (Code.NO_CHANGE, Code.ANSWERED, Code.VERIFIED):
            head = "Nothing was changed for this."
            said = said or "The status comment says why."
        else:
            head = f"Not addressed: this round ended with {code}, and nothing new was published."
            said = ""
        body = "\n\n".join(filter(None, (head, truncate(defuse(said), ANSWER_LIMIT, "the rest was cut"))))
        found.append((each, f"{body}\n\n{thread_marker(episode_id, each.comment_id)}"))
    return found
