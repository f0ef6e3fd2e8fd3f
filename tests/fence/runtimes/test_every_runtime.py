"""What a runtime is: every one passes these."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ringfence.fence.model import LIMITS, Cause, Limits, Stats, User
from ringfence.fence.runtimes.model import Found, Unsupported
from ringfence.kernel.errors import RingfenceError, Unavailable
from ringfence.kernel.ids import new
from tests.fence.runtimes.hosts import HOSTS, Host, program, ran, read, write

AMOUNTS = {"memory": 64 << 20, "cpus": 1.0, "pids": 64, "disk": 64 << 20}


@pytest.fixture(params=HOSTS)
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    """A host of each kind, on which nothing is left afterwards."""
    with HOSTS[request.param]() as found:
        await found.open()
        try:
            yield found
        finally:
            await found.close()


async def test_creating_makes_files_and_runs_nothing(host: Host) -> None:
    box = await host.created()
    assert await host.runtime.found(box.id) == Found(id=box.id, life=None)
    assert host.runtime.link_folder(box.id).is_dir()
    first = await host.runtime.create(box.blueprint)
    assert first == await host.runtime.create(box.blueprint), "again is harmless"
    assert [found.id for found in await host.runtime.find_all()] == [box.id]


async def test_a_started_sandbox_greets_and_runs_programs(host: Host) -> None:
    box, link = await host.running()
    said, ended = await ran(link, program("echo", "hello"))
    assert (said, ended.code) == (b"hello\n", 0)
    found = await host.runtime.found(box.id)
    assert found is not None
    assert found == Found(id=box.id, life=box.life)


async def test_a_warden_with_another_key_is_not_let_in(host: Host) -> None:
    box = await host.created()
    await host.listen(box)
    await host.runtime.start(box.blueprint, bytes(32))
    with pytest.raises(Unavailable):
        await host.links.link(box.id, 0.5)


async def test_files_stay_when_it_is_stopped_and_started(host: Host) -> None:
    box, link = await host.running()
    for folder in ("/workspace", "/home/agent"):
        await write(link, f"{folder}/kept", folder.encode())
    first = box.life
    await host.runtime.stop(box.id)
    assert await host.runtime.found(box.id) == Found(id=box.id, life=None)
    link = await host.start(box)
    assert box.life != first
    for folder in ("/workspace", "/home/agent"):
        assert await read(link, f"{folder}/kept") == folder.encode()


async def test_the_end_of_a_life_is_told_with_its_cause(host: Host) -> None:
    box, _ = await host.running()
    assert box.life is not None
    waiting = asyncio.create_task(host.runtime.ended(box.id, box.life))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await host.runtime.stop(box.id)
    assert await waiting == Cause.STOPPED
    await host.start(box)
    waiting = asyncio.create_task(host.runtime.ended(box.id, box.life))
    await host.kill(box)
    assert await waiting == Cause.DIED
    await host.runtime.stop(box.id)
    found = await host.runtime.found(box.id)
    assert found is not None
    assert found.life is None


async def test_the_end_of_a_life_that_is_over_is_told_at_once(host: Host) -> None:
    box, _ = await host.running()
    assert box.life is not None
    await host.runtime.stop(box.id)
    await asyncio.wait_for(host.runtime.ended(box.id, box.life), 5)


async def test_stopping_and_destroying_are_harmless_when_there_is_nothing(host: Host) -> None:
    box, _ = await host.running()
    for _ in range(2):
        await host.runtime.stop(box.id)
    for _ in range(2):
        await host.runtime.destroy(box.id)
    await host.runtime.destroy("sbx_never")
    await host.runtime.stop("sbx_never")
    assert await host.runtime.found(box.id) is None
    assert await host.runtime.found("sbx_never") is None
    assert await host.runtime.find_all() == []
    assert not host.runtime.link_folder(box.id).exists()


async def test_a_running_sandbox_is_destroyed_with_what_runs_in_it(host: Host) -> None:
    box, link = await host.running()
    await link.start(program("sleep", "3600"))
    assert box.life is not None
    waiting = asyncio.create_task(host.runtime.ended(box.id, box.life))
    await host.runtime.destroy(box.id)
    await asyncio.wait_for(waiting, 5)
    assert await host.runtime.found(box.id) is None


async def test_a_paused_sandbox_stands_still_and_goes_on(host: Host) -> None:
    if not host.runtime.capabilities().pause:
        pytest.skip("this host cannot")
    box, link = await host.running()
    host.links.suspend(box.id)
    await host.runtime.pause(box.id)
    found = await host.runtime.found(box.id)
    assert found is not None
    assert (found.paused, found.life) == (True, box.life)
    asked = asyncio.create_task(ran(link, program("echo", "later")))
    await asyncio.sleep(0.3)
    assert not asked.done()
    await host.runtime.resume(box.id)
    host.links.resume(box.id)
    assert (await asked)[0] == b"later\n"
    found = await host.runtime.found(box.id)
    assert found is not None
    assert not found.paused


@pytest.mark.parametrize("how", ["stop", "destroy"])
async def test_a_paused_sandbox_is_ended(host: Host, how: str) -> None:
    if not host.runtime.capabilities().pause:
        pytest.skip("this host cannot")
    box, _ = await host.running()
    host.links.suspend(box.id)
    await host.runtime.pause(box.id)
    async with asyncio.timeout(10):
        await getattr(host.runtime, how)(box.id)
    found = await host.runtime.found(box.id)
    assert (found is None) if how == "destroy" else (found is not None and found.life is None and not found.paused)


async def test_a_snapshot_gives_its_files_to_another(host: Host) -> None:
    if not host.runtime.capabilities().snapshot:
        pytest.skip("this host cannot")
    box, link = await host.running()
    await write(link, "/workspace/then", b"then")
    await host.runtime.stop(box.id)
    name = new("snp")
    assert await host.runtime.snapshot(box.id, name) >= 4
    link = await host.start(box)
    await write(link, "/workspace/after", b"after")
    await write(link, "/workspace/then", b"changed")
    _, other = await host.running(snapshot=name)
    assert await read(other, "/workspace/then") == b"then"
    assert await read(other, "/workspace/after") is None
    await write(other, "/workspace/then", b"mine")
    _, third = await host.running(snapshot=name)
    assert await read(third, "/workspace/then") == b"then"
    for each in host.boxes:
        await host.runtime.destroy(each.id)
    await host.runtime.forget_snapshot(name)
    await host.runtime.forget_snapshot(name)
    with pytest.raises(RingfenceError):
        await host.created(snapshot=name)


async def test_what_it_cannot_hold_up_it_refuses(host: Host) -> None:
    can = host.runtime.capabilities()
    for name in LIMITS:
        limits = Limits(**{name: AMOUNTS[name]}, requested=frozenset({name}))  # type: ignore[arg-type]
        if name in can.limits:
            box = await host.created(limits=limits, memory_disk=name == "disk")
            assert name in (await host.runtime.create(box.blueprint)).how
            continue
        assert can.lacks[name], "it says what would enable it"
        with pytest.raises(Unsupported):
            await host.created(limits=limits)
    for user in User:
        if user not in can.users:
            with pytest.raises(Unsupported):
                await host.created(user=user)


async def test_those_that_began_with_a_snapshot_go_on_without_it(host: Host) -> None:
    if not host.runtime.capabilities().snapshot:
        pytest.skip("this host cannot")
    box, link = await host.running()
    await write(link, "/workspace/kept", b"kept")
    await host.runtime.stop(box.id)
    await host.runtime.snapshot(box.id, name := new("snp"))
    await host.runtime.destroy(box.id)
    other, link = await host.running(snapshot=name)
    await host.runtime.forget_snapshot(name)
    assert await read(link, "/workspace/kept") == b"kept"
    await host.runtime.stop(other.id)
    assert await read(await host.start(other), "/workspace/kept") == b"kept"


async def test_default_limits_refuse_nothing(host: Host) -> None:
    _, link = await host.running(limits=Limits(**AMOUNTS))  # type: ignore[arg-type]
    assert (await ran(link, program("true")))[1].code == 0


async def test_sandboxes_outlive_the_server(host: Host) -> None:
    box, link = await host.running()
    other = await host.created()
    await write(link, "/workspace/kept", b"kept")
    await host.reopen()
    found = {each.id: each for each in await host.runtime.find_all()}
    assert found.keys() == {box.id, other.id}
    assert found[box.id].life == box.life
    assert found[other.id].life is None
    await host.listen(box)
    link = await host.links.link(box.id, 10)
    assert await read(link, "/workspace/kept") == b"kept"
    assert box.life is not None
    waiting = asyncio.create_task(host.runtime.ended(box.id, box.life))
    await host.kill(box)
    assert await asyncio.wait_for(waiting, 10) == Cause.DIED


async def test_a_sandbox_that_ended_while_no_server_ran_is_found_without_a_life(host: Host) -> None:
    box, _ = await host.running()
    await host.kill(box)
    await host.reopen()
    found = await host.runtime.found(box.id)
    assert found is not None
    assert found.life is None
    await host.start(box)


async def test_many_live_side_by_side(host: Host) -> None:
    boxes = await asyncio.gather(*(host.running() for _ in range(10)))
    said = await asyncio.gather(*(ran(link, program("echo", box.id)) for box, link in boxes))
    assert [out.decode().strip() for out, _ in said] == [box.id for box, _ in boxes]
    await asyncio.gather(*(host.runtime.destroy(box.id) for box, _ in boxes))
    assert await host.runtime.find_all() == []


async def test_what_it_uses_and_what_was_said_can_be_asked_at_any_time(host: Host) -> None:
    box = await host.created()
    for then in (host.start(box), host.runtime.stop(box.id), host.start(box)):
        assert isinstance(await host.runtime.stats(box.id), Stats)
        assert isinstance(await host.runtime.said(box.id), bytes)
        await then
    assert "host" in host.runtime.images()
