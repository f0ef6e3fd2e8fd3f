"""What of this host a sandbox must not reach: its addresses, abstract sockets, files and namespaces; and what the
kernel holds a sandbox to."""

import contextlib
import ipaddress
import os
import platform
import pwd
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from ringfence.kernel.processes import boot_id

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
MOST = 120  # of each kind; the probe takes a few more
MATTERS = (
    "/etc/passwd", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key", "/etc/krb5.keytab", "/etc/ssl/private", "/etc/kubernetes", "/etc/fstab",
    "/etc/crontab", "/etc/resolv.conf", "/etc/hosts", "/etc/machine-id", "/root", "/root/.ssh",
    "/root/.bash_history", "/home", "/boot", "/var/log", "/var/lib", "/var/lib/docker", "/var/lib/containerd",
    "/var/lib/kubelet", "/var/spool/cron", "/var/run", "/run/systemd", "/run/user", "/srv", "/opt", "/mnt",
    "/media", "/dev/mqueue", "/sys", "/sys/fs/cgroup",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Host:
    namespaces: dict[str, str]  # of this server, by kind
    machine_id: str
    hostname: str
    boot_id: str
    kernel: str

    @classmethod
    def here(cls) -> "Host":
        namespaces = {}
        for kind in NAMESPACES:
            with contextlib.suppress(OSError):
                namespaces[kind] = str(Path(f"/proc/self/ns/{kind}").readlink())
        return cls(namespaces, _line("/etc/machine-id"), socket.gethostname(), boot_id(), platform.release())


def told(port: int, data: Path, *, root: bool) -> bytes:
    """What the probe is to try that it cannot know. On its input: nobody else in the sandbox can read that."""
    lines = [f"port {port}", *(["root"] if root else [])]
    lines += [f"address {address}" for address in addresses()[:MOST]]
    lines += [f"socket {name}" for name in abstract_sockets()[:MOST]]
    lines += [f"file {path} {device} {inode}" for path, device, inode in files(data)[:MOST]]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def addresses() -> list[str]:
    """All of this host's but the loopback's, and those that mean nothing without an interface."""
    found = set(re.findall(r"\|-- ([\d.]+)\n\s*/32 host LOCAL", _text("/proc/net/fib_trie")))
    for line in _text("/proc/net/if_inet6").splitlines():
        found.add(str(ipaddress.IPv6Address(int(line.split()[0], 16))))
    real = (ipaddress.ip_address(address) for address in found)
    return sorted(str(one) for one in real if not one.is_loopback and not one.is_link_local)


def abstract_sockets() -> list[str]:
    words = (line.split(maxsplit=7) for line in _text("/proc/net/unix").splitlines()[1:])
    names = {each[7][1:] for each in words if len(each) == 8 and each[7].startswith("@")}
    return sorted(name for name in names if name and "@" not in name and not re.search(r"\s", name))


def files(data: Path) -> list[tuple[str, int, int]]:
    """Each with what tells it from every other file: its device and inode."""
    homes = {entry.pw_dir for entry in pwd.getpwall() if entry.pw_uid >= 1000 or entry.pw_uid == os.geteuid()}
    found = []
    for path in dict.fromkeys(
        [*MATTERS, *sorted(homes), str(data), str(data / "ringfence.db"), "/var/run/docker.sock"]
    ):
        with contextlib.suppress(OSError):
            about = Path(path).stat()
            found.append((path, about.st_dev, about.st_ino))
    return [each for each in found if not re.search(r"\s", each[0])]


def held(pid: int) -> dict[str, int | None]:
    """What control groups hold a process to, as the kernel has it: bytes, thousandths of processors, processes."""
    groups = {
        controller: path
        for line in _text(f"/proc/{pid}/cgroup").splitlines()
        for _, controllers, path in [line.split(":", 2)]
        for controller in controllers.split(",")
    }
    if "memory" in groups:
        root = Path("/sys/fs/cgroup")
        cpu = root / "cpu" / groups.get("cpu", "").lstrip("/")
        period, quota = _number(cpu / "cpu.cfs_period_us"), _number(cpu / "cpu.cfs_quota_us")
        return {
            "memory": _number(root / "memory" / groups["memory"].lstrip("/") / "memory.limit_in_bytes"),
            "pids": _number(root / "pids" / groups.get("pids", "").lstrip("/") / "pids.max"),
            "cpus": quota * 1000 // period if period and quota and quota > 0 else None,
        }
    group = Path("/sys/fs/cgroup", groups.get("", "/").lstrip("/"))
    share = _line(str(group / "cpu.max")).split()
    return {
        "memory": _number(group / "memory.max"),
        "pids": _number(group / "pids.max"),
        "cpus": int(share[0]) * 1000 // int(share[1]) if len(share) == 2 and share[0].isdigit() else None,
    }


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="surrogateescape")
    except OSError:
        return ""


def _line(path: str) -> str:
    return _text(path).partition("\n")[0].strip()
