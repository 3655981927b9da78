"""What other programs' checks say of a commit, and the logs of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import BaseModel

from bot.domain.ci_log import Failure, Note, relevant
from bot.domain.errors import GitHubError
from bot.github import answers
from bot.github.calls import Calls
from bot.github.http import SILENCE_S, Elsewhere, trust

PAGES = 5
"""Of a hundred check runs, and of as many suites, that are read of one commit."""
DETAILED = 10
"""Failing checks of one commit whose annotations and logs are read: each takes three calls."""
ANNOTATIONS = 50
"""Of one check, those of failures first."""
EXCERPT = 16_000
"""Characters kept of one log."""
LOG_BYTES = 2_000_000
"""The end of a log that is looked at."""
DOWNLOAD_BYTES = 100_000_000
DOWNLOAD_S = 60.0
"""A log that is longer, or takes longer, is left out."""

_PAGE = 100
_ACTIONS = "github-actions"
_AT_REST = ("completed", "waiting")
"""What waits, waits for a person to approve a deployment."""

ShapeT = TypeVar("ShapeT", bound=BaseModel)
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, kw_only=True)
class CiState:
    """How the newest runs of other Apps' checks on a commit stand: the names of those that failed, and whether
    nothing is still to come."""

    failing: tuple[str, ...]
    is_complete: bool


class Ci(Calls):
    """The part of a repository's calls that reads checks. Those of our own App are left out everywhere, and so are
    the old commit statuses: they have neither annotations nor a log. The token needs `checks: read`, and for the logs
    `actions: read`."""

    async def has_failed(self, sha: str) -> bool:
        """Whether something has failed, and nothing is still to come that would say more. To be asked again before
        something is done about it: a check may have been run again since, and passed."""
        state = await self.ci_state(sha)
        return state.is_complete and bool(state.failing)

    async def ci_state(self, sha: str) -> CiState:
        runs = await self._other_runs(sha)
        about = f"the check suites of {self.full_name}@{sha[:12]}"
        segments = ["commits", sha, "check-suites"]
        suites = await self._paged(answers.Suites, about, segments, lambda found: found.check_suites)
        is_pending = any(run.status not in _AT_REST for run in runs) or any(
            suite.status not in _AT_REST and not self._is_idle(suite) for suite in suites if self._is_other(suite.app)
        )
        return CiState(failing=tuple(run.name for run in runs if _has_failed(run)), is_complete=not is_pending)

    async def failures(self, sha: str) -> tuple[Failure, ...]:
        """The newest runs of other Apps' checks that failed or timed out. What was cancelled, or waits for a person,
        says nothing about the code. Of the first ten with their annotations and, where GitHub Actions ran them, what
        matters of their logs."""
        failed = [run for run in await self._other_runs(sha) if _has_failed(run)]
        first = [await self._detailed(run) for run in failed[:DETAILED]]
        return (*first, *(_failure(run, (), None) for run in failed[DETAILED:]))

    async def _other_runs(self, sha: str) -> list[answers.OtherRun]:
        about = f"the checks of {self.full_name}@{sha[:12]}"
        segments = ["commits", sha, "check-runs"]
        found = await self._paged(answers.OtherRuns, about, segments, lambda found: found.check_runs, filter="latest")
        others = [run for run in found if self._is_other(run.app)]
        workflows = {run.check_suite for run in others if run.app is not None and run.app.slug == _ACTIONS}
        if len(workflows) > 1 and any(map(_has_failed, others)):
            old = await self._superseded(sha)
            return [run for run in others if run.check_suite is None or run.check_suite.id not in old]
        return others

    async def _superseded(self, sha: str) -> set[int]:
        """The suites of workflows that have run again since for the same event on the same commit, such as after a
        pull request was reopened or given a label: GitHub still tells what they said. A job that was run again by
        hand stays in its suite. Nothing where the App may not read it."""
        about = f"the workflow runs of {self.full_name}@{sha[:12]}"
        segments = ["actions", "runs"]
        try:
            found = await self._paged(
                answers.WorkflowRuns, about, segments, lambda found: found.workflow_runs, head_sha=sha
            )
        except GitHubError as exc:
            if _is_not_for_us(exc):
                return set()
            raise
        newest: dict[tuple[int, str], int] = {}
        for run in found:
            newest[run.kind] = max(run.run_number, newest.get(run.kind, 0))
        return {
            run.check_suite_id
            for run in found
            if run.check_suite_id is not None and run.run_number < newest[run.kind]
        }

    async def _paged(
        self,
        shape: type[ShapeT],
        about: str,
        segments: Sequence[str],
        items: Callable[[ShapeT], Sequence[ItemT]],
        **params: str,
    ) -> list[ItemT]:
        found: list[ItemT] = []
        for page in range(1, PAGES + 1):
            part = items(await self._get(shape, about, segments, per_page=_PAGE, page=page, **params))
            found += part
            if len(part) < _PAGE:
                break
        return found

    def _is_other(self, app: answers.CheckApp | None) -> bool:
        return app is None or app.id != self._app_id

    def _is_idle(self, suite: answers.Suite) -> bool:
        """GitHub makes a suite for each App that may write checks; one that never does leaves it queued for ever.
        GitHub Actions has one only where there is something to run."""
        return suite.latest_check_runs_count == 0 and (suite.app is None or suite.app.slug != _ACTIONS)

    async def _detailed(self, run: answers.OtherRun) -> Failure:
        notes = await self._notes(run.id) if run.output.annotations_count else ()
        # Of GitHub Actions' jobs, the check run has the job's number.
        log = await self._log(run.id) if run.app is not None and run.app.slug == _ACTIONS else None
        return _failure(run, notes, log)

    async def _notes(self, run_id: int) -> tuple[Note, ...]:
        about = f"the annotations of the check run {run_id} in {self.full_name}"
        segments = ("check-runs", run_id, "annotations")
        found = await self._get(answers.Remarks, about, segments, per_page=_PAGE)
        first = sorted(found.root, key=lambda each: each.annotation_level != "failure")[:ANNOTATIONS]
        return tuple(
            Note(
                path=each.path,
                line=each.start_line,
                message="\n".join(filter(None, (each.title, each.message))),
            )
            for each in first
        )

    async def _log(self, job_id: int) -> str | None:
        """None where it can't be had: it has been deleted, the App may not read it, or its store doesn't answer."""
        about = f"the log of the job {job_id} in {self.full_name}"
        for _ in range(2):  # an address is good for a minute, and a store may have one bad moment
            try:
                await self._call("GET", about, ["actions", "jobs", job_id, "logs"])
                return None
            except Elsewhere as exc:
                address = exc.address
            except GitHubError as exc:
                if _is_not_for_us(exc):
                    return None
                raise
            end = await _end(address) if address is not None else None
            if end is not None:
                return await asyncio.to_thread(relevant, end.decode("utf-8", "replace"), EXCERPT) or None
        return None


def _is_not_for_us(error: GitHubError) -> bool:
    return error.status in (403, 404, 410) and not error.retryable


def _has_failed(run: answers.OtherRun) -> bool:
    return run.status == "completed" and run.conclusion in ("failure", "timed_out")


def _failure(run: answers.OtherRun, notes: tuple[Note, ...], log: str | None) -> Failure:
    return Failure(
        name=run.name,
        conclusion="timed_out" if run.conclusion == "timed_out" else "failure",
        url=run.html_url or "",
        title=run.output.title or "",
        summary=run.output.summary or "",
        annotations=notes,
        log=log,
    )


async def _end(address: str) -> bytes | None:
    """The last whole lines of what is at an address that is not GitHub's API: no token goes there, and it leads no
    further. None where it can't be had, empty where there is too much of it."""
    headers = {"User-Agent": "coder-bot"}
    kept, size = bytearray(), 0
    try:
        async with (
            asyncio.timeout(DOWNLOAD_S),
            httpx.AsyncClient(verify=trust(), timeout=SILENCE_S, follow_redirects=False, headers=headers) as client,
            client.stream("GET", address) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                return None
            async for part in answer.aiter_bytes():
                size += len(part)
                if size > DOWNLOAD_BYTES:
                    return b""
                kept += part
                del kept[: max(0, len(kept) - LOG_BYTES)]
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
        return None
    return bytes(kept) if size == len(kept) else bytes(kept.partition(b"\n")[2])
