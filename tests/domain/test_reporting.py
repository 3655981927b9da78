"""Runners that can be asked through the environment leave a report, and nothing else is disturbed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from bot.domain.report import Counts, Report, read
from bot.domain.reporting import asked, was_refused

TESTS = "def test_a():\n    pass\n\n\ndef test_b():\n    assert 0\n"


def test_what_is_set_already_is_kept_and_comes_first() -> None:
    env = asked({"PYTEST_ADDOPTS": " -x ", "GOFLAGS": "-mod=vendor", "PATH": "/bin"}, "/tmp/a b.xml")
    assert env == {
        "PYTEST_ADDOPTS": "-x --junitxml='/tmp/a b.xml' -o junit_family=xunit1",
        "GOFLAGS": "-mod=vendor -v",
        "GOTESTSUM_JUNITFILE": "/tmp/a b.xml",
        "JEST_JUNIT_OUTPUT_FILE": "/tmp/a b.xml",
        "MOCHA_FILE": "/tmp/a b.xml",
    }
    assert shlex.split(asked({}, "/tmp/r.xml")["PYTEST_ADDOPTS"]) == [
        "--junitxml=/tmp/r.xml",
        "-o",
        "junit_family=xunit1",
    ]


def run(folder: Path, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)} | asked(
        {"PYTEST_ADDOPTS": "-p no:cacheprovider"}, str(path)
    )
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)


def test_pytest_leaves_its_report_where_it_was_asked_to(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "test_x.py").write_text(TESTS)
    path = tmp_path / "new folder" / "r.xml"
    ran = run(tmp_path / "repo", path)
    assert read(ran.returncode, ran.stdout, ran.stderr, path.read_bytes()) == Report(
        runner="pytest",
        counts=Counts(passed=1, failed=1),
        tests={"test_x::test_a": "passed", "test_x::test_b": "failed"},
        failing=("test_x::test_b",),
    )


def test_a_command_s_own_report_is_stronger_than_what_it_was_asked(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(TESTS)
    run(tmp_path, tmp_path / "asked.xml", "--junitxml=own.xml")
    assert (tmp_path / "own.xml").exists()
    assert not (tmp_path / "asked.xml").exists()


def test_a_setup_without_the_junit_plugin_refuses_and_is_known_by_that(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(TESTS)
    refused = run(tmp_path, tmp_path / "asked.xml", "-p", "no:junitxml")
    assert was_refused(refused.returncode, refused.stderr)
    failed = run(tmp_path, tmp_path / "asked.xml")
    assert not was_refused(failed.returncode, failed.stderr)
    mistaken = run(tmp_path, tmp_path / "asked.xml", "--no-such-option")
    assert mistaken.returncode == refused.returncode
    assert not was_refused(mistaken.returncode, mistaken.stderr)
