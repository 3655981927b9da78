"""The runs of a verification on the real engine: what runs on which tree, and in which sandbox."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot import local
from bot.domain.patch import Change, Patch
from bot.domain.receipt import Receipt
from bot.domain.verification import Passed, Run, Unverified
from bot.settings import load
from tests.runtime import quickest

BROKEN = b"def add(a, b):\n    return a - b\n"
FIXED = b"def add(a, b):\n    return a + b\n"
TEST = b"""\
from calc import add


def test_add():
    assert add(2, 3) == 5


def test_none():
    assert add(0, 0) == 0
"""
PYTEST = "checks:\n  - {name: tests, run: python3 -m pytest -q, timeout: 1m}\n"
FILES: Mapping[str, bytes] = {"calc.py": BROKEN, "test_calc.py": TEST}


class Scene:
    """A repository, and verification of patches to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[str] = []

    def _commit(self, files: Mapping[str, bytes]) -> str:
        repo = self.folder / "repo"
        for path, content in files.items():
            file = repo / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        for args in (["init", "-q"], ["add", "-A", "-f"], [*who, "commit", "-q", "-m", "base"]):
            subprocess.run(["git", *args], cwd=repo, check=True)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True)
        return head.stdout.strip()

    async def judge(
        self, changes: Mapping[str, bytes | None], *, rules: str = PYTEST, files: Mapping[str, bytes] = FILES
    ) -> Receipt:
        patch = Patch.of(
            *(
                Change(path=path, mode=None if content is None else "100644", content=content or b"")
                for path, content in changes.items()
            )
        )
        receipt, _ = await local.verify(
            load({"CODER_HOME": str(self.folder / "home"), "CODER_DOCKER_RUNTIME": quickest()}),
            repo=self.folder / "repo",
            base=self._commit(files),
            patch=patch,
            config_text=rules.encode(),
            say=self.runs.append,
        )
        return receipt


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def of(receipt: Receipt, kind: str) -> Run:
    return next(run for run in receipt.evidence.runs if run.kind == kind)


async def test_every_run_has_a_sandbox_and_a_tree_of_its_own(scene: Scene) -> None:
    more = TEST + b"\n\ndef test_more():\n    assert add(1, 1) == 2\n"
    receipt = await scene.judge({"calc.py": FIXED, "test_calc.py": more})
    assert isinstance(receipt.verdict, Passed), receipt.verdict.reasons
    runs = receipt.evidence.runs
    assert [run.kind for run in runs] == ["candidate", "baseline", "old_tests", "new_tests"]
    assert len({run.sandbox for run in runs}) == 4
    assert len({run.tree for run in runs}) == 4
    assert runs[0].tree == receipt.evidence.tree
    assert [check.canary for run in runs for check in run.checks] == ["none", "none", "seen", "none"]
    assert "Without the change, the patch's tests fail: `test_calc::test_add`, `test_calc::test_more`." in (
        receipt.verdict.reasons
    )
    assert [line.partition("s  ")[2].partition(":")[0] for line in scene.runs] == [
        "the candidate",
        "the base",
        "the candidate with base's tests",
        "the base with the patch's tests",
    ]


async def test_where_the_candidate_fails_only_the_base_is_run_as_well(scene: Scene) -> None:
    receipt = await scene.judge({"calc.py": b"def add(a, b):\n    return 0\n"})
    assert [run.kind for run in receipt.evidence.runs] == ["candidate", "baseline"]
    assert receipt.verdict.reasons == (
        "`tests` failed: 1 of its tests (exit code 1): `test_calc::test_add`.",
        "All of these failed before the change as well.",
    )


async def test_a_canary_that_the_command_leaves_out_is_tried_on_the_base_and_then_only_told(scene: Scene) -> None:
    rules = PYTEST.replace("pytest -q", "pytest -q -k add")
    receipt = await scene.judge({"calc.py": FIXED}, rules=rules)
    assert isinstance(receipt.verdict, Passed)
    assert [check.canary for check in of(receipt, "old_tests").checks] == ["unusable"]
    assert "does not run a test of ours that must fail" in receipt.verdict.reasons[-1]


async def test_code_that_hides_failures_is_found_out_by_the_canary(scene: Scene) -> None:
    lying = BROKEN + (
        b"\n\nimport sys\nif 'pytest' in sys.modules:\n    import _pytest.runner\n"
        b"    _pytest.runner.check_interactive_exception = lambda *a: False\n"
        b"    import _pytest.python\n    _pytest.python.Function.runtest = lambda self: None\n"
    )
    receipt = await scene.judge({"calc.py": lying})
    assert isinstance(receipt.verdict, Unverified)
    assert [check.exit_code for check in of(receipt, "candidate").checks] == [0]
    assert [check.canary for check in of(receipt, "old_tests").checks] == ["missing"]
    assert "does not report a test of ours that must fail" in receipt.verdict.reasons[0]


async def test_set_up_runs_once_for_all_runs_and_its_traces_are_there(scene: Scene) -> None:
    rules = """\
setup:
  - head -c 16 /dev/urandom | od -An -tx1 > "$HOME/mark"
checks:
  - {name: tests, run: 'cat "$HOME/mark"; python3 -m pytest -q', timeout: 1m}
"""
    receipt = await scene.judge({"calc.py": FIXED}, rules=rules)
    assert isinstance(receipt.verdict, Passed)
    marks = {check.output.split("\n")[0] for run in receipt.evidence.runs for check in run.checks}
    assert len(receipt.evidence.runs) == 3
    assert len(marks) == 1


async def test_other_manifests_are_set_up_anew_and_the_base_keeps_its_own(scene: Scene) -> None:
    rules = """\
setup:
  - cat requirements.txt > "$HOME/installed"
network: {setup: []}
checks:
  - {name: tests, run: 'cat "$HOME/installed"; python3 -m pytest -q', timeout: 1m}
"""
    files = {**FILES, "requirements.txt": b"# one\n"}
    receipt = await scene.judge({"calc.py": FIXED, "requirements.txt": b"# two\n"}, rules=rules, files=files)
    assert isinstance(receipt.verdict, Passed), receipt.verdict.reasons
    seen = {run.kind: run.checks[0].output.split("\n")[0] for run in receipt.evidence.runs}
    assert seen == {"candidate": "# two", "baseline": "# one", "old_tests": "# two"}


async def test_a_check_that_rewrites_the_tests_does_so_for_itself_alone(scene: Scene) -> None:
    rules = PYTEST + "  - {name: more, run: cat test_calc.py; python3 -m pytest -q, timeout: 1m}\n"
    rules = rules.replace("run: python3 -m pytest -q", "run: 'python3 -m pytest -q; echo > test_calc.py'", 1)
    receipt = await scene.judge({"calc.py": FIXED}, rules=rules)
    assert isinstance(receipt.verdict, Passed), receipt.verdict.reasons
    run = of(receipt, "candidate")
    assert "test_none" in run.checks[1].output
    assert run.rewritten == ("test_calc.py",)
    assert "While they ran, the checks changed files of the repository: `test_calc.py`." in receipt.verdict.reasons


async def test_a_candidate_runs_as_often_as_the_rules_say(scene: Scene) -> None:
    receipt = await scene.judge({"calc.py": FIXED}, rules=f"verification: {{repeat: 3}}\n{PYTEST}")
    assert isinstance(receipt.verdict, Passed)
    again = [run.sandbox for run in receipt.evidence.runs if run.kind == "candidate"]
    assert len(set(again)) == 3
    assert receipt.verdict.reasons[0] == "2 tests passed in `tests`, 3 times."


async def test_a_report_of_coverage_tells_which_changed_lines_were_run(scene: Scene) -> None:
    lcov = "SF:calc.py\\nDA:1,1\\nDA:2,0\\nend_of_record\\n"
    rules = PYTEST.replace("python3 -m pytest -q", f"'python3 -m pytest -q; printf \"{lcov}\" > lcov.info'")
    receipt = await scene.judge({"calc.py": FIXED}, rules=rules)
    assert receipt.evidence.coverage is not None
    seen = receipt.evidence.coverage
    assert (seen.lines, seen.covered, seen.missed) == (1, 0, (("calc.py", (2,)),))
