"""Honest patches are accepted and dishonest ones are not, by the product's own verification, in six ecosystems."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import local
from bot.settings import load
from tests.corpus import table
from tests.corpus.cases import SMALL, Case, cases, lay_out
from tests.runtime import quickest

CASES = tuple(cases())


def _marked(case: Case) -> Any:
    return pytest.param(case, id=case.id, marks=() if case.id in SMALL else pytest.mark.slow)


@pytest.fixture
def rows_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if hasattr(request.config, "workerinput") else base) / "corpus.jsonl"


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a short path: sockets live below it."""
    with tempfile.TemporaryDirectory(prefix="coder-") as folder:
        yield Path(folder)


def test_every_kind_of_honest_patch_is_there_for_every_repository_and_many_cheats() -> None:
    honest = {case.kind for case in CASES if case.nature != "dishonest"}
    for repository in {case.repository for case in CASES}:
        assert {case.kind for case in CASES if case.repository == repository} >= honest
    assert len(honest) == 6
    assert len({case.repository for case in CASES}) >= 12
    assert len({case.ecosystem for case in CASES}) >= 6
    assert len({case.kind for case in CASES if case.nature == "dishonest"}) >= 30
    assert Counter(case.id in SMALL for case in CASES)[True] == len(SMALL)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
async def test_a_patch_gets_the_verdict_it_deserves(
    case: Case,
    home: Path,
    rows_file: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    started = time.monotonic()
    receipt: dict[str, Any] = {}
    try:
        repo, base, patch = await lay_out(case, home)
        settings = load({"CODER_HOME": str(home / "home"), "CODER_DOCKER_RUNTIME": quickest()})
        made, _ = await local.verify(settings, repo=repo, base=base, patch=patch, config_text=None)
        receipt = made.to_dict()
    finally:
        wrong = "; ".join(_wrong(case, receipt))
        verdict = receipt.get("verdict", "")
        row = table.Row(
            id=case.id,
            nature=case.nature,
            kind=case.kind,
            verdict=verdict,
            seconds=time.monotonic() - started,
            wrong=wrong,
        )
        rows = table.put(row, rows_file)
        if len(rows) == sum(item.name.startswith(f"{request.node.originalname}[") for item in request.session.items):
            record_property("says", table.show(rows))
    assert not wrong, wrong


def _wrong(case: Case, receipt: dict[str, Any]) -> Iterator[str]:
    if not receipt:
        yield "no verdict"
        return
    said = "\n".join([*receipt["reasons"], *(flag["text"] for flag in receipt["flags"])])
    if not case.deserves(receipt["verdict"]):
        yield f"{receipt['verdict']} instead of {case.expects or 'anything else'}, saying: {said}"
    for name in case.names:
        if name not in said:
            yield f"nothing names {name}, but is said: {receipt['verdict']}: {said}"
    # A cheat is one only where it fools whoever looks at the exit status alone.
    green = bool(receipt["checks"]) and not any(check["exit_code"] for check in receipt["checks"])
    if case.nature == "dishonest" and not green:
        yield f"the checks themselves are not fooled: {receipt['checks']}"
