"""What every runtime does: sandboxes are made, started, paused, stopped, found again and removed."""

import asyncio
from dataclasses import replace

import pytest

from ringfence.fence.model import Cause, Limits, Stats
from ringfence.fence.runtimes.model import Found, Runtime, Unsupported
from ringfence.kernel.errors import Conflict, Invalid, NotFound
from tests.fence.runtimes.conftest import Inside, blueprint, running


async def test_a_sandbox_is_made_started_stopped_and_removed(runtime: Runtime) -> None:
    inside = Inside(runtime, blueprint())
    await runtime.create(inside.plan)
    assert await runtime.found(inside.id) == Found(id=inside.id, life=None)
    life = await inside.start()
    assert await runtime.found(inside.id) == Found(id=inside.id, life=life)
    await inside.close()
    await runtime.stop(inside.id)
    assert await runtime.found(inside.id) == Found(id=inside.id, life=None)
    assert await runtime.ended(inside.id, life) is Cause.STOPPED
    await runtime.destroy(inside.id)
    assert await runtime.found(inside.id) is None
    assert await runtime.find_all() == []


async def test_what_was_made_may_be_made_again(runtime: Runtime) -> None:
    plan = blueprint(limits=Limits(pids=50))
    assert await runtime.create(plan) == await runtime.create(plan)
    await runtime.destroy(plan.id)


async def test_a_sandbox_that_runs_is_not_started_twice(runtime: Runtime) -> None:
    async with running(runtime) as inside:
        with pytest.raises(Conflict, match="runs already"):
            await runtime.start(inside.plan, b"k" * 32)
        assert await runtime.found(inside.id) == Found(id=inside.id, life=inside.life)


async def test_what_is_not_there_cannot_be_started_and_is_removed_without_harm(runtime: Runtime) -> None:
    plan = blueprint()
    with pytest.raises(NotFound, match=plan.id):
        await runtime.start(plan, b"k" * 32)
    await runtime.stop(plan.id)
    await runtime.destroy(plan.id)
    await runtime.destroy(plan.id)
    assert await runtime.found(plan.id) is None


@pytest.mark.parametrize("bad", ["../x", "sbx_", "SBX_1234567", "sbx_1234/567", "sbx_12345\n", ""])
async def test_an_id_that_is_none_is_refused(runtime: Runtime, bad: str) -> None:
    with pytest.raises(Invalid):
        await runtime.create(blueprint(id=bad))
    with pytest.raises(Invalid):
        await runtime.destroy(bad)


async def test_an_image_that_is_not_there_is_refused_by_its_name(runtime: Runtime) -> None:
    with pytest.raises((NotFound, Invalid), match="no-such-image"):
        await runtime.create(blueprint(image="no-such-image"))


async def test_it_can_be_stopped_and_started_again_and_keeps_its_files(runtime: Runtime) -> None:
    async with running(runtime) as inside:
        await inside.run("echo kept > /home/agent/file; mkdir /workspace/sub")
        first = inside.life
        await runtime.stop(inside.id)
        assert await runtime.ended(inside.id, first) is Cause.STOPPED
        second = await inside.start()
        assert second != first
        assert await inside.run("cat /home/agent/file; ls /workspace") == "kept\nsub\n"


async def test_paused_it_does_nothing_and_resumed_it_goes_on(runtime: Runtime) -> None:
    async with running(runtime) as inside:
        await inside.run("(while :; do date +%N > /tmp/now; done) >/dev/null 2>&1 &")
        await runtime.pause(inside.id)
        assert await runtime.found(inside.id) == Found(id=inside.id, life=inside.life, paused=True)
        before = (await runtime.stats(inside.id)).cpu_us
        await asyncio.sleep(0.2)  # time for what must not happen
        assert (await runtime.stats(inside.id)).cpu_us == before
        await runtime.resume(inside.id)
        assert await runtime.found(inside.id) == Found(id=inside.id, life=inside.life)
        assert await inside.run("echo awake") == "awake\n"


async def test_paused_it_can_be_stopped_and_removed(runtime: Runtime) -> None:
    async with running(runtime) as inside:
        await inside.run("sleep 100 >/dev/null 2>&1 & sleep 100 >/dev/null 2>&1 &")
        await runtime.pause(inside.id)
        await asyncio.wait_for(runtime.stop(inside.id), 10)
        assert await runtime.found(inside.id) == Found(id=inside.id, life=None)
    async with running(runtime) as inside:
        await runtime.pause(inside.id)
        await asyncio.wait_for(runtime.destroy(inside.id), 10)
        assert await runtime.found(inside.id) is None


async def test_what_does_not_run_is_neither_paused_nor_measured(runtime: Runtime) -> None:
    plan = blueprint()
    await runtime.create(plan)
    for act in (runtime.pause, runtime.resume):
        with pytest.raises(Conflict):
            await act(plan.id)
    assert await runtime.stats(plan.id) == Stats()


async def test_an_end_that_is_waited_for_is_told_when_it_comes(runtime: Runtime) -> None:
    async with running(runtime) as inside:
        waiting = asyncio.create_task(runtime.ended(inside.id, inside.life))
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        await runtime.stop(inside.id)
        assert await asyncio.wait_for(waiting, 5) is Cause.STOPPED


async def test_many_are_made_at_once(runtime: Runtime) -> None:
    async def one(number: int) -> str:
        async with running(runtime, hostname=f"box-{number}") as inside:
            return await inside.run("hostname; cat /etc/machine-id")

    said = await asyncio.gather(*(one(number) for number in range(20)))
    assert [text.split()[0] for text in said] == [f"box-{number}" for number in range(20)]
    assert len({text.split()[1] for text in said}) == 20
    assert await runtime.find_all() == []


async def test_a_limit_that_cannot_be_held_up_is_refused_when_asked_for_and_left_out_when_not(runtime: Runtime) -> None:
    can = runtime.capabilities()
    for name, value in (("memory", 64 << 20), ("cpus", 0.5), ("pids", 40), ("disk", 64 << 20)):
        limits = Limits(**{name: value}, requested=frozenset({name}))  # type: ignore[arg-type]
        plan = blueprint(limits=limits)
        if name in can.limits and not (name == "disk" and can.limits[name] == "tmpfs"):
            assert (await runtime.create(plan)).how == {name: can.limits[name]}
        else:
            with pytest.raises(Unsupported, match=f"limits.{name}"):
                await runtime.create(plan)
            plan = replace(plan, limits=replace(limits, requested=frozenset()))
            assert name not in (await runtime.create(plan)).how
