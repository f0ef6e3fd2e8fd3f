"""Files over HTTP, in native sandboxes."""

import base64
import os
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from ringfence.kernel.auth.model import Role
from tests.fence.conftest import until
from tests.fence.files.conftest import API, Box, refused
from tests.harness import Ringfence


def test_what_is_written_is_read_again_whole_or_in_part(box: Box) -> None:
    data = os.urandom(3_000_000)
    assert box.write("/workspace/a", data).json() == {"path": "/workspace/a", "size": len(data)}
    assert box.read("/workspace/a").content == data
    assert box.read("a").content == data
    assert box.read("a", offset=2_999_990).content == data[-10:]
    assert box.read("a", offset=1000, length=70_000).content == data[1000:71_000]
    assert box.read("a", offset=4_000_000).content == b""
    assert box.read("a", length=0).content == b""
    assert box.shell("wc -c < /workspace/a").strip() == "3000000"


@pytest.mark.parametrize(
    ("asked", "status", "part", "told"),
    [
        ("bytes=0-9", 206, slice(0, 10), "bytes 0-9/1000"),
        ("bytes=990-", 206, slice(990, None), "bytes 990-999/1000"),
        ("bytes=-5", 206, slice(995, None), "bytes 995-999/1000"),
        ("bytes=-5000", 206, slice(0, None), "bytes 0-999/1000"),
        ("bytes=500-100000", 206, slice(500, None), "bytes 500-999/1000"),
        ("bytes=9-3", 200, slice(0, None), None),
        ("lines=1-2", 200, slice(0, None), None),
        ("bytes=0-1,5-6", 200, slice(0, None), None),
    ],
)
def test_a_range_is_answered_as_the_standard_says(
    box: Box, asked: str, status: int, part: slice, told: str | None
) -> None:
    data = os.urandom(1000)
    box.write("a", data)
    answer = box.admin.get(box.url("files/content", "a"), headers={"range": asked})
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, data[part], told)


def test_a_range_beyond_the_end_is_refused_and_a_head_tells_the_size(box: Box) -> None:
    box.write("a", b"12345")
    refused(box.admin.get(box.url("files/content", "a"), headers={"range": "bytes=5-"}), 416, "range")
    head = box.admin.head(box.url("files/content", "a"))
    assert (head.status_code, head.headers["content-length"]) == (200, "5")
    assert head.headers["content-disposition"] == "attachment; filename*=UTF-8''a"
    assert head.headers["x-content-type-options"] == "nosniff"


def test_files_are_replaced_created_and_appended_to(box: Box) -> None:
    assert box.write("a", b"one", mode="0750").json()["size"] == 3
    assert box.write("a", b"two").status_code == 200
    assert box.stat("a").json()["mode"] == "0750"
    refused(box.write("a", b"three", how="create"), 409, "file_exists")
    assert box.write("a", b"+", how="append").json()["size"] == 4
    assert box.read("a").content == b"two+"
    refused(box.write("b/c/d", b"x"), 404, "no_such_file")
    assert box.write("b/c/d", b"x", parents=True, how="create").status_code == 200
    refused(box.write("b/c", b"x"), 409, "is_a_directory")
    refused(box.write("a/b", b"x"), 409, "not_a_directory")
    assert box.write("empty", b"").json()["size"] == 0
    assert box.read("empty").content == b""


def test_a_change_is_one_event_with_its_path_and_size(box: Box) -> None:
    box.write("a", b"12345")
    box.write("a", b"6", how="append")
    box.mkdir("dir")
    box.move("a", "dir/b")
    box.remove("dir", recursive=True)
    assert [(one["path"], one["how"], one["size"]) for one in box.events("file_written")] == [
        ("/workspace/a", "replace", 5), ("/workspace/a", "append", 6),
    ]  # fmt: skip
    assert [one["path"] for one in box.events("directory_made")] == ["/workspace/dir"]
    assert [(one["path"], one["to"]) for one in box.events("file_moved")] == [("/workspace/a", "/workspace/dir/b")]
    assert [(one["path"], one["count"]) for one in box.events("file_removed")] == [("/workspace/dir", 2)]


def test_a_folder_is_listed_to_a_depth_and_to_a_number(box: Box) -> None:
    box.shell("cd /workspace; mkdir -p d/e/f; echo hi >d/file; ln -s ../x d/link; mkfifo d/fifo; chmod 640 d/file")
    found = {each["name"]: each for each in box.listed("d")["items"]}
    assert {name: each["kind"] for name, each in found.items()} == {
        "e": "directory", "file": "file", "link": "link", "fifo": "fifo",
    }  # fmt: skip
    assert (found["file"]["size"], found["file"]["mode"], found["link"]["target"]) == (3, "0640", "../x")
    assert box.names("d", depth=2) == {"e", "e/f", "file", "link", "fifo"}
    assert box.names(depth=0) == {"d", "d/e", "d/e/f", "d/file", "d/link", "d/fifo"}
    cut = box.listed("d", limit=2)
    assert (len(cut["items"]), cut["count"], cut["cut"]) == (2, 2, True)
    box.mkdir("none")
    assert box.listed("none") == {"items": [], "count": 0, "cut": False}
    refused(box.admin.get(box.url("files", "d/file")), 409, "not_a_directory")
    refused(box.admin.get(box.url("files", "nothing")), 404, "no_such_file")


def test_folders_are_made_files_moved_and_trees_removed(box: Box) -> None:
    refused(box.mkdir("a/b"), 404, "no_such_file")
    assert box.mkdir("a/b", parents=True, mode="0700").json() == {"path": "a/b"}
    assert box.mkdir("a/b", parents=True).status_code == 200
    refused(box.mkdir("a"), 409, "file_exists")
    assert box.stat("a/b").json()["mode"] == "0700"
    box.write("x", b"x")
    box.write("y", b"y")
    refused(box.move("x", "y"), 409, "file_exists")
    assert box.move("x", "y", replace=True).status_code == 200
    assert box.read("y").content == b"x"
    refused(box.move("x", "z"), 404, "no_such_file")
    refused(box.remove("a"), 409, "not_empty")
    assert box.remove("a", recursive=True).json() == {"path": "a", "count": 2}
    refused(box.remove("a"), 404, "no_such_file")


def test_a_repeat_with_the_same_key_is_answered_as_the_first_was(box: Box) -> None:
    box.write("x", b"x")
    for _ in range(2):
        for verb, body in (("mkdir", {"path": "once"}), ("move", {"path": "x", "to": "y"})):
            key = {"idempotency-key": verb}
            assert box.admin.post(f"{box.path}/files/{verb}", json=body, headers=key).status_code == 200
    assert len(box.events("directory_made")) == len(box.events("file_moved")) == 1


@pytest.mark.parametrize(
    "name", [b"new\nline", b"\xff\xfe", b"-rf", b"\x1b[31m", "ü".encode(), b"n" * 255, b" ", b"a&b=c?#%"]
)
def test_a_name_may_be_any_bytes(box: Box, name: bytes) -> None:
    path = b"/workspace/" + name
    assert box.write(path, b"found").status_code == 200
    assert box.read(path).content == b"found"
    [entry] = box.listed()["items"]
    told = entry["name"].encode() if entry["name_base64"] is None else base64.b64decode(entry["name_base64"])
    assert told == name
    given: object = {"base64": base64.b64encode(path).decode()}
    assert box.move(given, "plain").status_code == 200
    assert box.move("plain", given).status_code == 200
    assert box.remove(path).status_code == 200
    assert box.listed()["items"] == []


@pytest.mark.parametrize("path", [b"", b"a\0b", b"/" + b"a/" * 3000, b"x" * 300])
def test_a_path_that_is_none_is_refused(box: Box, path: bytes) -> None:
    for answer in (box.read(path), box.write(path, b""), box.remove(path), box.stat(path)):
        assert answer.status_code == 400, answer.text


def test_what_the_sandbox_does_not_allow_is_said(box: Box) -> None:
    refused(box.write("/usr/x", b"x"), 403, "read_only")
    box.shell("mkdir -m 000 /workspace/shut")
    refused(box.write("shut/x", b"x"), 403, "permission_denied")
    refused(box.admin.get(box.url("files", "shut")), 403, "permission_denied")
    problem = refused(box.read("nothing"), 404, "no_such_file")
    assert problem["detail"] == "there is no /workspace/nothing in the sandbox"


def test_who_may_read_and_who_may_change(box: Box, native: Ringfence) -> None:
    box.write("a", b"a")
    viewer = native.client(native.token("vera", Role.VIEWER))
    assert viewer.get(box.url("files/content", "a")).content == b"a"
    assert viewer.get(box.url("files")).status_code == 200
    assert viewer.get(box.url("archive", "/workspace")).status_code == 200
    refused(viewer.put(box.url("files/content", "a"), content=b"b"), 403, "role")
    refused(viewer.put(box.url("archive", "/workspace"), content=b""), 403, "role")
    refused(viewer.delete(box.url("files", "a")), 403, "role")
    refused(viewer.post(f"{box.path}/files/mkdir", json={"path": "x"}), 403, "role")
    assert native.client().get(box.url("files")).status_code == 401


def test_an_agent_has_the_files_of_its_own_sandbox_only(box: Box, native: Ringfence) -> None:
    mallory, bob = native.agent("mallory"), native.agent("bob")
    made = native.admin.post(API, json={"agent": "bob"}).json()
    try:
        theirs = f"{API}/{made['id']}/files/content?path=a"
        assert bob.put(theirs, content=b"mine").status_code == 200
        assert bob.get(theirs).content == b"mine"
        for answer in (mallory.get(theirs), mallory.put(theirs, content=b"x"), bob.get(box.url("files/content", "a"))):
            assert answer.status_code == 404
        refused(mallory.get(f"{API}/{made['id']}/ports"), 404, "not_found")
    finally:
        native.admin.delete(f"{API}/{made['id']}")


def test_files_of_a_sandbox_that_does_not_run_are_not_to_be_had(box: Box) -> None:
    box.write("a", b"a")
    box.admin.post(f"{box.path}/stop", json={})
    for answer in (box.read("a"), box.write("a", b"b"), box.remove("a"), box.admin.get(f"{box.path}/ports")):
        refused(answer, 409, "sandbox_stopped")
    box.admin.post(f"{box.path}/start", json={})
    assert box.read("a").content == b"a"
    paused = box.admin.post(f"{box.path}/pause", json={})
    assert paused.status_code == 200, paused.text
    refused(box.read("a"), 409, "sandbox_paused")
    box.admin.post(f"{box.path}/resume", json={})
    assert box.read("a").content == b"a"


# Bodies ---------------------------------------------------------------------------------------------------------------


class Broken(Exception):
    pass


def breaking_off(first: bytes) -> Iterator[bytes]:
    yield first
    raise Broken


@pytest.mark.parametrize("query", ["how=replace", "how=create&parents=true"])
def test_a_body_that_breaks_off_changes_nothing_and_leaves_nothing(box: Box, query: str) -> None:
    box.write("a", b"old")
    name = "a" if query == "how=replace" else "b"
    with pytest.raises(Broken):
        box.admin.put(box.url("files/content", name) + "&" + query, content=breaking_off(b"x" * 1_000_000))
    until(lambda: not box.acts(), "the act has ended")
    assert box.names() == {"a"}
    assert box.read("a").content == b"old"
    assert len(box.events("file_written")) == 1


def test_what_was_appended_before_a_body_broke_off_is_in_the_record(box: Box) -> None:
    box.write("a", b"old")
    with pytest.raises(Broken):
        box.admin.put(box.url("files/content", "a", how="append"), content=breaking_off(b"x" * 100_000))
    until(lambda: len(box.events("file_written")) == 2, "it is told")
    told = box.events("file_written")[1]
    assert (told["path"], told["how"], told["error"]) == ("/workspace/a", "append", "whoever sent it went away")


def test_a_body_is_as_long_as_the_setting_allows(fenced: Callable[..., Ringfence]) -> None:
    box = Box(fenced("small", max_transfer=100_000))
    assert box.write("a", b"x" * 100_000).status_code == 200
    refused(box.write("b", b"x" * 100_001), 413, "too_large")
    pieces = (b"x" * 1000 for _ in range(200))
    refused(box.write("b", pieces), 413, "too_large")
    until(lambda: box.names() == {"a"}, "what came of it is gone")


def test_a_full_disk_is_told_and_leaves_nothing(native: Ringfence) -> None:
    made = Box(native, memory_disk=True, disk="8M")
    try:
        refused(made.write("big", b"x" * 20_000_000), 507, "no_space")
        assert made.names() == set()
        assert made.write("small", b"fits").status_code == 200
    finally:
        native.admin.delete(made.path)


def test_a_reader_that_goes_away_ends_the_act(box: Box) -> None:
    box.shell("head -c 50000000 /dev/zero > /workspace/big")
    with box.admin.stream("GET", box.url("files/content", "big")) as answer:
        chunks = answer.iter_bytes()
        assert next(chunks)
        assert box.acts() == 1
    until(lambda: not box.acts(), "nothing reads any more")


def test_a_sandbox_that_ends_meanwhile_cuts_the_answer_off(box: Box) -> None:
    box.shell("head -c 50000000 /dev/zero > /workspace/big")
    with (
        pytest.raises(httpx.RemoteProtocolError),
        box.admin.stream("GET", box.url("files/content", "big")) as answer,
    ):
        chunks = answer.iter_bytes()
        next(chunks)
        box.server.client(box.server.admin_token).post(f"{box.path}/stop", json={"grace": 0})
        for _ in chunks:
            pass


def test_many_are_served_at_once_and_not_without_end(box: Box) -> None:
    box.shell("head -c 5000000 /dev/zero > /workspace/big")
    request = box.admin.build_request("GET", box.url("files/content", "big"))
    open_ones = [box.admin.send(request, stream=True) for _ in range(48)]
    refused(box.read("big"), 503, "too_many_transfers")
    assert box.shell("echo still here") == "still here\n"
    for one in open_ones:
        one.close()
    until(lambda: box.read("big", length=1).status_code == 200, "there is room again")


def test_writers_of_one_file_do_not_mix(box: Box) -> None:
    letters = [bytes([65 + number]) * 2_000_000 for number in range(6)]
    clients = [box.server.client(box.server.admin_token) for _ in letters]
    threads = [
        threading.Thread(target=client.put, args=(box.url("files/content", "same"),), kwargs={"content": data})
        for client, data in zip(clients, letters, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box.read("same").content in letters
    assert box.names() == {"same"}
