"""The resident helper: runs commands and reads and writes files for the bot, over its own stdin and stdout.

It runs as the commands' user, so that it can do nothing that they can't. What it says is believed no more than a
command is; whoever must rely on an exit status takes the engine's.

usage: agent.py WORKSPACE PORT EPOCH_FILE EPOCH DISK

    to it:    JSON size (4 bytes), content size (8 bytes), JSON, content
    from it:  REPLY, first stream, second stream

The JSON is {"id", "verb"} and, for `exec`, {"argv", "env", "cwd", "timeout_s", "keep"} with stdin as the content; for
`read, write, list, remove` {"number", "path_size"} with path and file as the content; for `end` nothing more. The
first reply has the id 0 and says whether all is ready; a later one with that id, that the disk is full.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from bot.sandbox.guest import files
from bot.sandbox.guest.disk import Disk
from bot.sandbox.guest.output import Output

REPLY = struct.Struct(">IBiQQII")
"""Id of the request, what became of it, exit code or errno, sizes of both streams, bytes of each that follow."""
REQUEST = struct.Struct(">IQ")

DONE, TIMED_OUT, NO_START, NO_FOLDER, NO_PROCESS, SURVIVED, STALE, FULL, TAKEN = range(9)
"""What became of a command (or DONE and the code of `files` for the other verbs). SURVIVED: something that it began
may still run, because the watching process could not end it (code 1) or was ended itself (0). TAKEN is no end: it is
said before a command is started, so that where it was not said, none was."""
READY, OLD_PYTHON, FOREIGN, DEAF = range(4)
"""The first reply's exit code: ready, too old, the workspace is somebody else's, the main process does not listen."""

TREE_S = 5.0
LOOK_S = 0.25
"""How often it looks at the epoch, the disk and what has ended."""
DRAIN_LIMIT = 4 * 1024**2
PIPE_SIZE = 1024**2
PIECE = 96 * 1024  # more, and the allocator asks the kernel for it each time
F_SETPIPE_SZ = 1031  # fcntl has it from Python 3.10 on

FREE, LEFT = b"+", b"-"
"""After a reply, from the process that watched over a command to the helper: whether it can take another one."""
SPARES = 4

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def reply(number: int, became: int, code: int, sizes: tuple[int, int], streams: tuple[bytes, bytes]) -> bytes:
    return REPLY.pack(number, became, code, *sizes, len(streams[0]), len(streams[1])) + streams[0] + streams[1]


# A command, and the process that watches over it


def children(root: int) -> list[int]:
    """All that descend from a process, as far as can be seen at this moment."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    above = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(above, []).append(int(name))
    found = []
    todo = [root]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def end_tree() -> bool:
    """Ends whatever descends from this process; True once the kernel says that it has no child left."""
    end = time.monotonic() + TREE_S
    while time.monotonic() < end:
        for pid in children(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.002)
    return False


def receive(link: socket.socket) -> tuple[dict, bytes]:  # type: ignore[type-arg]
    """A request and its content, as the helper hands them on; EOFError where none comes."""
    head, body = REQUEST.unpack(_exactly(link, REQUEST.size))
    return json.loads(_exactly(link, head)), _exactly(link, body)


def _exactly(link: socket.socket, size: int) -> bytes:
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        taken = link.recv_into(rest)
        if not taken:
            raise EOFError
        rest = rest[taken:]
    return bytes(found)


def watch_over(link: socket.socket) -> None:
    """Takes one command after another, until one leaves something behind or nobody asks any more."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.umask(0o022)
    while True:
        command = Command(link, *receive(link))
        if not command.watch():
            link.close()
            command.linger()
            return


class Command:
    """One command seen from the process that watches over it: all its orphans come back to that one."""

    def __init__(self, link: socket.socket, request: dict, stdin: bytes) -> None:  # type: ignore[type-arg]
        self._link = link
        self._number = request["id"]
        self._end = time.monotonic() + request["timeout_s"]
        half = request["keep"] // 2
        self._outputs = (Output(head=half, tail=half), Output(head=half, tail=half))
        self._stdin = memoryview(stdin)
        self._status: int | None = None
        self._in = self._out = self._err = -1
        self._trouble: tuple[int, int] | None = None
        try:
            self._start(request["argv"], {**os.environ, **request["env"]}, request["cwd"])
        except OSError as exc:
            # Python names the folder where it was the folder.
            became = NO_FOLDER if exc.filename == request["cwd"] else NO_START
            self._trouble = (NO_PROCESS if exc.errno == errno.EAGAIN else became, exc.errno or 0)

    def _start(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        pipe = subprocess.PIPE
        stdin = pipe if self._stdin else subprocess.DEVNULL
        started = subprocess.Popen(
            argv,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            start_new_session=True,
        )
        self._pid = started.pid
        self._out, self._err = (os.dup(stream.fileno()) for stream in (started.stdout, started.stderr) if stream)
        if started.stdin is not None:
            self._in = os.dup(started.stdin.fileno())
            started.stdin.close()
        for stream in (self._in, self._out, self._err):
            if stream >= 0:
                os.set_blocking(stream, False)
        for stream in (self._out, self._err):
            with contextlib.suppress(OSError):
                fcntl.fcntl(stream, F_SETPIPE_SZ, PIPE_SIZE)
        started.returncode = 0  # it is waited for here and not there

    def watch(self) -> bool:
        """Until the command has ended and was told. False where something of it is left, which then has all the rest
        of this process's time: True once nothing is, and another command may be watched."""
        if self._trouble is not None:
            return self._say(*self._trouble)
        became = self._follow()
        if became is not DONE:
            ended = end_tree()
            return self._say(became if ended else SURVIVED, 0 if ended else 1)
        self._drain()
        code = os.waitstatus_to_exitcode(self._status or 0)
        return self._say(DONE, 128 - code if code < 0 else code)

    def linger(self) -> None:
        """What was left must not end because nobody takes its output any more."""
        while self._open():
            self._take(self._poll(1.0), keep=False)
            self._reap()

    def _say(self, became: int, code: int) -> bool:
        out, err = self._outputs
        free = became != SURVIVED and not self._open() and self._reap()
        said = reply(self._number, became, code, (out.size, err.size), (out.bytes(), err.bytes()))
        self._link.sendall(said + (FREE if free else LEFT))
        return free

    def _open(self) -> bool:
        return self._out >= 0 or self._err >= 0

    def _poll(self, timeout_s: float, *more: int) -> list[int]:
        poll = select.poll()
        for stream in (self._out, self._err, *more):
            if stream >= 0:
                poll.register(stream, select.POLLIN)
        if self._in >= 0:
            poll.register(self._in, select.POLLOUT)
        return [stream for stream, _ in poll.poll(max(0, timeout_s) * 1000)]

    def _follow(self) -> int:
        try:
            ended = os.pidfd_open(self._pid)
        except (AttributeError, OSError):
            ended = -1  # an old kernel or Python: looked at now and then
        try:
            while True:
                left = self._end - time.monotonic()
                ready = self._poll(min(left, 1.0 if ended >= 0 else 0.02), self._link.fileno(), ended)
                self._feed(ready)
                self._take(ready, keep=True)
                self._reap()
                if self._status is not None:
                    return DONE
                if self._link.fileno() in ready or left <= 0:
                    return TIMED_OUT
        finally:
            if ended >= 0:
                os.close(ended)

    def _feed(self, ready: list[int]) -> None:
        if self._in < 0 or self._in not in ready:
            return
        try:
            self._stdin = self._stdin[os.write(self._in, self._stdin[:65536]) :] if self._stdin else self._stdin
        except BlockingIOError:
            return
        except OSError:
            self._stdin = memoryview(b"")  # a command that does not read it is no error
        if not self._stdin:
            os.close(self._in)
            self._in = -1

    def _take(self, ready: list[int], *, keep: bool) -> None:
        for stream, output in zip((self._out, self._err), self._outputs):  # noqa: B905 - not in Python 3.9
            if stream >= 0 and stream in ready:
                try:
                    piece = os.read(stream, PIECE)
                except BlockingIOError:
                    continue
                if not piece:
                    self._close(stream)
                elif keep:
                    output.add(piece)

    def _close(self, stream: int) -> None:
        os.close(stream)
        if stream == self._out:
            self._out = -1
        else:
            self._err = -1

    def _drain(self) -> None:
        """What the command itself wrote is all in the pipes by now; what its children write has no end."""
        if self._in >= 0:
            os.close(self._in)
            self._in = -1
        before = self._taken()
        while self._open() and self._taken() - before < DRAIN_LIMIT:
            ready = self._poll(0)
            if not ready:
                return
            self._take(ready, keep=True)

    def _taken(self) -> int:
        return sum(output.size for output in self._outputs)

    def _reap(self) -> bool:
        """Whether the kernel says that there is no child any more."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self._pid:
                    self._status = status
        except ChildProcessError:
            return True


# The helper itself


class Agent:
    """Takes requests as they come. Each command has a process beside this one that watches over it; these are used
    again, because making one takes longer than most commands do."""

    def __init__(self, root: str, epoch_file: str, epoch: int, disk: int) -> None:
        self._root = root
        self._epoch_file = epoch_file
        self._epoch = epoch
        self._disk = Disk(root, disk)
        self._running: dict[socket.socket, int] = {}
        self._replies: dict[socket.socket, bytearray] = {}
        self._spares: list[socket.socket] = []
        self._input = bytearray()

    def serve(self) -> None:
        os.set_blocking(0, False)
        self._spares += filter(None, [self._fork()])
        look_again = 0.0
        while True:
            poll = select.poll()
            poll.register(0, select.POLLIN)
            links = {link.fileno(): link for link in self._running}
            for number in (*links, self._disk.fileno()):
                if number >= 0:
                    poll.register(number, select.POLLIN)
            ready = [number for number, _ in poll.poll(LOOK_S * 1000)]
            if 0 in ready and not self._read():
                break
            for number in ready:
                if number in links:
                    self._pass_on(links[number])
            if self._disk.fileno() in ready and self._disk.answer():
                self._write(reply(0, FULL, 0, (0, 0), (b"", b"")))
            if time.monotonic() >= look_again:
                if self._is_stale():
                    break
                self._disk.check()
                self._reap()
                look_again = time.monotonic() + LOOK_S
        # Whoever asked is gone: closed with this process, the links end what still runs.

    def _is_stale(self) -> bool:
        try:
            with open(self._epoch_file, encoding="ascii") as file:
                return int(file.read()) > self._epoch
        except (OSError, ValueError):
            return False

    def _read(self) -> bool:
        try:
            data = os.read(0, PIECE)
        except BlockingIOError:
            return True
        self._input += data
        while len(self._input) >= REQUEST.size:
            head, body = REQUEST.unpack_from(self._input)
            end = REQUEST.size + head + body
            if len(self._input) < end:
                break
            request = json.loads(self._input[REQUEST.size : REQUEST.size + head])
            content = bytes(memoryview(self._input)[REQUEST.size + head : end])
            del self._input[:end]
            self._act(request, content)
        return bool(data)

    def _act(self, request: dict, content: bytes) -> None:  # type: ignore[type-arg]
        number, verb = request["id"], request["verb"]
        if verb == "end":
            for link, running in self._running.items():
                if running == number:
                    with contextlib.suppress(OSError):
                        link.send(b"end")
            return
        if self._is_stale():
            self._write(reply(number, STALE, 0, (0, 0), (b"", b"")))
        elif verb == "exec":
            self._exec(request, content)
        else:
            size = request["path_size"]
            code, out = files.act(self._root, verb, request["number"], content[:size], content[size:])
            self._write(reply(number, DONE, code, (len(out), 0), (out, b"")))

    def _exec(self, request: dict, stdin: bytes) -> None:  # type: ignore[type-arg]
        self._write(reply(request["id"], TAKEN, 0, (0, 0), (b"", b"")))
        head = json.dumps(request).encode()
        data = REQUEST.pack(len(head), len(stdin)) + head + stdin
        while True:
            link = self._spares.pop() if self._spares else self._fork()
            if link is None:
                self._write(reply(request["id"], NO_PROCESS, 0, (0, 0), (b"", b"")))
                return
            try:
                link.sendall(data)
            except OSError:
                link.close()  # a command has ended the process at its other end
                continue
            self._running[link] = request["id"]
            self._replies[link] = bytearray()
            return

    def _fork(self) -> socket.socket | None:
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if pid:
            theirs.close()
            return ours
        try:
            # Of the bot's streams it keeps none: the helper alone speaks for itself.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            for link in (ours, *self._running, *self._spares):
                link.close()
            with contextlib.suppress(EOFError, OSError):
                watch_over(theirs)
        finally:
            os._exit(0)

    def _pass_on(self, link: socket.socket) -> None:
        said = self._replies[link]
        try:
            piece = link.recv(PIECE)
        except OSError:
            piece = b""
        said += piece
        if piece and (len(said) < REPLY.size or len(said) <= REPLY.size + sum(REPLY.unpack_from(said)[-2:])):
            return
        number = self._running.pop(link)
        del self._replies[link]
        if said.endswith(FREE) and piece and len(self._spares) < SPARES:
            self._spares.append(link)
        else:
            link.close()
        # Nothing: the watching process was ended, and only a command can have done that.
        self._write(bytes(said[:-1]) if piece else reply(number, SURVIVED, 0, (0, 0), (b"", b"")))

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(1, rest) :]
            except BlockingIOError:
                select.select([], [1], [])

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def ready(root: str, port: int) -> int:
    if sys.version_info < (3, 9):  # noqa: UP036 - the image's Python, not the bot's
        return OLD_PYTHON
    if os.stat(root).st_uid != os.getuid():
        return FOREIGN
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.025)
    else:
        return DEAF
    # It may be there already, or what a command has put in its place.
    with contextlib.suppress(OSError):
        os.mkdir(root + "/.home", 0o700)
    return READY


def main(root: str, port: int, epoch_file: str, epoch: int, disk: int) -> None:
    # Commands of the same user can end this process, but not look into it, trace it or write to its streams.
    prctl(PR_SET_DUMPABLE, 0)
    gc.disable()  # what it would move is shared with the processes beside
    agent = Agent(root, epoch_file, epoch, disk)
    said = ready(root, port)
    os.write(1, reply(0, DONE, said, (0, 0), (b"", b"")))
    if said == READY:
        agent.serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
