"""The candidate in a fresh sandbox that the agent never touched: its tree built and proved, then the checks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

import structlog

from bot.agent.tools import run_line
from bot.db.store import SandboxRecord
from bot.domain import comment, detect, report
from bot.domain.config import Check, Config
from bot.domain.detect import is_manifest
from bot.domain.episode import Code, Episode
from bot.domain.errors import SandboxError
from bot.domain.patch import Patch
from bot.domain.receipt import Place, Receipt
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.transcript import spend
from bot.domain.tree import tree_id
from bot.domain.verification import CheckResult, Evidence, Failed, Passed, Unverified, judge
from bot.pipeline import rules as recorded
from bot.pipeline import talk
from bot.pipeline.deps import Deps
from bot.pipeline.provision import SetupFailed, detected, hosts, place, set_up, spec
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox
from bot.sandbox.workspace import Origin, PatchRefused, Remote, tail

REPORT_LIMIT = 4 * 1024 * 1024
OUTPUT_KEPT = 6_000
"""Characters of a check's output that go into the evidence and to the model."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What is to be verified, and the rules (from the default branch) it is verified by."""

    origin: Origin
    base: str
    patch: Patch
    rules: Config


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
    record = SandboxRecord(name=f"{task.id}-verify", task_id=task.id, kind="verify", provider=deps.provider.name)
    await deps.store.put_sandbox(lease, record)
    sandbox = await deps.provider.create(spec(deps, record.name, "verify", task.id, rules))
    try:
        image = await deps.provider.image_id(rules.sandbox.image or deps.image)
        record = replace(record, provider_id=sandbox.id, image_id=image)
        await deps.store.put_sandbox(lease, record)
        async with deps.github.token(task.installation_id, task.name, {"contents": "read"}) as token:
            candidate = Candidate(
                origin=Remote(url=task.clone_url, token=token),
                base=checkpoint.base_sha,
                patch=checkpoint.patch,
                rules=rules,
            )
            trees, checks = await prepare(sandbox, candidate)
        evidence = await examine(sandbox, candidate, trees, checks, redact=deps.redactor.redact)
    finally:
        await sandbox.aclose()
        await deps.provider.kill(sandbox.id)
    await deps.store.forget_sandbox(record.name)
    receipt = await _receipt(deps, task, episode, evidence, record)
    await _conclude(deps, lease, task, episode, rules, receipt, checkpoint.id)


@dataclass(frozen=True, kw_only=True)
class Trees:
    """The candidate's tree as git built it in the sandbox, and as we compute it from the bytes we will publish."""

    built: str
    expected: str


async def prepare(sandbox: Sandbox, candidate: Candidate) -> tuple[Trees, tuple[Check, ...]]:
    """Fetches the base into a pristine sandbox and builds the candidate's tree there, before anything is run. The
    token of the origin is not needed afterwards."""
    await workspace.clone(sandbox, candidate.origin, candidate.base, timeout_s=candidate.rules.timeouts.clone)
    base = await workspace.listing(sandbox, candidate.base)
    try:
        expected = tree_id(base, candidate.patch)
    except ValueError as exc:
        raise PatchRefused(f"The change can't be published: {exc}.") from exc
    built = await workspace.build_tree(sandbox, candidate.base, candidate.patch)
    await workspace.check_out_exactly(sandbox, candidate.base)
    _, checks, _ = detect.applied(candidate.rules, await detected(sandbox))
    return Trees(built=built, expected=expected), checks


async def examine(
    sandbox: Sandbox,
    candidate: Candidate,
    trees: Trees,
    checks: tuple[Check, ...],
    *,
    redact: Callable[[str], str],
) -> Evidence:
    """Set-up, then the checks on exactly the candidate's tree, without a network unless the rules list one."""
    evidence = Evidence(base=candidate.base, tree=trees.built, expected_tree=trees.expected, checks=())
    if trees.built != trees.expected:
        return evidence
    new_manifests = any(is_manifest(path) for path in candidate.patch.paths)
    try:
        if not new_manifests:
            await set_up(sandbox, candidate.rules)
        await workspace.check_out_exactly(sandbox, trees.built)
        if new_manifests:
            await set_up(sandbox, candidate.rules)
            await workspace.check_out_exactly(sandbox, trees.built)
    except SetupFailed as exc:
        return replace(evidence, problem=redact(str(exc)))
    try:
        await sandbox.allow(await hosts(sandbox, candidate.rules.network.checks))
    except SetupFailed as exc:
        return replace(evidence, problem=redact(str(exc)))
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


async def _receipt(deps: Deps, task: Task, episode: Episode, evidence: Evidence, record: SandboxRecord) -> Receipt:
    used = spend(await deps.store.steps(task.id))
    work = [item for item in await deps.store.sandboxes(task.id) if item.kind == "work"]
    return Receipt(
        repository=task.full_name,
        evidence=evidence,
        verdict=judge(evidence),
        config_sha=episode.config_sha,
        image=record.image_id,
        sandbox=place(deps.provider, work[0]) if work else None,
        verification_sandbox=Place(provider=deps.provider.name, id=record.provider_id or record.name),
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
        case Passed() if rules.pull_request.publish == "after_approval":
            task, stage = replace(task, state=State.AWAITING_APPROVAL), None
        case Passed():
            stage = Stage.PUBLISH
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
