"""The spawner: what reaches it, what a hostile server gains by it, and what its death costs."""

import asyncio
import fcntl
import os
import signal
import socket
import stat
import termios
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from ringfence.fence.model import LIMITS, Blueprint, Life, Limits, User
from ringfence.fence.runtimes.native import spawning
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.spawned import Spawned
from ringfence.fence.runtimes.native.spawner import Audit, Desk
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.kernel.errors import Invalid, Unavailable
from ringfence.kernel.processes import process_started
from ringfence.privileges import users, view
from ringfence.supervisor import Log
from tests.fence.conftest import until
from tests.fence.runtimes.conftest import Inside, blueprint
from tests.fence.runtimes.spawners import SpawnerProcess

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a spawner")
KEY = b"k" * 32
SERVER = users.User(users.FIXED, users.FIXED)


# What is let in -------------------------------------------------------------------------------------------------------

names = some.from_regex(r"sbx_[0-9a-z]{26}", fullmatch=True)
plans = some.builds(
    Blueprint,
    id=names, hostname=some.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True), image=some.just("host"),
    user=some.sampled_from(User), read_only=some.booleans(), memory_disk=some.booleans(), env=some.just({}),
    snapshot=some.none() | names,
    limits=some.builds(
        Limits,
        memory=some.none() | some.integers(1, 1 << 50), cpus=some.none() | some.floats(0.01, 4096),
        pids=some.none() | some.integers(1, 4_194_304), disk=some.none() | some.integers(1, 1 << 50),
        requested=some.frozensets(some.sampled_from(LIMITS)),
    ),
)  # fmt: skip


@given(plans)
def test_a_blueprint_arrives_as_it_was_sent(plan: Blueprint) -> None:
    number, rest = spawning.read_number(spawning.request(7, "create", plan))
    assert spawning.read_request(number, rest) == spawning.Request(7, "create", (plan,))


def test_a_life_and_every_other_answer_arrive_as_they_were_sent() -> None:
    life = Life(pid=12, started=34, boot="b")
    asked = spawning.Request(3, "start", ())
    assert spawning.read_answer(spawning.done(asked, life), 3, "start") == spawning.Answer(life)
    assert spawning.read_answer(spawning.done(asked, life), 4, "start") is None, "it answers an earlier one"


def test_an_error_that_names_a_file_of_any_bytes_arrives() -> None:
    raw = spawning.refused(1, OSError(2, "no file " + os.fsdecode(b"\xff\xfe")))
    read = spawning.read_answer(raw, 1, "stop")
    assert read is not None and isinstance(read.error, FileNotFoundError)
    raw = spawning.refused(1, Unavailable(os.fsdecode(b"\xff"), code="start_failed", limit="memory"))
    read = spawning.read_answer(raw, 1, "start")
    assert read is not None and isinstance(read.error, Unavailable)
    assert (read.error.code, read.error.details) == ("start_failed", {"limit": "memory"})


ABSURD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a path for an id": lambda it: it.update(id="../../etc"),
    "an absolute path": lambda it: it.update(id="/etc/passwd"),
    "an id of bytes": lambda it: it.update(id=b"sbx_0000000000"),
    "an id with a newline": lambda it: it.update(id="sbx_0000000000\n"),
    "an image that leads out": lambda it: it.update(image="../../../etc"),
    "an image of the root": lambda it: it.update(image="/"),
    "a snapshot that leads out": lambda it: it.update(snapshot="../x"),
    "an option for a host name": lambda it: it.update(hostname="--bind"),
    "a host name with a newline": lambda it: it.update(hostname="a\nb"),
    "an environment": lambda it: it.update(env={"LD_PRELOAD": "/tmp/x.so"}),
    "another user": lambda it: it.update(user="0"),
    "a user that is a number": lambda it: it.update(user=0),
    "a field besides": lambda it: it.update(mounts=["/"]),
    "a field less": lambda it: it.pop("read_only"),
    "a word for a truth": lambda it: it.update(read_only="yes"),
    "a number for a truth": lambda it: it.update(memory_disk=1),
    "memory below nothing": lambda it: it["limits"].update(memory=-1),
    "memory of a truth": lambda it: it["limits"].update(memory=True),
    "too much memory": lambda it: it["limits"].update(memory=1 << 63),
    "a disk that is a word": lambda it: it["limits"].update(disk="9; reboot"),
    "processors without number": lambda it: it["limits"].update(cpus=float("nan")),
    "processors without end": lambda it: it["limits"].update(cpus=float("inf")),
    "no process": lambda it: it["limits"].update(pids=0),
    "a limit of nothing known": lambda it: it["limits"].update(requested=["root"]),
}


@pytest.mark.parametrize("what", ABSURD)
def test_what_is_no_blueprint_is_refused(what: str) -> None:
    plain = spawning.plain(blueprint())
    ABSURD[what](plain)
    number, rest = spawning.read_number(msgpack.packb([spawning.VERSION, 1, "create", plain]))
    with pytest.raises(Invalid):
        spawning.read_request(number, rest)


@pytest.fixture
def desk(data: Path, programs: Tools) -> Desk:
    data.parent.mkdir(exist_ok=True)
    return Desk(lambda: Boxes(data, programs), Audit(Log(data.parent / "spawner.log")))


WORDS = [*spawning.OPERATIONS, "_make", "__class__", "sweep", "folder", "../x", "sbx_00000000"]
anything = some.recursive(
    some.none() | some.booleans() | some.integers(-(1 << 63), (1 << 64) - 1) | some.floats() | some.text()
    | some.binary() | some.sampled_from(WORDS),
    lambda inner: some.lists(inner, max_size=6) | some.dictionaries(some.text(max_size=8), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.binary(max_size=600) | some.lists(anything, max_size=6).map(msgpack.packb))
def test_no_bytes_get_past_the_desk_or_stop_it(desk: Desk, raw: bytes) -> None:
    answer = desk.answer(raw, lambda: False)
    assert answer is None or len(answer) <= spawning.ANSWER_MOST


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some.data())
def test_a_request_that_was_bent_does_not_stop_it(desk: Desk, data: some.DataObject) -> None:
    """Bytes of good requests, with some of them changed."""
    good = [
        spawning.request(1, "found", "sbx_0000000000"), spawning.request(2, "open"),
        spawning.request(3, "create", blueprint(image="none")), spawning.request(4, "find_page", ""),
        spawning.request(5, "lives", Life(pid=1, started=1, boot="")), spawning.request(6, "said", "sbx_0000000000"),
    ]  # fmt: skip
    raw = bytearray(data.draw(some.sampled_from(good)))
    for _ in range(data.draw(some.integers(1, 4))):
        raw[data.draw(some.integers(0, len(raw) - 1))] = data.draw(some.integers(0, 255))
    desk.answer(bytes(raw[: data.draw(some.integers(0, len(raw)))]), lambda: False)
    assert desk.answer(good[0], lambda: False) == spawning.done(spawning.Request(1, "found", ()), None)


# A server that turned hostile -----------------------------------------------------------------------------------------


def as_server(work: Callable[[], None]) -> None:
    """Done by a process that is the server's user for good."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            view.become(SERVER)
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def ask(pair: socket.socket, *words: object) -> list[Any]:
    pair.settimeout(20)
    pair.send(msgpack.packb([spawning.VERSION, 1, *words]))
    answer: list[Any] = msgpack.unpackb(pair.recv(1 << 20))
    return answer


@pytest.fixture
def pair(spawner: SpawnerProcess) -> Iterator[socket.socket]:
    pairs = spawner.pairs()
    yield pairs[0]
    for each in pairs:
        each.close()


@as_root
def test_a_hostile_server_gets_nothing_by_ids_that_lead_elsewhere(pair: socket.socket, data: Path) -> None:
    victim = data.parent / "victim"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    assert ask(pair, "open")[1] == "done"

    def attack() -> None:
        for name in (
            "../../victim",
            "..",
            ".",
            "",
            "/",
            str(victim),
            "boxes",
            "a/../../victim",
            "sbx_1234/../../x",
            "x" * 4000,
        ):
            for operation in ("destroy", "stop", "found", "said", "pause", "stats", "cause"):
                assert ask(pair, operation, name)[1] == "Invalid", (operation, name)
        for words in (
            ["open", "/"],
            ["sweep"],
            ["_remove", "x"],
            ["folder"],
            ["__init__"],
            ["start", {}, KEY],
            [],
            [5],
            [None],
        ):
            assert ask(pair, *words)[1] == "Invalid", words

    as_server(attack)
    assert (victim / "kept").read_text() == "kept"


@as_root
def test_a_hostile_server_finds_nothing_in_a_sandbox_that_it_could_bend(
    pair: socket.socket, data: Path, spawner: SpawnerProcess
) -> None:
    """It owns `run` alone: links planted there lead nobody anywhere, neither at a start nor at the end."""
    plan = blueprint()
    secret = data.parent / "secret"
    secret.mkdir(mode=0o700)
    (secret / "file").write_text("root's")
    assert ask(pair, "create", spawning.plain(plan))[1] == "done"
    box = data / "boxes" / plan.id
    assert ((box / "run").stat().st_uid, box.stat().st_uid) == (SERVER.uid, 0)

    def attack() -> None:
        for forbidden in (
            lambda: (box / "run").rename(box / "elsewhere"),
            lambda: (box / "more").symlink_to("/etc"),
            (box / "record.json").read_bytes,
            lambda: (box / "lock").write_text(""),
            lambda: (box / "record.json").write_text("{}"),
            lambda: list((box / "disk").iterdir()),
            lambda: list(data.iterdir()),
            lambda: box.rename(data / "boxes/sbx_00000000000"),
            lambda: box.chmod(0o777),
            lambda: os.chown(box / "run", 0, 0),
            lambda: os.setuid(0),
            lambda: os.kill(spawner.process.pid or 0, signal.SIGKILL),
        ):
            with pytest.raises(PermissionError):
                forbidden()
        for name in ("hosts", "hostname", "machine-id"):
            (box / "run" / name).unlink()
            (box / "run" / name).symlink_to(secret / "file")
        (box / "run/link.sock").symlink_to(secret / "file")
        (box / "run/folder").symlink_to(secret)
        (box / "run/own").mkdir()
        (box / "run/own/up").symlink_to("../../../../..")
        os.link(box / "run/own/up", box / "run/again", follow_symlinks=False)

    as_server(attack)
    before = (secret / "file").stat()
    ask(pair, "start", spawning.plain(plan), KEY)
    assert ask(pair, "destroy", plan.id)[1] == "done"
    assert (secret / "file").read_text() == "root's"
    after = (secret / "file").stat()
    assert (before.st_uid, before.st_mode, before.st_ctime_ns) == (after.st_uid, after.st_mode, after.st_ctime_ns)
    assert not box.exists() and list((data / "trash").iterdir()) == []


@as_root
def test_descriptors_that_a_server_sends_along_are_not_taken(pair: socket.socket, spawner: SpawnerProcess) -> None:
    ask(pair, "open")
    held = Path(f"/proc/{spawner.process.pid}/fd")
    before = sorted(str(link.readlink()) for link in held.iterdir())
    with Path("/etc/hostname").open() as file:
        for _ in range(20):
            socket.send_fds(pair, [spawning.request(1, "find_page", "")], [file.fileno()] * 8)
            pair.recv(1 << 20)
    assert sorted(str(link.readlink()) for link in held.iterdir()) == before


@as_root
def test_too_long_and_too_many_requests_cost_only_who_sends_them(spawner: SpawnerProcess) -> None:
    pairs = spawner.pairs()
    pairs[0].send(msgpack.packb([spawning.VERSION, 1, "found", "s" * 100_000]))
    pairs[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:  # and nobody reads the answers
            pairs[1].send(spawning.request(1, "find_page", ""))
    assert ask(pairs[2], "find_page", "")[1] == "done"
    for each in pairs:
        each.close()
    assert spawner.process.is_alive()


def stands_still(pid: int) -> bool:
    """Every thread of it."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all(thread.joinpath("stat").read_bytes().rpartition(b")")[2].split()[0] == b"T" for thread in threads)


def is_unread(pair: Any) -> bool:
    """Whether something was sent that the other end has not taken."""
    return int.from_bytes(fcntl.ioctl(pair.socket, termios.TIOCOUTQ, bytes(4)), "little") > 0


# Deaths ---------------------------------------------------------------------------------------------------------------


@as_root
async def test_sandboxes_outlive_the_spawner_and_the_next_one_goes_on(spawner: SpawnerProcess) -> None:
    runtime = Native(Spawned(spawner.caller()))
    await runtime.open()
    inside = Inside(runtime, blueprint())
    await runtime.create(inside.plan)
    life = await inside.start()
    waiting = asyncio.create_task(runtime.ended(inside.id, life))
    await asyncio.to_thread(spawner.kill)
    assert process_started(life.pid) == life.started
    assert await inside.run("echo alive") == "alive\n"
    asking = asyncio.create_task(runtime.found(inside.id))  # asked while there is none
    await asyncio.to_thread(spawner.start)
    found = await asyncio.wait_for(asking, 20)
    assert found is not None and found.life == life
    assert not waiting.done()
    await runtime.stop(inside.id)
    await asyncio.wait_for(waiting, 10)
    await inside.close()
    await runtime.destroy(inside.id)
    await runtime.close()


@as_root
async def test_what_the_spawner_was_doing_when_it_died_is_done_again_or_told(spawner: SpawnerProcess) -> None:
    """Stopped in the middle of acts, then killed: a stop is repeated; a start, which may have happened, is an error."""
    spawned = Spawned(spawner.caller())
    runtime = Native(spawned)
    await runtime.open()
    plans = [blueprint(hostname=f"box-{number}") for number in range(2)]
    for plan in plans:
        await runtime.create(plan)
    assert spawner.process.pid
    os.kill(spawner.process.pid, signal.SIGSTOP)
    await asyncio.to_thread(until, lambda: stands_still(spawner.process.pid or 0), "it stands still")
    pairs = list(spawned._idle)
    stopping = asyncio.create_task(runtime.stop(plans[0].id))
    starting = asyncio.create_task(runtime.start(plans[1], KEY))
    await asyncio.to_thread(until, lambda: sum(map(is_unread, pairs)) == 2, "both were sent")
    await asyncio.to_thread(spawner.kill)
    await asyncio.to_thread(spawner.start)
    await asyncio.wait_for(stopping, 60)
    with pytest.raises(Unavailable, match="spawner"):
        await asyncio.wait_for(starting, 60)
    for plan in plans:
        await runtime.destroy(plan.id)
    await runtime.close()


@as_root
def test_a_new_server_ends_what_an_earlier_one_could_ask(spawner: SpawnerProcess) -> None:
    earlier = spawner.pairs()
    assert ask(earlier[0], "find_page", "")[1] == "done"
    later = spawner.pairs()
    assert ask(later[0], "find_page", "")[1] == "done"
    for pair in earlier:
        pair.settimeout(10)
        assert pair.recv(100) == b"", "it is closed"
    for each in (*earlier, *later):
        each.close()


def test_what_an_earlier_server_asked_and_did_not_begin_is_refused(desk: Desk) -> None:
    answer = desk.answer(spawning.request(1, "destroy", "sbx_0000000000"), lambda: True)
    assert answer is not None
    read = spawning.read_answer(answer, 1, "destroy")
    assert read is not None and isinstance(read.error, Unavailable)


@as_root
async def test_every_act_and_every_refusal_is_a_line_and_looks_are_not(spawner: SpawnerProcess) -> None:
    runtime = Native(Spawned(spawner.caller()))
    await runtime.open()
    plan = blueprint()
    await runtime.create(plan)
    await runtime.found(plan.id)
    with pytest.raises(Invalid):
        await runtime.start(replace(plan, hostname="x" * 63, image="host"), b"short")
    await runtime.destroy(plan.id)
    await runtime.close()
    told = [(line["operation"], line["sandbox"], line["outcome"].split(":")[0]) for line in spawner.lines()]
    assert told == [("create", plan.id, "done"), ("refused", "", "Invalid"), ("destroy", plan.id, "done")]
    assert stat.S_IMODE((spawner._made[3]).stat().st_mode) == 0o600
