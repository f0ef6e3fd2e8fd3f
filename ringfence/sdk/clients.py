"""The clients: operations with a connection under them, once blocking and once for asyncio."""

import asyncio
import os
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict
from urllib.parse import urlsplit

import httpx

from ringfence.sdk.agent import AgentOperations, Handler, Metadata
from ringfence.sdk.calls import given
from ringfence.sdk.duty import Duty, Pulse
from ringfence.sdk.events import AsyncEventStream, EventStream, Following
from ringfence.sdk.identity import Identity, Kept, state_folder
from ringfence.sdk.inbox import Inbox
from ringfence.sdk.operator import OperatorOperations
from ringfence.sdk.retrying import Patience
from ringfence.sdk.sandbox import AsyncSandbox, Sandbox
from ringfence.sdk.sandboxes import SeesSandboxes
from ringfence.sdk.sockets import Sockets
from ringfence.sdk.steps import Awaiting, Blocking
from ringfence.sdk.views import Pending

TIMEOUT = 30.0
RETRIES = 8
STREAM_PATIENCE = 300.0

OnRevocation = Callable[[Pending], object]
FileName = str | os.PathLike[str]
Trusted = FileName | ssl.SSLContext


class _Connection(TypedDict):
    base_url: str
    headers: dict[str, str]
    timeout: httpx.Timeout
    verify: ssl.SSLContext | bool
    trust_env: bool


def _connection(url: str, timeout: float, ca: Trusted | None) -> _Connection:
    secure = url.startswith("https://")
    return {
        "base_url": url,
        "headers": {"user-agent": "ringfence-sdk"},
        "timeout": httpx.Timeout(timeout, connect=min(timeout, 10.0)),
        # Without TLS nothing is verified, and loading the certificates would take longer than the first request.
        "verify": _trust(ca or os.environ.get("RINGFENCE_CA")) if secure else False,
        # A proxy has no business between two programs of one machine.
        "trust_env": not _is_local(url),
    }


def _trust(ca: Trusted | None) -> ssl.SSLContext:
    """The system's certificates, and those in the file `ca`; or what somebody made up their mind about."""
    if isinstance(ca, ssl.SSLContext):
        return ca
    context = ssl.create_default_context()
    if ca:
        context.load_verify_locations(ca)
    return context


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _base_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is no URL of a Ringfence: write http://HOST:PORT or https://HOST")
    return url.rstrip("/")


class _Agent(AgentOperations):
    """What both agents' clients begin with."""

    def _begin(
        self, hub_url: str, agent_name: str, agent_type: str, token: str | None, enrolment: str | None,
        timeout: float, retries: int, state_dir: FileName | None,
    ) -> None:  # fmt: skip
        self.hub_url = _base_url(hub_url)
        self.agent_name = agent_name
        self.agent_type = agent_type
        self._acting = agent_name
        self._patience = Patience(retries=retries, longest_wait=timeout)
        self._inbox = Inbox()
        folder = state_folder(os.environ) if state_dir is None else Path(state_dir)
        self._identity = Identity(
            token or os.environ.get("RINGFENCE_TOKEN") or None,
            enrolment or os.environ.get("RINGFENCE_ENROLMENT") or None,
            None if folder is None else Kept(folder, self.hub_url, agent_name),
        )


class _Operator(OperatorOperations):
    """What both operators' clients begin with."""

    def _begin(self, url: str | None, token: str | None, timeout: float, retries: int) -> None:
        self.url = _base_url(url or os.environ.get("RINGFENCE_URL") or "http://127.0.0.1:8080")
        self._acting = None
        self._patience = Patience(retries=retries, longest_wait=timeout)
        self._identity = Identity(token or os.environ.get("RINGFENCE_TOKEN") or None)


class _Sync(Blocking):
    _http: httpx.Client
    _authorization: Callable[[], dict[str, str]]

    def _connect(self, url: str, timeout: float, ca: Trusted | None, transport: httpx.BaseTransport | None) -> None:
        facts = _connection(url, timeout, ca)
        self._http = httpx.Client(**facts, transport=transport)
        self._sockets = Sockets(url, facts["verify"], facts["trust_env"], self._authorization)

    def sandbox(self, sandbox: str) -> Sandbox:
        """One that is there, by its id or name, as an object; leaving its `with` does not destroy it."""
        return Sandbox(self, self._drive(SeesSandboxes.get_sandbox.steps(self, sandbox)))

    def events(
        self,
        *,
        kind: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        after: int | None = None,
        give_up_after: float | None = STREAM_PATIENCE,
    ) -> EventStream:
        """Every change as it happens, over any number of connections: nothing is missed, and nothing comes twice.

        From now on, or from what came after the event of the number `after`. Ends when it is closed; raises
        `Unreachable` when the server stayed away for `give_up_after` seconds.
        """
        following = Following(given(kind=kind, project=project, agent=agent), after, give_up_after)
        return EventStream(self._http, self._authorization, following)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Async(Awaiting):
    _http: httpx.AsyncClient
    _authorization: Callable[[], dict[str, str]]

    def _connect(
        self, url: str, timeout: float, ca: Trusted | None, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        facts = _connection(url, timeout, ca)
        self._http = httpx.AsyncClient(**facts, transport=transport)
        self._sockets = Sockets(url, facts["verify"], facts["trust_env"], self._authorization)

    async def sandbox(self, sandbox: str) -> AsyncSandbox:
        """As `Client.sandbox`."""
        return AsyncSandbox(self, await self._drive(SeesSandboxes.get_sandbox.steps(self, sandbox)))

    def events(
        self,
        *,
        kind: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        after: int | None = None,
        give_up_after: float | None = STREAM_PATIENCE,
    ) -> AsyncEventStream:
        """As `Client.events`, for `async for`."""
        following = Following(given(kind=kind, project=project, agent=agent), after, give_up_after)
        return AsyncEventStream(self._http, self._authorization, following)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AgentClient(_Agent, _Sync):
    """An agent's client. Inside a sandbox `AgentClient("http://hub:8080", NAME)` needs no token."""

    def __init__(
        self,
        hub_url: str,
        agent_name: str,
        agent_type: str = "unknown",
        *,
        token: str | None = None,
        enrolment: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        ca: Trusted | None = None,
        state_dir: FileName | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._begin(hub_url, agent_name, agent_type, token, enrolment, timeout, retries, state_dir)
        self._connect(self.hub_url, timeout, ca, transport)
        self._beating: tuple[threading.Thread, threading.Event] | None = None

    def start_heartbeat(self, interval: float = 10) -> None:
        """Send heartbeats from a thread of their own, until `stop_heartbeat` or the end of the process."""
        self.stop_heartbeat()
        stop = threading.Event()
        pulse = Pulse(self, interval).steps()
        thread = threading.Thread(
            target=self._drive, args=(pulse, stop), name=f"heartbeat of {self.agent_name}", daemon=True
        )
        self._beating = thread, stop
        thread.start()

    def stop_heartbeat(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            thread, stop = beating
            stop.set()
            thread.join(1.0)  # it ends by itself when its last heartbeat is answered

    def run_autonomous_loop(
        self,
        handler: Handler,
        poll_interval: float = 2.0,
        heartbeat_interval: float = 10.0,
        stop_event: threading.Event | None = None,
        metadata: Metadata | None = None,
        auto_ack: bool = True,
        *,
        on_revocation: OnRevocation | None = None,
    ) -> None:
        """Stay registered, send heartbeats, and hand every message to `handler` once, until `stop_event` is set.

        A handler that raises is tried again a few times, then the message is left unread. A revocation halts: when
        `on_revocation` has returned it is acknowledged, and the agent begins again. Raises `NotRegistered` if the agent
        cannot be registered to begin with.
        """
        stop = threading.Event() if stop_event is None else stop_event
        duty = Duty(
            self,
            handler,
            poll_interval=poll_interval,
            metadata=metadata,
            auto_ack=auto_ack,
            on_revocation=on_revocation,
        )
        self._drive(duty.begin(), stop)
        beats_already = self._beating is not None
        if not beats_already:
            self.start_heartbeat(heartbeat_interval)
        try:
            self._drive(duty.work(), stop)
        finally:
            if not beats_already:
                self.stop_heartbeat()

    def close(self) -> None:
        self.stop_heartbeat()
        super().close()


class AsyncAgentClient(_Agent, _Async):
    """`AgentClient` for asyncio: the same methods, awaited; handlers may be functions or coroutine functions.

    A plain function runs on the event loop: work that takes long belongs into `await asyncio.to_thread(...)`.
    """

    def __init__(
        self,
        hub_url: str,
        agent_name: str,
        agent_type: str = "unknown",
        *,
        token: str | None = None,
        enrolment: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        ca: Trusted | None = None,
        state_dir: FileName | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._begin(hub_url, agent_name, agent_type, token, enrolment, timeout, retries, state_dir)
        self._connect(self.hub_url, timeout, ca, transport)
        self._beating: asyncio.Task[None] | None = None

    async def start_heartbeat(self, interval: float = 10) -> None:
        """Send heartbeats from a task of their own, until `stop_heartbeat` or `close`."""
        await self.stop_heartbeat()
        pulse = Pulse(self, interval).steps()
        self._beating = asyncio.create_task(self._drive(pulse), name=f"heartbeat of {self.agent_name}")

    async def stop_heartbeat(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def run_autonomous_loop(
        self,
        handler: Handler,
        poll_interval: float = 2.0,
        heartbeat_interval: float = 10.0,
        stop_event: asyncio.Event | None = None,
        metadata: Metadata | None = None,
        auto_ack: bool = True,
        *,
        on_revocation: OnRevocation | None = None,
    ) -> None:
        """As `AgentClient.run_autonomous_loop`; it also ends when its task is cancelled."""
        stop = asyncio.Event() if stop_event is None else stop_event
        duty = Duty(
            self,
            handler,
            poll_interval=poll_interval,
            metadata=metadata,
            auto_ack=auto_ack,
            on_revocation=on_revocation,
        )
        await self._drive(duty.begin(), stop)
        beats_already = self._beating is not None
        if not beats_already:
            await self.start_heartbeat(heartbeat_interval)
        try:
            await self._drive(duty.work(), stop)
        finally:
            if not beats_already:
                await self.stop_heartbeat()

    async def close(self) -> None:
        await self.stop_heartbeat()
        await super().close()


class Client(_Operator, _Sync):
    """An operator's client, for scripts. The URL and token come from RINGFENCE_URL and RINGFENCE_TOKEN if not given."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        ca: Trusted | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._begin(url, token, timeout, retries)
        self._connect(self.url, timeout, ca, transport)


class AsyncClient(_Operator, _Async):
    """`Client` for asyncio."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        ca: Trusted | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._begin(url, token, timeout, retries)
        self._connect(self.url, timeout, ca, transport)
