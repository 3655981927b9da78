"""Check runs."""

from __future__ import annotations

from dataclasses import replace

from bot.demo.calls import READ_CHECKS, WRITE_CHECKS, Answer, Call, Operations, Refused, invalid
from bot.demo.state import CheckRun


def create_check(call: Call) -> Answer:
    if call.repository.bare.kind(call.body["head_sha"]) != "commit":
        raise Refused(422, f"No commit found for SHA: {call.body['head_sha']}")
    suite = call.world.open_suite(call.repository, call.body["head_sha"], ours=True)
    run = CheckRun(
        id=call.world.next_id(),
        suite_id=suite.id,
        name=call.body["name"],
        head_sha=call.body["head_sha"],
        started_at=call.world.clock(),
    )
    _set(call, run)
    call.repository.checks[run.id] = run
    call.webhooks.check_run("created", call.repository, run, call.me)
    _tell(call, run)
    return Answer(status=201, body=call.shapes.check_run(call.repository, run))


def update_check(call: Call) -> Answer:
    run = _run(call)
    if not call.repository.suite_of(run).ours:
        raise Refused(
            403, "Invalid app_id `15368` - check run can only be modified by the GitHub App that created it."
        )
    ended = run.status == "completed"
    _set(call, run)
    if not ended:
        _tell(call, run)
    return Answer(body=call.shapes.check_run(call.repository, run))


def _set(call: Call, run: CheckRun) -> None:
    asked = call.body
    if asked.get("status") == "completed" and "conclusion" not in asked:
        raise invalid("CheckRun", "conclusion", "missing_field")
    for key in ("name", "details_url", "external_id", "status", "conclusion"):
        if key in asked:
            setattr(run, key, asked[key])
    if "output" in asked:
        run.output = {key: value for key, value in asked["output"].items() if key != "annotations"}
        run.annotations += asked["output"].get("annotations", ())
    if "conclusion" in asked:
        run.status = "completed"
        run.completed_at = asked.get("completed_at", call.world.clock().isoformat())


def _tell(call: Call, run: CheckRun) -> None:
    """The App hears of the end of its own runs and suites as it does of others'."""
    if run.status != "completed":
        return
    suite = call.repository.suite_of(run)
    inside = [known for known in call.repository.checks.values() if known.suite_id == suite.id]
    if all(known.status == "completed" for known in inside):
        bad = [known.conclusion for known in inside if known.conclusion not in ("success", "neutral", "skipped")]
        suite.status, suite.conclusion = "completed", bad[0] if bad else "success"
        call.webhooks.checked(call.repository, run, None, call.me)
    else:
        call.webhooks.check_run("completed", call.repository, run, call.me)


def list_checks(call: Call) -> Answer:
    sha = call.repository.bare.resolve(call.variables["ref"])
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {call.variables['ref']}")
    return _runs(call, [run for run in call.repository.checks.values() if run.head_sha == sha])


def list_checks_of_suite(call: Call) -> Answer:
    number = int(call.variables["check_suite_id"])
    if number not in call.repository.suites:
        raise Refused(404, "Not Found")
    return _runs(call, [run for run in call.repository.checks.values() if run.suite_id == number])


def list_suites(call: Call) -> Answer:
    sha = call.repository.bare.resolve(call.variables["ref"])
    if sha is None:
        raise Refused(422, f"No commit found for SHA: {call.variables['ref']}")
    suites = [suite for suite in call.repository.suites.values() if suite.head_sha == sha]
    where = {"repository": call.shapes.repository(call.repository)}
    page = call.page([{**call.shapes.check_suite(call.repository, suite), **where} for suite in suites])
    return replace(page, body={"total_count": len(suites), "check_suites": page.body})


def _runs(call: Call, runs: list[CheckRun]) -> Answer:
    runs = [run for run in runs if call.query.get("check_name", run.name) == run.name]
    runs = [run for run in runs if call.query.get("status", run.status) == run.status]
    if call.query.get("filter", "latest") == "latest":
        runs = list({(run.name, call.repository.suite_of(run).ours): run for run in runs}.values())
    page = call.page([call.shapes.check_run(call.repository, run) for run in runs])
    return replace(page, body={"total_count": len(runs), "check_runs": page.body})


def list_annotations(call: Call) -> Answer:
    return call.page(call.shapes.annotations(call.repository, _run(call)))


def _run(call: Call) -> CheckRun:
    run = call.repository.checks.get(int(call.variables["check_run_id"]))
    if run is None:
        raise Refused(404, "Not Found")
    return run


OPERATIONS: Operations = {
    "checks/create": (WRITE_CHECKS, create_check),
    "checks/update": (WRITE_CHECKS, update_check),
    "checks/list-for-ref": (READ_CHECKS, list_checks),
    "checks/list-for-suite": (READ_CHECKS, list_checks_of_suite),
    "checks/list-suites-for-ref": (READ_CHECKS, list_suites),
    "checks/list-annotations": (READ_CHECKS, list_annotations),
}
