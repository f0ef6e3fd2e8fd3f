"""Root inside: what it can do in its sandbox, and what it cannot do to its warden or to the host."""

import os
from collections.abc import AsyncIterator

import pytest

from ringfence.fence.link.model import Link
from ringfence.fence.model import Limits, User
from ringfence.fence.runtimes.model import Unsupported
from ringfence.fence.runtimes.native import maps
from tests.fence.runtimes.archives import Entry, tar, tiny
from tests.fence.runtimes.hosts import Box, Host, native_host, program, ran

CAPABILITIES = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31))  # as warden/confine.c lists them
can = os.geteuid() == 0 or maps.own().is_range
needs_ids = pytest.mark.skipif(not can, reason="this user has no range of ids")


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    with native_host() as found:
        await found.open()
        try:
            yield found
        finally:
            await found.close()


async def rooted(host: Host, **more: object) -> tuple[Box, Link]:
    owned = [Entry("etc"), Entry("etc/owned", b"x", owner=(5, 7)), Entry("etc/secret", b"s", mode=0o600)]
    await host.bring(tar([*tiny(), *owned]))
    return await host.running(image="tiny", user=User.ROOT, **more)


async def said(link: Link, line: str) -> str:
    out, _ = await ran(link, program("/bin/sh", "-c", f"exec 2>&1; {line}", cwd=b"/"))
    return out.decode(errors="replace")


@needs_ids
async def test_root_inside_owns_the_system_and_gives_files_away(host: Host) -> None:
    _, link = await rooted(host)
    out = await said(
        link,
        "id -u; stat -c %u:%g /bin/busybox /etc/owned; cat /etc/secret; chown 33:34 /etc/owned; "
        "stat -c %u:%g /etc/owned; echo new > /etc/new; cat /etc/new; mkdir -p /usr/local/x && echo made",
    )
    assert out.split() == ["0", "0:0", "5:7" if can else "0:0", "s33:34", "new", "made"]


@needs_ids
async def test_root_inside_becomes_others_and_they_are_held_to_it(host: Host) -> None:
    _, link = await rooted(host)
    out = await said(
        link,
        "echo s > /etc/mine; chmod 600 /etc/mine; "
        "su -s /bin/sh agent -c 'id -u; cat /etc/mine; echo x > /home/agent/y'; chown agent /home/agent; "
        "su -s /bin/sh agent -c 'echo z > /home/agent/z'; stat -c %u /home/agent/z",
    )
    assert out.split()[0] == "1000"
    assert "can't open '/etc/mine'" in out and out.split()[-1] == "1000"


@needs_ids
async def test_it_has_the_capabilities_that_are_written_down_and_no_others(host: Host) -> None:
    _, link = await rooted(host)
    lines = (await said(link, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")).splitlines()
    found = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert {int(found[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {CAPABILITIES}
    assert int(found["CapInh"], 16) & ~CAPABILITIES == 0
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


@needs_ids
async def test_its_warden_cannot_be_killed_read_or_traced(host: Host) -> None:
    box, link = await rooted(host)
    out = await said(
        link,
        "kill -9 1; kill -STOP 1; cat /proc/1/environ /proc/1/maps /proc/1/mem; cat /proc/1/fd/*; ls /proc/1/root/; "
        "echo 1 > /proc/1/oom_score_adj; echo 0 > /proc/sys/kernel/hostname; echo still",
    )
    assert out.splitlines()[-1] == "still"
    assert "Permission denied" in out
    found = await host.runtime.found(box.id)
    assert found is not None and found.life == box.life
    assert await said(link, "echo alive") == "alive\n"


@needs_ids
async def test_no_mount_device_module_or_namespace_is_to_be_had(host: Host) -> None:
    _, link = await rooted(host)
    for line in (
        "mount -t tmpfs none /mnt", "mount --bind /etc /mnt", "mount -o remount,rw /run/ringfence",
        "busybox mknod /tmp/sda b 8 0", "busybox mknod /tmp/null c 1 3", "busybox unshare -U true",
        "busybox hostname other", "busybox insmod x", "busybox chroot / /bin/sh -c 'mount -t proc x /proc'",
        "busybox ip link add d0 type dummy", "echo x > /run/ringfence/hosts",
    ):  # fmt: skip
        assert (await said(link, f"({line}) >/dev/null && echo DONE")).find("DONE") < 0, line


@needs_ids
async def test_its_ids_are_nobody_elses_on_the_host(host: Host) -> None:
    one, link = await rooted(host)
    await said(link, "echo x > /home/agent/mine; chown 1234 /home/agent/mine")
    written = host.runtime.link_folder(one.id).parent / "disk/upper/home/agent/mine"
    if os.geteuid() == 0:
        two, _ = await host.running(image="tiny", user=User.ROOT)
        owners = [(host.runtime.link_folder(box.id).parent / "disk").stat().st_uid for box in (one, two)]
        assert abs(owners[0] - owners[1]) >= 65536
        assert written.stat().st_uid == owners[0] + 1234
    else:
        assert written.stat().st_uid == maps.own().uids[1][1] + 1233
    await host.runtime.destroy(one.id)
    assert not written.exists()


@needs_ids
async def test_what_root_inside_locked_away_is_removed_too(host: Host) -> None:
    box, link = await rooted(host)
    await said(
        link, "mkdir -p /workspace/a/b; echo x > /workspace/a/b/c; chown -R 77:77 /workspace/a; chmod 0 /workspace/a"
    )
    await host.runtime.destroy(box.id)
    assert not (host.runtime.link_folder(box.id).parent).exists()
    assert host.files("fence/trash") == []


@needs_ids
async def test_layers_stay_as_they_are_whatever_root_inside_does(host: Host) -> None:
    await rooted(host)
    _, link = await host.running(image="tiny", user=User.ROOT)
    await said(link, "rm -rf /etc; chmod 777 /bin/busybox; chown 9 /bin/busybox; rm /bin/cat")
    _, other = await host.running(image="tiny", user=User.ROOT)
    assert (await said(other, "stat -c %u:%a /bin/busybox; cat /etc/secret")).split() == ["0:755", "s"]


@needs_ids
async def test_hosts_own_programs_stay_read_only_for_root(host: Host) -> None:
    _, link = await host.running(user=User.ROOT)
    out = await said(link, "id -u; touch /usr/bin/x && echo DONE; touch /opt/x && echo mine")
    assert out.split()[0] == "0" and "DONE" not in out and out.split()[-1] == "mine"


@pytest.mark.skipif(can, reason="this user has one")
async def test_without_a_range_of_ids_it_is_refused_with_what_would_enable_it(host: Host) -> None:
    assert host.runtime.capabilities().users == {"agent"}
    with pytest.raises(Unsupported, match="usermod --add-subuids"):
        await host.created(user=User.ROOT)


@needs_ids
@pytest.mark.skipif(os.geteuid() == 0, reason="root can")
async def test_an_ordinary_users_root_has_no_disk_in_memory(host: Host) -> None:
    limits = Limits(disk=8 << 20)
    with pytest.raises(Unsupported, match="memory_disk"):
        await host.created(user=User.ROOT, memory_disk=True, limits=limits)
