"""What a warden does itself: docs/link.md "Acts", in a sandbox whose /tmp is empty, on trees that mean harm too."""

import errno
import io
import os
import random
import tarfile
import time
from typing import Any

import msgpack
import pytest

from tests.fence.fuzz.targets import tars
from tests.fence.warden.wire import Outcome, Server


def result(said: Outcome) -> dict[str, Any]:
    assert said.ended["cause"] == "exited", said.ended
    found = said.ended.get("result", {})
    assert isinstance(found, dict)
    return found


def failure(said: Outcome) -> int:
    assert said.ended["cause"] == "failed", said.ended
    assert said.ended["error"]
    return int(said.ended["errno"])


def maps(said: Outcome) -> list[dict[str, Any]]:
    return list(msgpack.Unpacker(io.BytesIO(bytes(said.out)), raw=False))


def read(server: Server, path: bytes, **keys: Any) -> bytes:
    said = server.act("read", path=path, **keys)
    result(said)
    return bytes(said.out)


def write(server: Server, path: bytes, data: bytes, **keys: Any) -> Outcome:
    return server.act("write", data, path=path, **{"how": "replace", **keys})


def names(server: Server, path: bytes, **keys: Any) -> set[bytes]:
    return {entry["name"] for entry in maps(server.act("list", path=path, **keys))}


def test_what_is_written_is_read_again_whole_or_in_part(server: Server) -> None:
    data = os.urandom(3_000_000)
    assert result(write(server, b"/tmp/a", data)) == {"size": len(data)}
    assert read(server, b"/tmp/a") == data
    assert read(server, b"/tmp/a", offset=2_999_990) == data[-10:]
    assert read(server, b"/tmp/a", offset=1000, length=70_000) == data[1000:71_000]
    assert read(server, b"/tmp/a", offset=4_000_000) == b""
    assert result(write(server, b"/tmp/a", b"more", how="append")) == {"size": 3_000_004}
    assert result(server.act("read", path=b"/tmp/a", length=0)) == {"size": 3_000_004}


def test_a_file_is_replaced_whole_and_keeps_its_mode_unless_told(server: Server) -> None:
    write(server, b"/tmp/script", b"one", mode=0o755)
    write(server, b"/tmp/script", b"two")
    said = result(server.act("stat", path=b"/tmp/script"))
    assert (said["name"], said["kind"], said["size"], said["mode"]) == (b".", "file", 3, 0o755)
    assert (said["uid"], said["gid"]) == (1000, 1000)
    assert abs(said["modified"] / 1e9 - time.time()) < 60
    assert names(server, b"/tmp") == {b"script"}


def test_a_link_is_written_through_and_stays_a_link(server: Server) -> None:
    server.shell("cd /tmp; echo old >target; ln -s target link; ln -s nowhere dangling")
    write(server, b"/tmp/link", b"new")
    assert read(server, b"/tmp/target") == b"new"
    assert result(server.act("stat", path=b"/tmp/link"))["target"] == b"target"
    write(server, b"/tmp/dangling", b"x")
    assert read(server, b"/tmp/dangling") == b"x"


def test_creating_refuses_what_exists_and_makes_parents_when_told(server: Server) -> None:
    assert failure(write(server, b"/tmp/a/b/c", b"1")) == errno.ENOENT
    assert result(write(server, b"/tmp/a/b/c", b"1", parents=True, how="create")) == {"size": 1}
    assert failure(write(server, b"/tmp/a/b/c", b"2", how="create")) == errno.EEXIST
    assert failure(write(server, b"/tmp/a/b", b"2")) == errno.EISDIR
    assert failure(write(server, b"/usr/x", b"2")) == errno.EROFS
    assert failure(write(server, b"tmp/x", b"2")) == errno.EINVAL
    assert read(server, b"/tmp/a/b/c") == b"1"


def test_a_full_disk_is_told_and_leaves_nothing_behind(server: Server) -> None:
    assert failure(write(server, b"/run/small/file", b"x" * 1_200_000)) == errno.ENOSPC
    assert names(server, b"/run/small") == set()
    server.shell("mkdir /run/small/t")
    assert failure(server.act("unpack", tar_of(("big", {}, b"x" * 1_200_000)), path=b"/run/small/t")) == errno.ENOSPC
    assert result(write(server, b"/run/small/t/big", b"fits")) == {"size": 4}


@pytest.mark.parametrize("act", ["read", "write"])
def test_a_fifo_a_socket_or_a_device_holds_nothing_up(server: Server, act: str) -> None:
    server.shell("mkfifo /tmp/fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/socket\")'")
    for path in (b"/tmp/fifo", b"/dev/zero", b"/tmp/socket", b"/tmp"):
        keys: dict[str, Any] = {"how": "append"} if act == "write" else {}
        said = server.act(act, b"x" if act == "write" else None, path=path, within=5, **keys)
        assert failure(said) in (errno.EINVAL, errno.ENXIO, errno.EISDIR)


def test_a_folder_is_listed_with_what_each_thing_is(server: Server) -> None:
    server.shell("cd /tmp; mkdir -p d/e/f; echo hi >d/file; ln -s ../x d/link; mkfifo d/fifo; chmod 640 d/file")
    said = server.act("list", path=b"/tmp/d")
    found = {entry["name"]: entry for entry in maps(said)}
    assert {name: entry["kind"] for name, entry in found.items()} == {
        b"e": "directory", b"file": "file", b"link": "link", b"fifo": "fifo",
    }  # fmt: skip
    assert (found[b"file"]["size"], found[b"file"]["mode"], found[b"link"]["target"]) == (3, 0o640, b"../x")
    assert result(said) == {"count": 4, "cut": False}
    assert names(server, b"/tmp/d", depth=2) == {b"e", b"e/f", b"file", b"link", b"fifo"}
    assert names(server, b"/tmp", depth=0) == {b"d", b"d/e", b"d/e/f", b"d/file", b"d/link", b"d/fifo"}
    assert result(server.act("list", path=b"/tmp/d", most=2)) == {"count": 2, "cut": True}
    assert failure(server.act("list", path=b"/tmp/d/file")) == errno.ENOTDIR


def test_names_of_any_bytes_come_through(server: Server) -> None:
    strange = [b"new\nline", b"\xff\xfe\x80", b"-rf", b"\x1b[31m", "ü".encode(), b"n" * 255, b" "]
    for name in strange:
        result(write(server, b"/tmp/" + name, name))
    assert names(server, b"/tmp") == set(strange)
    for name in strange:
        assert read(server, b"/tmp/" + name) == name
    assert result(server.act("remove", path=b"/tmp/" + strange[0])) == {"count": 1}


def test_folders_are_made_moved_and_removed(server: Server) -> None:
    result(server.act("mkdir", path=b"/tmp/a/b/c", parents=True, mode=0o700))
    assert failure(server.act("mkdir", path=b"/tmp/x/y")) == errno.ENOENT
    assert failure(server.act("mkdir", path=b"/tmp/a")) == errno.EEXIST
    result(server.act("mkdir", path=b"/tmp/a/b/c", parents=True))
    assert result(server.act("stat", path=b"/tmp/a/b/c"))["mode"] == 0o700
    write(server, b"/tmp/f", b"1")
    assert failure(server.act("move", path=b"/tmp/f", to=b"/tmp/a")) == errno.EEXIST
    result(server.act("move", path=b"/tmp/f", to=b"/tmp/a/f"))
    write(server, b"/tmp/g", b"2")
    assert failure(server.act("move", path=b"/tmp/g", to=b"/tmp/a/f")) == errno.EEXIST
    result(server.act("move", path=b"/tmp/g", to=b"/tmp/a/f", replace=True))
    assert read(server, b"/tmp/a/f") == b"2"
    assert failure(server.act("remove", path=b"/tmp/a")) == errno.ENOTEMPTY
    assert result(server.act("remove", path=b"/tmp/a", recursive=True)) == {"count": 4}
    assert failure(server.act("remove", path=b"/tmp/a")) == errno.ENOENT
    assert failure(server.act("remove", path=b"/", recursive=True)) == errno.EINVAL


def test_nothing_is_removed_or_moved_through_a_link(server: Server) -> None:
    server.shell("mkdir -p /tmp/kept/deep /tmp/d; touch /tmp/kept/deep/file; ln -s ../kept /tmp/d/link")
    assert failure(server.act("remove", path=b"/tmp/d/link/deep", recursive=True)) in (errno.ELOOP, errno.ENOTDIR)
    assert failure(server.act("move", path=b"/tmp/d/link/deep", to=b"/tmp/x")) in (errno.ELOOP, errno.ENOTDIR)
    assert result(server.act("remove", path=b"/tmp/d", recursive=True)) == {"count": 2}
    assert names(server, b"/tmp/kept/deep") == {b"file"}


def test_a_tree_deeper_than_any_path_is_listed_and_removed(server: Server) -> None:
    script = "import os\nos.chdir('/tmp')\nfor _ in range(6000):\n  os.mkdir('d'); os.chdir('d')"
    server.run("python3", "-c", script)
    said = server.act("list", path=b"/tmp", depth=0)
    assert result(said)["cut"] is True
    assert result(said)["count"] >= 1000
    assert failure(server.act("pack", path=b"/tmp/d")) == errno.ELOOP
    assert result(server.act("remove", path=b"/tmp/d", recursive=True)) == {"count": 6000}


def test_a_tree_that_changes_meanwhile_leads_nobody_astray(server: Server) -> None:
    """Folders become links to a kept one, and back, all the time."""
    swap = """
import os
import random
for n in range(100000):
    try: os.mkdir("/tmp/t/a"); open("/tmp/t/a/f", "w")
    except OSError: pass
    try: os.rename("/tmp/t/a", "/tmp/spare%d" % n)
    except OSError: pass
    try: os.symlink("/tmp/kept", "/tmp/t/a"); os.unlink("/tmp/t/a")
    except OSError: pass
"""
    server.shell("mkdir -p /tmp/t /tmp/kept; echo here >/tmp/kept/file")
    stream = server.start("python3", "-c", swap)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        server.act("remove", path=b"/tmp/t/a", recursive=True)
        packed = server.act("pack", path=b"/tmp/t")
        if packed.ended["cause"] == "exited":
            with tarfile.open(fileobj=io.BytesIO(bytes(packed.out))) as tar:
                assert not [name for name in tar.getnames() if "file" in name]
    server.signal(stream, 9)
    server.finish(stream)
    assert read(server, b"/tmp/kept/file") == b"here\n"


def tar_of(*members: tuple[str, dict[str, Any], bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as tar:
        for name, keys, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in keys.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def test_a_tree_comes_out_as_a_tar_that_others_read(server: Server) -> None:
    deep = "d" * 90 + "/" + "e" * 120
    server.shell(
        f"mkdir -p /tmp/t/{deep}; cd /tmp/t; seq 100000 >numbers; ln -s numbers link; chmod 751 {deep}; mkfifo fifo"
    )
    server.shell(f"cd /tmp/t; printf x >'{deep}/ü'; ln -s {'l' * 200} long; : >empty")
    write(server, b"/tmp/t/" + b"\xff" * 200, b"odd")
    said = server.act("pack", path=b"/tmp/t")
    with tarfile.open(fileobj=io.BytesIO(bytes(said.out)), encoding="utf-8", errors="surrogateescape") as tar:
        members = {member.name: member for member in tar}
        odd = (b"\xff" * 200).decode("utf-8", "surrogateescape")
        assert set(members) == {
            ".", "numbers", "link", "long", "empty", odd, "d" * 90, deep, f"{deep}/ü",
        }  # fmt: skip
        numbers = tar.extractfile("numbers")
        assert numbers is not None
        assert numbers.read() == b"".join(b"%d\n" % n for n in range(1, 100_001))
        assert members[deep].mode == 0o751
        assert members["link"].linkname == "numbers"
        assert members["long"].linkname == "l" * 200
    assert result(said) == {"count": 9, "bytes": len(said.out)}


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_is_unpacked_as_it_was_packed(server: Server, format: int) -> None:
    long = "/".join(["folder" * 5] * (3 if format == tarfile.USTAR_FORMAT else 8))
    data = os.urandom(200_000)
    tar = tar_of(
        (".", {"type": tarfile.DIRTYPE, "mode": 0o755}, b""),
        ("d", {"type": tarfile.DIRTYPE, "mode": 0o500}, b""),
        ("d/file", {"mode": 0o6750, "mtime": 1_600_000_000}, data),
        (f"{long}/deep", {}, b"deep"),
        ("d/link", {"type": tarfile.SYMTYPE, "linkname": "../d/file"}, b""),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "d/file"}, b""),
        format=format,
    )
    server.shell("mkdir /tmp/t")
    assert result(server.act("unpack", tar, path=b"/tmp/t")) == {"count": 6, "bytes": len(tar)}
    assert read(server, b"/tmp/t/d/link") == data
    assert read(server, b"/tmp/t/hard") == data
    assert read(server, f"/tmp/t/{long}/deep".encode()) == b"deep"
    about = result(server.act("stat", path=b"/tmp/t/d/file"))
    assert (about["mode"], about["modified"]) == (0o750, 1_600_000_000 * 10**9)
    result(server.act("unpack", tar, path=b"/tmp/t"))  # over what is there


@pytest.mark.parametrize(
    "member",
    [
        ("../out", {}, b"x"),
        ("/tmp/out", {}, b"x"),
        ("a/../../out", {}, b"x"),
        ("up", {"type": tarfile.SYMTYPE, "linkname": "../out"}, b""),
        ("a/up", {"type": tarfile.SYMTYPE, "linkname": "../../out"}, b""),
        ("root", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, b""),
        ("device", {"type": tarfile.CHRTYPE}, b""),
        ("fifo", {"type": tarfile.FIFOTYPE}, b""),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "../kept"}, b""),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, b""),
    ],
)
def test_what_leads_out_of_the_folder_or_is_no_file_is_refused(server: Server, member: Any) -> None:
    server.shell("mkdir /tmp/t; echo kept >/tmp/kept")
    assert failure(server.act("unpack", tar_of(member), path=b"/tmp/t")) == errno.EPERM
    assert names(server, b"/tmp") == {b"t", b"kept"}


def test_a_link_in_the_tar_is_not_gone_through(server: Server) -> None:
    server.shell("mkdir -p /tmp/t /tmp/kept; ln -s /tmp/kept /tmp/t/there")
    for tar in (
        tar_of(("there/x", {}, b"x")),
        tar_of(("s", {"type": tarfile.SYMTYPE, "linkname": "there"}, b""), ("s/x", {}, b"x")),
        tar_of(("hard", {"type": tarfile.LNKTYPE, "linkname": "there/file"}, b"")),
    ):
        assert failure(server.act("unpack", tar, path=b"/tmp/t")) in (errno.ELOOP, errno.ENOTDIR)
    assert names(server, b"/tmp/kept") == set()


@pytest.mark.parametrize("tar", [b"x" * 512, b"x" * 100, tar_of(("a", {}, b"y" * 5000))[:3000]])
def test_what_is_no_tar_or_half_of_one_is_told_so(server: Server, tar: bytes) -> None:
    server.shell("mkdir /tmp/t")
    assert failure(server.act("unpack", tar, path=b"/tmp/t")) == errno.EINVAL


def test_what_happens_in_a_folder_is_told(server: Server) -> None:
    server.shell("mkdir -p /tmp/w/sub")
    stream = server.start(do="watch", path=b"/tmp/w", recursive=True)
    watch = server.heard[stream]
    server.until(lambda: watch.pid)
    server.shell("cd /tmp/w; echo 1 >a; mv a sub/b; mkdir -p new/deep; sleep 0.05; echo 2 >new/deep/c; mv new other; "
                 "echo 3 >other/deep/d; rm sub/b; chmod 700 sub; mv other/deep/d /tmp/gone")  # fmt: skip
    server.until(lambda: b"attributes" in watch.out and b"other/deep/d" in watch.out)
    server.until(lambda: [m for m in maps(watch) if m["event"] == "removed" and m["path"] == b"other/deep/d"])
    told = [(m["event"], m["path"], m.get("to"), m["directory"]) for m in maps(watch)]
    for expected in (
        ("created", b"a", None, False),
        ("written", b"a", None, False),
        ("moved", b"a", b"sub/b", False),
        ("created", b"new", None, True),
        ("written", b"new/deep/c", None, False),
        ("moved", b"new", b"other", True),
        ("written", b"other/deep/d", None, False),
        ("removed", b"sub/b", None, False),
        ("attributes", b"sub", None, True),
    ):
        assert expected in told
    server.signal(stream, 9)
    assert server.finish(stream).ended["cause"] == "killed"


def test_more_events_than_are_read_are_told_as_lost(server: Server) -> None:
    server.shell("mkdir /tmp/w")
    server.stores = False
    stream = server.start(do="watch", path=b"/tmp/w")
    watch = server.heard[stream]
    server.until(lambda: watch.pid)
    many = server.start("python3", "-c", "for n in range(60000): open('/tmp/w/%0200d' % n, 'w').close()")
    server.finish(many, within=60)
    server.stores = True
    server.stored(stream, 1, len(watch.out))
    server.until(lambda: b"lost" in watch.out)
    server.signal(stream, 9)


def test_a_port_inside_is_dialled(server: Server) -> None:
    echo = (
        "import socket\nl = socket.create_server(('127.0.0.1', 8080))\nprint('ready', flush=True)\n"
        "while 1:\n c = l.accept()[0]\n while d := c.recv(65536): c.sendall(d.upper())\n c.close()"
    )
    program = server.start("python3", "-c", echo)
    server.until(lambda: b"ready" in server.heard[program].out)
    data = b"abc" * 500_000
    said = server.act("dial", data, port=8080)
    assert bytes(said.out) == data.upper()
    result(said)
    assert failure(server.act("dial", port=8081)) == errno.ECONNREFUSED
    assert failure(server.act("dial", port=0)) == errno.EINVAL


def test_an_act_that_is_not_known_is_told_so(server: Server) -> None:
    assert failure(server.act("dance")) == errno.ENOSYS


def test_an_act_that_is_ended_leaves_no_half_file(server: Server) -> None:
    stream = server.start(do="write", path=b"/tmp/half", how="replace")
    server.input(stream, 0, b"half")
    server.until(lambda: server.heard[stream].taken == 4)
    server.signal(stream, 9)
    assert server.finish(stream).ended["cause"] == "killed"
    assert b"half" not in names(server, b"/tmp")


def test_a_tar_that_is_spoiled_anyhow_is_unpacked_or_refused_and_nothing_is_beside(server: Server) -> None:
    dice, whole = random.Random(1), list(tars())
    assert server.shell("mkdir /tmp/in; echo mine > /tmp/beside").ended["code"] == 0
    taken = 0
    for _ in range(60):
        outcome = server.act("unpack", spoiled(dice.choice(whole), dice), path=b"/tmp/in")
        assert outcome.ended["cause"] in ("exited", "failed"), outcome.ended
        taken += outcome.ended["cause"] == "exited"
    assert 0 < taken < 60
    said = server.shell("ls -A /tmp; cat /tmp/beside; find /home /run/small -mindepth 1")
    assert said.out == b"beside\nin\nmine\n"


def spoiled(tar: bytes, dice: random.Random) -> bytes:
    """In a few places, most of them in a header, whose sum is made right again."""
    found = bytearray(tar)
    for _ in range(dice.randint(1, 4)):
        begin = dice.randrange(len(found) // 512) * 512
        at = begin + dice.choice([*range(0, 20), *range(100, 136), 156, *range(157, 170), *range(345, 360)])
        found[at : at + 3] = dice.choice([b"../", b"/..", b"\0\0\0", b"\x80\xff\xff", b"777", dice.randbytes(3)])
        found[begin + 148 : begin + 156] = b" " * 8
        if dice.random() < 0.9:
            found[begin + 148 : begin + 156] = b"%06o\0 " % sum(found[begin : begin + 512])
    return bytes(found[: dice.choice([len(found), len(found), dice.randrange(len(found))])])
