"""The sandbox as an object, against native sandboxes."""

import asyncio
import inspect
import io
import os
import re
import socket
import tarfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import AsyncClient, AsyncSandbox, Client, Sandbox
from ringfence.sdk import CommandFailed, Conflict, Forbidden, NotFound, Unreachable, trees
from ringfence.sdk.errors import UnexpectedAnswer, Unsupported
from ringfence.sdk.files import AsyncFiles, Files
from ringfence.sdk.forwards import AsyncForward, Forward
from ringfence.sdk.processes import AsyncProcess, Process
from ringfence.sdk.sandbox import Wanted
from tests.fence.conftest import until
from tests.fence.files.conftest import API, fenced, folder, native  # noqa: F401
from tests.harness import Ringfence
from tests.sdk.conftest import Lossy


@pytest.fixture
def client(native: Ringfence) -> Iterator[Client]:  # noqa: F811
    with Client(native.url, token=native.admin_token) as found:
        yield found


@pytest.fixture
def box(client: Client) -> Iterator[Sandbox]:
    with Sandbox.create(client=client) as made:
        yield made


# Its life -------------------------------------------------------------------------------------------------------------


def test_it_is_made_where_the_environment_says_and_gone_afterwards(
    native: Ringfence,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RINGFENCE_URL", native.url)
    monkeypatch.setenv("RINGFENCE_TOKEN", native.admin_token)
    with Sandbox.create() as made:
        assert made.exec("echo hello").stdout == "hello\n"
        assert native.admin.get(f"{API}/{made.id}").json()["state"] == "running"
    assert native.admin.get(f"{API}/{made.id}").json()["state"] == "destroyed"


def test_it_is_gone_when_what_is_done_with_it_fails_and_that_is_what_is_raised(client: Client) -> None:
    with pytest.raises(ZeroDivisionError), Sandbox.create(client=client) as made:
        raise ZeroDivisionError
    assert client.get_sandbox(made.id)["state"] == "destroyed"


def test_one_that_was_found_stays(client: Client, box: Sandbox) -> None:
    with client.sandbox(box.name) as found:
        assert found.id == box.id
    assert box.refresh()["state"] == "running"
    with pytest.raises(NotFound):
        client.sandbox("nothing")


def test_it_pauses_resumes_stops_and_is_begun_with_again(client: Client, box: Sandbox) -> None:
    box.files.write("kept", "here")
    assert box.pause()["state"] == "paused"
    with pytest.raises(Conflict, match="paused"):
        box.exec("true")
    assert box.resume()["state"] == "running"
    assert box.stats()["state"] == "running"
    assert "sandbox_paused" in [event["kind"] for event in box.logs()["events"]]
    assert box.stop(grace=0)["state"] == box.facts["state"] == "stopped"
    assert box.start()["state"] == "running"
    assert box.files.read("kept") == b"here"


def test_another_begins_with_its_snapshot(client: Client, box: Sandbox) -> None:
    box.files.write("kept", "here")
    try:
        snapshot = box.snapshot()
    except Unsupported:
        pytest.skip("no snapshots on this host")
    with Sandbox.create(client=client, snapshot=snapshot["id"]) as second:
        assert second.files.read("kept") == b"here"
    client.delete_snapshot(snapshot["id"])


# Programs -------------------------------------------------------------------------------------------------------------


def test_a_line_goes_through_the_shell_and_words_do_not(box: Sandbox) -> None:
    assert box.exec("echo $((1 + 2)) | tr 3 4").text == "4\n"
    assert box.exec(["echo", "$((1 + 2)) | tr"]).stdout == "$((1 + 2)) | tr\n"
    result = box.exec(["sh", "-c", "printf '\\377'; printf err >&2; exit 3"])
    assert (result.stdout_bytes, result.stderr, result.exit_code) == (b"\xff", "err", 3)
    told = box.exec("cat; echo $A; pwd", stdin=b"in\xff", env={"A": "b"}, cwd="/tmp")
    assert told.stdout_bytes == b"in\xffb\n/tmp\n"
    assert box.exec([b"printf", b"\xff\xfe"]).stdout_bytes == b"\xff\xfe"


def test_an_end_that_is_not_0_is_raised_when_that_is_asked_for(box: Sandbox) -> None:
    with pytest.raises(CommandFailed, match="ended with 7: oh no") as failed:
        box.exec("echo half; echo oh no >&2; exit 7", check=True)
    assert (failed.value.result.stdout, failed.value.result.exit_code) == ("half\n", 7)
    with pytest.raises(CommandFailed, match="could not be started"):
        box.exec(["no-such-program"], check=True)
    assert box.exec("exit 0", check=True).exit_code == 0


def test_what_takes_too_long_is_ended_and_what_it_said_is_there(box: Sandbox) -> None:
    result = box.exec("echo so far; sleep 60", timeout=0.5)
    assert (result.stdout, result.timed_out) == ("so far\n", True)
    with pytest.raises(CommandFailed, match=r"after 0\.5 s"):
        result.check()


def test_long_output_is_there_whole(box: Sandbox) -> None:
    result = box.exec("head -c 10000000 /dev/zero")
    assert len(result.stdout_bytes) == 10_000_000
    assert not result.truncated


def test_a_program_whose_answer_was_lost_runs_once(native: Ringfence) -> None:  # noqa: F811
    lossy = Lossy(losses=1, chooses=lambda request: request.url.path.endswith("/exec"))
    with Client(native.url, token=native.admin_token, transport=lossy) as client, Sandbox.create(client=client) as box:
        assert box.exec("echo once >> /workspace/log; cat /workspace/log").stdout == "once\n"
        assert len(lossy.lost) == 1


def test_a_program_is_talked_with(box: Sandbox) -> None:
    with box.stream(["sh", "-c", "read line; echo got $line; echo oops >&2; cat"], stdin=True) as process:
        process.write("one\n")
        first = next(process)
        assert (first.channel, first.text) == ("stdout", "got one\n")
        assert next(process).channel == "stderr"
        assert process.exit_code is None
        process.write(b"rest")
        process.end_input()
        assert b"".join(output.data for output in process) == b"rest"
        assert process.exit_code == 0


def test_a_program_in_a_terminal_knows_its_size_and_gets_its_signals(box: Sandbox) -> None:
    line = "trap 'stty size; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    with box.stream(line, pty=(10, 20)) as process:
        assert "ready" in next(process).text
        process.resize(33, 44)
        process.signal("INT", "foreground")
        said = "".join(output.text for output in process)
    assert "33 44" in said
    assert process.exit_code == 5


def test_leaving_a_program_ends_it_unless_it_is_detached(box: Sandbox) -> None:
    with box.stream("echo on; sleep 60") as process:
        next(process)
    until(lambda: box.get_exec(process.id)["state"] == "ended", "it has ended")
    with box.stream("echo on; sleep 60", detach=True) as process:
        next(process)
    assert box.get_exec(process.id)["state"] == "running"
    box.signal_exec(process.id, "KILL")
    until(lambda: box.get_exec(process.id)["cause"] == "killed", "it was killed")


def test_a_program_goes_on_by_itself(box: Sandbox) -> None:
    begun = box.spawn("echo begun; sleep 60")
    until(lambda: box.exec_output(begun["id"]) == b"begun\n", "it said something")
    assert [one["id"] for one in box.list_execs(running=True)] == [begun["id"]]


def test_what_is_wrong_with_a_stream_is_an_error_of_ours(client: Client, box: Sandbox) -> None:
    box.stop(grace=0)
    with pytest.raises(Conflict, match="stopped"), box.stream("true"):
        pass
    with Client("http://127.0.0.1:1", token="x", retries=0) as nowhere, pytest.raises(Unreachable):
        Sandbox(nowhere, box.facts).stream("true")
    with Client(client.url, token="nonsense") as nobody, pytest.raises(Exception, match="token") as refusal:
        Sandbox(nobody, box.facts).stream("true")
    assert getattr(refusal.value, "status", None) == 401


# Files ----------------------------------------------------------------------------------------------------------------


def test_files_are_written_read_listed_moved_and_removed(box: Sandbox) -> None:
    files = box.files
    files.write("a", "text", mode=0o640)
    files.append("a", b"+\xff")
    assert files.read("a") == b"text+\xff"
    assert files.read("a", offset=1, length=2) == b"ex"
    assert files.stat("a")["mode"] == "0640"
    files.mkdir("d/e", parents=True)
    files.move("a", "d/e/b")
    assert [entry["name"] for entry in files.list(depth=0)] == ["d", "d/e", "d/e/b"]
    assert files.remove("d", recursive=True)["count"] == 3
    with pytest.raises(NotFound):
        files.read("a")
    files.write("b", b"")
    with pytest.raises(Conflict, match="there already"):
        files.write("b", b"", how="create")
    with pytest.raises(Forbidden):
        files.write("/usr/x", b"")


def test_a_name_that_is_no_text_is_bytes(box: Sandbox) -> None:
    box.files.write(b"/workspace/\xff\n", b"x")
    assert box.files.read(b"/workspace/\xff\n") == b"x"
    assert box.files.read(os.fsdecode(b"/workspace/\xff\n")) == b"x"
    box.files.move(b"/workspace/\xff\n", "plain")
    assert box.files.list()[0]["name"] == "plain"


def test_files_and_trees_go_up_and_down(box: Sandbox, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "data").write_bytes(os.urandom(3_000_000))
    (tree / "sub" / "run").write_text("#!/bin/sh\n")
    (tree / "sub" / "run").chmod(0o755)
    (tree / "link").symlink_to("sub/run")
    box.files.upload(tree, "up")
    assert box.exec("cd up && stat -c %a sub/run && readlink link").stdout == "755\nsub/run\n"
    box.files.download("up", tmp_path / "down")
    assert (tmp_path / "down/data").read_bytes() == (tree / "data").read_bytes()
    assert (tmp_path / "down/link").readlink() == Path("sub/run")
    assert (tmp_path / "down/sub/run").stat().st_mode & 0o777 == 0o755
    box.files.upload(tree / "data", "one")
    box.files.download("one", tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (tree / "data").read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_download_that_was_lost_is_begun_again(native: Ringfence, tmp_path: Path) -> None:  # noqa: F811
    lossy = Lossy(losses=1, chooses=lambda request: request.url.path.endswith("/content") and request.method == "GET")
    with Client(native.url, token=native.admin_token, transport=lossy) as client, Sandbox.create(client=client) as box:
        box.files.write("a", b"x" * 1000)
        box.files.download("a", tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == b"x" * 1000
        assert len(lossy.lost) == 1


@pytest.mark.parametrize(
    "member",
    [("../out", "", b""), ("/abs", "", b""), ("link", "/etc", b""), ("link", "../../x", b""), ("a/../../x", "", b"")],
)
def test_a_tar_of_a_hostile_sandbox_writes_nothing_outside(tmp_path: Path, member: tuple[str, str, bytes]) -> None:
    name, target, data = member
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        info = tarfile.TarInfo(name)
        if target:
            info.type, info.linkname = tarfile.SYMTYPE, target
        tar.addfile(info, io.BytesIO(data))
    with pytest.raises(UnexpectedAnswer, match="not taken"):
        trees.unpack(made, tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir() if path.name != "config"] == ["into"]


def test_a_tar_does_not_write_through_links_its_own_or_those_that_are_there(tmp_path: Path) -> None:
    outside, into = tmp_path / "outside", tmp_path / "into"
    outside.mkdir()
    into.mkdir()
    (into / "planted").symlink_to(outside)
    for link, name in (("x", "x/file"), ("", "planted/file")):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            if link:
                info = tarfile.TarInfo(link)
                info.type, info.linkname = tarfile.SYMTYPE, "."
                tar.addfile(info)
            tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
        with pytest.raises((UnexpectedAnswer, OSError)):
            trees.unpack(made, into)
    assert list(outside.iterdir()) == []


def test_changes_are_watched(box: Sandbox) -> None:
    with box.files.watch(recursive=True) as watch:
        box.exec("mkdir d; echo x > d/file")
        seen = set()
        for change in watch:
            seen.add((change["event"], change["path"]))
            if change["path"] == "d/file":
                break
    assert ("created", "d") in seen
    with pytest.raises(NotFound):
        box.files.watch("nothing")


# Ports ----------------------------------------------------------------------------------------------------------------


def serve(box: Sandbox) -> None:
    box.files.write("index.html", "from inside")
    box.spawn(["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"])
    until(lambda: any(port["port"] == 8000 for port in box.ports()), "it listens")


def test_a_port_is_forwarded_for_many_at_once(box: Sandbox) -> None:
    serve(box)
    got: list[bytes] = []
    with box.forward(8000) as forward:

        def ask() -> None:
            with urllib.request.urlopen(f"{forward.url}/index.html", timeout=20) as answer:
                got.append(answer.read())

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        port = forward.port
    assert got == [b"from inside"] * 8
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 2)


def test_a_forward_to_nothing_closes_the_connection_and_says_why(box: Sandbox) -> None:
    with box.forward(8001) as forward, socket.create_connection(("127.0.0.1", forward.port), 10) as there:
        there.settimeout(10)
        assert there.recv(1) == b""
        until(lambda: forward.error, "it is told")
        assert isinstance(forward.error, Conflict)


# For asyncio ----------------------------------------------------------------------------------------------------------


async def test_the_same_for_asyncio(native: Ringfence, tmp_path: Path) -> None:  # noqa: F811
    async with (
        AsyncClient(native.url, token=native.admin_token) as client,
        await AsyncSandbox.create(client=client) as box,
    ):
        assert (await box.exec("echo hi", check=True)).stdout == "hi\n"
        with pytest.raises(CommandFailed):
            await box.exec("exit 2", check=True)
        async with await box.stream(["cat"], stdin=True) as process:
            await process.write(b"x" * 300_000)
            await process.end_input()
            assert sum([len(output.data) async for output in process]) == 300_000
            assert process.exit_code == 0
        (tmp_path / "t").mkdir()
        (tmp_path / "t/a").write_bytes(b"a" * 1_000_000)
        await box.files.upload(tmp_path / "t", "t")
        await box.files.upload(tmp_path / "t/a", "b")
        await box.files.download("t", tmp_path / "u")
        await box.files.download("b", tmp_path / "b")
        assert (tmp_path / "u/a").read_bytes() == (tmp_path / "b").read_bytes() == b"a" * 1_000_000
        async with await box.files.watch() as watch:
            await box.files.write("new", b"x")
            assert (await anext(watch))["event"] in ("created", "written", "moved")
        await box.spawn(["python3", "-m", "http.server", "8000", "--bind", "127.0.0.1"])
        while not any(port["port"] == 8000 for port in await box.ports()):
            await box.exec("sleep 0.02")
        async with await box.forward(8000) as forward:
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
            writer.write(b"GET /b HTTP/1.0\r\n\r\n")
            assert (await asyncio.wait_for(reader.read(), 20)).endswith(b"a" * 1000)
            writer.close()
        again = await client.sandbox(box.name)
        assert (await again.pause())["state"] == "paused"
    assert native.admin.get(f"{API}/{box.id}").json()["state"] == "destroyed"


def test_both_twins_have_the_same_methods_and_create_takes_what_the_client_does() -> None:
    for one, other in ((Sandbox, AsyncSandbox), (Files, AsyncFiles), (Process, AsyncProcess), (Forward, AsyncForward)):
        assert _public(one) == _public(other)
    takes = set(inspect.signature(Client.create_sandbox).parameters) - {"self", "name", "wait"}
    assert set(Wanted.__annotations__) == takes


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - {"begun", "opened"}


def _examples() -> list[str]:
    text = (Path(__file__).parents[2] / "docs/sdk.md").read_text()
    section = text.partition("\n## Sandboxes\n")[2].partition("Without an object:")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.mark.parametrize("example", _examples(), ids=lambda example: example.split("\n")[1][:40] or "first")
def test_the_examples_of_the_documentation_run(
    native: Ringfence,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    example: str,
) -> None:
    monkeypatch.setenv("RINGFENCE_URL", native.url)
    monkeypatch.setenv("RINGFENCE_TOKEN", native.admin_token)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    exec(example, {"Sandbox": Sandbox})
