"""Asks test runners through the environment to say what they ran, in a file or by naming their tests."""

from __future__ import annotations

import shlex
from collections.abc import Mapping


def asked(env: Mapping[str, str], path: str) -> dict[str, str]:
    """Variables to set so that pytest, gotestsum and the JUnit reporters of jest and mocha (where a repository uses
    them) leave their report at `path`, an absolute one outside of the repository, and Go names its tests. What `env`
    sets already is kept and added to. A command's own `--junitxml` is stronger than this, and so are other programs
    than these: to them it says nothing.

    node:test can't be asked: its reporters could be named in `NODE_OPTIONS`, but then a command that names one itself
    ends with an error, and so does anything at all under a Node that doesn't know the option. Neither can cargo,
    unittest, vitest, RSpec and PHPUnit: they take a reporter on their command line or in a file of the repository."""
    pytest = f"--junitxml={shlex.quote(path)} -o junit_family=xunit1"
    return {
        "PYTEST_ADDOPTS": _added(env, "PYTEST_ADDOPTS", pytest),
        # `go build`, `vet`, `list`, `mod`, `run`, `fmt` and `generate` take it, and only name packages on stderr.
        "GOFLAGS": _added(env, "GOFLAGS", "-v"),
        "GOTESTSUM_JUNITFILE": path,
        "JEST_JUNIT_OUTPUT_FILE": path,
        "MOCHA_FILE": path,
    }


def _added(env: Mapping[str, str], name: str, words: str) -> str:
    return f"{before} {words}" if (before := env.get(name, "").strip()) else words


def was_refused(exit_code: int, stderr: str) -> bool:
    """Whether pytest did not start because it was asked: a setup without its JUnit plugin. The check is then to be
    run again without being asked."""
    return exit_code == 4 and any(
        ": error: unrecognized arguments: " in line and "--junitxml" in line for line in stderr.splitlines()
    )
