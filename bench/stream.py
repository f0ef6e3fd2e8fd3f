"""SSE fan-out: many subscribers, a steady rate of events, and how long each event takes to each subscriber."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from bench.subjects import Subject

KIND = b"event: task_created"


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


class Subscriber(asyncio.Protocol):
    """Counts the frames it is sent; when each chunk came is enough to know how long its frames took."""

    def __init__(self, subject: Subject) -> None:
        token = f"Authorization: Bearer {subject.token}\r\n" if subject.token else ""
        self._hello = f"GET /events HTTP/1.1\r\nHost: {subject.address[0]}\r\n{token}\r\n".encode()
        self._rest = b""
        self.headers = asyncio.Event()
        self.arrivals: list[tuple[float, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._hello)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.headers.set()
        text = self._rest + data
        found = text.count(KIND)
        self._rest = text[-len(KIND) + 1 :]
        if found:
            self.arrivals.append((time.perf_counter(), found))


async def _fan_out(subject: Subject, subscribers: int, rate: int, seconds: float) -> FanOut:
    loop = asyncio.get_running_loop()
    everyone: list[Subscriber] = []
    for start in range(0, subscribers, 50):
        batch = [
            loop.create_connection(partial(Subscriber, subject), *subject.address)
            for _ in range(min(50, subscribers - start))
        ]
        everyone += [protocol for _, protocol in await asyncio.gather(*batch)]
    # The hub sends its headers with the first event, so nobody waits for them there.
    if subject.token is not None:
        await asyncio.wait_for(asyncio.gather(*(one.headers.wait() for one in everyone)), 60)
    project = subject.client.post("/projects", json={"name": "stream", "creator": "bench"}).json()["id"]
    await asyncio.sleep(1)
    before, began = subject.cpu_seconds(), time.perf_counter()
    posted = await _post(subject, project, rate, int(rate * seconds))
    took = time.perf_counter() - began
    spent = subject.cpu_seconds() - before
    await asyncio.sleep(2)
    delays: list[float] = []
    lost = 0
    for one in everyone:
        times = [moment for moment, count in one.arrivals for _ in range(count)]
        lost += len(posted) - len(times)
        delays += [(came - sent) * 1000 for came, sent in zip(times, posted, strict=False)]
        one.transport.close()
    delays.sort()
    expected = len(posted) * subscribers
    p50, p99, longest = (_quantile(delays, share) for share in (0.5, 0.99, 1))
    return FanOut(subscribers, rate, p50, p99, longest, expected, lost, spent / took)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def _post(subject: Subject, project: str, rate: int, count: int) -> list[float]:
    """When each event was asked for, in order: one connection, so that answers keep the order of events."""
    reader, writer = await asyncio.open_connection(*subject.address)
    body = b'{"title":"an event"}'
    token = f"Authorization: Bearer {subject.token}\r\n" if subject.token else ""
    head = f"POST /projects/{project}/tasks HTTP/1.1\r\nHost: {subject.address[0]}\r\n{token}"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    posted: list[float] = []
    began = time.perf_counter()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        if subject.token is None:  # the hub closes its connections after each answer
            writer.close()
            reader, writer = await asyncio.open_connection(*subject.address)
        posted.append(time.perf_counter())
        writer.write(request)
        head_bytes = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head_bytes.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
    writer.close()
    return posted


def fan_out(subject: Subject, subscribers: int, rate: int, seconds: float) -> FanOut:
    return asyncio.run(_fan_out(subject, subscribers, rate, seconds))
