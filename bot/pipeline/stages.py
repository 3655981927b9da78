"""Which function does which stage, and what happens to a task whose stage failed for good."""

from __future__ import annotations

from typing import assert_never

from bot.domain.errors import UserError
from bot.domain.task import Job, Stage
from bot.pipeline import cleanup, episode, intake, provision, publish, verify
from bot.pipeline.deps import Deps
from bot.pipeline.ending import code_of, end


async def run(deps: Deps, job: Job) -> None:
    """Does one stage. Raises only what the engine may try again, or what it has to give up."""
    try:
        match job.stage:
            case Stage.INTAKE:
                await intake.run(deps, job.key)
            case Stage.PROVISION:
                await provision.run(deps, job.key)
            case Stage.EPISODE:
                await episode.run(deps, job.key)
            case Stage.VERIFY:
                await verify.run(deps, job.key)
            case Stage.PUBLISH:
                await publish.run(deps, job.key)
            case Stage.CLEANUP:
                await cleanup.run(deps, job.key)
            case _ as never:
                assert_never(never)
    except UserError as exc:
        await give_up(deps, job, exc)


async def give_up(deps: Deps, job: Job, error: Exception) -> None:
    """Ends the task of a stage that can't be done, with a code and a sentence for people. A delivery whose intake
    failed is marked so; it can be replayed."""
    if job.stage is Stage.INTAKE:
        await deps.store.conclude(job.key, f"failed: {type(error).__name__}")
        return
    if job.stage is Stage.CLEANUP:
        return  # reconcile ends what is left
    lease = await deps.store.lease(job.key)
    task = await deps.store.task(job.key)
    if not task.is_open:
        return
    code, detail = code_of(error, job.stage)
    await end(deps, lease, task, await deps.store.last_episode(job.key), code, detail)
