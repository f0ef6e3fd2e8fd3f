"""What an agent may put in the way of whoever looks at its files."""

import asyncio
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.fence.conftest import until
from tests.fence.files.conftest import Box, refused
from tests.harness import Ringfence


def longest_stall(server: Ringfence, within: float) -> float:
    """Seconds that the server's loop was late at most, for so long."""

    async def measure() -> float:
        worst, end = 0.0, time.monotonic() + within
        while (before := time.monotonic()) < end:
            await asyncio.sleep(0.005)
            worst = max(worst, time.monotonic() - before - 0.005)
        return worst

    return server.run(measure())


def test_a_link_out_shows_the_sandboxs_own_view_and_nothing_of_the_host(box: Box, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    box.shell(f"cd /workspace; ln -s /etc/shadow shadow; ln -s {secret} secret; ln -s / root; ln -s /proc/1/root one")
    assert box.read("shadow").status_code in (403, 404)
    refused(box.read("secret"), 404, "no_such_file")
    assert box.read("one/etc/hostname").status_code in (403, 404)
    assert box.read("root/etc/hostname").text.strip() == box.shell("hostname").strip()
    assert {each["kind"] for each in box.listed(depth=0)["items"]} == {"link"}


@pytest.mark.parametrize("name", ["fifo", "/dev/zero", "/dev/full", "socket"])
def test_what_is_no_file_holds_nobody_up(box: Box, name: str) -> None:
    box.shell("cd /workspace; mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'")
    began = time.monotonic()
    for answer in (box.read(name), box.read(name, length=10), box.write(name, b"x", how="append")):
        assert answer.status_code in (400, 403, 409), answer.text
    assert time.monotonic() - began < 5
    if name == "fifo":
        assert box.admin.get(box.url("archive", "/workspace")).status_code == 200


def test_a_file_without_end_is_read_as_far_as_was_asked(box: Box) -> None:
    box.shell("(while :; do head -c 100000 /dev/zero; done >> /workspace/grows) >/dev/null 2>&1 & sleep 0.1")
    assert len(box.read("grows", length=200_000).content) == 200_000
    box.shell("kill %1 2>/dev/null; true")


def test_a_tree_ten_thousand_deep_is_listed_refused_as_a_tar_and_removed(box: Box) -> None:
    box.shell(
        "python3 -c \"\nimport os\nos.chdir('/workspace')\nfor _ in range(10000):\n os.mkdir('d'); os.chdir('d')\""
    )
    found = box.listed(depth=0, limit=20_000)
    assert found["cut"] is True
    assert 1000 < found["count"] < 10_000
    assert box.admin.get(box.url("files/watch", "/workspace", depth=0)).status_code == 400  # no such parameter
    removed = box.admin.delete(box.url("files", "d", recursive=True), timeout=120)  # a millisecond for each
    assert removed.json()["count"] == 10_000
    assert box.names() == set()


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_a_hundred_thousand_entries_are_listed_while_others_are_served(box: Box, tmp_path: Path) -> None:
    box.shell(
        "mkdir /workspace/many; cd /workspace/many; python3 -c 'for i in range(100_001): open(str(i), \"w\").close()'"
    )
    asked = f"{box.server.url}{box.url('files', 'many', limit=100_000)}"
    header = f"authorization: Bearer {box.server.admin_token}"
    with subprocess.Popen(["curl", "-sSf", "-H", header, "-o", tmp_path / "list", asked]) as asking:
        worst = longest_stall(box.server, 1.0)
    assert asking.returncode == 0
    assert (tmp_path / "list").stat().st_size > 10_000_000
    assert worst < 0.05
    found = box.listed("many", limit=100_000)
    assert (found["count"], found["cut"], len(found["items"])) == (100_000, True, 100_000)
    assert len({each["name"] for each in found["items"]}) == 100_000
    removed = box.admin.delete(box.url("files", "many", recursive=True), timeout=120)
    assert removed.json()["count"] == 100_002


def test_a_folder_that_is_swapped_for_a_link_is_not_followed_out(box: Box) -> None:
    """`remove` and `unpack` walk by descriptors: whatever is swapped meanwhile, /tmp/kept stays."""
    box.shell(
        "mkdir /tmp/kept; echo kept > /tmp/kept/file; cd /workspace; mkdir a; "
        "(while :; do mkdir -p a; rm -rf a; ln -s /tmp/kept a; rm -f a; done) >/dev/null 2>&1 &"
    )
    for _ in range(40):
        box.remove("a", recursive=True)
    assert box.shell("cat /tmp/kept/file") == "kept\n"


def test_a_client_that_reads_nothing_holds_little_and_no_more(box: Box) -> None:
    box.shell("head -c 100000000 /dev/zero > /workspace/big")
    with socket.create_connection(("127.0.0.1", box.server.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(
            f"GET {box.url('files/content', 'big')} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {box.server.admin_token}\r\n\r\n".encode()
        )
        until(lambda: box.acts() == 1, "it is being read")
        assert box.read("big", length=5).content == bytes(5)
    until(lambda: not box.acts(), "nobody reads it any more")
