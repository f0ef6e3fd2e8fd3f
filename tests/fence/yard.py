"""A server whose sandboxes are real ones, and short ways to do things inside them."""

import base64
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from ringfence.fence.model import Life
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.tools import Tools
from tests.harness import Ringfence, running
from warden import build

API = "/api/v1/sandboxes"
WITHIN = 60.0
AS_ROOT = os.geteuid() == 0


def until(happened: Callable[[], Any], what: str, within: float = 20.0) -> Any:
    give_up = time.monotonic() + within
    while time.monotonic() < give_up:
        if found := happened():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {within} s")


class Sandbox:
    def __init__(self, server: Ringfence, made: dict[str, Any]) -> None:
        self.server = server
        self.id: str = made["id"]
        self.path = f"{API}/{self.id}"

    @property
    def folder(self) -> Path:
        """The host's folder of its link."""
        return self.server.house.lives._living_runtime().link_folder(self.id)

    @property
    def life(self) -> Life:
        found = self.server.run(self.server.house.lives._living_runtime().found(self.id))
        assert found is not None and found.life is not None
        life: Life = found.life
        return life

    def post(self, verb: str, **body: Any) -> dict[str, Any]:
        patience = float(body.get("timeout", 0)) + WITHIN
        answer = self.server.admin.post(f"{self.path}/{verb}", json=body, timeout=patience)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def run(self, *argv: str, **more: Any) -> dict[str, Any]:
        return self.post("exec", argv=list(argv), **{"timeout": WITHIN, **more})

    def shell(self, line: str, **more: Any) -> str:
        """What it said, both kinds."""
        return str(self.run("/bin/sh", "-c", f"exec 2>&1; {line}", **more)["stdout"])

    def python(self, code: str, **more: Any) -> dict[str, Any]:
        return self.run("/usr/bin/python3", "-c", code, **more)

    def begin(self, *argv: str, **more: Any) -> str:
        answer = self.server.admin.post(f"{self.path}/exec", json={"argv": list(argv), "detach": True, **more})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def show_exec(self, exec_id: str) -> dict[str, Any]:
        return dict(self.server.admin.get(f"{self.path}/execs/{exec_id}").json())

    def ended(self, exec_id: str, within: float = WITHIN) -> dict[str, Any]:
        until(lambda: self.show_exec(exec_id)["state"] == "ended", f"the end of {exec_id}", within)
        return self.show_exec(exec_id)

    def put(self, path: str, content: bytes) -> None:
        """A program into it: by its own shell, a piece at a time."""
        plain = base64.b64encode(content).decode()
        done = self.run("/bin/sh", "-c", f"base64 -d > {path} && chmod 755 {path}", stdin=plain)
        assert done["code"] == 0, done

    def show(self) -> dict[str, Any]:
        return dict(self.server.admin.get(self.path).json())

    def stats(self) -> dict[str, Any]:
        return dict(self.server.admin.get(f"{self.path}/stats").json())

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = self.server.admin.get("/api/v1/audit", params={"kind": kind, "subject": self.id, "limit": 1000})
        return list(found.json()["items"])


class Yard:
    def __init__(self, server: Ringfence, data: Path) -> None:
        self.server = server
        self.data = data

    @property
    def admin(self) -> httpx.Client:
        return self.server.admin

    @contextlib.contextmanager
    def sandbox(self, **body: Any) -> Iterator[Sandbox]:
        made = self.admin.post(API, json={"name": f"box-{uuid.uuid4().hex[:8]}", **body}, timeout=WITHIN)
        assert made.status_code == 201, made.text
        found = Sandbox(self.server, made.json())
        try:
            yield found
        finally:
            gone = self.admin.delete(found.path, timeout=WITHIN)
            assert gone.status_code == 200, gone.text


@contextlib.contextmanager
def yard(template: Path, **settings: Any) -> Iterator[Yard]:
    build.build()
    # Parents that every user may pass through, as those of a data folder of root's must be.
    folder = Path(tempfile.mkdtemp(prefix="yard-", dir="/var/tmp" if AS_ROOT else None))
    folder.chmod(0o711)
    try:
        runtime = Native(Boxes(folder / "sandboxes", Tools.find()))
        with running(folder / "data", template, runtime=runtime, sandbox_grace=0, **settings) as server:
            yield Yard(server, folder)
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, capture_output=True)
        shutil.rmtree(folder)


def compiled(source: str, into: Path) -> bytes:
    """A static program."""
    into.with_suffix(".c").write_text(source)
    compiler = shutil.which("gcc") or shutil.which("cc")
    command = [compiler] if compiler else next(build._compilers("x86_64"))
    subprocess.run(
        [*command, "-static", "-O1", "-D_GNU_SOURCE", "-pthread", "-o", into, into.with_suffix(".c")], check=True
    )
    return into.read_bytes()
