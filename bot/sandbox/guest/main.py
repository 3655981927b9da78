"""A sandbox's main process: ends it at its deadline, and carries what comes to the local proxy port out by a socket.

It runs as a user of its own, and its folder is mounted read-only, so that no command can end it, move the deadline,
or answer in the proxy's place. The deadline is a file with seconds since the epoch.
"""

import asyncio
import sys
import time


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


async def main(folder: str, port: int) -> None:
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
            await asyncio.sleep(0.5)
            end = deadline(folder + "/deadline", end)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
