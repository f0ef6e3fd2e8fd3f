"""Facts about this host, read from where the kernel and the distribution tell them; elsewhere in a test."""

import contextlib
import os
import pwd
import re
import resource
import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    root: Path = Path("/")
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)

    def text(self, path: str) -> str:
        """Empty where there is no such file."""
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace")
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        text = self.text(path).strip()
        return int(text) if re.fullmatch(r"-?\d+", text) else None

    # The kernel

    @property
    def kernel(self) -> tuple[int, int]:
        found = re.match(r"(\d+)\.(\d+)", self.text("/proc/sys/kernel/osrelease"))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def is_filtered(self) -> bool:
        """Whether whoever started us filters our system calls, as containers do."""
        return re.search(r"^Seccomp:\s*2$", self.text("/proc/self/status"), re.M) is not None

    @property
    def has_filters(self) -> bool:
        return "errno" in self.text("/proc/sys/kernel/seccomp/actions_avail")

    @property
    def in_chroot(self) -> bool:
        """The root of a chroot is no mount of its own, or another than that of process 1."""
        points = {line.split(" ")[4] for line in self.text("/proc/self/mountinfo").splitlines()}
        if points and "/" not in points:
            return True
        with contextlib.suppress(OSError):
            return not (self.root / "proc/1/root").samefile(self.root)
        return False

    def mount_of(self, folder: Path) -> tuple[str, str]:
        """Where the filesystem of a folder is mounted, and its kind."""
        best = ("", "")
        for line in self.text("/proc/self/mountinfo").splitlines():
            before, _, after = line.partition(" - ")
            point = before.split(" ")[4]
            inside = point == "/" or folder == Path(point) or Path(point) in folder.parents
            if inside and len(point) >= len(best[0]):
                best = point, after.split(" ")[0]
        return best

    @property
    def cgroups(self) -> str:
        kinds = {line.partition(" - ")[2].split(" ")[0] for line in self.text("/proc/self/mountinfo").splitlines()}
        if "cgroup" not in kinds:
            return "v2" if "cgroup2" in kinds else ""
        return "hybrid" if "cgroup2" in kinds else "v1"

    # Ids

    @property
    def mapped(self) -> int:
        """How many users there are for us: fewer than all inside a user namespace."""
        lines = (line.split() for line in self.text("/proc/self/uid_map").splitlines())
        return sum(int(line[2]) for line in lines if len(line) == 3)

    def has_range(self, kind: str) -> bool:
        """Whether /etc/subuid or /etc/subgid gives this user 65536 ids."""
        with contextlib.suppress(KeyError):
            entry = pwd.getpwuid(os.geteuid())
            for line in self.text(f"/etc/{kind}").splitlines():
                name, _, span = line.partition(":")
                count = span.rpartition(":")[2]
                if name in (entry.pw_name, str(entry.pw_uid)) and count.isdigit() and int(count) >= 65536:
                    return True
        return False

    def has_program(self, name: str) -> bool:
        return shutil.which(name) is not None

    @property
    def user(self) -> str:
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(os.geteuid()).pw_name
        return str(os.geteuid())

    # How much there is

    def open_files(self) -> int:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return 1 << 30 if most == resource.RLIM_INFINITY else most

    def processes(self) -> int:
        most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        return 1 << 30 if most == resource.RLIM_INFINITY else most

    def free(self, folder: Path) -> int:
        return shutil.disk_usage(folder).free
