"""What people should know of a patch before they believe its test results."""

from __future__ import annotations

from dataclasses import dataclass

from bot.domain.gate import shown


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One such thing. `said` goes on after the path and the line, in words of ours: nothing of the patch stands in it
    but what `gate.shown` made printable. `grave`: with it, no result can be `Passed`."""

    kind: str
    path: str
    said: str
    line: int | None = None
    grave: bool = False

    @property
    def text(self) -> str:
        """One line of Markdown. What can't be seen in the path is spelled out."""
        where = f", line {self.line}" if self.line is not None else ""
        return f"`{shown(self.path)}`{where}: {self.said}"

    def to_dict(self) -> dict[str, str | int | bool | None]:
        return {
            "kind": self.kind,
            "path": shown(self.path),
            "line": self.line,
            "grave": self.grave,
            "text": self.text,
        }
