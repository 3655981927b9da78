"""The operator's settings: read from the environment once, then handed down as values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from bot.domain.commands_policy import rule_problem
from bot.domain.config_values import read_network
from bot.domain.errors import UserError
from bot.llm.spec import parse_spec


class Settings(BaseModel):
    """Each field is the environment variable of that name in capitals; `NAME_FILE` reads it from a file instead."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    coder_home: Path = Path.home() / ".coder-bot"
    """Database, lock, egress sockets."""
    coder_database_url: str | None = None
    """Default: SQLite in the home."""
    coder_deployment: str = "default"
    """Marks this deployment's sandboxes, where several share an engine."""
    coder_sandbox: Literal["docker", "e2b"] | None = None
    """Who makes the sandboxes; default: `e2b` when E2B_API_KEY is there, else `docker`."""
    coder_image: str | None = None
    """The image (E2B: the template) of sandboxes whose repository names none; default: `coder-bot-sandbox`."""
    coder_images: frozenset[str] = frozenset()
    """Further images that repositories may name, separated by commas."""
    coder_model: str | None = None
    """A model SPEC; default: `openai:gpt-5` when OPENAI_API_KEY is there."""
    coder_models: tuple[str, ...] = ()
    """Further SPECs that repositories may choose by `model.name`, separated by commas."""
    coder_prices: dict[str, tuple[Decimal, Decimal, Decimal]] = Field(default_factory=dict)
    """JSON: model name to US dollars a million tokens of input, output and cached input."""
    coder_private_hosts: frozenset[str] = frozenset()
    """Private addresses (`host` or `host:port`, separated by commas) that sandboxes may be allowed to reach."""
    coder_index_credentials_file: Path | None = None
    """JSON: host of a private package index to the Authorization header that the egress proxy adds for it."""
    coder_workers: int = Field(default=4, ge=1, le=64)
    """Tasks worked on at once; each has at most two sandboxes."""
    coder_max_sandboxes: int | None = Field(default=None, ge=2)
    """Sandboxes running at once over all processes; default: two for each worker and two more, or what the provider
    allows."""
    coder_reserved_sandboxes: int | None = Field(default=None, ge=1)
    """How many of those are kept for verification and fetching; default: 2, or 1 of two."""
    coder_max_lifetime: int | None = Field(default=None, ge=60)
    """Seconds a sandbox may be given by a repository; default: 4 hours, or what the provider allows."""
    coder_max_exec: int = Field(default=3600, ge=1)
    """Seconds after which any command in a sandbox is ended."""
    coder_max_disk: int = Field(default=50 * 1024**3, ge=64 * 1024**2)
    """Bytes a sandbox's workspace may be given by a repository."""
    coder_network: Literal["none", "allowlist"] = "allowlist"
    """`none`: sandboxes reach no host but the one they clone from, whatever a repository's config lists."""
    coder_network_hosts: frozenset[str] | None = None
    """What repositories may name in their network lists, separated by commas: hosts, `*.` wildcards and package
    managers; default: anything."""
    coder_allow_commands: bool = True
    """Whether repositories may allow programs beyond the presets (`commands.allow`)."""
    coder_deny_commands: tuple[str, ...] = ()
    """Commands that no repository can allow, as in `commands.deny`, separated by `;` or line ends."""
    coder_snapshot_disk: int = Field(default=10 * 1024**3, ge=0)
    """Bytes for snapshots, from which sandboxes start warm; 0: none are made."""
    coder_max_duration: int = Field(default=2 * 3600, ge=60)
    """Seconds of work an episode may be given by a repository."""
    coder_max_cost: Decimal = Field(default=Decimal(20), ge=0)
    """US dollars a task may be given by a repository."""
    coder_max_memory: int = Field(default=8 * 1024**3, ge=64 * 1024**2)
    """Bytes of memory a sandbox may be given by a repository."""
    coder_max_cpus: Decimal = Field(default=Decimal(8), gt=0)
    """CPUs a sandbox may be given by a repository."""
    coder_max_retention: int = Field(default=30 * 86400, ge=60)
    """Seconds a repository may have the paused sandbox of an open task kept."""
    coder_max_steps: int = Field(default=400, ge=1)
    """Steps an episode may be given by a repository."""
    coder_max_tool_calls: int = Field(default=2_000, ge=1)
    """Tool calls an episode may be given by a repository."""
    coder_max_tokens: int = Field(default=20_000_000, ge=1)
    """Tokens a task may be given by a repository."""
    coder_max_attempts: int = Field(default=20, ge=1)
    """Verifications an episode may be given by a repository."""
    coder_max_files: int = Field(default=1_000, ge=1)
    """Files a repository may let one patch change."""
    coder_max_patch: int = Field(default=10 * 1024**2, ge=1024)
    """Bytes a repository may let one patch have."""
    coder_metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Where Prometheus finds `/metrics`; default: nowhere."""
    coder_metrics_host: str = "127.0.0.1"
    """The address that listens there."""
    coder_receipt_key: SecretStr | None = None
    """PEM text of the Ed25519 key that signs receipts; default: one that is made in the home."""
    coder_receipt_old_keys: str | None = None
    """Public keys that signed receipts before: PEM, or JSON as `coder-bot receipt keys` prints it."""
    github_api_url: str = "https://api.github.com"
    github_app_id: int | None = None
    github_private_key: SecretStr | None = None
    """PEM text."""
    github_webhook_secret: SecretStr | None = None
    openai_api_key: SecretStr | None = None
    openai_base_url: str | None = None
    docker_host: str = "unix:///var/run/docker.sock"
    coder_docker_runtime: str = ""
    """What the Docker engine runs sandboxes with, by its name there (`runc`, `crun`, `runsc`, …); default: the
    engine's own."""
    e2b_api_key: SecretStr | None = None
    e2b_api_url: str | None = None
    """Of a self-hosted or compatible service; default: E2B's own."""
    e2b_sandbox_url: str | None = None
    """Where such a service's sandboxes are reached; default: where E2B's are."""
    coder_e2b_plan: Literal["hobby", "pro"] = "hobby"
    """Of the E2B account: how long sandboxes may live there, and how many at once."""

    @field_validator("coder_network_hosts")
    @classmethod
    def _are_hosts(cls, value: frozenset[str] | None) -> frozenset[str] | None:
        return None if value is None else frozenset(map(read_network, value))

    @field_validator("coder_models")
    @classmethod
    def _are_specs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for spec in value:
            try:
                parse_spec(spec)
            except UserError as exc:
                raise ValueError(str(exc)) from exc
        return value

    @field_validator("coder_deny_commands")
    @classmethod
    def _are_rules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for rule in value:
            if problem := rule_problem(rule):
                raise ValueError(f"`{rule}`: {problem}")
        return value

    @property
    def sandbox(self) -> Literal["docker", "e2b"]:
        return self.coder_sandbox or ("e2b" if self.e2b_api_key else "docker")

    @property
    def image(self) -> str:
        return self.coder_image or {"docker": "coder-bot-sandbox:latest", "e2b": "coder-bot-sandbox"}[self.sandbox]

    @property
    def database_url(self) -> str:
        return self.coder_database_url or f"sqlite+aiosqlite:///{self.coder_home / 'coder.db'}"

    @property
    def model(self) -> str | None:
        return self.coder_model or ("openai:gpt-5" if self.openai_api_key else None)

    @property
    def models(self) -> tuple[str, ...]:
        """The SPECs that repositories may choose from, the operator's own first."""
        return tuple(dict.fromkeys(filter(None, (self.model, *self.coder_models))))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Exact values that must never leave the process."""
        held = (
            *(self.github_private_key, self.github_webhook_secret, self.openai_api_key, self.e2b_api_key),
            self.coder_receipt_key,
        )
        return tuple(secret.get_secret_value() for secret in held if secret)


_LISTS = {
    "coder_images": ",",
    "coder_models": ",",
    "coder_network_hosts": ",",
    "coder_private_hosts": ",",
    "coder_deny_commands": "[;\n]",
}
"""The settings that are lists, and what separates their items."""


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises UserError naming each variable that is wrong and what it should be."""
    values = {name.lower(): value for name, value in (os.environ if environment is None else environment).items()}
    known = {name: value for name, value in values.items() if name in Settings.model_fields and value != ""}
    for name in Settings.model_fields:
        if path := values.get(f"{name}_file"):
            try:
                known[name] = Path(path).read_text().strip()
            except OSError as exc:
                raise UserError(f"{name.upper()}_FILE can't be read: {exc.strerror}.") from exc
            except UnicodeDecodeError as exc:
                raise UserError(f"{name.upper()}_FILE is not a text file.") from exc
    parsed: dict[str, object] = dict(known)
    for name, separator in _LISTS.items():
        if name in known:
            parsed[name] = tuple(item.strip() for item in re.split(separator, known[name]) if item.strip())
    try:
        if "coder_prices" in known:
            return Settings.model_validate(parsed | {"coder_prices": _json(known["coder_prices"])})
        return Settings.model_validate(parsed)
    except ValidationError as exc:
        problems = "; ".join(f"{str(item['loc'][0]).upper()}: {item['msg']}" for item in exc.errors())
        raise UserError(f"Settings are wrong: {problems}.") from exc


def _json(text: str) -> object:
    import json

    try:
        return json.loads(text)
    except ValueError as exc:
        raise UserError("CODER_PRICES is not JSON.") from exc
