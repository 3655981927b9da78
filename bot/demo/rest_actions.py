"""Runs of GitHub Actions: their jobs and logs."""

from __future__ import annotations

from dataclasses import replace

from bot.demo import job_logs
from bot.demo.calls import READ_ACTIONS, Answer, Call, Operations, Refused
from bot.demo.state import WorkflowRun


def list_runs(call: Call) -> Answer:
    asked = call.query
    found = [
        run
        for run in reversed(call.repository.workflows.values())
        if asked.get("head_sha", run.suite.head_sha) == run.suite.head_sha
        and asked.get("branch", run.suite.head_branch) == run.suite.head_branch
        and asked.get("check_suite_id", str(run.suite.id)) == str(run.suite.id)
        and asked.get("status") in (None, run.suite.status, run.suite.conclusion)
    ]
    page = call.page([call.shapes.workflow_run(call.repository, run) for run in found])
    return replace(page, body={"total_count": len(found), "workflow_runs": page.body})


def get_run(call: Call) -> Answer:
    return Answer(body=call.shapes.workflow_run(call.repository, _run(call)))


def list_jobs(call: Call) -> Answer:
    job = call.shapes.job(call.repository, _run(call))
    return Answer(body={"total_count": 1, "jobs": [job]})


def _run(call: Call) -> WorkflowRun:
    run = call.repository.workflows.get(int(call.variables["run_id"]))
    if run is None:
        raise Refused(404, "Not Found")
    return run


def download_log(call: Call) -> Answer:
    for run in call.repository.workflows.values():
        if run.job.id == int(call.variables["job_id"]):
            link = job_logs.link(call.world, call.shapes.origin, run)
            return Answer(status=302, headers={"Location": link})
    raise Refused(404, "Not Found")


OPERATIONS: Operations = {
    "actions/list-workflow-runs-for-repo": (READ_ACTIONS, list_runs),
    "actions/get-workflow-run": (READ_ACTIONS, get_run),
    "actions/list-jobs-for-workflow-run": (READ_ACTIONS, list_jobs),
    "actions/download-job-logs-for-workflow-run": (READ_ACTIONS, download_log),
}
