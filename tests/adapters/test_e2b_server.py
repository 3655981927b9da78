"""The E2B-compatible server, driven by the real SDK: commands, files, and a sandbox's life."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
from collections.abc import AsyncIterator
from typing import Any

import e2b
import httpx
import pytest
import pytest_asyncio

from tests.e2b_server import E2BServer
from tests.e2b_server.client import Client, client_of, until


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Client]:
    async with E2BServer() as server:
        yield client_of(server)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(shared: Client) -> AsyncIterator[e2b.AsyncSandbox]:
    """A sandbox for tests that leave it as it was."""
    async with shared.sandbox(envs={"OF_SANDBOX": "1"}, timeout=3600) as made:
        yield made


@pytest.fixture
def client(shared: Client) -> Client:
    shared.server.faults.clear()
    shared.server.faults.seen.clear()
    shared.server.limit(max_lifetime_s=24 * 3600, max_running=100)
    return shared


class TestCommands:
    async def test_streams_are_kept_apart_and_environment_and_folder_are_as_asked(
        self, box: e2b.AsyncSandbox
    ) -> None:
        done = await box.commands.run(
            'echo "$OF_SANDBOX $OF_CALL $USER"; pwd; echo err >&2', envs={"OF_CALL": "2"}, cwd="/tmp"
        )
        assert (done.exit_code, done.stdout, done.stderr) == (0, "1 2 coder\n/tmp\n", "err\n")

    async def test_commands_run_as_the_images_user_in_its_folder_or_as_another_one(
        self, box: e2b.AsyncSandbox
    ) -> None:
        assert (await box.commands.run("id -u; pwd")).stdout == "1000\n/workspace\n"
        assert (await box.commands.run("id -u", user="root")).stdout == "0\n"

    async def test_a_status_that_is_not_zero_raises(self, box: e2b.AsyncSandbox) -> None:
        with pytest.raises(e2b.CommandExitException) as caught:
            await box.commands.run("echo hi; exit 3")
        assert (caught.value.exit_code, caught.value.stdout, caught.value.error) == (3, "hi\n", "exit status 3")

    async def test_a_timeout_ends_the_process_that_was_started(self, box: e2b.AsyncSandbox) -> None:
        with pytest.raises(e2b.TimeoutException):
            await box.commands.run("echo $$ > /tmp/timed; exec sleep 300", timeout=1)

        async def ended() -> bool:
            return "sleep 300" not in str(await box.commands.list())

        await until(ended)
        assert (await box.commands.run("kill -0 $(cat /tmp/timed) 2>/dev/null || echo gone")).stdout == "gone\n"

    async def test_kill_reaches_one_process_and_not_its_children(self, box: e2b.AsyncSandbox) -> None:
        handle = await box.commands.run("sleep 300 & echo $! > /tmp/child; wait", background=True, timeout=0)

        async def began() -> bool:
            return await box.files.exists("/tmp/child") and bool(await box.files.read("/tmp/child"))

        await until(began)
        assert await handle.kill()
        with pytest.raises(e2b.CommandExitException) as caught:
            await handle.wait()
        assert (caught.value.exit_code, caught.value.error) == (-1, "signal: killed")
        assert (await box.commands.run("kill $(cat /tmp/child) && echo lived")).stdout == "lived\n"

    async def test_a_process_has_no_group_of_its_own(self, box: e2b.AsyncSandbox) -> None:
        assert (await box.commands.run("ps -o pgid= -p $$")).stdout.strip() == "1"

    async def test_a_pid_that_is_unknown(self, box: e2b.AsyncSandbox) -> None:
        assert not await box.commands.kill(99999)
        with pytest.raises(e2b.NotFoundException):
            await box.commands.connect(99999)

    async def test_what_nobody_listened_to_is_lost(self, box: e2b.AsyncSandbox) -> None:
        command = "echo first; until [ -e /tmp/go ]; do sleep 0.05; done; echo last"
        handle = await box.commands.run(command, background=True, timeout=0)
        await handle.disconnect()
        again = await box.commands.connect(handle.pid, timeout=0)
        await box.files.write("/tmp/go", "")
        assert (await again.wait()).stdout == "last\n"

    async def test_after_its_end_only_the_status_is_there(self, box: e2b.AsyncSandbox) -> None:
        handle = await box.commands.run("echo lost; exit 5", background=True, timeout=0)

        async def ended() -> bool:
            return handle.pid not in [process.pid for process in await box.commands.list()]

        await until(ended)
        late = await box.commands.connect(handle.pid)
        with pytest.raises(e2b.CommandExitException) as caught:
            await late.wait()
        assert (caught.value.exit_code, caught.value.stdout) == (5, "")

    async def test_a_child_that_holds_the_output_open_is_waited_for(self, box: e2b.AsyncSandbox) -> None:
        done = await box.commands.run("(sleep 0.5; echo late) & echo now")
        assert done.stdout == "now\nlate\n"

    async def test_a_child_that_does_not_hold_it_is_not(self, box: e2b.AsyncSandbox) -> None:
        await box.commands.run("(until [ -e /tmp/ok ]; do sleep 0.05; done; touch /tmp/after) >/dev/null 2>&1 &")
        assert not await box.files.exists("/tmp/after")
        await box.files.write("/tmp/ok", "")
        await until(lambda: box.files.exists("/tmp/after"))

    async def test_who_stops_waiting_does_not_end_the_process(self, box: e2b.AsyncSandbox) -> None:
        waiting = asyncio.create_task(box.commands.run("exec sleep 299", timeout=0))

        async def runs() -> bool:
            return "exec sleep 299" in str(await box.commands.list())

        await until(runs)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await runs()
        [process] = [process for process in await box.commands.list() if "exec sleep 299" in process.args]
        assert await box.commands.kill(process.pid)

    async def test_bytes_are_whole_on_the_wire(self, shared: Client, box: e2b.AsyncSandbox) -> None:
        messages = await shared.start(box, r"printf '\xff\x00\xfeA'")
        [out] = [message["event"]["data"]["stdout"] for message in messages if "data" in message.get("event", {})]
        assert base64.b64decode(out) == b"\xff\x00\xfeA"
        assert messages[-2:] == [
            {"event": {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}},
            {},
        ]

    async def test_a_silent_stream_is_kept_alive(self, shared: Client, box: e2b.AsyncSandbox) -> None:
        messages = await shared.start(box, "sleep 1", **{"Keepalive-Ping-Interval": "0.1"})
        assert {"event": {"keepalive": {}}} in messages

    async def test_much_output_comes_whole(self, box: e2b.AsyncSandbox) -> None:
        done = await box.commands.run("head -c 5000000 /dev/zero | tr '\\0' x")
        assert len(done.stdout) == 5_000_000

    async def test_stdin_to_its_end(self, box: e2b.AsyncSandbox) -> None:
        handle = await box.commands.run("cat; echo done", background=True, stdin=True, timeout=0)
        await handle.send_stdin("hello\n")
        await handle.close_stdin()
        assert (await handle.wait()).stdout == "hello\ndone\n"

    async def test_stdin_as_a_stream(self, box: e2b.AsyncSandbox) -> None:
        handle = await box.commands.run("cat", background=True, stdin=True, timeout=0)
        async with box.commands.stream_input(handle.pid) as stream:
            await stream.send("a\n")
            await stream.send("b\n")
        await handle.close_stdin()
        assert (await handle.wait()).stdout == "a\nb\n"

    async def test_a_user_or_a_folder_that_is_not_there(self, box: e2b.AsyncSandbox) -> None:
        with pytest.raises(e2b.AuthenticationException):
            await box.commands.run("true", user="nobody-here")
        with pytest.raises(e2b.InvalidArgumentException):
            await box.commands.run("true", cwd="/nope")

    async def test_a_wrong_token_is_refused(self, client: Client, box: e2b.AsyncSandbox) -> None:
        sent = {"E2b-Sandbox-Id": box.sandbox_id, "X-Access-Token": "wrong"}
        async with httpx.AsyncClient(base_url=client.server.url, trust_env=False) as http:
            assert (await http.post("/process.Process/List", json={}, headers=sent)).status_code == 401
            assert (await http.get("/files", params={"path": "/etc/passwd"}, headers=sent)).status_code == 401
            assert (await http.get("/health", headers=sent)).status_code == 204
            closed = await http.get("/health", headers=sent | {"E2b-Sandbox-Port": "3000"})
        assert (closed.status_code, closed.json()["message"]) == (502, "The sandbox is running but port is not open")

    async def test_no_command_gets_at_envd(self, box: e2b.AsyncSandbox) -> None:
        with pytest.raises(e2b.CommandExitException):
            await box.commands.run("kill -9 1 || ls /root/e2b")

    async def test_a_fork_bomb_does_not_keep_its_end_from_starting(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            await sandbox.commands.run("(f() { f | f & }; f) >/dev/null 2>&1 &", timeout=30)
            assert (await sandbox.commands.run("kill -KILL -1", timeout=60)).exit_code == 0

            async def ended() -> bool:
                return bool((await sandbox.commands.run("ps -u coder -o comm=")).stdout == "ps\n")

            await until(ended)  # what was killed takes a while to go


class TestFiles:
    async def test_every_byte_comes_back(self, box: e2b.AsyncSandbox) -> None:
        content = bytes(range(256)) * 5000
        written = await box.files.write("/workspace/a/b/bytes", content)
        assert written.path == "/workspace/a/b/bytes"
        assert bytes(await box.files.read("/workspace/a/b/bytes", format="bytes")) == content
        info = await box.files.get_info("/workspace/a/b/bytes")
        assert (info.size, info.mode, info.owner) == (len(content), 0o644, "coder")
        assert (await box.files.get_info("/workspace/a")).owner == "coder"

    async def test_a_stream_up_and_a_stream_down_that_stops_early(self, box: e2b.AsyncSandbox) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"z" * 100_000

        await box.files.write("/tmp/big", pieces())
        assert (await box.files.get_info("/tmp/big")).size == 10_000_000
        async with await box.files.read("/tmp/big", format="stream") as stream:
            assert await anext(aiter(stream))
        assert (await box.commands.run("rm /tmp/big")).exit_code == 0

    async def test_folders(self, box: e2b.AsyncSandbox) -> None:
        assert await box.files.make_dir("/tmp/d/e")
        assert not await box.files.make_dir("/tmp/d/e")
        await box.files.write("/tmp/d/f", "")
        assert [entry.name for entry in await box.files.list("/tmp/d")] == ["e", "f"]
        await box.files.rename("/tmp/d/f", "/tmp/d/e/g")
        assert [entry.path for entry in await box.files.list("/tmp/d", depth=2)] == ["/tmp/d/e", "/tmp/d/e/g"]
        await box.files.remove("/tmp/d")
        assert not await box.files.exists("/tmp/d")
        await box.files.remove("/tmp/d")  # no error

    async def test_what_is_not_there(self, box: e2b.AsyncSandbox) -> None:
        for call in (box.files.read, box.files.list, box.files.get_info):
            with pytest.raises(e2b.FileNotFoundException):
                await call("/tmp/nowhere")
        with pytest.raises(e2b.InvalidArgumentException):
            await box.files.read("/tmp")

    async def test_a_relative_path_is_below_home(self, box: e2b.AsyncSandbox) -> None:
        assert (await box.files.write("r.txt", "x")).path == "/workspace/.home/r.txt"

    async def test_writing_follows_links_as_root(self, box: e2b.AsyncSandbox) -> None:
        await box.commands.run("ln -s /usr/local /workspace/out")
        await box.files.write("/workspace/out/pwned", "x")
        assert (await box.commands.run("stat -c %U /usr/local/pwned; rm /workspace/out")).stdout == "coder\n"


class TestLifecycle:
    async def test_metadata_state_and_pages(self, client: Client) -> None:
        odd = {"task": "a/b c#1&d=e", "kind": "list"}
        async with client.sandbox(metadata=odd) as first, client.sandbox(metadata={"kind": "list"}) as second:
            await second.pause()

            async def found(**query: Any) -> list[str]:
                page = client.sandboxes.list(query=e2b.SandboxQuery(**query))
                return [info.sandbox_id for info in await page.next_items()]

            assert await found(metadata=odd) == [first.sandbox_id]
            assert await found(metadata={"kind": "list"}) == [second.sandbox_id, first.sandbox_id]
            assert await found(metadata={"kind": "list"}, state=[e2b.SandboxState.PAUSED]) == [second.sandbox_id]
            assert await found(metadata={"kind": "other"}) == []
            pages = client.sandboxes.list(query=e2b.SandboxQuery(metadata={"kind": "list"}), limit=1, order="asc")
            one, two = await pages.next_items(), await pages.next_items()
            assert [info.sandbox_id for info in one + two] == [first.sandbox_id, second.sandbox_id]
            assert not pages.has_next

    async def test_a_repeated_key_gives_the_same_sandbox_while_it_lives(self, client: Client) -> None:
        made = await asyncio.gather(*(client.sandboxes.create("base", idempotency_key="k-1") for _ in range(2)))
        assert made[0].sandbox_id == made[1].sandbox_id
        await made[0].kill()
        async with client.sandbox(idempotency_key="k-1") as other:
            assert other.sandbox_id != made[0].sandbox_id

    async def test_the_default_is_to_live_five_minutes_and_die(self, client: Client) -> None:
        async with client.sandbox(timeout=None) as sandbox:
            info = await sandbox.get_info()
            assert (info.end_at - info.started_at).total_seconds() == pytest.approx(300, abs=1)
            assert info.lifecycle
            assert info.lifecycle["on_timeout"] == "kill"

    async def test_a_full_pause_keeps_processes(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            handle = await sandbox.commands.run(
                "until [ -e /tmp/go ]; do sleep 0.05; done", background=True, timeout=0
            )
            assert await sandbox.pause()
            assert not await sandbox.pause()
            with pytest.raises(e2b.SandboxNotRunningException):
                await handle.wait()
            assert not await sandbox.is_running()
            for call in (sandbox.commands.run("true"), sandbox.files.read("/etc/passwd")):
                with pytest.raises(e2b.SandboxNotRunningException):
                    await call
            with pytest.raises(e2b.SandboxNotFoundException):
                await sandbox.set_timeout(60)
            again = await client.sandboxes.connect(sandbox.sandbox_id, timeout=60)
            resumed = await again.commands.connect(handle.pid, timeout=60)
            await again.files.write("/tmp/go", "")
            assert (await resumed.wait()).exit_code == 0

    @pytest.mark.parametrize(("mode", "on_resume"), [("filesystem", "restore"), ("full", "reboot")])
    async def test_a_reboot_keeps_files_alone(self, client: Client, mode: Any, on_resume: Any) -> None:
        async with client.sandbox() as sandbox:
            await sandbox.files.write("/workspace/kept", "x")
            handle = await sandbox.commands.run("sleep 300", background=True, timeout=0)
            await sandbox.pause(mode=mode)
            again = await client.sandboxes.connect(sandbox.sandbox_id, timeout=60, on_resume=on_resume)
            assert await again.files.read("/workspace/kept") == "x"
            assert await again.commands.list() == []
            with pytest.raises(e2b.NotFoundException):
                await again.commands.connect(handle.pid)

    async def test_connect_only_ever_extends(self, client: Client) -> None:
        async with client.sandbox(timeout=300) as sandbox:
            end = (await sandbox.get_info()).end_at
            await client.sandboxes.connect(sandbox.sandbox_id, timeout=10)
            assert (await sandbox.get_info()).end_at == end
            await client.sandboxes.connect(sandbox.sandbox_id, timeout=900)
            assert (await sandbox.get_info()).end_at > end
            await sandbox.set_timeout(100)
            assert (await sandbox.get_info()).end_at < end

    async def test_the_plan_bounds_one_run_and_a_pause_begins_another(self, client: Client) -> None:
        client.server.limit(max_lifetime_s=1000)
        with pytest.raises(e2b.SandboxException, match="400"):
            await client.sandboxes.create("base", timeout=1001)
        async with client.sandbox(timeout=1000) as sandbox:
            before = await sandbox.get_info()
            await client.server.advance(500)
            await sandbox.set_timeout(1000)
            assert (await sandbox.get_info()).end_at == before.started_at + dt.timedelta(seconds=1000)
            await sandbox.pause()
            await client.sandboxes.connect(sandbox.sandbox_id, timeout=1000)
            after = await sandbox.get_info()
            assert after.started_at > before.started_at
            assert after.end_at > before.end_at

    async def test_its_time_is_up_without_anybody_asking(self, client: Client) -> None:
        async with client.sandbox(timeout=1) as sandbox:

            async def gone() -> bool:
                return sandbox.sandbox_id not in client.server.sandbox_ids

            await until(gone)

    async def test_a_pause_at_the_timeout_lasts_a_week(self, client: Client) -> None:
        async with client.sandbox(timeout=600, lifecycle={"on_timeout": "pause"}) as sandbox:
            await sandbox.files.write("/workspace/f", "x")
            await client.server.advance(599)
            assert await client.state(sandbox) == "running"
            await client.server.advance(7 * 24 * 3600)
            assert await client.state(sandbox) == "paused"
            again = await client.sandboxes.connect(sandbox.sandbox_id, timeout=60)
            assert await again.files.read("/workspace/f") == "x"

    async def test_traffic_wakes_what_resumes_by_itself(self, client: Client) -> None:
        async with client.sandbox(lifecycle={"on_timeout": "pause", "auto_resume": True}) as sandbox:
            await sandbox.pause()
            assert (await sandbox.commands.run("echo up")).stdout == "up\n"

    async def test_killed_is_gone(self, client: Client) -> None:
        sandbox = await client.sandboxes.create("base", timeout=60)
        handle = await sandbox.commands.run("sleep 300", background=True, timeout=0)
        assert await sandbox.kill()
        assert not await sandbox.kill()
        with pytest.raises(e2b.SandboxNotRunningException):
            await handle.wait()
        with pytest.raises(e2b.SandboxNotRunningException):
            await sandbox.commands.run("true")
        for call in (sandbox.get_info, sandbox.pause, lambda: client.sandboxes.connect(sandbox.sandbox_id)):
            with pytest.raises(e2b.SandboxNotFoundException):
                await call()

    async def test_a_paused_one_can_be_killed(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            await sandbox.pause()
            assert await sandbox.kill()

    async def test_a_machine_that_dies_takes_its_sandbox_along(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            container = await client.server.container(sandbox.sandbox_id)
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")) as http:
                await http.post(f"http://d/containers/{container}/kill")
            with pytest.raises(e2b.SandboxException):
                await sandbox.commands.run("true")
            with pytest.raises(e2b.SandboxNotFoundException):
                await sandbox.get_info()

    async def test_a_wrong_key_and_an_unknown_template(self, client: Client) -> None:
        with pytest.raises(e2b.AuthenticationException):
            await client.sandboxes.create("base", api_key="wrong")
        with pytest.raises(e2b.SandboxException, match="404"):
            await client.sandboxes.create("no-such-template")

    async def test_only_what_runs_counts_as_concurrent(self, client: Client) -> None:
        running = sum(info.state == e2b.SandboxState.RUNNING for info in await client.sandboxes.list().next_items())
        client.server.limit(max_running=running + 1)
        async with client.sandbox() as sandbox:
            with pytest.raises(e2b.RateLimitException):
                await client.sandboxes.create("base", retries=0)
            await sandbox.pause()
            async with client.sandbox():
                with pytest.raises(e2b.RateLimitException):
                    await client.sandboxes.connect(sandbox.sandbox_id, timeout=60, retries=0)

    async def test_the_older_routes_do_the_same(self, client: Client) -> None:
        made = (await client.raw("POST", "/sandboxes", json={"templateID": "base"})).json()
        again = await client.raw("POST", f"/sandboxes/{made['sandboxID']}/connect", json={"timeout": 60})
        assert (again.status_code, again.json()["sandboxID"]) == (200, made["sandboxID"])
        assert (await client.raw("DELETE", f"/sandboxes/{made['sandboxID']}")).status_code == 204
