"""What people are left with when there is no pull request: the change, what failed, what it cost, what to do."""

from __future__ import annotations

import secrets

from tests.stories.harness import call, fix, say, story, submit, with_config

RULES = "checks: [{name: tests, run: python3 -m pytest -q}]\nlimits: {attempts: 1}\n"


async def test_a_failure_leaves_the_change_what_failed_and_two_ways_on() -> None:
    async with story(with_config(RULES)) as s:
        s.script(fix(new="return a * b"), submit())
        await s.comment()
        await s.settle()
        assert not s.pull_requests
        [said] = s.comments
        assert said.startswith("😕 No pull request (CHECKS_FAILED). The receipt says why.")
        assert "| `tests` | 1 | 0 | 1 |" in said
        assert "<summary>The end of the output: tests, exit code 1</summary>" in said
        assert "assert 6 == 5" in said
        assert "<summary>The change: 1 file</summary>\n\n```diff\n--- a/calc.py\n+++ b/calc.py" in said
        assert "-    return a - b\n+    return a * b\n" in said
        _, _, steps = said.partition("What you can do next:\n")
        assert [line for line in steps.splitlines() if line.startswith("- ")] == [
            "- `/coder fix …` tells me what to mind, and I go on from this change.",
            "- `/coder retry` tries again as it is.",
        ]
        assert "2 steps, 2 tool calls" in said

        # A change with a secret in it is shown nowhere.
        secret = "ghp_" + secrets.token_hex(18)
        s.script(say(call("write_file", path="config.py", contents=f'TOKEN = "{secret}"\n')), submit())
        await s.comment("/coder fix write a config")
        await s.settle()
        assert await s.code() == "POLICY_REFUSED"
        assert "The change is not shown here: it has what looks like a secret." in s.comments[0]
        assert "```diff" not in s.comments[0]
        assert not s.pull_requests
