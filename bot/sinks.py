"""What this process writes, and what is taken out of it: nothing reaches stdout, stderr or a log but through here."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from types import TracebackType
from typing import Any, TextIO

import structlog

from bot.domain.redaction import Redactor


class Clean(io.TextIOBase):
    """A stream that passes on whole lines, redacted; what is written at once is looked at as a whole. Half a line
    waits for its end, or for a flush."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor
        self._waiting = ""

    def write(self, text: str, /) -> int:
        lines, end, rest = text.rpartition("\n")
        if end:
            self._stream.write(self._redactor.redact(self._waiting + lines) + end)
            self._waiting = rest
        else:
            self._waiting += rest
        return len(text)

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, ""
        if waiting:
            self._stream.write(self._redactor.redact(waiting))
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIOBase says it is a variable
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors


def install(redactor: Redactor) -> None:
    """From now on this process's stdout and stderr are clean, and the traceback that ends it."""
    sys.stdout = Clean(sys.stdout, redactor)
    sys.stderr = Clean(sys.stderr, redactor)

    def last_words(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # At once, for a secret may go over several of its lines.
        print(redactor.redact("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)

    sys.excepthook = last_words


def logs(level: int, redactor: Redactor) -> None:
    """Logs go to stderr, so that stdout is for results: ours from `level` on, and what libraries warn of. Values are
    redacted before they are rendered, tracebacks as well: so a line of JSON stays one."""

    def cleaned(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        found: structlog.typing.EventDict = redactor.clean(event)
        return found

    begin: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    end: list[structlog.typing.Processor] = [
        structlog.processors.format_exc_info,
        cleaned,
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer(),
    ]
    structlog.configure(
        processors=[*begin, *end],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=begin,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *end],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    logging.captureWarnings(True)
