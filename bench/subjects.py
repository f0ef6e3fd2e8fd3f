"""What is measured: a Ringfence of our own, and the prior hub where a copy of it is given."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Subject:
    """A running server: where it is, who we are there, and the processes whose CPU time it costs."""

    name: str
    url: str
    pids: list[int]
    token: str | None = None
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    def cpu_seconds(self) -> float:
        total = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def resident_mib(self) -> float:
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@contextlib.contextmanager
def ringfence(port: int) -> Iterator[Subject]:
    """As `ringfence up` runs it, on a fresh folder of the disk this is called on."""
    program = [sys.executable, "-m", "ringfence.cli.main"]
    with tempfile.TemporaryDirectory(prefix="ringfence-bench-", dir=Path.cwd()) as folder:
        Path(folder).chmod(0o711)  # run by root, sandboxes are users of their own
        home = {
            **os.environ,
            "RINGFENCE_MESSAGE_RATE": "0",
            "RINGFENCE_LOG_LEVEL": "warning",
            "RINGFENCE_QUOTA_SANDBOXES": "0",
            "HOME": folder,
        }
        up = [*program, "up", "--data", f"{folder}/data", "--port", str(port), "--detach"]
        subprocess.run(up, env=home, check=True, stdout=subprocess.DEVNULL)
        try:
            create = [*program, "token", "create", "--role", "admin", "--name", "bench", "--data", f"{folder}/data"]
            token = subprocess.run(create, env=home, check=True, capture_output=True, text=True).stdout.strip()
            yield Subject("ringfence", f"http://127.0.0.1:{port}", _listeners(port), token)
        finally:
            subprocess.run(
                [*program, "down", "--data", f"{folder}/data"], env=home, check=True, stdout=subprocess.DEVNULL
            )


@contextlib.contextmanager
def hub(folder: Path, port: int) -> Iterator[Subject]:
    """The prior hub as shipped: Flask's server, state in memory. `folder` holds its `hub/`, and a venv in `venv/`.

    Its server would write a line for each request; ours writes none, so here neither does."""
    start = (
        "import logging, hub.server; logging.getLogger('werkzeug').setLevel('WARNING'); "
        f"hub.server.app.run(host='127.0.0.1', port={port}, threaded=True)"
    )
    python = folder / "venv/bin/python"
    process = subprocess.Popen([python, "-c", start], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port, process)
        yield Subject("hub", f"http://127.0.0.1:{port}", [process.pid])
    finally:
        process.terminate()
        process.wait(10)


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the copy of the hub ended with status {process.returncode}: {process.args!r}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/ping", trust_env=False).status_code == 200:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing answers on port {port}")


def _listeners(port: int) -> list[int]:
    """The processes that hold a socket listening on the port, their parents of the same program left out."""
    wanted = f":{port:04X}"
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(wanted) and line.split()[3] == "0A"
    }
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            links = {str(link.readlink()) for link in folder.iterdir()}
            if any(f"socket:[{inode}]" in links for inode in inodes):
                found.append(int(folder.parent.name))
    return found
