"""What tests of sessions start from: a server whose sandboxes have scripted wardens, and one sandbox."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from ringfence.fence.model import Life
from ringfence.fence.runtimes.dummy import Dummy
from ringfence.kernel.auth.model import Role
from tests.fence.fake_files import Files
from tests.fence.fake_warden import FakeWarden, Process, Program
from tests.fence.programs import PROGRAMS
from tests.harness import Ringfence, running

API = "/api/v1/sandboxes"


class Scripted(Dummy):
    """The dummy runtime with the tests' own wardens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.wardens: dict[str, FakeWarden] = {}
        self.trees: dict[str, Files] = {}
        self.programs: dict[bytes, Program] = dict(PROGRAMS)
        self.ports: dict[int, Program] = {}

    async def _start(self, sandbox: str, key: bytes) -> Life:
        self.deaf = True
        life = await super()._start(sandbox, key)
        tree = self.trees.setdefault(sandbox, Files())
        socket = self.link_folder(sandbox) / "link.sock"
        warden = self.wardens[sandbox] = FakeWarden(socket, key, self.programs, tree, self.ports)
        self._box(sandbox).warden = asyncio.create_task(_lives(warden), name=f"warden {sandbox}")
        return life


async def _lives(warden: FakeWarden) -> None:
    try:
        async with warden:
            await asyncio.get_running_loop().create_future()
    finally:
        await warden.close()


def until(so: Callable[[], Any], within: float = 10) -> Any:
    give_up = time.monotonic() + within
    while time.monotonic() < give_up:
        if found := so():
            return found
        time.sleep(0.005)
    raise AssertionError("it did not come about")


class Box:
    """A sandbox, and short ways to run things in it."""

    def __init__(self, server: Ringfence, runtime: Scripted) -> None:
        self.server, self.runtime = server, runtime
        made = server.admin.post(API, json={"name": "box"})
        assert made.status_code == 201, made.text
        self.id: str = made.json()["id"]
        self.path = f"{API}/{self.id}"

    @property
    def admin(self) -> httpx.Client:
        return self.server.admin

    @property
    def warden(self) -> FakeWarden:
        return self.runtime.wardens[self.id]

    @property
    def files(self) -> Files:
        return self.runtime.trees[self.id]

    def processes(self) -> list[Process]:
        return list(self.warden.sessions.values())

    def run(self, *argv: str, by: httpx.Client | None = None, **fields: Any) -> dict[str, Any]:
        answer = (by or self.admin).post(f"{self.path}/exec", json={"argv": list(argv), **fields})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def begin(self, *argv: str, **fields: Any) -> str:
        answer = self.admin.post(f"{self.path}/exec", json={"argv": list(argv), "detach": True, **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def show(self, exec_id: str) -> dict[str, Any]:
        answer = self.admin.get(f"{self.path}/execs/{exec_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def ended(self, exec_id: str) -> dict[str, Any]:
        until(lambda: self.show(exec_id)["state"] == "ended")
        return self.show(exec_id)

    def output(self, exec_id: str, channel: str = "stdout", **params: Any) -> bytes:
        answer = self.admin.get(f"{self.path}/execs/{exec_id}/output", params={"channel": channel, **params})
        assert answer.status_code == 200, answer.text
        return answer.content

    def post(self, exec_id: str, verb: str, **body: Any) -> httpx.Response:
        return self.admin.post(f"{self.path}/execs/{exec_id}/{verb}", json=body)

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = self.admin.get("/api/v1/audit", params={"kind": kind, "newest_first": "false", "limit": 1000})
        return list(found.json()["items"])

    def socket(self, path: str = "exec/ws", token: str | None = None) -> ClientConnection:
        url = self.server.url.replace("http", "ws") + f"{self.path}/{path}"
        headers = {"authorization": f"Bearer {token or self.server.admin_token}"}
        return connect(url, additional_headers=headers, max_size=None, compression=None, proxy=None)

    def restart(self) -> None:
        self.server.restart()
        self.server.admin = self.server.client(self.server.admin_token)

    def agent(self) -> httpx.Client:
        return self.server.agent("nobody")

    def viewer(self) -> httpx.Client:
        return self.server.client(self.server.token("vera", Role.VIEWER))


def events_of(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])


@pytest.fixture
def runtime() -> Iterator[Scripted]:
    folder = Path(tempfile.mkdtemp(prefix="sessions"))
    found = Scripted(folder)
    yield found
    found.end_world()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def box(tmp_path: Path, template: Path, runtime: Scripted) -> Iterator[Box]:
    with running(tmp_path / "data", template, runtime=runtime, sandbox_grace=0) as server:
        yield Box(server, runtime)
