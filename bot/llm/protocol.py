"""What the agent loop needs of a language model: messages in, one reply out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bot.domain.budget import Price, Usage


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool the model may call; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call the model asked for. `arguments` is None where the model's JSON was no object: the tool layer
    tells the model so; `id` joins the call to its result and is unique within the reply."""

    id: str
    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One model reply. `raw` is the provider's own items, to be sent back verbatim (encrypted reasoning)."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    raw: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class UserMessage:
    text: str


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a tool call came to, as the model reads it."""

    call_id: str
    text: str


Message = UserMessage | Reply | ToolResult
"""A transcript: user messages, the model's own replies, and a result for each tool call of the reply before."""


class Model(Protocol):
    """One model. A failed call is a `ModelError` whose `retryable` says whether the same call may be tried again;
    the adapter itself has then already retried what its vendor advises."""

    @property
    def name(self) -> str:
        """The SPEC it was made from, for receipts and people."""
        ...

    @property
    def price(self) -> Price | None:
        """None where nobody knows the price; never a guess."""
        ...

    async def reply(
        self,
        *,
        system: str,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        max_output_tokens: int,
        timeout_s: float,
    ) -> Reply:
        """The next reply to this transcript; the adapter keeps no conversation of its own."""
        ...

    async def aclose(self) -> None:
        """Frees connections; closing twice is harmless."""
        ...
