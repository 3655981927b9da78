"""What people read, for each state and end of a task."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.domain import comment, doing
from bot.domain.budget import Allowance, Spend, Usage
from bot.domain.comment import Diff, SoFar, Unpublished
from bot.domain.episode import Code
from bot.domain.gate import Finding
from bot.domain.task import State
from bot.domain.transcript import Step
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
ALLOWED = Allowance(steps=40, tool_calls=120, tokens=2_000_000, duration_s=1800, cost=Decimal("2.00"))
SO_FAR = SoFar(
    now=started()[1].created_at + timedelta(minutes=3),
    spent=SPENT,
    own=SPENT,
    allowed=ALLOWED,
    attempts=3,
    doing="Step 7 of at most 40: running `python3 -m pytest`.",
)


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
    text = comment.status(in_state(state), started()[1], SO_FAR, None)
    assert words in text
    spent = "$0.26 of $2.00, 12,345 of 2,000,000 tokens, 3 steps, 5 tool calls"
    assert f"<sub>{spent} · asked for by alice" in text
    is_busy = words not in ("/coder approve", "Waiting")
    assert text.endswith(" 3 minutes ago</sub>") == is_busy
    assert ("Step 7 of at most 40" in text) == is_busy


@pytest.mark.parametrize("state", [State.QUEUED, State.WORKING, State.VERIFYING])
def test_a_task_without_a_free_sandbox_says_that_it_waits(state: State) -> None:
    waiting = replace(in_state(state), needs_slot=True)
    text = comment.status(waiting, started()[1], replace(SO_FAR, ahead=2), None)
    assert text.startswith("⏳ Waiting for a free sandbox")
    assert "2 other tasks have waited longer." in text
    assert "Step 7" not in text
    assert "Working" not in text


def test_a_task_that_was_stopped_waits_for_no_sandbox() -> None:
    stopped = replace(in_state(State.WAITING), needs_slot=True)
    assert "free sandbox" not in comment.status(stopped, started()[1], SO_FAR, None)


def test_the_checklist_ticks_what_is_behind() -> None:
    text = comment.status(in_state(State.VERIFYING), started()[1], SO_FAR, None)
    assert text.count("- [x]") == 2
    assert text.count("- [ ]") == 2


def test_what_happened_on_the_way_is_told() -> None:
    text = comment.status(in_state(State.WORKING), started()[1], SO_FAR, None, ["Blocked hosts: `x.example:443`."])
    assert "\n\nBlocked hosts: `x.example:443`.\n\n<sub>" in text


def test_a_second_attempt_is_counted() -> None:
    text = comment.status(in_state(State.WORKING), replace(started()[1], attempts=1), SO_FAR, RECEIPT)
    assert "attempt 2 of 3" in text
    assert "| `slow` | time-out | – | – | – |" in text


def test_a_published_task_names_its_pull_request() -> None:
    task = replace(in_state(State.IN_REVIEW), pull_request=9)
    text = comment.status(task, replace(started()[1], code=Code.VERIFIED, attempts=1), SO_FAR, RECEIPT)
    assert "Done: #9" in text
    assert "What was tried" not in text
    assert "Receipt: Passed" in text
    assert "- [x] pull request" in text


@pytest.mark.parametrize("code", sorted(set(Code) - {Code.VERIFIED, Code.ISSUE_CLOSED, Code.UNINSTALLED}))
def test_every_end_says_why_and_what_to_do_next(code: Code) -> None:
    episode = replace(started()[1], code=code, detail="It broke.\nline one\nline two", summary="What I saw.")
    text = comment.status(in_state(State.WAITING), episode, SO_FAR, None)
    assert "working" not in text.lower()
    assert "/coder" in text
    assert ("**What was tried:** 3 steps with 5 tool calls. Nothing was" in text) == (code is not Code.ANSWERED)
    assert "took less than a minute" in text
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
    text = comment.status(in_state(State.WAITING), failed, SO_FAR, receipt)
    assert text.startswith("😕 No pull request (CHECKS_FAILED). The receipt says why.\n")
    assert text.count("`slow` is slow.") == 1
    other = comment.status(in_state(State.WAITING), replace(failed, detail="Another."), SO_FAR, receipt)
    assert other.startswith("😕 No pull request (CHECKS_FAILED). Another.\n")


def test_what_was_not_published_is_shown_with_what_failed() -> None:
    failed = replace(started()[1], code=Code.CHECKS_FAILED, detail="No.")
    diff = Diff(text="-a\n+```\n+</details>", files=2, left_out="1 of 2 files are whole")
    left = Unpublished(outputs={"a<b, exit code 1": "E  assert 1 == 2"}, diff=diff)
    text = comment.status(in_state(State.WAITING), failed, SO_FAR, None, (), left)
    assert "<summary>The end of the output: a&lt;\u200bb, exit code 1</summary>\n\n```\nE  assert 1 == 2\n```" in text
    assert "<summary>The change: 2 files</summary>\n\n````diff\n-a\n+```\n+</details>\n````\n\n</details>" in text
    assert "Too long to be shown whole here: 1 of 2 files are whole. All of it is kept for `/coder retry`." in text
    assert "$0.26" in text
    whole = Unpublished(outputs={}, diff=replace(diff, left_out=""))
    assert "Too long" not in comment.status(in_state(State.WAITING), failed, SO_FAR, None, (), whole)
    kept = Unpublished(outputs={}, diff=None, kept="It is kept.")
    text = comment.status(in_state(State.WAITING), failed, SO_FAR, None, (), kept)
    assert "\n\nIt is kept.\n\n" in text
    assert "<details>" not in text


def test_a_draft_is_told_as_one() -> None:
    task = replace(in_state(State.IN_REVIEW), pull_request=9)
    receipt = {**RECEIPT, "verdict": "Unverified", "draft": True}
    text = comment.status(task, replace(started()[1], code=Code.UNVERIFIED, attempts=1), SO_FAR, receipt)
    assert text.startswith("📝 Unverified: #9 is a draft that says why.\n")
    assert "- [ ] verified in a fresh sandbox" in text
    assert "- [x] pull request" in text
    assert "What you can do next" not in text
    waiting = comment.status(in_state(State.AWAITING_APPROVAL), replace(started()[1], attempts=1), SO_FAR, receipt)
    assert waiting.startswith("✋ Unverified, to be a draft. `/coder approve`")
    shown = comment.approval(task, started()[1], {**receipt, "flags": [{"text": "`a`: odd"}]}, Diff(text="", files=1))
    assert shown.startswith("✋ **Unverified, to be published as a draft, and waiting for approval.**")
    assert "- `a`: odd" in shown


def test_a_stop_looks_different_from_a_failure() -> None:
    stopped = replace(started()[1], code=Code.STOPPED, detail="Stopped by somebody.")
    assert comment.status(in_state(State.WAITING), stopped, SO_FAR, None).startswith("🛑")
    failed = replace(stopped, code=Code.CHECKS_FAILED)
    assert comment.status(in_state(State.WAITING), failed, SO_FAR, None).startswith("😕")


@pytest.mark.parametrize(
    "reason", ["issue closed", "pull request closed", "uninstalled", "the repository is archived", None]
)
def test_a_closed_task_says_why_and_how_to_begin_anew(reason: str | None) -> None:
    task = replace(in_state(State.CLOSED), closed_reason=reason)
    ended = replace(started()[1], code=Code.ISSUE_CLOSED, detail=f"Ended: {reason}.")
    text = comment.status(task, ended, SO_FAR, None)
    assert text.startswith(f"🏁 Ended: {reason or 'closed'}.\n")
    assert "What was tried" in text
    assert "/coder fix" in text.partition("What you can do next:")[2]


def test_an_end_says_what_was_tried() -> None:
    checks = [
        {"name": "tests", "exit_code": 0, "timed_out": False, "passed": 3, "failed": 0, "skipped": None},
        {"name": "slow", "exit_code": 124, "timed_out": True, "passed": None, "failed": None, "skipped": None},
    ]
    receipt = {**RECEIPT, "verdict": "Failed", "checks": checks}
    failed = replace(started()[1], code=Code.CHECKS_FAILED, attempts=2, detail="No.")
    text = comment.status(in_state(State.WAITING), failed, SO_FAR, receipt)
    tried = "3 steps with 5 tool calls, verified 2 times of at most 3; in the last one `slow` failed."
    assert f"**What was tried:** {tried}" in text
    refused = replace(failed, code=Code.WRITE_REFUSED, attempts=1)
    text = comment.status(in_state(State.WAITING), refused, SO_FAR, {**receipt, "checks": checks[:1]})
    assert "3 steps with 5 tool calls, verified once of at most 3." in text
    one = replace(SO_FAR, own=Spend(steps=1, tool_calls=1))
    text = comment.status(in_state(State.WAITING), replace(failed, attempts=0), one, None)
    assert "1 step with 1 tool call. Nothing was handed in" in text
    nothing = replace(SO_FAR, own=Spend())
    text = comment.status(in_state(State.WAITING), replace(failed, code=Code.CLONE_FAILED), nothing, None)
    assert "nothing yet; the model was not asked for anything." in text


def test_a_follow_up_says_whose_request_it_works_on() -> None:
    again = replace(started()[1], number=2, requester="bob")
    so_far = replace(SO_FAR, request="http://h/octo/r/pull/9#pullrequestreview-4")
    text = comment.status(in_state(State.WORKING), again, so_far, None)
    asked = "round 2, [asked for](http://h/octo/r/pull/9#pullrequestreview-4) by bob 3 minutes ago"
    assert text.endswith(f" · {asked}</sub>")
    repair = comment.status(in_state(State.WORKING), replace(again, repairs="d" * 40), SO_FAR, None)
    assert "round 2, failing CI on `dddddddddddd`, in work that bob asked for 3 minutes ago" in repair


def test_the_gist_changes_with_all_that_must_be_told_at_once() -> None:
    task, episode = started()
    waiting = replace(task, needs_slot=True)
    now = SO_FAR.now
    gists = [
        comment.gist(task, episode, ahead=0, now=now),
        comment.gist(replace(task, state=State.WORKING), episode, ahead=0, now=now),
        comment.gist(replace(task, state=State.WORKING), replace(episode, attempts=1), ahead=0, now=now),
        comment.gist(replace(task, state=State.WAITING), replace(episode, code=Code.STOPPED), ahead=0, now=now),
        comment.gist(replace(task, state=State.CLOSED, closed_reason="merged"), episode, ahead=0, now=now),
        comment.gist(replace(task, state=State.IN_REVIEW, pull_request=9), episode, ahead=0, now=now),
        comment.gist(task, replace(episode, id="e2"), ahead=0, now=now),
        comment.gist(waiting, episode, ahead=0, now=now),
        comment.gist(waiting, episode, ahead=1, now=now),
        comment.gist(waiting, episode, ahead=1, now=now + timedelta(minutes=1)),
    ]
    assert len(set(gists)) == len(gists)
    assert comment.gist(task, episode, ahead=1, now=now + timedelta(hours=1)) == gists[0]


def test_an_ended_task_says_how() -> None:
    task = replace(in_state(State.CLOSED), closed_reason="merged")
    merged = comment.status(task, replace(started()[1], code=Code.VERIFIED), SO_FAR, None)
    assert merged.startswith("🏁 Ended: merged.\n")
    assert "What" not in merged
    assert "<sub>cost unknown, 12,345 of" in comment.status(
        task, started()[1], replace(SO_FAR, spent=replace(SPENT, cost=None)), None
    )


def test_a_task_in_review_whose_last_episode_failed_says_so() -> None:
    task = replace(in_state(State.IN_REVIEW), pull_request=9)
    text = comment.status(task, replace(started()[1], code=Code.CHECKS_FAILED, detail="No."), SO_FAR, None)
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
    text = comment.status(task, replace(started()[1], code=Code.WRITE_REFUSED, detail=detail), SO_FAR, RECEIPT)
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


NASTY = st.lists(
    st.sampled_from(
        [
            "@octocat ",
            "@octo/team",
            "#1 ",
            "GH-1",
            "Fixes #2",
            "```\n",
            "````\n",
            "~~~\n",
            "`",
            "``",
            "\n",
            "\n\n",
            "|",
            "<details>",
            "</details>",
            "</summary>",
            "</sub>",
            "<!-- coder-bot:task=t1 -->",
            "<!--",
            "-->",
            "&#64;octocat",
            "[x](https://evil.test/1)",
            "![x](https://evil.test/2)",
            "[x]: https://evil.test/3\n",
            "https://evil.test/4 ",
            "www.evil.test",
            "<img src=x>",
            "- [x] done\n",
            "/lgtm\n",
            "\\",
            "\u202e",
            "\x1b[31m",
            "    ",
            "word ",
            "\ud800",
        ]
    ),
    max_size=12,
).map("".join)
EXTENSIONS = ["table", "strikethrough", "autolink", "tagfilter", "tasklist"]


def _page(text: str) -> str:
    return str(
        cmarkgfm.markdown_to_html_with_extensions(text, options=Options.CMARK_OPT_UNSAFE, extensions=EXTENSIONS)
    )


def _acts(page: str) -> str:
    """Of a page, what GitHub would act on outside of code, and the page's own frame."""
    return re.sub(r"<code[^>]*>.*?</code>", "<code></code>", page, flags=re.DOTALL)


@settings(deadline=None)
@given(text=NASTY, name=NASTY, login=NASTY, state=st.sampled_from(State), code=st.none() | st.sampled_from(Code))
@example(text="```\n</details>", name="`", login="@octocat", state=State.WAITING, code=Code.CHECKS_FAILED)
def test_nothing_that_the_comment_repeats_does_anything_on_github(
    text: str, name: str, login: str, state: State, code: Code | None
) -> None:
    name = re.sub(r"[`|\n\t]", "", name).strip()[:60] or "tests"  # config takes no other names
    call = {"name": "run_command", "arguments": {"command": text}}
    asked = Step(id=1, number=1, note=None, reply={"tool_calls": [call]}, usage=Usage(), cost=None, duration_s=0)
    check = {"name": name, "exit_code": 1, "timed_out": False, "passed": 0, "failed": 1, "skipped": 0}
    receipt = {**RECEIPT, "verdict": "Failed", "reasons": [text], "checks": [check]}
    task = replace(in_state(state), title=text, closed_reason=text or None, pull_request=9)
    episode = replace(
        started()[1], code=code, detail=text, summary=text, requester=login, attempts=1, title=text, repairs=login
    )
    left = Unpublished(outputs={name: text}, diff=Diff(text=text, files=1, left_out="1 of 2 files are whole"))
    so_far = replace(SO_FAR, doing=doing.step((asked,), 40, lambda said: said))
    body = comment.marked(comment.status(task, episode, so_far, receipt, (), left), comment.task_marker("t1"))
    page = _acts(_page(body))
    assert not re.search(r"@[\w-]", page)
    assert not re.search(r"(?<!\w)#(?!9\b)\d", page), "only its own pull request is named"
    assert "evil.test" not in "".join(re.findall(r'(?:href|src)="[^"]*', page))
    assert "<img" not in page
    assert page.count("<!-- coder-bot") == 1
    assert page.rstrip().endswith(comment.task_marker("t1"))
    assert page.count("<details>") == page.count("</details>") == 2, "both blocks are whole"
    assert page.count("<sub>") == page.count("</sub>")
    assert page.count('type="checkbox"') in (0, 4), "the checklist is ours alone"


@given(text=st.text(alphabet="`~a \n<>/@#", max_size=300), times=st.integers(1, 400))
def test_a_comment_is_never_longer_than_github_takes_and_stays_whole(text: str, times: int) -> None:
    failed = replace(started()[1], code=Code.CHECKS_FAILED, detail=text, attempts=1)
    outputs = {f"{number}": text * 20 for number in range(times)}
    left = Unpublished(outputs=outputs, diff=Diff(text=text * 60, files=1))
    body = comment.marked(
        comment.status(in_state(State.WAITING), failed, SO_FAR, RECEIPT, (), left), comment.task_marker("t1")
    )
    assert len(body) <= 65_536
    page = _acts(_page(body))
    assert page.count("<details>") == page.count("</details>")
    assert page.rstrip().endswith(comment.task_marker("t1"))


def test_the_model_is_told_of_other_peoples_lines_with_what_it_had_done_itself() -> None:
    told = comment.met(["a.py", "b`.py"], Diff(text="+x = 1", files=2, left_out="1 of 2 files are whole"))
    assert "have changed the same lines of `a.py`, `b" in told
    assert "```diff\n+x = 1\n```\n(The rest is left out: 1 of 2 files are whole.)" in told
    assert "left out" not in comment.met(["a.py"], Diff(text="+x = 1", files=1))
    conflicts = comment.base_conflicts(["a.py"], "main")
    assert "no longer merges with `main`" in conflicts
    assert "`a.py` could not be merged" in conflicts
