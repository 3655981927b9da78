"""The operator's credentials for private package indexes, which the egress proxy adds outside of the sandbox."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from bot.domain.errors import SandboxError, UserError
from bot.sandbox.hosts import Host

FILE_LIMIT = 64 * 1024
_NAME = "CODER_INDEX_CREDENTIALS_FILE"
_LIKE = f'{_NAME} must be a JSON object such as {{"index.example.org": "Basic …"}}'
_AUTHORIZATION = re.compile(r"[A-Za-z][A-Za-z0-9-]* [!-~](?:[ -~]{0,4000}[!-~])?")


def load_credentials(path: Path) -> Mapping[str, str]:
    """The operator's file of credentials for package indexes, as `EgressProxy` takes them: a JSON object of `host` or
    `host:port` to the value of an Authorization header, readable by its owner only. Raises UserError, which says what
    to do and nothing of what the file holds."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise UserError(f"{_NAME} can be read by others: run `chmod 600 {path}`.")
            data = file.read(FILE_LIMIT + 1)
    except OSError as exc:
        raise UserError(f"{_NAME} can't be read: {exc.strerror}.") from exc
    try:
        found = json.loads(data) if len(data) <= FILE_LIMIT else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"{_LIKE}.") from None
    for host, value in found.items():
        try:
            entry = Host.parse(host)
        except SandboxError:
            entry = None
        if entry is None or entry.below or entry.port == 80:
            raise UserError(f"{_LIKE}; write `host`, or `host:port` with its https port, without wildcards.")
        if not isinstance(value, str) or not _AUTHORIZATION.fullmatch(value):
            raise UserError(f"{_LIKE}; what stands at `{entry.name}` is no value of an Authorization header.")
    return MappingProxyType(found)
