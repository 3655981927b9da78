"""The E2B-compatible server, driven by the real SDK: snapshots, the network, each trouble on demand, and its end."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import e2b
import httpx
import pytest
import pytest_asyncio

from tests.e2b_server import Cut, E2BServer, LostFiles, NoEnd, OtherId, Refuse, Slow
from tests.e2b_server.client import Client, client_of, until
from tests.e2b_server.engine import RUN
from tests.e2b_server.firewall import complaint, permits

ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Client]:
    async with E2BServer() as server:
        yield client_of(server)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(shared: Client) -> AsyncIterator[e2b.AsyncSandbox]:
    """A sandbox for tests that leave it as it was."""
    async with shared.sandbox(timeout=3600) as made:
        yield made


@pytest.fixture
def client(shared: Client) -> Client:
    shared.server.faults.clear()
    shared.server.faults.seen.clear()
    shared.server.limit(max_lifetime_s=24 * 3600, max_running=100)
    return shared


async def on_engine(run: str) -> list[str]:
    """What the Docker engine has of one run of the server."""
    found: list[str] = []
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")) as http:
        for path in ("containers", "images"):
            params = {"filters": json.dumps({"label": [f"{RUN}={run}"]})} | ({"all": "1"} if path[0] == "c" else {})
            found += [str(one["Id"]) for one in (await http.get(f"http://d/{path}/json", params=params)).json()]
    return found


class TestSnapshots:
    async def test_a_sandbox_starts_from_the_files_of_another(self, client: Client) -> None:
        async with client.sandbox(envs={"SECRET": "1"}) as sandbox:
            await sandbox.files.write("/workspace/warm", "x")
            handle = await sandbox.commands.run("sleep 300", background=True, timeout=0)
            snapshot = await sandbox.create_snapshot(mode="filesystem")
            with pytest.raises(e2b.SandboxException):
                await handle.wait()  # taking it ended all connections
            assert handle.pid in [process.pid for process in await sandbox.commands.list()]
            await sandbox.files.write("/workspace/warm", "changed since")
        assert [info.snapshot_id for info in await client.sandboxes.list_snapshots().next_items()] == [
            snapshot.snapshot_id
        ]
        async with client.sandbox(snapshot.snapshot_id) as other:
            assert (await other.commands.run('cat warm; id -u; echo "$SECRET"')).stdout == "x1000\n\n"
            assert await client.sandboxes.delete_snapshot(snapshot.snapshot_id)
            assert (await other.commands.run("cat warm")).stdout == "x"
        assert not await client.sandboxes.delete_snapshot(snapshot.snapshot_id)
        with pytest.raises(e2b.SandboxException, match="404"):
            await client.sandboxes.create(snapshot.snapshot_id)

    async def test_memory_and_a_paused_sandbox_are_refused(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            with pytest.raises(e2b.SandboxException, match="400"):
                await sandbox.create_snapshot()
            await sandbox.pause()
            with pytest.raises(e2b.SandboxException, match="409"):
                await sandbox.create_snapshot(mode="filesystem")
            assert client.server.snapshot_ids == set()

    async def test_templates_are_known_by_name(self, client: Client) -> None:
        assert await client.sdk.AsyncTemplate.exists("base")
        assert not await client.sdk.AsyncTemplate.exists("other")
        [tag] = await client.sdk.AsyncTemplate.get_tags("base")
        assert (tag.tag, len(tag.build_id)) == ("default", 36)


class TestNetwork:
    @pytest.fixture
    async def page(self) -> AsyncIterator[str]:
        """A page of this machine's own."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

    @staticmethod
    async def fetch(sandbox: e2b.AsyncSandbox, url: str) -> str:
        """What comes back, or the last line of what went wrong."""
        command = (
            f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode())' 2>&1 | tail -1"
        )
        by_proxy = {"no_proxy": "", "NO_PROXY": ""}
        return str((await sandbox.commands.run(command, envs=by_proxy)).stdout).strip()

    async def test_an_update_replaces_all_and_holds_for_a_running_sandbox(self, page: str) -> None:
        async with E2BServer(private_addresses=True) as server:
            client = client_of(server)
            async with client.sandbox(network={"allow_out": ["127.0.0.1"], "deny_out": ["0.0.0.0/0"]}) as sandbox:
                assert await self.fetch(sandbox, page) == "hello"
                await sandbox.update_network({"allow_out": ["10.0.0.1"], "deny_out": ["0.0.0.0/0"]})
                assert "Remote end closed connection" in await self.fetch(sandbox, page)
                network = (await sandbox.get_info()).network
                assert network
                assert network["allow_out"] == ["10.0.0.1"]
                await sandbox.update_network({})
                assert await self.fetch(sandbox, page) == "hello"
                await sandbox.update_network({"allow_internet_access": False})
                assert "Remote end closed connection" in await self.fetch(sandbox, page)
            async with client.sandbox(allow_internet_access=False) as offline:
                assert "Remote end closed connection" in await self.fetch(offline, page)

    async def test_this_machine_is_out_of_reach_without_the_switch(self, client: Client, page: str) -> None:
        async with client.sandbox(network={"allow_out": ["127.0.0.1"]}) as sandbox:
            assert "Remote end closed connection" in await self.fetch(sandbox, page)

    async def test_a_domain_without_a_closed_rest_is_refused(self, client: Client) -> None:
        with pytest.raises(e2b.SandboxException, match="ALL_TRAFFIC"):
            await client.sandboxes.create("base", network={"allow_out": ["example.org"]})
        async with client.sandbox() as sandbox:
            with pytest.raises(e2b.SandboxException, match="ALL_TRAFFIC"):
                await sandbox.update_network({"allow_out": ["example.org"]})

    @pytest.mark.parametrize(
        ("network", "host", "port", "permitted"),
        [
            ({}, "example.org", 443, True),
            ({"allow_internet_access": False}, "example.org", 443, False),
            ({"denyOut": ["0.0.0.0/0"]}, "example.org", 443, False),
            ({"denyOut": ["8.8.0.0/16"]}, "example.org", 443, False),
            ({"allowOut": ["example.org"], "denyOut": ["0.0.0.0/0"]}, "example.org", 443, True),
            ({"allowOut": ["example.org"], "denyOut": ["0.0.0.0/0"]}, "example.org", 22, False),
            ({"allowOut": ["example.org"], "denyOut": ["0.0.0.0/0"]}, "a.example.org", 443, False),
            ({"allowOut": ["*.example.org"], "denyOut": ["0.0.0.0/0"]}, "a.example.org", 80, True),
            ({"allowOut": ["*.example.org"], "denyOut": ["0.0.0.0/0"]}, "example.org", 80, False),
            ({"allowOut": ["8.8.8.8"], "denyOut": ["0.0.0.0/0"]}, "example.org", 22, True),
            ({"allowOut": ["example.org"], "allow_internet_access": False}, "example.org", 443, True),
        ],
    )
    def test_rules(self, network: dict[str, Any], host: str, port: int, permitted: bool) -> None:
        address = ipaddress.ip_address("8.8.8.8")
        assert permits(network, host, port, address, private_addresses=False) is permitted

    def test_a_private_address_is_closed_whatever_the_rules_say(self) -> None:
        for text in ("127.0.0.1", "10.1.2.3", "169.254.169.254", "::1"):
            rules = {"allowOut": [text, "example.org"], "denyOut": ["0.0.0.0/0"]}
            address = ipaddress.ip_address(text)
            assert not permits(rules, "example.org", 443, address, private_addresses=False)
            assert permits(rules, "example.org", 443, address, private_addresses=True)

    def test_configurations_that_are_refused(self) -> None:
        assert complaint({"denyOut": ["example.org"]})
        assert complaint({"allowOut": ["example.org:443"], "denyOut": ["0.0.0.0/0"]})
        assert complaint({"dnsServers": ["example.org"]})
        assert complaint({"allowOut": ["*.example.org", "10.0.0.0/8"], "denyOut": ["0.0.0.0/0"]}) is None


class TestFaults:
    async def test_503_after_creating_makes_two_without_a_key_and_one_with(self, client: Client) -> None:
        before = client.server.sandbox_ids
        client.server.faults.on("create", Refuse(status=503, done=True))
        async with client.sandbox() as made:
            [lost] = client.server.sandbox_ids - before - {made.sandbox_id}
            await client.sandboxes.kill(lost)
        client.server.faults.on("create", Refuse(status=503, done=True))
        async with client.sandbox(idempotency_key="once") as made:
            assert client.server.sandbox_ids - before == {made.sandbox_id}
        assert client.server.faults.seen["create"] == 4

    async def test_429_says_when_to_come_again(self, client: Client) -> None:
        client.server.faults.on("create", Refuse(status=429, retry_after_s=0), times=2)
        async with client.sandbox():
            assert client.server.faults.seen["create"] == 3
        client.server.faults.on("create", Refuse(status=429))
        with pytest.raises(e2b.RateLimitException):
            await client.sandboxes.create("base", retries=0)

    async def test_502_while_resuming(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            await sandbox.pause()
            client.server.faults.on("connect", Refuse(status=502))
            with pytest.raises(e2b.SandboxException):
                await client.sandboxes.connect(sandbox.sandbox_id, timeout=60, retries=0)
            assert await client.state(sandbox) == "paused"
            await client.sandboxes.connect(sandbox.sandbox_id, timeout=60)

    async def test_files_are_lost_on_resume(self, client: Client) -> None:
        async with client.sandbox() as sandbox:
            await sandbox.files.write("/workspace/f", "x")
            await sandbox.pause(mode="filesystem")
            client.server.faults.on("connect", LostFiles())
            again = await client.sandboxes.connect(sandbox.sandbox_id, timeout=60)
            assert not await again.files.exists("/workspace/f")

    async def test_another_id_on_connect(self, client: Client) -> None:
        async with client.sandbox(metadata={"task": "1"}) as sandbox:
            await sandbox.pause()
            client.server.faults.on("connect", OtherId())
            other = await client.sandboxes.connect(sandbox.sandbox_id, timeout=60)
            assert other.sandbox_id != sandbox.sandbox_id
            assert (await other.get_info()).metadata == {"task": "1"}
            await other.kill()

    async def test_a_stream_that_breaks_leaves_the_command_running(
        self, client: Client, box: e2b.AsyncSandbox
    ) -> None:
        client.server.faults.on("Start", Cut(messages=2))
        said: list[str] = []
        with pytest.raises(e2b.SandboxException):
            await box.commands.run("echo hi; sleep 1; touch /tmp/done", on_stdout=said.append)
        assert said == ["hi\n"]
        await until(lambda: box.files.exists("/tmp/done"))

    async def test_a_stream_without_an_end(self, client: Client, box: e2b.AsyncSandbox) -> None:
        client.server.faults.on("Start", NoEnd())
        with pytest.raises(Exception, match="without an end event"):
            await box.commands.run("echo hi")

    async def test_a_page_that_is_no_json(self, client: Client) -> None:
        client.server.faults.on("create", Refuse(status=500, page=True))
        with pytest.raises(json.JSONDecodeError):
            await client.sandboxes.create("base")
        client.server.faults.on("kill", Refuse(status=500, page=True))
        with pytest.raises(json.JSONDecodeError):
            await client.sandboxes.kill("i0")

    async def test_a_create_that_was_given_up_appears_later(self, client: Client) -> None:
        before = client.server.sandbox_ids
        client.server.faults.on("create", Slow(seconds=1))
        with pytest.raises(httpx.TimeoutException):
            await client.sandboxes.create("base", request_timeout=0.3)

        async def appeared() -> bool:
            return bool(client.server.sandbox_ids - before)

        await until(appeared)
        [late] = client.server.sandbox_ids - before
        assert await client.sandboxes.kill(late)

    async def test_envds_own_refusals(self, client: Client, box: e2b.AsyncSandbox) -> None:
        client.server.faults.on("read", Refuse(status=507), skip=1)
        await box.files.read("/etc/hostname")
        with pytest.raises(e2b.NotEnoughSpaceException):
            await box.files.read("/etc/hostname")
        assert (client.server.faults.unused, client.server.faults.seen["read"]) == (0, 2)

    def test_a_misspelt_call_is_an_error(self, client: Client) -> None:
        with pytest.raises(ValueError, match="no such call"):
            client.server.faults.on("creat", NoEnd())  # type: ignore[arg-type]


class TestServer:
    async def test_leaving_it_leaves_nothing(self) -> None:
        async with E2BServer() as server:
            client = client_of(server)
            first, second = await asyncio.gather(*(client.sandboxes.create("base") for _ in range(2)))
            await first.commands.run("sleep 300", background=True, timeout=0)
            await second.create_snapshot(mode="filesystem")
            await second.pause()
            server.faults.on("create", Slow(seconds=300))
            hanging = asyncio.create_task(client.sandboxes.create("base", request_timeout=0, retries=0))

            async def asked() -> bool:
                return server.faults.seen["create"] == 3

            await until(asked)
            creating = asyncio.create_task(client.sandboxes.create("base", request_timeout=0, retries=0))

            async def making() -> bool:
                return server.faults.seen["create"] == 4

            await until(making)
            assert len(await on_engine(server.run)) >= 3
        assert await on_engine(server.run) == []
        for task in (hanging, creating):
            with pytest.raises(httpx.TransportError):
                await task

    async def test_as_a_process_and_what_it_left_when_it_was_killed(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.e2b_server", "--template", "mine", cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout
        told = json.loads(await process.stdout.readline())
        sdk = e2b.E2B(api_url=told["api_url"], sandbox_url=told["sandbox_url"], api_key=told["api_key"])
        made = await sdk.AsyncSandbox.create("mine", timeout=600)
        assert (await made.commands.run("echo hi")).stdout == "hi\n"
        [container] = await on_engine(told["run"])
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")) as http:
            [mount] = (await http.get(f"http://d/containers/{container}/json")).json()["Mounts"]
        process.kill()
        await process.wait()
        assert await on_engine(told["run"])
        async with E2BServer() as other:
            assert await on_engine(told["run"]) == []
            assert other.sandbox_ids == set()
            assert not Path(mount["Source"]).parent.exists()

    async def test_as_a_process_that_is_told_to_end(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.e2b_server", cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout
        told = json.loads(await process.stdout.readline())
        await e2b.E2B(**{k: told[k] for k in ("api_url", "sandbox_url", "api_key")}).AsyncSandbox.create("base")
        os.kill(process.pid, signal.SIGTERM)
        assert await process.wait() == 0
        assert await on_engine(told["run"]) == []
