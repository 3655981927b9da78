"""Python's tools."""

from __future__ import annotations

import sys
from collections.abc import Sequence, Set

from bot.domain.presets.preset import Preset, names, nothing, paths, presets

_RUN = ("uv run", "uv run --no-sync", "uv run --frozen", "uv run --offline")
_PYTHON = ("", "python -m", "python3 -m", *_RUN, "uv run python -m")
_PYTHON_M = ("python -m", "python3 -m", "uv run python -m")
_PIP = ("pip", "pip3", "python -m pip", "python3 -m pip", "uv pip")
# A repository's own folder `test` comes before Python's.
_NOT_ITS_OWN = (sys.stdlib_module_names | {"pip", "setuptools"}) - {"test"}


def _test_names(words: Sequence[str], used: Set[str]) -> str | None:
    """unittest imports what it is told, and calls it: also `http.server.test`."""
    foreign = next((word for word in words if word.split(".")[0] in _NOT_ITS_OWN), None)
    return f"`{foreign[:100]}` is not the repository's." if foreign is not None else paths(words, used)


PRESETS: tuple[Preset, ...] = (
    *presets(
        "python",
        "pytest",
        "-q -v -x -s -l -r=* --quiet --verbose --exitfirst --showlocals --lf --last-failed --ff --failed-first --nf "
        "--new-first --sw --stepwise --co --collect-only --no-header --no-summary --disable-warnings "
        "--strict-markers --strict-config --full-trace --runxfail --doctest-modules --no-cov --cov=? --cov-branch "
        "--cov-report=term(?:-missing)?(?::skip-covered)? -W=ignore|error|default|always|module|once "
        "--durations=* --durations-min=* --maxfail=* --tb=auto|long|short|line|native|no -k=* -m=* --color=* "
        "--capture=fd|sys|no|tee-sys --deselect= --ignore= --ignore-glob= --timeout=* -n=* --numprocesses=* "
        "--dist=load|loadscope|loadfile|worksteal|no -p=no:(?:cacheprovider|randomly|xdist|warnings) "
        "--fixtures --markers --version -h --help",
        via=_PYTHON,
        reads_at_files=True,
    ),
    *presets(
        "python",
        "unittest, unittest discover",
        "-v -q -f -b -c --verbose --quiet --failfast --buffer --catch --locals -k=* -s= --start-directory= -p=* "
        "--pattern=* -t= --top-level-directory=",
        _test_names,
        via=_PYTHON_M,
    ),
    *presets(
        "python",
        "ruff check",
        "-q -v --quiet --verbose --no-cache -n --no-fix --statistics --preview --show-files --diff -e --exit-zero "
        "--select=* --ignore=* --extend-select=* --extend-ignore=* --exclude= --extend-exclude= --target-version=* "
        "--line-length=* --output-format=concise|full|json|grouped|github",
        via=_PYTHON,
        reads_at_files=True,
    ),
    *presets(
        "python",
        "ruff format",
        "-q -v --quiet --verbose --no-cache -n --check --diff --preview --exclude= --target-version=* "
        "--line-length=*",
        via=_PYTHON,
        needs="--check --diff",
        reads_at_files=True,
    ),
    *presets(
        "python",
        "mypy",
        "-v --strict --no-incremental --ignore-missing-imports --show-error-codes --show-error-context --pretty "
        "--no-error-summary --no-pretty --no-color-output --namespace-packages --explicit-package-bases "
        "--check-untyped-defs --disallow-untyped-defs --warn-unused-ignores --warn-unreachable --follow-imports=* "
        "--python-version=* --platform=* --exclude=* -p=* --package=* -m=* --module=* --version",
        via=_PYTHON,
        reads_at_files=True,
    ),
    *presets("python", "list", "-q --quiet --format=columns|freeze|json", nothing, via=_PIP),
    *presets("python", "check, freeze", "-q --quiet", nothing, via=_PIP),
    *presets("python", "show", "-f --files -q", names(r"[A-Za-z0-9][\w.-]*"), via=_PIP),
)
