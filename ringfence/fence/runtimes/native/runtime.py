"""The native runtime as the service calls it: `Boxes`, off the event loop."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from ringfence.fence.model import Blueprint, Cause, Enforced, Image, Life, Stats
from ringfence.fence.runtimes.model import Capabilities, Found
from ringfence.fence.runtimes.native.box import is_alive
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.spawned import Spawned
from ringfence.fence.runtimes.native.spawning import AT_ONCE

P = ParamSpec("P")
T = TypeVar("T")
SLOW_AT_ONCE = 2  # imports and snapshots, which may take minutes: nothing waits behind them


class Native:
    name = "native"

    def __init__(self, boxes: Boxes | Spawned) -> None:
        self._boxes = boxes
        self.by_root = isinstance(boxes, Spawned) or os.geteuid() == 0  # who acts
        self._threads = ThreadPoolExecutor(AT_ONCE - SLOW_AT_ONCE, "native")
        self._slow = ThreadPoolExecutor(SLOW_AT_ONCE, "native-slow")
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._do(self._boxes.open)
        # What is to be removed may be a million files: nobody waits for that.
        self._sweeping = asyncio.create_task(self._do(self._boxes.sweep))

    async def close(self) -> None:
        if self._sweeping is not None:
            await self._sweeping
        self._slow.shutdown(wait=True)
        self._threads.shutdown(wait=True)

    def capabilities(self) -> Capabilities:
        return self._boxes.capabilities()

    def images(self) -> list[str]:
        return self._boxes.images()

    async def import_image(self, name: str, archive: Path, most: int) -> Image:
        return await self._do_slowly(self._boxes.import_image, name, archive.name, most)

    async def forget_image(self, name: str) -> None:
        await self._do_slowly(self._boxes.forget_image, name)

    async def create(self, blueprint: Blueprint) -> Enforced:
        return await self._do(self._boxes.create, blueprint)

    def link_folder(self, sandbox: str) -> Path:
        return self._boxes.link_folder(sandbox)

    async def start(self, blueprint: Blueprint, key: bytes) -> Life:
        return await self._do(self._boxes.start, blueprint, key)

    async def ended(self, sandbox: str, life: Life) -> Cause:
        await self._end_of(life)
        return await self._do(self._boxes.cause, sandbox)

    async def stop(self, sandbox: str) -> None:
        await self._do(self._boxes.stop, sandbox)

    async def pause(self, sandbox: str) -> None:
        await self._do(self._boxes.pause, sandbox)

    async def resume(self, sandbox: str) -> None:
        await self._do(self._boxes.resume, sandbox)

    async def destroy(self, sandbox: str) -> None:
        await self._do(self._boxes.destroy, sandbox)

    async def found(self, sandbox: str) -> Found | None:
        return await self._do(self._boxes.found, sandbox)

    async def find_all(self) -> list[Found]:
        return await self._do(self._boxes.find_all)

    async def stats(self, sandbox: str) -> Stats:
        return await self._do(self._boxes.stats, sandbox)

    async def said(self, sandbox: str) -> bytes:
        return await self._do(self._boxes.said, sandbox)

    async def snapshot(self, sandbox: str, name: str) -> int:
        return await self._do_slowly(self._boxes.snapshot, sandbox, name)

    async def forget_snapshot(self, name: str) -> None:
        await self._do_slowly(self._boxes.forget_snapshot, name)

    async def _do(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: act(*args, **kwargs))

    async def _do_slowly(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._slow, lambda: act(*args, **kwargs))

    async def _end_of(self, life: Life) -> None:
        """A descriptor of the process becomes readable when it, and with it all in its sandbox, has ended."""
        try:
            pidfd = os.pidfd_open(life.pid)
        except OSError:
            return
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        try:
            # A host may hide other users' processes in /proc.
            if not is_alive(life) and not await self._do(self._boxes.lives, life):
                return
            loop.add_reader(pidfd, _settle, over)
            await over
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)


def _settle(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
