"""Runs a command with the named variables as its whole environment: usage `alone.py NAME,NAME,… WORD…`.

A repository's config sets variables for commands in its sandboxes. To a process that holds a token they could say
where to write down what it sends (`GIT_TRACE…`, `SSLKEYLOGFILE`), or what else to load."""

import os
import sys

kept = {name: os.environ[name] for name in sys.argv[1].split(",") if name in os.environ}
os.execvpe(sys.argv[2], sys.argv[2:], kept)  # noqa: S606 - that is what it is for
