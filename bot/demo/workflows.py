"""CI of another App, GitHub Actions, on the local GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from bot.demo.scene import Scene
from bot.demo.state import CheckRun, WorkflowRun

Conclusion = Literal["success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"]


class Workflows(Scene):
    """What is told by webhooks returns when they were answered, or could not be sent."""

    async def ci(
        self,
        full_name: str,
        sha: str,
        *,
        name: str = "tests",
        conclusion: Conclusion = "failure",
        title: str = "",
        summary: str = "",
        annotations: Sequence[tuple[str, int, str]] = (),
        log: str | None = None,
    ) -> CheckRun:
        """A check run on that commit has ended, and with it its suite. Each annotation is a path, a line and a
        message. With a log it was a workflow of GitHub Actions, whose run is told of as well."""
        repository, now = self._repository(full_name), self._clock()
        suite = self._world.open_suite(repository, sha, ours=False)
        suite.status, suite.conclusion = "completed", conclusion
        run = CheckRun(
            id=self._world.next_id(),
            suite_id=suite.id,
            name=name,
            head_sha=sha,
            started_at=now,
            status="completed",
            conclusion=conclusion,
            completed_at=now.isoformat(),
            output={"title": title, "summary": summary} if title or summary else {},
            annotations=[
                {
                    "path": path,
                    "start_line": line,
                    "end_line": line,
                    "annotation_level": "failure",
                    "message": message,
                }
                for path, line, message in annotations
            ],
        )
        repository.checks[run.id] = run
        workflow = None
        if log is not None:
            number = len(repository.workflows) + 1
            workflow = WorkflowRun(id=self._world.next_id(), number=number, suite=suite, job=run, log=log)
            repository.workflows[workflow.id] = workflow
        for delivery in self._webhooks.checked(repository, run, workflow, "github-actions[bot]"):
            await self._webhooks.finished(delivery)
        return run
