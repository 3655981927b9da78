"""From a queued task to a sandbox that work can start in: made or woken, cloned, set up, closed."""

from __future__ import annotations

from dataclasses import replace

from bot.db.store import SandboxRecord
from bot.domain.config import Config
from bot.domain.episode import Code
from bot.domain.errors import SandboxError
from bot.domain.receipt import Place
from bot.domain.task import Lease, Stage, State, Task
from bot.pipeline import integrate, talk, warm
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end
from bot.pipeline.registries import RegistryUnknown
from bot.pipeline.setup import SetupFailed, detected, image, set_up, spec
from bot.pipeline.warm import Job
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox, SandboxProvider


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
    caught_up = await integrate.catch_up(deps, lease, task, episode)
    if caught_up is None:
        return
    task, episode = caught_up, await deps.store.last_episode(task_id)
    rules = recorded.of(episode)
    try:
        if not await _is_there(deps, lease, task, rules):
            await _make(Job(deps=deps, lease=lease, task=task, episode=episode, rules=rules))
    except (SetupFailed, RegistryUnknown) as exc:
        await end(deps, lease, task, episode, Code.SETUP_FAILED, str(exc))
        return
    working = replace(await deps.store.task(task_id), state=State.WORKING, updated_at=deps.clock())
    await deps.store.save(lease, working, episode, stage=Stage.EPISODE, now=deps.clock())
    await talk.tell(deps, working, episode)
    deps.engine.wake()


async def _is_there(deps: Deps, lease: Lease, task: Task, rules: Config) -> bool:
    """Whether the task's sandbox is ready and still there."""
    for record in await deps.store.sandboxes(task.id):
        if record.kind == "work" and record.ready and record.provider_id:
            try:
                sandbox = await deps.provider.connect(
                    record.provider_id, lifetime_s=rules.sandbox.lifetime, epoch=lease.epoch
                )
            except SandboxError as exc:
                if exc.reason != "gone":
                    raise
                await deps.provider.kill(record.provider_id)  # what may be left of it
                await deps.store.forget_sandbox(record.name)
                return False
            await sandbox.aclose()
            return True
    return False


async def _make(job: Job) -> None:
    deps = job.deps
    start = await warm.work(job)
    if start is None and await warm.make(job):
        start = await warm.work(job)
    sandbox, record = (start.sandbox, start.record) if start else await _cold(job)
    try:
        checkpoint = await deps.store.checkpoint(job.task.id)
        if checkpoint is not None and checkpoint.base_sha == job.task.base_sha:
            await workspace.apply(sandbox, checkpoint.patch)
        await deps.store.put_sandbox(job.lease, replace(record, ready=True))
    except BaseException:
        await deps.provider.kill(sandbox.id)
        raise
    finally:
        await sandbox.aclose()


async def _cold(job: Job) -> tuple[Sandbox, SandboxRecord]:
    """The work sandbox from nothing, cloned and set up."""
    deps, base = job.deps, job.task.base_sha
    record = job.record("work")
    await deps.store.put_sandbox(job.lease, record)
    # One that an earlier run of this stage left may hold half a clone: `create` ends it first.
    sandbox = await deps.provider.create(spec(deps, job.lease, "work", job.rules))
    try:
        image_id = await deps.provider.image_id(image(deps, job.rules))
        record = replace(record, provider_id=sandbox.id, image_id=image_id)
        await deps.store.put_sandbox(job.lease, record)
        await warm.clone(job, sandbox, base)
        await workspace.check_out(sandbox, base)
        await set_up(sandbox, job.rules, await detected(sandbox), listed=job.deps.ceilings.hosts)
        await workspace.note_made(sandbox, base)
    except BaseException:
        await sandbox.aclose()
        await deps.provider.kill(sandbox.id)
        raise
    return sandbox, record


def place(provider: SandboxProvider, record: SandboxRecord) -> Place:
    return Place(provider=provider.name, id=record.provider_id or record.name)
