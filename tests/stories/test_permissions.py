"""Who may give a command, and what starts one: GitHub's own answer about the very account that asked, or nothing."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
import structlog

from bot.demo.state import Permission
from bot.domain.task import State, Task
from bot.pipeline import intake
from tests.stories.harness import FILES, REPOSITORY, Story, call, fix, say, story, submit, with_config

PERMISSION = "repos/get-collaborator-permission-level"
CHECKS = "checks: [{name: tests, run: python3 -m pytest -q}]\n"


async def outcome(s: Story, guid: str) -> str:
    delivery = await s.bot.deps.store.delivery(guid)
    assert delivery is not None
    return delivery.outcome


async def decided(s: Story, guid: str) -> str:
    """What intake makes of a delivery, with no stage after it done."""
    await intake.run(s.bot.deps, guid)
    return await outcome(s, guid)


async def rules(s: Story, text: str) -> str:
    """Somebody who may changes the rules on the default branch."""
    return await s.github.commit(REPOSITORY, "main", {".github/coder.yml": text.encode()}, author="owner")


async def tasks(s: Story) -> list[Task]:
    return await s.bot.deps.store.tasks()


def told(s: Story) -> list[str]:
    """What our bot has said on the issue; other bots talk there, too."""
    talk = s.github.issue_comments(REPOSITORY, s.issue)
    return [item.body for item in talk if item.author == s.github.app.login]


async def nothing(s: Story) -> None:
    """No task, no comment, no reaction: as if nobody had said anything."""
    assert await tasks(s) == []
    assert told(s) == []
    for item in s.github.issue_comments(REPOSITORY, s.issue):
        assert s.github.reactions(item.id) == []


def answers(s: Story, operation: str) -> int:
    return sum(item.operation == operation for item in s.github.requests)


async def test_the_permission_endpoint_decides_and_a_custom_role_counts_by_its_level() -> None:
    async with story(with_config(CHECKS)) as s:
        may: dict[Permission, bool] = {
            "admin": True,
            "maintain": True,
            "write": True,
            "triage": False,
            "read": False,
            "none": False,
        }
        for role, allowed in may.items():
            issue = s.github.open_issue(REPOSITORY, title="x", author="reporter").number
            s.github.grant(REPOSITORY, f"a-{role}", role)
            with structlog.testing.capture_logs() as logs:
                said = await decided(s, await s.comment("/coder status", author=f"a-{role}", number=issue))
            [line] = [line for line in logs if line.get("audit")]
            told = ("a command was decided" if allowed else "a command was refused", f"a-{role}", issue)
            assert (line["event"], line["by"], line["number"]) == told
            assert said == ("decided" if allowed else "refused: permission"), role
            [answer] = [item.body for item in s.github.issue_comments(REPOSITORY, issue) if "[bot]" in item.author]
            assert ("No task is open" if allowed else "write access") in answer


async def test_a_repository_may_ask_for_more_than_write() -> None:
    async with story() as s:
        roles: list[Permission] = ["admin", "maintain", "write"]
        for role in roles:
            s.github.grant(REPOSITORY, f"a-{role}", role)
        for wanted, allowed in {"maintain": ["admin", "maintain"], "admin": ["admin"]}.items():
            await rules(s, f"trigger: {{permission: {wanted}}}\n")
            for role in roles:
                said = await decided(s, await s.comment("/coder status", author=f"a-{role}"))
                assert said == ("decided" if role in allowed else "refused: permission"), (wanted, role)


async def test_somebody_github_knows_no_permission_of_is_denied_without_a_word() -> None:
    async with story() as s:
        s.github.trouble(PERMISSION, 404, "HelperAgent is not a user")
        guid = await s.comment(author="HelperAgent")
        await s.settle()
        assert s.github.deliveries[-1].status == 202
        assert await outcome(s, guid) == "denied: GitHub knows nobody by that name"
        assert answers(s, PERMISSION) == 1
        await nothing(s)


async def test_bots_are_denied_without_a_word_and_asked_for_nothing() -> None:
    async with story() as s:
        s.github.grant(REPOSITORY, "helper[bot]", "admin")
        guid = await s.comment(author="helper[bot]")
        await s.settle()
        assert await outcome(s, guid) == "denied: a bot that `trigger.bots` does not list"
        assert answers(s, PERMISSION) == 0
        await nothing(s)


async def test_a_listed_bot_may_unless_github_says_that_it_may_not() -> None:
    listing = CHECKS + 'trigger: {bots: ["Helper[bot]", "reader[bot]"]}\n'
    async with story(with_config(listing)) as s:
        assert await decided(s, await s.comment("/coder status", author="helper[bot]")) == "decided"
        s.github.grant(REPOSITORY, "reader[bot]", "read")
        said = await decided(s, await s.comment("/coder status", author="reader[bot]"))
        assert said == "denied: the bot has no write access"
        assert (
            await decided(s, await s.comment("/coder approve", author="helper[bot]")) == "denied: only people approve"
        )
        assert "denied" in await decided(s, await s.comment("/coder status", author="other[bot]"))
        assert len(told(s)) == 1


async def test_the_bot_never_answers_itself_not_even_when_it_is_listed() -> None:
    async with story(with_config('trigger: {bots: ["coder-bot-local[bot]"]}\n')) as s:
        me = s.github.app.login
        s.github.grant(REPOSITORY, me, "admin")
        assert await decided(s, await s.comment(author=me)) == "ignored: the bot itself"
        assert await tasks(s) == []


async def test_a_name_that_belongs_to_another_account_by_now_counts_for_nothing() -> None:
    async with story() as s:
        first, second = await s.comment(), await s.comment()
        s.github.rename("maintainer", "renamed")
        assert await decided(s, first) == "denied: GitHub knows nobody by that name"
        s.github.grant(REPOSITORY, "maintainer", "admin")
        assert await decided(s, second) == "denied: GitHub knows somebody else by that name"
        await nothing(s)


async def test_a_permission_that_can_not_be_had_is_waited_for_and_nobody_is_let_in_meanwhile() -> None:
    async with story() as s:
        s.github.trouble(PERMISSION, 500, times=3)
        limit = str(int(s.clock().timestamp()) + 900)
        used_up = {"x_ratelimit_remaining": "0", "x_ratelimit_limit": "5000", "x_ratelimit_reset": limit}
        s.github.trouble(PERMISSION, 403, "API rate limit exceeded", **used_up)
        guid = await s.comment("/coder status")
        await s.settle()
        assert await outcome(s, guid) == ""
        await nothing(s)
        s.clock.ahead += timedelta(minutes=1)
        await s.settle()
        assert answers(s, PERMISSION) == 4
        s.clock.ahead += timedelta(minutes=13)
        await s.settle()
        assert answers(s, PERMISSION) == 4, "not asked again before the limit ends"
        await nothing(s)
        s.clock.ahead += timedelta(minutes=3)
        await s.settle()
        assert await outcome(s, guid) == "decided"
        assert len(s.comments) == 1


async def test_an_intake_that_was_given_up_is_tried_again_when_it_is_delivered_again() -> None:
    async with story() as s:
        s.github.trouble(PERMISSION, 503, times=15)
        guid = await s.comment("/coder status")
        for _ in range(6):
            await s.settle_later()
        assert (await outcome(s, guid)).startswith("failed")
        await nothing(s)
        await s.github.redeliver(guid)
        await s.settle()
        assert await outcome(s, guid) == "decided"
        await s.github.redeliver(guid)
        await s.settle()
        assert len(s.comments) == 1


async def test_an_app_that_may_not_ask_denies_at_once_and_tells_the_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with story() as s:
        s.github.trouble(PERMISSION, 403, "Resource not accessible by integration")
        guid = await s.comment()
        await s.settle()
        assert await outcome(s, guid) == "denied: the App may not ask for permissions"
        assert answers(s, PERMISSION) == 1
        await nothing(s)
    said = capsys.readouterr()
    assert "metadata: read" in said.out + said.err


async def test_one_polite_refusal_for_each_person_and_issue_whatever_comes_at_once_or_after_a_restart() -> None:
    async with story() as s:
        for visitor in ("visitor", "guest"):
            s.github.grant(REPOSITORY, visitor, "read")
        other = s.github.open_issue(REPOSITORY, title="x", author="reporter").number
        await asyncio.gather(*(s.comment(author="visitor") for _ in range(5)))
        await s.comment(author="guest")
        await s.comment(author="visitor", number=other)
        await s.settle()
        assert sorted("@visitor" in text for text in s.comments) == [False, True]
        assert len([c for c in s.github.issue_comments(REPOSITORY, other) if "write access" in c.body]) == 1
        guid = await s.comment(author="visitor")
        s.bot.engine.wake()
        await s.bot.engine.recover()
        await s.settle()
        assert await outcome(s, guid) == "refused: permission"
        assert len(s.comments) == 2
        assert await tasks(s) == []


async def test_where_nothing_can_be_written_nothing_is_begun_nor_tried() -> None:
    async with story(with_config(CHECKS + "trigger: {label: fix-me}\n")) as s:
        ways = {
            "the conversation is locked": lambda: s.github.lock(REPOSITORY, s.issue),
            "issues are switched off in the repository": lambda: s.github.switch_issues_off(REPOSITORY),
            "the repository is archived": lambda: s.github.archive(REPOSITORY),
        }
        for reason, happens in ways.items():
            s.issue = s.github.open_issue(REPOSITORY, title="x", author="reporter").number
            happens()
            guids = [await s.comment(), await s.comment(author="reporter")]
            guids.append((await s.github.label(REPOSITORY, s.issue, "fix-me", author="maintainer")).guid)
            before = len(s.github.requests)
            await s.settle()
            assert [await outcome(s, guid) for guid in guids] == [f"ignored: {reason}"] * 3
            assert len(s.github.requests) == before, "GitHub is asked for nothing"
            await nothing(s)


async def test_what_can_no_longer_be_written_to_ends_the_task_for_good_and_others_go_on() -> None:
    async with story() as s:
        other = s.github.open_issue(REPOSITORY, title="x", author="reporter").number
        await decided(s, await s.comment())
        await decided(s, await s.comment(number=other))
        s.github.lock(REPOSITORY, s.issue)
        s.script(fix(), submit())
        await s.settle()
        ended = {task.number: task for task in await tasks(s)}
        assert (ended[s.issue].state, ended[s.issue].closed_reason) == (State.CLOSED, "the conversation is locked")
        assert (await s.bot.deps.store.last_episode(ended[s.issue].id)).code == "WRITE_REFUSED"
        assert ended[other].state is State.IN_REVIEW
        await s.github.close_pull(REPOSITORY, s.pull_requests[0].number, author="maintainer")
        await s.settle()
        assert await s.containers() == []


async def test_a_comment_that_was_edited_or_deleted_starts_nothing_and_a_deleted_one_still_counts() -> None:
    async with story() as s:
        await s.comment("thanks!")
        [first] = s.github.issue_comments(REPOSITORY, s.issue)
        await s.github.edit_comment(REPOSITORY, first.id, "/coder fix", author="maintainer")
        await s.settle()
        await nothing(s)
        guid = await s.comment("/coder status")
        command = s.github.issue_comments(REPOSITORY, s.issue)[-1]
        await s.github.delete_comment(REPOSITORY, command.id, author="maintainer")
        await s.settle()
        assert await outcome(s, guid) == "decided", "the comment is gone, what was said is not"


# Labels and assignments


async def another_second() -> None:
    """GitHub's times are whole seconds."""
    await asyncio.sleep(1.01 - time.time() % 1)


async def test_a_label_starts_a_fix_of_the_issue_as_it_was_and_only_one() -> None:
    async with story(with_config(CHECKS + "trigger: {label: fix-me}\n")) as s:
        s.script(fix(), submit())
        first = await s.github.label(REPOSITORY, s.issue, "fix-me", author="maintainer")
        s.github.issue(REPOSITORY, s.issue).body = "Do something else."
        await s.settle()
        [task] = await tasks(s)
        assert (task.state, task.body, task.requester) == (State.IN_REVIEW, "2 + 3 gives -1.", "maintainer")
        episode = await s.bot.deps.store.last_episode(task.id)
        assert (episode.kind, episode.instruction) == ("fix", "")
        assert len(s.pull_requests) == 1
        for _ in range(2):
            await another_second()
            await s.github.unlabel(REPOSITORY, s.issue, "fix-me", author="maintainer")
            again = await s.github.label(REPOSITORY, s.issue, "fix-me", author="maintainer")
            assert await decided(s, again.guid) == "decided"
        await s.github.redeliver(first.guid)
        await s.settle()
        assert await tasks(s) == [task]
        assert len(s.comments) == 1, "nobody is told that nothing happens"


async def test_labels_and_assignments_start_nothing_until_they_are_asked_for() -> None:
    async with story() as s:
        me = s.github.app.login
        made = [
            await s.github.label(REPOSITORY, s.issue, "fix-me", author="maintainer"),
            await s.github.assign(REPOSITORY, s.issue, me, author="maintainer"),
        ]
        for delivery in made:
            assert (await decided(s, delivery.guid)).startswith("ignored: ")
        assert answers(s, PERMISSION) == 0
        await nothing(s)


async def test_only_that_label_by_somebody_who_may_starts_something() -> None:
    async with story(with_config(CHECKS + "trigger: {label: fix-me}\n")) as s:
        s.github.grant(REPOSITORY, "triager", "triage")
        for name in ("Fix-Me", "fix-me ", "fix", "fix-me-not"):
            other = await s.github.label(REPOSITORY, s.issue, name, author="maintainer")
            assert await decided(s, other.guid) == "ignored: a label that is not `trigger.label`"
        by_bot = await s.github.label(REPOSITORY, s.issue, "fix-me", author="labeler[bot]")
        assert await decided(s, by_bot.guid) == "denied: a bot that `trigger.bots` does not list"
        await nothing(s)
        for _ in range(2):
            await another_second()
            refused = await s.github.label(REPOSITORY, s.issue, "fix-me", author="triager")
            assert await decided(s, refused.guid) == "refused: permission"
        assert len(s.comments) == 1
        assert await tasks(s) == []


async def test_an_assignment_to_the_bot_by_somebody_who_may_starts_a_fix() -> None:
    async with story(with_config(CHECKS + "trigger: {assignee: true}\n")) as s:
        me = s.github.app.login
        for assignee, author in (("maintainer", "maintainer"), ("other[bot]", "maintainer")):
            delivery = await s.github.assign(REPOSITORY, s.issue, assignee, author=author)
            assert (await decided(s, delivery.guid)).startswith("ignored: ")
        refused = await s.github.assign(REPOSITORY, s.issue, me, author="reporter")
        assert await decided(s, refused.guid) == "refused: permission"
        assert await tasks(s) == []
        delivery = await s.github.assign(REPOSITORY, s.issue, me, author="maintainer")
        assert await decided(s, delivery.guid) == "decided"
        assert [task.state for task in await tasks(s)] == [State.QUEUED]


async def test_a_label_under_broken_rules_starts_nothing_and_says_nothing() -> None:
    async with story(with_config("trigger: {label: fix-me}\nlimts: {}\n")) as s:
        delivery = await s.github.label(REPOSITORY, s.issue, "fix-me", author="maintainer")
        assert await decided(s, delivery.guid) == "ignored: the rules can't be read"
        await nothing(s)


# Rules


async def test_rules_that_can_not_be_read_are_told_once_on_an_issue_and_no_task_is_made() -> None:
    async with story(with_config("checks: [\n")) as s:
        for _ in range(3):
            assert await decided(s, await s.comment()) == "refused: config"
        [told] = s.comments
        assert "line 2" in told
        assert await tasks(s) == []


async def test_rules_that_github_does_not_give_are_no_rules_to_work_by() -> None:
    async with story() as s:
        for status in (403, 404, 409, 451):
            s.github.trouble("repos/get-content", status, "Resource not accessible by integration")
            assert await decided(s, await s.comment()) == "refused: config"
            assert f"GitHub answered {status}" in s.comments[-1]
        assert await tasks(s) == []
        assert await decided(s, await s.comment("/coder status")) == "decided", "the next command is a new try"


async def test_rules_under_a_name_that_nobody_reads_are_an_error() -> None:
    files = {name: content for name, content in FILES.items() if name != ".github/coder.yml"}
    async with story({**files, ".github/coder.yaml": b"enabled: false\n"}) as s:
        assert await decided(s, await s.comment()) == "refused: config"
        assert "`.github/coder.yml`" in s.comments[0]


async def test_rules_are_the_default_branchs_whatever_the_base_says() -> None:
    async with story(with_config(CHECKS + "pull_request: {base: develop}\nlimits: {steps: 7}\n")) as s:
        main = s.github.branches(REPOSITORY)["main"]
        assert await decided(s, await s.comment()) == "refused: config"
        assert "names the branch `develop`" in s.comments[0]
        lax = {".github/coder.yml": b"limits: {steps: 399}\n"}
        laxer = await s.github.commit(REPOSITORY, "develop", lax, author="maintainer")
        assert await decided(s, await s.comment()) == "decided"
        [task] = await tasks(s)
        episode = await s.bot.deps.store.last_episode(task.id)
        assert (task.base_branch, task.base_sha, episode.config_sha) == ("develop", laxer, main)
        assert "steps: 7" in (episode.config_text or "")


async def test_an_empty_grant_switches_a_command_off_and_says_so() -> None:
    async with story(with_config(CHECKS + "grants: {fix: [], ask: [read]}\ntrigger: {label: fix-me}\n")) as s:
        assert await decided(s, await s.comment()) == "refused: grants"
        assert "`grants.fix: []`" in s.comments[0]
        delivery = await s.github.label(REPOSITORY, s.issue, "fix-me", author="maintainer")
        assert await decided(s, delivery.guid) == "ignored: switched off"
        assert await tasks(s) == []


async def test_rules_above_a_ceiling_are_refused_with_what_is_allowed() -> None:
    async with story(with_config("limits: {cost: 3}\nmodel: {name: big}\n"), CODER_MAX_COST="2.50") as s:
        assert await decided(s, await s.comment()) == "refused: config"
        assert "`limits.cost` is 3; whoever runs this bot allows at most 2.50" in s.comments[0]
        assert "does not allow the model `big`" in s.comments[0]
        assert "script" not in s.comments[0], "where the operator's files lie is nobody's business"


async def test_what_the_operator_denies_stays_denied_whatever_a_repository_allows() -> None:
    allowing = CHECKS + "commands: {allow: ['python3 *']}\n"
    async with story(with_config(allowing), CODER_DENY_COMMANDS="python3 -m pytest") as s:
        s.script(say(call("run_command", command="python3 -m pytest -q")), fix(), submit())
        await s.comment()
        await s.settle()
        [task] = await tasks(s)
        [refused] = [step.calls[0] for step in await s.bot.deps.store.steps(task.id) if step.number == 1]
        assert "python3 -m pytest" in refused.result
        assert "forbids" in refused.result
        assert await s.code() == "VERIFIED", "checks are the repository's own lines"


async def test_the_agents_commands_reach_the_hosts_that_are_listed_and_no_other() -> None:
    servers = [await asyncio.start_server(_hello, "127.0.0.1", 0) for _ in range(2)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    reach = "\n".join(
        [
            "import os, urllib.request",
            "os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''",
            f"for port in {ports}:",
            "    try:",
            "        print(urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=9).read().decode())",
            "    except OSError as error:",
            "        print('refused', getattr(error, 'code', error))",
        ]
    )
    own = CHECKS + f"commands: {{allow: [python3 reach.py]}}\nnetwork: {{agent: ['127.0.0.1:{ports[0]}']}}\n"
    async with (
        servers[0],
        servers[1],
        story(with_config(own, **{"reach.py": reach.encode()}), CODER_PRIVATE_HOSTS="127.0.0.1") as s,
    ):
        s.script(say(call("run_command", command="python3 reach.py")), fix(), submit())
        await s.comment()
        await s.settle()
        [task] = await tasks(s)
        [first, *_] = await s.bot.deps.store.steps(task.id)
        assert "hello" in first.calls[0].result
        assert "refused 403" in first.calls[0].result


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()
    writer.close()
