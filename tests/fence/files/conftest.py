"""A server whose sandboxes are native ones, with the warden that is in the checkout; and one in which a test works."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.tools import Tools
from tests.harness import Ringfence, running
from warden import build

API = "/api/v1/sandboxes"


class Box:
    """A sandbox, and short ways to its files."""

    def __init__(self, server: Ringfence, **wanted: Any) -> None:
        self.server = server
        made = server.admin.post(API, json=wanted)
        assert made.status_code == 201, made.text
        self.id = made.json()["id"]
        self.path = f"{API}/{self.id}"

    @property
    def admin(self) -> httpx.Client:
        return self.server.admin

    def url(self, where: str, path: str | bytes | None = None, **query: object) -> str:
        parts = [
            f"{name}={quote(str(value).lower() if value is True else str(value))}" for name, value in query.items()
        ]
        if path is not None:
            parts.insert(0, f"path={quote(path)}")
        return f"{self.path}/{where}?{'&'.join(parts)}"

    def write(self, path: str | bytes, content: Any, **query: object) -> httpx.Response:
        return self.admin.put(self.url("files/content", path, **query), content=content)

    def read(self, path: str | bytes, **query: object) -> httpx.Response:
        return self.admin.get(self.url("files/content", path, **query))

    def listed(self, path: str | bytes = "/workspace", **query: object) -> dict[str, Any]:
        answer = self.admin.get(self.url("files", path, **query))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def names(self, path: str | bytes = "/workspace", **query: object) -> set[str]:
        return {each["name"] for each in self.listed(path, **query)["items"]}

    def stat(self, path: str | bytes) -> httpx.Response:
        return self.admin.get(self.url("files/stat", path))

    def mkdir(self, path: object, **body: object) -> httpx.Response:
        return self.admin.post(f"{self.path}/files/mkdir", json={"path": path, **body})

    def move(self, path: object, to: object, **body: object) -> httpx.Response:
        return self.admin.post(f"{self.path}/files/move", json={"path": path, "to": to, **body})

    def remove(self, path: str | bytes, **query: object) -> httpx.Response:
        return self.admin.delete(self.url("files", path, **query))

    def shell(self, line: str, **more: object) -> str:
        answer = self.admin.post(f"{self.path}/exec", json={"command": line, **more}, timeout=60)
        assert answer.status_code == 200, answer.text
        ended = answer.json()
        assert ended["code"] == 0, ended
        return str(ended["stdout"])

    def acts(self) -> int:
        """How many of the warden's own acts run inside."""
        return self.shell("cat /proc/[0-9]*/comm 2>/dev/null; true").split().count("act")

    def events(self, kind: str) -> list[dict[str, Any]]:
        asked = {"kind": kind, "subject": self.id, "newest_first": "false", "limit": 1000}
        return [event["data"] for event in self.admin.get("/api/v1/audit", params=asked).json()["items"]]

    def socket(self, where: str, token: str | None = None) -> ClientConnection:
        headers = {"authorization": f"Bearer {token or self.server.admin_token}"}
        url = self.server.url.replace("http", "ws") + f"{self.path}/{where}"
        return connect(url, additional_headers=headers, max_size=None, compression=None, proxy=None)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """One whose parents every user may pass through, as a data folder of root's must be."""
    made = Path(tempfile.mkdtemp(prefix="rf-", dir="/var/tmp"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def fenced(folder: Path, template: Path) -> Iterator[Callable[..., Ringfence]]:
    """A server with settings of the test's own."""
    build.build()
    opened: list[Any] = []

    def make(name: str, **settings: Any) -> Ringfence:
        data = folder / name
        data.mkdir(mode=0o711)
        runtime = Native(Boxes(data / "sandboxes", Tools.find()))
        context = running(data, template, runtime=runtime, sandbox_grace=0, **settings)
        opened.append(context)
        return context.__enter__()

    yield make
    for context in opened:
        context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def native(fenced: Callable[..., Ringfence]) -> Ringfence:
    """One server for all tests of a worker: each has a sandbox of its own."""
    return fenced("native")


@pytest.fixture
def box(native: Ringfence) -> Iterator[Box]:
    made = Box(native)
    yield made
    native.admin.delete(made.path)


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    return dict(answer.json())


def memory_of() -> int:
    """Bytes that the server, which is in this process, has resident now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
