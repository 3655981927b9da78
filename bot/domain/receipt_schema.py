"""The JSON Schema of the receipt document, for whoever reads receipts by program."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

VERSION = 2
"""Of the documents that it describes."""


@cache
def schema() -> dict[str, Any]:
    """The schema itself."""
    found: dict[str, Any] = json.loads(files("bot.domain").joinpath("receipt_schema.json").read_text("utf-8"))
    return found


def problem(document: Any) -> str | None:
    """The first thing that is wrong with a document: where, and which rule it breaks; None where all is right."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema()).iter_errors(document))
    if error is None:
        return None
    return f"`{error.json_path}` breaks its rule `{error.validator}`"
