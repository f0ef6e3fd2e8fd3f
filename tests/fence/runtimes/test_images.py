"""Images of the native runtime: what is imported is there, each layer once, and nothing hostile comes of it."""

import asyncio
import gzip
import os
import random
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.fence.model import Image, ImageConfig
from ringfence.fence.runtimes.native import tools
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.kernel.errors import Invalid, NotFound, RingfenceError, TooLarge
from ringfence.kernel.ids import new
from tests.fence.runtimes.archives import COMPRESSED, Entry, layout, saved, tar, tiny
from tests.fence.runtimes.conftest import blueprint, native, running

MOST = 256 << 20
Bring = Callable[..., Image]


@pytest.fixture
def boxes(data: Path, programs: tools.Tools) -> Boxes:
    made = Boxes(data, programs)
    made.open()
    made.incoming.mkdir()
    return made


@pytest.fixture
def bring(boxes: Boxes) -> Bring:
    def bring(archive: bytes, name: str = "tiny", most: int = MOST) -> Image:
        spool = boxes.incoming / new("tar")
        spool.write_bytes(archive)
        try:
            return boxes.import_image(name, spool.name, most)
        finally:
            spool.unlink()

    return bring


def layers(boxes: Boxes) -> set[str]:
    return {entry.name for entry in (boxes.folder / "images/layers").iterdir()}


def is_clean(boxes: Boxes) -> bool:
    return not list((boxes.folder / "images/staging").iterdir())


async def seen(data: Path, programs: tools.Tools, line: str, **plan: object) -> str:
    """What a program in a sandbox of the image says."""
    runtime = native(data, programs)
    await runtime.open()
    try:
        async with running(runtime, image="tiny", **plan) as inside:
            return await inside.run(line)
    finally:
        await runtime.close()


@pytest.mark.parametrize("how", COMPRESSED)
async def test_a_root_is_imported_however_it_is_compressed(
    boxes: Boxes, bring: Bring, data: Path, programs: tools.Tools, how: str
) -> None:
    archive = tar([*tiny(), Entry("etc"), Entry("etc/issue", b"tiny\n"), Entry("etc/hosts", b"9.9.9.9 wrong\n")])
    image = bring(COMPRESSED[how](archive))
    assert (image.format, len(image.layers), image.config) == ("rootfs", 1, ImageConfig())
    assert boxes.images() == ["host", "tiny"]
    said = await seen(
        data, programs,
        "cat /etc/issue; hostname; cat /etc/hostname /etc/machine-id; cat /etc/hosts; cat /etc/resolv.conf; id; "
        "ls /usr; touch /workspace/x /home/agent/x /tmp/x /var/tmp/x && ls -d /workspace/x",
        hostname="quiet",
    )  # fmt: skip
    lines = said.splitlines()
    assert lines[:3] == ["tiny", "quiet", "quiet"]
    assert len(lines[3]) == 32
    assert "127.0.0.1 localhost quiet" in said and "9.9.9.9" not in said
    assert "nameserver 198.18.0.1" in said
    assert "uid=1000(agent) gid=1000(agent)" in said
    assert "ls: /usr: No such file" in said, "nothing of the host's"
    assert lines[-1] == "/workspace/x"


async def test_a_layer_hides_what_was_below_it(boxes: Boxes, bring: Bring, data: Path, programs: tools.Tools) -> None:
    below = tar([
        *tiny(), Entry("a"), Entry("a/gone", b"1"), Entry("a/kept", b"2"), Entry("b"), Entry("b/gone", b"3"),
        Entry("c"), Entry("c/gone", b"4"), Entry("d"), Entry("d/gone", b"5"), Entry("e", b"a file"),
    ])  # fmt: skip
    above = tar([
        Entry("a/.wh.gone", b""), Entry("b"), Entry("b/new", b"6"), Entry("b/.wh..wh..opq", b""), Entry(".wh.c", b""),
        Entry("c"), Entry("c/new", b"7"), Entry(".wh.d", b""), Entry(".wh.e", b""), Entry(".wh..wh.plnk", b""),
    ])  # fmt: skip
    image = bring(layout([below, above]))
    assert (image.format, len(image.layers)) == ("oci", 2)
    said = await seen(data, programs, "ls -d /a/* /b/* /c/* /d /e 2>&1")
    found = [line for line in said.splitlines() if "No such" not in line]
    assert found == ["/a/kept", "/b/new", "/c/new"]
    assert "/d: No such" in said and "/e: No such" in said


async def test_a_layer_may_hide_everything(boxes: Boxes, bring: Bring) -> None:
    image = bring(layout([tar([Entry("old", b"1")]), tar([Entry(".wh..wh..opq", b""), Entry("new", b"2")])]))
    assert len(image.layers) == 1
    assert layers(boxes) >= set(image.layers)


async def test_what_docker_save_wrote_is_imported_with_what_it_says_of_programs(bring: Bring) -> None:
    says = {
        "Env": ["PATH=/opt/bin", "A=b=c"], "WorkingDir": "/srv/app/", "User": "www", "Cmd": ["serve"],
        "Entrypoint": ["/entry"], "ExposedPorts": {},
    }  # fmt: skip
    image = bring(saved([tar(tiny()), tar([Entry("srv")])], says, ["acme/tiny:latest"]))
    assert image.format == "docker"
    assert image.config == ImageConfig(
        env=("PATH=/opt/bin", "A=b=c"), workdir="/srv/app", user="www", entrypoint=("/entry",), cmd=("serve",)
    )


async def test_a_layer_is_kept_once_and_as_long_as_something_needs_it(boxes: Boxes, bring: Bring) -> None:
    below, one, two = tar(tiny()), tar([Entry("one", b"1")]), tar([Entry("two", b"2")])
    first, second = bring(layout([below, one]), "first"), bring(saved([below, two], {}, ["second"]), "second")
    assert first.layers[0] == second.layers[0]
    assert len(layers(boxes)) == 3
    plan = blueprint(image="second")
    boxes.create(plan)
    boxes.forget_image("first")
    assert layers(boxes) == set(second.layers)
    boxes.forget_image("second")
    assert layers(boxes) == set(second.layers), "a sandbox needs it"
    boxes.destroy(plan.id)
    boxes.sweep()
    assert layers(boxes) == set()
    assert boxes.images() == ["host"]
    assert is_clean(boxes)


async def test_many_import_the_same_at_once(boxes: Boxes, bring: Bring) -> None:
    archive = layout([tar([Entry(f"f{number}", os.urandom(64)) for number in range(300)]), tar([Entry("top", b"")])])
    found = await asyncio.gather(*(asyncio.to_thread(bring, archive, f"one{number}") for number in range(4)))
    assert len({image.digest for image in found}) == 1
    assert len(layers(boxes)) == 2
    assert is_clean(boxes)


async def test_an_image_survives_a_restart_and_what_a_crash_left_is_swept(
    boxes: Boxes, bring: Bring, data: Path, programs: tools.Tools
) -> None:
    image = bring(tar(tiny()))
    (boxes.folder / "images/staging/half").mkdir()
    (boxes.folder / "images/staging/half/file").write_text("x")
    (boxes.folder / "images/named/.tiny.json.half").write_text("{")
    after = Boxes(data, programs)
    after.open()
    after.sweep()
    assert after.images() == ["host", "tiny"]
    assert layers(after) == set(image.layers)
    assert is_clean(after)


@pytest.mark.parametrize(
    "entry",
    [
        Entry("../up", b"x"), Entry("a/../../up", b"x"), Entry("a/..", None), Entry(".wh...", b""), Entry(".wh.", b""),
        Entry("out/passwd", b"x"), Entry("up/x/file", b"x"), Entry("x" * 300, b""), Entry("/".join("d" * 1200), b""),
        *(
            Entry("hard", kind=tarfile.LNKTYPE, link=link)
            for link in ("../../etc/passwd", "/etc/passwd", "nothing", "out/passwd", "folder")
        ),
    ],
    ids=lambda entry: f"{entry.name[:12]}-{entry.link[:12]}",
)  # fmt: skip
async def test_a_name_or_a_link_that_leads_elsewhere_is_refused(
    boxes: Boxes, bring: Bring, data: Path, entry: Entry
) -> None:
    links = [
        Entry("folder"), Entry("out", kind=tarfile.SYMTYPE, link="/etc"),
        Entry("up", kind=tarfile.SYMTYPE, link="../../../../../.."),
    ]  # fmt: skip
    with pytest.raises(Invalid):
        bring(tar([*links, entry]))
    assert sorted(path.name for path in data.parent.iterdir()) == ["fence", "incoming"]
    assert layers(boxes) == set() and is_clean(boxes) and boxes.images() == ["host"]


async def test_links_stay_as_they_are_and_nothing_is_written_through_them(boxes: Boxes, bring: Bring) -> None:
    image = bring(tar([
        Entry("/rooted", b"1"), Entry("./dotted", b"2"), Entry("link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
        Entry("link", b"now a file"), Entry("hard", kind=tarfile.LNKTYPE, link="rooted"),
        Entry("hard", kind=tarfile.LNKTYPE, link="hard"), Entry("folder"), Entry("folder/in", b"3"),
        Entry("folder", b"now a file"), Entry("dangling", kind=tarfile.SYMTYPE, link="../" * 40 + "etc/shadow"),
    ]))  # fmt: skip
    root = boxes.folder / "images/layers" / image.layers[0]
    assert (root / "link").read_bytes() == (root / "folder").read_bytes() == b"now a file"
    assert (root / "rooted").stat().st_ino == (root / "hard").stat().st_ino
    assert (root / "dangling").is_symlink()


async def test_no_device_no_setuid_and_no_hidden_mark_comes_of_an_archive(boxes: Boxes, bring: Bring) -> None:
    image = bring(tar([
        Entry("disk", kind=tarfile.BLKTYPE, device=(8, 0)), Entry("null", kind=tarfile.CHRTYPE, device=(1, 3)),
        Entry("white", kind=tarfile.CHRTYPE, device=(0, 0)), Entry("su", b"x", mode=0o6755),
        Entry("pipe", kind=tarfile.FIFOTYPE),
        Entry("shared", mode=0o2775, pax={"SCHILY.xattr.user.overlay.redirect": "/etc"}),
        Entry("odd\nname \udcff", b"x"),
    ]))  # fmt: skip
    root = boxes.folder / "images/layers" / image.layers[0]
    assert sorted(os.fsencode(path.name) for path in root.iterdir()) == sorted(
        [b"su", b"pipe", b"shared", b"odd\nname \xff"]
    )
    assert stat.S_IMODE((root / "su").stat().st_mode) == 0o755
    assert os.listxattr(root / "shared") == []
    assert stat.S_IMODE((root / "shared").stat().st_mode) == 0o2775


@pytest.mark.parametrize("wrong", ["diff", "blob", "missing"])
async def test_a_layer_that_is_not_what_it_says_is_refused(boxes: Boxes, bring: Bring, wrong: str) -> None:
    good, bad = tar([Entry("good", b"1")]), tar([Entry("bad", b"2")])
    with pytest.raises(Invalid, match=r"digest|diff id|lacks"):
        bring(layout([good, bad], wrong=wrong))
    assert boxes.images() == ["host"] and is_clean(boxes)


async def test_a_layer_of_somebody_elses_is_not_had_for_its_digest_alone(boxes: Boxes, bring: Bring) -> None:
    secret, mine = tar([Entry("secret", b"theirs")]), tar([Entry("mine", b"mine")])
    bring(secret, "theirs")
    with pytest.raises(Invalid):
        bring(layout([mine, secret], wrong="blob"), "mine")
    assert boxes.images() == ["host", "theirs"]


async def test_what_is_too_large_or_too_much_is_refused_before_it_fills_the_disk(boxes: Boxes, bring: Bring) -> None:
    bomb = gzip.compress(tar([Entry("zeros", bytes(40 << 20))]))
    assert len(bomb) < 100_000
    with pytest.raises(TooLarge):
        bring(bomb, most=8 << 20)
    with pytest.raises(TooLarge):
        bring(layout([tar([Entry("zeros", bytes(40 << 20))])]), most=8 << 20)
    endless = gzip.compress(tar([Entry("a", b"1")]) + bytes(40 << 20))
    with pytest.raises(TooLarge):
        bring(endless, most=8 << 20)
    assert is_clean(boxes) and layers(boxes) == set()


async def test_what_is_no_archive_is_refused_in_a_sentence(boxes: Boxes, bring: Bring) -> None:
    good = tar([Entry("a", b"x" * 5000)])
    broken = [
        b"", b"no archive", os.urandom(5000), gzip.compress(good)[:-40], b"\x1f\x8b", good[:3000],
        b"\xfd7zXZ\0" + bytes(99),
        tar([Entry("index.json", b"{"), Entry("oci-layout", b"{}")]), tar([Entry("manifest.json", b"[{}]")]),
        tar([Entry("manifest.json", b"[" * 100_000)]),
        tar([Entry("index.json", b'{"manifests": 3}'), Entry("oci-layout", b"")]),
        tar([Entry("x", b"", owner=(70_000, 0))]) if os.geteuid() == 0 else b"no",
    ]  # fmt: skip
    for archive in broken:
        with pytest.raises(Invalid) as refused:
            bring(archive)
        assert refused.value.message
    assert boxes.images() == ["host"] and is_clean(boxes) and layers(boxes) == set()


async def test_an_archive_with_broken_bytes_is_imported_or_refused_and_never_more(boxes: Boxes, bring: Bring) -> None:
    source = layout([tar([*(Entry(f"f{number}", b"x" * number) for number in range(30)), Entry("a/.wh.b", b"")])])
    luck = random.Random(4)
    for _ in range(25):
        archive = bytearray(source)
        for _ in range(luck.randint(1, 12)):
            archive[luck.randrange(len(archive))] = luck.randrange(256)
        try:
            bring(bytes(archive))
        except RingfenceError as error:
            assert isinstance(error, Invalid | TooLarge), error
    assert is_clean(boxes)


async def test_an_image_without_anything_still_runs_a_warden(
    boxes: Boxes, bring: Bring, data: Path, programs: tools.Tools
) -> None:
    bring(tar([Entry("only", b"a file")]))
    runtime = Native(boxes)
    await runtime.open()
    async with running(runtime, image="tiny") as inside:
        assert (await runtime.found(inside.id)).life == inside.life  # type: ignore[union-attr]
    await runtime.close()


async def test_its_root_may_be_read_only(boxes: Boxes, bring: Bring, data: Path, programs: tools.Tools) -> None:
    bring(layout([tar(tiny()), tar([Entry("opt")])]))
    said = await seen(
        data, programs,
        "for f in /home/agent /workspace /tmp / /opt /etc; do touch $f/probe 2>/dev/null && echo $f; done",
        read_only=True,
    )  # fmt: skip
    assert said.split() == ["/home/agent", "/workspace", "/tmp"]


async def test_an_image_that_is_not_there_is_told_by_its_name(boxes: Boxes) -> None:
    with pytest.raises(NotFound, match="nowhere:1"):
        boxes.create(blueprint(image="nowhere:1"))
    for bad in ("host", "../x", "a/b", "A", ""):
        with pytest.raises(Invalid):
            boxes.forget_image(bad)
    for bad in ("../x", "/etc/passwd", "tar_../../x"):
        with pytest.raises(Invalid):
            boxes.import_image("x", bad, MOST)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is everything itself")
async def test_run_by_root_no_file_of_an_image_is_roots(boxes: Boxes, bring: Bring) -> None:
    image = bring(tar([*tiny(), Entry("owned", b"x", owner=(5, 7))]))
    root = boxes.folder / "images/layers" / image.layers[0]
    first = root.stat().st_uid
    assert first >= 1_900_000_000
    owned = (root / "owned").stat()
    assert (owned.st_uid - first, owned.st_gid - first) == (5, 7)
    assert all(path.lstat().st_uid >= first for path in root.rglob("*"))
