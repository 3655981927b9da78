"""What `coder-bot tasks show` prints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from bot.domain.budget import Usage
from bot.domain.episode import Code, Episode
from bot.domain.history import WIDTH, lines
from bot.domain.task import State, Task
from bot.domain.transcript import Call, Step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK = Task(
    id="t1",
    installation_id=1,
    repository_id=1,
    owner="octo",
    name="sample",
    clone_url="https://github.com/octo/sample.git",
    number=7,
    title="add() is \x1b[31mwrong",
    body="",
    author="reporter",
    requester="maintainer",
    requested_at=NOW,
    created_at=NOW,
    updated_at=NOW,
    base_branch="main",
    base_sha="0" * 40,
    state=State.WORKING,
)
EPISODE = Episode(
    id="e1",
    task_id="t1",
    number=1,
    kind="fix",
    instruction="",
    requester="maintainer",
    comment_id=1,
    created_at=NOW,
    config_sha="0" * 40,
    config_text=None,
)
RAN = Call(
    position=0, name="run_command", arguments={"command": "pytest"}, result="1 failed", exit_code=1, duration_s=2
)
REFUSED = Call(
    position=1,
    name="run_command",
    arguments={"command": "curl\nx", "more": 3},
    result="Refused: No rule allows the program `curl`.",
    exit_code=None,
    duration_s=0,
    refused=True,
)
READ = Call(position=2, name="list_dir", arguments=None, result="", exit_code=None, duration_s=0.25)


def step(*calls: Call, text: str = "") -> Step:
    usage = Usage(input_tokens=1000, output_tokens=234)
    return Step(
        id=1, number=1, note=None, reply={"text": text}, usage=usage, cost=Decimal(0), duration_s=1, calls=calls
    )


def test_what_was_refused_stands_out_and_is_counted() -> None:
    assert list(lines(TASK, [(EPISODE, [step(RAN, REFUSED, READ, text="Let me\nlook.")])])) == [
        "t1  working  octo/sample#7  add() is [31mwrong",
        "",
        "episode 1: fix, asked for by maintainer; not ended",
        "  1 steps, 3 tool calls, 1 of them refused, 1,234 tokens",
        "  step 1: Let me look.",
        '    run_command "pytest": exit 1, 2.0 s',
        '    REFUSED run_command "curl\\nx" 3: Refused: No rule allows the program `curl`.',
        "    list_dir: 0.2 s",
    ]


def test_an_end_and_a_pull_request_are_told_and_long_text_is_cut() -> None:
    task = replace(TASK, pull_request=8, pull_request_url="https://github.com/octo/sample/pull/8")
    ended = replace(EPISODE, code=Code.VERIFIED, detail="x" * 1000)
    _, pull, _, head, *_, said = lines(task, [(ended, [step()])])
    assert pull == "pull request #8: https://github.com/octo/sample/pull/8"
    assert head.endswith(f"; VERIFIED: {'x' * (WIDTH - 1)}…")
    assert said == "  step 1"
