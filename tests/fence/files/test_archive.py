"""Trees as tars, out of native sandboxes and into them."""

import io
import os
import tarfile
from typing import Any

import httpx
import pytest

from tests.fence.files.conftest import Box, memory_of, refused


def tar_of(*members: tuple[str, dict[str, Any], bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, facts, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for fact, value in facts.items():
                setattr(info, fact, value)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def unpack(box: Box, tar: Any, path: str = "/workspace") -> httpx.Response:
    return box.admin.put(box.url("archive", path), content=tar)


def pack(box: Box, path: str = "/workspace") -> dict[str, tarfile.TarInfo]:
    answer = box.admin.get(box.url("archive", path))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        return {member.name: member for member in tar}


def test_a_tree_goes_out_and_in_again(box: Box) -> None:
    box.shell(
        "cd /workspace; mkdir -p t/sub/empty; head -c 300000 /dev/urandom >t/data; echo '#!/bin/sh' >t/sub/run; "
        "chmod 755 t/sub/run; ln -s sub/run t/link; touch t/'odd\nname'"
    )
    answer = box.admin.get(box.url("archive", "t"))
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''t.tar"
    box.mkdir("u")
    done = unpack(box, answer.content, "u").json()
    assert (done["path"], done["bytes"]) == ("u", len(answer.content))
    assert box.shell("cd /workspace; diff -r t u && stat -c %a u/sub/run; readlink u/link") == "755\nsub/run\n"
    [told] = box.events("archive_unpacked")
    assert (told["path"], told["count"], told["bytes"]) == ("/workspace/u", done["count"], done["bytes"])


@pytest.mark.parametrize(
    "member",
    [
        ("../out", {}, b"x"),
        ("/tmp/out", {}, b"x"),
        ("a/../../out", {}, b"x"),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, b""),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "../../etc"}, b""),
        ("hard", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"}, b""),
        ("fifo", {"type": tarfile.FIFOTYPE}, b""),
        ("device", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, b""),
    ],
    ids=lambda member: member[0],
)
def test_a_tar_that_leads_out_is_refused_and_what_came_before_is_told(box: Box, member: Any) -> None:
    problem = refused(unpack(box, tar_of(("before", {}, b"x"), member)), 403, "permission_denied")
    assert "tar" in problem["detail"]
    assert box.names() == {"before"}
    assert box.shell("ls /tmp") == ""
    [told] = box.events("archive_unpacked")
    assert told["error"] == problem["detail"]


def test_a_link_in_the_tar_is_not_written_through(box: Box) -> None:
    tar = tar_of(("dir", {"type": tarfile.SYMTYPE, "linkname": "."}, b""), ("dir/x", {}, b"x"))
    refused(unpack(box, tar), 409, "not_a_directory")
    box.shell("ln -s /tmp /workspace/planted")
    refused(unpack(box, tar_of(("planted/x", {}, b"x"))), 409, "not_a_directory")
    assert box.shell("ls /tmp") == ""


@pytest.mark.parametrize("body", [b"no tar" * 500, tar_of(("a", {}, b"x" * 5000))[:2000]])
def test_what_is_no_whole_tar_is_refused(box: Box, body: bytes) -> None:
    refused(unpack(box, body), 400, "invalid_path")


def test_a_folder_that_is_not_there_is_neither_packed_nor_unpacked_into(box: Box) -> None:
    refused(box.admin.get(box.url("archive", "nothing")), 404, "no_such_file")
    refused(unpack(box, tar_of(), "nothing"), 404, "no_such_file")
    assert box.events("archive_unpacked") == []


def test_a_file_that_shrinks_while_it_is_packed_keeps_the_tar_whole(box: Box) -> None:
    box.shell(
        "cd /workspace; for i in 0 1 2 3; do head -c 4000000 /dev/urandom >f$i; done; "
        "(while :; do for i in 0 1 2 3; do truncate -s 0 f$i; truncate -s 4000000 f$i; done; done) >/dev/null 2>&1 &"
    )
    for _ in range(5):
        assert set(pack(box)) == {".", "f0", "f1", "f2", "f3"}


def test_two_hundred_thousand_kilobytes_go_through_and_the_server_stays_small(box: Box) -> None:
    size, piece = 200_000_000, os.urandom(1_000_000)
    before = memory_of()
    highest = 0

    def pieces() -> Any:
        nonlocal highest
        for _ in range(size // len(piece)):
            highest = max(highest, memory_of())
            yield piece

    assert box.write("big", pieces()).json()["size"] == size
    got = 0
    with box.admin.stream("GET", box.url("files/content", "big")) as answer:
        for chunk in answer.iter_bytes():
            got += len(chunk)
            highest = max(highest, memory_of())
    with box.admin.stream("GET", box.url("archive", "/workspace")) as answer:
        for chunk in answer.iter_bytes():
            got += len(chunk)
            highest = max(highest, memory_of())
    assert got > 2 * size
    assert highest - before < 40_000_000
