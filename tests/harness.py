"""A real server for tests: uvicorn on a real socket, its loop on a thread, its data in a temporary folder."""

import asyncio
import contextlib
import shutil
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

from ringfence.app import House, build
from ringfence.fence.runtimes.model import Runtime
from ringfence.kernel.auth.model import Role, TokenKind
from ringfence.kernel.clock import DAY, Clock
from ringfence.kernel.events.model import SYSTEM
from ringfence.server import listen, server
from ringfence.settings import Settings

T = TypeVar("T")

LEAVING = 3  # servers that may be stopping while the next tests run


class TestClock(Clock):
    """Time that a test moves on by itself; it also ticks."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += int(seconds * 1_000_000)


class Ringfence:
    """A running server. `client(token)` talks to it; `admin` is signed in as an admin."""

    def __init__(self, settings: Settings, template: Path | None, runtime: Runtime | None = None) -> None:
        self.settings = settings
        self.runtime = runtime
        self.clock = TestClock()
        settings.data.mkdir(parents=True, exist_ok=True)
        if template is not None and not (settings.data / "ringfence.db").exists():
            shutil.copy(template, settings.data / "ringfence.db")
        self._clients: list[httpx.Client] = []
        self.start()
        self.admin_token = self.token("admin", Role.ADMIN)
        self.admin = self.client(self.admin_token)

    def start(self) -> None:
        self._socket = listen(self.settings)
        self.port: int = self._socket.getsockname()[1]
        self.settings = self.settings.model_copy(update={"port": self.port})
        self.url = f"http://127.0.0.1:{self.port}"
        self.house: House = build(self.settings, self.clock, self.runtime)
        self._server = server(self.house)
        self._thread = threading.Thread(target=self._run, name="ringfence", daemon=True)
        self._started = threading.Event()
        self._thread.start()
        assert self._started.wait(20), "the server did not start"

    def _run(self) -> None:
        async def run() -> None:
            self.loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self._socket])

        async def greet() -> None:
            self._started.set()

        self._server.on_started = greet
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(run())

    def stop(self) -> None:
        self.leave()
        self.gone()

    def leave(self) -> None:
        """Begin to stop."""
        self._server.should_exit = True

    def gone(self) -> None:
        """Wait until it has stopped."""
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server did not stop"
        self._socket.close()

    def restart(self) -> None:
        """Stop, and start again on the same port and data."""
        self.stop()
        self.start()

    def close(self, leaving: "deque[Ringfence] | None" = None) -> None:
        for client in self._clients:
            client.close()
        self.leave()
        if leaving is None:
            self.gone()
        else:
            leaving.append(self)

    def write(self, use_case: Any) -> Any:
        """Run a use case on the server's own loop."""
        return self.run(self.house.database.write(use_case))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def token(self, name: str, role: Role | None = None, kind: TokenKind = TokenKind.API, **more: Any) -> str:
        auth = self.house.auth
        more.setdefault("lives", DAY)
        issued: str = self.write(lambda tx: auth.issue(tx, SYSTEM, kind, name, role=role, **more))[1]
        return issued

    def client(self, token: str | None = None, **more: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        more = {"verify": False, **more}  # it is no HTTPS, and certificates take a tenth of a second to load
        client = httpx.Client(base_url=self.url, headers=headers, timeout=20, trust_env=False, **more)
        self._clients.append(client)
        return client

    def agent(self, name: str, **more: Any) -> httpx.Client:
        """A client that is a freshly registered agent."""
        registered = self.admin.post("/agents/register", json={"name": name, **more})
        assert registered.status_code == 201, registered.text
        return self.client(registered.json()["token"])


@contextlib.contextmanager
def running(
    data: Path,
    template: Path | None = None,
    leaving: deque[Ringfence] | None = None,
    runtime: Runtime | None = None,
    **settings: Any,
) -> Iterator[Ringfence]:
    """A server for as long as the block takes. Where `leaving` is given, its end is awaited there: nobody needs the
    folder again."""
    server = Ringfence(
        Settings(**{"data": data, "port": 0, "log_level": "error", "runtime": "none", **settings}), template, runtime
    )
    try:
        yield server
    finally:
        server.close(leaving)
        while leaving and len(leaving) > LEAVING:
            leaving.popleft().gone()


def fill_up(disk: Path) -> Path:
    """The file to remove, for there to be space again."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return ballast
