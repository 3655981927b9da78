"""The repository's rules, `.github/coder.yml`, read strictly: nobody works under laxer rules than were meant."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from bot.domain.commands_policy import rule_problem
from bot.domain.errors import UserError

SIZE_LIMIT = 64 * 1024
DEPTH_LIMIT = 16
PACKAGE_MANAGERS = frozenset({"npm", "pip", "go", "cargo", "maven", "gem", "composer"})

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is wrong at a place; line and column count from 1, 0 where the file has no such place."""

    line: int
    column: int
    key: str
    message: str


class ConfigError(UserError):
    """The file can't be used; `problems` says all that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"line {p.line}, column {p.column}: {p.message}" for p in problems))
        self.problems = problems


def _quantity(pattern: str, example: str) -> Any:
    def read(value: object) -> object:
        if isinstance(value, str) and (match := re.fullmatch(pattern, value)):
            return int(match[1]) * _UNITS[match[2]]
        if isinstance(value, _Plain):
            return int(value)
        raise ValueError(f"expected something like {example}, found {_shown(value)}")

    return read


class _Plain(int):
    """A default, already in its unit: what a file holds never is one."""


Duration = Annotated[
    int,
    BeforeValidator(_quantity(r"([1-9]\d{0,5})(s|m|h|d)", "10m or 1h")),
    WithJsonSchema({"type": "string", "pattern": r"^[1-9]\d{0,5}(s|m|h|d)$"}),
]
"""Seconds."""
Size = Annotated[
    int,
    BeforeValidator(_quantity(r"([1-9]\d{0,8})(B|KiB|MiB|GiB)", "512MiB or 2GiB")),
    WithJsonSchema({"type": "string", "pattern": r"^[1-9]\d{0,8}(B|KiB|MiB|GiB)$"}),
]
"""Bytes."""


def _money(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"expected an amount in US dollars like 2.00, found {_shown(value)}")
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return Decimal(str(value))


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a number, found {_shown(value)}")
    return float(value)


Money = Annotated[
    Decimal, BeforeValidator(_money), Field(gt=0), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
Cores = Annotated[float, BeforeValidator(_number), Field(gt=0, le=64)]
Words = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Line = Annotated[str, Field(min_length=1, max_length=4096)]
Lines = Annotated[tuple[Line, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Grant = Literal["read", "write", "exec"]
Grants = Annotated[
    tuple[Grant, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Trigger(_Section):
    """What starts a task, and who may."""

    label: str | None = None
    assignee: bool = False
    permission: Literal["write", "maintain", "admin"] = "write"
    bots: Words = ()


class GrantsOf(_Section):
    """What each kind of episode may do; can only be narrowed."""

    fix: Grants = ("read", "write", "exec")
    ask: Grants = ("read",)
    plan: Grants = ("read",)


class SandboxRules(_Section):
    """The sandbox that is asked for."""

    image: str | None = None
    memory: Size = _Plain(2 * 1024**3)
    cpus: Cores = 2.0
    disk: Size = _Plain(5 * 1024**3)
    lifetime: Duration = _Plain(3600)
    idle: Duration = _Plain(1800)
    retention: Duration = _Plain(14 * 86400)
    env: dict[str, str] = Field(default_factory=dict)


class Check(_Section):
    """One verification command: a shell line, its time-out, and where it leaves a JUnit XML report."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,59}$")]
    run: Line
    timeout: Duration = _Plain(600)
    report: str | None = None


class Verification(_Section):
    """How results are judged."""

    repeat: int = Field(default=1, ge=1, le=20)
    tests: Words | None = None
    weakened: Literal["refuse", "draft"] = "refuse"
    unverified: Literal["comment", "draft"] = "comment"


class Commands(_Section):
    """Commands the agent may run beyond the presets, and those it may not."""

    allow: Words = ()
    deny: Words = ()


class Paths(_Section):
    """What the agent may not write."""

    protected: Words = ()
    workflows: Literal["refuse", "approval"] = "refuse"


class Network(_Section):
    """Package managers or hosts that each phase may reach."""

    setup: Words = ()
    agent: Words = ()
    checks: Words = ()


class Limits(_Section):
    """Where an episode ends; tokens and cost are the task's over all its episodes."""

    steps: int = Field(default=40, ge=1, le=1000)
    tool_calls: int = Field(default=120, ge=1, le=10_000)
    tokens: int = Field(default=2_000_000, ge=1)
    duration: Duration = _Plain(1800)
    cost: Money = Decimal("2.00")
    attempts: int = Field(default=3, ge=1, le=20)
    files: int = Field(default=100, ge=1, le=3000)
    patch: Size = _Plain(1024**2)


class Timeouts(_Section):
    """How long single things may take."""

    clone: Duration = _Plain(120)
    setup: Duration = _Plain(600)
    command: Duration = _Plain(120)
    tests: Duration = _Plain(300)


class ModelRules(_Section):
    """Which model is wished for."""

    name: str | None = None
    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None


class PullRequest(_Section):
    """How results are published."""

    base: str | None = None
    publish: Literal["at_once", "after_approval"] = "at_once"
    draft: bool = False
    labels: Words = ("coder",)
    reviewers: Words = ()
    branch: str = "coder/issue-{number}"
    repair_ci: int = Field(default=0, ge=0, le=10)


class Config(_Section):
    """All of it; every key has a default."""

    version: Literal[1] = 1
    enabled: bool = True
    trigger: Trigger = Trigger()
    grants: GrantsOf = GrantsOf()
    sandbox: SandboxRules = SandboxRules()
    setup: Lines = ()
    checks: Annotated[
        tuple[Check, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
    ] = ()
    verification: Verification = Verification()
    commands: Commands = Commands()
    paths: Paths = Paths()
    network: Network = Network()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    model: ModelRules = ModelRules()
    pull_request: PullRequest = PullRequest()
    projects: tuple[()] = ()
    instructions: str | None = None
    onboarding: bool = True


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The operator's limits, which bind every repository. `images` None means any."""

    lifetime: int
    duration: int
    cost: Decimal
    memory: int
    images: frozenset[str] | None


_NOT_YET = (
    "trigger.label",
    "trigger.assignee",
    "trigger.bots",
    "verification.repeat",
    "verification.tests",
    "verification.unverified",
    "verification.weakened",
    "paths.workflows",
    "network.agent",
    "pull_request.repair_ci",
    "projects",
    "instructions",
    "model.reasoning_effort",
)
"""Keys whose behaviour this version does not have: they may stand there with their default, and nothing else."""

_HIDES_STATUS = re.compile(
    r"\|\|\s*(?:true|:|exit\s+0)\b|;\s*(?:true|:|exit\s+0)\s*$|&\s*$|\bset\s+\+e\b|\|\|\s*:\s*$"
)
_HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::\d{1,5})?")
_BRANCH = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[A-Za-z0-9_](?:[A-Za-z0-9._/-]*[A-Za-z0-9_-])?")


def parse(data: bytes | None) -> Config:
    """The rules in a file's bytes; None (no file) and an empty file are the defaults. ConfigError says what is wrong,
    where, and what was probably meant."""
    values, places = _load(data or b"")
    try:
        config = Config.model_validate(values)
    except ValidationError as exc:
        raise ConfigError(tuple(_problem(item, places) for item in exc.errors())) from exc
    found = [_at(places, key, message) for key, message in _crossed(config, values)]
    if found:
        raise ConfigError(tuple(found))
    return config


def over(config: Config, ceilings: Ceilings) -> tuple[Problem, ...]:
    """Where the rules ask for more than the operator gives."""
    said = []
    if config.sandbox.lifetime > ceilings.lifetime:
        said.append(("sandbox.lifetime", f"the operator allows {ceilings.lifetime} seconds"))
    if config.limits.duration > ceilings.duration:
        said.append(("limits.duration", f"the operator allows {ceilings.duration} seconds"))
    if config.limits.cost > ceilings.cost:
        said.append(("limits.cost", f"the operator allows ${ceilings.cost}"))
    if config.sandbox.memory > ceilings.memory:
        said.append(("sandbox.memory", f"the operator allows {ceilings.memory} bytes"))
    image = config.sandbox.image
    if image is not None and ceilings.images is not None and image not in ceilings.images:
        said.append(("sandbox.image", f"the operator allows {', '.join(sorted(ceilings.images))}"))
    return tuple(Problem(line=0, column=0, key=key, message=f"{key}: {message}") for key, message in said)


def schema() -> dict[str, Any]:
    """JSON Schema of the file, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
        "title": "coder.yml",
    }


def render(config: Config) -> str:
    """The rules as a file that `parse` reads back to the same rules."""
    return yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True, width=110).strip()


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {name: _written(fields[name].metadata, getattr(value, name)) for name in fields}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def _written(metadata: list[Any], value: object) -> Any:
    schemas = [item for item in metadata if isinstance(item, WithJsonSchema)]
    if schemas and isinstance(value, int) and "(s|m|h|d)" in str(schemas[0].json_schema):
        unit = next(name for name in ("d", "h", "m", "s") if value % _UNITS[name] == 0)
        return f"{value // _UNITS[unit]}{unit}"
    if schemas and isinstance(value, int) and "GiB" in str(schemas[0].json_schema):
        unit = next(name for name in ("GiB", "MiB", "KiB", "B") if value % _UNITS[name] == 0)
        return f"{value // _UNITS[unit]}{unit}"
    return dict(value) if isinstance(value, dict) else _plain(value)


def _crossed(config: Config, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What no single key shows."""
    said: list[tuple[str, str]] = []
    longest = max([config.limits.duration, *(check.timeout for check in config.checks)])
    if config.sandbox.lifetime <= longest:
        said.append(("sandbox.lifetime", f"must outlast limits.duration and every check ({longest} seconds)"))
    names = [check.name for check in config.checks]
    said += [
        ("checks", f"the name {name!r} is used twice") for name in sorted({n for n in names if names.count(n) > 1})
    ]
    for place, check in enumerate(config.checks):
        if _HIDES_STATUS.search(check.run):
            said.append(
                (f"checks.{place}.run", "hides the exit status of its command; a check has to be able to fail")
            )
        if check.report is not None and (check.report.startswith("/") or ".." in check.report.split("/")):
            said.append((f"checks.{place}.report", "must be a path inside the repository"))
    for kind in ("ask", "plan"):
        if set(getattr(config.grants, kind)) - {"read"}:
            said.append((f"grants.{kind}", "can only be narrowed; the most it may have is [read]"))
    for key in ("allow", "deny"):
        for place, rule in enumerate(getattr(config.commands, key)):
            if problem := rule_problem(rule):
                said.append((f"commands.{key}.{place}", problem))
    for phase in ("setup", "agent", "checks"):
        for place, entry in enumerate(getattr(config.network, phase)):
            if entry == "all" or not (
                _HOST.fullmatch(entry) and ("." in entry or ":" in entry or entry in PACKAGE_MANAGERS)
            ):
                managers = ", ".join(sorted(PACKAGE_MANAGERS))
                said.append((f"network.{phase}.{place}", f"{entry!r} is neither a host nor one of {managers}"))
    branch = config.pull_request.branch
    try:
        name = branch.format(number=1)
    except (KeyError, ValueError, IndexError, AttributeError):
        name = ""
    if "{number}" not in branch or not _BRANCH.fullmatch(name):
        said.append(("pull_request.branch", "must be a branch name that holds {number}"))
    for key in _NOT_YET:
        section, _, field = key.partition(".")
        now, default = getattr(config, section), getattr(Config(), section)
        if (getattr(now, field) if field else now) != (getattr(default, field) if field else default):
            said.append((key, f"{key} is not supported by this version of coder-bot; leave it out"))
    return said


Places = dict[str, tuple[int, int]]


def _load(data: bytes) -> tuple[dict[str, Any], Places]:
    if len(data) > SIZE_LIMIT:
        raise _single(1, 1, f"the file is larger than {SIZE_LIMIT} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data[: exc.start].count(b"\n") + 1
        raise _single(line, 1, "the file is not UTF-8 text") from exc
    places: Places = {}
    try:
        # Parsing by events first: an alias, a tag or great depth is refused before anything is built from it.
        _look_over(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _single(line, column, f"this is no YAML: {exc.problem or 'it can not be read'}") from exc
    except yaml.YAMLError as exc:
        raise _single(1, 1, "this is no YAML: it holds a character that is not allowed") from exc
    if node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
        return {}, places
    if not isinstance(node, yaml.MappingNode):
        raise _single(node.start_mark.line + 1, node.start_mark.column + 1, "expected keys and values at the top")
    value = _value(node, "", places)
    assert isinstance(value, dict)
    return value, places


def _look_over(text: str) -> None:
    depth = 0
    documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _single(line, column, "anchors and aliases are not allowed")
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _single(line, column, "only one document is allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEPTH_LIMIT:
                raise _single(line, column, "this is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _value(node: yaml.Node, key: str, places: Places) -> Any:
    places.setdefault(key, (node.start_mark.line + 1, node.start_mark.column + 1))
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for name_node, value_node in node.value:
            line, column = name_node.start_mark.line + 1, name_node.start_mark.column + 1
            if not isinstance(name_node, yaml.ScalarNode):
                raise _single(line, column, "a key must be text")
            name = str(name_node.value)
            if name in values:
                raise _single(line, column, f"the key {name!r} stands here twice", key=_join(key, name))
            child = _join(key, name)
            values[name] = _value(value_node, child, places)
            places[child] = (line, column)
        return values
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, _join(key, str(place)), places) for place, item in enumerate(node.value)]
    try:
        return yaml.SafeLoader.construct_object(_Constructor(), node, deep=True)
    except (yaml.YAMLError, ValueError, OverflowError) as exc:
        line, column = places[key]
        raise _single(line, column, "this value can't be read", key=key) from exc


class _Constructor(yaml.SafeLoader):
    """Builds single scalars; it never reads a stream."""

    def __init__(self) -> None:
        super().__init__("")


def _problem(item: Any, places: Places) -> Problem:
    path = [str(part) for part in item["loc"] if not str(part).startswith("function-")]
    key = ".".join(path)
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], _known(path[:-1]), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return _at(places, key, f"unknown key {path[-1]!r}{hint}")
    return _at(places, key, _sentence(item))


def _sentence(item: Any) -> str:
    kinds = {
        "string_type": "text",
        "bool_type": "true or false",
        "int_type": "a whole number",
        "tuple_type": "a list",
        "dict_type": "keys and values",
        "model_type": "keys and values",
        "model_attributes_type": "keys and values",
    }
    if item["type"] in kinds:
        return f"expected {kinds[item['type']]}, found {_shown(item['input'])}"
    if item["type"] == "missing":
        return "is missing"
    message: str = item["msg"]
    return message.removeprefix("Value error, ").replace("Input should be", "should be")


def _known(path: list[str]) -> list[str]:
    model: type[BaseModel] = Config
    for part in path:
        if part.isdecimal():
            continue
        field = model.model_fields.get(part)
        if part == "checks":
            model = Check
        elif field is not None and isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
        else:
            return []
    return list(model.model_fields)


def _at(places: Places, key: str, message: str) -> Problem:
    near = key
    while near and near not in places:
        near = near.rpartition(".")[0]
    line, column = places.get(near, (1, 1))
    return Problem(line=line, column=column, key=key, message=message if key in message else f"{key}: {message}")


def _single(line: int, column: int, message: str, *, key: str = "") -> ConfigError:
    return ConfigError((Problem(line=line, column=column, key=key, message=message),))


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "a list"
    return "keys and values" if isinstance(value, dict) else repr(value)[:60]
