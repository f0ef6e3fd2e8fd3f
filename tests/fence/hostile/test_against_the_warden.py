"""What an agent may try against its own warden: each is tried from inside a real sandbox, and the warden goes on."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fence.yard import AS_ROOT, Sandbox, Yard, until

LIBC = "import ctypes, os, resource, signal, socket, struct, sys, time\nlibc = ctypes.CDLL(None, use_errno=True)\n"


@pytest.fixture
def box(ground: Yard) -> Iterator[Sandbox]:
    """A sandbox whose warden is the same, unharmed and at work, when the test is over."""
    with ground.sandbox(pids=256) as found:
        before = found.life
        yield found
        assert found.life == before
        assert found.shell("echo well") == "well\n"
        assert found.show()["restarts"] == 0


def test_no_signal_does_anything_to_it(box: Sandbox) -> None:
    said = box.python(
        f"{LIBC}for number in (1, 2, 3, 10, 12, 15): signal.signal(number, signal.SIG_IGN)  # those it hands on\n"
        "warden = os.pidfd_open(1)\nfor number in range(1, 65):\n"
        "  libc.kill(1, number), libc.syscall(234, 1, 1, number), libc.syscall(200, 1, number)\n"
        "  libc.syscall(424, warden, number, None, 0), libc.sigqueue(1, number, 0)\n"
        "for _ in range(20000): libc.sigqueue(1, 40, 0)\nprint('done')"
    )
    assert said["stdout"] == "done\n", (said["cause"], said["signal"], said["stderr"][-500:])
    assert Path(f"/proc/{box.life.pid}/stat").read_text().rpartition(") ")[2][0] in "SRD"


def test_its_limits_and_priorities_cannot_be_touched(box: Sandbox) -> None:
    said = box.python(
        f"{LIBC}none = struct.pack('=QQ', 0, 0)\n"
        "tries = [(302, 1, 0, none, None), (302, 1, 7, none, None), (302, 1, 9, none, None), (141, 0, 1, 19),\n"
        "         (141, 2, 0, 19), (141, 2, 1000, 19), (203, 1, 128, bytes(128)), (144, 1, 5, bytes(4)),\n"
        "         (251, 1, 1, 3 << 13), (251, 3, 1000, 3 << 13), (314, 1, bytes(48), 0), (142, 1, bytes(4))]\n"
        "for one in tries:\n  print(libc.syscall(*one), ctypes.get_errno())"
    )
    assert set(said["stdout"].splitlines()) == {"-1 1"}
    limits = Path(f"/proc/{box.life.pid}/limits").read_text()
    assert "Max cpu time              unlimited" in limits
    assert os.getpriority(os.PRIO_PROCESS, box.life.pid) == os.getpriority(os.PRIO_PROCESS, 0)


def test_nothing_of_it_can_be_read(box: Sandbox) -> None:
    said = box.python(
        "import os\nfor top, folders, files in os.walk('/proc/1'):\n"
        "  for name in files + folders:\n    path = os.path.join(top, name)\n"
        "    if os.path.islink(path):\n"
        "      try: print('link', path, os.readlink(path))\n      except OSError: pass\n"
    )
    assert said["stdout"] == ""
    secrets = "mem environ maps smaps auxv stack syscall io pagemap map_files fd fdinfo"
    said = box.python(
        f"import os\nfor folder in ('/proc/1', '/proc/1/task/1'):\n  for name in '{secrets}'.split():\n"
        "    try:\n      fd = os.open(f'{folder}/{name}', os.O_RDONLY)\n      if os.read(fd, 8): print(folder, name)\n"
        "    except OSError: pass"
    )
    assert said["stdout"] == ""


def test_its_files_in_proc_belong_to_nobody_inside(box: Sandbox) -> None:
    if not AS_ROOT:
        pytest.skip("where one user is all there is, they are the agent's")
    assert box.shell("stat -c %u /proc/1/environ /proc/1/fd /proc/1/oom_score_adj").split() == ["65534"] * 3
    assert "denied" in box.shell("ls /proc/1/fd")


def test_a_full_run_folder_stops_nothing(box: Sandbox) -> None:
    box.shell("dd if=/dev/zero of=/run/full bs=64k; df /run | tail -1")
    made = box.python(
        "import os\ncount = 0\ntry:\n  while True: os.close(os.open(f'/run/{count}', os.O_CREAT)); count += 1\n"
        "except OSError as e: print(count, e.errno)"
    )
    assert int(made["stdout"].split()[1]) == 28, "no room, before the kernel's memory is full of names"
    assert box.shell("echo x > /workspace/y; cat /workspace/y") == "x\n"


def test_the_way_to_the_server_cannot_be_moved_replaced_or_shadowed(box: Sandbox) -> None:
    tries = [
        "rm -f ringfence/link.sock", "mv ringfence away", "mv ringfence/link.sock x", "rmdir ringfence",
        "ln -sf /tmp ringfence/x", "rm -f warden", "cp /bin/true warden", "chmod 777 ringfence", "touch ringfence/new",
        "mount --bind /tmp ringfence", "mv /run /run2",
    ]  # fmt: skip
    said = box.shell(f"cd /run; {'; '.join(f'{one} 2>/dev/null && echo {one}' for one in tries)}; echo end")
    assert said == "end\n"


def test_strangers_at_the_door_neither_get_in_nor_keep_it_shut(box: Sandbox) -> None:
    """Silent ones, ones that talk nonsense, and ones that greet with a wrong key: two hundred at once."""
    holding = box.begin(
        "/usr/bin/python3", "-c",
        f"{LIBC}held = []\n"
        "for number in range(200):\n"
        "  s = socket.socket(socket.AF_UNIX); s.settimeout(5)\n"
        "  try:\n    s.connect('/run/ringfence/link.sock')\n"
        "    if number % 3 == 1: s.send(os.urandom(64))\n"
        "    if number % 3 == 2: s.send(struct.pack('>IBI', 40, 2, 0) + bytes(40))\n"
        "    held.append(s)\n"
        "  except OSError: pass\n"
        "print(len(held), flush=True)\ntime.sleep(60)",
    )  # fmt: skip
    until(lambda: box.show_exec(holding)["stdout_bytes"], "strangers stand there")
    took = []
    for _ in range(10):
        began = time.monotonic()
        assert box.shell("echo served") == "served\n"
        took.append(time.monotonic() - began)
    assert sorted(took)[5] < 1.0
    server_says = box.server.admin.get("/healthz")
    assert server_says.status_code == 200


def test_more_sessions_than_it_has_room_for_are_refused_and_nothing_else(box: Sandbox) -> None:
    begun = []
    for _ in range(150):
        answer = box.server.admin.post(f"{box.path}/exec", json={"argv": ["/bin/sleep", "300"], "detach": True})
        begun.append(answer.json()["id"]) if answer.status_code == 202 else None
    running = [one for one in begun if box.show_exec(one)["state"] == "running"]
    assert 100 <= len(running) <= 128
    refused = [box.show_exec(one) for one in begun if one not in running]
    assert all(one["cause"] == "failed" and one["error"] for one in refused)
    for one in running:
        box.server.admin.post(f"{box.path}/execs/{one}/signal", json={"signal": "KILL"})
    until(lambda: all(box.show_exec(one)["state"] == "ended" for one in running), "they end")


def test_a_storm_of_orphans_is_reaped(box: Sandbox) -> None:
    box.python(
        f"{LIBC}for _ in range(1500):\n  while True:\n    try:\n      if os.fork() == 0:\n"
        "        if os.fork() == 0: os.setsid()\n        os._exit(0)\n      break\n"
        "    except BlockingIOError: time.sleep(.001)\n"
        "  os.wait()"
    )

    def zombies() -> int:
        return int(box.shell("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"))

    until(lambda: zombies() == 0, "nobody is left unburied")


REAPERS = "[int(p) for p in os.listdir('/proc') if p.isdigit() and open(f'/proc/{p}/comm').read() == 'reaper\\n']"


@pytest.mark.parametrize("number", ["SIGSTOP", "SIGKILL"])
def test_a_reaper_that_is_stopped_or_killed_keeps_nothing_alive(box: Sandbox, number: str) -> None:
    victim = box.begin("/bin/sh", "-c", "setsid sleep 301 & sleep 302")
    until(lambda: "301" in box.shell("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"), "it runs")
    box.python(f"{LIBC}own = os.getppid()\nfor pid in {REAPERS}:\n  if pid != own: os.kill(pid, signal.{number})")
    box.server.admin.post(f"{box.path}/execs/{victim}/signal", json={"signal": "KILL"})
    assert box.ended(victim)["state"] == "ended"
    until(
        lambda: not {"301", "302"} & set(box.shell("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'").split()),
        "nothing of it lives",
    )


def test_whoever_ignores_every_signal_is_ended_all_the_same(ground: Yard) -> None:
    with ground.sandbox() as box:
        deaf = box.begin(
            "/usr/bin/python3", "-c",
            f"{LIBC}signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
            "for n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
            "for _ in range(20):\n  if os.fork() == 0: os.setsid()\nprint(1, flush=True)\nwhile True: time.sleep(60)",
        )  # fmt: skip
        until(lambda: box.show_exec(deaf)["stdout_bytes"], "it runs")
        began = time.monotonic()
        assert box.post("stop", grace=0.5)["state"] == "stopped"
        assert time.monotonic() - began < 15
        (event,) = box.events("sandbox_stopped")
        assert box.show()["cause"] == "stopped" and event["data"]["state"] == "stopped"


def test_other_sandboxes_and_the_host_have_no_way_in(ground: Yard) -> None:
    """Abstract sockets, System V memory, files by the host's names, ports: between two sandboxes, and with the host."""
    mine = socket.socket(socket.AF_UNIX)
    name = f"hostile-{os.getpid()}"
    mine.bind(f"\0{name}")
    mine.listen()
    with mine, ground.sandbox() as one, ground.sandbox() as two:
        listening = one.begin(
            "/usr/bin/python3", "-c",
            f"{LIBC}a = socket.socket(socket.AF_UNIX); a.bind('\\0between'); a.listen()\n"
            "t = socket.socket(); t.bind(('0.0.0.0', 4455)); t.listen()\n"
            "libc.shmget(4242, 4096, 0o1666)\n"
            "for folder in ('/dev/shm', '/tmp'): open(folder + '/between', 'w').write('x')\n"
            "print(1, flush=True); time.sleep(60)",
        )  # fmt: skip
        until(lambda: one.show_exec(listening)["stdout_bytes"], "it listens")
        said = two.python(
            f"{LIBC}def tried(address, family=socket.AF_UNIX):\n  s = socket.socket(family); s.settimeout(1)\n"
            "  try: s.connect(address); print('reached', address)\n  except OSError: pass\n"
            f"tried('\\0between'); tried('\\0{name}'); tried(('127.0.0.1', 4455), socket.AF_INET)\n"
            f"tried(('127.0.0.1', {ground.server.port}), socket.AF_INET)\n"
            "if libc.shmget(4242, 4096, 0) != -1: print('memory')\n"
            f"for path in ('/dev/shm/between', '/tmp/between', {str(ground.data)!r}, {str(one.folder)!r}):\n"
            "  if os.path.exists(path): print('file', path)\n"
            "print(os.kill.__name__)"
        )
        assert said["stdout"] == "kill\n", said["stderr"]
        assert Path("/dev/shm/between").exists() is False
