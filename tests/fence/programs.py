"""Programs for the fake warden."""

import asyncio

from ringfence.fence.link.model import Channel
from tests.fence.fake_warden import Process, Program


async def echo(process: Process) -> int:
    await process.write(b" ".join(process.argv[1:]) + b"\n")
    return 0


async def cat(process: Process) -> int:
    while data := await process.read():
        await process.write(data)
    return 0


async def fail(process: Process) -> int:
    await process.write(b"no\n", Channel.ERR)
    return int(process.argv[1])


async def sleep(process: Process) -> int:
    await asyncio.sleep(float(process.argv[1]))
    return 0


async def late(process: Process) -> int:
    await asyncio.sleep(float(process.argv[1]))
    await process.write(process.argv[2] + b"\n")
    return 0


async def flood(process: Process) -> int:
    """So many bytes, each a function of its place."""
    total, at = int(process.argv[1]), 0
    while at < total:
        at += await wrote(process, pattern(at, min(65_536, total - at)))
    return 0


async def wrote(process: Process, data: bytes) -> int:
    await process.write(data)
    return len(data)


async def trap(process: Process) -> int:
    """Says which signals come, until one is 15."""
    process.handled |= {1, 2, 15}
    await process.write(b"ready\n")
    while True:
        number = await process.signals.get()
        await process.write(b"%d\n" % number)
        if number == 15:
            return 0


async def environment(process: Process) -> int:
    for name, value in sorted(process.env.items()):
        await process.write(name + b"=" + value + b"\n")
    await process.write(b"cwd " + process.cwd + b"\n")
    return 0


async def hang(process: Process) -> int:
    """Says something, and then nothing for ever."""
    await process.write(b"so far\n")
    await asyncio.get_running_loop().create_future()
    return 0


PROGRAMS: dict[bytes, Program] = {
    b"echo": echo, b"cat": cat, b"fail": fail, b"sleep": sleep, b"flood": flood, b"trap": trap, b"env": environment,
    b"hang": hang, b"late": late,
}  # fmt: skip

_PERIOD = bytes(range(251)) * (65_536 // 251 + 2)


def pattern(at: int, length: int) -> bytes:
    """Bytes at a place: a period of 251, that no power of two hides."""
    start = at % 251
    whole = bytearray()
    while len(whole) < length:
        part = _PERIOD[start : start + min(length - len(whole), 65_536)]
        whole += part
        start = (start + len(part)) % 251
    return bytes(whole)
