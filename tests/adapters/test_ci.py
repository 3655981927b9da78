"""What is asked about other programs' checks on a commit, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.domain.ci_log import MARK, Failure, Note
from bot.domain.errors import GitHubError
from bot.github.auth import App
from bot.github.ci import ANNOTATIONS, DETAILED, DOWNLOAD_BYTES, EXCERPT, LOG_BYTES, CiState
from bot.github.client import Repository
from tests.adapters.local_github import NAME, local_github

APP_ID = 41
SHA = "a" * 40
STORE = "https://store.test/logs/7?sig=secret"
ACTIONS = {"id": 15368, "slug": "github-actions"}
OTHER = {"id": 99, "slug": "lint-it"}
OURS = {"id": APP_ID, "slug": "coder"}


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()


class GitHub:
    """One GitHub by its API's address, and what it answers of one commit."""

    def __init__(self, router: respx.MockRouter, api: str) -> None:
        self.router = router
        self.api = api
        self.repo = f"{api}/repos/octo/sample"
        router.post(f"{api}/app/installations/5/access_tokens").respond(201, json={"token": "ghs_token"})
        router.delete(f"{api}/installation/token").respond(204)

    def runs(self, *runs: dict[str, Any]) -> respx.Route:
        pages = [runs[at : at + 100] for at in range(0, len(runs) + 1, 100)]
        found = [httpx.Response(200, json={"total_count": len(runs), "check_runs": page}) for page in pages]
        return self.router.get(f"{self.repo}/commits/{SHA}/check-runs").mock(side_effect=found)

    def suites(self, *suites: dict[str, Any]) -> respx.Route:
        body = {"total_count": len(suites), "check_suites": suites}
        return self.router.get(f"{self.repo}/commits/{SHA}/check-suites").respond(200, json=body)

    def annotations(self, run_id: int, *found: dict[str, Any]) -> respx.Route:
        return self.router.get(f"{self.repo}/check-runs/{run_id}/annotations").respond(200, json=list(found))

    def log(self, job_id: int, *answers: httpx.Response) -> respx.Route:
        return self.router.get(f"{self.repo}/actions/jobs/{job_id}/logs").mock(side_effect=list(answers))

    def store(self, *answers: httpx.Response | Exception) -> respx.Route:
        return self.router.get(url=STORE).mock(side_effect=list(answers))


@pytest.fixture
def api() -> str:
    return "https://github.test/api/v3"


@pytest.fixture
def github(api: str) -> Iterator[GitHub]:
    with respx.mock(assert_all_called=False) as router:
        yield GitHub(router, api)


@pytest.fixture
async def repository(private_key: str, github: GitHub) -> AsyncIterator[Repository]:
    app = App(APP_ID, private_key, github.api)
    async with app.repository(5, "octo", "sample", permissions={"checks": "read", "actions": "read"}) as repository:
        yield repository


def run(id: int = 7, conclusion: str | None = "failure", app: dict[str, Any] | None = ACTIONS, **more: Any) -> Any:
    return {
        "id": id,
        "name": f"check {id}",
        "status": "completed" if conclusion else "in_progress",
        "conclusion": conclusion,
        "html_url": f"https://github.test/runs/{id}",
        "output": {"title": None, "summary": None, "annotations_count": 0},
        "app": app,
        **more,
    }


def suite(status: str = "completed", count: int = 1, app: dict[str, Any] | None = OTHER) -> dict[str, Any]:
    return {"id": 3, "status": status, "latest_check_runs_count": count, "app": app}


def elsewhere(address: str = STORE) -> httpx.Response:
    return httpx.Response(302, headers={"Location": address})


def remark(line: int, level: str | None, message: str | None, title: str | None = None) -> dict[str, Any]:
    return {
        "path": "src/a.py",
        "start_line": line,
        "end_line": line,
        "annotation_level": level,
        "title": title,
        "message": message,
    }


async def test_the_newest_runs_of_other_apps_count_where_they_failed(repository: Repository, github: GitHub) -> None:
    others = ["success", "neutral", "cancelled", "skipped", "action_required", "stale", None]
    asked = github.runs(
        *(run(at, conclusion, OTHER) for at, conclusion in enumerate(others)),
        *(run(at, "success", OTHER) for at in range(20, 120)),
        run(200, "failure", OURS),
        run(201, "failure", OTHER),
        run(202, "timed_out", None),
    )
    assert await repository.failures(SHA) == (
        Failure(name="check 201", conclusion="failure", url="https://github.test/runs/201"),
        Failure(name="check 202", conclusion="timed_out", url="https://github.test/runs/202"),
    )
    assert [dict(call.request.url.params) for call in asked.calls] == [
        {"filter": "latest", "per_page": "100", "page": page} for page in ("1", "2")
    ]


async def test_a_failing_job_is_told_with_its_annotations_and_its_log(repository: Repository, github: GitHub) -> None:
    github.runs(run(output={"title": "Broken", "summary": "It is.", "annotations_count": 3}))
    github.annotations(7, remark(1, "warning", "old"), remark(2, "failure", "5 != 4", "Sum"), remark(3, None, None))
    github.log(7, elsewhere())
    store = github.store(httpx.Response(200, text="\ufeff2026-11-30T10:00:00.1234567Z FAILED test_a.py\r\n"))
    assert await repository.failures(SHA) == (
        Failure(
            name="check 7",
            conclusion="failure",
            url="https://github.test/runs/7",
            title="Broken",
            summary="It is.",
            annotations=(
                Note(path="src/a.py", line=2, message="Sum\n5 != 4"),
                Note(path="src/a.py", line=1, message="old"),
                Note(path="src/a.py", line=3, message=""),
            ),
            log="FAILED test_a.py",
        ),
    )
    assert "authorization" not in store.calls[0].request.headers
    assert "ghs_token" not in repr(store.calls[0].request.headers.raw)


async def test_what_is_told_of_one_commit_has_bounds(repository: Repository, github: GitHub) -> None:
    words = {"title": None, "summary": None, "annotations_count": 100}
    github.runs(*(run(at, "failure", OTHER, output=words) for at in range(DETAILED + 2)))
    asked = [github.annotations(at, *[remark(1, "failure", "no")] * 100) for at in range(DETAILED + 2)]
    found = await repository.failures(SHA)
    assert [len(failure.annotations) for failure in found] == [ANNOTATIONS] * DETAILED + [0, 0]
    assert [route.call_count for route in asked] == [1] * DETAILED + [0, 0]


@pytest.mark.parametrize("status", [403, 404, 410])
async def test_a_log_that_is_not_for_us_is_left_out(repository: Repository, github: GitHub, status: int) -> None:
    github.runs(run())
    github.log(7, httpx.Response(status, json={"message": "Resource not accessible by integration"}))
    (failure,) = await repository.failures(SHA)
    assert failure.log is None


async def test_a_limit_is_no_missing_log(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, httpx.Response(403, json={"message": "secondary rate limit"}, headers={"Retry-After": "900"}))
    with pytest.raises(GitHubError, match="the log of the job 7 in octo/sample") as caught:
        await repository.failures(SHA)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="<Error><Code>BlobNotFound</Code></Error>"),
        httpx.Response(302, headers={"Location": "https://evil.test/log"}),
        httpx.ConnectError("no way there"),
        httpx.ReadTimeout("silence"),
    ],
    ids=["gone", "leads further", "unreachable", "silent"],
)
async def test_a_store_that_does_not_give_the_log_is_asked_twice(
    repository: Repository, github: GitHub, answer: httpx.Response | Exception
) -> None:
    github.runs(run())
    asked = github.log(7, elsewhere(), elsewhere())
    store = github.store(answer, answer)
    evil = github.router.get("https://evil.test/log").respond(200, text="FAILED by us")
    (failure,) = await repository.failures(SHA)
    assert failure.log is None
    assert (asked.call_count, store.call_count, evil.call_count) == (2, 2, 0)


async def test_a_store_with_one_bad_moment_gives_the_log(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, elsewhere(), elsewhere())
    github.store(httpx.Response(503), httpx.Response(200, text="FAILED"))
    (failure,) = await repository.failures(SHA)
    assert failure.log == "FAILED"


async def test_a_log_is_fetched_over_tls_or_not_at_all(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, *[elsewhere("http://store.test/7")] * 2)
    plain = github.router.get("http://store.test/7").respond(200, text="FAILED")
    (failure,) = await repository.failures(SHA)
    assert failure.log is None
    assert not plain.called


@pytest.mark.parametrize("api", ["http://127.0.0.1:8080"])
async def test_where_the_api_is_plain_so_may_the_log_be(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, elsewhere("http://127.0.0.1:8081/7"))
    github.router.get("http://127.0.0.1:8081/7").respond(200, text="FAILED")
    (failure,) = await repository.failures(SHA)
    assert failure.log == "FAILED"


async def test_no_token_goes_to_another_part_of_an_enterprise_server(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, elsewhere("https://github.test/_services/logs/7"))
    there = github.router.get("https://github.test/_services/logs/7").respond(200, text="FAILED")
    (failure,) = await repository.failures(SHA)
    assert failure.log == "FAILED"
    assert "authorization" not in there.calls[0].request.headers


async def test_an_answer_in_place_of_the_address_is_no_log(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, httpx.Response(200, json={}))
    (failure,) = await repository.failures(SHA)
    assert failure.log is None


async def test_of_a_long_log_the_end_is_read(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, elsewhere())
    lines = b"\n".join(b"line %d" % at for at in range(LOG_BYTES // 5))
    assert len(lines) > LOG_BYTES
    github.store(httpx.Response(200, content=b"FAILED early\n" + lines + b"\nFAILED late \xff"))
    (failure,) = await repository.failures(SHA)
    assert failure.log is not None
    assert len(failure.log) <= EXCERPT
    assert failure.log.startswith(MARK)
    assert failure.log.endswith("FAILED late \ufffd")
    assert "early" not in failure.log


class Endless(httpx.AsyncByteStream):
    """Counts what was taken of it."""

    def __init__(self) -> None:
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        part = b"FAILED\n" * 150_000
        while True:
            self.taken += len(part)
            yield part


async def test_a_log_without_an_end_is_left_out(repository: Repository, github: GitHub) -> None:
    github.runs(run())
    github.log(7, elsewhere())
    endless = Endless()
    github.store(httpx.Response(200, stream=endless))
    (failure,) = await repository.failures(SHA)
    assert failure.log is None
    assert DOWNLOAD_BYTES < endless.taken < DOWNLOAD_BYTES + 2_000_000


@pytest.mark.parametrize(
    ("runs", "suites", "state"),
    [
        ([], [], CiState(failing=(), is_complete=True)),
        ([run()], [suite()], CiState(failing=("check 7",), is_complete=True)),
        ([run(7, "success"), run(8, "timed_out", OTHER)], [suite()], CiState(failing=("check 8",), is_complete=True)),
        ([run(7), run(8, None)], [suite()], CiState(failing=("check 7",), is_complete=False)),
        ([run()], [suite("in_progress")], CiState(failing=("check 7",), is_complete=False)),
        # A deployment that nobody has approved yet.
        (
            [run(), run(8, None, status="waiting")],
            [suite("waiting")],
            CiState(failing=("check 7",), is_complete=True),
        ),
        # GitHub makes a suite for every App that may write checks, and many never use it.
        ([run()], [suite("queued", 0)], CiState(failing=("check 7",), is_complete=True)),
        ([], [suite("queued", 0, ACTIONS)], CiState(failing=(), is_complete=False)),
        ([], [suite("queued", 0, None)], CiState(failing=(), is_complete=True)),
        ([run(7, "failure", OURS)], [suite("queued", 1, OURS)], CiState(failing=(), is_complete=True)),
    ],
)
async def test_how_the_checks_of_a_commit_stand(
    repository: Repository, github: GitHub, runs: list[Any], suites: list[Any], state: CiState
) -> None:
    github.runs(*runs)
    github.suites(*suites)
    assert await repository.ci_state(SHA) == state


@pytest.mark.parametrize(
    ("suites", "status", "failing"),
    [
        # A workflow that ran again: 3 is the newer suite, whatever came first in the list.
        ([(3, 7, "pull_request", 2), (2, 7, "pull_request", 1)], 200, ("check 3",)),
        ([(2, 7, "pull_request", 1), (3, 7, "pull_request", 2)], 200, ("check 3",)),
        ([(2, 7, "push", 1), (3, 7, "pull_request", 2)], 200, ("check 2", "check 3")),
        ([(2, 7, "push", 1), (3, 8, "push", 2)], 200, ("check 2", "check 3")),
        ([(None, 7, "push", 1), (3, 7, "push", 2)], 200, ("check 2", "check 3")),
        ([], 403, ("check 2", "check 3")),
    ],
)
async def test_what_a_workflow_said_before_it_ran_again_does_not_count(
    repository: Repository, github: GitHub, suites: list[Any], status: int, failing: tuple[str, ...]
) -> None:
    github.runs(run(2, check_suite={"id": 2}), run(3, check_suite={"id": 3}), run(4, "success", OTHER))
    github.suites()
    keys = ("check_suite_id", "workflow_id", "event", "run_number")
    found = [dict(zip(keys, suite, strict=True)) for suite in suites]
    asked = github.router.get(f"{github.repo}/actions/runs")
    asked.respond(status, json={"workflow_runs": found, "message": "Resource not accessible by integration"})
    assert (await repository.ci_state(SHA)).failing == failing
    assert asked.calls[0].request.url.params["head_sha"] == SHA


async def test_that_workflows_can_not_be_asked_now_is_an_error(repository: Repository, github: GitHub) -> None:
    github.runs(run(2, check_suite={"id": 2}), run(3, check_suite={"id": 3}))
    github.router.get(f"{github.repo}/actions/runs").respond(422)
    with pytest.raises(GitHubError, match="the workflow runs of octo/sample@aaaaaaaaaaaa"):
        await repository.failures(SHA)


@pytest.mark.parametrize(
    ("conclusion", "status", "has_failed"),
    [("failure", "completed", True), ("success", "completed", False), ("failure", "in_progress", False)],
)
async def test_something_has_failed_once_all_has_ended(
    repository: Repository, github: GitHub, conclusion: str, status: str, has_failed: bool
) -> None:
    github.runs(run(7, conclusion))
    github.suites(suite(status))
    assert await repository.has_failed(SHA) is has_failed


async def test_of_very_many_checks_the_first_pages_are_read(repository: Repository, github: GitHub) -> None:
    asked = github.runs(*(run(at, "success", OTHER) for at in range(1000)))
    github.suites()
    assert await repository.ci_state(SHA) == CiState(failing=(), is_complete=True)
    assert asked.call_count == 5


async def test_the_local_github_gives_what_failed_with_the_log(tmp_path: Path) -> None:
    async with local_github(tmp_path) as github:
        sha, installation = github.branches(NAME)["main"], github._repository(NAME).installation_id
        assert installation is not None
        await github.ci(NAME, sha, name="lint", conclusion="success")
        await github.ci(
            NAME,
            sha,
            title="1 error",
            annotations=[("src/a.py", 1, "a should be 2")],
            log="2026-11-30T10:00:00.1234567Z \x1b[31mFAILED\x1b[0m test_a",
        )
        app = App(github.app.app_id, github.app.private_key, github.api_url)
        expected = Failure(
            name="tests",
            conclusion="failure",
            url="",
            title="1 error",
            annotations=(Note(path="src/a.py", line=1, message="a should be 2"),),
            log="FAILED test_a",
        )
        for actions, log in (({"actions": "read"}, "FAILED test_a"), ({}, None)):
            permissions = {"checks": "read", **actions}
            async with app.repository(installation, *NAME.split("/"), permissions=permissions) as repository:
                (failure,) = await repository.failures(sha)
                assert replace(failure, url="") == replace(expected, log=log)
