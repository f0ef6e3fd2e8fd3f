"""What is in a native sandbox, what its limits do, and what is left when it is gone."""

import asyncio
import os
import re
import resource
import signal
import stat
from pathlib import Path

import pytest

from ringfence.fence.model import Cause, Limits
from ringfence.fence.runtimes.native import tools
from ringfence.fence.runtimes.native.box import Box
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.kernel.errors import Invalid, Unavailable
from ringfence.kernel.processes import process_fields, process_started
from tests.fence.runtimes.conftest import Inside, blueprint, native, running

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="what only root can hold up")


def host_machine_id() -> str:
    path = Path("/etc/machine-id")
    return path.read_text() if path.exists() and path.read_text() else "none"


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def parent_of(pid: int) -> int:
    fields = process_fields(pid)
    assert fields is not None
    return int(fields[1])


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def user_of(pid: int) -> int:
    fields = re.search(r"^Uid:\t(\d+)\t\1\t\1\t\1$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert fields is not None, "one user in every way"
    return int(fields[1])


async def test_programs_are_the_agent_without_a_right(runtime: Native) -> None:
    async with running(runtime) as inside:
        said = await inside.run(
            "id -u; id -un; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; cat /proc/self/oom_score_adj"
        )
    zero = "0000000000000000"
    assert said.split() == [
        "1000", "agent", "CapInh:", zero, "CapPrm:", zero, "CapEff:", zero, "CapBnd:", zero, "CapAmb:", zero,
        "NoNewPrivs:", "1", "1000",
    ]  # fmt: skip


async def test_its_own_folders_can_be_written_and_the_machines_cannot(runtime: Native) -> None:
    async with running(runtime) as inside:
        said = await inside.run(
            "for f in /home/agent /workspace /tmp /var/tmp /dev/shm /etc /usr /usr/bin /dev /run/ringfence /sys /proc; "
            "do (: > $f/probe) 2>/dev/null && echo $f; done"
        )
    assert said.split() == ["/home/agent", "/workspace", "/tmp", "/var/tmp", "/dev/shm"] + (
        ["/sys"] if os.geteuid() != 0 else []
    )


async def test_nothing_of_the_host_is_seen_but_its_programs(runtime: Native) -> None:
    async with running(runtime, hostname="quiet") as inside:
        said = await inside.run("ls -A /home /root /opt /srv /mnt; ls /; hostname; env; ls -A /home/agent /workspace")
        host = await inside.run("cat /etc/machine-id /etc/shadow 2>&1; ls /run /boot 2>&1")
    words = said.split()
    assert "quiet" in words
    assert "newbie" not in words
    assert {word.partition("=")[0] for word in words if "=" in word} == {"HOME", "PATH", "PWD"}
    assert host_machine_id() not in host
    assert "/etc/shadow: No such file" in host and "/boot': No such file" in host


async def test_what_the_kernel_tells_of_the_machine_is_hidden(runtime: Native) -> None:
    paths = "keys key-users kallsyms interrupts kcore kmsg timer_list sched_debug sysrq-trigger modules vmallocinfo"
    async with running(runtime) as inside:
        said = await inside.run(f"cd /proc; for f in {paths}; do head -c 1 $f 2>/dev/null | grep -q . && echo $f; done")
        listed = await inside.run("cd /proc; ls -A acpi scsi bus fs irq driver 2>/dev/null | grep -v :$")
        sysctl = await inside.run("find /proc/sys -type f -writable 2>/dev/null | head")
    assert (said, listed.split(), sysctl) == ("", [], "")


async def test_no_descriptor_of_ours_reaches_a_program(runtime: Native) -> None:
    async with running(runtime) as inside:
        said = await inside.python(
            "import os\nfor fd in os.listdir('/proc/self/fd'):\n  try: print(os.readlink(f'/proc/self/fd/{fd}'))\n"
            "  except FileNotFoundError: pass"
        )
    kinds = {path.partition(":")[0] for path in said.split()}
    assert kinds <= {"/dev/null", "socket"}, "its input, and the stand-in's link as its output"


async def test_the_warden_cannot_be_read_traced_or_killed(runtime: Native) -> None:
    async with running(runtime) as inside:
        said = await inside.run(
            "kill -9 1 2>/dev/null; kill -STOP 1 2>/dev/null; cat /proc/1/environ /proc/1/maps 2>/dev/null; "
            "cat /proc/1/fd/* /proc/1/mem 2>/dev/null; ls /proc/1/root 2>/dev/null; readlink /proc/1/fd/*; echo still"
        )
        assert said == "still\n"
        assert (await runtime.found(inside.id)).life == inside.life  # type: ignore[union-attr]


async def test_its_root_may_be_read_only_but_for_its_own_folders(runtime: Native) -> None:
    async with running(runtime, read_only=True) as inside:
        said = await inside.run(
            "for f in /home/agent /workspace /tmp / /var/tmp /home; do (: > $f/probe) 2>/dev/null && echo $f; done"
        )
        assert said.split() == ["/home/agent", "/workspace", "/tmp"]


async def test_what_is_written_may_live_in_memory_and_is_bounded_there(runtime: Native) -> None:
    async with running(runtime, memory_disk=True, limits=Limits(disk=8 << 20, requested=frozenset({"disk"}))) as inside:
        said = await inside.run(
            "for f in /home/agent /workspace / /var/tmp; "
            "do dd if=/dev/zero of=$f/big bs=1M count=20 2>/dev/null; done; "
            "cat /home/agent/big /workspace/big /big /var/tmp/big 2>/dev/null | wc -c"
        )
        assert 4 << 20 < int(said) <= 8 << 20
        assert not list((runtime.link_folder(inside.id).parent / "disk/upper").rglob("big"))


async def test_a_memory_disk_must_say_its_size(runtime: Native) -> None:
    with pytest.raises(Invalid, match=r"limits\.disk"):
        await runtime.create(blueprint(memory_disk=True))


async def test_a_fork_bomb_is_held(runtime: Native) -> None:
    """The limit counts bubblewrap and the warden too, hence a little more than it says."""
    async with running(runtime, limits=Limits(pids=40, requested=frozenset({"pids"}))) as inside:
        said = await inside.python(
            "import os, time\nborn = 0\ntry:\n  while born < 200:\n    if os.fork() == 0:\n"
            "      os.close(1); os.close(2); time.sleep(60)\n    born += 1\nexcept BlockingIOError: print(born)"
        )
        assert 20 < int(said) <= 42
        stats = await runtime.stats(inside.id)
        assert stats.pids is not None and stats.pids <= 42
        await asyncio.wait_for(runtime.stop(inside.id), 10)


@as_root
async def test_memory_is_held_and_the_kill_is_counted(runtime: Native) -> None:
    async with running(runtime, limits=Limits(memory=48 << 20, requested=frozenset({"memory"}))) as inside:
        said = await inside.run("python3 -c 'x = bytearray(200 << 20)'; echo status $?")
        assert "status 137" in said
        stats = await runtime.stats(inside.id)
        assert stats.memory_kills == 1 and stats.memory_peak is not None and stats.memory_peak <= 48 << 20
        assert await inside.run("echo alive") == "alive\n"


@as_root
async def test_tmp_counts_as_memory(runtime: Native) -> None:
    async with running(runtime, limits=Limits(memory=32 << 20)) as inside:
        await inside.run(
            "dd if=/dev/zero of=/tmp/big bs=1M count=100 2>/dev/null; dd if=/dev/zero of=/dev/shm/b bs=1M count=99 2>&-"
        )
        peak = (await runtime.stats(inside.id)).memory_peak
        assert peak is not None and peak <= 32 << 20


@as_root
async def test_cpu_is_held(runtime: Native) -> None:
    async with running(runtime, limits=Limits(cpus=0.2, requested=frozenset({"cpus"}))) as inside:
        await inside.run("timeout 1 sh -c 'while :; do :; done'")
        used = (await runtime.stats(inside.id)).cpu_us
        assert used is not None and used < 450_000


@as_root
async def test_each_sandbox_is_another_user_of_the_host_and_its_files_are_its_own(runtime: Native) -> None:
    async with running(runtime) as one, running(runtime) as two:
        owners = [Box(runtime.link_folder(inside.id).parent).owner for inside in (one, two)]
        assert len(set(owners)) == 2 and all(owner >= 1_900_000_000 for owner in owners)
        for inside, owner in zip((one, two), owners, strict=True):
            assert user_of(inside.life.pid) == owner
            disk = runtime.link_folder(inside.id).parent / "disk"
            assert (disk.stat().st_uid, stat.S_IMODE(disk.stat().st_mode)) == (owner, 0o700)


async def test_a_warden_that_is_killed_died_and_can_be_started_again(runtime: Native) -> None:
    async with running(runtime) as inside:
        await inside.run("sleep 1000 >/dev/null 2>&1 & echo x > /home/agent/x")
        os.kill(inside.life.pid, signal.SIGKILL)
        assert await asyncio.wait_for(runtime.ended(inside.id, inside.life), 5) is Cause.DIED
        assert (await runtime.found(inside.id)).life is None  # type: ignore[union-attr]
        await inside.start()
        assert await inside.run("cat /home/agent/x") == "x\n"


async def test_another_server_finds_what_lives_and_its_warden_dials_again(
    runtime: Native, data: Path, programs: tools.Tools
) -> None:
    async with running(runtime) as inside:
        await inside.close()
        after = native(data, programs)
        await after.open()
        found = await after.found(inside.id)
        assert found is not None and found.life == inside.life
        again = Inside(after, inside.plan)
        await again.listen()
        await again.linked()
        assert await again.run("echo back") == "back\n"
        await again.close()
        await after.stop(inside.id)
        assert await after.ended(inside.id, inside.life) is Cause.STOPPED
        await after.close()


async def test_a_life_is_found_even_when_its_note_was_never_written(runtime: Native) -> None:
    async with running(runtime) as inside:
        lock = runtime.link_folder(inside.id).parent / "lock"
        os.truncate(lock, 0)
        found = await runtime.found(inside.id)
        assert found is not None and found.life == inside.life
        await runtime.stop(inside.id)
        assert process_started(inside.life.pid) is None


async def test_why_it_could_not_be_started_is_told(runtime: Native, data: Path) -> None:
    plan = blueprint()
    await runtime.create(plan)
    (data / "boxes" / plan.id / "disk/upper").rename(data / "boxes" / plan.id / "disk/elsewhere")
    with pytest.raises(Unavailable, match=r"bwrap: .*upper"):
        await runtime.start(plan, b"k" * 32)
    (data / "boxes" / plan.id / "disk/elsewhere").rename(data / "boxes" / plan.id / "disk/upper")
    inside = Inside(runtime, plan)
    await inside.start()
    await inside.close()


async def test_hostile_trees_are_removed(runtime: Native, data: Path) -> None:
    async with running(runtime) as inside:
        await inside.run(
            "cd /workspace; ln -s / root; mkfifo pipe; mkdir -p \"$(printf 'a\\nb')/c\"; "
            ": > \"$(printf '\\377\\376')\"; "
            "mkdir shut; : > shut/in; chmod 0 shut; ln -s ../../../.. up"
        )
        await inside.python(
            "import os\nos.chdir('/workspace')\nos.mkdir('many')\n"
            "for i in range(20000): os.close(os.open(f'many/{i}', os.O_CREAT))\n"
            "for i in range(3000): os.mkdir('d'); os.chdir('d')"
        )
        marker = data.parent / "outside"
        marker.write_text("untouched")
        await runtime.destroy(inside.id)
        assert marker.read_text() == "untouched"
        assert list((data / "boxes").iterdir()) == list((data / "trash").iterdir()) == []


async def test_nothing_is_left_of_a_sandbox(runtime: Native) -> None:
    def traces(sandbox: str) -> list[str]:
        groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/**/{sandbox}")]
        return groups + [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if sandbox in line]

    fds = open_descriptors()
    async with running(runtime) as inside:
        await inside.run("sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 &")
        assert name_of(parent_of(inside.life.pid)) != "bwrap", "it only waited"
    assert traces(inside.id) == []
    assert process_started(inside.life.pid) is None
    await asyncio.sleep(0)
    assert len(open_descriptors() - fds) <= 1  # the stream of the test's own link may close later


async def test_a_server_with_a_thousand_descriptors_open_starts_one_more(runtime: Native) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    open_ones: list[int] = []
    try:
        while not open_ones or open_ones[-1] < 1100:
            open_ones.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        async with running(runtime) as inside:
            assert await inside.run("echo well") == "well\n"
    finally:
        for fd in open_ones:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
