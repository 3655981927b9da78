"""The E2B provider keeps the contract, through the real SDK, and what is true of E2B alone.

With CODER_TEST_LIVE_E2B set, the contract is asked of the real service, as `make live-e2b` does; clauses that need a
web server which sandboxes and this machine both reach are then left out.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import pytest

pytest.register_assert_rewrite("bot.sandbox.testing")

from bot.domain.errors import SandboxError  # noqa: E402 - after the line that makes the contract's asserts speak
from bot.sandbox.e2b import E2BProvider  # noqa: E402
from bot.sandbox.e2b_network import rules  # noqa: E402
from bot.sandbox.e2b_sandbox import E2BSandbox  # noqa: E402
from bot.sandbox.protocol import SandboxProvider, SandboxSpec  # noqa: E402
from bot.sandbox.testing import Another, SandboxContract, Web, Who  # noqa: E402
from tests.e2b_server import Cut, E2BServer, LostFiles, NoEnd, OtherId, Refuse, Slow  # noqa: E402

LIVE = bool(os.environ.get("CODER_TEST_LIVE_E2B"))
LOOPBACKS = frozenset({"127.0.0.1", "127.0.0.2"})


@pytest.fixture
async def server() -> AsyncIterator[E2BServer]:
    async with E2BServer(templates={"coder-bot-sandbox": "coder-bot-sandbox:latest"}, private_addresses=True) as made:
        yield made
        assert made.sandbox_ids == set()
        assert made.snapshot_ids == set()


@pytest.fixture
def deployment() -> str:
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """How the provider is to be made for it."""
    if LIVE:
        return {"api_key": os.environ["E2B_API_KEY"], "plan": os.environ.get("CODER_E2B_PLAN", "hobby")}
    server: E2BServer = request.getfixturevalue("server")
    return {
        "api_key": server.api_key,
        "plan": "pro",
        "api_url": server.api_url,
        "sandbox_url": server.sandbox_url,
    }


@pytest.fixture
async def provider(service: Mapping[str, Any], deployment: str) -> AsyncIterator[E2BProvider]:
    made = E2BProvider(deployment=deployment, private_hosts=LOOPBACKS, **service)
    yield made
    for info in await made.list():
        await made.kill(info.id)
    await made.aclose()


class OtherWeb(Web):
    """On an address of its own: E2B tells addresses apart, but not their ports."""

    address = "127.0.0.2"

    async def __aenter__(self) -> Web:
        self._server = await asyncio.start_server(self._serve, self.address, 0)
        self.host = f"{self.address}:{self._server.sockets[0].getsockname()[1]}"
        return self


class TestE2BSandbox(SandboxContract):
    image = os.environ.get("CODER_IMAGE", "coder-bot-sandbox") if LIVE else "coder-bot-sandbox"

    @pytest.fixture
    async def another(self, service: Mapping[str, Any], deployment: str) -> Another:
        def another(who: Who) -> SandboxProvider:
            nobody = {"api_url": "http://127.0.0.1:9", "sandbox_url": "http://127.0.0.1:9"}
            return E2BProvider(
                deployment="somebody-else" if who == "stranger" else deployment,
                private_hosts=frozenset() if who == "cautious" else LOOPBACKS,
                **{**service, **(nobody if who == "unreachable" else {})},
            )

        return another

    @pytest.fixture
    async def web(self) -> AsyncIterator[Web]:
        if LIVE:
            pytest.skip("E2B's sandboxes do not reach this machine")
        async with Web() as server:
            yield server

    @pytest.fixture
    async def other_web(self) -> AsyncIterator[Web]:
        async with OtherWeb() as server:
            yield server


# What goes wrong with a service far away


@pytest.fixture
def spec() -> SandboxSpec:
    return SandboxSpec(
        name=f"e2b-{secrets.token_hex(6)}", kind="work", task="t", image="coder-bot-sandbox", lifetime_s=300
    )


@pytest.fixture
async def sandbox(provider: E2BProvider, spec: SandboxSpec) -> E2BSandbox:
    return await provider.create(spec)


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(status=503, done=True),
        Refuse(status=500, done=True),
        Refuse(status=502, done=True, page=True),
        Refuse(status=429, retry_after_s=1),
        Refuse(status=503),
        Refuse(status=504, page=True),
    ],
    ids=str,
)
async def test_trouble_with_making_one_leaves_exactly_one(
    server: E2BServer, provider: E2BProvider, spec: SandboxSpec, fault: Refuse
) -> None:
    server.faults.on("create", fault)
    made = await provider.create(spec)
    assert server.sandbox_ids == {made.id}
    assert server.faults.unused == 0
    assert (await made.exec(["echo", "on"], timeout_s=60)).stdout == b"on\n"


async def test_making_one_that_is_cancelled_leaves_none(
    server: E2BServer, provider: E2BProvider, spec: SandboxSpec
) -> None:
    server.faults.on("write", Slow(seconds=30))
    making = asyncio.create_task(provider.create(spec))
    while not server.faults.seen["write"]:
        await asyncio.sleep(0.01)
    assert len(server.sandbox_ids) == 1
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert server.sandbox_ids == set()


async def test_making_one_that_can_not_be_set_up_leaves_none(
    server: E2BServer, provider: E2BProvider, spec: SandboxSpec
) -> None:
    server.faults.on("write", Refuse(status=500), times=3)
    with pytest.raises(SandboxError):
        await provider.create(spec)
    assert server.sandbox_ids == set()


@pytest.mark.parametrize(
    "fault",
    [Cut(messages=0), Cut(messages=1), Cut(messages=2), NoEnd(), Refuse(status=502), Refuse(status=503, page=True)],
    ids=str,
)
async def test_a_cut_stream_neither_loses_nor_repeats_a_command(
    server: E2BServer, sandbox: E2BSandbox, fault: Cut | NoEnd | Refuse
) -> None:
    server.faults.on("Start", fault, times=2)
    counting = ["sh", "-c", "echo once >>count; sleep 0.5; cat count; exit 3"]
    result = await sandbox.exec(counting, timeout_s=60, trusted_status=True)
    assert (result.exit_code, result.stdout) == (3, b"once\n")
    assert server.faults.unused == 0


async def test_a_write_that_was_cut_is_not_told_as_done(server: E2BServer, sandbox: E2BSandbox) -> None:
    server.faults.on("Start", NoEnd())
    with pytest.raises(SandboxError) as raised:
        await sandbox.write("file", b"x")
    assert raised.value.reason == "unknown_outcome"


@pytest.mark.parametrize("call", ["connect", "Start", "read"])
async def test_a_gateway_that_stumbles_while_resuming_is_asked_again(
    server: E2BServer, provider: E2BProvider, sandbox: E2BSandbox, call: Literal["connect", "Start", "read"]
) -> None:
    await sandbox.write("kept", b"still here")
    await sandbox.pause()
    server.faults.on(call, Refuse(status=502, message="The sandbox was not found"))
    again = await provider.connect(sandbox.id, lifetime_s=300)
    assert await again.read("kept", max_bytes=100) == b"still here"
    assert server.faults.unused == 0


async def test_what_is_not_found_right_after_a_pause_is_looked_for_again(
    server: E2BServer, provider: E2BProvider, sandbox: E2BSandbox
) -> None:
    await sandbox.pause()
    server.faults.on("get", Refuse(status=404), times=2)
    assert (await (await provider.connect(sandbox.id, lifetime_s=300)).exec(["true"], timeout_s=60)).ok


async def test_pausing_one_that_is_paused_already_is_fine(provider: E2BProvider, sandbox: E2BSandbox) -> None:
    await provider.pause_raw(sandbox.id)
    await provider.pause_raw(sandbox.id)
    assert [info.running for info in await provider.list()] == [False]


@pytest.mark.parametrize("fault", [LostFiles(), OtherId()], ids=str)
async def test_one_that_came_back_without_its_files_or_as_another_is_gone(
    server: E2BServer, provider: E2BProvider, sandbox: E2BSandbox, fault: LostFiles | OtherId
) -> None:
    await sandbox.write("kept", b"still here")
    await sandbox.pause()
    server.faults.on("connect", fault)
    with pytest.raises(SandboxError) as raised:
        await provider.connect(sandbox.id, lifetime_s=300)
    assert raised.value.reason == "gone"


async def test_a_command_whose_sandbox_is_paused_under_it_does_not_hang(
    provider: E2BProvider, sandbox: E2BSandbox
) -> None:
    running = asyncio.create_task(sandbox.exec(["sh", "-c", "echo >begun; sleep 1000"], timeout_s=100))
    while not any(entry.name == "begun" for entry in await sandbox.list(".")):
        await asyncio.sleep(0.05)
    await provider.pause_raw(sandbox.id)
    with pytest.raises(SandboxError) as raised:
        await running
    assert raised.value.reason == "limit_exceeded"


# What the account and its plan say


async def test_a_wrong_key_is_told_as_such(server: E2BServer, spec: SandboxSpec) -> None:
    provider = E2BProvider(
        deployment="d", api_key="e2b_wrong", api_url=server.api_url, sandbox_url=server.sandbox_url
    )
    for call in (provider.list, lambda: provider.create(spec), lambda: provider.connect("i0", lifetime_s=9)):
        with pytest.raises(SandboxError) as raised:
            await call()
        assert (raised.value.reason, raised.value.retryable) == ("authentication", False)
        assert "E2B_API_KEY" in str(raised.value)


async def test_what_is_beyond_the_plan_or_no_template_is_refused_before_any_call(
    server: E2BServer, service: Mapping[str, Any], spec: SandboxSpec
) -> None:
    provider = E2BProvider(deployment="d", **{**service, "plan": "hobby"})
    assert (provider.limits.lifetime_s, provider.limits.at_once) == (3600, 20)
    for call in (
        lambda: provider.create(replace(spec, lifetime_s=3601)),
        lambda: provider.connect("i0", lifetime_s=3601),
    ):
        with pytest.raises(SandboxError) as raised:
            await call()
        assert raised.value.reason == "limit_exceeded"
        assert "3600" in str(raised.value)
    for image in ("", "../templates", "a/b/c", "A", "a b", "a\n", "a?b=c", "a:"):
        with pytest.raises(SandboxError) as raised:
            await provider.create(replace(spec, image=image))
        assert raised.value.reason == "invalid_config"
    assert not server.faults.seen


async def test_no_more_run_at_once_than_the_plan_allows(
    server: E2BServer, provider: E2BProvider, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.sandbox.e2b._AT_ONCE", {"pro": 1})
    await provider.create(spec)
    with pytest.raises(SandboxError) as raised:
        await provider.create(replace(spec, name="another"))
    assert (raised.value.reason, raised.value.retryable) == ("limit_exceeded", True)
    assert server.faults.seen["create"] == 1
    newer = await provider.create(spec)  # in its own place
    await newer.pause()
    await provider.create(replace(spec, name="another"))  # what is paused does not count


async def test_a_lifetime_ends_at_the_plans_ceiling(service: Mapping[str, Any], spec: SandboxSpec) -> None:
    provider = E2BProvider(deployment="d", **{**service, "plan": "hobby"})
    sandbox = await provider.create(spec)
    try:
        await asyncio.sleep(1)
        await sandbox.extend(3600)
        info = await provider.find(sandbox.id)
        assert 3590 < (info.end_at - info.started_at).total_seconds() <= 3600
    finally:
        await provider.kill(sandbox.id)


async def test_a_service_that_does_not_keep_a_sandbox_offline_is_not_used(
    server: E2BServer, provider: E2BProvider, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = server._fleet
    making = fleet._create

    async def forgetful(body: Mapping[str, Any], timeout_s: int) -> Any:
        return await making({**body, "network": {}}, timeout_s)

    monkeypatch.setattr(fleet, "_create", forgetful)
    with pytest.raises(SandboxError) as raised:
        await provider.create(spec)
    assert raised.value.reason == "invalid_config"
    assert server.sandbox_ids == set()


@pytest.mark.parametrize(
    ("hosts", "allowed", "names", "dns"),
    [
        (set(), [], [], False),
        ({"pypi.org", "Example.com:443"}, ["example.com", "pypi.org"], ["example.com", "pypi.org"], False),
        ({"*.pypi.org"}, ["*.pypi.org"], [], True),
        ({"1.1.1.1:22", "1.1.1.1"}, ["1.1.1.1/32"], [], False),
    ],
)
def test_hosts_become_rules(hosts: set[str], allowed: list[str], names: list[str], dns: bool) -> None:
    network = rules(frozenset(hosts), ())
    assert (network.allow_out, network.names, network.dns) == (allowed, names, dns)
    assert network.update()["deny_out"] == ["0.0.0.0/0"]
    assert ("dns_servers" in network.update()) is not dns


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("pypi.org:8080", "invalid_config"),
        ("[2606:4700::1]:443", "invalid_config"),
        ("10.0.0.1", "permission_denied"),
        ("169.254.169.254:80", "permission_denied"),
    ],
)
def test_a_host_that_e2b_could_not_be_held_to_is_refused(host: str, reason: str) -> None:
    with pytest.raises(SandboxError) as raised:
        rules(frozenset({host}), ())
    assert raised.value.reason == reason


async def test_an_allowed_name_has_an_address_though_nothing_looks_it_up(sandbox: E2BSandbox) -> None:
    looking = ["python3", "-c", "import socket; print(socket.gethostbyname('pypi.org'))"]
    await sandbox.allow(frozenset({"pypi.org"}))
    assert (await sandbox.exec(looking, timeout_s=60)).ok
    await sandbox.allow(frozenset())
    assert not (await sandbox.exec(looking, timeout_s=60)).ok


# What commands can't do


async def test_commands_have_no_way_back_to_root(sandbox: E2BSandbox) -> None:
    status = (await sandbox.exec(["cat", "/proc/self/status"], timeout_s=60)).stdout.decode()
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert (facts["NoNewPrivs"].strip(), facts["CapEff"].strip()) == ("1", "0" * 16)
    assert facts["Uid"].split() == ["1000"] * 4
    assert facts["Groups"].split() == []
    for path in ("/var/lib/coder-bot", "/var/lib/coder-bot/marker", "/var/lib/coder-bot/state"):
        assert not (await sandbox.exec(["ls", path], timeout_s=60)).stdout
        assert not (await sandbox.exec(["sh", "-c", f"echo x >{path}"], timeout_s=60)).ok


async def test_profiles_and_modules_that_a_command_wrote_change_no_status(sandbox: E2BSandbox) -> None:
    hostile = """
for f in .bash_profile .bash_login .profile .bashrc .bash_env; do
  for d in "$HOME" /workspace /tmp; do echo 'exit 0' >"$d/$f"; done
done
for m in sitecustomize json os bot; do echo 'import os; os._exit(0)' >"/tmp/$m.py"; cp "/tmp/$m.py" .; done
mkdir -p "$HOME/.local/bin"; printf '#!/bin/sh\nexit 0\n' >"$HOME/.local/bin/false"; chmod +x "$HOME/.local/bin/false"
"""
    assert (await sandbox.exec(["sh", "-c", hostile], timeout_s=60)).ok
    for env in ({}, {"BASH_ENV": "/tmp/.bash_env", "ENV": "/tmp/.bash_env", "PYTHONPATH": "/tmp"}):
        result = await sandbox.exec(["false"], env=env, timeout_s=60, trusted_status=True)
        assert (result.exit_code, result.timed_out) == (1, False)


async def test_an_environment_of_the_repository_reaches_commands_only(
    provider: E2BProvider, spec: SandboxSpec
) -> None:
    sandbox = await provider.create(replace(spec, env={"LD_PRELOAD": "/workspace/evil.so", "PATH": "/nowhere"}))
    await sandbox.write("file", b"x")
    assert await sandbox.read("file", max_bytes=1) == b"x"
    assert (await sandbox.exec(["ls"], timeout_s=60)).exit_code == 127
    assert b"evil.so" in (await sandbox.exec(["/bin/ls"], timeout_s=60)).stderr


async def test_a_program_may_open_its_streams_by_name(sandbox: E2BSandbox) -> None:
    argv = ["sh", "-c", "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr"]
    result = await sandbox.exec(argv, stdin=b"in\n", timeout_s=60)
    assert (result.stdout, result.stderr, result.exit_code) == (b"in\nout\n", b"err\n", 0)


async def test_a_large_request_arrives_whole(sandbox: E2BSandbox) -> None:
    words = ["x" * 100_000, "y" * 100_000]
    result = await sandbox.exec(
        ["python3", "-c", "import sys; print([len(w) for w in sys.argv[1:]])", *words], timeout_s=60
    )
    assert result.stdout == b"[100000, 100000]\n"


async def test_starting_anew_ends_everything_and_keeps_the_files(sandbox: E2BSandbox) -> None:
    """The last resort, for what survives being ended."""
    await sandbox.write("kept", b"still here")
    running = asyncio.create_task(sandbox.exec(["sh", "-c", "echo >begun; sleep 1000"], timeout_s=100))
    while not any(entry.name == "begun" for entry in await sandbox.list(".")):
        await asyncio.sleep(0.05)
    await sandbox._restart()
    with pytest.raises(SandboxError) as raised:
        await running
    assert raised.value.reason in ("unknown_outcome", "limit_exceeded")
    assert (await sandbox.exec(["pgrep", "sleep"], timeout_s=60)).exit_code == 1
    assert await sandbox.read("kept", max_bytes=100) == b"still here"
