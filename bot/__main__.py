"""`python -m bot`, the same as `coder-bot`."""

from __future__ import annotations

import sys

from bot import sinks
from bot.cli import app, redactor
from bot.domain.errors import CoderError


def main() -> None:
    """Runs the command line. An error we know how to talk about is one line on stderr, and exit code 1."""
    sinks.install(redactor)
    try:
        app()
    except CoderError as exc:
        print(f"coder-bot: {exc}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
