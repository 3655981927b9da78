"""What the stages are given: values and connections, made by the composition root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.db.store import Store
from bot.domain.attestation import Signer
from bot.domain.config import Ceilings
from bot.domain.redaction import Redactor
from bot.engine.protocol import Engine
from bot.github.auth import App
from bot.llm.protocol import Model
from bot.sandbox.pool import PooledProvider


@dataclass(frozen=True, kw_only=True)
class Deps:
    """Shared by all stages of one process. `model` gives the model for a repository's wish (None: no wish)."""

    store: Store
    engine: Engine
    provider: PooledProvider
    github: App
    model: Callable[[str | None], Model]
    redactor: Redactor
    signer: Signer
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    image: str
    ceilings: Ceilings
    snapshot_disk: int
    """Bytes that snapshots may take in all; 0: none are made."""
    bot_version: str
    permissions: Mapping[str, str] = field(
        default_factory=lambda: {"issues": "write", "pull_requests": "write", "contents": "read"}
    )
    """What talking needs: comments, reactions, the config file."""
