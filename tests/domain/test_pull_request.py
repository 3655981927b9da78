"""What the bot's pull request says, and what of it stays."""

from __future__ import annotations

from dataclasses import replace

from bot.domain import pull_request
from bot.domain.comment import LIMIT
from bot.domain.pull_request import Published
from tests.domain.test_comment import RECEIPT, REFUSED
from tests.domain.test_task import started

COMMIT = "c" * 40
FLAG = {"text": "`t.py`: is skipped now", "kind": "skip", "path": "t.py", "line": None, "grave": False}
PUBLISHED = Published(commit=COMMIT, link="Fixes", checks_url="https://h/checks", notes=("A note.",))
DRAFT = {
    **RECEIPT,
    "verdict": "Unverified",
    "draft": True,
    "reasons": ["Nothing ran.", FLAG["text"]],
    "flags": [FLAG],
}


def test_it_links_its_issue_once_and_shows_the_receipt() -> None:
    task, episode = started()
    episode = replace(episode, title="Mend the gap", summary="It closes #4 and greets @bob.")
    body = pull_request.body(task, episode, RECEIPT, PUBLISHED)
    assert body.startswith("Fixes #3\n")
    assert "closes #4" not in body
    assert "@bob" not in body
    assert "exit code" in body
    assert body.endswith("<!-- coder-bot:task=t1 -->")
    assert "See the issue." in pull_request.body(task, started()[1], {**RECEIPT, "checks": []}, PUBLISHED)
    assert pull_request.body(task, episode, RECEIPT, replace(PUBLISHED, link="Refs")).startswith("Refs #3\n")


def test_titles_say_what_is_unverified() -> None:
    task, episode = started()
    named = replace(episode, title="Mend the gap")
    assert pull_request.title(task, named) == "Mend the gap"
    assert pull_request.title(task, episode) == "Fix #3: It breaks"
    assert pull_request.title(task, named, verified=False) == "Unverified: Mend the gap"
    assert pull_request.retitled("Unverified: Other words", verified=True) == "Other words"
    assert pull_request.retitled("Other words", verified=False) == "Unverified: Other words"
    assert pull_request.retitled("Unverified: Other words", verified=False) == "Unverified: Other words"
    assert pull_request.retitled("Other words", verified=True) == "Other words"
    assert len(pull_request.retitled("x" * 256, verified=False)) == pull_request.TITLE_LIMIT
    assert pull_request.commit_message(task, named).startswith("Mend the gap\n\nFor issue #3")


def test_what_is_to_be_minded_stands_on_top() -> None:
    task, episode = started()
    episode = replace(episode, summary="Why it broke.", approved_by="bob")
    receipt = {**RECEIPT, "findings": [REFUSED.to_dict()], "flags": [FLAG]}
    top, _, rest = pull_request.body(task, episode, receipt, PUBLISHED).partition("Why it broke.")
    assert top.startswith("Fixes #3\n\n**Mind these:**\n\n- `a@")
    assert "line 3 adds what looks like a secret" in top
    assert "\n- `t.py`: is skipped now\n" in top
    assert "- A note.\n" in top
    assert "Approved for publishing by bob." in top
    assert "Receipt: Passed" in rest
    bare = pull_request.body(task, episode, RECEIPT, replace(PUBLISHED, notes=()))
    assert "Mind these" not in bare


def test_a_draft_begins_with_its_reasons() -> None:
    task, episode = started()
    body = pull_request.body(task, episode, DRAFT, replace(PUBLISHED, notes=()))
    assert body.startswith("⚠️ **Unverified:**\n\n- Nothing ran.\n- `t.py`: is skipped now\n\nFixes #3\n")
    assert "Mind these" not in body


def test_the_signed_receipt_is_where_it_can_be() -> None:
    task, episode = started()
    shown = pull_request.body(task, episode, RECEIPT, PUBLISHED)
    assert f"for commit `{COMMIT[:12]}` and no other" in shown
    assert "[of that commit](https://h/checks)" in shown
    assert "coder-bot receipt verify" in shown
    hidden = pull_request.body(task, episode, RECEIPT, replace(PUBLISHED, checks_url=None))
    assert "The App may write no checks here" in hidden


def test_a_new_result_replaces_ours_and_leaves_the_rest() -> None:
    task, episode = started()
    published = replace(PUBLISHED, template="# Why\n\n## Checks\n- [ ] tested\n")
    first = pull_request.body(task, replace(episode, summary="One."), DRAFT, published)
    assert first.index("# Why") < first.index("One.") < first.index("## Checks")
    edited = pull_request.earlier(first.replace("- [ ] tested", "- [x] tested"), COMMIT)
    second = pull_request.updated(edited, task, replace(episode, summary="Two."), RECEIPT, published)
    again = pull_request.body(task, replace(episode, summary="Two."), RECEIPT, published)
    assert second == again.replace("- [ ] tested", "- [x] tested")


def test_a_text_in_which_ours_is_not_found_is_replaced() -> None:
    task, episode = started()
    new = pull_request.body(task, episode, RECEIPT, PUBLISHED)
    for current in ("", "Fixes #3", new.replace("<!-- coder-bot:end -->", ""), new + "x" * 65_000):
        assert pull_request.updated(current, task, episode, RECEIPT, PUBLISHED) == new


def test_that_the_receipt_is_for_an_earlier_commit_is_said_once() -> None:
    task, episode = started()
    body = pull_request.body(task, episode, RECEIPT, PUBLISHED)
    once = pull_request.earlier(body, COMMIT)
    assert once.startswith(f"> ⚠️ **The receipt below is for an earlier commit, `{COMMIT[:12]}`.**")
    assert pull_request.earlier(once.replace("\n", "\r\n"), COMMIT) == once
    assert pull_request.no_earlier(once) == body
    assert pull_request.no_earlier(body) == body


def test_a_text_never_gets_longer_than_github_takes() -> None:
    task, episode = started()
    notes = ("x" * 900,) * 30
    huge = Published(commit="c" * 40, link="Fixes", checks_url=None, template="# Why\n" + "@a" * 7_900, notes=notes)
    episode = replace(episode, summary="x" * 30_000)
    text = pull_request.body(task, episode, RECEIPT, huge)
    assert len(text) < LIMIT
    assert "# Why" not in text
    assert "Fixes #3" in text
    full = pull_request.body(task, episode, RECEIPT, replace(huge, template=None))
    padded = full + "x" * (LIMIT - len(full) - 10)
    told = pull_request.earlier(padded, "c" * 40)
    assert "earlier commit" in told
    assert "(The receipt is left out: there is no room for it here.)" in told
    assert len(told) <= LIMIT
    theirs = "x" * (LIMIT - 10)
    assert pull_request.earlier(theirs, "c" * 40) == theirs
