"""Providers that each break one thing the way real products did, laid over one that keeps the contract.

Each says by which clause that must show, with which arguments where the clause takes some, and what is then to be
seen in the failure.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import tarfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import httpx

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import ExecResult, Sandbox, SandboxInfo, SandboxProvider, SandboxSpec, SnapshotInfo
from bot.sandbox.testing import SandboxContract as Contract

Clause = Callable[..., Coroutine[Any, Any, None]]

LONG_S = 30.0
ENOUGH = 256 * 1024**2
"""Bytes of output after which it is plain that all of it is kept."""


class NaiveSandbox:
    """Hands everything on."""

    def __init__(self, honest: Sandbox) -> None:
        self.honest = honest

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    async def shell(self, line: str, *words: str, **asked: Any) -> ExecResult:
        """One line of shell in the honest sandbox; the words are its arguments."""
        return await self.honest.exec(["sh", "-c", line, "sh", *words], **{"timeout_s": LONG_S, **asked})


class Naive:
    """Hands everything on; the sandboxes are of the type that `sandbox` names."""

    sandbox: ClassVar[type[NaiveSandbox]] = NaiveSandbox
    clause: ClassVar[Clause]
    arguments: ClassVar[Mapping[str, object]] = {}
    shown: ClassVar[str]

    def __init__(self, honest: SandboxProvider) -> None:
        self.honest = honest

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    async def create(self, spec: SandboxSpec) -> NaiveSandbox:
        return self.sandbox(await self.honest.create(spec))

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> NaiveSandbox:
        return self.sandbox(await self.honest.connect(sandbox_id, lifetime_s=lifetime_s, epoch=epoch))


async def _engine(method: str, path: str, **asked: Any) -> httpx.Response:
    transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
    async with httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=120) as client:
        answer = await client.request(method, path, **asked)
        answer.raise_for_status()
        return answer


# Finding and ending


class ReplacesWhatIsGone(Naive):
    """Makes a new sandbox where the old one is gone, and says nothing."""

    clause = Contract.test_a_killed_sandbox_is_gone_and_killing_again_is_harmless
    shown = "DID NOT RAISE"

    async def create(self, spec: SandboxSpec) -> NaiveSandbox:
        self._spec = spec
        return await super().create(spec)

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> NaiveSandbox:
        try:
            return await super().connect(sandbox_id, lifetime_s=lifetime_s, epoch=epoch)
        except SandboxError:
            return await self.create(self._spec)


class ConnectsUnasked(Naive):
    """Takes any id at its word until the first call."""

    clause = Contract.test_an_id_that_never_was_is_gone
    shown = "DID NOT RAISE"

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> NaiveSandbox:
        if sandbox_id in [info.id for info in await self.honest.list()]:
            return await super().connect(sandbox_id, lifetime_s=lifetime_s, epoch=epoch)
        return NaiveSandbox(cast(Sandbox, None))


class RaisesOnTheSecondKill(Naive):
    clause = Contract.test_a_killed_sandbox_is_gone_and_killing_again_is_harmless
    shown = "SandboxError: Nothing to kill"

    async def kill(self, sandbox_id: str) -> None:
        if sandbox_id not in [info.id for info in await self.honest.list()]:
            raise SandboxError("gone", "Nothing to kill")
        await self.honest.kill(sandbox_id)


class ListsEverybodys(Naive):
    """Lists by the kind alone, and so what another deployment made on the same engine."""

    clause = Contract.test_another_deployment_neither_sees_nor_ends_it
    shown = "not in"

    async def list(self, *, task: str | None = None) -> list[SandboxInfo]:
        filters = '{"label": ["coder-bot.kind"]}'
        found = (await _engine("GET", "/containers/json", params={"all": "1", "filters": filters})).json()
        return [
            SandboxInfo(
                id=container["Names"][0].lstrip("/"),
                kind=container["Labels"]["coder-bot.kind"],
                task=container["Labels"]["coder-bot.task"],
                running=container["State"] == "running",
            )
            for container in found
            if task in (None, container["Labels"]["coder-bot.task"])
        ]


class _Timed(NaiveSandbox):
    _ending: asyncio.Task[None] | None = None

    async def extend(self, lifetime_s: int) -> None:
        async def end() -> None:
            await asyncio.sleep(lifetime_s)
            await self.honest.pause()

        self._ending = asyncio.create_task(end())

    async def aclose(self) -> None:
        if self._ending:
            self._ending.cancel()
        await self.honest.aclose()


class ExpiresInTheBot(Naive):
    """Keeps the time itself, as long as it lives."""

    sandbox = _Timed
    clause = Contract.test_a_lifetime_ends_though_nobody_is_connected
    shown = "TimeoutError"

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> NaiveSandbox:
        self._timed = await super().connect(sandbox_id, lifetime_s=lifetime_s, epoch=epoch)
        return self._timed

    async def aclose(self) -> None:
        await self._timed.aclose()
        await self.honest.aclose()


class ForgetsTheEpoch(Naive):
    clause = Contract.test_after_a_later_epoch_connected_an_earlier_one_runs_nothing_and_changes_no_file
    shown = "DID NOT RAISE"

    async def create(self, spec: SandboxSpec) -> NaiveSandbox:
        return await super().create(replace(spec, epoch=0))

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> NaiveSandbox:
        return await super().connect(sandbox_id, lifetime_s=lifetime_s)


class SpeaksWithTheVendorsTongue(Naive):
    clause = Contract.test_errors_have_our_reasons_and_our_words
    shown = "NotFoundException"

    async def connect(self, sandbox_id: str, *, lifetime_s: int, epoch: int = 0) -> NaiveSandbox:
        try:
            return await super().connect(sandbox_id, lifetime_s=lifetime_s, epoch=epoch)
        except SandboxError as exc:
            raise SandboxError(exc.reason, f"vendor.NotFoundException: 404: no {sandbox_id!r}\n  body: {{}}") from exc


class HandsOnTheEnvironment(Naive):
    clause = Contract.test_nothing_is_read_from_the_environment
    shown = "b'nonsense' not in"

    async def create(self, spec: SandboxSpec) -> NaiveSandbox:
        return await super().create(replace(spec, env={**os.environ, **spec.env}))


class SharesItsSnapshots(Naive):
    """A snapshot is the sandbox itself, and whoever starts from it gets the same one."""

    clause = Contract.test_changes_show_neither_in_another_sandbox_nor_in_the_snapshot
    shown = "'folder', 'dir'"

    def __init__(self, honest: SandboxProvider) -> None:
        super().__init__(honest)
        self._made: dict[str, NaiveSandbox] = {}

    async def create(self, spec: SandboxSpec) -> NaiveSandbox:
        if spec.snapshot:
            return self._made[spec.snapshot]
        made = await super().create(spec)
        self._made[made.id] = made
        return made

    async def snapshot(self, sandbox_id: str) -> SnapshotInfo:
        return SnapshotInfo(id=sandbox_id, size=None)


class BoundsNoDisk(Naive):
    clause = Contract.test_what_fills_the_workspace_fails_or_is_ended_and_can_be_removed
    shown = "exit_code=0"

    async def create(self, spec: SandboxSpec) -> NaiveSandbox:
        return await super().create(replace(spec, disk=100 * 1024**3))


# Commands


class _JoinedArgv(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **asked: Any) -> ExecResult:
        return await self.honest.exec(["sh", "-c", " ".join(argv)], **asked)


class GoesThroughAShell(Naive):
    sandbox = _JoinedArgv
    clause = Contract.test_argv_arrives_word_for_word
    arguments: ClassVar[Mapping[str, object]] = {"trusted": False}
    shown = r"assert '.*' == "


class _OnePid(NaiveSandbox):
    async def exec(self, argv: Sequence[str], *, timeout_s: float, **asked: Any) -> ExecResult:
        noting = 'echo $$ >/tmp/pid; exec "$@"'
        running = asyncio.create_task(self.shell(noting, *argv, **asked, timeout_s=timeout_s + LONG_S))
        await asyncio.wait({running}, timeout=timeout_s)
        if running.done():
            return running.result()
        await self.shell("kill -9 $(cat /tmp/pid)")
        return replace(await running, timed_out=True)


class KillsOnePid(Naive):
    """Ends the command at its time-out, and leaves its children alone."""

    sandbox = _OnePid
    clause = Contract.test_a_time_out_ends_everything_the_command_began
    arguments: ClassVar[Mapping[str, object]] = {"trusted": False}
    shown = r"assert \d == 0"


class _Uncancelled(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **asked: Any) -> ExecResult:
        running = asyncio.create_task(self.honest.exec(argv, **asked))
        running.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(running)


class LetsGoOfWhatIsCancelled(Naive):
    """Closes its connection and thinks that this ends the command."""

    sandbox = _Uncancelled
    clause = Contract.test_a_cancelled_command_ends_with_everything_it_began
    arguments: ClassVar[Mapping[str, object]] = {"trusted": False}
    shown = r"assert \d == 0"


class _HeadAlone(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **asked: Any) -> ExecResult:
        result = await self.honest.exec(argv, **asked)
        return replace(result, stdout=result.stdout[:1000])


class KeepsTheHeadAlone(Naive):
    sandbox = _HeadAlone
    clause = Contract.test_of_much_output_head_and_tail_are_kept
    arguments: ClassVar[Mapping[str, object]] = {"trusted": False}
    shown = "endswith"


class _AllOutput(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **_: Any) -> ExecResult:
        body = {"Cmd": list(argv), "User": "1000:1000", "AttachStdout": True}
        started = (await _engine("POST", f"/containers/{self.honest.id}/exec", json=body)).json()["Id"]
        kept: list[bytes] = []
        size = 0
        transport = httpx.AsyncHTTPTransport(uds="/var/run/docker.sock")
        async with httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=120) as client:
            begin = client.stream("POST", f"/exec/{started}/start", json={"Detach": False, "Tty": False})
            async with begin as answer:
                async for piece in answer.aiter_raw():
                    kept.append(piece)
                    size += len(piece)
                    if size > ENOUGH:
                        break
        stdout = b"".join(kept)
        return ExecResult(exit_code=0, stdout=stdout, stderr=b"", timed_out=False, truncated=False, duration_s=0)


class KeepsAllOutput(Naive):
    sandbox = _AllOutput
    clause = Contract.test_a_gibibyte_of_output_takes_little_memory
    shown = r"assert \d+ < \d+"


class _Text(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **asked: Any) -> ExecResult:
        result = await self.honest.exec(argv, **asked)
        return replace(result, stdout=result.stdout.decode(errors="replace").encode())


class TakesOutputForText(Naive):
    sandbox = _Text
    clause = Contract.test_output_need_not_be_text
    arguments: ClassVar[Mapping[str, object]] = {"trusted": False}
    shown = r"At index 0 diff: b'"


class _ToTheEnd(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **asked: Any) -> ExecResult:
        piping = 'mkfifo /tmp/out; cat /tmp/out & "$@" >/tmp/out; code=$?; wait; rm /tmp/out; exit $code'
        return await self.shell(piping, *argv, **asked)


class ReadsToTheEnd(Naive):
    """Takes the end of the output for the end of the command, whoever else holds it."""

    sandbox = _ToTheEnd
    clause = Contract.test_a_background_process_outlives_its_command_and_does_not_hold_it
    arguments: ClassVar[Mapping[str, object]] = {"trusted": False}
    shown = r"True\) == \(7"


class _StatusFile(NaiveSandbox):
    async def exec(self, argv: Sequence[str], *, trusted_status: bool = False, **asked: Any) -> ExecResult:
        if not trusted_status:
            return await self.honest.exec(argv, **asked)
        result = await self.shell('"$@"; echo $? >.status; sleep 0.5', *argv, **asked)
        status = await self.honest.read(".status", max_bytes=10)
        return replace(result, exit_code=int(status or b"1"))


class BelievesAFile(Naive):
    """Takes a trusted status from what a process of the commands' own user wrote."""

    sandbox = _StatusFile
    clause = Contract.test_no_forged_reply_is_taken_for_a_success_or_hangs_or_fills_the_memory
    arguments: ClassVar[Mapping[str, object]] = {"how": "forged"}
    shown = "exit_code=0, "


class _Open(NaiveSandbox):
    async def exec(self, argv: Sequence[str], **asked: Any) -> ExecResult:
        hosts = re.findall(r"http://([^/]+)/", " ".join(argv))
        await self.honest.allow(frozenset(hosts))
        return await self.honest.exec(argv, **asked)


class IsOnlineByDefault(Naive):
    """Opens whatever a command asks for."""

    sandbox = _Open
    clause = Contract.test_a_new_sandbox_is_offline
    shown = r"\(False, True, 1\)"


# Files


class _Uploading(NaiveSandbox):
    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(content), mode
            tar.addfile(info, io.BytesIO(content))
        where = f"/containers/{self.honest.id}/archive"
        await _engine("PUT", where, params={"path": "/workspace"}, content=archive.getvalue())


class UploadsAsRoot(Naive):
    """Writes through the engine's own archive upload."""

    sandbox = _Uploading
    clause = Contract.test_what_is_written_belongs_to_the_commands_and_never_to_root
    shown = "Permission denied"


class _Catting(NaiveSandbox):
    async def read(self, path: str, *, max_bytes: int) -> bytes:
        result = await self.shell('head -c "$1" "$2"', str(max_bytes), path)
        if not result.ok:
            raise FileNotFoundError(path)
        return result.stdout


class ReadsThroughLinks(Naive):
    sandbox = _Catting
    clause = Contract.test_nothing_leads_out_of_the_workspace
    shown = "DID NOT RAISE ValueError"


class _Looking(NaiveSandbox):
    async def write(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self.honest.list(os.path.dirname(path) or ".")
        # Between the look and the write comes what always can: the swap. Not left to chance.
        looking = (
            'at=$(dirname "$1"); test ! -L "$1" && test ! -L "$at" || exit 9; n=0; '
            'while ! test -L "$1" && ! test -L "$at" && test $n -lt 300; do n=$((n+1)); sleep 0.01; done; cat >"$1"'
        )
        result = await self.shell(looking, path, stdin=content, timeout_s=30)
        if not result.ok:
            raise OSError(path)


class LooksBeforeItWrites(Naive):
    """Asks whether a path is a link, and then writes to it."""

    sandbox = _Looking
    clause = Contract.test_what_is_swapped_while_we_look_leads_nowhere_else
    shown = "writtenleaf"


NAIVE: tuple[type[Naive], ...] = (
    ReplacesWhatIsGone,
    ConnectsUnasked,
    RaisesOnTheSecondKill,
    ListsEverybodys,
    ExpiresInTheBot,
    ForgetsTheEpoch,
    SpeaksWithTheVendorsTongue,
    HandsOnTheEnvironment,
    SharesItsSnapshots,
    BoundsNoDisk,
    GoesThroughAShell,
    KillsOnePid,
    LetsGoOfWhatIsCancelled,
    KeepsTheHeadAlone,
    KeepsAllOutput,
    TakesOutputForText,
    ReadsToTheEnd,
    BelievesAFile,
    IsOnlineByDefault,
    UploadsAsRoot,
    ReadsThroughLinks,
    LooksBeforeItWrites,
)
