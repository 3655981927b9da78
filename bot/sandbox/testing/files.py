"""Clauses about files: what they hold, whose they are, and that no path leads anywhere else."""

from __future__ import annotations

import contextlib
import secrets

import pytest

from bot.domain.errors import SandboxError
from bot.sandbox.protocol import WORKSPACE, Sandbox
from bot.sandbox.testing.fixtures import LONG_S, MEMORY, Growth, exists, left, mark, refused, until

# A file and a folder that change places with links out of the workspace, and with a FIFO, as fast as it goes.
SWAPPING = """
import os, sys
out = sys.argv[1]

def put(name, make):
    make("draft")
    try:
        os.rename("draft", name)
    except OSError:
        os.remove("draft")

def plain(name):
    with open(name, "w") as file:
        file.write("inside")

def move(name, to):
    try:
        os.rename(name, to)
    except OSError:
        pass

os.symlink(out, "led-out")
os.mkdir("parent")
plain("parent/leaf")
turn = 0
while not os.path.exists("stop"):
    turn += 1
    put("leaf", plain)
    put("leaf", lambda name: os.symlink(out + "/leaf", name))
    if turn % 8 == 0:
        put("leaf", os.mkfifo)
    move("parent", "parent-away")
    move("led-out", "parent")
    if os.path.islink("parent"):
        move("parent", "led-out")
    else:
        move("parent", "made-%d" % turn)  # somebody's writing made the folder meanwhile
    move("parent-away", "parent")
    if turn == 3:
        open("begun", "w").close()
"""


class FileClauses:
    async def test_files_keep_every_byte_whatever_their_size(self, sandbox: Sandbox) -> None:
        for size in (0, 1, 256, 65537, 5 * 1024**2, 50 * 1024**2):
            content = (bytes(range(256)) + secrets.token_bytes(65280)) * (size // 65536 + 1)
            content = content[:size]
            await sandbox.write("deep/er/file", content)
            assert await sandbox.read("deep/er/file", max_bytes=size) == content
            counted = await sandbox.exec(["wc", "-c", "deep/er/file"], timeout_s=LONG_S)
            assert counted.stdout.split()[0] == b"%d" % size

    async def test_a_file_is_found_by_each_spelling_of_its_path(self, sandbox: Sandbox) -> None:
        for name in ("ünï/file", "-rf", "a\nb", "$HOME/*", "'\"", " ", "folder/-n"):
            await sandbox.write(name, name.encode())
            for path in (name, f"{WORKSPACE}/{name}", f"{WORKSPACE}/./{name}", f".//{name}"):
                assert await sandbox.read(path, max_bytes=100) == name.encode()
            argv = ["python3", "-c", "import sys; print(open(sys.argv[1]).read(), end='')", name]
            assert (await sandbox.exec(argv, timeout_s=LONG_S)).stdout == name.encode()

    async def test_writing_replaces_all_that_was_there(self, sandbox: Sandbox) -> None:
        await sandbox.write("file", b"long" * 1000)
        await sandbox.write("file", b"short")
        assert await sandbox.read("file", max_bytes=5) == b"short"
        assert [entry.name for entry in await sandbox.list(".") if not entry.name.startswith(".")] == ["file"]

    async def test_a_larger_file_is_not_read(self, sandbox: Sandbox) -> None:
        await sandbox.write("four", b"1234")
        assert await sandbox.read("four", max_bytes=4) == b"1234"
        with refused("limit_exceeded"):
            await sandbox.read("four", max_bytes=3)
        assert (await sandbox.exec(["truncate", "-s", "1G", "sparse"], timeout_s=LONG_S)).ok
        with Growth() as growth, refused("limit_exceeded"):
            await sandbox.read("sparse", max_bytes=1000)
        assert growth.bytes < MEMORY

    async def test_a_written_file_has_its_mode(self, sandbox: Sandbox) -> None:
        await sandbox.write("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
        assert (await sandbox.exec(["./run.sh"], timeout_s=LONG_S)).stdout == b"ran\n"
        for mode in (0o644, 0o600, 0o755):
            await sandbox.write("run.sh", b"#!/bin/sh\n", mode=mode)
            stat = await sandbox.exec(["stat", "-c", "%a", "run.sh"], timeout_s=LONG_S)
            assert stat.stdout == b"%o\n" % mode

    async def test_what_is_written_belongs_to_the_commands_and_never_to_root(self, sandbox: Sandbox) -> None:
        await sandbox.write("new/folder/file", b"x")
        changing = "echo more >>new/folder/file; touch new/folder/other; rm new/folder/file"
        assert (await sandbox.exec(["sh", "-ec", changing], timeout_s=LONG_S)).ok
        await sandbox.write("new/folder/file", b"x")
        assert await _of_others(sandbox, WORKSPACE) == b""

    async def test_nothing_leads_out_of_the_workspace(self, sandbox: Sandbox) -> None:
        setting = (
            "mkdir real; echo x >real/file; ln -s real inside; ln -s /etc out; ln -s real/file link; ln -s / root"
        )
        setting += "; ln -s /proc/self proc; ln -s /dev/zero zero; ln -s real/absent dangling; ln -s loop loop"
        assert (await sandbox.exec(["sh", "-c", setting], timeout_s=LONG_S)).ok
        paths = ["../etc/passwd", "real/../../etc/passwd", "real/../real/file", "/etc/passwd", "/workspaces/x"]
        paths += [f"{WORKSPACE}/../etc/passwd", "/proc/self/environ", "/dev/zero", "/proc/1/root/etc/passwd"]
        paths += ["out/passwd", "root/etc/passwd", "inside/file", "link", "proc/environ", "zero", "dangling", "loop"]
        for path in paths:
            with pytest.raises(ValueError, match=r"."):
                await sandbox.read(path, max_bytes=10_000)
            with pytest.raises(ValueError, match=r"."):
                await sandbox.write(path, b"overwritten")
        for path in ("..", "/etc", "/", "/proc", "out", "inside", "root/etc"):
            with pytest.raises(ValueError, match=r"."):
                await sandbox.list(path)
        for path in ("../x", "/etc/passwd", "inside/file", "out/passwd", "/workspaces/x"):
            with pytest.raises(ValueError, match=r"."):
                await sandbox.remove(path)
        assert await sandbox.read("real/file", max_bytes=10) == b"x\n"
        assert [entry.name for entry in await sandbox.list("real")] == ["file"]

    async def test_what_is_swapped_while_we_look_leads_nowhere_else(self, sandbox: Sandbox) -> None:
        out = f"/tmp/{mark()}"  # noqa: S108 - the sandbox's own
        setting = f"mkdir {out}; printf outside >{out}/leaf"
        assert (await sandbox.exec(["sh", "-c", setting], timeout_s=LONG_S)).ok
        swapping = ["sh", "-c", 'python3 -c "$0" "$1" >/dev/null 2>&1 &', SWAPPING, out]
        assert (await sandbox.exec(swapping, timeout_s=LONG_S)).ok
        await until(lambda: exists(sandbox, "begun"))
        for _ in range(25):
            for path in ("leaf", "parent/leaf"):
                with contextlib.suppress(OSError, ValueError):
                    assert await sandbox.read(path, max_bytes=100) in (b"inside", b"written", b"")
                with contextlib.suppress(OSError, ValueError):
                    await sandbox.write(path, b"written")
            with contextlib.suppress(OSError, ValueError):
                await sandbox.remove("parent/leaf")
        await sandbox.write("stop", b"")

        async def stopped() -> bool:
            return not await left(sandbox, out)

        await until(stopped)
        showing = await sandbox.exec(["sh", "-c", f"cat {out}/leaf; ls -A {out}"], timeout_s=LONG_S)
        assert showing.stdout == b"outsideleaf\n"
        assert await _of_others(sandbox, WORKSPACE, out) == b""

    async def test_what_is_no_file_is_neither_read_nor_waited_for(self, sandbox: Sandbox) -> None:
        setting = "import os, socket; os.mkfifo('pipe'); os.mkdir('folder'); socket.socket(1).bind('socket')"
        assert (await sandbox.exec(["python3", "-c", setting], timeout_s=LONG_S)).ok
        for path in ("pipe", "socket", "folder", WORKSPACE):
            with pytest.raises(IsADirectoryError):
                await sandbox.read(path, max_bytes=10)
            with pytest.raises(IsADirectoryError):
                await sandbox.write(path, b"x")
        for path in ("absent", "absent/too"):
            with pytest.raises(FileNotFoundError):
                await sandbox.read(path, max_bytes=10)

    async def test_a_file_is_no_folder(self, sandbox: Sandbox) -> None:
        await sandbox.write("file", b"x")
        for act in (
            lambda: sandbox.write("file/below", b"y"),
            lambda: sandbox.read("file/below", max_bytes=9),
            lambda: sandbox.list("file"),
        ):
            with pytest.raises(NotADirectoryError):
                await act()
        assert await sandbox.read("file", max_bytes=1) == b"x"

    async def test_a_folder_is_listed_by_name_with_kinds_and_sizes(self, sandbox: Sandbox) -> None:
        setting = (
            "mkdir d d/sub; printf 123 >d/file; ln -s nowhere d/alink; mkfifo d/pipe; touch \"$(printf 'd/\\377')\""
        )
        assert (await sandbox.exec(["sh", "-c", setting], timeout_s=LONG_S)).ok
        rows = [(entry.name, entry.kind, entry.size) for entry in await sandbox.list("d")]
        assert rows == [
            ("alink", "link", 0),
            ("file", "file", 3),
            ("pipe", "other", 0),
            ("sub", "dir", 0),
            ("\udcff", "file", 0),
        ]
        assert await sandbox.read("d/\udcff", max_bytes=1) == b""
        with pytest.raises(FileNotFoundError):
            await sandbox.list("absent")

    async def test_removing_takes_a_file_or_the_link_itself(self, sandbox: Sandbox) -> None:
        assert (await sandbox.exec(["sh", "-c", "echo x >file; ln -s file link; mkdir d"], timeout_s=LONG_S)).ok
        await sandbox.remove("link")
        assert await sandbox.read("file", max_bytes=10) == b"x\n"
        await sandbox.remove("file")
        with pytest.raises(FileNotFoundError):
            await sandbox.remove("file")
        with pytest.raises(IsADirectoryError):
            await sandbox.remove("d")

    async def test_a_file_is_read_while_commands_run(self, sandbox: Sandbox) -> None:
        await sandbox.exec(["sh", "-c", "yes >/dev/null 2>&1 &"], timeout_s=LONG_S)
        await sandbox.write("file", b"x")
        assert await sandbox.read("file", max_bytes=1) == b"x"
        with contextlib.suppress(SandboxError):
            await sandbox.exec(["sh", "-c", "kill -9 -1"], timeout_s=LONG_S)
        assert await sandbox.read("file", max_bytes=1) == b"x"


async def _of_others(sandbox: Sandbox, *folders: str) -> bytes:
    """What in there does not belong to the commands' user, line by line."""
    finding = await sandbox.exec(["sh", "-c", 'find "$@" ! -user "$(id -u)"', "sh", *folders], timeout_s=LONG_S)
    return finding.stdout
