"""SSE: many subscribers and a steady rate of events; a burst; and one subscriber that does not read."""

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from bench.connection import Connection, post_all
from bench.subjects import Subject

KIND = b"event: task_created"
SETTLED = 2.0  # seconds without an event, after which no more are awaited
OPENING = 60.0


@dataclass(frozen=True, slots=True)
class FanOut:
    subscribers: int
    events_per_second: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    expected: int
    lost: int
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Burst:
    """`stalled`: what came to the one that did not read, from when it reads again; None where all of them read."""

    subscribers: int
    events: int
    seconds: float
    expected: int
    lost: int
    fewest: int
    stalled: int | None


class Subscriber(asyncio.Protocol):
    """Counts the frames it is sent; when each chunk came is enough to know how long its frames took."""

    def __init__(self, subject: Subject) -> None:
        token = f"Authorization: Bearer {subject.token}\r\n" if subject.token else ""
        self._hello = f"GET /events HTTP/1.1\r\nHost: {subject.address[0]}\r\n{token}\r\n".encode()
        self._rest = b""
        self.answered = False
        self.arrivals: list[tuple[float, int]] = []
        self.count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        self.answered = True
        text = self._rest + data
        found = text.count(KIND)
        self._rest = text[-len(KIND) + 1 :]
        if found:
            self.arrivals.append((time.perf_counter(), found))
            self.count += found


@asynccontextmanager
async def _subscribed(subject: Subject, count: int, *, stalled: bool = False) -> AsyncIterator[list[Subscriber]]:
    """So many subscribers, each of them known to be served. The stalled one comes first, and does not read yet."""
    everyone: list[Subscriber] = []
    connect = partial(asyncio.get_running_loop().create_connection, partial(Subscriber, subject))
    try:
        if stalled:
            _, first = await connect(sock=await _far_socket(subject))
            everyone.append(first)
        for start in range(len(everyone), count, 50):
            batch = (connect(*subject.address) for _ in range(min(50, count - start)))
            everyone += [protocol for _, protocol in await asyncio.gather(*batch)]
        await _served(subject, everyone)
        if stalled:
            everyone[0].transport.pause_reading()
        yield everyone
    finally:
        for one in everyone:
            one.transport.close()


async def _far_socket(subject: Subject) -> socket.socket:
    """With the segments and the window of a peer across a network: over loopback megabytes wait in the kernel."""
    far = socket.socket()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
    far.setblocking(False)
    await asyncio.get_running_loop().sock_connect(far, subject.address)
    return far


async def _served(subject: Subject, everyone: Sequence[Subscriber]) -> None:
    """The hub sends its headers with the first event a subscriber gets: there are events until everyone got one."""
    deadline = time.monotonic() + OPENING
    while not all(one.answered for one in everyone):
        if time.monotonic() > deadline:
            silent = sum(not one.answered for one in everyone)
            raise TimeoutError(f"{subject.name} does not serve {silent} of {len(everyone)} subscribers")
        await asyncio.to_thread(_project, subject)
        await asyncio.sleep(0.5)


def _project(subject: Subject) -> str:
    answer = subject.client.post("/projects", json={"name": "stream", "creator": "bench"})
    return str(answer.raise_for_status().json()["id"])


async def _settle(everyone: Sequence[Subscriber], events: int) -> None:
    """Until everyone has everything, or nothing has come for a while."""
    seen, since = -1, time.monotonic()
    while (now := sum(one.count for one in everyone)) < events * len(everyone):
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > SETTLED:
            return
        await asyncio.sleep(0.05)


async def _fan_out(subject: Subject, subscribers: int, rate: int, seconds: float) -> FanOut:
    async with _subscribed(subject, subscribers) as everyone:
        project = _project(subject)
        await asyncio.sleep(1)
        before, began = subject.cpu_seconds(), time.perf_counter()
        posted = await _post(subject, project, rate, int(rate * seconds))
        took = time.perf_counter() - began
        spent = subject.cpu_seconds() - before
        await _settle(everyone, len(posted))
    delays: list[float] = []
    for one in everyone:
        times = [moment for moment, count in one.arrivals for _ in range(count)]
        delays += [(came - sent) * 1000 for came, sent in zip(times, posted, strict=False)]
    delays.sort()
    expected = len(posted) * subscribers
    p50, p99, longest = (_quantile(delays, share) for share in (0.5, 0.99, 1))
    return FanOut(subscribers, rate, p50, p99, longest, expected, expected - len(delays), spent / took)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def _post(subject: Subject, project: str, rate: int, count: int) -> list[float]:
    """When each event was asked for, in order: one connection, so that answers keep the order of events."""
    posted: list[float] = []
    async with Connection(subject) as connection:
        began = time.perf_counter()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            await connection.ready()
            posted.append(time.perf_counter())
            await connection.post(f"/projects/{project}/tasks", {"title": "an event"})
    return posted


async def _burst(subject: Subject, subscribers: int, events: int, *, stalled: bool) -> Burst:
    async with _subscribed(subject, subscribers, stalled=stalled) as everyone:
        project = _project(subject)
        await asyncio.sleep(1)
        began = time.perf_counter()
        await post_all(subject, itertools.repeat((f"/projects/{project}/tasks", {"title": "an event"}), events))
        took = time.perf_counter() - began
        readers = everyone[1:] if stalled else everyone
        await _settle(readers, events)
        counts = [one.count for one in readers]
        if stalled:
            everyone[0].transport.resume_reading()
            await _settle(everyone[:1], events)
    expected = events * len(readers)
    late = everyone[0].count if stalled else None
    return Burst(subscribers, events, took, expected, expected - sum(counts), min(counts), late)


def fan_out(subject: Subject, subscribers: int, rate: int, seconds: float) -> FanOut:
    return asyncio.run(_fan_out(subject, subscribers, rate, seconds))


def burst(subject: Subject, subscribers: int, events: int, *, stalled: bool) -> Burst:
    return asyncio.run(_burst(subject, subscribers, events, stalled=stalled))
