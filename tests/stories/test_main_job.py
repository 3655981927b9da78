"""The main job: a comment becomes a verified pull request, and everything a person sees of it."""

from __future__ import annotations

import asyncio

import structlog

from bot.demo import repository
from bot.domain.task import State
from tests.stories.harness import BROKEN, FILES, FIXED, REPOSITORY, call, fix, say, story, submit, with_config


async def test_a_comment_becomes_a_pull_request_with_the_verified_tree() -> None:
    async with story() as s:
        s.script(
            say(call("read_file", path="calc.py")), say(call("run_tests")), fix(), say(call("run_tests")), submit()
        )
        guid = await s.comment("/coder fix")
        with structlog.testing.capture_logs() as logs:
            await s.settle()

        [pull] = s.pull_requests
        [line] = [line for line in logs if line.get("audit") and line["event"] == "published"]
        assert (line["head"], line["by"], line["approved_by"]) == (pull.head_sha, "maintainer", None)
        receipt = await s.bot.deps.store.receipt((await s.bot.deps.store.tasks())[0].id)
        assert receipt is not None
        assert pull.head_tree == receipt.document["tree"]
        assert receipt.document["verdict"] == "Passed"
        assert receipt.document["checks"][0]["passed"] == 1
        assert receipt.document["sandbox"]["id"] != receipt.document["verification_sandbox"]["id"]
        assert s.github.file(REPOSITORY, pull.head_sha, "calc.py") == b"def add(a, b):\n    return a + b\n"
        assert s.github.file(REPOSITORY, pull.head_sha, "test_calc.py") == FILES["test_calc.py"]
        base = s.github.branches(REPOSITORY)["main"]
        changed = await repository.diff(s.github.path(REPOSITORY), base, pull.head_sha)
        assert changed.count(b"diff --git") == 1  # and nothing that running the tests has left behind
        assert pull.title == "Add instead of subtracting"
        assert pull.body.startswith(f"Fixes #{s.issue}\n")
        [comment] = s.comments
        assert f"Done: #{pull.number}" in comment
        delivery = await s.bot.deps.store.delivery(guid)
        assert delivery is not None
        assert delivery.outcome == "decided"
        command = next(c for c in s.github.issue_comments(REPOSITORY, s.issue) if c.body == "/coder fix")
        assert list(s.github.reactions(command.id)) == ["eyes", "rocket"]
        assert await s.code() == "VERIFIED"


async def test_after_the_pull_request_is_closed_nothing_is_left_on_the_engine() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        assert len(await s.containers()) == 2  # the paused work sandbox and its volume
        await s.github.merge_pull(REPOSITORY, s.pull_requests[0].number, author="maintainer")
        await s.settle()
        [task] = await s.bot.deps.store.tasks()
        assert (task.state, task.closed_reason) == (State.CLOSED, "merged")
        assert await s.containers() == []
        assert "Ended: merged" in s.comments[0]


async def test_a_verification_that_fails_goes_back_to_the_agent() -> None:
    async with story() as s:
        s.script(
            fix(new="return a * b"),
            submit(),
            fix(old="return a * b"),
            submit("Add", "Now it adds."),
        )
        await s.comment()
        await s.settle()
        [pull] = s.pull_requests
        assert s.github.file(REPOSITORY, pull.head_sha, "calc.py") == b"def add(a, b):\n    return a + b\n"
        task = (await s.bot.deps.store.tasks())[0]
        steps = await s.bot.deps.store.steps(task.id)
        assert [step.number for step in steps if step.note and "assert 6 == 5" in step.note] == [3]
        assert (await s.bot.deps.store.last_episode(task.id)).attempts == 2


async def test_a_command_on_the_bots_pull_request_goes_on_in_the_same_sandbox() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        first = s.pull_requests[0]
        task = (await s.bot.deps.store.tasks())[0]
        [before] = await s.bot.deps.store.sandboxes(task.id)
        s.script(say(call("write_file", path="NOTES.md", contents="Adds.\n")), submit("Say so", "Notes."))
        await s.comment("/coder fix write a note about it", number=first.number)
        await s.settle()
        [pull] = s.pull_requests
        assert pull.number == first.number
        assert pull.head_sha != first.head_sha
        assert s.github.file(REPOSITORY, pull.head_sha, "NOTES.md") == b"Adds.\n"
        assert s.github.file(REPOSITORY, pull.head_sha, "calc.py") == b"def add(a, b):\n    return a + b\n"
        assert await s.bot.deps.store.sandboxes(task.id) == [before]
        assert len(await s.bot.deps.store.tasks()) == 1
        [asking] = [each for each in s.github.issue_comments(REPOSITORY, first.number) if "a note" in each.body]
        assert f"octo/sample/pull/{first.number}#issuecomment-{asking.id}) by maintainer" in s.comments[0]


async def test_links_are_followed_inside_the_repository_and_nowhere_else() -> None:
    rules = (
        "setup: [mkdir real, ln -s real inside, ln -s /etc outside, ln -s .github rules, ln -s calc.py alias.py]\n"
        "checks: [{name: tests, run: python3 -m pytest -q test_calc.py}]\n"
    )
    ignored = b"/real\n/inside\n/outside\n/rules\n/alias.py\n"
    async with story(with_config(rules, **{".gitignore": ignored})) as s:
        s.script(
            say(
                call("edit_file", path="alias.py", old=BROKEN, new=FIXED),
                call("write_file", path="inside/new.txt", contents="new"),
                call("list_dir", path="inside"),
                call("search", pattern="new", path="inside"),
                call("read_file", path="outside/hostname"),
                call("list_dir", path="outside"),
                call("search", pattern="root", path="outside/passwd"),
                call("write_file", path="rules/coder.yml", contents=""),
                call("remove_file", path="rules/coder.yml"),
            ),
            submit(),
        )
        await s.comment()
        await s.settle()
        assert await s.code() == "VERIFIED"
        assert s.github.file(REPOSITORY, s.pull_requests[0].head_sha, "calc.py") == FILES["calc.py"].replace(
            BROKEN.encode(), FIXED.encode()
        )
        [task] = await s.bot.deps.store.tasks()
        calls = (await s.bot.deps.store.steps(task.id))[0].calls
        assert [item.refused for item in calls] == [False] * 4 + [True] * 5
        assert [item.result for item in calls[1:4]] == [
            "Wrote real/new.txt.",
            "new.txt",
            "real/new.txt:1:new\n",
        ]


async def test_a_question_is_answered_and_nothing_is_changed() -> None:
    async with story() as s:
        s.script(say(call("read_file", path="calc.py")), submit("-", "It subtracts in line 2."))
        await s.comment("/coder ask why is it wrong?")
        await s.settle()
        assert await s.code() == "ANSWERED"
        assert "It subtracts in line 2." in s.comments[0]
        assert not s.pull_requests


async def test_stop_ends_the_work_at_once_and_retry_goes_on_with_what_was_done() -> None:
    async with story() as s:
        s.script(fix(), say(call("run_command", command="python3 -m pytest -q")), submit())
        await s.comment()
        working = asyncio.create_task(s.bot.work())
        await s.until(State.WORKING)
        await s.comment("/coder stop")
        await s.until(State.WAITING)
        working.cancel()
        await asyncio.wait([working])
        await s.bot.engine.recover()
        await s.settle()
        assert await s.code() == "STOPPED"
        assert "Stopped by" in s.comments[0]
        assert len(await s.containers()) == 2
        s.script(say(call("write_file", path="calc.py", contents="def add(a, b):\n    return a + b\n")), submit())
        await s.comment("/coder retry")
        await s.settle()
        assert len(s.pull_requests) == 1
        assert len(await s.bot.deps.store.tasks()) == 1


async def test_a_sandbox_that_is_truly_gone_is_made_anew_and_the_work_is_brought_back() -> None:
    async with story() as s:
        s.script(say(call("write_file", path="NOTES.md", contents="kept\n")), submit())
        await s.comment()
        await s.settle()
        assert await s.code() == "CHECKS_FAILED"
        task = (await s.bot.deps.store.tasks())[0]
        [record] = await s.bot.deps.store.sandboxes(task.id)
        assert record.provider_id is not None
        await s.bot.deps.provider.kill(record.provider_id)
        s.script(fix(), submit())
        await s.comment("/coder retry")
        await s.settle()
        [pull] = s.pull_requests
        assert s.github.file(REPOSITORY, pull.head_sha, "NOTES.md") == b"kept\n"
        assert s.github.file(REPOSITORY, pull.head_sha, "calc.py") == b"def add(a, b):\n    return a + b\n"


async def test_publishing_twice_changes_nothing() -> None:
    async with story() as s:
        s.script(fix(), submit())
        await s.comment()
        await s.settle()
        first = s.pull_requests[0]
        task = (await s.bot.deps.store.tasks())[0]
        from dataclasses import replace

        from bot.domain.task import Stage

        lease = await s.bot.deps.store.lease(task.id)
        # As if the process had died after GitHub had everything and before we had saved it.
        lost = replace(
            task, state=State.VERIFYING, pull_request=None, pull_request_url=None, head_branch=None, head_sha=None
        )
        episode = await s.bot.deps.store.last_episode(task.id)
        await s.bot.deps.store.save(lease, lost, episode, stage=Stage.PUBLISH, now=task.updated_at)
        await s.settle()
        [pull] = s.pull_requests
        assert (pull.number, pull.head_sha) == (first.number, first.head_sha)
        assert (await s.bot.deps.store.tasks())[0].pull_request == first.number
        assert len(s.comments) == 1


async def test_set_up_reaches_the_listed_host_and_the_agent_reaches_nothing() -> None:
    server = await asyncio.start_server(_hello, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fetch = (
        f"import urllib.request as u; open('fetched.txt','wb').write(u.urlopen('http://127.0.0.1:{port}/').read())"
    )
    rules = (
        f'setup:\n  - python3 -c "{fetch}"\n'
        f"network: {{setup: ['127.0.0.1:{port}']}}\n"
        "checks: [{name: tests, run: python3 -m pytest -q}]\n"
    )
    files = with_config(
        rules,
        **{
            ".gitignore": b"fetched.txt\n",
            "test_net.py": (
                "import socket, pytest, pathlib\n\n"
                "def test_setup_fetched():\n    assert pathlib.Path('fetched.txt').read_text() == 'hello'\n\n"
                "def test_no_way_out():\n"
                "    with pytest.raises(OSError):\n"
                f"        socket.create_connection(('127.0.0.1', {port}), timeout=2)\n"
            ).encode(),
        },
    )
    # The story's own settings list only its GitHub; this host is private as well.
    async with server, story(files, CODER_PRIVATE_HOSTS="127.0.0.1") as s:
        s.script(fix(), say(call("run_tests")), submit())
        await s.comment()
        await s.settle()
        assert await s.code() == "VERIFIED"


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()
    writer.close()
