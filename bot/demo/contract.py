"""GitHub's own OpenAPI as a judge of calls and answers, cut down to the operations that the bot uses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, FormatChecker

JSON = "application/json"

Json = Any
Object = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """One method on one path template, as the document describes it."""

    id: str
    method: str
    template: str
    pattern: re.Pattern[str]
    parameters: Mapping[tuple[str, str], Object]
    body: Object | None
    body_required: bool
    answers: Mapping[str, Object | None]


class Contract:
    """Finds the operation that a call is, and says what a call or an answer does against the document.

    Stricter than the document in one way: a property of a body that it does not name is a problem, which is how a
    misspelt one is found. More lenient in one: it often leaves out the errors that any call can have, or their
    bodies; GitHub's usual error object is taken there."""

    def __init__(self, document: Object) -> None:
        self._document: Object = _as_json_schema(document)
        self._validators: dict[tuple[str, str], Draft202012Validator] = {}
        self.operations = sorted(
            (
                self._operation(method.upper(), template, described, item.get("parameters", ()))
                for template, item in self._document["paths"].items()
                for method, described in item.items()
                if method != "parameters"
            ),
            # The most specific template first: `commits/{ref}/check-runs` before `commits/{ref}`.
            key=lambda operation: (-len(_VARIABLE.sub("", operation.template)), operation.template),
        )

    def operation(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation and its path's variables, decoded; `path` is as it was sent, percent-encoded."""
        for operation in self.operations:
            if operation.method == method and (match := operation.pattern.fullmatch(path)):
                return operation, {name: unquote(value) for name, value in match.groupdict().items()}
        return None

    def request_problems(
        self, operation: Operation, variables: Mapping[str, str], query: Mapping[str, str], body: Json
    ) -> list[str]:
        """What is wrong with a call; `body` None means that none was sent."""
        sent = {("path", name): value for name, value in variables.items()}
        sent |= {("query", name): value for name, value in query.items()}
        problems = [
            f"unknown parameter {name} in {where}" for where, name in sent.keys() - operation.parameters.keys()
        ]
        for (where, name), parameter in operation.parameters.items():
            if (where, name) in sent:
                schema = parameter.get("schema", {})
                value = _typed(sent[where, name], self._resolve(schema).get("type"))
                problems += self._problems(operation, f"{where} {name}", schema, value)
            elif parameter.get("required") and where in ("path", "query"):
                problems.append(f"no parameter {name} in {where}")
        if operation.body is None:
            if body not in (None, {}):
                problems.append("a body, which this operation does not take")
        elif body is not None:
            problems += self._problems(operation, "body", operation.body, body)
        elif operation.body_required:
            problems.append("no body")
        return problems

    def answer_problems(self, operation: Operation, status: int, body: Json) -> list[str]:
        """What is wrong with an answer; `body` None means that there is none."""
        schema = operation.answers.get(str(status))
        if status in _ELSEWHERE and schema is None:
            return []
        if status >= 400 and schema is None and isinstance(body, dict) and isinstance(body.get("message"), str):
            return []
        if str(status) not in operation.answers:
            return [f"status {status} is not one of {sorted(operation.answers)}"]
        if schema is None:
            return [] if body is None else ["a body where there should be none"]
        return self._problems(operation, f"answer {status}", schema, body)

    def _operation(self, method: str, template: str, described: Object, common: Any) -> Operation:
        parameters = [self._resolve(parameter) for parameter in (*common, *described.get("parameters", ()))]
        wide = {parameter["name"] for parameter in parameters if parameter.get("x-multi-segment")}
        body = self._resolve(described.get("requestBody", {}))
        schema = body.get("content", {}).get(JSON, {}).get("schema")
        return Operation(
            id=described["operationId"],
            method=method,
            template=template,
            pattern=_pattern(template, wide),
            parameters={(parameter["in"], parameter["name"]): parameter for parameter in parameters},
            body=_closed(schema) if schema is not None else None,
            body_required=bool(body.get("required")),
            answers={
                status: self._resolve(answer).get("content", {}).get(JSON, {}).get("schema")
                for status, answer in described["responses"].items()
            },
        )

    def _problems(self, operation: Operation, what: str, schema: Object, value: Json) -> list[str]:
        key = (operation.id, what)
        if key not in self._validators:
            rooted = {**schema, "components": self._document["components"]}
            self._validators[key] = Draft202012Validator(rooted, format_checker=_FORMATS)
        return [
            f"{what}{error.json_path[1:]}: {error.message[:200]}"
            for error in self._validators[key].iter_errors(value)
        ]

    def _resolve(self, node: Object) -> Object:
        while "$ref" in node:
            target: Any = self._document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node


@cache
def github() -> Contract:
    """The contract of the operations that the local GitHub answers."""
    text = resources.files("bot.demo").joinpath("github-openapi.json").read_text(encoding="utf-8")
    return Contract(json.loads(text))


_FORMATS = FormatChecker(())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_a_moment(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


# Not everywhere in the document, but possible everywhere: moved, and not modified.
_ELSEWHERE = (301, 304, 307)
_VARIABLE = re.compile(r"\{(\w+)\}")


def _pattern(template: str, wide: set[str]) -> re.Pattern[str]:
    """`wide` variables may hold slashes; the last one may be empty, as a repository's top folder is."""
    parts = _VARIABLE.split(template)
    literal, names = parts[0::2], parts[1::2]
    regex = re.escape(literal[0])
    for name, text in zip(names, literal[1:], strict=True):
        regex += f"(?P<{name}>{'.*' if name in wide else '[^/]+'})" + re.escape(text)
    return re.compile(regex)


def _typed(text: str, kind: object) -> str | int | bool:
    """A parameter's text as the type that the document gives it, if it can be read as that."""
    if kind == "integer" and re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    return text


def _as_json_schema(node: Json) -> Json:
    """OpenAPI 3.0's `nullable` as JSON Schema says it."""
    if isinstance(node, list):
        return [_as_json_schema(value) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: _as_json_schema(value) for key, value in node.items()}
    if node.get("nullable") is not True:
        return node
    del node["nullable"]
    return {"anyOf": [node, {"type": "null"}]}


def _closed(node: Json) -> Json:
    """A body's schema that admits only the properties it names. What it refers to elsewhere stays as it is."""
    if isinstance(node, list):
        return [_closed(value) for value in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
