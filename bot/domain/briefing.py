"""What a model is told about its work: who says what, with which right, and between marks that no text can forge."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from bot.domain.episode import Thread
from bot.domain.hidden import see
from bot.domain.invisible import clean

ISSUE_LIMIT = 64 * 1024
"""Bytes of the issue's text, and of all comments together."""
COMMENT_LIMIT = 16 * 1024
"""Bytes of one comment."""
COMMENTS = 20
"""Comments of a conversation, the newest ones."""
INSTRUCTION_LIMIT = 4_000
"""Characters of the instruction itself."""
GUIDANCE_LIMIT = 32 * 1024
"""Bytes of all guidance, and half of it for one file."""
GUIDANCE_FILES = 10
FILES_SHOWN = 200
"""Names of the top folder."""
TITLE_LIMIT = 512

GUIDANCE_NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md")
"""Files in which a repository guides agents; each holds for the folder it is in, the last one for all."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]-]")


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """Who wrote something; `permission` is what GitHub lets that account do in the repository."""

    login: str
    permission: Literal["admin", "write", "read", "none"]
    is_bot: bool = False

    @property
    def is_member(self) -> bool:
        """Whether that is a person who may write here."""
        return not self.is_bot and self.permission in ("admin", "write")


@dataclass(frozen=True, kw_only=True)
class Said:
    """A comment as it stood when the command was given; `where` names the conversation it is from."""

    speaker: Speaker
    text: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """A text by which the repository guides agents, and where it stands."""

    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The issue and what was said about it, oldest first. `changed` comments were made or changed after the command,
    `older` ones did not fit in."""

    author: Speaker
    title: str
    body: str
    comments: Sequence[Said]
    changed: int = 0
    older: int = 0


def existed(created_at: datetime | None, updated_at: datetime | None, at: datetime) -> bool:
    """Whether something was there at a moment, just as it is now. GitHub counts in whole seconds: what happened in
    that very second may have come later, and what has no time at all may have come any time."""
    return created_at is not None and updated_at is not None and created_at <= updated_at < at


def mark(episode_id: str) -> str:
    """What begins and ends the blocks of an episode's briefing: nobody could know it when they wrote, and it is the
    same whenever that briefing is made again."""
    return hashlib.sha256(f"briefing {episode_id}".encode()).hexdigest()[:16]


def conversation(talk: Conversation, sign: str) -> str:
    """The issue and its comments as blocks, and what was left out."""
    title = " ".join(clean(talk.title).split())[:TITLE_LIMIT]
    blocks = [_said(talk.author, "issue", talk.body, sign, limit=ISSUE_LIMIT, head=f"Title: {title}\n\n")]
    room = ISSUE_LIMIT
    comments: list[str] = []
    for said in reversed(talk.comments):
        if room <= 0:
            break
        limit = min(COMMENT_LIMIT, room)
        room -= min(limit, len(_bytes(said.text)))
        comments.append(_said(said.speaker, said.where, said.text, sign, limit=limit))
    blocks += reversed(comments)
    older = talk.older + len(talk.comments) - len(comments)
    if older:
        blocks.append(f"({older} older {'comment is' if older == 1 else 'comments are'} not shown.)")
    if talk.changed:
        left_out = "1 comment is" if talk.changed == 1 else f"{talk.changed} comments are"
        blocks.append(f"({left_out} left out: made or changed after the command was given.)")
    return "\n\n".join(blocks)


def instruction(text: str, sign: str) -> str:
    """The words of the person who commands; empty where there are none."""
    if not text.strip():
        return ""
    cut = len(text) - INSTRUCTION_LIMIT
    return "In their words:\n\n" + _block(
        "instruction", {}, text[:INSTRUCTION_LIMIT], sign, max(cut, 0), "characters"
    )


def threads(asked: Sequence[Thread], sign: str) -> str:
    """What a review asks at lines of the change, numbered as they are to be answered; empty where none are."""
    blocks = []
    for number, one in enumerate(asked, 1):
        where = f"{one.path}, line {one.line}" if one.line else f"{one.path}; outdated: its lines have changed since"
        facts = {"number": str(number), "author": f"@{_UNSAFE.sub('?', one.author)[:100]}", "at": where}
        head = f"The lines above it:\n{see(one.hunk).text}\n\nWhat it says:\n" if one.hunk else ""
        blocks.append(_block("thread", facts, one.text, sign, 0, head=head))
    if not blocks:
        return ""
    return "\n\n".join((*blocks, "Answer each thread by its number in `replies` when you call `submit`."))


def failures(text: str, sign: str) -> str:
    """What failing checks say: data, whoever wrote it, and no Markdown."""
    said, cut = _cut(text, COMMENT_LIMIT)
    facts = {"in": "failing checks", "bot": "yes", **({"cut": f"the last {cut:,} bytes"} if cut else {})}
    return _framed("outsider", facts, clean(said), sign)


def guidance(found: Iterable[Guidance], sign: str) -> str:
    """The repository's own guidance as blocks, in the given order, as far as there is room."""
    blocks: list[str] = []
    room, left_out = GUIDANCE_LIMIT, 0
    for one in found:
        if room <= 0:
            left_out += 1
            continue
        text, cut = _cut(one.text, min(GUIDANCE_LIMIT // 2, room))
        room -= len(_bytes(text))
        blocks.append(_block("guidance", {"path": one.path}, text, sign, cut))
    if left_out:
        blocks.append(f"({left_out} more files with guidance are not shown.)")
    return "\n\n".join(blocks)


def nearest_first(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths of guidance that are to be read, the deepest folder first; where there are too many, the deepest are
    left out, for what is higher holds for more."""

    def depth(path: str) -> int:
        return 0 if path in GUIDANCE_NAMES else path.count("/")

    def order(path: str) -> int:
        return next(at for at, name in enumerate(GUIDANCE_NAMES) if path.endswith(name))

    wide = sorted(filter(is_guidance, paths), key=lambda path: (depth(path), order(path), path))[:GUIDANCE_FILES]
    return tuple(sorted(wide, key=lambda path: (-depth(path), order(path), path)))


def is_guidance(path: str) -> bool:
    """Whether a file of that path guides agents."""
    return path == GUIDANCE_NAMES[-1] or path.rpartition("/")[2] in GUIDANCE_NAMES[:-1]


def files(names: Iterable[str], sign: str) -> str:
    """The names in the top folder, a line each."""
    listed = [" ".join(clean(name).split())[:TITLE_LIMIT] for name in names]
    more = len(listed) - FILES_SHOWN
    shown = listed[:FILES_SHOWN] + ([f"(and {more} more)"] if more > 0 else [])
    return _framed("files", {}, "\n".join(shown), sign)


def _said(speaker: Speaker, where: str, text: str, sign: str, *, limit: int, head: str = "") -> str:
    text, cut = _cut(text, limit)
    kind = "member" if speaker.is_member else "outsider"
    facts = {"author": f"@{_UNSAFE.sub('?', speaker.login)[:100]}", "permission": speaker.permission}
    if speaker.is_bot:
        facts["bot"] = "yes"
    return _block(kind, {**facts, "in": where}, text, sign, cut, head=head)


def _block(
    kind: str, facts: dict[str, str], text: str, sign: str, cut: int, unit: str = "bytes", *, head: str = ""
) -> str:
    """The text as its readers see it; what was hidden or cut is said where only we can write."""
    seen = see(text)
    if seen.hidden:
        facts["hidden-text-removed"] = ", ".join(seen.hidden)
    if cut:
        facts["cut"] = f"the last {cut:,} {unit}"
    return _framed(kind, facts, f"{head}{seen.text or '(no text)'}", sign)


def _framed(kind: str, facts: dict[str, str], text: str, sign: str) -> str:
    quoted = {name: " ".join(clean(value).split()).replace('"', "'") for name, value in facts.items()}
    said = "".join(f' {name}="{value}"' for name, value in quoted.items())
    # Nobody can know the sign beforehand; whoever has it from a leak can't use it all the same.
    said, text = (part.replace(sign, "[mark]") for part in (said, text))
    return f"<{kind}-{sign}{said}>\n{text}\n</{kind}-{sign}>"


def _cut(text: str, limit: int) -> tuple[str, int]:
    data = _bytes(text)
    return data[:limit].decode("utf-8", "ignore"), max(0, len(data) - limit)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
