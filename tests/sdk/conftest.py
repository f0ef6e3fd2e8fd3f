"""What tests of the SDK start from: both twins behind one face, and transports that lose answers."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringfence import AgentClient, AsyncAgentClient, AsyncClient, Client
from tests.harness import Ringfence

DEADLINE = 20.0


class Lossy(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Lets the server do the work, and then loses its answer, as often as `losses` says of requests that it chooses."""

    def __init__(self, losses: int = 0, chooses: Callable[[httpx.Request], bool] = lambda _: True) -> None:
        self.losses = losses
        self.chooses = chooses
        self.sent: list[httpx.Request] = []
        self.lost: list[httpx.Request] = []
        self._changed = threading.Condition()
        self._sync = httpx.HTTPTransport()
        self._async = httpx.AsyncHTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._note(request)
        response = self._sync.handle_request(request)
        if self._loses(request):
            response.read()
            response.close()
            raise httpx.ReadError("the connection broke after the server had answered")
        return response

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._note(request)
        response = await self._async.handle_async_request(request)
        if self._loses(request):
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("the connection broke after the server had answered")
        return response

    def close(self) -> None:
        self._sync.close()

    async def aclose(self) -> None:
        await self._async.aclose()

    def wait_for(self, path: str, count: int) -> None:
        """Wait until this path was asked for so many times in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.asked(path) >= count, DEADLINE), f"{path} was not asked for"

    def asked(self, path: str) -> int:
        return sum(request.url.path == path for request in self.sent)

    def _note(self, request: httpx.Request) -> None:
        with self._changed:
            self.sent.append(request)
            self._changed.notify_all()

    def _loses(self, request: httpx.Request) -> bool:
        if self.losses <= 0 or not self.chooses(request):
            return False
        self.losses -= 1
        self.lost.append(request)
        return True


class Loop:
    """An event loop on a thread of its own, on which the asynchronous twins run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="twins", daemon=True)
        self._thread.start()

    def run(self, work: Any, within: float = 60.0) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within)

    def start(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        left = asyncio.all_tasks(self._loop)
        self._loop.close()
        assert not left, f"tasks that nobody awaited: {left}"


class Plain:
    """An asynchronous client whose methods wait, so that one test fits both twins."""

    def __init__(self, client: Any, loop: Loop) -> None:
        self.client = client
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.client, name)
        if not callable(value) or not inspect.iscoroutinefunction(value):
            return value

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._loop.run(value(*args, **kwargs))

        return method


class Running:
    """A loop that runs beside the test."""

    def __init__(self, twin: "Twin", client: Any, handler: Callable[[Any], object], options: dict[str, Any]) -> None:
        self._twin = twin
        self.error: BaseException | None = None
        self.ended = threading.Event()
        options = {"poll_interval": 0.05, "heartbeat_interval": 0.2, **options}
        if twin.loop is None:
            self._stop: Any = threading.Event()
            threading.Thread(target=self._run, args=(client, handler, options), daemon=True).start()
        else:
            self._stop = asyncio.Event()
            future = twin.loop.start(client.client.run_autonomous_loop(handler, stop_event=self._stop, **options))
            future.add_done_callback(self._async_ended)

    def _run(self, client: Any, handler: Callable[[Any], object], options: dict[str, Any]) -> None:
        try:
            client.run_autonomous_loop(handler, stop_event=self._stop, **options)
        except BaseException as error:
            self.error = error
        self.ended.set()

    def _async_ended(self, future: Any) -> None:
        self.error = future.exception()
        self.ended.set()

    def request_stop(self) -> None:
        if self._twin.loop is None:
            self._stop.set()
        else:
            self._twin.loop.call(self._stop.set)

    def stop(self) -> None:
        """End the loop, which must not raise; `took` says how long that lasted."""
        asked = time.monotonic()
        self.request_stop()
        assert self.ended.wait(DEADLINE), "the loop did not end"
        self.took = time.monotonic() - asked
        if self.error is not None:
            raise self.error


class Twin:
    """Makes clients of one kind, blocking or asynchronous, and closes them."""

    def __init__(self, server: Ringfence | None, loop: Loop | None) -> None:
        self.loop = loop
        self._server = server
        self._made: list[Any] = []
        self._runs: list[Running] = []

    def agent(self, name: str = "claude", type: str = "unknown", *, url: str = "", **options: Any) -> Any:
        kind = AgentClient if self.loop is None else AsyncAgentClient
        if self._server is not None:
            url = url or self._server.url
            if not {"token", "enrolment"} & options.keys():
                options["token"] = self._server.admin_token
        return self._keep(kind(url, name, type, **options))

    def registered(self, name: str = "claude", **options: Any) -> Any:
        agent = self.agent(name, **options)
        agent.register()
        return agent

    def operator(self, **options: Any) -> Any:
        assert self._server is not None
        options.setdefault("token", self._server.admin_token)
        return self._keep((Client if self.loop is None else AsyncClient)(self._server.url, **options))

    def run(self, client: Any, handler: Callable[[Any], object], **options: Any) -> Running:
        running = Running(self, client, handler, options)
        self._runs.append(running)
        return running

    def close(self) -> None:
        for running in self._runs:
            if not running.ended.is_set():
                running.stop()
        for client in self._made:
            client.close()

    def _keep(self, client: Any) -> Any:
        kept = client if self.loop is None else Plain(client, self.loop)
        self._made.append(kept)
        return kept


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No token and no configuration of whoever runs the tests; gives the configuration's folder."""
    for name in ("URL", "TOKEN", "ENROLMENT", "CA"):
        monkeypatch.delenv(f"RINGFENCE_{name}", raising=False)
    folder = tmp_path / "config"
    monkeypatch.setenv("RINGFENCE_CONFIG_DIR", str(folder))
    return folder


@pytest.fixture(params=["blocking", "asyncio"])
def twin(request: pytest.FixtureRequest, server: Ringfence) -> Iterator[Twin]:
    """Each of the two kinds of clients in turn, for a running server."""
    yield from _twin(request.param, server)


@pytest.fixture(params=["blocking", "asyncio"])
def lonely_twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """The same without a server."""
    yield from _twin(request.param, None)


def _twin(kind: str, server: Ringfence | None) -> Iterator[Twin]:
    loop = Loop() if kind == "asyncio" else None
    made = Twin(server, loop)
    try:
        yield made
    finally:
        made.close()
        if loop is not None:
            loop.close()


class Seen:
    """What a handler was given, and a way to wait for it."""

    def __init__(self) -> None:
        self.contents: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, message: Any) -> None:
        with self._changed:
            self.contents.append(message["content"])
            self._changed.notify_all()

    def wait(self, *contents: str, within: float = DEADLINE) -> None:
        """Wait until all of these were handled."""
        with self._changed:
            assert self._changed.wait_for(lambda: set(contents) <= set(self.contents), within), self.contents


@pytest.fixture
def seen() -> Seen:
    return Seen()
