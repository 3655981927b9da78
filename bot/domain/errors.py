"""What can go wrong, told apart by who has to read it.

CoderError
├── UserError            a person on GitHub: the message becomes a comment that says what to do next
└── InfraError           the operator: machinery broke; `retryable` says whether trying again may help
    ├── SandboxError     `reason` is one of SandboxReason
    ├── ModelError       `reason` is one of ModelReason
    ├── GitHubError      `status` is the HTTP status, or None where no answer came
    └── LeaseLost        another run of this stage has taken over; this one must stop at once

The model reads tool results, never exceptions; the programmer reads `assert`.
A vendor's own text stays out of messages: it may hold secrets, and it is written for somebody else.
"""

from __future__ import annotations

from typing import Literal

SandboxReason = Literal[
    "authentication",
    "rate_limited",
    "gone",
    "unreachable",
    "unknown_outcome",
    "limit_exceeded",
    "permission_denied",
    "invalid_config",
    "invalid_input",
    "cancelled",
]

ModelReason = Literal[
    "authentication",
    "rate_limited",
    "unavailable",
    "context_length",
    "unusable_reply",
    "invalid_request",
    "script",
]


class CoderError(Exception):
    """Something the bot knows how to talk about."""


class UserError(CoderError):
    """A person can mend this; the message says how."""


class InfraError(CoderError):
    """Machinery broke."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class SandboxError(InfraError):
    """The sandbox's machinery broke; a command that merely failed is a result, not this."""

    def __init__(self, reason: SandboxReason, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.reason: SandboxReason = reason


class ModelError(InfraError):
    """No usable reply came from the model."""

    def __init__(self, reason: ModelReason, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.reason: ModelReason = reason


class GitHubError(InfraError):
    """GitHub refused or did not answer. `retry_after_s` is set where a rate limit says how long it lasts; `closed` is
    why nobody can write there any more, whoever asks."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        closed: str | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable)
        self.status = status
        self.retry_after_s = retry_after_s
        self.closed = closed


class LeaseLost(InfraError):
    """Another run of this stage has taken over."""
