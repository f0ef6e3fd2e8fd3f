"""A server in a process of its own, which can be killed and held short."""

import contextlib
import resource
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from ringfence.settings import Settings
from tests.forks import forks


def _serve(settings: Settings, template: Path | None, told: Connection) -> None:
    from tests.harness import Ringfence

    server = Ringfence(settings, template)
    told.send((server.port, server.admin_token))
    threading.Event().wait()


class Process:
    def __init__(self, data: Path, template: Path | None = None, **settings: Any) -> None:
        self._settings = Settings(**{"data": data, "port": 0, "log_level": "error", **settings})
        self._template = template
        self.start()

    def start(self) -> None:
        told, tells = forks.Pipe(duplex=False)
        self._process = forks.Process(target=_serve, args=(self._settings, self._template, tells), daemon=True)
        self._process.start()
        tells.close()
        self.port, self.token = told.recv()
        told.close()
        self.url = f"http://127.0.0.1:{self.port}"

    def keep_port(self) -> None:
        """From now on it starts on the port that it has."""
        self._settings = self._settings.model_copy(update={"port": self.port})

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, trust_env=False, verify=False)

    def limit_files(self, size: int) -> None:
        """No file of this process may grow beyond `size` bytes: to SQLite it looks as a quota does."""
        assert self._process.pid is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@contextlib.contextmanager
def process(data: Path, template: Path | None = None, **settings: Any) -> Iterator[Process]:
    found = Process(data, template, **settings)
    try:
        yield found
    finally:
        found.kill()
