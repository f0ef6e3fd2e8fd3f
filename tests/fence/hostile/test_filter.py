"""The filter on system calls, number by number: its program is computed here for every call there is."""

import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from warden import build

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers here are of x86_64")
X86_64, I386, AARCH64, X32 = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000000
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, ENOSYS, EPROTONOSUPPORT = ERRNO | 1, ERRNO | 38, ERRNO | 93
# What Docker's default profile lets nobody do who has no capability, by its name in <asm/unistd_64.h>.
REFUSED_BY_DOCKER = """
acct add_key afs_syscall bpf chroot clock_settime clone3 create_module delete_module fanotify_init finit_module
fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy getpmsg init_module io_uring_enter io_uring_register
io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount
mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root
process_madvise putpmsg query_module quotactl quotactl_fd reboot request_key security set_mempolicy
set_mempolicy_home_node setdomainname sethostname setns settimeofday swapoff swapon _sysctl sysfs syslog tuxcall
umount2 unshare uselib userfaultfd ustat vhangup vserver
"""
NEEDED = """
read write openat close mmap execve exit_group wait4 kill ptrace socketpair clone prlimit64 futex epoll_pwait
getrandom
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, int, int, int]]:
    compiler = shutil.which("gcc") or shutil.which("cc")
    command = [compiler] if compiler else next(build._compilers("x86_64"))
    dump = tmp_path_factory.mktemp("filter") / "dump"
    subprocess.run(
        [*command, "-D_GNU_SOURCE", f"-I{build.HERE}", "-Wno-unused-function", "-o", dump, HERE / "filter.c"],
        check=True,
    )
    raw = subprocess.run([dump], check=True, capture_output=True).stdout
    return list(struct.iter_unpack("=HBBI", raw))


@pytest.fixture(scope="module")
def numbers() -> dict[str, int]:
    header = next(Path("/usr/include").rglob("asm/unistd_64.h"), None)
    if header is None:
        pytest.skip("no headers of the kernel")
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", header.read_text())}


Program = list[tuple[int, int, int, int]]


def answer(program: Program, number: int, *arguments: int, machine: int = X86_64) -> int:
    """What the kernel would do: the few instructions of classic BPF that the filter is made of."""
    data = struct.pack("=IIQ6Q", number, machine, 0, *[*arguments, *[0] * 6][:6])
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x15 | 0x25 | 0x35 | 0x45:
                holds = {
                    0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value,
                    0x45: accumulator & value != 0,
                }[code]  # fmt: skip
                at += if_true if holds else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"instruction {code:#x}")


def test_every_number_has_one_of_three_answers_and_those_nobody_knows_do_not_exist(program: Program) -> None:
    for number in range(1024):
        assert answer(program, number) in (ALLOW, EPERM, ENOSYS), number
    for number in [*range(470, 4096), 0x3FFFFFFF]:
        assert answer(program, number) == ENOSYS, number


def test_what_docker_refuses_is_refused(program: Program, numbers: dict[str, int]) -> None:
    known = [name for name in REFUSED_BY_DOCKER.split() if name in numbers]
    assert len(known) > 60
    for name in known:
        for first in (0, 1, 0xFFFFFFFF):
            assert answer(program, numbers[name], first) != ALLOW, name


def test_what_programs_need_is_there(program: Program, numbers: dict[str, int]) -> None:
    assert {name for name in NEEDED.split() if answer(program, numbers[name], 0) != ALLOW} - {"socketpair"} == set()
    assert answer(program, numbers["socketpair"], 1) == ALLOW


def test_no_other_table_of_calls_leads_around_it(program: Program) -> None:
    for number in range(1024):
        assert answer(program, number, machine=I386) == EPERM
        assert answer(program, number, machine=AARCH64) == EPERM
        assert answer(program, X32 + number) == EPERM
    assert answer(program, 0xFFFFFFFF) == EPERM


def test_no_flag_of_clone_makes_a_namespace(program: Program, numbers: dict[str, int]) -> None:
    clone = numbers["clone"]
    assert answer(program, clone, 0x11) == ALLOW
    assert answer(program, clone, 0x3D0F00) == ALLOW, "a thread"
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        for others in (0, 0x11, 0x3D0F00, 0xFFFFFFFF_00000000):
            assert answer(program, clone, flag | others) == EPERM, hex(flag)
    assert answer(program, numbers.get("clone3", 435)) == ENOSYS, "so that a libc takes clone"


def test_only_sockets_that_have_a_use_can_be_made(program: Program, numbers: dict[str, int]) -> None:
    def socket(*arguments: int) -> int:
        return answer(program, numbers["socket"], *arguments)

    unix, inet, inet6, netlink = 1, 2, 10, 16
    for family in range(64):
        if family not in (unix, inet, inet6, netlink):
            assert socket(family, 1, 0) == EPERM, family
    assert socket(unix, 1, 0) == ALLOW
    assert [socket(inet, kind, 0) for kind in (1, 2)] == [socket(inet6, kind, 0) for kind in (1, 2)] == [ALLOW] * 2
    assert [protocol for protocol in range(64) if socket(netlink, 3, protocol) == ALLOW] == [0]
    for protocol in (132, 136, 262, 33, 41, 255):  # SCTP, UDP-Lite, MPTCP, DCCP, …
        assert socket(inet, 1, protocol) == socket(inet6, 1, protocol) == EPROTONOSUPPORT
    high = 1 << 32  # the kernel drops the upper half: nothing hides in it
    assert socket(high | 17, 3, 0) == EPERM and socket(high | inet, 1, high) == ALLOW
    for family in (inet, netlink, 40):
        assert answer(program, numbers["socketpair"], family, 1, 0) == EPERM


def test_terminals_and_personalities_are_looked_at(program: Program, numbers: dict[str, int]) -> None:
    ioctl, personality = numbers["ioctl"], numbers["personality"]
    for request in (0x5412, 0x541C, 0x5423):  # TIOCSTI, TIOCLINUX, TIOCSETD
        assert answer(program, ioctl, 0, request) == EPERM
        assert answer(program, ioctl, 0, (1 << 32) | request) == EPERM
    assert answer(program, ioctl, 0, 0x5413) == ALLOW
    allowed = {value for value in [*(1 << bit for bit in range(32)), 0, 8, 0x20008, 0xFFFFFFFF]
               if answer(program, personality, value) == ALLOW}  # fmt: skip
    assert allowed == {0, 8, 0x20000, 0x20008, 0xFFFFFFFF}


def test_limits_and_priorities_of_the_warden_cannot_be_set(program: Program, numbers: dict[str, int]) -> None:
    for name in ("prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"):
        assert answer(program, numbers[name], 1) == EPERM, name
        assert answer(program, numbers[name], (1 << 32) | 1) == EPERM, name
        assert answer(program, numbers[name], 0) == answer(program, numbers[name], 77) == ALLOW, name
    for name, process, group, user in (("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)):
        number = numbers[name]
        assert answer(program, number, process, 1) == answer(program, number, group, 1) == EPERM
        assert answer(program, number, user, 0) == answer(program, number, user, 1000) == EPERM
        assert answer(program, number, process, 0) == answer(program, number, group, 0) == ALLOW
