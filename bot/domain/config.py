"""A repository's rules, `.github/coder.yml`: what may be written there, and where exactly an error stands."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from bot.domain.commands_policy import rule_problem
from bot.domain.errors import UserError

SIZE_LIMIT = 64 * 1024
DEPTH_LIMIT = 20
PROBLEM_LIMIT = 20
"""Errors told at a time; they go into a comment."""

PACKAGE_MANAGERS = frozenset({"npm", "pip", "go", "cargo", "maven", "gem", "composer"})
"""Names that stand for a package manager's registry in a network list."""


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


_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_SIZE = re.compile(r"([0-9]{1,6})(KiB|MiB|GiB)")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_BYTES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
_YEAR = 366 * 86400


def _amount(
    value: object, info: ValidationInfo, *, pattern: re.Pattern[str], units: Mapping[str, int], like: str
) -> int:
    if isinstance(value, int) and not info.context:
        return value  # made in Python, not read from a file
    if not isinstance(value, str) or not (match := pattern.fullmatch(value)):
        raise ValueError(f"expected {like}")
    amount = int(match[1]) * units[match[2]]
    if not amount:
        raise ValueError(f"expected {like}, more than nothing")
    return amount


def _read_duration(value: object, info: ValidationInfo) -> int:
    seconds = _amount(value, info, pattern=_DURATION, units=_SECONDS, like="a duration such as `10m` (s, m, h or d)")
    if seconds > _YEAR:
        raise ValueError("expected at most a year")
    return seconds


def _read_size(value: object, info: ValidationInfo) -> int:
    return _amount(value, info, pattern=_SIZE, units=_BYTES, like="a size such as `512MiB` (KiB, MiB or GiB)")


def _show(amount: int, units: Mapping[str, int]) -> str:
    unit = next(unit for unit, size in units.items() if amount % size == 0)
    return f"{amount // units[unit]}{unit}"


def show_duration(seconds: int) -> str:
    """As the file would say it."""
    return _show(seconds, _SECONDS)


def show_size(size: int) -> str:
    """As the file would say it; whole KiB only, as all that `parse` reads are."""
    return _show(size, _BYTES)


def _read_decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("expected a number")
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError("expected a number that is finite")
    if not 0 <= number <= 1_000_000 or number != number.quantize(Decimal("0.0001")):
        raise ValueError("expected a number from 0 to 1000000 with at most four decimal places")
    return number


def _read_text(value: str) -> str:
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", value):
        raise ValueError("control characters can't be used here")
    if not value.strip():
        raise ValueError("expected text that is not empty")
    return value


Duration = Annotated[
    int,
    BeforeValidator(_read_duration),
    PlainSerializer(show_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
"""Seconds."""
Size = Annotated[
    int,
    BeforeValidator(_read_size),
    PlainSerializer(show_size),
    WithJsonSchema({"type": "string", "pattern": f"^{_SIZE.pattern}$"}),
]
"""Bytes."""
Number = Annotated[
    Decimal,
    BeforeValidator(_read_decimal),
    PlainSerializer(float),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1_000_000}),
]
Text = Annotated[str, AfterValidator(_read_text)]
Whole = Annotated[int, Field(ge=1, le=1_000_000_000)]


def _read_path(value: str) -> str:
    if value.startswith("~") or "\\" in value or {"", ".", ".."} & set(value.split("/")):
        raise ValueError("expected a path inside the repository, such as `build/junit.xml`")
    return value


def _read_glob(value: str) -> str:
    if value.startswith(("~", "!")) or "\\" in value or {"", ".", ".."} & set(value.removesuffix("/").split("/")):
        raise ValueError("expected a pattern for paths inside the repository, such as `migrations/**`")
    return value


_HIDES = {
    r"\|\|[\s({]*(?:(?:/usr)?/bin/)?(?:true|:|exit\s+0|exit(?=\s*(?:$|[;&|)}\n])))(?![\w./-])": "`||`",
    r"\|\|\s*(?:echo|printf)\b[^;&|\n]*$": "`||`",
    r"[;\n]\s*(?:true|:)[\s;)}]*$": "its last command",
    r"\bexit\s+0[\s;)}]*$": "`exit 0`",
    r"(?<![&>|])&\s*$": "the `&` at its end",
    r"[;&\n]\s*wait[\s;)}]*$": "`wait`",
    r"\bset\s+(?:-\w+\s+)*\+(?:[a-z]*e|o\s+(?:errexit|pipefail))": "`set +`",
    r"^\s*!\s": "the `!`",
}
"""Ways to end in success whatever the tests said. They catch slips: whoever writes this file may set the rules."""
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)


def _read_check_line(value: str) -> str:
    bare = _QUOTED.sub("''", value)
    for pattern, what in _HIDES.items():
        if re.search(pattern, bare):
            raise ValueError(
                f"this check hides its exit status by {what}, so that it could never fail; take that out"
            )
    return value


def _read_rule(value: str) -> str:
    if problem := rule_problem(value):
        raise ValueError(problem)
    return value


_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(
    rf"(?:\*\.{_LABEL}(?:\.{_LABEL})+|{_LABEL}(?:\.{_LABEL})+(?::[0-9]{{1,5}})?|{_LABEL}:[0-9]{{1,5}})"
)


def _read_network(value: str) -> str:
    entry = value.lower()
    if entry in PACKAGE_MANAGERS or entry == "all":
        return entry
    port = entry.partition(":")[2]
    if len(entry) > 253 or not _HOST.fullmatch(entry) or (port and not 0 < int(port) < 65536):
        names = ", ".join(f"`{name}`" for name in sorted(PACKAGE_MANAGERS))
        raise ValueError(f"expected `example.org`, `*.example.org`, `host:port` or one of {names}")
    return entry


def _read_ref(value: str) -> str:
    bad = re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|^[./-]|[./]$|^@$", value)
    if bad or len(value) > 200:
        raise ValueError("expected the name of a branch as git allows it")
    return value


def _read_branch(value: str) -> str:
    filled = value.replace("{number}", "1")
    if filled == value or "{" in filled or "}" in filled:
        raise ValueError(
            "expected a name with `{number}` in it (and no other braces), such as `coder/issue-{number}`"
        )
    _read_ref(filled)
    return value


def _read_env(value: dict[str, str]) -> dict[str, str]:
    if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) for name in value):
        raise ValueError("expected names of letters, digits and `_` that start with no digit")
    return value


def _read_name(value: str) -> str:
    if len(value) > 60 or re.search(r"[`|\n\t]", value) or value != value.strip():
        raise ValueError("expected a short name on one line")
    return value


Path = Annotated[Text, AfterValidator(_read_path)]
Glob = Annotated[Text, AfterValidator(_read_glob)]
Host = Annotated[Text, AfterValidator(_read_network)]
Line = Annotated[str, Field(max_length=4000), AfterValidator(_read_text)]
Grant = Literal["read", "write", "exec"]


class _Part(BaseModel):
    """Frozen, strict, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Check(_Part):
    """One verification command; `report` is where it leaves a JUnit XML, relative to the repository."""

    name: Annotated[Text, AfterValidator(_read_name)]
    run: Annotated[Line, AfterValidator(_read_check_line)]
    timeout: Duration = 600
    report: Path | None = None


class Trigger(_Part):
    """What starts a task, and who may."""

    label: Text | None = None
    assignee: bool = False
    permission: Literal["write", "maintain", "admin"] = "write"
    bots: tuple[Text, ...] = ()


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
    retention: Duration = 14 * 86400
    env: Annotated[dict[str, Text], AfterValidator(_read_env)] = Field(default_factory=dict)


class Verification(_Part):
    """How results are judged."""

    repeat: Annotated[int, Field(ge=1, le=20)] = 1
    tests: tuple[Glob, ...] | None = None
    weakened: Literal["refuse", "draft"] = "refuse"
    unverified: Literal["comment", "draft"] = "comment"


class Commands(_Part):
    """Commands the agent may run beyond the presets, and those it may not."""

    allow: tuple[Annotated[Line, AfterValidator(_read_rule)], ...] = ()
    deny: tuple[Annotated[Line, AfterValidator(_read_rule)], ...] = ()


class Paths(_Part):
    """What the agent may not write."""

    protected: tuple[Glob, ...] = ()
    workflows: Literal["refuse", "approval"] = "refuse"


class Network(_Part):
    """Who may be talked to; `setup` None means what the detected package managers need."""

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

    base: Annotated[Text, AfterValidator(_read_ref)] | None = None
    publish: Literal["at_once", "after_approval"] = "at_once"
    draft: bool = False
    labels: tuple[Text, ...] = ("coder",)
    reviewers: tuple[Text, ...] = ()
    branch: Annotated[Text, AfterValidator(_read_branch)] = "coder/issue-{number}"
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
    instructions: Annotated[str, Field(max_length=20_000), AfterValidator(_read_text)] | None = None
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
    ("trigger", "label"),
    ("trigger", "assignee"),
    ("trigger", "bots"),
    ("sandbox", "idle"),
    ("verification", "repeat"),
    ("verification", "tests"),
    ("verification", "weakened"),
    ("verification", "unverified"),
    ("paths", "workflows"),
    ("network", "agent"),
    ("model", "reasoning_effort"),
    ("pull_request", "repair_ci"),
    ("projects",),
    ("instructions",),
)
"""Keys that nothing acts on yet: they may only say what holds anyway. What gets built leaves this list."""

Loc: TypeAlias = tuple[str | int, ...]


def parse(data: bytes | None, *, name: str = ".github/coder.yml") -> Config:
    """The rules in a file, the defaults where there is none. Any doubt about what was meant is a `ConfigError`."""
    reader = _Reader(name)
    value = reader.load(data or b"")
    try:
        config = Config.model_validate({} if value is None else value, context={"file": True})
    except ValidationError as exc:
        raise reader.error([reader.problem(e["loc"], e["type"], e.get("ctx", {})) for e in exc.errors()]) from exc
    if problems := [reader.at(loc, message) for loc, message in _contradictions(config)]:
        raise reader.error(problems)
    return config


def _contradictions(config: Config) -> Iterator[tuple[Loc, str]]:
    """What no single value shows."""
    default = Config()
    for key in NOT_YET:
        if _get(config, key) != _get(default, key):
            yield key, f"`{'.'.join(key)}` is not supported by this version of coder-bot; leave it out"
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


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The operator's limits, which bind every repository. `images` None means any image."""

    lifetime: int = 4 * 3600
    duration: int = 2 * 3600
    cost: Decimal = Decimal(20)
    tokens: int = 20_000_000
    steps: int = 400
    tool_calls: int = 2_000
    memory: int = 8 * 1024**3
    cpus: Decimal = Decimal(8)
    disk: int = 50 * 1024**3
    images: frozenset[str] | None = None
    network_all: bool = False


def over(config: Config, ceilings: Ceilings) -> tuple[Problem, ...]:
    """Where the rules ask for more than the operator gives."""
    asked: tuple[tuple[str, Any, Any, Callable[[Any], str]], ...] = (
        ("sandbox.memory", config.sandbox.memory, ceilings.memory, show_size),
        ("sandbox.cpus", config.sandbox.cpus, ceilings.cpus, str),
        ("sandbox.disk", config.sandbox.disk, ceilings.disk, show_size),
        ("sandbox.lifetime", config.sandbox.lifetime, ceilings.lifetime, show_duration),
        ("limits.steps", config.limits.steps, ceilings.steps, str),
        ("limits.tool_calls", config.limits.tool_calls, ceilings.tool_calls, str),
        ("limits.tokens", config.limits.tokens, ceilings.tokens, str),
        ("limits.duration", config.limits.duration, ceilings.duration, show_duration),
        ("limits.cost", config.limits.cost, ceilings.cost, str),
    )
    said = [
        (key, f"`{key}` is {show(wanted)}; whoever runs this bot allows at most {show(most)}")
        for key, wanted, most, show in asked
        if wanted > most
    ]
    image = config.sandbox.image
    if image is not None and ceilings.images is not None and image not in ceilings.images:
        said.append(("sandbox.image", f"whoever runs this bot does not allow the image `{image}`"))
    said += [
        (f"network.{name}", f"`network.{name}: [all]` is not allowed by whoever runs this bot")
        for name in ("setup", "agent", "checks")
        if "all" in (getattr(config.network, name) or ()) and not ceilings.network_all
    ]
    return tuple(Problem(line=0, column=0, key=key, message=message) for key, message in said)


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


class _Reader:
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
                self.problems.append(_problem(key, loc, "a key must be text"))
                continue
            inner = (*loc, key.value)
            if inner in self.keys:
                first = self.keys[inner].start_mark.line + 1
                self.problems.append(_problem(key, inner, f"`{key.value}` is here twice (first in line {first})"))
                continue
            self.keys[inner] = key
            found[key.value] = self._plain(value, inner)
        return found

    def problem(self, loc: Loc, kind: str, facts: Mapping[str, Any]) -> Problem:
        """One of pydantic's errors in our words."""
        if kind == "extra_forbidden":
            return _problem(self.keys[loc], loc, _unknown(loc))
        if kind == "missing":
            return _problem(self.nodes[loc[:-1]], loc, f"`{loc[-1]}` is missing")
        node = self.nodes[loc]
        message = str(facts["error"]) if kind == "value_error" else _EXPECTED[kind].format_map(facts)
        said = f"{message}, found {_found(node)}"
        if kind == "literal_error" and isinstance(node, yaml.ScalarNode):
            words = re.findall(r"'(\w+)'", facts["expected"])
            if close := difflib.get_close_matches(node.value, words, n=1):
                said += f"; did you mean `{close[0]}`?"
        if kind == "string_type" and isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":null"):
            said += "; put it in quotes"
        return _problem(node, loc, said)

    def at(self, loc: Loc, message: str) -> Problem:
        """A problem with that value, or with the nearest part of the file that holds it."""
        inside = loc
        while inside not in self.nodes:
            inside = inside[:-1]
        return _problem(self.nodes[inside], loc, message)

    def error(self, problems: list[Problem]) -> ConfigError:
        ordered = sorted(problems, key=lambda p: (p.line, p.column))
        return ConfigError(tuple(ordered[:PROBLEM_LIMIT]), name=self.name)

    def _stop(self, line: int, column: int, message: str) -> ConfigError:
        return self.error([Problem(line=line + 1, column=column + 1, key="", message=message)])


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


def _problem(node: yaml.Node, loc: Loc, message: str) -> Problem:
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


def _found(node: yaml.Node) -> str:
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
            text = "".join(c if c.isprintable() and c != "`" else "�" for c in node.value)
            text = text if len(text) <= 80 else text[:80] + "…"
            return f'`"{text}"`' if getattr(node, "style", None) else f"`{text}`"


def _unknown(loc: Loc) -> str:
    part: type[_Part] = Config
    for step in loc[:-1]:
        part = _PARTS[step] if isinstance(step, str) else part
    key = str(loc[-1])
    said = f"there is no key `{key}`"
    homes = [name for name, section in _SECTIONS.items() if key in section.model_fields]
    if homes and part is Config:
        return f"{said} here; it belongs under `{homes[0]}`"
    close = difflib.get_close_matches(key, part.model_fields, n=1)
    return f"{said}; did you mean `{close[0]}`?" if close else f"{said} here"
