"""The candidate in a fresh sandbox that the agent never touched: its tree built and proved, then the checks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import structlog

from bot.agent.tools import run_line
from bot.db.store import SandboxRecord
from bot.domain import comment, detect, gate, report
from bot.domain.config import Check, Config
from bot.domain.detect import Detected, is_manifest
from bot.domain.episode import Code, Episode
from bot.domain.errors import InfraError, SandboxError
from bot.domain.gate import Finding
from bot.domain.patch import Patch
from bot.domain.receipt import Receipt, Snapshot
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.transcript import spend
from bot.domain.tree import TreeEntry, blob_id, tree_id
from bot.domain.verification import CheckResult, Evidence, Failed, Passed, Unverified, judge
from bot.pipeline import rules as recorded
from bot.pipeline import talk, warm
from bot.pipeline.deps import Deps
from bot.pipeline.ending import refuse
from bot.pipeline.provision import place
from bot.pipeline.registries import RegistryUnknown, hosts
from bot.pipeline.setup import SetupFailed, detected, image, set_up, spec
from bot.pipeline.warm import Job
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox
from bot.sandbox.workspace import Origin, PatchRefused, tail

REPORT_LIMIT = 4 * 1024 * 1024
OUTPUT_KEPT = 6_000
"""Characters of a check's output that go into the evidence and to the model."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What is to be verified, and the rules (from the default branch) it is verified by. `origin` is where the base
    comes from; None where the sandbox has it."""

    origin: Origin | None
    base: str
    patch: Patch
    rules: Config
    redact: Callable[[str], str]
    listed: frozenset[str] | None = None
    """What the operator lets network lists name; None: anything."""

    @property
    def changes_manifests(self) -> bool:
        return any(is_manifest(path) for path in self.patch.paths)


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
        origin=None,
        base=checkpoint.base_sha,
        patch=checkpoint.patch,
        rules=rules,
        redact=deps.redactor.redact,
        listed=deps.ceilings.hosts,
    )
    fresh = await _from_snapshot(job, candidate) or await _from_nothing(job, candidate)
    refused = gate.refused(fresh.trees.findings)
    try:
        evidence = None if refused else await examine(fresh.sandbox, candidate, fresh.trees, fresh.checks)
    finally:
        await fresh.sandbox.aclose()
        await deps.provider.kill(fresh.sandbox.id)
    await deps.store.forget_sandbox(fresh.record.name)
    if evidence is None:
        current = replace(await deps.store.task(task_id), updated_at=deps.clock())
        await refuse(deps, lease, current, await deps.store.last_episode(task_id), rules, refused)
        return
    receipt = await _receipt(deps, task, episode, evidence, fresh)
    await _conclude(deps, lease, task, episode, rules, receipt, checkpoint.id)


@dataclass(frozen=True, kw_only=True)
class Trees:
    """The candidate's tree as git built it in the sandbox, and as we compute it from the bytes we will publish, with
    its files. `is_set_up`: what the base needs is installed already."""

    built: str
    expected: str
    files: tuple[TreeEntry, ...]
    findings: tuple[Finding, ...]
    """The patch gate's; what it refuses is not built, let alone run."""
    is_set_up: bool = False


@dataclass(frozen=True, kw_only=True)
class _Fresh:
    """A sandbox that holds the base, and in which nothing of the candidate has run."""

    sandbox: Sandbox
    record: SandboxRecord
    trees: Trees
    checks: tuple[Check, ...]
    snapshot: Snapshot | None = None


async def _from_snapshot(job: Job, candidate: Candidate) -> _Fresh | None:
    """On what the work sandbox started from; None where it started from nothing, or that can't be used. Not for other
    manifests: what the base's have installed must not make up for what the candidate's leave out."""
    work = [record for record in await job.deps.store.sandboxes(job.task.id) if record.kind == "work"]
    if candidate.changes_manifests or not work or work[0].snapshot_id is None:
        return None
    found = await warm.verification(job, work[0].snapshot_id, candidate.base)
    if found is None:
        return None
    start, fetched = found
    try:
        trees = await _build(start.sandbox, candidate, fetched.files)
    except (InfraError, OSError, ValueError) as exc:
        log.warning("the snapshot's files are in the way", task=job.task.id, reason=str(exc))
        await warm.end(job, start)
        return None
    except BaseException:
        await warm.end(job, start)
        raise
    return _Fresh(
        sandbox=start.sandbox,
        record=start.record,
        trees=replace(trees, is_set_up=True),
        checks=_checks(candidate, fetched.detected),
        snapshot=Snapshot(id=start.snapshot.id, commit=start.snapshot.commit),
    )


async def _from_nothing(job: Job, candidate: Candidate) -> _Fresh:
    deps = job.deps
    record = job.record("verify")
    await deps.store.put_sandbox(job.lease, record)
    sandbox = await deps.provider.create(spec(deps, job.lease, "verify", job.rules))
    try:
        image_id = await deps.provider.image_id(image(deps, job.rules))
        record = replace(record, provider_id=sandbox.id, image_id=image_id)
        await deps.store.put_sandbox(job.lease, record)
        await warm.clone(job, sandbox, candidate.base)
        trees, checks = await _cloned(sandbox, candidate)
    except BaseException:
        await sandbox.aclose()
        await deps.provider.kill(sandbox.id)
        raise
    return _Fresh(sandbox=sandbox, record=record, trees=trees, checks=checks)


async def prepare(sandbox: Sandbox, candidate: Candidate) -> tuple[Trees, tuple[Check, ...]]:
    """Brings the base into a pristine sandbox and builds the candidate's tree there, before anything is run."""
    assert candidate.origin is not None
    await workspace.clone(sandbox, candidate.origin, candidate.base, timeout_s=candidate.rules.timeouts.clone)
    return await _cloned(sandbox, candidate)


async def _cloned(sandbox: Sandbox, candidate: Candidate) -> tuple[Trees, tuple[Check, ...]]:
    trees = await _build(sandbox, candidate, await workspace.listing(sandbox, candidate.base))
    return trees, _checks(candidate, await detected(sandbox))


async def inspect(sandbox: Sandbox, candidate: Candidate, base: tuple[TreeEntry, ...]) -> tuple[Finding, ...]:
    """What the patch gate says of a candidate, as the sandbox has its base."""
    before = await workspace.texts(sandbox, gate.needed(candidate.patch, base))
    found = gate.inspect(candidate.patch, base, before, candidate.rules, gate.kinds(candidate.redact))
    return tuple(replace(each, path=candidate.redact(each.path), said=candidate.redact(each.said)) for each in found)


async def _build(sandbox: Sandbox, candidate: Candidate, base: tuple[TreeEntry, ...]) -> Trees:
    """The candidate's tree, in a sandbox whose git directory is untouched; the base's files are checked out."""
    findings = await inspect(sandbox, candidate, base)
    if gate.refused(findings):
        return Trees(built="", expected="", files=(), findings=findings)
    try:
        expected = tree_id(base, candidate.patch)
    except ValueError as exc:
        raise PatchRefused(f"The change can't be published: {exc}.") from exc
    built = await workspace.build_tree(sandbox, candidate.base, candidate.patch)
    await workspace.check_out_exactly(sandbox, candidate.base, base)
    return Trees(built=built, expected=expected, files=_patched(base, candidate.patch), findings=findings)


def _patched(base: tuple[TreeEntry, ...], patch: Patch) -> tuple[TreeEntry, ...]:
    changed = frozenset(patch.paths)
    new = (
        TreeEntry(mode=change.mode, type="blob", sha=blob_id(change.content), path=change.path)
        for change in patch.changes
        if change.mode is not None
    )
    return (*(entry for entry in base if entry.path not in changed), *new)


def _checks(candidate: Candidate, found: Detected) -> tuple[Check, ...]:
    return detect.applied(candidate.rules, found)[1]


async def examine(sandbox: Sandbox, candidate: Candidate, trees: Trees, checks: tuple[Check, ...]) -> Evidence:
    """Set-up, then the checks on exactly the candidate's tree, without a network unless the rules list one. What the
    patch gate refuses is not run."""
    redact = candidate.redact
    evidence = Evidence(
        base=candidate.base, tree=trees.built, expected_tree=trees.expected, checks=(), findings=trees.findings
    )
    if trees.built != trees.expected or gate.refused(trees.findings):
        return evidence
    try:
        allowed = await hosts(sandbox, candidate.rules.network.checks)
        if not candidate.changes_manifests and not trees.is_set_up:
            await set_up(sandbox, candidate.rules, await detected(sandbox), listed=candidate.listed)
        await workspace.check_out_exactly(sandbox, trees.built, trees.files)
        if candidate.changes_manifests:
            await set_up(sandbox, candidate.rules, await detected(sandbox), listed=candidate.listed)
            await workspace.check_out_exactly(sandbox, trees.built, trees.files)
    except (SetupFailed, RegistryUnknown) as exc:
        return replace(evidence, problem=redact(str(exc)))
    await sandbox.allow(allowed)
    results = [await _check(sandbox, check, candidate.rules, redact) for check in checks]
    return replace(evidence, checks=tuple(results))


async def _check(sandbox: Sandbox, check: Check, rules: Config, redact: Callable[[str], str]) -> CheckResult:
    env = sandbox.proxy_env if rules.network.checks else None
    if check.report:
        # A report that lies there before the check has run was written by somebody else.
        with contextlib.suppress(OSError, ValueError):
            await sandbox.remove(f"{workspace.REPO}/{check.report}")
    result = await run_line(sandbox, check.run, env=env, timeout_s=check.timeout, trusted_status=True)
    junit = await _report(sandbox, check.report) if check.report else None
    out, err = (stream.decode("utf-8", "replace") for stream in (result.stdout, result.stderr))
    counts = None if result.timed_out else report.read(result.exit_code, out, err, junit)
    return CheckResult(
        name=check.name,
        command=check.run,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_s=result.duration_s,
        counts=counts,
        output=redact(tail(result, OUTPUT_KEPT)),
    )


async def _report(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return await sandbox.read(f"{workspace.REPO}/{path}", max_bytes=REPORT_LIMIT)
    except (OSError, ValueError, SandboxError):
        return None


async def _receipt(deps: Deps, task: Task, episode: Episode, evidence: Evidence, fresh: _Fresh) -> Receipt:
    used = spend(await deps.store.steps(task.id))
    work = [item for item in await deps.store.sandboxes(task.id) if item.kind == "work"]
    return Receipt(
        repository=task.full_name,
        evidence=evidence,
        verdict=judge(evidence),
        config_sha=episode.config_sha,
        image=fresh.record.image_id,
        sandbox=place(deps.provider, work[0]) if work else None,
        verification_sandbox=place(deps.provider, fresh.record),
        snapshot=fresh.snapshot,
        model=await _model_name(deps, episode),
        cost=None if used.cost is None else Decimal(used.cost),
        created_at=deps.clock(),
        bot_version=deps.bot_version,
    )


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
        case Passed():
            stage = Stage.PUBLISH  # which shows it first, where somebody has to approve it
        case Failed(reasons=reasons) if episode.attempts < rules.limits.attempts:
            outputs = {c.name: c.output for c in receipt.evidence.checks if c.exit_code or c.timed_out}
            episode = replace(episode, feedback=comment.feedback(reasons, outputs))
            task, stage = replace(task, state=State.WORKING), Stage.EPISODE
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
