"""The texts the model is given, as files; a variable that is missing is an error."""

from __future__ import annotations

from importlib.resources import files
from string import Template


def render(name: str, **variables: str) -> str:
    """The text of `NAME.md` with every `${variable}` filled in; KeyError names one that wasn't given."""
    return Template(files(__name__).joinpath(f"{name}.md").read_text()).substitute(variables).strip()
