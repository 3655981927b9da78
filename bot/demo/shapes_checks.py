"""The JSON for checks, and for runs of GitHub Actions."""

from __future__ import annotations

from dataclasses import dataclass

from bot.demo.shapes_base import Base, Object, node, when
from bot.demo.state import CheckRun, CheckSuite, Repository, WorkflowRun

ACTIONS = 15368
"""The id of the App that is called GitHub Actions."""


@dataclass(frozen=True, kw_only=True)
class Checks(Base):
    def check_run(self, repository: Repository, run: CheckRun) -> Object:
        url = self.url(repository, f"/check-runs/{run.id}")
        output: Object = {key: run.output.get(key) for key in ("title", "summary", "text")}
        suite = repository.suite_of(run)
        return {
            "id": run.id,
            "node_id": node("CheckRun", run.id),
            "name": run.name,
            "head_sha": run.head_sha,
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": when(run.started_at),
            "completed_at": run.completed_at,
            "external_id": run.external_id,
            "details_url": run.details_url,
            "url": url,
            "html_url": self.page(repository, f"/runs/{run.id}"),
            "check_suite": {"id": run.suite_id},
            "output": {**output, "annotations_count": len(run.annotations), "annotations_url": f"{url}/annotations"},
            "app": self._app_of(suite),
            "pull_requests": self._pulls_at(repository, run.head_sha),
        }

    def check_suite(self, repository: Repository, suite: CheckSuite) -> Object:
        url = self.url(repository, f"/check-suites/{suite.id}")
        return {
            "id": suite.id,
            "node_id": node("CheckSuite", suite.id),
            "head_branch": suite.head_branch,
            "head_sha": suite.head_sha,
            "status": suite.status,
            "conclusion": suite.conclusion,
            "url": url,
            "before": None,
            "after": suite.head_sha,
            "pull_requests": self._pulls_at(repository, suite.head_sha),
            "app": self._app_of(suite),
            "created_at": when(suite.created_at),
            "updated_at": when(suite.created_at),
            "latest_check_runs_count": sum(run.suite_id == suite.id for run in repository.checks.values()),
            "check_runs_url": f"{url}/check-runs",
            "head_commit": self._head_commit(repository, suite.head_sha),
        }

    def annotations(self, repository: Repository, run: CheckRun) -> list[Object]:
        blank: Object = dict.fromkeys(("start_column", "end_column", "title", "raw_details"))
        return [
            {**blank, **said, "blob_href": self.page(repository, f"/blob/{run.head_sha}/{said['path']}")}
            for said in run.annotations
        ]

    def workflow(self, repository: Repository, run: WorkflowRun) -> Object:
        url, page = (
            self._workflow_url(repository, run),
            self.page(repository, f"/actions/workflows/{run.job.name}.yml"),
        )
        created = when(repository.created_at)
        return {
            "id": self._workflow_id(run),
            "node_id": node("Workflow", self._workflow_id(run)),
            "name": run.job.name,
            "path": self._workflow_path(run),
            "state": "active",
            "url": url,
            "html_url": page,
            "badge_url": f"{page}/badge.svg",
            "created_at": created,
            "updated_at": created,
        }

    def workflow_run(self, repository: Repository, run: WorkflowRun) -> Object:
        url, suite, created = self._run_url(repository, run), run.suite, when(run.suite.created_at)
        actor = self.user("github-actions[bot]")
        return {
            "id": run.id,
            "node_id": node("WorkflowRun", run.id),
            "name": run.job.name,
            "display_title": repository.bare.commit(suite.head_sha).message.partition("\n")[0],
            "head_branch": suite.head_branch,
            "head_sha": suite.head_sha,
            "path": self._workflow_path(run),
            "run_number": run.number,
            "run_attempt": 1,
            "event": "push",
            "status": suite.status,
            "conclusion": suite.conclusion,
            "workflow_id": self._workflow_id(run),
            "check_suite_id": suite.id,
            "check_suite_node_id": node("CheckSuite", suite.id),
            "pull_requests": self._pulls_at(repository, suite.head_sha),
            "actor": actor,
            "triggering_actor": actor,
            "created_at": created,
            "updated_at": created,
            "run_started_at": created,
            "url": url,
            "html_url": self.page(repository, f"/actions/runs/{run.id}"),
            **{f"{name}_url": f"{url}/{name}" for name in ("jobs", "logs", "artifacts", "cancel", "rerun")},
            "previous_attempt_url": None,
            "check_suite_url": self.url(repository, f"/check-suites/{suite.id}"),
            "workflow_url": self._workflow_url(repository, run),
            "head_commit": self._head_commit(repository, suite.head_sha),
            "repository": self.repository(repository),
            "head_repository": self.repository(repository),
        }

    def job(self, repository: Repository, run: WorkflowRun) -> Object:
        job = run.job
        return {
            "id": job.id,
            "run_id": run.id,
            "run_url": self._run_url(repository, run),
            "run_attempt": 1,
            "node_id": node("CheckRun", job.id),
            "head_sha": job.head_sha,
            "head_branch": run.suite.head_branch,
            "url": self.url(repository, f"/actions/jobs/{job.id}"),
            "html_url": self.page(repository, f"/actions/runs/{run.id}/job/{job.id}"),
            "status": job.status,
            "conclusion": job.conclusion,
            "created_at": when(job.started_at),
            "started_at": when(job.started_at),
            "completed_at": job.completed_at,
            "name": job.name,
            "steps": [],
            "check_run_url": self.url(repository, f"/check-runs/{job.id}"),
            "labels": ["ubuntu-latest"],
            **dict.fromkeys(("runner_id", "runner_name", "runner_group_id", "runner_group_name")),
            "workflow_name": job.name,
        }

    def _run_url(self, repository: Repository, run: WorkflowRun) -> str:
        return self.url(repository, f"/actions/runs/{run.id}")

    def _workflow_url(self, repository: Repository, run: WorkflowRun) -> str:
        return self.url(repository, f"/actions/workflows/{self._workflow_id(run)}")

    def _workflow_id(self, run: WorkflowRun) -> int:
        # Workflows are not kept: the same name is the same workflow.
        return int.from_bytes(run.job.name.encode()[:6], "big")

    def _workflow_path(self, run: WorkflowRun) -> str:
        return f".github/workflows/{run.job.name}.yml"

    def _app_of(self, suite: CheckSuite) -> Object:
        if suite.ours:
            return self.app()
        return {
            **self.app(),
            "id": ACTIONS,
            "slug": "github-actions",
            "node_id": node("Integration", ACTIONS),
            "owner": self.user("github"),
            "name": "GitHub Actions",
            "html_url": f"{self.origin}/apps/github-actions",
            "permissions": {},
            "events": [],
        }

    def _pulls_at(self, repository: Repository, sha: str) -> list[Object]:
        """The open pull requests with that head, in short."""
        known = {"id": repository.id, "url": self.url(repository), "name": repository.name}
        return [
            {
                "id": issue.id,
                "number": issue.number,
                "url": self.url(repository, f"/pulls/{issue.number}"),
                "head": {"ref": pull.head_branch, "sha": pull.head_sha, "repo": known},
                "base": {"ref": pull.base, "sha": pull.base_sha, "repo": known},
            }
            for issue, pull in repository.pulls()
            if issue.state == "open" and pull.head_sha == sha
        ]

    def _head_commit(self, repository: Repository, sha: str) -> Object:
        commit = repository.bare.commit(sha)
        people = {"author": commit.author, "committer": commit.committer}
        return {
            "id": sha,
            "tree_id": commit.tree,
            "message": commit.message,
            "timestamp": when(commit.committer.date),
            **{role: {"name": who.name, "email": who.email} for role, who in people.items()},
        }
