"""How an episode ends without a pull request, or has to go on: saved, told, and the sandbox kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from bot.domain import comment
from bot.domain.config import Config
from bot.domain.episode import Code, Episode
from bot.domain.errors import CoderError, GitHubError, InfraError, ModelError, SandboxError, UserError
from bot.domain.gate import Finding
from bot.domain.task import Lease, Stage, State, Task
from bot.pipeline import audit
from bot.pipeline.deps import Deps
from bot.sandbox.workspace import CloneFailed, PatchRefused

log = structlog.get_logger()


async def end(
    deps: Deps, lease: Lease, task: Task, episode: Episode, code: Code, detail: str, *, state: State = State.WAITING
) -> None:
    """Saves the outcome; `cleanup`, due in the same transaction, tells it and pauses or ends the sandboxes."""
    log.info("episode ended", task=task.id, code=str(code), detail=detail)
    await deps.store.save(
        lease,
        replace(task, state=state, updated_at=deps.clock()),
        replace(episode, code=code, detail=deps.redactor.redact(detail)),
        stage=Stage.CLEANUP,
        now=deps.clock(),
    )
    deps.engine.wake()


async def refuse(
    deps: Deps, lease: Lease, task: Task, episode: Episode, rules: Config, findings: Sequence[Finding]
) -> None:
    """What the patch gate refuses is told to the model, once, if there is an attempt left in which it may mend it;
    else, or the next time, that is the end of the episode. Nothing of it is dropped unseen."""
    told = any(comment.is_refusal(step.note) for step in await deps.store.steps(task.id, episode_id=episode.id))
    if told or episode.attempts + 1 >= rules.limits.attempts:
        kinds = sorted({each.kind for each in findings})
        audit.alarm("a change was refused", task, kinds=kinds, requester=episode.requester)
        await end(deps, lease, task, episode, Code.POLICY_REFUSED, comment.refusal_reasons(findings))
        return
    log.info("a refused change goes back", task=task.id, kinds=sorted({each.kind for each in findings}))
    again = replace(task, state=State.WORKING, updated_at=deps.clock())
    feedback = deps.redactor.redact(comment.refused(findings))
    await deps.store.save(lease, again, replace(episode, feedback=feedback), stage=Stage.EPISODE, now=deps.clock())
    deps.engine.wake()


def code_of(error: Exception, stage: Stage) -> tuple[Code, str]:
    """The code and the sentence for an error that ended a stage for good."""
    match error:
        case CloneFailed():
            return Code.CLONE_FAILED, str(error)
        case PatchRefused():
            return Code.WRITE_REFUSED, str(error)
        case ModelError():
            return Code.MODEL_UNUSABLE, str(error)
        case SandboxError(reason="gone"):
            return Code.SANDBOX_LOST, f"The sandbox is gone. {error} `/coder retry` starts over with a new one."
        case SandboxError():
            code = Code.SETUP_FAILED if stage is Stage.PROVISION else Code.SANDBOX_LOST
            return code, f"{error} Ask the operator of this bot to run `coder-bot doctor`; then `/coder retry`."
        case GitHubError():
            return Code.WRITE_REFUSED, f"{error} `/coder retry` tries again."
        case UserError() | InfraError():
            return Code.SETUP_FAILED if stage is Stage.PROVISION else Code.SANDBOX_LOST, str(error)
        case CoderError():
            return Code.SANDBOX_LOST, str(error)
        case _:
            return Code.SANDBOX_LOST, "Something broke in the bot itself; its operator finds the reason in the log."
