"""One command in an E2B sandbox, watched over by a process of root's."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import resource
import select
import signal
import time
from typing import Any, NoReturn

from bot.sandbox.guest import root, usage
from bot.sandbox.guest.output import Output
from bot.sandbox.guest.root import BASE, UID, WORKSPACE

REQUEST = "CODER_BOT_REQUEST"
PROCESSES = 2048
OPEN_FILES = 16384
DISK_EVERY_S = 1.0
DRAIN_S = 0.5
F_SETPIPE_SZ = 1031
OURS = frozenset({REQUEST, "HOME", "USER", "LOGNAME", "MAIL", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "BASH_ENV"})


class Job:
    """One command: its process, its two streams and its time."""

    def __init__(self, job: str, wish: Any) -> None:
        self.swept = f"{BASE}/jobs/{job}/swept"
        self.job = job
        self.wish = wish
        half = wish["keep"] // 2
        self.streams: dict[int, Output] = {}
        self.outputs = [Output(head=half, tail=half) for _ in range(2)]

    def follow(self, tell: int) -> tuple[dict[str, Any], list[int]]:
        """Until the command's end: what is to be told of it, and the pipes that others still hold."""
        woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        deadline = time.monotonic() + self.wish["timeout_s"]
        pid, code, message = self.begin()
        os.write(tell, b"x")
        os.close(tell)
        timed_out = full = left = False
        look = time.monotonic() + DISK_EVERY_S
        while pid:
            now = time.monotonic()
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                code = 128 - code if code < 0 else code
                break
            if now >= look:
                full = disk_is_full()
                look = time.monotonic() + max(DISK_EVERY_S, 20 * (time.monotonic() - now))
            if now >= deadline or full:
                timed_out = not full
                left = root.sweep(self.job)
                code = 128 + int(signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0 if not left else os.WNOHANG)
                break
            self.take([woken], min(deadline, look) - now)
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        if os.path.exists(self.swept):
            timed_out = not full
        until = time.monotonic() + DRAIN_S
        while self.streams and time.monotonic() < until and self.take([], 0):
            pass
        out, err = self.outputs
        if message:
            err.add(message.encode("utf-8", "surrogateescape"))
        return {
            "code": code,
            "timed_out": timed_out,
            "full": full,
            "left": left,
            "streams": [base64.b64encode(output.bytes()).decode() for output in (out, err)],
            "truncated": bool(out.left_out or err.left_out),
        }, list(self.streams)

    def take(self, others: list[int], timeout_s: float) -> bool:
        """What has been written meanwhile; false where there was nothing."""
        ready = select.select([*self.streams, *others], [], [], max(timeout_s, 0))[0]
        for end in ready:
            if end in self.streams:
                piece = os.read(end, 1024**2)
                if piece:
                    self.streams[end].add(piece)
                else:
                    del self.streams[end]
                    os.close(end)
        return bool(ready)

    def begin(self) -> tuple[int, int, str]:
        """The process, or 0 with an exit code and what to say."""
        stdin = self.stdin()
        ends = [os.pipe() for _ in range(2)]
        problem, report = os.pipe()
        for _, end in ends:
            # So that a program may open /dev/stdout, which is this pipe.
            os.fchown(end, UID, UID)
            with contextlib.suppress(OSError):
                fcntl.fcntl(end, F_SETPIPE_SZ, 1024**2)
        pid = os.fork()
        if pid == 0:
            self.become(stdin, ends[0][1], ends[1][1], report)
        for end in (stdin, ends[0][1], ends[1][1], report):
            os.close(end)
        self.streams = {ends[n][0]: self.outputs[n] for n in range(2)}
        with open(problem, "rb") as stream:
            said = stream.read().decode("utf-8", "surrogateescape")
        if not said:
            return pid, 0, ""
        os.waitpid(pid, 0)
        code, _, message = said.partition(" ")
        return 0, int(code), message

    def stdin(self) -> int:
        data = base64.b64decode(self.wish["stdin"])
        path = f"{BASE}/in/{self.job}.stdin"
        if not data and not self.wish["stdin_file"]:
            return os.open(os.devnull, os.O_RDONLY)
        if not self.wish["stdin_file"]:
            with open(path, "wb") as stream:
                stream.write(data)
        found = os.open(path, os.O_RDONLY)
        os.unlink(path)
        os.fchown(found, UID, UID)
        return found

    def become(self, stdin: int, stdout: int, stderr: int, report: int) -> NoReturn:
        code = 126
        program = self.wish["argv"][0]
        message = f"there is no folder {self.wish['cwd']}\n"
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for ignored in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGALRM):
                signal.signal(ignored, signal.SIG_DFL)
            for number, end in enumerate((stdin, stdout, stderr)):
                os.dup2(end, number)
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
                score.write("500")
            disk = self.wish["disk"]
            for what, most in (
                (resource.RLIMIT_CORE, 0),
                (resource.RLIMIT_NOFILE, OPEN_FILES),
                (resource.RLIMIT_NPROC, PROCESSES),
                (resource.RLIMIT_FSIZE, disk),
            ):
                with contextlib.suppress(ValueError):
                    resource.setrlimit(what, (most, most))
            os.umask(0o022)
            root.become_commands_user()
            os.chdir(self.wish["cwd"])
            message = f"{program}: can not be started\n"
            given = {key: value for key, value in os.environ.items() if key not in OURS}
            os.execvpe(program, self.wish["argv"], {**given, **self.wish["env"]})  # noqa: S606 - that is what it is for
        except (FileNotFoundError, NotADirectoryError):
            if "no folder" not in message:
                code, message = 127, f"{program}: no such program\n"
        except OSError:
            pass
        finally:
            os.write(report, f"{code} {message}".encode("utf-8", "surrogateescape")[:4000])
            os._exit(code)


def disk_is_full() -> bool:
    """Whether the workspace has grown beyond what was agreed; counted only where the disk has filled that much."""
    state = root.load_state()
    found = os.statvfs(WORKSPACE)
    if (found.f_blocks - found.f_bfree) * found.f_frsize <= state["disk"]:
        return False
    return bool(usage.used(WORKSPACE) - state["base"] > state["disk"])
