"""The candidate in fresh sandboxes that the agent never touched: its tree built and proved, then the runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import structlog

from bot.domain import comment, gate
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import SandboxError
from bot.domain.receipt import Place, Receipt, Snapshot
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.transcript import spend
from bot.domain.verification import Draft, Evidence, Failed, Passed, Run, Unverified, judge
from bot.pipeline import rules as recorded
from bot.pipeline import runs, talk, warm
from bot.pipeline.deps import Deps
from bot.pipeline.ending import refuse
from bot.pipeline.grounds import Base, Candidate, GroundUnusable, Maker
from bot.pipeline.progress import Watch
from bot.pipeline.provision import place
from bot.pipeline.setup import image, spec
from bot.pipeline.warm import Job
from bot.sandbox.protocol import Sandbox

log = structlog.get_logger()


async def run(deps: Deps, task_id: str) -> None:
    """Leaves a receipt, and the task `working` again (another attempt), on its way to be published, waiting for an
    approval, or ended with a code."""
    lease = await deps.store.lease(task_id)
    task = await deps.store.task(task_id)
    if task.state is not State.VERIFYING:
        return
    episode = await deps.store.last_episode(task_id)
    saved = await deps.store.receipt(task_id)
    checkpoint = await deps.store.checkpoint(task_id)
    assert checkpoint is not None, "verification is due only once a checkpoint was saved"
    if saved is not None and saved.checkpoint_id == checkpoint.id:
        return  # decided already; what follows is due in the same transaction
    rules = recorded.of(episode)
    job = Job(deps=deps, lease=lease, task=task, episode=episode, rules=rules)
    candidate = Candidate(
        base=checkpoint.base_sha,
        patch=checkpoint.patch,
        rules=rules,
        redact=deps.redactor.redact,
        listed=deps.ceilings.hosts,
    )
    image_id = await deps.provider.image_id(image(deps, rules))
    maker = _Maker(job=job, base=candidate.base, image_id=image_id)
    start = await _start(job, maker, candidate.base)
    baselines = _Baselines(deps=deps, lease=lease, task=task)

    async def examine(start: Base | None) -> tuple[Evidence, str]:
        watch = Watch(deps, lease)
        return await watch.during(
            runs.examine(maker, candidate, start, baselines=baselines, image_id=image_id, tell=watch.ran)
        )

    try:
        evidence, ran_in = await examine(start)
    except GroundUnusable as exc:
        log.warning("the snapshot's files are in the way", task=task.id, reason=str(exc))
        start = None
        evidence, ran_in = await examine(start)
    if refused := gate.refused(evidence.findings):
        current = replace(await deps.store.task(task_id), updated_at=deps.clock())
        await refuse(deps, lease, current, await deps.store.last_episode(task_id), rules, refused)
        return
    receipt = Receipt(
        repository=task.full_name,
        evidence=evidence,
        verdict=judge(evidence),
        config_sha=episode.config_sha,
        image=image_id,
        sandbox=await _work_place(deps, task),
        verification_sandbox=Place(provider=deps.provider.name, id=ran_in),
        snapshot=_snapshot(candidate, start),
        model=await _model_name(deps, episode),
        spent=spend(await deps.store.steps(task.id)),
        created_at=deps.clock(),
        bot_version=deps.bot_version,
    )
    await _conclude(deps, lease, task, episode, rules, receipt, checkpoint.id)


def _snapshot(candidate: Candidate, start: Base | None) -> Snapshot | None:
    """What the candidate's sandboxes began with: never the base's set-up, if it has manifests of its own."""
    if start is None or candidate.changes_manifests or not isinstance(start.ground, warm.Renewed):
        return None
    return start.ground.snapshot


async def _start(job: Job, maker: Maker, base: str) -> Base | None:
    """What the work sandbox started from; None where it started from nothing, or that can't be used."""
    work = [record for record in await job.deps.store.sandboxes(job.task.id) if record.kind == "work"]
    if not work or work[0].snapshot_id is None:
        return None
    return await warm.verification(job, maker, work[0].snapshot_id, base)


@dataclass(frozen=True, kw_only=True)
class _Maker:
    """Keeps a record of each sandbox, so that a crash leaves none that nobody knows."""

    job: Job
    base: str
    image_id: str
    _names: dict[str, str] = field(default_factory=dict)

    async def clone(self, name: str) -> Sandbox:
        sandbox = await self._make(name)
        try:
            await warm.clone(self.job, sandbox, self.base)
        except BaseException:
            await self.end(sandbox)
            raise
        return sandbox

    async def start(self, name: str, snapshot: str) -> Sandbox:
        return await self._make(name, snapshot)

    async def _make(self, name: str, snapshot: str | None = None) -> Sandbox:
        job, deps = self.job, self.job.deps
        record = job.record("verify", run=name, image_id=self.image_id, snapshot_id=snapshot)
        await deps.store.put_sandbox(job.lease, record)
        wanted = spec(deps, job.lease, "verify", job.rules, run=name, snapshot=snapshot)
        sandbox = await deps.provider.create(wanted)
        self._names[sandbox.id] = record.name
        try:
            await deps.store.put_sandbox(job.lease, replace(record, provider_id=sandbox.id))
        except BaseException:
            await self.end(sandbox)
            raise
        return sandbox

    async def keep(self, sandbox: Sandbox) -> str | None:
        provider = self.job.deps.provider
        info = None
        try:
            if self.job.deps.snapshot_disk:
                info = await provider.snapshot(sandbox.id)
        except SandboxError as exc:
            log.warning("no snapshot could be made", task=self.job.task.id, reason=str(exc))
        await self.end(sandbox)
        return None if info is None else info.id

    async def drop(self, snapshot: str) -> None:
        await self.job.deps.provider.drop_snapshot(snapshot)

    async def end(self, sandbox: Sandbox) -> None:
        await sandbox.aclose()
        await self.job.deps.provider.kill(sandbox.id)
        if (name := self._names.pop(sandbox.id, None)) is not None:
            await self.job.deps.store.forget_sandbox(name)


@dataclass(frozen=True, kw_only=True)
class _Baselines:
    """Rows of this repository's baselines."""

    deps: Deps
    lease: Lease
    task: Task

    async def get(self, key: str) -> Run | None:
        return await self.deps.store.baseline(self.task.repository_id, key)

    async def put(self, key: str, run: Run) -> None:
        await self.deps.store.put_baseline(self.lease, self.task.repository_id, key, run, now=self.deps.clock())


async def _work_place(deps: Deps, task: Task) -> Place | None:
    work = [item for item in await deps.store.sandboxes(task.id) if item.kind == "work"]
    return place(deps.provider, work[0]) if work else None


async def _model_name(deps: Deps, episode: Episode) -> str:
    rules = recorded.of(episode)
    model = deps.model(rules.model.name)
    await model.aclose()
    return model.name


async def _conclude(
    deps: Deps, lease: Lease, task: Task, episode: Episode, rules: Config, receipt: Receipt, checkpoint_id: int
) -> None:
    now = deps.clock()
    episode = replace(await deps.store.last_episode(task.id), attempts=episode.attempts + 1)
    task = replace(await deps.store.task(task.id), updated_at=now)
    log.info("verdict", task=task.id, verdict=receipt.verdict.name, reasons=receipt.verdict.reasons)
    match receipt.verdict:
        case Passed() | Draft():
            stage = Stage.PUBLISH  # which shows it first, where somebody has to approve it
        case Failed(reasons=reasons) if episode.attempts < rules.limits.attempts:
            outputs = {c.name: c.output for c in receipt.evidence.checks if c.exit_code or c.timed_out}
            episode = replace(episode, feedback=comment.feedback(reasons, outputs))
            task, stage = replace(task, state=State.WORKING), Stage.EPISODE
            if await _work_place(deps, task) is None:  # it was for another base
                task, stage = replace(task, state=State.QUEUED), Stage.PROVISION
        case Failed(reasons=reasons):
            episode = replace(episode, code=Code.CHECKS_FAILED, detail=" ".join(reasons))
            task, stage = replace(task, state=State.WAITING), Stage.CLEANUP
        case Unverified(reasons=reasons):
            episode = replace(episode, code=Code.UNVERIFIED, detail=" ".join(reasons))
            task, stage = replace(task, state=State.WAITING), Stage.CLEANUP
    await deps.store.add_receipt(
        lease, receipt, checkpoint_id=checkpoint_id, task=task, episode=episode, stage=stage, now=now
    )
    deps.engine.wake()
    await talk.tell(deps, task, episode)
