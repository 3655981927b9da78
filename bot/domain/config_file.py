"""Reads a YAML file into plain values, and knows where in it everything stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import yaml

from bot.domain.config_values import show_size
from bot.domain.errors import UserError

SIZE_LIMIT = 64 * 1024
DEPTH_LIMIT = 20
PROBLEM_LIMIT = 20

Loc: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys, and places in lists."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One error. Line and column count from 1; they are 0 where the file as such is right (the operator's limits).
    `key` is the path of the value, as in `checks[0].run`, empty where the file can't be read at all."""

    line: int
    column: int
    key: str
    message: str


class ConfigError(UserError):
    """The file has errors, of which `problems` has the first ones, in their order in the file."""

    def __init__(self, problems: tuple[Problem, ...], *, name: str = ".github/coder.yml") -> None:
        lines = [f"line {p.line}, column {p.column}: {p.message}" for p in problems]
        super().__init__(f"`{name}` has an error: " + "; ".join(lines))
        self.problems = problems


class _Refused(yaml.YAMLError):
    """YAML that is well-formed and still not taken."""

    def __init__(self, event: Any, message: str) -> None:
        super().__init__(message)
        self.line, self.column, self.message = event.start_mark.line, event.start_mark.column, message


class _Loader(yaml.SafeLoader):
    """Composes nodes, and refuses while it goes what is costly (depth, aliases) or of no use here (tags)."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # its stub says nothing of types
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _Refused(event, "anchors and aliases (`&`, `*`) can't be used here; text needs quotes")
        if getattr(event, "tag", None) is not None:
            raise _Refused(event, "tags (`!`) can't be used here; text needs quotes")
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise _Refused(event, "this is nested too deeply")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


class Reader:
    """One file on its way to a value, with the place of everything in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[Loc, yaml.Node] = {}
        self.keys: dict[Loc, yaml.Node] = {}
        self.problems: list[Problem] = []

    def load(self, data: bytes) -> Any:
        """Plain values; sequences as tuples."""
        text = self._text(data)
        try:
            node = _Loader(text).get_single_node()
        except _Refused as exc:
            raise self._stop(exc.line, exc.column, exc.message) from exc
        except yaml.MarkedYAMLError as exc:
            raise self._broken(text, exc) from exc
        except yaml.reader.ReaderError as exc:
            before = text[: exc.position]
            column = len(before) - before.rfind("\n") - 1
            raise self._stop(before.count("\n"), column, "this character can't be in a YAML file") from exc
        value = None if node is None else self._plain(node, ())
        if self.problems:
            raise self.error(self.problems)
        return value

    def _text(self, data: bytes) -> str:
        if len(data) > SIZE_LIMIT:
            raise self._stop(0, 0, f"the file is larger than {show_size(SIZE_LIMIT)}")
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise self._stop(0, 0, "the file is UTF-16; save it as UTF-8")
        try:
            return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        except UnicodeDecodeError as exc:
            before = exc.object[: exc.start]
            column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8"))
            raise self._stop(before.count(b"\n"), column, "the file is not UTF-8 here") from exc

    def _broken(self, text: str, exc: yaml.MarkedYAMLError) -> ConfigError:
        mark = exc.problem_mark
        assert mark is not None, "whatever PyYAML finds wrong with the syntax, it says where"
        line = [*re.split("\r\n|[\n\r\x85\u2028\u2029]", text), ""][mark.line]
        context = exc.context or ""
        if "quoted scalar" in context and "end of stream" in (exc.problem or ""):
            assert exc.context_mark is not None, "and here where the quote began"
            return self._stop(exc.context_mark.line, exc.context_mark.column, "this quote is never closed")
        if "\t" in line[: len(line) - len(line.lstrip())] or line[mark.column : mark.column + 1] == "\t":
            return self._stop(mark.line, mark.column, "a tab can't be used here; indent with spaces")
        if "single document" in context:
            return self._stop(mark.line, mark.column, "the file must be a single document (one `---` at most)")
        told = "this is no valid YAML; look for a wrong indent, or text that needs quotes"
        return self._stop(mark.line, mark.column, told)

    def _plain(self, node: yaml.Node, loc: Loc) -> Any:
        self.nodes[loc] = node
        match node:
            case yaml.MappingNode():
                return self._mapping(node, loc)
            case yaml.SequenceNode():
                return tuple(self._plain(item, (*loc, at)) for at, item in enumerate(node.value))
            case _:
                return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(problem_at(key, loc, "a key must be text"))
                continue
            inner = (*loc, key.value)
            if inner in self.keys:
                told = f"`{shown(key.value)}` is here twice (first in line {self.keys[inner].start_mark.line + 1})"
                self.problems.append(problem_at(key, inner, told))
                continue
            self.keys[inner] = key
            found[key.value] = self._plain(value, inner)
        return found

    def at(self, loc: Loc, message: str) -> Problem:
        """A problem with that value, or with the nearest part of the file that holds it."""
        inside = loc
        while inside not in self.nodes:
            inside = inside[:-1]
        return problem_at(self.nodes[inside], loc, message)

    def error(self, problems: list[Problem]) -> ConfigError:
        ordered = sorted(problems, key=lambda p: (p.line, p.column))
        return ConfigError(tuple(ordered[:PROBLEM_LIMIT]), name=self.name)

    def _stop(self, line: int, column: int, message: str) -> ConfigError:
        return self.error([Problem(line=line + 1, column=column + 1, key="", message=message)])


def problem_at(node: yaml.Node, loc: Loc, message: str) -> Problem:
    """A problem with what stands there."""
    mark = node.start_mark
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
    return Problem(line=mark.line + 1, column=mark.column + 1, key=key, message=message)


def _scalar(node: yaml.Node) -> Any:
    """YAML's meaning of a plain word, without its surprises: dates, octal and base-60 numbers stay text."""
    text: str = node.value
    match node.tag.removeprefix("tag:yaml.org,2002:"):
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int" if re.fullmatch(r"[+-]?(?:0|[1-9][0-9_]{0,30})", text):
            return int(text.replace("_", ""))
        case "float" if re.fullmatch(r"[+-]?[0-9]{1,30}\.[0-9]{0,30}", text):
            return Decimal(text)
        case "float" if text.lower().endswith((".inf", ".nan")):
            return Decimal("NaN")
        case _:
            return text


def found(node: yaml.Node) -> str:
    """What stands there, in a few words."""
    match node:
        case yaml.MappingNode():
            return "keys and values"
        case yaml.SequenceNode():
            return "a list"
        case _ if node.tag.endswith(":null"):
            return "nothing"
        case _ if node.tag.endswith(":bool"):
            word = "true" if _scalar(node) else "false"
            return word if word == node.value else f"{word} (that is what YAML takes `{node.value}` for)"
        case _:
            text = shown(node.value)
            return f'`"{text}"`' if getattr(node, "style", None) else f"`{text}`"


def shown(text: str) -> str:
    """A piece of the file as it can stand in a code span: short, and nothing in it ends the span."""
    text = "".join(c if c.isprintable() and c != "`" else "�" for c in text[:81])
    return text if len(text) <= 80 else text[:80] + "…"
