"""What is done again and again."""

import asyncio

from ringfence.kernel.database import Transaction
from ringfence.kernel.housekeeping import Chore, Housekeeping
from tests.harness import TestClock
from tests.kernel.conftest import Place, add


async def test_chores_are_done_as_often_as_they_ask_and_one_that_fails_stops_none(sqlite_place: Place) -> None:
    database = sqlite_place.database()
    await database.open()
    done: list[str] = []
    thrice, woken = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def fails(tx: Transaction) -> None:
        done.append("fails")
        raise ZeroDivisionError

    def counts(tx: Transaction) -> None:
        done.append("counts")
        if done.count("counts") == 3:
            loop.call_soon_threadsafe(thrice.set)

    chores = [
        Chore("fails", 0.02, fails),
        Chore("counts", 0.02, counts),
        Chore("rare", 3600, lambda tx: done.append("rare")),
    ]
    housekeeping = Housekeeping(database, chores, lambda: woken.append(True))
    housekeeping.open()
    async with asyncio.timeout(20):
        await thrice.wait()
    assert "rare" not in done
    assert housekeeping.failures >= 2
    assert not woken
    await housekeeping.close()
    assert done[-3:] == ["fails", "counts", "rare"]  # each once more: what was gathered is written down
    await database.close()


async def test_a_machine_that_slept_is_noticed_before_anything_else_is_done(sqlite_place: Place) -> None:
    clock, order, loop = TestClock(), list[str](), asyncio.get_running_loop()
    database = sqlite_place.database(clock)
    await database.open()
    done = asyncio.Event()

    def chore(tx: Transaction) -> None:
        order.append("chore")
        loop.call_soon_threadsafe(done.set)

    housekeeping = Housekeeping(database, [Chore("chore", 0.02, chore)], lambda: order.append("woke"))
    housekeeping.open()
    async with asyncio.timeout(20):
        await done.wait()
        clock.advance(3600)
        while "woke" not in order:
            done.clear()
            await done.wait()
    assert order[order.index("woke") - 1 : order.index("woke") + 2] == ["chore", "woke", "chore"]
    await housekeeping.close()
    await database.close()


async def test_nothing_is_left_running_after_a_close(sqlite_place: Place) -> None:
    database = sqlite_place.database()
    await database.open()
    housekeeping = Housekeeping(database, [Chore("chore", 0.01, add(1))], lambda: None)
    housekeeping.open()
    await housekeeping.close()
    await database.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
