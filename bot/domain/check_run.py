"""The check run `coder` on a published commit: the receipt where reviewers and branch rules look for results."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from bot.domain import receipt_text
from bot.domain.markdown import one_line, truncate
from bot.domain.verification import Evidence, fails_beside_canary

NAME = "coder"
TEXT_LIMIT = 65_535
"""GitHub's, of the summary and of the text each."""
ANNOTATIONS = 500
"""The most that are made of one receipt."""
AT_ONCE = 50
"""GitHub's, of annotations in one request."""
PER_CHECK = 50
"""Failing lines that are looked for in one check's output."""

Level = Literal["failure", "warning", "notice"]

# `src/a.py:3`, `src/a.ts(3,5)` and Python's `File "src/a.py", line 3`; the first group that matched is the path.
_PATH = r"([^\s:()\"'`\[\]]{1,300})"
_PLACES = re.compile(rf'File "([^"\n]{{1,300}})", line (\d{{1,7}})|{_PATH}:(\d{{1,7}})\b|{_PATH}\((\d{{1,7}})[,)]')


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """A word on lines of a file, from `start` to `end`."""

    path: str
    start: int
    end: int
    level: Level
    title: str
    message: str


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """What is reported. `external_id` is the same for the same result, however often it is reported."""

    external_id: str
    conclusion: Literal["success", "failure"]
    title: str
    summary: str
    text: str
    annotations: tuple[Annotation, ...]


def external_id(task_id: str, episode: int, tree: str) -> str:
    return f"{task_id}/{episode}/{tree}"


def check_run(
    id: str,
    receipt: Mapping[str, Any],
    evidence: Evidence,
    envelope: Mapping[str, Any] | None,
    files: Files,
) -> CheckRun:
    """The check run of a receipt whose tree has these files. A draft's is a failure: nobody is to merge it for
    a green tick."""
    reasons = receipt["reasons"]
    verdict = "Unverified" if receipt["draft"] else receipt["verdict"]
    return CheckRun(
        external_id=id,
        conclusion="success" if receipt["verdict"] == "Passed" else "failure",
        title=one_line(f"{verdict}: {reasons[0]}" if reasons else verdict, 200),
        summary=truncate(receipt_text.whole(receipt), TEXT_LIMIT, "the rest was cut"),
        text=_signed(envelope),
        annotations=_annotations(receipt, evidence, files),
    )


def _signed(envelope: Mapping[str, Any] | None) -> str:
    if envelope is None:
        return "This receipt is not signed: the bot has no key."
    written = json.dumps(envelope, indent=1)
    text = (
        "The receipt, signed. Save what is between the marks as a file, and `coder-bot receipt verify FILE` says "
        f"whether this bot has signed it.\n\n```json\n{written}\n```"
    )
    if len(text.encode()) > TEXT_LIMIT:
        return "The signed receipt is too long to stand here; the bot keeps it."
    return text


def _annotations(receipt: Mapping[str, Any], evidence: Evidence, files: Files) -> tuple[Annotation, ...]:
    found = [*_failing(evidence, files), *_flagged(receipt, files), *_missed(receipt, files)]
    return tuple(dict.fromkeys(found))[:ANNOTATIONS]


def _failing(evidence: Evidence, files: Files) -> Iterator[Annotation]:
    for run in evidence.runs:
        if run.kind not in ("candidate", "old_tests"):
            continue  # that the others fail is as it should be, or was so before
        on = "" if run.kind == "candidate" else ", with the tests as they were before,"
        for check in run.checks:
            if check.is_red if run.kind == "candidate" else fails_beside_canary(check):
                said = f"`{check.name}`{on} failed here (exit code {check.exit_code})."
                for path, line, text in _places(check.output, files):
                    yield Annotation(
                        path=path, start=line, end=line, level="failure", title=said[:200], message=text or said
                    )


def _places(output: str, files: Files) -> Iterator[tuple[str, int, str]]:
    """Where an output names a line of a file of the tree, with the line of output that does; each place once."""
    seen: set[tuple[str, int]] = set()
    for text in output.splitlines():
        for match in _PLACES.finditer(text):
            named, number = [group for group in match.groups() if group is not None]
            path, line = files.find(named), int(number)
            if path is not None and line and (path, line) not in seen and len(seen) < PER_CHECK:
                seen.add((path, line))
                yield path, line, text.strip()[:1000]


class Files:
    """The files of a tree, found by the paths that tools write: from the root of the repository, wherever that was
    checked out, or from a folder in it."""

    def __init__(self, paths: Collection[str], root: str) -> None:
        self._paths = frozenset(paths)
        self._root = f"{root}/"
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def find(self, named: str) -> str | None:
        """The one file that is meant, if there is one."""
        path = named.removeprefix(self._root).removeprefix("./")
        if path in self._paths:
            return path
        below = [each for each in self._by_name.get(path.rpartition("/")[2], ()) if each.endswith(f"/{path}")]
        return below[0] if len(below) == 1 else None


def _flagged(receipt: Mapping[str, Any], files: Files) -> Iterator[Annotation]:
    for flag in receipt.get("flags", ()):
        line = flag["line"]
        if line is not None and flag["path"] in files:
            level: Level = "failure" if flag["grave"] else "warning"
            yield Annotation(
                path=flag["path"], start=line, end=line, level=level, title=flag["kind"], message=flag["text"][:1000]
            )


def _missed(receipt: Mapping[str, Any], files: Files) -> Iterator[Annotation]:
    for missed in (receipt.get("coverage") or {}).get("missed", ()):
        if missed["path"] in files:
            for start, end in _ranges(missed["lines"]):
                yield Annotation(
                    path=missed["path"],
                    start=start,
                    end=end,
                    level="notice",
                    title="not run by the tests",
                    message="The change's lines here were run by no test.",
                )


def _ranges(lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Lines that follow each other, as one."""
    for _, group in groupby(enumerate(sorted(lines)), lambda each: each[1] - each[0]):
        run = [line for _, line in group]
        yield run[0], run[-1]
