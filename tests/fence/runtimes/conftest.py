"""The runtimes that pass one suite, and a way to have things done inside."""

import asyncio
import base64
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ringfence.fence.model import Blueprint, Life
from ringfence.fence.runtimes.model import Runtime
from ringfence.fence.runtimes.native import bwrap, tools
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.spawned import Spawned
from ringfence.kernel import ids
from tests.fence.runtimes.spawners import SpawnerProcess

HERE = Path(__file__).parent
WITHIN = 20.0


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tools.Tools:
    """What a native sandbox is started with; the warden is a stand-in that runs lines of shell."""
    where = tmp_path_factory.mktemp("programs")
    compiler = shutil.which("musl-gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    for source, name in ((HERE.parents[2] / "warden/launch/launch.c", "launch"), (HERE / "stub.c", "warden")):
        subprocess.run([compiler, "-O2", "-static", "-Wall", "-Werror", "-o", where / name, source], check=True)
    return tools.Tools(where / "launch", bwrap.find(), where / "warden")


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder whose parents every user may pass through, as a data folder of root's must be."""
    folder = Path(tempfile.mkdtemp(prefix="rf-", dir="/var/tmp"))
    folder.chmod(0o711)
    try:
        yield folder / "fence"
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


def native(data: Path, programs: tools.Tools) -> Native:
    return Native(Boxes(data, programs))


@pytest.fixture
def spawner(data: Path, programs: tools.Tools) -> Iterator[SpawnerProcess]:
    """It, without a caller yet."""
    if os.geteuid() != 0:
        pytest.skip("only root has a spawner")
    found = SpawnerProcess(data, programs)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(params=["native", "spawned"] if os.geteuid() == 0 else ["native"])
async def runtime(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    """In the server itself, and behind the spawner, as when root runs it."""
    if request.param == "native":
        made = native(request.getfixturevalue("data"), request.getfixturevalue("programs"))
    else:
        made = Native(Spawned(request.getfixturevalue("spawner").caller()))
    await made.open()
    try:
        yield made
    finally:
        for found in await made.find_all():
            await made.destroy(found.id)
        await made.close()


def blueprint(**fields: object) -> Blueprint:
    return replace(Blueprint(id=ids.new("sbx"), hostname="box", image="host"), **fields)  # type: ignore[arg-type]


def _listening(folder: Path) -> socket.socket:
    """As the server does: through a descriptor, because the path may be too long for a socket's name."""
    fd = os.open(folder, os.O_PATH)
    path = Path(f"/proc/self/fd/{fd}/link.sock")
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    path.chmod(0o666)
    os.close(fd)
    return listening


class Inside:
    """A sandbox that runs, and a warden that dialled."""

    def __init__(self, runtime: Runtime, plan: Blueprint) -> None:
        self.runtime, self.plan, self.id = runtime, plan, plan.id
        self.life: Life
        self._dialled: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._link: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def listen(self) -> None:
        self._server = await asyncio.start_unix_server(
            lambda *ends: self._dialled.put_nowait(ends), sock=_listening(self.runtime.link_folder(self.id))
        )

    async def start(self) -> Life:
        if self._server is None:
            await self.listen()
        self.life = await self.runtime.start(self.plan, secrets.token_bytes(32))
        await self.linked()
        return self.life

    async def linked(self) -> None:
        self._link = await asyncio.wait_for(self._dialled.get(), WITHIN)
        assert await self._link[0].readexactly(6) == b"hello\n"

    async def run(self, line: str, within: float = WITHIN) -> str:
        assert self._link is not None
        reader, writer = self._link
        writer.write(line.encode() + b"\n")
        said = await asyncio.wait_for(reader.readuntil(b"\0"), within)
        return said[:-1].decode(errors="surrogateescape")

    async def python(self, code: str, within: float = WITHIN) -> str:
        plain = base64.b64encode(code.encode()).decode()
        return await self.run(f"python3 -c \"import base64; exec(base64.b64decode('{plain}'))\" 2>&1", within)

    async def close(self) -> None:
        if self._link is not None:
            self._link[1].close()
        if self._server is not None:
            self._server.close()


@contextlib.asynccontextmanager
async def running(runtime: Runtime, **fields: object) -> AsyncIterator[Inside]:
    inside = Inside(runtime, blueprint(**fields))
    await runtime.create(inside.plan)
    try:
        await inside.start()
        yield inside
    finally:
        await inside.close()
        await runtime.destroy(inside.id)
