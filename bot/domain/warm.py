"""Warm start: what a prepared file system depends on, as one key, and what the set-up is told from a listing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.domain.detect import MANIFESTS, is_manifest
from bot.domain.tree import TreeEntry

_WORD = re.compile(r"[^\s'\"`;&|()<>=]+")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What set-up starts from. `config_text` is None where the repository has no config; `setup` are the lines that
    are run, be they configured or detected; `image_id` is the image's immutable id."""

    installation_id: int
    repository_id: int
    image_id: str
    config_text: str | None
    setup: tuple[str, ...]
    env: Mapping[str, str]


def key(inputs: Inputs, tree: Sequence[TreeEntry]) -> str:
    """Names what set-up makes of a commit with this tree: two commits with the same key may share it. Beside the
    inputs it holds every manifest and lock file in any folder, and every file that a set-up line names."""
    words = (word.removeprefix("./") for line in inputs.setup for word in _WORD.findall(line))
    # A line may have changed the folder before it names a file: any end of a path counts.
    named = tuple(f"/{word}" for word in words if word)
    files = sorted(
        (entry.path, entry.mode, entry.sha)
        for entry in tree
        if entry.path in MANIFESTS or is_manifest(entry.path) or f"/{entry.path}".endswith(named)
    )
    parts = [
        inputs.installation_id,
        inputs.repository_id,
        inputs.image_id,
        inputs.config_text,
        inputs.setup,
        sorted(inputs.env.items()),
        files,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def root_names(tree: Sequence[TreeEntry]) -> tuple[str, ...]:
    """The names in the root folder, sorted."""
    return tuple(sorted({entry.path.partition("/")[0] for entry in tree}))


def root_manifests(tree: Sequence[TreeEntry]) -> Mapping[str, str]:
    """The ids of the root folder's manifests by their names; links say nothing."""
    return {entry.path: entry.sha for entry in tree if entry.path in MANIFESTS and entry.mode.startswith("100")}
