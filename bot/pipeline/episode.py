"""The agent's part: connect to the task's sandbox, go on from the last saved step, and keep what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal

import structlog

from bot.agent import loop, prompts
from bot.agent.loop import Ended, Submitted
from bot.agent.tools import Toolbox
from bot.db.store import Store
from bot.domain import detect, paths
from bot.domain.budget import Allowance, Usage
from bot.domain.commands_policy import Policy
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import ModelError, SandboxError
from bot.domain.task import Lease, Stage, State, Task
from bot.domain.transcript import Call, Step, spend
from bot.pipeline import rules as recorded
from bot.pipeline import talk
from bot.pipeline.deps import Deps
from bot.pipeline.ending import end
from bot.pipeline.provision import detected
from bot.sandbox import workspace
from bot.sandbox.protocol import Sandbox
from bot.sandbox.workspace import PatchRefused

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class _Record:
    """The loop's record: each step and call under the stage's lease."""

    store: Store
    lease: Lease
    episode_id: str

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
        return await self.store.add_step(
            self.lease,
            self.episode_id,
            number=number,
            note=note,
            reply=reply,
            usage=usage,
            cost=cost,
            duration_s=duration_s,
        )

    async def add_call(self, step_id: int, call: Call) -> None:
        await self.store.add_call(self.lease, step_id, call)

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
        sandbox = await connect(deps, task, rules)
    except SandboxError as exc:
        if exc.reason != "gone":
            raise
        log.warning("sandbox is gone, making a new one", task=task.id)
        queued = replace(task, state=State.QUEUED, updated_at=deps.clock())
        await deps.store.save(lease, queued, episode, stage=Stage.PROVISION, now=deps.clock())
        deps.engine.wake()
        return
    try:
        outcome = await _work(deps, lease, task, episode, rules, sandbox)
        match outcome:
            case Ended(code=code, detail=detail):
                await _keep(deps, lease, task, rules, sandbox)
                await end(deps, lease, task, episode, code, detail)
            case Submitted() if episode.kind == "fix":
                await _hand_over(deps, lease, task, episode, rules, sandbox, outcome)
            case Submitted(summary=summary):
                done = replace(episode, summary=deps.redactor.redact(summary))
                state = State.IN_REVIEW if task.pull_request else State.WAITING
                await end(deps, lease, task, done, Code.ANSWERED, "Answered.", state=state)
    finally:
        await sandbox.aclose()


async def connect(deps: Deps, task: Task, rules: Config) -> Sandbox:
    """The task's own sandbox again, with a fresh lifetime; `gone` where there is none."""
    for record in await deps.store.sandboxes(task.id):
        if record.kind == "work" and record.ready and record.provider_id:
            try:
                return await deps.provider.connect(record.provider_id, lifetime_s=rules.sandbox.lifetime)
            except SandboxError as exc:
                if exc.reason == "gone":
                    await deps.store.forget_sandbox(record.name)
                raise
    raise SandboxError("gone", "The task has no sandbox.")


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
    model = deps.model(rules.model.name)
    toolbox = Toolbox(
        sandbox=sandbox,
        grants=frozenset(grants),
        policy=Policy.of(allow=rules.commands.allow, deny=rules.commands.deny),
        protected=rules.paths.protected,
        checks=checks,
        redact=deps.redactor.redact,
        command_timeout_s=rules.timeouts.command,
        tests_timeout_s=rules.timeouts.tests,
    )
    names = sorted(entry.name + ("/" if entry.kind == "dir" else "") for entry in await sandbox.list(workspace.REPO))
    try:
        return await loop.run(
            model=model,
            system=prompts.render("system", repository=task.full_name, grants=", ".join(sorted(grants))),
            task=await _instructions(deps, task, episode, names, [check.run for check in checks]),
            steps=steps,
            feedback=episode.feedback,
            earlier=earlier,
            toolbox=toolbox,
            allowed=_allowance(rules),
            record=_Record(store=deps.store, lease=lease, episode_id=episode.id),
            on_refusals=lambda times: _report_refusals(task, times),
        )
    except ModelError as exc:
        if exc.retryable:
            raise
        log.error("model gave no usable reply", task=task.id, reason=exc.reason)
        if episode.attempts:
            receipt = await deps.store.receipt(task.id)
            reasons = "\n".join(receipt.document["reasons"]) if receipt else ""
            return Ended(
                code=Code.CHECKS_FAILED, detail=f"The checks failed, and the model gave up.\n{reasons}\n{exc}"
            )
        return Ended(code=Code.MODEL_UNUSABLE, detail=f"{exc} Nothing was submitted.")
    finally:
        await model.aclose()


async def _report_refusals(task: Task, times: int) -> None:
    log.error("a burst of refused calls ended an episode", task=task.id, repository=task.full_name, refused=times)


def _allowance(rules: Config) -> Allowance:
    limits = rules.limits
    return Allowance(
        steps=limits.steps,
        tool_calls=limits.tool_calls,
        tokens=limits.tokens,
        duration_s=limits.duration,
        cost=limits.cost,
    )


async def _instructions(deps: Deps, task: Task, episode: Episode, files: Iterable[str], checks: Iterable[str]) -> str:
    comments = await _comments(deps, task)
    said = episode.instruction
    variables = {
        "repository": task.full_name,
        "number": str(task.number),
        "author": task.author,
        "title": task.title,
        "body": task.body[: 64 * 1024],
        "comments": comments,
        "requester": episode.requester,
        "instruction": f"In their words: {said}" if said else "",
        "files": "\n".join(list(files)[:200]),
    }
    if episode.kind == "fix":
        variables["checks"] = "; ".join(f"`{check}`" for check in checks) or "none are configured"
    return deps.redactor.redact(prompts.render(episode.kind, **variables))


async def _comments(deps: Deps, task: Task) -> str:
    """The conversation as it stood when the command was given; what was edited since is left out."""
    async with deps.github.repository(
        task.installation_id, task.owner, task.name, permissions={"issues": "read"}
    ) as repository:
        found = await repository.comments(task.number)
    kept = [
        item
        for item in found
        if not item.author.is_bot and item.created_at <= task.requested_at and item.updated_at <= task.requested_at
    ]
    return "\n\n".join(f"<comment author={item.author.login!r}>\n{item.body}\n</comment>" for item in kept[-20:])


async def _hand_over(
    deps: Deps, lease: Lease, task: Task, episode: Episode, rules: Config, sandbox: Sandbox, outcome: Submitted
) -> None:
    """The candidate leaves the sandbox as bytes, is saved, and verification is due."""
    title, summary = (deps.redactor.redact(text.replace("\0", "")) for text in (outcome.title, outcome.summary))
    episode = replace(await deps.store.last_episode(task.id), title=title, summary=summary)
    try:
        patch = await workspace.collect(
            sandbox, task.base_sha, max_files=rules.limits.files, max_bytes=rules.limits.patch
        )
    except PatchRefused as exc:
        await end(deps, lease, task, episode, Code.WRITE_REFUSED, str(exc))
        return
    if not patch:
        said = f"The model says it is done, but no file has changed. It said:\n{outcome.summary}"
        await end(deps, lease, task, episode, Code.NO_CHANGE, said)
        return
    if refused := [f"`{path}`: {why}" for path in patch.paths if (why := _forbidden(path, rules))]:
        await end(deps, lease, task, episode, Code.POLICY_REFUSED, "The change touches " + "; ".join(refused[:10]))
        return
    await deps.store.add_checkpoint(lease, task.base_sha, patch)
    verifying = replace(await deps.store.task(task.id), state=State.VERIFYING, updated_at=deps.clock())
    await deps.store.save(lease, verifying, episode, stage=Stage.VERIFY, now=deps.clock())
    await talk.tell(deps, verifying, episode)
    deps.engine.wake()


def _forbidden(path: str, rules: Config) -> str | None:
    if paths.is_workflow(path):
        return "workflow files are changed by people (`paths.workflows`)"
    return paths.is_protected(path, rules.paths.protected)


async def _keep(deps: Deps, lease: Lease, task: Task, rules: Config, sandbox: Sandbox) -> None:
    """Saves what was done so far, so that nothing is lost with the sandbox."""
    try:
        patch = await workspace.collect(
            sandbox, task.base_sha, max_files=rules.limits.files, max_bytes=rules.limits.patch
        )
    except (PatchRefused, SandboxError) as exc:
        log.warning("no checkpoint could be taken", task=task.id, reason=str(exc))
        return
    if patch:
        await deps.store.add_checkpoint(lease, task.base_sha, patch)
