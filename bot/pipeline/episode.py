"""The agent's part: connect to the task's sandbox, go on from the last saved step, and keep what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import structlog

from bot.agent import loop, prompts
from bot.agent.loop import Ended, Submitted
from bot.agent.tools import Toolbox, limit_met
from bot.db.store import SandboxRecord, Store
from bot.domain import comment, detect, gate, transcript
from bot.domain.budget import Allowance, Usage
from bot.domain.commands_policy import Policy
from bot.domain.config import PACKAGE_MANAGERS, Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import InfraError, ModelError, SandboxError
from bot.domain.gate import Finding
from bot.domain.merging import has_marks
from bot.domain.patch import Patch
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.transcript import Call, Step, spend
from bot.pipeline import audit, briefing, talk
from bot.pipeline import rules as recorded
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end, refuse
from bot.pipeline.grounds import Candidate
from bot.pipeline.progress import Watch
from bot.pipeline.runs import inspect
from bot.pipeline.setup import detected
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox
from bot.sandbox.workspace import PatchRefused

log = structlog.get_logger()

REPLACEMENTS = 3
"""Sandboxes that one episode may lose and go on."""
LOCAL = "localhost,127.0.0.1,::1"
"""What commands reach without the proxy: servers that tests start."""


@dataclass(frozen=True, kw_only=True)
class _Record:
    """The loop's record: each step, call and checkpoint under the stage's lease."""

    deps: Deps
    lease: Lease
    task: Task
    episode_id: str
    rules: Config
    sandbox: Sandbox
    watch: Watch

    @property
    def store(self) -> Store:
        return self.deps.store

    async def add_step(
        self,
        *,
        number: int,
        note: str | None,
        reply: dict[str, object],
        usage: Usage,
        cost: Decimal | None,
        duration_s: float,
    ) -> Step:
        step = await self.store.add_step(
            self.lease,
            self.episode_id,
            number=number,
            note=note,
            reply=reply,
            usage=usage,
            cost=cost,
            duration_s=duration_s,
        )
        self.watch.heard()
        return step

    async def add_call(self, step_id: int, call: Call) -> None:
        await self.store.add_call(self.lease, step_id, call)
        self.watch.heard()

    async def checkpoint(self) -> str | None:
        return await _checkpoint(self.deps, self.lease, self.task, self.rules, self.sandbox)

    async def is_finishing(self) -> bool:
        return await self.store.is_finishing(self.episode_id)


async def run(deps: Deps, task_id: str) -> None:
    """Leaves the task `verifying` with the patch saved, or ended with a code."""
    lease = await deps.store.lease(task_id)
    task = await deps.store.task(task_id)
    if task.state is not State.WORKING:
        return
    episode = await deps.store.last_episode(task_id)
    rules = recorded.of(episode)
    try:
        sandbox = await connect(deps, lease, task, rules)
        try:
            await _go_on(deps, lease, task, episode, rules, sandbox)
        finally:
            await sandbox.aclose()
    except SandboxError as exc:
        if exc.reason != "gone":
            raise
        await _replace_sandbox(deps, lease, task.id)


async def _go_on(deps: Deps, lease: Lease, task: Task, episode: Episode, rules: Config, sandbox: Sandbox) -> None:
    outcome = await _work(deps, lease, task, episode, rules, sandbox)
    match outcome:
        case Ended(code=code, detail=detail):
            if code in (Code.POLICY_REFUSED, Code.PERMISSION_DENIED):
                audit.alarm("an agent was stopped", task, code=code, requester=episode.requester, detail=detail)
            await _keep(deps, lease, task, rules, sandbox)
            await end(deps, lease, task, episode, code, detail)
        case Submitted() if episode.kind == "fix":
            await _hand_over(deps, lease, task, episode, rules, sandbox, outcome)
        case Submitted(summary=summary):
            done = replace(episode, summary=deps.redactor.redact(summary), replies=_replies(deps, outcome))
            state = State.IN_REVIEW if task.pull_request else State.WAITING
            await end(deps, lease, task, done, Code.ANSWERED, "Answered.", state=state)


async def _replace_sandbox(deps: Deps, lease: Lease, task_id: str) -> None:
    """The task goes back to be provisioned from its last checkpoint, and the model will be told; what was in flight
    gets its result here, so that it is never run a second time unseen."""
    task, episode = await deps.store.task(task_id), await deps.store.last_episode(task_id)
    steps = await deps.store.steps(task_id, episode_id=episode.id)
    losses = transcript.losses(steps, episode.feedback)
    open_calls, kept = loop.lost(steps)
    for call in open_calls:
        await deps.store.add_call(lease, steps[-1].id, call)
    for record in await deps.store.sandboxes(task_id):
        if record.kind == "work":
            await _forget(deps, record)
    log.warning("sandbox is gone", task=task_id, losses=losses + 1, files_of_step=kept)
    if losses >= REPLACEMENTS:
        said = f"The sandbox was lost {losses + 1} times in this episode. The last checkpoint is kept."
        await end(deps, lease, task, episode, Code.SANDBOX_LOST, said)
        return
    feedback = "\n\n".join(filter(None, (transcript.lost_note(kept), episode.feedback)))
    queued = replace(task, state=State.QUEUED, updated_at=deps.clock())
    await deps.store.save(lease, queued, replace(episode, feedback=feedback), stage=Stage.PROVISION, now=deps.clock())
    deps.engine.wake()


async def connect(deps: Deps, lease: Lease, task: Task, rules: Config) -> Sandbox:
    """The task's own sandbox again, with a fresh lifetime; `gone` where there is none."""
    for record in await deps.store.sandboxes(task.id):
        if record.kind == "work" and record.ready and record.provider_id:
            try:
                return await deps.provider.connect(
                    record.provider_id, lifetime_s=rules.sandbox.lifetime, epoch=lease.epoch
                )
            except SandboxError as exc:
                if exc.reason == "gone":
                    await _forget(deps, record)
                raise
    raise SandboxError("gone", "The task has no sandbox.")


async def _forget(deps: Deps, record: SandboxRecord) -> None:
    if record.provider_id:
        await deps.provider.kill(record.provider_id)  # what a sandbox that is gone may have left
    await deps.store.forget_sandbox(record.name)


async def _work(
    deps: Deps, lease: Lease, task: Task, episode: Episode, rules: Config, sandbox: Sandbox
) -> Submitted | Ended:
    steps = await deps.store.steps(task.id, episode_id=episode.id)
    if not episode.feedback and (saved := loop.submitted(steps)):
        return saved
    everything = await deps.store.steps(task.id)
    earlier = spend(tuple(step for step in everything if step.id not in {own.id for own in steps}))
    grants = getattr(rules.grants, episode.kind)
    found = await detected(sandbox)
    _, checks, _ = detect.applied(rules, found)
    hosts = frozenset(rules.network.agent) - PACKAGE_MANAGERS
    await sandbox.allow(hosts)
    model = deps.model(rules.model.name)
    toolbox = Toolbox(
        sandbox=sandbox,
        grants=frozenset(grants),
        policy=Policy.of(allow=rules.commands.allow, deny=(*rules.commands.deny, *deps.ceilings.deny_commands)),
        protected=rules.paths.protected,
        checks=checks,
        redact=deps.redactor.redact,
        command_timeout_s=rules.timeouts.command,
        tests_timeout_s=rules.timeouts.tests,
        lifetime_s=rules.sandbox.lifetime,
        env={**sandbox.proxy_env, "no_proxy": LOCAL, "NO_PROXY": LOCAL} if hosts else {},
        has_threads=bool(episode.threads),
    )
    names = sorted(entry.name + ("/" if entry.kind == "dir" else "") for entry in await sandbox.list(workspace.REPO))
    watch = Watch(deps, lease)
    try:
        return await watch.during(
            loop.run(
                model=model,
                system=prompts.render("system", repository=task.full_name, grants=", ".join(sorted(grants))),
                task=await briefing.of(
                    deps, lease, task, episode, rules, files=names, checks=[check.run for check in checks]
                ),
                steps=steps,
                feedback=episode.feedback,
                earlier=earlier,
                toolbox=toolbox,
                allowed=_allowance(rules),
                record=_Record(
                    deps=deps,
                    lease=lease,
                    task=task,
                    episode_id=episode.id,
                    rules=rules,
                    sandbox=sandbox,
                    watch=watch,
                ),
            )
        )
    except ModelError as exc:
        if exc.retryable:
            raise
        log.error("model gave no usable reply", task=task.id, reason=exc.reason)
        noted = episode.feedback or next((step.note for step in reversed(steps) if step.note), None)
        if comment.is_refusal(noted):
            told = f"The change was refused, and the model gave up.\n{noted}\n{exc}"
            return Ended(code=Code.POLICY_REFUSED, detail=told)
        if episode.attempts:
            receipt = await deps.store.receipt(task.id)
            reasons = "\n".join(receipt.document["reasons"]) if receipt else ""
            return Ended(
                code=Code.CHECKS_FAILED, detail=f"The checks failed, and the model gave up.\n{reasons}\n{exc}"
            )
        return Ended(code=Code.MODEL_UNUSABLE, detail=f"{exc} Nothing was submitted.")
    finally:
        await model.aclose()


def _allowance(rules: Config) -> Allowance:
    limits = rules.limits
    return Allowance(
        steps=limits.steps,
        tool_calls=limits.tool_calls,
        tokens=limits.tokens,
        duration_s=limits.duration,
        cost=limits.cost,
    )


async def _hand_over(
    deps: Deps, lease: Lease, task: Task, episode: Episode, rules: Config, sandbox: Sandbox, outcome: Submitted
) -> None:
    """The candidate leaves the sandbox as bytes, is saved, and verification is due."""
    title, summary = (deps.redactor.redact(text.replace("\0", "")) for text in (outcome.title, outcome.summary))
    steps = await deps.store.steps(task.id, episode_id=episode.id)
    if lost := transcript.losses(steps, None):
        summary = f"{summary}\n\n{transcript.replaced(lost)}".strip()
    replies = _replies(deps, outcome)
    episode = replace(await deps.store.last_episode(task.id), title=title, summary=summary, replies=replies)
    patch = await _collect(deps, task, rules, sandbox)
    if isinstance(patch, str):
        await end(deps, lease, task, episode, Code.LIMIT_EXCEEDED, f"{patch} (`limits.files`, `limits.patch`)")
        return
    if not patch:
        said = f"The model says it is done, but no file has changed. It said:\n{outcome.summary}"
        await end(deps, lease, task, episode, Code.NO_CHANGE, said)
        return
    if task.merges is not None and (left := _unresolved(patch)):
        await refuse(deps, lease, await deps.store.task(task.id), episode, rules, left)
        return
    if refused := gate.refused(await _looked_at(deps, task, rules, sandbox, patch)):
        await refuse(deps, lease, await deps.store.task(task.id), episode, rules, refused)
        return
    await deps.store.add_checkpoint(lease, task.base_sha, patch)
    verifying = replace(await deps.store.task(task.id), state=State.VERIFYING, updated_at=deps.clock())
    await deps.store.save(lease, verifying, episode, stage=Stage.VERIFY, now=deps.clock())
    await talk.tell(deps, verifying, episode)
    deps.engine.wake()


def _unresolved(patch: Patch) -> tuple[Finding, ...]:
    return tuple(
        Finding(action="refuse", kind="conflict", path=change.path, said="still has the marks of a conflict")
        for change in patch.changes
        if has_marks(change.content)
    )


def _replies(deps: Deps, outcome: Submitted) -> dict[str, str]:
    return {place: deps.redactor.redact(text.replace("\0", "")) for place, text in outcome.replies.items()}


async def _looked_at(deps: Deps, task: Task, rules: Config, sandbox: Sandbox, patch: Patch) -> tuple[Finding, ...]:
    """What the patch gate says already here, by what this sandbox says of the base: for the model to mend it at once.
    Verification asks again where nothing can have touched the base."""
    redact = deps.redactor.redact
    candidate = Candidate(base=task.base_sha, patch=patch, rules=rules, redact=redact)
    try:
        return await inspect(sandbox, candidate, await workspace.listing(sandbox, task.base_sha))
    except (InfraError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        # Whatever has run here may have had a hand in the answer, and in its form.
        if isinstance(exc, SandboxError) and exc.reason != "limit_exceeded":
            raise
        log.warning("the base can't be read in the work sandbox", task=task.id, reason=str(exc))
        return gate.inspect_names(patch, rules)


async def _collect(deps: Deps, task: Task, rules: Config, sandbox: Sandbox) -> Patch | str:
    """The patch so far; else why it can't be kept: it is too large, or nobody can read the work tree."""
    limits = rules.limits
    try:
        patch = await workspace.collect(sandbox, task.base_sha, max_files=limits.files, max_bytes=limits.patch)
    except PatchRefused as exc:
        return deps.redactor.redact(str(exc))
    except RecursionError:  # JSON nested without end
        return "The changes could not be read from the work tree."
    except SandboxError as exc:
        return await limit_met(sandbox, exc, rules.sandbox.lifetime)
    problem = patch.excess(max_files=limits.files, max_bytes=limits.patch)
    return deps.redactor.redact(problem) if problem else patch


async def _checkpoint(deps: Deps, lease: Lease, task: Task, rules: Config, sandbox: Sandbox) -> str | None:
    """Keeps the patch so far; else why that can't be."""
    patch = await _collect(deps, task, rules, sandbox)
    if isinstance(patch, str):
        return patch
    if patch or await deps.store.checkpoint(task.id) is not None:
        await deps.store.add_checkpoint(lease, task.base_sha, patch)
    return None


async def _keep(deps: Deps, lease: Lease, task: Task, rules: Config, sandbox: Sandbox) -> None:
    """Saves what was done so far, so that nothing is lost with the sandbox."""
    try:
        problem = await _checkpoint(deps, lease, task, rules, sandbox)
    except SandboxError as exc:
        problem = str(exc)
    if problem:
        log.warning("no checkpoint could be taken", task=task.id, reason=problem)
