"""The small programs that a sandbox runs for us: standard library only, handed over as text to its own Python."""

from __future__ import annotations

from importlib import resources


def source(name: str) -> str:
    """The text of the program `name`, for `python3 -IS -c`."""
    return (resources.files(__name__) / f"{name}.py").read_text(encoding="utf-8")
