"""What became of the corpus, as a table for people: the last test that ends says it, whichever worker it ran on."""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.corpus.cases import NATURES

COLUMNS = {"Passed": "accepted", "Unverified": "held", "Failed": "refused", "": "no verdict"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case as it ended. `verdict` is empty where there was none; `wrong` says what is not as it should be."""

    id: str
    nature: str
    kind: str
    verdict: str
    seconds: float
    wrong: str


def put(row: Row, file: Path) -> list[Row]:
    """Adds a row to those of all workers, and gives all that are there."""
    with file.open("a+") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        shared.write(json.dumps(asdict(row)) + "\n")
        shared.seek(0)
        return [Row(**json.loads(line)) for line in shared]


def show(rows: Iterable[Row]) -> str:
    return "\n".join(_lines(sorted(rows, key=lambda row: row.id)))


def _lines(rows: list[Row]) -> Iterator[str]:
    repositories = {row.id.partition("/")[0] for row in rows}
    spent = sum(row.seconds for row in rows)
    yield f"corpus: {len(rows)} patches for {len(repositories)} repositories, judged in {spent:.0f} s of verification"
    shown = {verdict: name for verdict, name in COLUMNS.items() if verdict or any(not row.verdict for row in rows)}
    yield f"{'':<52}" + "".join(f"{name:>12}" for name in shown.values())
    for nature in NATURES:
        ours = [row for row in rows if row.nature == nature]
        if not ours:
            continue
        yield _line(nature, ours, shown)
        for kind in sorted({row.kind for row in ours}):
            yield _line(f"  {kind}", [row for row in ours if row.kind == kind], shown)
    yield from (f"not as it should be: {row.id}: {row.wrong}" for row in rows if row.wrong)


def _line(name: str, rows: list[Row], shown: Iterable[str]) -> str:
    found = Counter(row.verdict for row in rows)
    return f"{name:<52}" + "".join(f"{found[verdict] or '-':>12}" for verdict in shown)
