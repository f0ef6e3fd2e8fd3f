"""The server process: migrate, listen, say that we are ready, serve, drain.

Started by the supervisor (`ringfence up`), which reads one line of JSON from the descriptor `--ready-fd` once the
sockets listen.
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from ringfence.app import House, build
from ringfence.kernel import logs, migrations
from ringfence.settings import Settings

BACKLOG = 2048


class Server(uvicorn.Server):
    """uvicorn, which first lets event streams end when it is told to stop."""

    def __init__(self, config: uvicorn.Config, house: House) -> None:
        super().__init__(config)
        self._house = house

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._house.feed.drain()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._house.feed.drain()
        await super().shutdown(sockets)


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((settings.host, settings.port))
    found.listen(BACKLOG)
    return found


def prepare(settings: Settings) -> None:
    """The data folder, for its owner only, and the schema in it."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    migrations.upgrade(settings)


def server(house: House) -> Server:
    settings = house.settings
    config = uvicorn.Config(
        house.asgi,
        http="httptools",
        loop="uvloop",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.drain_seconds) or 1,
        timeout_keep_alive=75,
        backlog=BACKLOG,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    return Server(config, house)


def serve(settings: Settings, ready_fd: int | None = None) -> None:
    logs.configure(settings)
    prepare(settings)
    sock = listen(settings)
    house = build(settings)
    running = server(house)

    async def run() -> None:
        serving = asyncio.create_task(running.serve(sockets=[sock]))
        while not running.started and not serving.done():
            await asyncio.sleep(0.005)
        if running.started and ready_fd is not None:
            host, port = sock.getsockname()[:2]
            os.write(ready_fd, json.dumps({"host": host, "port": port}).encode() + b"\n")
            os.close(ready_fd)
        await serving

    with asyncio.Runner(loop_factory=running.config.get_loop_factory()) as runner:
        runner.run(run())


def main() -> None:
    ready_fd = int(sys.argv[1]) if len(sys.argv) > 1 else None
    serve(Settings.model_validate_json(Path(f"/proc/self/fd/{sys.argv[2]}").read_bytes()), ready_fd)


if __name__ == "__main__":
    main()
