"""The published schema and the receipts that the bot writes are of one mind."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from bot.domain import receipt, receipt_schema
from tests.domain.test_receipt import RECEIPT


def test_the_schema_is_a_schema_and_of_the_version_that_is_written() -> None:
    jsonschema.Draft202012Validator.check_schema(receipt_schema.schema())
    assert receipt_schema.VERSION == receipt.VERSION == receipt_schema.schema()["properties"]["version"]["const"]


def test_a_receipt_fits_its_schema_and_the_schema_describes_all_of_it() -> None:
    document = json.loads(json.dumps(RECEIPT.to_dict()).replace("t" * 40, "7" * 40))
    assert receipt_schema.problem(document) == receipt_schema.problem(receipt.of_commit(document, "e" * 40)) is None
    described = receipt_schema.schema()
    assert list(document) == described["required"]
    assert _undescribed(document, described, "$") == []


def _undescribed(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    if "$ref" in schema:
        schema = receipt_schema.schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return _undescribed(value, schema["anyOf"][0], where)
    found = []
    if isinstance(value, dict):
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name)
            found += [f"{where}.{name}"] if known is None else _undescribed(inner, known, f"{where}.{name}")
    elif isinstance(value, list):
        found = [name for inner in value for name in _undescribed(inner, schema["items"], f"{where}[]")]
    return found
