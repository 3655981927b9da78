"""A repository's rules, `.github/coder.yml`: what may be written there, and what is wrong with what is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from bot.domain.ceilings import Ceilings as Ceilings
from bot.domain.ceilings import over as over
from bot.domain.config_file import SIZE_LIMIT as SIZE_LIMIT
from bot.domain.config_file import ConfigError as ConfigError
from bot.domain.config_file import Loc, Reader, found, problem_at, shown
from bot.domain.config_file import Problem as Problem
from bot.domain.config_values import PACKAGE_MANAGERS as PACKAGE_MANAGERS
from bot.domain.config_values import (
    Bot,
    Branch,
    CheckLine,
    Duration,
    Env,
    Glob,
    Grant,
    Host,
    Line,
    Name,
    Number,
    Path,
    Ref,
    Rule,
    Size,
    Text,
    Whole,
    read_text,
    show_duration,
)


class _Part(BaseModel):
    """Frozen, strict, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Check(_Part):
    """One verification command; `report` is where it leaves a JUnit XML, relative to the repository."""

    name: Name
    run: CheckLine
    timeout: Duration = 600
    report: Path | None = None


class Trigger(_Part):
    """What starts a task, and who may."""

    label: Text | None = None
    assignee: bool = False
    permission: Literal["write", "maintain", "admin"] = "write"
    bots: tuple[Bot, ...] = ()


class Grants(_Part):
    """What the agent may do, by the kind of command it was started with; the defaults are the widest there is."""

    fix: tuple[Grant, ...] = ("read", "write", "exec")
    ask: tuple[Literal["read"], ...] = ("read",)
    plan: tuple[Literal["read"], ...] = ("read",)


class Sandbox(_Part):
    """The sandbox that is asked for."""

    image: Text | None = None
    memory: Size = 2 * 1024**3
    cpus: Annotated[Number, Field(gt=0, le=256)] = Decimal(2)
    disk: Size = 5 * 1024**3
    lifetime: Duration = 3600
    idle: Duration = 1800
    """How long the sandbox of a task that has to wait runs on; between rounds of work it is paused at once."""
    retention: Duration = 14 * 86400
    env: Env = Field(default_factory=dict)


class Verification(_Part):
    """How results are judged."""

    repeat: Annotated[int, Field(ge=1, le=20)] = 1
    tests: tuple[Glob, ...] | None = None
    weakened: Literal["refuse", "draft"] = "refuse"
    unverified: Literal["comment", "draft"] = "comment"


class Commands(_Part):
    """Commands the agent may run beyond the presets, and those it may not."""

    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


class Paths(_Part):
    """What the agent may not write."""

    protected: tuple[Glob, ...] = ()
    workflows: Literal["refuse", "approval"] = "refuse"


class Network(_Part):
    """Who may be talked to; `setup` None means what the detected package managers need. Of `agent`, only hosts."""

    setup: tuple[Host, ...] | None = None
    agent: tuple[Host, ...] = ()
    checks: tuple[Host, ...] = ()


class Limits(_Part):
    """Where an episode ends; tokens and cost (US dollars) are the task's over all its episodes."""

    steps: Whole = 40
    tool_calls: Whole = 120
    tokens: Whole = 2_000_000
    duration: Duration = 1800
    cost: Number = Decimal("2.00")
    attempts: Annotated[int, Field(ge=1, le=20)] = 3
    files: Whole = 100
    patch: Size = 1024**2


class Timeouts(_Part):
    """How long single things may take."""

    clone: Duration = 120
    setup: Duration = 600
    command: Duration = 120
    tests: Duration = 300


class Model(_Part):
    """Which model is wished for."""

    name: Text | None = None
    reasoning_effort: Text | None = None


class PullRequest(_Part):
    """How results are published."""

    base: Ref | None = None
    publish: Literal["at_once", "after_approval"] = "at_once"
    draft: bool = False
    labels: tuple[Text, ...] = ("coder",)
    reviewers: tuple[Text, ...] = ()
    branch: Branch = "coder/issue-{number}"
    repair_ci: Annotated[int, Field(ge=0, le=20)] = 0


class Project(_Part):
    """One package of a monorepo."""

    path: Path
    setup: tuple[Line, ...] | None = None
    checks: tuple[Check, ...] | None = None


def _read_version(value: object) -> object:
    if value is True:  # which equals 1
        raise ValueError("expected 1")
    return value


def _nothing_is_empty(value: object) -> object:
    return {} if value is None else value  # a section whose lines are all comments


_Empty = BeforeValidator(_nothing_is_empty)


class Config(_Part):
    """The rules of one repository. `setup` and `checks` are None where the file doesn't say: they are then detected;
    an empty list means that there are none."""

    version: Annotated[Literal[1], BeforeValidator(_read_version)] = 1
    enabled: bool = True
    trigger: Annotated[Trigger, _Empty] = Field(default_factory=Trigger)
    grants: Annotated[Grants, _Empty] = Field(default_factory=Grants)
    sandbox: Annotated[Sandbox, _Empty] = Field(default_factory=Sandbox)
    setup: tuple[Line, ...] | None = None
    checks: tuple[Check, ...] | None = None
    verification: Annotated[Verification, _Empty] = Field(default_factory=Verification)
    commands: Annotated[Commands, _Empty] = Field(default_factory=Commands)
    paths: Annotated[Paths, _Empty] = Field(default_factory=Paths)
    network: Annotated[Network, _Empty] = Field(default_factory=Network)
    limits: Annotated[Limits, _Empty] = Field(default_factory=Limits)
    timeouts: Annotated[Timeouts, _Empty] = Field(default_factory=Timeouts)
    model: Annotated[Model, _Empty] = Field(default_factory=Model)
    pull_request: Annotated[PullRequest, _Empty] = Field(default_factory=PullRequest)
    projects: tuple[Project, ...] = ()
    instructions: Annotated[str, Field(max_length=20_000), AfterValidator(read_text)] | None = None
    onboarding: bool = True


_SECTIONS: Mapping[str, type[_Part]] = {
    "trigger": Trigger,
    "grants": Grants,
    "sandbox": Sandbox,
    "verification": Verification,
    "commands": Commands,
    "paths": Paths,
    "network": Network,
    "limits": Limits,
    "timeouts": Timeouts,
    "model": Model,
    "pull_request": PullRequest,
}
_PARTS: Mapping[str, type[_Part]] = {**_SECTIONS, "checks": Check, "projects": Project}

NOT_YET: tuple[tuple[str, ...], ...] = (
    ("model", "reasoning_effort"),
    ("projects",),
)
"""Keys that nothing acts on yet: they may only say what holds anyway. What gets built leaves this list."""


def parse(data: bytes | None, *, name: str = ".github/coder.yml") -> Config:
    """The rules in a file, the defaults where there is none. Any doubt about what was meant is a `ConfigError`."""
    reader = Reader(name)
    value = reader.load(data or b"")
    try:
        config = Config.model_validate({} if value is None else value, context={"file": True})
    except ValidationError as exc:
        raise reader.error([_problem(reader, e["loc"], e["type"], e.get("ctx", {})) for e in exc.errors()]) from exc
    if problems := [reader.at(loc, message) for loc, message in _contradictions(config)]:
        raise reader.error(problems)
    return config


def _contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """What no single value shows."""
    default = Config()
    for key in NOT_YET:
        if _get(config, key) != _get(default, key):
            yield key, f"`{'.'.join(key)}` is not supported by this version of coder-bot; leave it out"
    for at, entry in enumerate(config.network.agent):
        if entry in PACKAGE_MANAGERS:
            told = f"`{entry}` has its place in `network.setup`; name hosts that the agent's commands may reach"
            yield ("network", "agent", at), told
    checks = config.checks or ()
    for at, check in enumerate(checks):
        if check.name in {earlier.name for earlier in checks[:at]}:
            yield ("checks", at, "name"), f"there is another check named `{check.name}`"
    longest = max((check.timeout for check in checks), default=Check.model_fields["timeout"].default)
    for what, needed in (("`limits.duration`", config.limits.duration), ("the longest check", longest)):
        if config.sandbox.lifetime <= needed:
            have = show_duration(config.sandbox.lifetime)
            told = f"`sandbox.lifetime` ({have}) must outlast {what} ({show_duration(needed)})"
            yield ("sandbox", "lifetime"), told


def _get(config: Config, key: tuple[str, ...]) -> Any:
    value: Any = config
    for name in key:
        value = getattr(value, name)
    return value


def render(config: Config) -> str:
    """The rules with every default filled in, as a file that `parse` reads back to the same value."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=10_000)


def schema() -> dict[str, Any]:
    """A JSON Schema for editors: whatever `parse` takes fits, though not all that fits is taken."""
    document = Config.model_json_schema(mode="serialization")
    document["title"] = "coder-bot repository config"
    for name in _SECTIONS:
        section = document["properties"][name]
        section["anyOf"] = [{"$ref": section.pop("$ref")}, {"type": "null"}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document, "type": ["object", "null"]}


def _problem(reader: Reader, loc: Loc, kind: str, facts: Mapping[str, Any]) -> Problem:
    """One of pydantic's errors in our words."""
    if kind == "extra_forbidden":
        return problem_at(reader.keys[loc], loc, _unknown(loc))
    if kind == "missing":
        return problem_at(reader.nodes[loc[:-1]], loc, f"`{loc[-1]}` is missing")
    node = reader.nodes[loc]
    message = str(facts["error"]) if kind == "value_error" else _EXPECTED[kind].format_map(facts)
    said = f"{message}, found {found(node)}"
    if kind == "literal_error" and isinstance(node, yaml.ScalarNode):
        words = re.findall(r"'(\w+)'", facts["expected"])
        if close := difflib.get_close_matches(node.value, words, n=1):
            said += f"; did you mean `{close[0]}`?"
    if kind == "string_type" and isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":null"):
        said += "; put it in quotes"
    return problem_at(node, loc, said)


_EXPECTED = {
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "tuple_type": "expected a list",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
    "literal_error": "expected {expected}",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_too_long": "expected at most {max_length} characters",
}
"""Every kind of error that the models above can give."""


def _unknown(loc: Loc) -> str:
    part: type[_Part] = Config
    for step in loc[:-1]:
        part = _PARTS[step] if isinstance(step, str) else part
    key = str(loc[-1])
    said = f"there is no key `{shown(key)}`"
    homes = [name for name, section in _SECTIONS.items() if key in section.model_fields]
    if homes and part is Config:
        return f"{said} here; it belongs under `{homes[0]}`"
    close = difflib.get_close_matches(key, part.model_fields, n=1)
    return f"{said}; did you mean `{close[0]}`?" if close else f"{said} here"
