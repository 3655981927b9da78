"""What can be asked of a sandbox at all: words that a program can get, places below the workspace, surroundings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import WORKSPACE

SURROUNDINGS: Mapping[str, str] = {
    "HOME": f"{WORKSPACE}/.home",
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "XDG_CACHE_HOME": f"{WORKSPACE}/.cache",
    "PIP_CACHE_DIR": f"{WORKSPACE}/.cache/pip",
    "npm_config_cache": f"{WORKSPACE}/.cache/npm",
    "npm_config_prefix": f"{WORKSPACE}/.npm-global",
}
"""Environment of every command: what tools keep for themselves lies in the workspace, which alone can be written and
is kept over a pause."""


def must_be_exact(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Raises `invalid_input` for a command that no program could get as it is."""
    if not argv or not all(_is_exact(text) for text in (*argv, *env.values())) or not all(map(_is_key, env)):
        raise SandboxError("invalid_input", "A command needs a program, and words without NUL that are valid text.")


def folder(path: str) -> str:
    """Where a command is to run, as an absolute path; `invalid_input` where that is not below the workspace."""
    try:
        return f"{WORKSPACE}/{below(path)}".rstrip("/")
    except ValueError as exc:
        raise SandboxError("invalid_input", f"A command runs below {WORKSPACE}, not in {path!r}.") from exc


def below(path: str) -> str:
    """The path relative to the workspace; ValueError where its text leads out of it."""
    rest = path.removeprefix(WORKSPACE) if path.startswith("/") else "/" + path
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if "\0" in path or ".." in parts or (rest and (rest == path or not rest.startswith("/"))):
        raise ValueError(f"{path!r} is not below {WORKSPACE}.")
    return "/".join(parts)


def _is_exact(text: str) -> bool:
    """Whether a program would get this text and no other."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _is_key(text: str) -> bool:
    return bool(text) and "=" not in text and _is_exact(text)
