"""From a queued task to a sandbox that work can start in: made or woken, cloned, set up, closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import structlog

from bot.agent.tools import run_line
from bot.db.store import SandboxRecord
from bot.domain import detect
from bot.domain.config import PACKAGE_MANAGERS, Config
from bot.domain.detect import MANIFESTS, Detected
from bot.domain.episode import Code
from bot.domain.errors import SandboxError, UserError
from bot.domain.receipt import Place
from bot.domain.task import Lease, Stage, State, Task
from bot.pipeline import rules as recorded
from bot.pipeline import talk
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end
from bot.sandbox import workspace
from bot.sandbox.protocol import WORKSPACE, Kind, Sandbox, SandboxProvider, SandboxSpec
from bot.sandbox.workspace import Remote, tail

log = structlog.get_logger()

MANIFEST_LIMIT = 256 * 1024


class SetupFailed(UserError):
    """A line of the repository's set-up failed; the message holds the end of its output."""


async def run(deps: Deps, task_id: str) -> None:
    """Leaves the task `working`, or ended with a code."""
    lease = await deps.store.lease(task_id)
    task = await deps.store.task(task_id)
    if task.state not in (State.QUEUED, State.PROVISIONING):
        return
    episode = await deps.store.last_episode(task_id)
    task = replace(task, state=State.PROVISIONING, updated_at=deps.clock())
    await deps.store.save(lease, task, episode, now=deps.clock())
    await talk.tell(deps, task, episode)
    rules = recorded.of(episode)
    try:
        if not await _is_there(deps, task, rules):
            await _make(deps, lease, task, rules)
    except SetupFailed as exc:
        await end(deps, lease, task, episode, Code.SETUP_FAILED, str(exc))
        return
    working = replace(await deps.store.task(task_id), state=State.WORKING, updated_at=deps.clock())
    await deps.store.save(lease, working, episode, stage=Stage.EPISODE, now=deps.clock())
    await talk.tell(deps, working, episode)
    deps.engine.wake()


async def _is_there(deps: Deps, task: Task, rules: Config) -> bool:
    """Whether the task's sandbox is ready and still there."""
    for record in await deps.store.sandboxes(task.id):
        if record.kind == "work" and record.ready and record.provider_id:
            try:
                sandbox = await deps.provider.connect(record.provider_id, lifetime_s=rules.sandbox.lifetime)
            except SandboxError as exc:
                if exc.reason != "gone":
                    raise
                await deps.store.forget_sandbox(record.name)
                return False
            await sandbox.aclose()
            return True
    return False


async def _make(deps: Deps, lease: Lease, task: Task, rules: Config) -> None:
    name = f"{task.id}-work"
    record = SandboxRecord(name=name, task_id=task.id, kind="work", provider=deps.provider.name)
    await deps.store.put_sandbox(lease, record)
    # One that an earlier run of this stage left may hold half a clone: `create` ends it first.
    sandbox = await deps.provider.create(spec(deps, name, "work", task.id, rules))
    try:
        record = replace(record, provider_id=sandbox.id, image_id=await deps.provider.image_id(_image(deps, rules)))
        await deps.store.put_sandbox(lease, record)
        async with deps.github.token(task.installation_id, task.name, {"contents": "read"}) as token:
            origin = Remote(url=task.clone_url, token=token)
            await workspace.clone(sandbox, origin, task.base_sha, timeout_s=rules.timeouts.clone)
        await workspace.check_out(sandbox, task.base_sha)
        checkpoint = await deps.store.checkpoint(task.id)
        await set_up(sandbox, rules)
        await workspace.note_made(sandbox, task.base_sha)
        if checkpoint is not None:
            await workspace.apply(sandbox, checkpoint.patch)
        await deps.store.put_sandbox(lease, replace(record, ready=True))
    except BaseException:
        await deps.provider.kill(sandbox.id)
        raise
    finally:
        await sandbox.aclose()


def spec(deps: Deps, name: str, kind: Kind, task_id: str, rules: Config) -> SandboxSpec:
    """What a repository's rules ask of a sandbox, within the operator's ceilings (which were checked at intake)."""
    return SandboxSpec(
        name=name,
        kind=kind,
        task=task_id,
        image=_image(deps, rules),
        lifetime_s=rules.sandbox.lifetime,
        memory=rules.sandbox.memory,
        cpus=float(rules.sandbox.cpus),
        disk=rules.sandbox.disk,
        env=dict(rules.sandbox.env),
    )


def _image(deps: Deps, rules: Config) -> str:
    return rules.sandbox.image or deps.image


async def detected(sandbox: Sandbox) -> Detected:
    """What the checked-out repository says about itself; to be asked before anything of it has run."""
    names = [entry.name for entry in await sandbox.list(workspace.REPO)]
    texts = {}
    for name in MANIFESTS:
        if name in names:
            try:
                data = await sandbox.read(f"{workspace.REPO}/{name}", max_bytes=MANIFEST_LIMIT)
            except (OSError, ValueError, SandboxError):
                continue  # a link, a folder or something huge by that name says nothing
            texts[name] = data.decode("utf-8", "replace")
    return detect.detect(names, texts)


async def set_up(sandbox: Sandbox, rules: Config) -> None:
    """Runs the set-up lines with the set-up network, then closes it for good."""
    lines, _, network = detect.applied(rules, await detected(sandbox))
    if not lines:
        return
    await sandbox.allow(await hosts(sandbox, network))
    try:
        for line in lines:
            result = await run_line(sandbox, line, env=sandbox.proxy_env, timeout_s=rules.timeouts.setup)
            if not result.ok:
                how = "did not end in time" if result.timed_out else f"failed with exit code {result.exit_code}"
                raise SetupFailed(f"Set-up {how}: `{line}`\n{tail(result)}")
    finally:
        await sandbox.allow(frozenset())


_ASK = {
    "npm": ["npm", "config", "get", "registry"],
    "pip": [
        "python3",
        "-c",
        "import os, subprocess, sys\n"
        "asked = subprocess.run([sys.executable, '-m', 'pip', 'config', 'get', 'global.index-url'],"
        " capture_output=True, text=True)\n"
        "from pip._internal.models.index import PyPI\n"
        "print(asked.stdout.strip() or f'{PyPI.simple_url} https://{PyPI.file_storage_domain}')",
    ],
}
"""How each package manager is asked where it gets packages from, so that mirrors work and no host is written here."""


async def hosts(sandbox: Sandbox, network: Sequence[str]) -> frozenset[str]:
    """The hosts behind a network list: names as they are, a package manager's by asking the manager itself."""
    names: set[str] = set()
    for entry in network:
        if entry not in PACKAGE_MANAGERS:
            names.add(entry)
            continue
        if entry not in _ASK:
            raise SetupFailed(f"`{entry}` under `network` is not supported by this version; list its hosts instead.")
        # Not from inside the repository: a project's own configuration must not decide whom it may talk to.
        asked = await sandbox.exec(_ASK[entry], cwd=WORKSPACE, timeout_s=workspace.QUICK_S)
        found = [urlsplit(word) for word in asked.stdout.decode("utf-8", "replace").split()]
        told = {f"{url.hostname}:{url.port}" if url.port else str(url.hostname) for url in found if url.hostname}
        if not asked.ok or not told:
            raise SetupFailed(f"`{entry}` did not say where it gets packages from.\n{tail(asked)}")
        names |= told
    return frozenset(names)


def place(provider: SandboxProvider, record: SandboxRecord) -> Place:
    return Place(provider=provider.name, id=record.provider_id or record.name)
