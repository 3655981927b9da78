"""What the bot's pull request says: title, text and commit. The text is ours in two places, between marks, so that
what people write around them stays when there is a new result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.domain import comment, pull_template, receipt_text
from bot.domain.episode import Episode
from bot.domain.markdown import defuse, one_line, truncate
from bot.domain.task import Task

UNVERIFIED = "Unverified: "
"""How the title of a draft begins whose receipt is none that says `Passed`."""
TITLE_LIMIT = 250

_TOP = "<!-- coder-bot:top -->"
"""All before it is ours."""
_BEGIN, _END = "<!-- coder-bot:result -->", "<!-- coder-bot:end -->"
"""All between them is ours."""
_TOP_LIMIT, _RESULT_LIMIT = 20_000, 25_000
_EARLIER_MARK = "<!-- coder-bot:earlier -->"
_EARLIER = re.compile(rf"> [^\n]*\n{re.escape(_EARLIER_MARK)}\s*")


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the text says beside the task, the episode and the receipt. `link`: merging it closes the issue only where
    it goes into the default branch. `checks_url` is where the signed receipt is shown, None where the App may not
    show it. `notes` are sentences of ours."""

    commit: str
    link: Literal["Fixes", "Refs"]
    checks_url: str | None
    notes: tuple[str, ...] = ()
    template: str | None = None


def title(task: Task, episode: Episode, *, verified: bool = True) -> str:
    """What a new pull request is called."""
    said = one_line(episode.title, 120) or f"Fix #{task.number}: {one_line(task.title, 100)}"
    return said if verified else f"{UNVERIFIED}{said}"


def retitled(current: str, *, verified: bool) -> str:
    """The title it has, with or without saying that it is unverified."""
    bare = current.removeprefix(UNVERIFIED)
    return bare if verified else f"{UNVERIFIED}{bare}"[:TITLE_LIMIT]


def commit_message(task: Task, episode: Episode) -> str:
    return f"{title(task, episode)}\n\nFor issue #{task.number}, asked for by {episode.requester}."


def body(task: Task, episode: Episode, receipt: Mapping[str, Any], published: Published) -> str:
    """The text of a new pull request: the issue, linked once; what to mind; why; the receipt; in it, with all its
    headings, the repository's own template."""
    template = pull_template.split(published.template or "")
    top, result = _top(task, episode, receipt, published), _result(episode, receipt, published)
    ours = f"{_BEGIN}\n\n{result}\n\n{_END}"

    def text(before: str, after: str) -> str:
        return "\n\n".join(filter(None, (top, _TOP, before, ours, after, comment.task_marker(task.id))))

    whole = text(*template)
    return whole if len(whole) <= comment.LIMIT else text("", "")  # it would leave no room


def updated(current: str, task: Task, episode: Episode, receipt: Mapping[str, Any], published: Published) -> str:
    """The text it has, with what is ours of it told anew; a text in which ours can't be found is replaced."""
    _, top, rest = current.partition(_TOP)
    before, begin, inside = rest.partition(_BEGIN)
    _, end, after = inside.partition(_END)
    new = f"{_top(task, episode, receipt, published)}\n\n{top}{before}{begin}\n\n"
    new += f"{_result(episode, receipt, published)}\n\n{end}{after}"
    return new if top and begin and end and len(new) <= comment.LIMIT else body(task, episode, receipt, published)


def earlier(current: str, commit: str) -> str:
    """The text, saying on top that its receipt is for that commit and not for what the branch has now; said once,
    where there is room for it."""
    notice = (
        f"> ⚠️ **The receipt below is for an earlier commit, `{commit[:12]}`.** "
        "What somebody else has pushed since then was not verified."
    )
    text = f"{notice}\n{_EARLIER_MARK}\n\n{no_earlier(current)}"
    if len(text) <= comment.LIMIT:
        return text
    before, begin, inside = text.partition(_BEGIN)
    _, end, after = inside.partition(_END)
    if not (begin and end):
        return no_earlier(current)  # there is nothing of ours to make room with
    return f"{before}{begin}\n\n(The receipt is left out: there is no room for it here.)\n\n{end}{after}"


def no_earlier(current: str) -> str:
    """The text without that."""
    return _EARLIER.sub("", current.replace("\r\n", "\n"))


def _top(task: Task, episode: Episode, receipt: Mapping[str, Any], published: Published) -> str:
    is_draft = receipt.get("draft", False)
    flags = () if is_draft else receipt.get("flags", ())  # a draft's reasons have them
    notes = [{"text": note} for note in published.notes]
    parts = [
        f"⚠️ **Unverified:**\n\n{receipt_text.reasons(receipt)}" if is_draft else "",
        f"{published.link} #{task.number}",
        comment.mind((*receipt.get("findings", ()), *flags, *notes)),
        f"Approved for publishing by {episode.approved_by}." if episode.approved_by else "",
    ]
    return truncate("\n\n".join(filter(None, parts)), _TOP_LIMIT, "the rest was cut")


def _result(episode: Episode, receipt: Mapping[str, Any], published: Published) -> str:
    summary = defuse(episode.summary) or "See the issue."
    parts = [summary, receipt_text.table(receipt), _signed(published)]
    return truncate("\n\n".join(parts), _RESULT_LIMIT, "the rest was cut")


def _signed(published: Published) -> str:
    where = f"It is for commit `{published.commit[:12]}` and no other."
    if published.checks_url is None:
        return f"<sub>{where} The App may write no checks here, so its signed form stays with the bot.</sub>"
    return (
        f"<sub>{where} Its signed form is in the check `coder` [of that commit]({published.checks_url}). Saved as a "
        "file, `coder-bot receipt verify FILE --repo PATH` says whether this bot has signed it for this tree.</sub>"
    )
