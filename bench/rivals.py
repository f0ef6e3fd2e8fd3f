"""What else starts a program on this machine: a bare fork, a bare bubblewrap, and Docker where it is installed."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.fence import Times, pss_of
from ringfence.fence.runtimes.native import bwrap

DAEMON_WITHIN = 30.0
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # into /usr


def fork(count: int) -> Times:
    return _runs(count, ["/bin/true"])


def bubblewrap(count: int) -> Times:
    """The same one, with nothing but namespaces and this machine's own files."""
    return _runs(count, [str(bwrap.find()), "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"])


@dataclass(frozen=True, slots=True)
class Docker:
    """A daemon of our own, and an image that shows this machine's /usr, as `host` does."""

    program: str
    host: str

    def __call__(self, *words: str) -> str:
        command = [self.program, "--host", self.host, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def words(self, verb: str, *options: str) -> list[str]:
        usr = ["--network", "none", "--volume", "/usr:/usr:ro"]
        return [self.program, "--host", self.host, verb, *options, *usr, "bench"]


def without_docker() -> str | None:
    """Why it cannot be measured here."""
    if os.geteuid() != 0:
        return "its daemon takes root"
    missing = [name for name in ("docker", "dockerd", "containerd", "runc") if shutil.which(name) is None]
    return f"{', '.join(missing)} is missing: apt-get install docker.io" if missing else None


@contextlib.contextmanager
def docker() -> Iterator[Docker | None]:
    """With its own folders, socket and network of nothing: another daemon on this machine is not touched."""
    program = shutil.which("docker")
    if program is None or without_docker() is not None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ringfence-bench-docker-", dir="/var/tmp") as folder:
        host = f"unix://{folder}/docker.sock"
        daemon = [
            "dockerd", "--host", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
            "--pidfile", f"{folder}/pid", "--bridge", "none", "--iptables=false", "--ip6tables=false",
        ]  # fmt: skip
        with Path(folder, "said").open("wb") as said:
            process = subprocess.Popen(daemon, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                found = Docker(program, host)
                _await(found, process, Path(folder, "said"))
                _import(found, Path(folder))
                yield found
            finally:
                process.terminate()
                process.wait(30)
        _unmount(folder)


def of_docker(docker: Docker, count: int) -> dict[str, Any]:
    run = _runs(count, [*docker.words("run", "--rm"), "python3", "-V"])
    before = pss_of(_named("containerd-shim")) or 0.0
    idle = [docker(*docker.words("run", "--detach")[3:], "sleep", "1000") for _ in range(5)]
    shims = pss_of(_named("containerd-shim")) or 0.0
    inside = pss_of([int(docker("inspect", "--format", "{{.State.Pid}}", one)) for one in idle]) or 0.0
    exec = _runs(count, [docker.program, "--host", docker.host, "exec", idle[0], "true"])
    docker("rm", "--force", *idle)
    return {"run": asdict(run), "exec": asdict(exec), "pss": (shims - before + inside) / len(idle)}


def _await(docker: Docker, process: subprocess.Popen[bytes], said: Path) -> None:
    deadline = time.monotonic() + DAEMON_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(subprocess.CalledProcessError):
            docker("version")
            return
        time.sleep(0.1)
    raise SystemExit(f"dockerd did not serve: {said.read_text(errors='replace')[-2000:]}")


def _import(docker: Docker, folder: Path) -> None:
    root = folder / "root"
    for name in ("usr", "etc", "tmp", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True)
    for name in LINKS:
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    subprocess.run(["tar", "-C", root, "-cf", folder / "root.tar", "."], check=True)
    docker("import", str(folder / "root.tar"), "bench")


def _unmount(folder: str) -> None:
    """What the daemon left mounted."""
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for path in reversed([path for path in mounted if path.startswith(f"{folder}/")]):
        subprocess.run(["umount", "--lazy", path], check=False)


def _runs(count: int, command: Sequence[str]) -> Times:
    return Times.of([_timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(count)])


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _named(prefix: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text().startswith(prefix[:15]):
                found.append(int(path.parent.name))
    return found
