"""What envd answers when it can't: Connect's codes, and the status each has over HTTP."""

from __future__ import annotations

from typing import Literal

Code = Literal[
    "invalid_argument",
    "not_found",
    "already_exists",
    "unauthenticated",
    "resource_exhausted",
    "internal",
    "unimplemented",
    "unavailable",
    "deadline_exceeded",
]

STATUS: dict[Code, int] = {
    "invalid_argument": 400,
    "not_found": 404,
    "already_exists": 409,
    "unauthenticated": 401,
    "resource_exhausted": 507,
    "internal": 500,
    "unimplemented": 501,
    "unavailable": 503,
    "deadline_exceeded": 504,
}


class Refused(Exception):
    """A call that can't be done."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return STATUS[self.code]

    def rpc(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}

    def plain(self) -> dict[str, object]:
        """As the file endpoints say it."""
        return {"code": self.status, "message": self.message}
