"""Clauses about how sandboxes are made, found again, paused, and ended."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from bot.domain.errors import SandboxError, SandboxReason
from bot.sandbox.protocol import WORKSPACE, Sandbox, SandboxProvider, SandboxSpec
from bot.sandbox.testing.fixtures import LONG_S, Another, Make, left, mark, refused, runs, until

SHORT = (1, 2, 4, 8, 16, 32)
"""Lifetimes in seconds, to be tried one after the other."""
NONSENSE = ("no-such-sandbox", "../containers", "", "a b", "coder-0123456789abcdef", "x" * 5000, "\n", "%2e%2e/info")

# What a vendor's text looks like: a class, an address, an object, a status line, a trace.
VENDOR = re.compile(r"\w(Error|Exception|Timeout)\b|https?:|://|<\w|0x[0-9a-f]{6}|Traceback|\bHTTP\b|\n|Errno")

ENVIRONMENT = {
    "DOCKER_HOST": "tcp://192.0.2.1:2375",
    "DOCKER_CONTEXT": "nonsense",
    "DOCKER_API_VERSION": "0.1",
    "E2B_API_KEY": "e2b_nonsense",
    "E2B_ACCESS_TOKEN": "nonsense",
    "E2B_DOMAIN": "nonsense.invalid",
    "E2B_API_URL": "http://192.0.2.1:9",
    "E2B_SANDBOX_URL": "http://192.0.2.1:9",
    "E2B_DEBUG": "true",
    "HTTP_PROXY": "http://192.0.2.1:9",
    "HTTPS_PROXY": "http://192.0.2.1:9",
    "ALL_PROXY": "http://192.0.2.1:9",
    "http_proxy": "http://192.0.2.1:9",
    "SECRET_OF_THE_BOT": "nonsense",
}


class LifeClauses:
    async def test_a_new_sandbox_is_empty_and_listed_by_its_task(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec, make: Make
    ) -> None:
        assert [entry for entry in await sandbox.list(WORKSPACE) if not entry.name.startswith(".")] == []
        (info,) = await provider.list(task=spec.task)
        assert (info.id, info.kind, info.task, info.running) == (sandbox.id, spec.kind, spec.task, True)
        assert info in await provider.list()
        assert await provider.list(task="another") == []
        verifying = await make(kind="verify")
        kinds = {info.id: info.kind for info in await provider.list(task=spec.task)}
        assert kinds == {sandbox.id: "work", verifying.id: "verify"}

    async def test_a_paused_sandbox_goes_on_with_its_files(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.write("kept", b"still here", mode=0o600)
        await sandbox.pause()
        assert [(info.id, info.running) for info in await provider.list(task=spec.task)] == [(sandbox.id, False)]
        with pytest.raises(SandboxError):
            await sandbox.exec(["true"], timeout_s=LONG_S)
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert again.id == sandbox.id
        assert await again.read("kept", max_bytes=100) == b"still here"
        assert (await again.exec(["sh", "-c", "echo $FROM_SPEC"], timeout_s=LONG_S)).stdout == b"spec's\n"
        assert [info.running for info in await provider.list(task=spec.task)] == [True]

    async def test_a_pause_ends_all_processes(self, provider: SandboxProvider, sandbox: Sandbox) -> None:
        marked = mark()
        await sandbox.exec(["sh", "-c", 'sh -c "sleep 1000; :" "$0" >/dev/null 2>&1 &', marked], timeout_s=LONG_S)
        assert await left(sandbox, marked) == 1
        await sandbox.pause()
        assert await left(await provider.connect(sandbox.id, lifetime_s=300), marked) == 0

    async def test_a_running_sandbox_is_connected_to_as_it_is(
        self, provider: SandboxProvider, sandbox: Sandbox
    ) -> None:
        marked = mark()
        await sandbox.exec(["sh", "-c", 'sh -c "sleep 1000; :" "$0" >/dev/null 2>&1 &', marked], timeout_s=LONG_S)
        await sandbox.aclose()
        await sandbox.aclose()
        assert await left(await provider.connect(sandbox.id, lifetime_s=300), marked) == 1

    async def test_another_process_of_the_bot_finds_it_again(self, another: Another, sandbox: Sandbox) -> None:
        await sandbox.write("kept", b"still here")
        await sandbox.aclose()
        later = another("same")
        assert sandbox.id in [info.id for info in await later.list()]
        again = await later.connect(sandbox.id, lifetime_s=300)
        assert await again.read("kept", max_bytes=100) == b"still here"
        assert (await again.exec(["sh", "-c", "echo $FROM_SPEC"], timeout_s=LONG_S)).stdout == b"spec's\n"
        await later.kill(sandbox.id)
        with refused("gone"):
            await sandbox.exec(["true"], timeout_s=LONG_S)

    async def test_a_sandbox_ends_with_its_lifetime_and_keeps_its_files(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.write("kept", b"still here")
        await sandbox.extend(1)
        await until(lambda: _stands_still(provider, spec.task))
        with pytest.raises(SandboxError):
            await sandbox.exec(["true"], timeout_s=LONG_S)
        again = await provider.connect(sandbox.id, lifetime_s=300)
        assert await again.read("kept", max_bytes=100) == b"still here"

    async def test_a_lifetime_ends_though_nobody_is_connected(
        self, provider: SandboxProvider, another: Another, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        marked = mark()
        await sandbox.exec(["sh", "-c", 'sh -c "sleep 1000; :" "$0" >/dev/null 2>&1 &', marked], timeout_s=LONG_S)
        dying = another("same")
        connection = await dying.connect(sandbox.id, lifetime_s=300)
        await connection.extend(2)
        await dying.aclose()
        await sandbox.aclose()
        await until(lambda: _stands_still(provider, spec.task))
        assert await left(await provider.connect(sandbox.id, lifetime_s=300), marked) == 0

    async def test_a_verification_does_not_outlive_its_lifetime(
        self, provider: SandboxProvider, make: Make, spec: SandboxSpec
    ) -> None:
        verifying = await _brief(make, 2, kind="verify")
        await verifying.aclose()

        async def ended() -> bool:
            return not await runs(provider, spec.task)

        await until(ended)
        with pytest.raises(SandboxError):
            await verifying.exec(["true"], timeout_s=LONG_S)

    async def test_a_longer_lifetime_holds(
        self, provider: SandboxProvider, make: Make, spec: SandboxSpec, sandbox: Sandbox
    ) -> None:
        for short in SHORT:
            try:
                await sandbox.extend(short)
                await sandbox.extend(300)
                break
            except SandboxError:  # a slow machine: it has ended in between
                await provider.connect(sandbox.id, lifetime_s=300)
        brief = await _brief(make, short + 1)

        async def brief_ended() -> bool:
            return {info.id: info.running for info in await provider.list(task=spec.task)}[brief.id] is False

        await until(brief_ended)
        assert (await sandbox.exec(["true"], timeout_s=LONG_S)).ok

    async def test_a_killed_sandbox_is_gone_and_killing_again_is_harmless(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await provider.kill(sandbox.id)
        await provider.kill(sandbox.id)
        assert await provider.list(task=spec.task) == []
        with refused("gone"):
            await provider.connect(sandbox.id, lifetime_s=60)
        with refused("gone"):
            await sandbox.exec(["true"], timeout_s=9)
        with refused("gone"):
            await sandbox.read("file", max_bytes=9)
        assert await provider.list(task=spec.task) == []

    async def test_a_paused_sandbox_can_be_killed(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        await sandbox.pause()
        await provider.kill(sandbox.id)
        assert await provider.list(task=spec.task) == []
        with refused("gone"):
            await provider.connect(sandbox.id, lifetime_s=60)

    async def test_an_id_that_never_was_is_gone(self, provider: SandboxProvider, sandbox: Sandbox) -> None:
        for nonsense in (*NONSENSE, sandbox.id + "0", sandbox.id + "/../" + sandbox.id, sandbox.id[:-1]):
            await provider.kill(nonsense)
            with refused("gone"):
                await provider.connect(nonsense, lifetime_s=60)
            with refused("gone"):
                await provider.snapshot(nonsense)
        assert (await sandbox.exec(["true"], timeout_s=LONG_S)).ok

    async def test_another_deployment_neither_sees_nor_ends_it(
        self, another: Another, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        stranger = another("stranger")
        assert sandbox.id not in [info.id for info in await stranger.list()]
        assert await stranger.list(task=spec.task) == []
        with refused("gone"):
            await stranger.connect(sandbox.id, lifetime_s=60)
        await stranger.kill(sandbox.id)
        namesake = await stranger.create(spec)
        try:
            assert (await sandbox.exec(["true"], timeout_s=LONG_S)).ok
        finally:
            await stranger.kill(namesake.id)

    async def test_making_one_of_the_same_name_ends_the_older(
        self, provider: SandboxProvider, sandbox: Sandbox, spec: SandboxSpec, make: Make
    ) -> None:
        await sandbox.write("old", b"")
        newer = await make(name=spec.name)
        assert newer.id != sandbox.id
        assert [info.id for info in await provider.list(task=spec.task)] == [newer.id]
        with pytest.raises(FileNotFoundError):
            await newer.read("old", max_bytes=1)
        with refused("gone"):
            await provider.connect(sandbox.id, lifetime_s=60)

    async def test_an_image_has_one_id_and_a_missing_one_is_named(
        self, provider: SandboxProvider, spec: SandboxSpec, make: Make
    ) -> None:
        assert await provider.image_id(spec.image) == await provider.image_id(spec.image) != ""
        for asked in (provider.image_id, lambda image: make(image=image)):
            with pytest.raises(SandboxError) as raised:
                await asked("no-such-image:at-all")
            assert raised.value.reason == "invalid_config"
            assert "no-such-image:at-all" in str(raised.value)
        assert await provider.list(task=spec.task) == []

    async def test_who_can_not_be_reached_is_unreachable_and_never_gone(
        self, another: Another, sandbox: Sandbox, spec: SandboxSpec
    ) -> None:
        nobody = another("unreachable")
        for call in (
            lambda: nobody.create(spec),
            lambda: nobody.connect(sandbox.id, lifetime_s=60),
            lambda: nobody.kill(sandbox.id),
            lambda: nobody.list(),
            lambda: nobody.snapshot(sandbox.id),
            lambda: nobody.snapshots(),
        ):
            with pytest.raises(SandboxError) as raised:
                await call()
            assert (raised.value.reason, raised.value.retryable) == ("unreachable", True)

    async def test_errors_have_our_reasons_and_our_words(
        self, provider: SandboxProvider, another: Another, sandbox: Sandbox, make: Make, spec: SandboxSpec
    ) -> None:
        nobody = another("unreachable")
        await sandbox.write("file", b"1234")
        paused = await make()
        await paused.pause()
        for call in (
            lambda: nobody.create(spec),
            lambda: nobody.list(),
            lambda: provider.connect("no-such-sandbox", lifetime_s=60),
            lambda: provider.image_id("no-such-image:at-all"),
            lambda: provider.snapshot("no-such-sandbox"),
            lambda: make(snapshot="no-such-snapshot"),
            lambda: make(image="no-such-image:at-all"),
            lambda: sandbox.read("file", max_bytes=1),
            lambda: sandbox.exec([], timeout_s=9),
            lambda: sandbox.allow(frozenset({"not a host"})),
            lambda: paused.exec(["true"], timeout_s=9),
            lambda: paused.read("file", max_bytes=9),
            lambda: paused.extend(60),
        ):
            with pytest.raises(SandboxError) as raised:
                await call()
            said = str(raised.value)
            assert raised.value.reason in get_args(SandboxReason)
            assert 10 < len(said) < 500
            assert not VENDOR.search(said.replace("unix:///", "")), said

    async def test_nothing_is_read_from_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, another: Another, spec: SandboxSpec
    ) -> None:
        for key, value in ENVIRONMENT.items():
            monkeypatch.setenv(key, value)
        provider = another("same")
        sandbox = await provider.create(spec)
        try:
            again = await provider.connect(sandbox.id, lifetime_s=300)
            shown = await again.exec(["env"], timeout_s=LONG_S)
            assert shown.ok
            assert b"nonsense" not in shown.stdout
            assert b"192.0.2.1" not in shown.stdout
            assert sandbox.id in [info.id for info in await provider.list()]
        finally:
            await provider.kill(sandbox.id)


async def _brief(make: Make, at_least: int, **changes: Any) -> Sandbox:
    """A sandbox with a lifetime that just lets it be made, however slow the machine is."""
    for short in SHORT:
        if short >= at_least:
            try:
                return await make(lifetime_s=short, **changes)
            except SandboxError:
                continue
    return await make(lifetime_s=60, **changes)


async def _stands_still(provider: SandboxProvider, task: str) -> bool:
    return [info.running for info in await provider.list(task=task)] == [False]
