"""What every runtime is tried with. A new one adds itself to HOSTS: a context manager that yields a `Host`."""

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringfence.fence.link.links import WardenLinks
from ringfence.fence.link.model import Channel, Exit, Link, Start
from ringfence.fence.lives import Unkept
from ringfence.fence.model import Blueprint, Image, Life, Limits
from ringfence.fence.runtimes.dummy import Dummy
from ringfence.fence.runtimes.model import Runtime
from ringfence.fence.runtimes.native.boxes import INCOMING, Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.kernel.ids import new
from warden import build

WITHIN = 20.0
_numbers = itertools.count(1)


@dataclass
class Box:
    """A sandbox under test."""

    blueprint: Blueprint
    key: bytes = field(default_factory=lambda: os.urandom(32))
    life: Life | None = None

    @property
    def id(self) -> str:
        return self.blueprint.id


class Host:
    """A runtime, opened, and the links of its sandboxes."""

    def __init__(
        self, folder: Path, make: Callable[[], Runtime], kill: Callable[[Box], Coroutine[Any, Any, None]]
    ) -> None:
        self.folder = folder  # that all of it lies in
        self.make = make  # the runtime as a server that starts makes it: of the same place
        self.kill = kill  # its warden dies, as by kill -9
        self.runtime = make()
        self.links = WardenLinks()
        self.boxes: list[Box] = []

    async def open(self) -> None:
        await self.runtime.open()

    async def close(self) -> None:
        for box in self.boxes:
            await self.runtime.destroy(box.id)
        await self.links.close()
        await self.runtime.close()

    async def reopen(self) -> None:
        """As after a restart of the server."""
        await self.links.close()
        await self.runtime.close()
        self.runtime, self.links = self.make(), WardenLinks()
        await self.runtime.open()

    async def created(self, **more: Any) -> Box:
        number = next(_numbers)
        limits = more.pop("limits", Limits())
        plan = {"image": "host", "limits": limits, **more}
        box = Box(Blueprint(id=new("sbx"), hostname=f"box-{number}", **plan))
        self.boxes.append(box)
        await self.runtime.create(box.blueprint)
        return box

    async def bring(self, archive: bytes, name: str = "tiny") -> Image:
        spool = self.folder / INCOMING / new("tar")
        await asyncio.to_thread(spool.write_bytes, archive)
        return await self.runtime.import_image(name, spool, 1 << 30)

    def files(self, folder: str) -> list[str]:
        return [path.name for path in (self.folder / folder).iterdir()]

    async def start(self, box: Box) -> Link:
        """Its warden runs and has greeted."""
        await self.listen(box)
        box.life = await self.runtime.start(box.blueprint, box.key)
        return await self.links.link(box.id, WITHIN)

    async def listen(self, box: Box) -> None:
        await self.links.listen(box.id, self.runtime.link_folder(box.id), box.key, Unkept())

    async def running(self, **more: Any) -> tuple[Box, Link]:
        box = await self.created(**more)
        return box, await self.start(box)


async def ran(link: Link, start: Start, given: bytes | None = None) -> tuple[bytes, Exit]:
    """What a program or an act said, and how it ended."""
    session = await link.start(start)
    if given is not None:
        await session.send(given)
        await session.end_input()
    said = bytearray()
    async with asyncio.timeout(WITHIN):
        async for channel, data in session.output():
            if channel is Channel.OUT:
                said += data
        return bytes(said), await session.exit()


def program(*argv: str, **more: Any) -> Start:
    env = (b"PATH=/usr/local/bin:/usr/bin:/bin",)
    return Start(id=os.urandom(16), argv=tuple(word.encode() for word in argv), env=env, **more)


def act(name: str, path: str, stdin: bool = False, **more: Any) -> Start:
    return Start(id=os.urandom(16), act=name, arguments={"path": path.encode(), **more}, stdin=stdin)


async def write(link: Link, path: str, content: bytes) -> None:
    _, ended = await ran(link, act("write", path, stdin=True, mode=0o644), content)
    assert not ended.errno, ended.error


async def read(link: Link, path: str) -> bytes | None:
    """None where there is no such file."""
    said, ended = await ran(link, act("read", path))
    return None if ended.errno else said


@contextlib.contextmanager
def dummy_host() -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="dummy"))
    (folder / INCOMING).mkdir()
    dummy = Dummy(folder)

    async def kill(box: Box) -> None:
        await dummy.kill(box.id)

    try:
        yield Host(folder, lambda: dummy, kill)
    finally:
        dummy.end_world()
        shutil.rmtree(folder)


@contextlib.contextmanager
def native_host() -> Iterator[Host]:
    """With the warden itself, in a folder that every user may pass through."""
    build.build()
    folder = Path(tempfile.mkdtemp(prefix="rf-", dir="/var/tmp"))
    folder.chmod(0o711)
    (folder / INCOMING).mkdir()

    async def kill(box: Box) -> None:
        assert box.life is not None
        os.kill(box.life.pid, signal.SIGKILL)

    try:
        yield Host(folder, lambda: Native(Boxes(folder / "fence", Tools.find())), kill)
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


HOSTS: dict[str, Callable[[], AbstractContextManager[Host]]] = {"dummy": dummy_host, "native": native_host}
