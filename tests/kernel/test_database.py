"""One writer, readers beside it, and what they survive."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ringfence.kernel import database as db
from ringfence.kernel.database import Database, Query, Transaction
from ringfence.kernel.errors import Conflict, NotFound, StorageFull, Unavailable
from ringfence.kernel.events.model import SYSTEM, Actor
from ringfence.kernel.events.service import verify
from tests.kernel.conftest import ADD, ALL, SET, Held, Place, add


@contextlib.asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Database]:
    database = place.database()
    await database.open()
    try:
        yield database
    finally:
        await database.close()


# Batches --------------------------------------------------------------------------------------------------------------


def raises(error: Exception) -> Callable[[Transaction], None]:
    def use_case(tx: Transaction) -> None:
        add(99)(tx)
        raise error

    return use_case


def twice(tx: Transaction) -> None:
    add(99)(tx)
    add(99)(tx)


def nothing_in_it(tx: Transaction) -> None:
    add(99)(tx)
    tx.run(ADD, id=98, value=None)


def no_such_table(tx: Transaction) -> None:
    add(99)(tx)
    tx.run(Query(sa.text("UPDATE nowhere SET x = 1")))


def tells(data: dict[str, Any], **more: str) -> Callable[[Transaction], None]:
    def use_case(tx: Transaction) -> None:
        add(99)(tx)
        tx.record("thing_added", SYSTEM, data, **more)

    return use_case


FAILING = {
    "a rule": raises(Conflict("no")),
    "a bug": raises(ZeroDivisionError()),
    "a StopIteration": raises(StopIteration()),
    "the same key twice": twice,
    "a missing value": nothing_in_it,
    "a missing table": no_such_table,
    "a fact that is no JSON": tells({"when": object()}),
    "a fact that is no number": tells({"cost": float("nan")}),
    "a lone surrogate": tells({"name": "\ud800"}),
    "a lone surrogate in a column": tells({}, subject="\ud800"),
    "a NUL in a column": tells({}, subject="a\0b"),
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING.keys())
async def test_a_use_case_that_fails_rolls_back_alone_and_its_neighbours_commit(
    place: Place, failing: Callable[[Transaction], None]
) -> None:
    async with opened(place) as database:
        async with Held(database):
            batches = database.batches
            before, bad, after = (asyncio.create_task(database.write(job)) for job in (add(1), failing, add(2)))
            await asyncio.sleep(0)
        assert await asyncio.wait_for(before, 20) == 1
        assert await asyncio.wait_for(after, 20) == 2
        with pytest.raises(Exception):  # noqa: B017  each its own
            await asyncio.wait_for(bad, 20)
        assert database.batches - batches == 2  # the one that held the writer, and all three
        assert list(place.kept()) == [1, 2]
        told = [kind for (kind,) in place.sql("SELECT kind FROM events ORDER BY seq")]
        assert [kind for kind in told if kind != "refused"] == ["thing_added", "thing_added"]
        assert (await verify(database)).ok
        await database.write(add(3))


async def test_a_refusal_is_recorded_though_what_was_refused_is_undone(place: Place) -> None:
    async with opened(place) as database:
        with pytest.raises(Conflict):
            await database.write(raises(Conflict("no", subject="thing 99")), Actor("agent:claude"))
        assert place.kept() == {}
        assert place.sql("SELECT kind, actor, subject FROM events") == [("refused", "agent:claude", "thing 99")]


async def test_nobody_is_answered_before_the_commit(place: Place) -> None:
    async with opened(place) as database:
        seen_inside: list[int] = []

        async def one(number: int) -> None:
            def use_case(tx: Transaction) -> None:
                add(number)(tx)
                if number % 10 == 0:
                    seen_inside.append(number in place.kept())

            await database.write(use_case)
            assert number in place.kept()  # on another connection, in the same step of the loop

        await asyncio.gather(*map(one, range(60)))
        assert seen_inside == [False] * 6


async def test_the_events_of_a_batch_are_told_of_before_anybody_in_it_is_answered(place: Place) -> None:
    async with opened(place) as database:
        told: list[int] = []
        database.on_commit.append(lambda events: told.extend(event.seq for event in events))

        async def one(number: int) -> None:
            await database.write(add(number))
            assert len(told) >= len(answered) + 1
            answered.append(number)

        answered: list[int] = []
        await asyncio.gather(*map(one, range(100)))
        assert told == list(range(1, 101))


async def test_writes_that_wait_share_a_commit(place: Place) -> None:
    async with opened(place) as database:
        await asyncio.gather(*(database.write(add(number)) for number in range(500)))
        assert database.commits == 500
        assert database.batches <= 20


async def test_a_caller_who_goes_away_does_not_take_the_write_along(place: Place) -> None:
    async with opened(place) as database:
        async with Held(database):
            gone = asyncio.create_task(database.write(add(1)))
            stays = asyncio.create_task(database.write(add(2)))
            await asyncio.sleep(0)
            gone.cancel()
        await stays
        assert list(place.kept()) == [1, 2]
        assert database.waiting == 0


async def test_a_full_queue_is_answered_at_once_and_drains(sqlite_place: Place) -> None:
    async with opened(sqlite_place) as database:
        async with Held(database):
            waiting = [asyncio.create_task(database.write(lambda tx: None)) for _ in range(db.WAITING - 1)]
            await asyncio.sleep(0)
            with pytest.raises(Unavailable, match="waiting to be written"):
                await database.write(add(1))
        await asyncio.gather(*waiting)
        await database.write(add(1))
        assert list(sqlite_place.kept()) == [1]


async def test_closing_commits_what_waits_and_takes_nothing_more(place: Place) -> None:
    database = place.database()
    await database.open()
    waiting = [asyncio.create_task(database.write(add(number))) for number in range(300)]
    await asyncio.sleep(0)
    await database.close()
    assert len(place.kept()) == 300
    await asyncio.gather(*waiting)
    for late in (database.write(add(300)), database.read(lambda tx: None)):
        with pytest.raises(Unavailable, match="stopping"):
            await late


# Reading --------------------------------------------------------------------------------------------------------------


async def test_a_read_during_writes_sees_each_of_them_whole_or_not_at_all(place: Place) -> None:
    async with opened(place) as database:
        await database.write(lambda tx: tx.run_many(ADD, [{"id": 1, "value": "500"}, {"id": 2, "value": "500"}]))

        def move(tx: Transaction) -> None:
            one, other = (int(value) for _, value in tx.rows(ALL))
            tx.run(SET, which=1, value=str(one - 1))
            tx.run(SET, which=2, value=str(other + 1))

        def look(tx: Transaction) -> None:
            first = [int(value) for _, value in tx.rows(ALL)]
            again = [int(value) for _, value in tx.rows(ALL)]
            assert sum(first) == 1000
            assert first == again

        await asyncio.gather(*(database.write(move) for _ in range(300)), *(database.read(look) for _ in range(300)))
        assert place.kept() == {1: "200", 2: "800"}


async def test_a_reader_cannot_change_anything(place: Place) -> None:
    async with opened(place) as database:
        with pytest.raises(Exception, match=r"read.?only"):
            await database.read(add(1))
        assert place.kept() == {}


async def test_an_error_leaves_no_poisoned_connection_behind(place: Place) -> None:
    def fails(tx: Transaction) -> None:
        tx.rows(ALL)
        raise NotFound("no")

    async with opened(place) as database:
        for broken in (fails, no_such_table):
            for _ in range(3 * db.READERS):
                with pytest.raises(Exception):  # noqa: B017
                    await database.read(broken)
                with pytest.raises(Exception):  # noqa: B017
                    await database.write(broken)
        await database.write(add(1))
        reads = [database.read(lambda tx: tx.rows(ALL)) for _ in range(3 * db.READERS)]
        assert await asyncio.gather(*reads) == [[(1, "x")]] * len(reads)


# A full disk ----------------------------------------------------------------------------------------------------------


async def test_a_full_database_refuses_clearly_loses_nothing_and_works_again(sqlite_place: Place) -> None:
    def pages(tx: Transaction, more: int) -> None:
        used = tx.row(Query(sa.text("PRAGMA page_count")))
        assert used is not None
        tx.rows(Query(sa.text(f"PRAGMA max_page_count={used[0] + more}")))

    async with opened(sqlite_place) as database:
        await database.write(lambda tx: pages(tx, 20))
        acknowledged, number = set(), 0
        with pytest.raises(StorageFull, match="free some space"):
            for number in range(1000):
                acknowledged.add(await database.write(add(number, "x" * 2000)))
        assert set(sqlite_place.kept()) == acknowledged
        assert await database.read(lambda tx: len(tx.rows(ALL))) == len(acknowledged)
        await database.write(lambda tx: pages(tx, 10_000))
        await database.write(add(number, "again"))
        assert (await verify(database)).checked == len(acknowledged) + 1


# PostgreSQL: connections that die, other servers ---------------------------------------------------------------------

KILL = Query(sa.text("SELECT pg_terminate_backend(CAST(:pid AS integer))").bindparams(sa.bindparam("pid")))
WHO = Query(sa.text("SELECT pg_backend_pid()"))


async def backend_of(ask: Callable[..., Any]) -> int:
    row = await ask(lambda tx: tx.row(WHO))
    return int(row[0])


async def test_a_connection_that_was_killed_while_idle_is_replaced_unnoticed(postgres_place: Place) -> None:
    async with opened(postgres_place) as database:
        await database.write(add(1))
        for ask in (database.write, database.read):
            pid = await backend_of(ask)
            postgres_place.sql(f"SELECT pg_terminate_backend({pid}, 5000)")
        await database.write(add(2))
        assert await asyncio.gather(*(database.read(lambda tx: len(tx.rows(ALL))) for _ in range(12))) == [2] * 12


async def test_a_connection_killed_in_the_middle_of_a_batch_costs_nothing(postgres_place: Place) -> None:
    async with opened(postgres_place) as database:
        killed: list[int] = []

        def dies_once(tx: Transaction) -> None:
            add(2)(tx)
            row = tx.row(WHO)
            assert row is not None
            if not killed:
                killed.append(row[0])
                tx.row(KILL, pid=row[0])

        async with Held(database):
            jobs = [asyncio.create_task(database.write(job)) for job in (add(1), dies_once, add(3))]
            await asyncio.sleep(0)
        await asyncio.gather(*jobs)
        assert killed
        assert list(postgres_place.kept()) == [1, 2, 3]
        assert (await verify(database)).checked == 3


async def test_when_the_connection_dies_in_the_commit_nobody_is_told_that_nothing_happened(
    postgres_place: Place,
) -> None:
    postgres_place.sql("""
        CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$
    """)
    postgres_place.sql(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON things DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION die()"
    )
    async with opened(postgres_place) as database:
        with pytest.raises(Unavailable, match="look whether it was"):
            await database.write(add(1))
        postgres_place.sql("DROP TRIGGER late ON things")
        await database.write(add(2))
        assert list(postgres_place.kept()) == [2]


async def test_two_servers_whose_batches_wait_for_each_other_both_succeed(postgres_place: Place) -> None:
    async with opened(postgres_place) as one, opened(postgres_place) as other:
        await one.write(lambda tx: tx.run_many(ADD, [{"id": 1, "value": ""}, {"id": 2, "value": ""}]))
        both = threading.Barrier(2)

        def change(number: int, value: str, *, meet: bool) -> Callable[[Transaction], None]:
            met: list[bool] = []

            def use_case(tx: Transaction) -> None:
                tx.run(SET, which=number, value=value)
                tx.record("thing_changed", SYSTEM, {"id": number})
                if meet and not met:
                    met.append(True)
                    both.wait(20)

            return use_case

        async def batch(database: Database, first: int, then: int, value: str) -> None:
            async with Held(database):
                jobs = [
                    asyncio.create_task(database.write(change(first, value, meet=True))),
                    asyncio.create_task(database.write(change(then, value, meet=False))),
                ]
                await asyncio.sleep(0)
            await asyncio.gather(*jobs)

        await asyncio.wait_for(asyncio.gather(batch(one, 1, 2, "one"), batch(other, 2, 1, "other")), 30)
        assert set(postgres_place.kept().values()) in ({"one"}, {"other"})  # each batch is one transaction
        assert (await verify(one)).checked == 4


async def test_a_server_that_waits_too_long_for_another_answers_and_goes_on(postgres_place: Place) -> None:
    async with opened(postgres_place) as one, opened(postgres_place) as other:
        await one.write(add(1))
        go, begun = threading.Event(), threading.Event()

        def holds(tx: Transaction) -> None:
            tx.run(SET, which=1, value="held")
            begun.set()
            assert go.wait(20)

        def impatient(tx: Transaction) -> None:
            tx.run(Query(sa.text("SET LOCAL lock_timeout = '100ms'")))
            tx.run(SET, which=1, value="never")

        holding = asyncio.create_task(one.write(holds))
        await asyncio.to_thread(begun.wait, 20)
        with pytest.raises(Unavailable, match="other servers hold"):
            await other.write(impatient)
        await other.write(add(2))
        go.set()
        await holding
        assert postgres_place.kept() == {1: "held", 2: "x"}


async def test_two_servers_that_make_the_same_thing_at_once_make_it_once(postgres_place: Place) -> None:
    async with opened(postgres_place) as one, opened(postgres_place) as other:
        both, met = threading.Barrier(2), list[Transaction]()

        def once(tx: Transaction) -> str:
            if tx.row(ALL) is not None:
                return "there"
            if len(met) < 2:
                met.append(tx)
                both.wait(20)
            add(1)(tx)
            return "made"

        answers = await asyncio.wait_for(asyncio.gather(one.write(once), other.write(once)), 30)
        assert sorted(answers) == ["made", "there"]
        assert (await verify(one)).checked == 1


async def test_numbers_are_gapless_and_in_the_order_of_commits_on_two_servers(postgres_place: Place) -> None:
    async with opened(postgres_place) as one, opened(postgres_place) as other:
        stop = asyncio.Event()
        seen: list[int] = []

        async def watch() -> None:
            """What is visible is always a beginning of what there will be."""
            while not stop.is_set():
                numbers = [seq for (seq,) in await one.read(lambda tx: tx.rows(NUMBERS))]
                assert numbers == list(range(1, len(numbers) + 1))
                assert len(numbers) >= len(seen)
                seen[:] = numbers

        watching = asyncio.create_task(watch())
        await asyncio.gather(
            *(
                server.write(add(2 * number + offset))
                for number in range(150)
                for offset, server in enumerate((one, other))
            )
        )
        stop.set()
        await watching
        assert (await verify(one)).checked == 300


NUMBERS = Query(sa.text("SELECT seq FROM events ORDER BY seq"))
