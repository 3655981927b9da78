"""Ends every process of the user it runs as, but for itself. Whether it managed is for the engine to say."""

import os
import signal
import time


def others() -> bool:
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/" + name + "/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            if os.stat("/proc/" + name).st_uid == os.getuid() and state not in (b"Z", b"X"):
                return True
        except OSError:
            continue  # it has just ended
    return False


def main() -> None:
    for _ in range(100):
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        if not others():
            return
        time.sleep(0.01)


if __name__ == "__main__":
    main()
