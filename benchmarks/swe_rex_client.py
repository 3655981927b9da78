"""Runs inside the measured container: SWE-ReX's own server, and its own client for each line of stdin."""

import asyncio
import subprocess
import sys
import time

from swerex.runtime.abstract import Command
from swerex.runtime.config import RemoteRuntimeConfig
from swerex.runtime.remote import RemoteRuntime

PORT, TOKEN = 8127, "bench"


async def main() -> None:
    server = subprocess.Popen(  # noqa: ASYNC220 - before anything else
        [sys.executable, "-m", "swerex.server", "--port", str(PORT), "--auth-token", TOKEN],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runtime = RemoteRuntime.from_config(
        RemoteRuntimeConfig(host="http://127.0.0.1", port=PORT, auth_token=TOKEN, timeout=10)
    )
    try:
        end = time.monotonic() + 60
        while not await runtime.is_alive(timeout=1):
            if time.monotonic() > end:
                sys.exit("no server")
            await asyncio.sleep(0.2)
        print("ready", flush=True)
        for _ in sys.stdin:
            answer = await runtime.execute(Command(command=["true"], timeout=60))
            print(answer.exit_code, flush=True)
    finally:
        server.kill()


asyncio.run(main())
