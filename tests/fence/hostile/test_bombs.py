"""Bombs: each goes off in a real sandbox, which is limited with a stated cause, while the server answers as ever.

How long its event loop stands still is measured in its own process, beside an idle loop that has nothing to do: what
that one suffers is the machine's doing.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.fence.yard import API, AS_ROOT, Sandbox, until

LONGEST = 50.0  # milliseconds a loop may stand still, beyond what the machine does to an idle one
as_root = pytest.mark.skipif(not AS_ROOT, reason="takes control groups")


class Loop:
    """A process that measures its event loop."""

    def __init__(self, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fence.hostile.watched", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
        )  # fmt: skip
        self.told: dict[str, str] = self._hear()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def stall(self) -> float:
        """The longest since it was asked last."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._hear())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Watched:
    def __init__(self, server: Loop, idle: Loop) -> None:
        self._server, self._idle = server, idle
        headers = {"authorization": f"Bearer {server.told['token']}"}
        self.admin = httpx.Client(base_url=server.told["url"], headers=headers, timeout=300, trust_env=False)

    @contextlib.contextmanager
    def unmoved(self) -> Iterator[None]:
        """While this lasts the server goes on as if nothing were."""
        self._server.stall(), self._idle.stall()
        yield
        stall, machine = self._server.stall(), self._idle.stall()
        assert stall < LONGEST + machine, f"its loop stood still for {stall:.0f} ms, an idle one for {machine:.0f} ms"

    @contextlib.contextmanager
    def sandbox(self, **body: Any) -> Iterator[Sandbox]:
        made = self.admin.post(API, json={"name": f"bomb-{uuid.uuid4().hex[:8]}", **body})
        assert made.status_code == 201, made.text
        box = Sandbox(SimpleNamespace(admin=self.admin), made.json())  # type: ignore[arg-type]
        try:
            yield box
            assert box.shell("echo well") == "well\n"
        finally:
            assert self.admin.delete(box.path).status_code == 200


@pytest.fixture(scope="module")
def watched(template: Path) -> Iterator[Watched]:
    folder = Path(tempfile.mkdtemp(prefix="bombs-", dir="/var/tmp" if AS_ROOT else None))
    folder.chmod(0o711)
    server, idle = Loop(folder, template), Loop("--idle")
    try:
        yield Watched(server, idle)
    finally:
        server.close()
        idle.close()
        shutil.rmtree(folder)


def test_a_fork_bomb_is_held_and_ended(watched: Watched) -> None:
    with watched.unmoved(), watched.sandbox(pids=64) as box:
        bomb = box.begin(
            "/usr/bin/python3", "-c", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", timeout=1.5
        )
        most = 0

        def over() -> bool:
            nonlocal most
            most = max(most, box.stats()["pids"] or 0)
            return bool(box.show_exec(bomb)["state"] == "ended")

        until(over, "its end", 30)
        assert 32 < most <= 66
        assert box.show_exec(bomb)["cause"] == "timeout"
        until(lambda: (box.stats()["pids"] or 0) <= 4, "nothing of it is left")


def printed(watched: Watched, size: int) -> None:
    with watched.unmoved(), watched.sandbox() as box:
        done = box.run("/usr/bin/head", "-c", str(size), "/dev/zero", timeout=900)
        assert (done["code"], done["stdout_bytes"]) == (0, size)
        assert done["stdout_kept"] == 16 << 20 and done["truncated"] is True


def test_a_flood_of_output_is_counted_and_not_kept(watched: Watched) -> None:
    printed(watched, 64 << 20)


@pytest.mark.long
def test_ten_gigabytes_of_output_are_counted_and_not_kept(watched: Watched) -> None:
    printed(watched, 10 << 30)


def filled(watched: Watched, count: int) -> None:
    line = (
        f"import os\nfor i in range({count}):\n  if i % 1000 == 0: os.makedirs(f'/workspace/{{i}}')\n"
        "  os.close(os.open(f'/workspace/{i // 1000 * 1000}/{i}', os.O_CREAT))\nprint(i)"
    )
    with watched.unmoved(), watched.sandbox() as box:
        assert box.python(line, timeout=600)["stdout"] == f"{count - 1}\n"
        listed = watched.admin.get(f"{box.path}/files", params={"path": "/workspace"})
        assert len(listed.json()["items"]) == count // 1000


def test_many_small_files_are_made_and_removed(watched: Watched) -> None:
    filled(watched, 5_000)


@pytest.mark.long
def test_a_million_small_files_are_made_and_removed(watched: Watched) -> None:
    filled(watched, 1_000_000)


@as_root
def test_a_memory_hog_is_killed_and_that_is_an_event_with_its_cause(watched: Watched) -> None:
    with watched.unmoved(), watched.sandbox(memory="64M") as box:
        hog = box.python("x = bytearray(300 << 20)")
        assert (hog["cause"], hog["signal"]) == ("signalled", 9)
        until(lambda: box.events("sandbox_limit_reached"), "the event")
        (event,) = box.events("sandbox_limit_reached")
        told = event["data"]
        assert (told["limit"], told["cause"], told["amount"], told["kills"]) == ("memory", "memory", 64 << 20, 1)
        assert box.shell("python3 -c 'x = bytearray(300 << 20)'; echo $?").splitlines()[-1] == "137"
        assert box.run("/bin/sh", "-c", "python3 -c 'x = bytearray(300 << 20)'; exit 3")["code"] == 3
        until(lambda: sum(one["data"]["kills"] for one in box.events("sandbox_limit_reached")) == 3, "each is counted")
        assert box.show()["state"] == "running"


@as_root
def test_memory_taken_without_a_process_is_held_too(watched: Watched) -> None:
    """In /tmp, in shared memory, in pipes and sockets, in names that take no bytes."""
    with watched.unmoved(), watched.sandbox(memory="64M", pids=64) as box:
        box.shell(
            "dd if=/dev/zero of=/tmp/a bs=1M count=200; dd if=/dev/zero of=/dev/shm/b bs=1M count=200", timeout=60
        )
        box.python(
            "import os, socket\nheld = []\ntry:\n  while True:\n    r, w = os.pipe(); os.set_blocking(w, False)\n"
            "    held.append((r, w))\n    while os.write(w, bytes(65536)): pass\nexcept OSError: pass\n",
            timeout=60,
        )  # fmt: skip
        assert box.stats()["memory_peak"] <= 64 << 20


def test_names_without_bytes_run_out(watched: Watched) -> None:
    with watched.unmoved(), watched.sandbox() as box:
        said = box.python(
            "import os\nfor folder in ('/tmp', '/dev/shm'):\n  count = 0\n  try:\n"
            "    while count < 200000: os.close(os.open(f'{folder}/{count}', os.O_CREAT)); count += 1\n"
            "  except OSError as e: print(folder, 100000 < count < 131072, e.errno)",
            timeout=120,
        )
        assert said["stdout"] == "/tmp True 28\n/dev/shm True 28\n", said


def test_a_disk_in_memory_is_full_at_its_size(watched: Watched) -> None:
    with watched.unmoved(), watched.sandbox(memory_disk=True, disk="16M") as box:
        said = box.shell("dd if=/dev/zero of=/workspace/x bs=1M count=100; cat /workspace/x | wc -c", timeout=60)
        assert "No space left" in said and 8 << 20 < int(said.split()[-1]) <= 16 << 20
        box.shell("rm /workspace/x")


def test_a_thousand_descriptors_each_in_many_processes_stop_nobody(watched: Watched) -> None:
    with watched.unmoved(), watched.sandbox(pids=64) as box:
        said = box.python(
            "import os\nfor _ in range(8):\n  if os.fork() == 0:\n    held = []\n    try:\n"
            "      while len(held) < 20000: held.append(os.open('/dev/null', os.O_RDONLY))\n    except OSError: pass\n"
            "    os._exit(0)\nfor _ in range(8): os.wait()\nprint('over')",
            timeout=60,
        )
        assert said["stdout"] == "over\n"


def test_a_deep_tree_and_names_of_any_bytes_are_listed_and_removed(watched: Watched) -> None:
    names = [b"a\nb", b"\xff\xfe", b"\x1b[31m", b" ", b"-rf", b"..x", b'"']
    line = (
        f"import os\nos.chdir('/workspace')\nfor name in {names!r}: os.mkdir(name); open(name + b'/f', 'w').close()\n"
        "for _ in range(1500): os.mkdir('d'); os.chdir('d')\nprint('made')"
    )
    with watched.unmoved(), watched.sandbox() as box:
        assert box.python(line, timeout=60)["stdout"] == "made\n"
        listed = watched.admin.get(f"{box.path}/files", params={"path": "/workspace"})
        assert len(listed.json()["items"]) == len(names) + 1
        assert "\x1b" not in listed.text and "\n" not in listed.text
