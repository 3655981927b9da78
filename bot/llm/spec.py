"""Reads a model SPEC, the words by which people say which model to use."""

from __future__ import annotations

from typing import Literal

from bot.domain.errors import UserError

Kind = Literal["openai", "chat", "scripted"]


def parse_spec(spec: str) -> tuple[Kind, str]:
    """The kind of model and its name (for `scripted`, its file). Anything else is a `UserError` listing the forms."""
    kind, _, name = spec.partition(":")
    match kind:
        case "openai" | "chat" | "scripted" if name.strip():
            return kind, name.strip()
        case _:
            raise UserError(
                f"{spec[:80]!r} names no model. Write openai:NAME (OpenAI's Responses API), "
                "chat:NAME (any OpenAI-compatible server, by OPENAI_BASE_URL) or scripted:FILE (JSON Lines)."
            )
