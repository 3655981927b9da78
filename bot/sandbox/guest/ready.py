"""Makes a sandbox ready for commands: waits for its way out, and makes the home folder."""

import contextlib
import os
import socket
import sys
import time

OLD_PYTHON, FOREIGN, DEAF = range(10, 13)
"""Exit codes: too old, the workspace is somebody else's, the main process does not listen."""


def main(workspace: str, port: int) -> int:
    if sys.version_info < (3, 9):  # noqa: UP036 - the image's Python, not the bot's
        return OLD_PYTHON
    if os.stat(workspace).st_uid != os.getuid():
        return FOREIGN
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        return DEAF
    # It may be there already, or what a command has put in its place.
    with contextlib.suppress(OSError):
        os.mkdir(workspace + "/.home", 0o700)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
