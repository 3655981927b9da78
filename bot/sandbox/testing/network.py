"""Clauses about what commands can reach: nothing, until the bot opens it, and nothing again once it closes it."""

from __future__ import annotations

import asyncio

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from bot.sandbox.testing.fixtures import LONG_S, Another, Web, exists, fetch, refused, until

# Asks until it is answered, says so in a file, and asks on until it is not answered any more.
PATIENT = """
import sys, time, urllib.request

def answered():
    try:
        return bool(urllib.request.urlopen(sys.argv[1], timeout=5).read())
    except OSError:
        return False

open("begun", "w").close()
while not answered():
    time.sleep(0.1)
open("open", "w").close()
while answered():
    time.sleep(0.1)
"""

RESOLVE = "import socket, sys\ntry: socket.getaddrinfo(sys.argv[1], 80)\nexcept OSError: sys.exit(3)"


class NetworkClauses:
    """For a provider that can hold a sandbox to an allow-list; one that can't need not inherit these."""

    async def test_a_new_sandbox_is_offline(self, sandbox: Sandbox, web: Web) -> None:
        direct = await fetch(sandbox, web.url, proxied=False)
        proxied = await fetch(sandbox, web.url)
        assert (direct.ok, proxied.ok, web.requests) == (False, False, 0)
        for name in ("example.com", "github.com"):
            asking = await sandbox.exec(["python3", "-c", RESOLVE, name], timeout_s=LONG_S)
            assert (asking.exit_code, asking.timed_out) == (3, False)

    async def test_only_a_listed_host_can_be_reached(self, sandbox: Sandbox, web: Web, other_web: Web) -> None:
        await sandbox.allow(frozenset({web.host}))
        allowed = await fetch(sandbox, web.url)
        assert (allowed.stdout, allowed.exit_code) == (b"hello\n", 0)
        assert not (await fetch(sandbox, other_web.url)).ok
        if sandbox.proxy_env:
            assert not (await fetch(sandbox, web.url, proxied=False)).ok
        await sandbox.allow(frozenset({other_web.host}))
        assert not (await fetch(sandbox, web.url)).ok
        assert (await fetch(sandbox, other_web.url)).ok
        await sandbox.allow(frozenset())
        assert not (await fetch(sandbox, other_web.url)).ok
        assert (web.requests, other_web.requests) == (1, 1)

    async def test_opening_and_closing_takes_effect_on_a_running_command(self, sandbox: Sandbox, web: Web) -> None:
        argv = ["python3", "-c", PATIENT, web.url]
        running = asyncio.create_task(sandbox.exec(argv, env=sandbox.proxy_env, timeout_s=LONG_S))
        await until(lambda: exists(sandbox, "begun"))
        assert web.requests == 0
        await sandbox.allow(frozenset({web.host}))
        await until(lambda: exists(sandbox, "open"))
        await sandbox.allow(frozenset())
        closed_at = web.requests
        result = await running
        assert (result.exit_code, result.timed_out) == (0, False)
        assert web.requests <= closed_at + 1  # one may have been on its way

    async def test_a_wildcard_opens_what_lies_below_a_name_and_not_the_name(self, sandbox: Sandbox) -> None:
        await sandbox.allow(frozenset({"*.sandbox.invalid"}))
        for name in ("a.sandbox.invalid", "sandbox.invalid", "asandbox.invalid", "a.sandbox.invalid:81"):
            assert not (await fetch(sandbox, f"http://{name}/")).ok
        told = {"sandbox.invalid:80", "asandbox.invalid:80", "a.sandbox.invalid:81"}
        assert set(sandbox.refused_hosts) in (told, set())

    async def test_what_was_refused_is_told_by_name_or_not_at_all(self, sandbox: Sandbox, web: Web) -> None:
        assert sandbox.refused_hosts == ()
        await sandbox.allow(frozenset({"example.com"}))
        await fetch(sandbox, web.url)
        await fetch(sandbox, web.url)
        assert sandbox.refused_hosts in ((web.host,), ())

    async def test_what_names_no_host_opens_nothing(self, sandbox: Sandbox, web: Web) -> None:
        for nonsense in ("not a host", "", "*", "http://example.com/", "a:b", "*.*.example.com", f"{web.host}\n"):
            with pytest.raises(SandboxError) as raised:
                await sandbox.allow(frozenset({nonsense}))
            assert raised.value.reason == "invalid_config"
        assert not (await fetch(sandbox, web.url)).ok

    async def test_a_private_address_is_refused_unless_the_operator_lists_it(
        self, another: Another, spec: SandboxSpec, web: Web
    ) -> None:
        cautious = another("cautious")
        sandbox = await cautious.create(spec)
        try:
            await sandbox.allow(frozenset({web.host}))
            assert not (await fetch(sandbox, web.url)).ok
            assert web.requests == 0
            assert sandbox.refused_hosts in ((web.host,), ())
        except SandboxError as exc:
            assert exc.reason in ("permission_denied", "invalid_config")  # noqa: PT017 - to be told at once is right too
        finally:
            await cautious.kill(sandbox.id)

    async def test_connecting_closes_what_was_open(
        self, provider: SandboxProvider, sandbox: Sandbox, web: Web
    ) -> None:
        await sandbox.allow(frozenset({web.host}))
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert not (await fetch(again, web.url)).ok
        assert web.requests == 0

    async def test_a_pause_closes_what_was_open(self, provider: SandboxProvider, sandbox: Sandbox, web: Web) -> None:
        await sandbox.allow(frozenset({web.host}))
        await sandbox.pause()
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert not (await fetch(again, web.url)).ok
        await again.allow(frozenset({web.host}))
        assert (await fetch(again, web.url)).ok
        assert web.requests == 1

    async def test_a_list_with_one_wrong_name_opens_nothing_of_it(self, sandbox: Sandbox, web: Web) -> None:
        with refused("invalid_config"):
            await sandbox.allow(frozenset({web.host, "not a host"}))
        assert not (await fetch(sandbox, web.url)).ok
        assert web.requests == 0
