"""The operator's limits, which bind every repository's config."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bot.domain.commands_policy import Allowed, Policy
from bot.domain.config_file import Problem
from bot.domain.config_values import show_duration, show_size

if TYPE_CHECKING:
    from bot.domain.config import Config

_WEB_PORTS = ("80", "443")
"""The ports of a host that is listed without one."""


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """The most that a repository may ask for. `None` binds nothing."""

    lifetime: int = 4 * 3600
    duration: int = 2 * 3600
    retention: int = 30 * 86400
    command: int = 3600
    """Seconds of one command: a check, a line of set-up, a clone, what the agent runs."""
    cost: Decimal = Decimal(20)
    tokens: int = 20_000_000
    steps: int = 400
    tool_calls: int = 2_000
    attempts: int = 20
    files: int = 1_000
    patch: int = 10 * 1024**2
    memory: int = 8 * 1024**3
    cpus: Decimal = Decimal(8)
    disk: int = 50 * 1024**3
    images: frozenset[str] | None = None
    models: tuple[str, ...] | None = None
    """The SPECs that `model.name` may choose from."""
    hosts: frozenset[str] | None = None
    """What network lists may name: hosts, `*.` wildcards, package managers."""
    network_all: bool = False
    add_commands: bool = True
    """Whether repositories may allow programs beyond the presets."""
    deny_commands: tuple[str, ...] = ()
    """Rules that win over whatever a repository allows."""


def over(config: Config, ceilings: Ceilings) -> tuple[Problem, ...]:
    """Where the rules ask for more than the operator gives; nothing is ever lowered silently."""
    said = [*_amounts(config, ceilings), *_choices(config, ceilings), *_hosts(config, ceilings)]
    return tuple(Problem(line=0, column=0, key=key, message=message) for key, message in said)


def model_spec(wanted: str, specs: Sequence[str]) -> str | None:
    """The first of these SPECs that is meant by a `model.name`: by its whole text, or by the name in it alone."""
    return next((spec for spec in specs if wanted in (spec, spec.partition(":")[2])), None)


def _amounts(config: Config, most: Ceilings) -> Iterator[tuple[str, str]]:
    sandbox, limits, timeouts = config.sandbox, config.limits, config.timeouts
    asked: list[tuple[str, Any, Any, Callable[[Any], str]]] = [
        ("sandbox.memory", sandbox.memory, most.memory, show_size),
        ("sandbox.cpus", sandbox.cpus, most.cpus, str),
        ("sandbox.disk", sandbox.disk, most.disk, show_size),
        ("sandbox.lifetime", sandbox.lifetime, most.lifetime, show_duration),
        ("sandbox.retention", sandbox.retention, most.retention, show_duration),
        ("limits.steps", limits.steps, most.steps, str),
        ("limits.tool_calls", limits.tool_calls, most.tool_calls, str),
        ("limits.tokens", limits.tokens, most.tokens, str),
        ("limits.duration", limits.duration, most.duration, show_duration),
        ("limits.cost", limits.cost, most.cost, str),
        ("limits.attempts", limits.attempts, most.attempts, str),
        ("limits.files", limits.files, most.files, str),
        ("limits.patch", limits.patch, most.patch, show_size),
        ("timeouts.clone", timeouts.clone, most.command, show_duration),
        ("timeouts.setup", timeouts.setup, most.command, show_duration),
        ("timeouts.command", timeouts.command, most.command, show_duration),
        ("timeouts.tests", timeouts.tests, most.command, show_duration),
    ]
    asked += [
        (f"checks[{at}].timeout", check.timeout, most.command, show_duration)
        for at, check in enumerate(config.checks or ())
    ]
    for key, wanted, allowed, show in asked:
        if wanted > allowed:
            yield key, f"`{key}` is {show(wanted)}; whoever runs this bot allows at most {show(allowed)}"


def _choices(config: Config, ceilings: Ceilings) -> Iterator[tuple[str, str]]:
    image, model = config.sandbox.image, config.model.name
    if image is not None and ceilings.images is not None and image not in ceilings.images:
        yield "sandbox.image", f"whoever runs this bot does not allow the image `{image}`{_among(ceilings.images)}"
    if model is not None and ceilings.models is not None and model_spec(model, ceilings.models) is None:
        # A scripted model is a file of the operator's machine, which is nobody's business.
        named = [spec for spec in ceilings.models if not spec.startswith("scripted:")]
        yield "model.name", f"whoever runs this bot does not allow the model `{model}`{_among(named)}"
    for at, rule in enumerate(config.commands.allow):
        key = f"commands.allow[{at}]"
        if not ceilings.add_commands:
            yield key, "whoever runs this bot does not let repositories allow commands; leave `commands.allow` out"
        elif _is_denied(rule, ceilings.deny_commands):
            yield key, f"whoever runs this bot denies `{rule}`"


def _is_denied(rule: str, deny: tuple[str, ...]) -> bool:
    """Whether nothing that the rule allows may run."""
    command = rule.strip(" ").removesuffix("*")
    alone = Policy.of(allow=(rule,)).decide(command)
    return isinstance(alone, Allowed) and not isinstance(Policy.of(allow=(rule,), deny=deny).decide(command), Allowed)


def _hosts(config: Config, ceilings: Ceilings) -> Iterator[tuple[str, str]]:
    for name in ("setup", "agent", "checks"):
        for at, entry in enumerate(getattr(config.network, name) or ()):
            key = f"network.{name}[{at}]"
            if entry == "all":
                if not ceilings.network_all:
                    yield f"network.{name}", f"`network.{name}: [all]` is not allowed by whoever runs this bot"
            elif ceilings.hosts is not None and not covers(ceilings.hosts, entry):
                yield key, f"whoever runs this bot does not allow `{entry}` in network lists{_among(ceilings.hosts)}"


def covers(listed: Collection[str], entry: str) -> bool:
    """Whether everything an entry of a network list stands for is listed."""
    host, _, port = entry.partition(":")
    if entry in listed or (port in _WEB_PORTS and host in listed):
        return True
    wild = [pattern[1:] for pattern in listed if pattern.startswith("*.")]
    return port in ("", *_WEB_PORTS) and any(host.endswith(end) for end in wild)


def _among(names: Collection[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in sorted(names)[:20])
    return f"; allowed: {listed}" if listed else ""
