"""Snapshots of the native runtime: whatever a sandbox wrote is kept as it was, and nothing more than it."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from ringfence.fence.link.model import Link
from ringfence.fence.model import Limits, User
from ringfence.fence.runtimes.model import Unsupported
from ringfence.fence.runtimes.native import maps
from ringfence.kernel.errors import Conflict, NotFound
from ringfence.kernel.ids import new
from tests.fence.runtimes.archives import Entry, layout, tar, tiny
from tests.fence.runtimes.hosts import Host, native_host, program, ran

ODD = """
import os, sys
os.chdir('/workspace')
os.mkdir('many')
for i in range(3000): os.close(os.open(f'many/{i}', os.O_CREAT))
for i in range(1500): os.mkdir('d'); os.chdir('d')
open('deepest', 'w').write('deep')
os.chdir('/workspace')
os.mkfifo('pipe'); os.symlink('/etc/passwd', 'out'); os.symlink('x' * 4000, 'long')
open(b'\\xff\\n', 'w').write('odd')
with open('sparse', 'wb') as f: f.seek(1 << 36); f.write(b'end')
open('first', 'w').write('linked' * 1000)
for i in range(200): os.link('first', f'link{i}')
os.setxattr('first', 'user.note', b'kept'); os.chmod('first', 0o6751)
os.mkdir('shut'); open('shut/in', 'w').write('in'); os.chmod('shut', 0)
import socket
socket.socket(socket.AF_UNIX).bind('socket')
"""
LOOK = """
import os
os.chdir('/workspace')
print(len(os.listdir('many')), os.stat('pipe').st_mode >> 12, os.readlink('out'), len(os.readlink('long')))
print(open(b'\\xff\\n').read(), os.stat('sparse').st_size, os.stat('sparse').st_blocks < 100)
print(os.stat('first').st_nlink, os.stat('link7').st_ino == os.stat('first').st_ino, os.getxattr('first', 'user.note'))
print(oct(os.stat('first').st_mode & 0o7777), oct(os.stat('shut').st_mode & 0o7777), os.path.exists('socket'))
os.chmod('shut', 0o700); print(open('shut/in').read())
for i in range(1500): os.chdir('d')
print(open('deepest').read())
"""


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    with native_host() as found:
        await found.open()
        try:
            yield found
        finally:
            await found.close()


async def said(link: Link, *argv: str) -> str:
    out, ended = await ran(link, program(*argv, cwd=b"/"))
    assert ended.code == 0, ended
    return out.decode()


async def shell(link: Link, line: str) -> str:
    return await said(link, "/bin/sh", "-c", f"exec 2>&1; {line}")


async def kept(host: Host, box: str) -> tuple[str, int]:
    await host.runtime.stop(box)
    name = new("snp")
    return name, await host.runtime.snapshot(box, name)


async def test_a_hostile_tree_is_kept_as_it_is(host: Host) -> None:
    box, link = await host.running()
    await said(link, "python3", "-c", ODD)
    name, size = await kept(host, box.id)
    assert size < 1 << 20, "holes and further names of a file cost nothing"
    other, again = await host.running(snapshot=name)
    assert (await said(again, "python3", "-c", LOOK)).split("\n") == [
        "3000 1 /etc/passwd 4000", f"odd {(1 << 36) + 3} True", "201 True b'kept'", "0o751 0o0 False", "in", "deep", "",
    ]  # fmt: skip
    await host.runtime.destroy(other.id)
    await host.runtime.forget_snapshot(name)
    assert host.files("fence/snapshots") == [], "it can be removed again"


async def test_what_was_removed_stays_removed_and_lies_over_the_image(host: Host) -> None:
    below = [Entry("etc"), Entry("etc/gone", b"1"), Entry("etc/stays", b"2"), Entry("opt"), Entry("opt/old", b"3")]
    user = User.ROOT if os.geteuid() == 0 or maps.own().is_range else User.AGENT
    await host.bring(layout([tar([*tiny(), *below])]))
    box, link = await host.running(image="tiny", user=user)
    await shell(link, "rm /etc/gone; rm -r /opt; mkdir /opt; echo new > /opt/new")
    name, _ = await kept(host, box.id)
    await host.runtime.destroy(box.id)
    await host.runtime.forget_image("tiny")
    second, link = await host.running(image="tiny", snapshot=name, user=user)
    assert (await shell(link, "ls /opt; cat /etc/stays; ls /etc/gone || true")).split()[:2] == ["new", "2ls:"]
    await shell(link, "echo more > /opt/more")
    another, _ = await kept(host, second.id)
    await host.runtime.forget_snapshot(name)
    _, link = await host.running(image="tiny", snapshot=another, user=user)
    assert (await shell(link, "ls /opt")).split() == ["more", "new"]
    await host.runtime.forget_snapshot(another)
    for each in host.boxes:
        await host.runtime.destroy(each.id)
    await host.runtime.forget_snapshot(another)
    assert host.files("fence/snapshots") == host.files("fence/images/layers") == []


async def test_it_is_taken_of_what_stands_still_alone(host: Host) -> None:
    box, link = await host.running()
    with pytest.raises(Conflict, match="pause or stop it"):
        await host.runtime.snapshot(box.id, new("snp"))
    await said(link, "sh", "-c", "echo x > /home/agent/x")
    host.links.suspend(box.id)
    await host.runtime.pause(box.id)
    await host.runtime.snapshot(box.id, name := new("snp"))
    await host.runtime.resume(box.id)
    host.links.resume(box.id)
    assert await said(link, "cat", "/home/agent/x") == "x\n"
    _, other = await host.running(snapshot=name)
    assert await said(other, "cat", "/home/agent/x") == "x\n"
    with pytest.raises(NotFound):
        await host.runtime.snapshot(new("sbx"), new("snp"))


async def test_what_lives_in_memory_or_is_read_only_is_refused_in_a_sentence(host: Host) -> None:
    box = await host.created(memory_disk=True, limits=Limits(disk=8 << 20))
    with pytest.raises(Unsupported, match="memory"):
        await host.runtime.snapshot(box.id, new("snp"))
    plain = await host.created()
    await host.runtime.snapshot(plain.id, name := new("snp"))
    with pytest.raises(Unsupported, match="read_only"):
        await host.created(snapshot=name, read_only=True)
    with pytest.raises(NotFound):
        await host.created(snapshot=new("snp"))


async def test_what_a_crash_left_half_copied_is_swept(host: Host) -> None:
    half = host.folder / "fence/snapshots/.half"
    await asyncio.to_thread((half / "files/deep").mkdir, parents=True)
    await host.reopen()
    await host.runtime.close()
    assert host.files("fence/snapshots") == []
    await host.reopen()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is everything itself")
async def test_run_by_root_no_file_of_a_snapshot_is_a_sandboxs_or_roots(host: Host) -> None:
    box, link = await host.running()
    await said(link, "sh", "-c", "echo x > /home/agent/x; chmod 4755 /home/agent/x")
    name, _ = await kept(host, box.id)
    copy = host.folder / "fence/snapshots" / name / "files/home/agent/x"
    owner = (host.runtime.link_folder(box.id).parent / "disk").stat().st_uid
    about = await asyncio.to_thread(copy.stat)
    assert about.st_uid >= 1_900_000_000
    assert not owner <= about.st_uid < owner + 65536
    assert about.st_mode & 0o7777 == 0o755
