"""Reads JUnit reports: the test cases of whichever runner wrote the file, its name where the file gives it away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from bot.domain.report_counts import NAME_LIMIT, Counts, Outcome, Result, clean

JUNIT_LIMIT = 8 * 1024 * 1024
JUNIT_DEPTH = 100
JUNIT_CASES = 100_000


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a file says. `runner` is None where it could be anybody's."""

    runner: str | None
    counts: Counts
    results: tuple[Result, ...]


class _Refused(Exception):
    """The document is not one we read."""


Attributes = Mapping[str, str]


def _is_pytest(tag: str, attributes: Attributes) -> bool:
    return attributes.get("name") in ("pytest", "pytest tests") and tag != "testcase"


def _is_surefire(tag: str, attributes: Attributes) -> bool:
    return any("surefire-test-report" in value for value in attributes.values())


def _is_phpunit(tag: str, attributes: Attributes) -> bool:
    return tag == "testcase" and {"class", "classname", "assertions"} <= attributes.keys()


def _is_go(tag: str, attributes: Attributes) -> bool:
    return tag == "property" and attributes.get("name") == "go.version"


def _is_node(tag: str, attributes: Attributes) -> bool:
    return tag == "testcase" and attributes.get("classname") in ("test", "suite")


def _named(*names: str) -> Callable[[str, Attributes], bool]:
    return lambda tag, attributes: tag in ("testsuites", "testsuite") and attributes.get("name") in names


def _is_rspec(tag: str, attributes: Attributes) -> bool:
    """With a number behind it where several run side by side."""
    return tag == "testsuite" and attributes.get("name", "").rstrip("0123456789") == "rspec"


_RUNNERS: tuple[tuple[str, Callable[[str, Attributes], bool]], ...] = (
    ("pytest", _is_pytest),
    ("jest", _named("jest tests")),
    ("vitest", _named("vitest tests")),
    ("mocha", _named("Mocha Tests")),
    ("cargo", _named("nextest-run")),
    ("surefire", _is_surefire),
    ("rspec", _is_rspec),
    ("phpunit", _is_phpunit),
    ("go", _is_go),
    ("node", _is_node),
)
_OF = {"rspec": "ruby"}
_SEVERITY = ("passed", "skipped", "failed", "errors")
_OUTCOMES = {"failure": "failed", "error": "errors", "skipped": "skipped"}
_RISKY = "RiskyTestError"
"""PHPUnit's word for a test that passed but asserted nothing: the run is not red for it."""
_NAMES: dict[str, Outcome] = {"passed": "passed", "skipped": "skipped", "failed": "failed", "errors": "failed"}


@dataclass
class _Reader:
    """Takes test cases as they pass by, so that no document is ever held as a tree."""

    path: list[str] = field(default_factory=list)
    suites: list[str] = field(default_factory=list)
    """The open suites, each as its whole path, so that none is put together again for each of its cases."""
    has_bare_root: bool = False
    runner: str | None = None
    state: str = "passed"
    is_todo: bool = False
    name: str = ""
    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SEVERITY, 0))
    results: list[Result] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self.path.append(name)
        if self.path[0] not in ("testsuites", "testsuite") or len(self.path) > JUNIT_DEPTH:
            raise _Refused
        if len(self.path) == 1:
            self.has_bare_root = name == "testsuites" and not attributes
        if self.runner is None:
            self.runner = self._recognised(name, attributes)
        if name == "testsuite":
            self.suites.append(clean(f"{self._prefix()}{attributes.get('name', '')}"))
        elif name == "testcase":
            if len(self.results) == JUNIT_CASES:
                raise _Refused
            self.state = "skipped" if attributes.get("status") in ("notrun", "disabled") else "passed"
            self.is_todo = False
            self.name = self._named(attributes)
        elif name == "error" and "testcase" not in self.path:
            self.states["errors"] += 1
        elif name in _OUTCOMES and not attributes.get("type", "").endswith(_RISKY):
            # node:test lets what is still to do fail.
            self.is_todo = self.is_todo or (name == "skipped" and attributes.get("type") == "todo")
            self.state = max(self.state, _OUTCOMES[name], key=_SEVERITY.index)

    def end(self, tag: str) -> None:
        name = self.path.pop()
        if name == "testsuite":
            self.suites.pop()
        elif name == "testcase":
            state = "skipped" if self.is_todo else self.state
            self.states[state] += 1
            self.results.append((self.name, _NAMES[state]))

    def _recognised(self, tag: str, attributes: Attributes) -> str | None:
        """By the first suite, its properties and its first case; what comes later may be anything."""
        if self.results:
            return None
        found = next((runner for runner, speaks in _RUNNERS if speaks(tag, attributes)), None)
        return None if found == "node" and not self.has_bare_root else _OF.get(found or "", found)

    def _named(self, attributes: Attributes) -> str:
        name, group = attributes.get("name", ""), attributes.get("classname", "")
        if self.runner == "node":
            return clean(f"{self._prefix()}{name}")
        return clean(f"{group[:NAME_LIMIT]}::{name}" if group and group != name else name)

    def _prefix(self) -> str:
        return f"{self.suites[-1]} > " if self.suites and self.suites[-1] else ""


def read(data: bytes) -> Document | None:
    """A JUnit report's test cases; None for what is too large, is broken, or declares a document type (entities)."""
    if len(data) > JUNIT_LIMIT:
        return None
    reader = _Reader()

    def refuse(*_: object) -> None:
        raise _Refused

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, _Refused):
        return None
    return Document(runner=reader.runner, counts=Counts(**reader.states), results=tuple(reader.results))
