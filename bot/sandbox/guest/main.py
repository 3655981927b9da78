"""A sandbox's main process: ends it at its deadline, and carries what comes to the local proxy port out by a socket.

It runs as a user of its own, and its folder is mounted read-only, so that no command can end it, move the deadline,
or answer in the proxy's place. The deadline is a file with seconds since the epoch. It ends the sandbox as well when
the file system that holds the workspace has less room than FLOOR bytes: the bot's database may lie on the same one.

usage: main.py FOLDER PORT WORKSPACE FLOOR
"""

import asyncio
import os
import sys
import time

NO_ROOM = 70
"""Exit code: the disk is nearly full."""


def room(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def deadline(path: str, known: float) -> float:
    """What the file says; what was known before where it can't be read at this moment."""
    try:
        with open(path, encoding="ascii") as file:
            return float(file.read())
    except (OSError, ValueError):
        return known


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def main(folder: str, port: int, workspace: str, floor: int) -> int:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            out_reader, out_writer = await asyncio.open_unix_connection(folder + "/proxy.sock")
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(carry(reader, out_writer), carry(out_reader, writer))
        finally:
            out_writer.close()
            writer.close()

    end = deadline(folder + "/deadline", 0.0)
    server = await asyncio.start_server(forward, "127.0.0.1", port)
    async with server:
        while time.time() < end:
            if room(workspace) < floor:
                return NO_ROOM
            await asyncio.sleep(0.5)
            end = deadline(folder + "/deadline", end)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
