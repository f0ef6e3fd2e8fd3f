"""Sandboxes over HTTP: from nothing to a first command, programs in one that runs, and a thousand alive at once.

Creating and the first command are under one timer. Of the times, one in twenty is left out at each end.
"""

import asyncio
import contextlib
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from websockets.asyncio.client import connect

from bench.connection import Connection
from bench.subjects import Subject

T = TypeVar("T")
SANDBOXES = "/api/v1/sandboxes"
FIRST = {"argv": ["python3", "-V"]}
NOTHING = {"argv": ["true"]}
STAGGERED = 0.2  # seconds between two
MAKERS = 8  # connections that make the thousand
STREAMED = 512 << 20  # bytes
FILE, PIECE = 256 << 20, 1 << 20
SETTLED = 2.0  # seconds until what is idle is weighed


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds."""

    count: int
    median: float
    p99: float
    most: float  # with those that are left out

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        ordered = sorted(seconds)
        left_out = len(ordered) // 20
        kept = [1000 * one for one in ordered[left_out : len(ordered) - left_out]]
        at = min(len(kept) - 1, round(0.99 * (len(kept) - 1)))
        return cls(len(ordered), statistics.median(kept), kept[at], 1000 * ordered[-1])


@dataclass(frozen=True, slots=True)
class Burst:
    times: Times
    wall: float  # seconds until the last had run its command


@dataclass(frozen=True, slots=True)
class Files:
    """MB/s of one large file."""

    written: float
    read: float


@dataclass(frozen=True, slots=True)
class Crowd:
    """Many alive at once, doing nothing. KiB for each of them; None: this user may not look."""

    alive: int
    created_per_second: float
    destroyed_per_second: float
    exec: Times
    pss: float | None  # of all its processes
    server: float  # what the server grew by
    machine: float  # what is no longer available of this machine's memory: the kernel's share too


class Sandboxes:
    """What a client does with them, on a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self) -> str:
        status, answer = await self._connection.ask("POST", SANDBOXES, {})
        if status != 201:
            raise RuntimeError(f"a sandbox was refused: {status} {answer.decode()}")
        return str(json.loads(answer)["id"])

    async def run(self, sandbox: str, program: object) -> None:
        status, answer = await self._connection.ask("POST", f"{SANDBOXES}/{sandbox}/exec", program)
        if status != 200 or json.loads(answer)["code"] != 0:
            raise RuntimeError(f"a program did not run: {status} {answer.decode()}")

    async def destroy(self, sandbox: str) -> None:
        status, answer = await self._connection.ask("DELETE", f"{SANDBOXES}/{sandbox}")
        if status != 200:
            raise RuntimeError(f"a sandbox was not destroyed: {status} {answer.decode()}")


@contextlib.asynccontextmanager
async def sandboxes(subject: Subject) -> AsyncIterator[Sandboxes]:
    async with Connection(subject) as connection:
        yield Sandboxes(connection)


@contextlib.asynccontextmanager
async def one(subject: Subject) -> AsyncIterator[tuple[Sandboxes, str]]:
    """A sandbox that has run something."""
    async with sandboxes(subject) as through:
        sandbox = await through.create()
        await through.run(sandbox, NOTHING)
        try:
            yield through, sandbox
        finally:
            await through.destroy(sandbox)


# From nothing to a first command --------------------------------------------------------------------------------------


async def sequential(subject: Subject, count: int) -> Times:
    return Times.of([await _first_command(subject) for _ in range(count)])


async def staggered(subject: Subject, count: int) -> Times:
    async def after(number: int) -> float:
        await asyncio.sleep(number * STAGGERED)
        return await _first_command(subject)

    return Times.of(await asyncio.gather(*(after(number) for number in range(count))))


async def burst(subject: Subject, count: int) -> Burst:
    """All at once; they are destroyed when all have run their command."""
    began, ended = time.perf_counter(), [0.0]
    all_ran = asyncio.Event()

    async def each() -> float:
        async with sandboxes(subject) as through:
            start = time.perf_counter()
            sandbox = await through.create()
            await through.run(sandbox, FIRST)
            took = (end := time.perf_counter()) - start
            ended.append(end)
            if len(ended) > count:
                all_ran.set()
            await all_ran.wait()
            await through.destroy(sandbox)
            return took

    times = await asyncio.gather(*(each() for _ in range(count)))
    return Burst(Times.of(times), max(ended) - began)


async def _first_command(subject: Subject) -> float:
    async with sandboxes(subject) as through:
        began = time.perf_counter()
        sandbox = await through.create()
        await through.run(sandbox, FIRST)
        took = time.perf_counter() - began
        await through.destroy(sandbox)
        return took


# In a sandbox that runs -----------------------------------------------------------------------------------------------


async def execs(subject: Subject, count: int) -> Times:
    async with one(subject) as (through, sandbox):
        return Times.of([await timed(lambda: through.run(sandbox, NOTHING)) for _ in range(count)])


async def streamed(subject: Subject, size: int) -> float:
    """MB/s of a program's output over a WebSocket, to its end."""
    async with one(subject) as (_, sandbox):
        url = f"{subject.url.replace('http', 'ws', 1)}{SANDBOXES}/{sandbox}/exec/ws"
        headers = {"authorization": f"Bearer {subject.token}"}
        async with connect(url, additional_headers=headers, max_size=None, compression=None, proxy=None) as socket:
            began, got = time.perf_counter(), 0
            await socket.send(json.dumps({"argv": ["head", "-c", str(size), "/dev/zero"]}))
            async for message in socket:
                got += len(message) - 1 if isinstance(message, bytes) else 0
            took = time.perf_counter() - began
    if got != size:
        raise RuntimeError(f"{got} of {size} bytes came")
    return size / took / 1e6


async def files(subject: Subject, size: int) -> Files:
    async with one(subject) as (_, sandbox):
        path = f"{SANDBOXES}/{sandbox}/files/content"
        return await asyncio.to_thread(_written_and_read, subject, path, size)


def _written_and_read(subject: Subject, path: str, size: int) -> Files:
    query, pieces = {"path": "/workspace/large"}, [bytes(PIECE)] * (size // PIECE)
    began = time.perf_counter()
    headers = {"content-length": str(size)}
    subject.client.put(path, params=query, content=iter(pieces), headers=headers).raise_for_status()
    written = time.perf_counter()
    with subject.client.stream("GET", path, params=query) as answer:
        got = sum(len(piece) for piece in answer.raise_for_status().iter_raw())
    read = time.perf_counter()
    if got != size:
        raise RuntimeError(f"{got} of {size} bytes came")
    return Files(size / (written - began) / 1e6, size / (read - written) / 1e6)


# A crowd --------------------------------------------------------------------------------------------------------------


async def crowd(subject: Subject, count: int, asked: int) -> Crowd:
    """`asked` programs, each in one of them picked at random, one after the other."""
    server, free = pss_of(subject.pids) or 0.0, _available()
    began = time.perf_counter()
    made = await _by_many(subject, count, lambda through, _: through.create())
    created = count / (time.perf_counter() - began)
    await asyncio.sleep(SETTLED)
    pss = pss_of(list(_processes(set(made))))
    grown, gone = (pss_of(subject.pids) or 0.0) - server, free - _available()
    async with sandboxes(subject) as through:
        picked = random.Random(1)
        times = [await timed(lambda: through.run(picked.choice(made), NOTHING)) for _ in range(asked)]
    began = time.perf_counter()
    await _by_many(subject, count, lambda through, number: through.destroy(made[number]))
    destroyed = count / (time.perf_counter() - began)
    each = None if pss is None else pss / count
    return Crowd(count, created, destroyed, Times.of(times), each, grown / count, gone / count)


async def _by_many(subject: Subject, count: int, act: Callable[[Sandboxes, int], Awaitable[T]]) -> list[T]:
    numbers, found = iter(range(count)), []

    async def work() -> None:
        async with sandboxes(subject) as through:
            for number in numbers:
                found.append(await act(through, number))

    await asyncio.gather(*(work() for _ in range(MAKERS)))
    return found


def _processes(of: set[str]) -> Iterator[int]:
    """Wardens, told by their name, and all that is below them."""
    parents: dict[int, list[int]] = {}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name = (folder / "cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(folder.name))
            if name.startswith("ringfence:") and name.removeprefix("ringfence:") in of:
                found.append(int(folder.name))
    for pid in found:
        found += parents.get(pid, [])
    yield from dict.fromkeys(found)


def pss_of(pids: Sequence[int]) -> float | None:
    """KiB; None where one of them is not ours to look at."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except PermissionError:
            return None
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return float(total)


def _available() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began
