"""What an E2B sandbox runs for us as root: it begins commands as the commands' user, watches and ends them.

Root's, so that no command can end it, write its records or forge an exit status: these lie in a folder that only root
enters. Commands lose every way back to root (no new privileges). A job goes on when the call that began it is cut,
and beginning it again does nothing: its name says that it began.

usage: job.py setup | connect | run ID WAIT | wait ID WAIT | stop ID | file ID | names | settle

A request is JSON in the environment or, a large one, in the file `in/ID.json`. The answer is one line of JSON.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import stat
import sys
import time
from typing import Any, NoReturn

from bot.sandbox.guest import files, usage
from bot.sandbox.guest.root import BASE, UID, WORKSPACE, become_commands_user, load_state, replace, spawning, sweep
from bot.sandbox.guest.watch import REQUEST, Job

HOSTS_MARK = "# coder-bot"
ANY_ADDRESS = "1.1.1.1"

JOBS_KEPT = 64
INLINE = 256 * 1024
FILE_S = 60


def main(verb: str, job: str = "", wait_s: str = "0") -> dict[str, Any]:
    if verb == "setup":
        return set_up(request(""))
    if verb == "connect":
        return connect(request(""))
    if verb == "run":
        return run(job, request(job), float(wait_s))
    if verb == "wait":
        return wait(job, float(wait_s))
    if verb == "stop":
        return stop(job)
    if verb == "file":
        return file(job, request(job))
    if verb == "names":
        return names(request(""))
    assert verb == "settle"
    return settle(request(""))


def request(job: str) -> Any:
    text = os.environ.pop(REQUEST, "")
    if not text:
        path = f"{BASE}/in/{job}.json"
        with open(path) as stream:
            text = stream.read()
        os.unlink(path)
    return json.loads(text)


# The sandbox


def set_up(wish: Any) -> dict[str, Any]:
    """Makes what every command relies on. In a sandbox made from a snapshot, only the workspace is kept."""
    if sys.version_info < (3, 9):  # noqa: UP036 - the template's Python, not the bot's
        return {"state": "old"}
    os.chmod(BASE, 0o700)
    for name in ("jobs", "in", "out"):
        shutil.rmtree(f"{BASE}/{name}", ignore_errors=True)
        os.mkdir(f"{BASE}/{name}", 0o700)
    for folder in ("/tmp", "/var/tmp"):  # noqa: S108 - emptied, not used
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(WORKSPACE, 0o755)
    found = os.lstat(WORKSPACE)
    if not stat.S_ISDIR(found.st_mode):
        return {"state": "foreign"}
    if found.st_uid != UID:
        os.chown(WORKSPACE, UID, UID)
    pid = os.fork()
    if pid == 0:
        become_commands_user()
        with contextlib.suppress(OSError):
            os.mkdir(f"{WORKSPACE}/.home", 0o700)
        os._exit(0)
    os.waitpid(pid, 0)
    state = {"epoch": wish["epoch"], "env": wish["env"], "disk": wish["disk"], "base": usage.used(WORKSPACE)}
    replace(f"{BASE}/state", json.dumps(state))
    replace(f"{BASE}/marker", wish["marker"])
    os.sync()
    return {"state": "ready"}


def connect(wish: Any) -> dict[str, Any]:
    with spawning(fcntl.LOCK_EX):
        state = load_state()
        if wish["epoch"] < state["epoch"]:
            return {"state": "refused"}
        replace(f"{BASE}/state", json.dumps({**state, "epoch": wish["epoch"]}))
    # Whatever kind of pause it was, what ran before it does not go on.
    left = sweep() if wish["resumed"] else False
    return {"state": "ready", "env": state["env"], "disk": state["disk"], "left": left}


def settle(wish: Any) -> dict[str, Any]:
    """Nothing runs and everything is on the disk. Without an epoch, whoever holds the sandbox."""
    with spawning(fcntl.LOCK_SH):
        if wish["epoch"] is not None and wish["epoch"] < load_state()["epoch"]:
            return {"state": "refused"}
    left = sweep()
    os.sync()
    return {"state": "settled", "left": left}


def names(wish: Any) -> dict[str, Any]:
    """Gives allowed names an address, for nothing looks them up. Which one does not matter: the service lets a
    connection through by the name that is spoken in it, and looks that up itself."""
    with spawning(fcntl.LOCK_SH):
        if wish["epoch"] < load_state()["epoch"]:
            return {"state": "refused"}
        with open("/etc/hosts") as stream:
            kept = [line for line in stream if not line.rstrip().endswith(HOSTS_MARK)]
        text = "".join([*kept, *(f"{ANY_ADDRESS} {name} {HOSTS_MARK}\n" for name in wish["names"])])
        # Written in place: where it is a mount, it can't be replaced.
        with open("/etc/hosts", "w") as stream:
            stream.write(text)
    return {"state": "ready"}


# Jobs


def run(job: str, wish: Any, wait_s: float) -> dict[str, Any]:
    folder = f"{BASE}/jobs/{job}"
    with spawning(fcntl.LOCK_SH) as spawn_lock:
        if wish["epoch"] < load_state()["epoch"]:
            return {"state": "refused"}
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass  # it has begun, or was stopped before it could
        else:
            forget_old()
            lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            begun, tell = os.pipe()
            if os.fork() == 0:
                os.close(spawn_lock)
                os.close(begun)
                supervise(job, wish, lock, tell)
            os.close(lock)
            os.close(tell)
            os.read(begun, 1)
            os.close(begun)
    return wait(job, wait_s)


def wait(job: str, wait_s: float) -> dict[str, Any]:
    """The result as soon as it is there; a supervisor that is gone without one has been ended with the machine."""
    signal.signal(signal.SIGALRM, out_of_time)
    folder = f"{BASE}/jobs/{job}"
    lock = -1
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(f"{folder}/lock", os.O_RDWR)
            break
        if not os.path.isdir(folder):
            return {"state": "unknown"}
        if os.path.exists(f"{folder}/stopped"):
            return {"state": "stopped"}
        time.sleep(0.02)
    if lock < 0:
        return {"state": "lost"}
    try:
        # No zero: it would switch the alarm off.
        signal.setitimer(signal.ITIMER_REAL, max(wait_s, 0.001))
        fcntl.flock(lock, fcntl.LOCK_SH)
    except TimeoutError:
        return {"state": "running"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.close(lock)
    try:
        with open(f"{folder}/result") as stream:
            return {"state": "ended", **json.load(stream)}
    except FileNotFoundError:
        return {"state": "lost"}


def out_of_time(*_: object) -> NoReturn:
    raise TimeoutError


def stop(job: str) -> dict[str, Any]:
    """Ends all commands; a job that has not begun will not."""
    folder = f"{BASE}/jobs/{job}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        with open(f"{folder}/stopped", "w"):
            pass
    return {"state": "stopped", "left": sweep()}


def forget_old() -> None:
    ended = [
        entry
        for entry in os.scandir(f"{BASE}/jobs")
        if os.path.exists(f"{entry.path}/result") or os.path.exists(f"{entry.path}/stopped")
    ]
    for entry in sorted(ended, key=lambda entry: entry.stat().st_mtime)[:-JOBS_KEPT]:
        shutil.rmtree(entry.path, ignore_errors=True)


def supervise(job: str, wish: Any, lock: int, tell: int) -> NoReturn:
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        result, pipes = Job(job, wish).follow(tell)
        replace(f"{BASE}/jobs/{job}/result", json.dumps(result))
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)
        # What the command left in the background may go on writing; it would die of a closed pipe.
        while pipes:
            for end in select.select(pipes, [], [])[0]:
                if not os.read(end, 65536):
                    pipes.remove(end)
    finally:
        os._exit(0)


# Files


def file(job: str, wish: Any) -> dict[str, Any]:
    """One file operation, as the commands' user. Large contents come and go by files in our own folder."""
    content_path, out_path = f"{BASE}/in/{job}.content", f"{BASE}/out/{job}"
    for entry in os.scandir(f"{BASE}/out"):
        if entry.stat().st_mtime < time.time() - 10 * FILE_S:
            os.unlink(entry.path)
    content = base64.b64decode(wish["content"])
    if wish["content_file"]:
        with open(content_path, "rb") as stream:
            content = stream.read()
        os.unlink(content_path)
    with spawning(fcntl.LOCK_SH):
        if wish["epoch"] < load_state()["epoch"]:
            return {"state": "refused"}
        with open(out_path, "w+b") as out:
            pid = os.fork()
            if pid == 0:
                code = 99
                try:
                    signal.alarm(FILE_S)
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    become_commands_user()
                    code, found = files.act(
                        WORKSPACE, wish["verb"], wish["number"], binascii.a2b_base64(wish["path"]), content
                    )
                    out.write(found)
                    out.flush()
                finally:
                    os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            size = out.seek(0, os.SEEK_END)
            if size > INLINE:
                return {"state": "done", "code": code, "size": size}
            out.seek(0)
            found_text = base64.b64encode(out.read()).decode()
    os.unlink(out_path)
    return {"state": "done", "code": code, "out": found_text}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
