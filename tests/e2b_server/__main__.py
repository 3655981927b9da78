"""`python -m tests.e2b_server`: a server until SIGTERM or SIGINT, its addresses and key as one line of JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal

from tests.e2b_server.server import DOCKER_SOCKET, IMAGE, E2BServer


async def main(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with E2BServer(
        templates={options.template: options.image},
        private_addresses=options.private_addresses,
        port=options.port,
        docker_socket=options.docker_socket,
    ) as server:
        told = {
            "api_url": server.api_url,
            "sandbox_url": server.sandbox_url,
            "api_key": server.api_key,
            "template": options.template,
            "run": server.run,
        }
        print(json.dumps(told), flush=True)
        await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.e2b_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--template", default="base")
    parser.add_argument("--image", default=IMAGE)
    parser.add_argument("--docker-socket", default=DOCKER_SOCKET)
    parser.add_argument("--private-addresses", action="store_true")
    asyncio.run(main(parser.parse_args()))
