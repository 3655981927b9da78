"""What people read, for each state and end of a task."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from bot.domain import comment
from bot.domain.budget import Spend
from bot.domain.comment import Diff, Unpublished
from bot.domain.episode import Code
from bot.domain.gate import Finding
from bot.domain.task import State
from tests.domain.test_task import in_state, started

RECEIPT = {
    # As the first version had it.
    "verdict": "Passed",
    "reasons": ["3 tests passed in `tests`."],
    "tree": "t" * 40,
    "base": "b" * 40,
    "checks": [
        {"name": "tests", "exit_code": 0, "timed_out": False, "passed": 3, "failed": 0, "skipped": None},
        {"name": "slow", "exit_code": 124, "timed_out": True, "passed": None, "failed": None, "skipped": None},
    ],
}
SPENT = Spend(steps=3, tool_calls=5, tokens=12345, cost=Decimal("0.256"))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State.QUEUED, "Getting a sandbox ready"),
        (State.PROVISIONING, "Getting a sandbox ready"),
        (State.WORKING, "Working on it"),
        (State.VERIFYING, "Verifying the change in a fresh sandbox"),
        (State.AWAITING_APPROVAL, "/coder approve"),
        (State.WAITING, "Waiting"),
    ],
)
def test_the_live_comment_says_where_the_task_stands(state: State, words: str) -> None:
    text = comment.status(in_state(state), started()[1], SPENT, None)
    assert words in text
    assert text.endswith(comment.task_marker("t1"))
    assert "3 steps, 5 tool calls, 12,345 tokens, $0.26 · asked for by alice" in text


@pytest.mark.parametrize("state", [State.QUEUED, State.WORKING, State.VERIFYING])
def test_a_task_without_a_free_sandbox_says_that_it_waits(state: State) -> None:
    waiting = replace(in_state(state), needs_slot=True)
    assert "Waiting for a free sandbox" in comment.status(waiting, started()[1], SPENT, None)


def test_a_task_that_was_stopped_waits_for_no_sandbox() -> None:
    stopped = replace(in_state(State.WAITING), needs_slot=True)
    assert "free sandbox" not in comment.status(stopped, started()[1], SPENT, None)


def test_the_checklist_ticks_what_is_behind() -> None:
    text = comment.status(in_state(State.VERIFYING), started()[1], SPENT, None)
    assert text.count("- [x]") == 2
    assert text.count("- [ ]") == 2


def test_what_happened_on_the_way_is_told() -> None:
    text = comment.status(in_state(State.WORKING), started()[1], SPENT, None, ["Blocked hosts: `x.example:443`."])
    assert "\n\nBlocked hosts: `x.example:443`.\n\n<sub>" in text


def test_a_second_attempt_is_counted() -> None:
    text = comment.status(in_state(State.WORKING), replace(started()[1], attempts=1), SPENT, RECEIPT)
    assert "attempt 2" in text
    assert "| `slow` | time-out | – | – | – |" in text


def test_a_published_task_names_its_pull_request() -> None:
    task = replace(in_state(State.IN_REVIEW), pull_request=9)
    text = comment.status(task, replace(started()[1], code=Code.VERIFIED, attempts=1), SPENT, RECEIPT)
    assert "Done: #9" in text
    assert "Receipt: Passed" in text
    assert "- [x] pull request" in text


@pytest.mark.parametrize("code", sorted(set(Code) - {Code.VERIFIED, Code.ISSUE_CLOSED, Code.UNINSTALLED}))
def test_every_end_says_why_and_what_to_do_next(code: Code) -> None:
    episode = replace(started()[1], code=code, detail="It broke.\nline one\nline two", summary="What I saw.")
    text = comment.status(in_state(State.WAITING), episode, SPENT, None)
    assert "- [ ] working" not in text
    assert "/coder" in text
    _, _, steps = text.partition("What you can do next:\n")
    assert [line[:2] for line in steps.splitlines() if line.startswith("-")] == ["- ", "- "]
    if code is Code.ANSWERED:
        assert "What I saw." in text
    else:
        assert "It broke." in text
        assert "line two" in text


def test_an_end_that_the_receipt_explains_is_not_explained_twice() -> None:
    receipt = {**RECEIPT, "verdict": "Failed", "reasons": ["`tests` failed.", "`slow` is slow."]}
    failed = replace(started()[1], code=Code.CHECKS_FAILED, attempts=2, detail="`tests` failed. `slow` is slow.")
    text = comment.status(in_state(State.WAITING), failed, SPENT, receipt)
    assert text.startswith("😕 No pull request (CHECKS_FAILED). The receipt says why.\n")
    assert text.count("`slow` is slow.") == 1
    other = comment.status(in_state(State.WAITING), replace(failed, detail="Another."), SPENT, receipt)
    assert other.startswith("😕 No pull request (CHECKS_FAILED). Another.\n")


def test_what_was_not_published_is_shown_with_what_failed() -> None:
    failed = replace(started()[1], code=Code.CHECKS_FAILED, detail="No.")
    diff = Diff(text="-a\n+```\n+</details>", files=2, left_out="1 of 2 files are whole")
    left = Unpublished(outputs={"a<b, exit code 1": "E  assert 1 == 2"}, diff=diff)
    text = comment.status(in_state(State.WAITING), failed, SPENT, None, (), left)
    assert "<summary>The end of the output: a&lt;b, exit code 1</summary>\n\n```\nE  assert 1 == 2\n```" in text
    assert "<summary>The change: 2 files</summary>\n\n````diff\n-a\n+```\n+</details>\n````\n\n</details>" in text
    assert "Too long to be shown whole here: 1 of 2 files are whole. All of it is kept for `/coder retry`." in text
    assert "$0.26" in text
    whole = Unpublished(outputs={}, diff=replace(diff, left_out=""))
    assert "Too long" not in comment.status(in_state(State.WAITING), failed, SPENT, None, (), whole)
    kept = Unpublished(outputs={}, diff=None, kept="It is kept.")
    text = comment.status(in_state(State.WAITING), failed, SPENT, None, (), kept)
    assert "\n\nIt is kept.\n\n" in text
    assert "<details>" not in text


def test_a_draft_is_told_as_one() -> None:
    task = replace(in_state(State.IN_REVIEW), pull_request=9)
    receipt = {**RECEIPT, "verdict": "Unverified", "draft": True}
    text = comment.status(task, replace(started()[1], code=Code.UNVERIFIED, attempts=1), SPENT, receipt)
    assert text.startswith("📝 Unverified: #9 is a draft that says why.\n")
    assert "- [ ] verified in a fresh sandbox" in text
    assert "- [x] pull request" in text
    assert "What you can do next" not in text
    waiting = comment.status(in_state(State.AWAITING_APPROVAL), replace(started()[1], attempts=1), SPENT, receipt)
    assert waiting.startswith("✋ Unverified, to be a draft. `/coder approve`")
    shown = comment.approval(task, started()[1], {**receipt, "flags": [{"text": "`a`: odd"}]}, Diff(text="", files=1))
    assert shown.startswith("✋ **Unverified, to be published as a draft, and waiting for approval.**")
    assert "- `a`: odd" in shown


def test_a_stop_looks_different_from_a_failure() -> None:
    stopped = replace(started()[1], code=Code.STOPPED, detail="Stopped by somebody.")
    assert comment.status(in_state(State.WAITING), stopped, SPENT, None).startswith("🛑")
    failed = replace(stopped, code=Code.CHECKS_FAILED)
    assert comment.status(in_state(State.WAITING), failed, SPENT, None).startswith("😕")


def test_an_ended_task_says_how() -> None:
    task = replace(in_state(State.CLOSED), closed_reason="merged")
    assert "Ended: merged" in comment.status(task, started()[1], replace(SPENT, cost=None), None)
    assert "cost unknown" in comment.status(task, started()[1], replace(SPENT, cost=None), None)


def test_a_task_in_review_whose_last_episode_failed_says_so() -> None:
    task = replace(in_state(State.IN_REVIEW), pull_request=9)
    text = comment.status(task, replace(started()[1], code=Code.CHECKS_FAILED, detail="No."), SPENT, None)
    assert "No pull request (CHECKS_FAILED)" not in text
    assert "CHECKS_FAILED" in text


def test_answers_and_refusals_carry_their_marker() -> None:
    assert comment.answer("guid-1", "Hello.").endswith(comment.answer_marker("guid-1"))
    assert "@bob" in comment.refusal("bob", "write")
    assert "line 3" in comment.config_problem(".github/coder.yml", "- line 3: no")


def test_feedback_shows_the_failing_output_as_it_is() -> None:
    text = comment.feedback(("`tests` failed.",), {"tests": "E  assert 1 == 2"})
    assert "E  assert 1 == 2" in text
    assert "submit" in text


REFUSED = Finding(
    action="refuse", kind="secret", path="a@b.txt", line=3, said="adds what looks like a secret (a key)"
)


def test_a_refusal_is_known_again_by_what_the_model_was_told() -> None:
    told = comment.refused([REFUSED])
    assert "`a@b.txt` line 3 adds what looks like a secret (a key)" in told
    assert "call `submit` again" in told
    assert comment.is_refusal(told)
    assert comment.is_refusal(f"The sandbox was lost.\n\n{told}")
    assert not comment.is_refusal(None)
    assert not comment.is_refusal(comment.feedback(("`tests` failed.",), {"tests": told}))
    assert "`a@b.txt` line 3" in comment.refusal_reasons([REFUSED])


def test_what_waits_for_approval_is_shown_with_its_receipt() -> None:
    task, episode = started()
    receipt = {**RECEIPT, "findings": [REFUSED.to_dict()]}
    text = comment.approval(
        task, replace(episode, title="Mend @it"), receipt, Diff(text="-a\n+```\n+</details>", files=1)
    )
    assert "Nothing is published yet" in text
    assert "@it" not in text
    assert "**Mind these:**" in text
    assert "Receipt: Passed" in text
    assert "````diff\n-a\n+```\n+</details>\n````\n\n</details>" in text
    assert f"exactly the tree `{'t' * 12}`" in text
    assert "Too long" not in text
    assert text.endswith(comment.approval_marker("t1", 1, "t" * 40))
    long = comment.approval(task, episode, RECEIPT, Diff(text="+x\n" * 30_000, files=2, left_out="1 of 2 files"))
    assert "2 files" in long
    assert len(long) < 65_536
    cut = comment.approval(task, episode, RECEIPT, Diff(text="+x", files=2, left_out="1 of 2 files are whole"))
    assert "Too long to be shown whole here: 1 of 2 files are whole; look at the rest before you approve it." in cut


def test_a_result_that_github_refused_can_be_approved_again() -> None:
    task = in_state(State.AWAITING_APPROVAL)
    detail = comment.workflows_refused([".github/workflows/ci.yml"], "GitHub answered 403.")
    text = comment.status(task, replace(started()[1], code=Code.WRITE_REFUSED, detail=detail), SPENT, RECEIPT)
    assert "`workflows: write`" in text
    assert "`.github/workflows/ci.yml`" in text
    assert "`/coder approve` again" in text
    assert "/coder retry" not in text


def test_a_change_to_be_made_again_is_shown_as_it_was_and_known_again() -> None:
    whole = comment.rebuild(["a.py"], Diff(text="-a\n+b", files=1))
    assert "both changed `a.py`" in whole
    assert "-a\n+b" in whole
    assert "left out" not in whole
    cut = comment.rebuild(["a.py"], Diff(text="-a", files=2, left_out="0 of 2 files are whole"))
    assert "(The rest is left out: 0 of 2 files are whole.)" in cut
    assert comment.is_rebuild(f"Something else.\n\n{whole}")
    assert not comment.is_rebuild(None)
    assert not comment.is_rebuild(comment.feedback(("`tests` failed.",), {"tests": whole}))
