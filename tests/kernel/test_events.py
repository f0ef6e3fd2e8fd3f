"""The chain of events: what shows in it, what is left of it, and what refusals add to it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.clock import SECOND, Clock
from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.errors import Conflict, Refused
from ringfence.kernel.events.model import GENESIS, SYSTEM, Actor, Draft, Event, Refusals, chained, intact
from ringfence.kernel.events.routes import visible
from ringfence.kernel.events.service import DELETE_BEFORE, Verdict, prune, read_after, verify
from tests.harness import TestClock
from tests.kernel.conftest import Place


async def tell(database: Database, count: int) -> None:
    for number in range(count):
        await database.write(lambda tx, n=number: tx.record("told", SYSTEM, {"n": n}, subject=f"s{n}"))  # type: ignore[misc]


async def tell_at_once(database: Database, count: int) -> None:
    def use_case(tx: Transaction) -> None:
        for number in range(count):
            tx.record("told", SYSTEM, {"n": number})

    await database.write(use_case)


@contextlib.asynccontextmanager
async def told(place: Place, count: int, clock: Clock | None = None) -> AsyncIterator[Database]:
    database = place.database(clock)
    await database.open()
    try:
        await tell(database, count)
        yield database
    finally:
        await database.close()


# The chain in the database --------------------------------------------------------------------------------------------

SWAP = """
    UPDATE events SET seq = -1 WHERE seq = 4; UPDATE events SET seq = 4 WHERE seq = 5;
    UPDATE events SET seq = 5 WHERE seq = -1
"""
COPY = "INSERT INTO events SELECT {seq}, time, kind, actor, via, agent, project, subject, data, prev, hash FROM events"
TAMPERED = {
    "an edited fact": ("UPDATE events SET data = '{\"n\":7}' WHERE seq = 4", "event 4 is not as it was written"),
    "another actor": ("UPDATE events SET actor = 'agent:x' WHERE seq = 1", "event 1 is not as it was written"),
    "another time": ("UPDATE events SET time = time - 1 WHERE seq = 9", "event 9 is not as it was written"),
    "a column emptied": ("UPDATE events SET subject = NULL WHERE seq = 4", "event 4 is not as it was written"),
    "a column filled": ("UPDATE events SET via = '' WHERE seq = 4", "event 4 is not as it was written"),
    "a removed event": ("DELETE FROM events WHERE seq = 5", "event 5 is missing"),
    "removed events": ("DELETE FROM events WHERE seq IN (5, 6, 7)", "events 5 to 7 are missing"),
    "a removed beginning": ("DELETE FROM events WHERE seq < 4", "the events before 4 are missing"),
    "a swapped pair": (SWAP, "event 4 is not as it was written"),
    "an event put before all": (COPY.format(seq=-3) + " WHERE seq = 1", "event -3 does not belong to the chain"),
    "an event put at zero": (COPY.format(seq=0) + " WHERE seq = 1", "event 0 does not belong to the chain"),
    "an event put at the end": (COPY.format(seq=11) + " WHERE seq = 10", "event 11 is not as it was written"),
    "events moved up": ("UPDATE events SET seq = seq + 100 WHERE seq > 5", "events 6 to 105 are missing"),
}


@pytest.mark.parametrize(("change", "finding"), TAMPERED.values(), ids=TAMPERED.keys())
async def test_tampering_with_the_events_shows(place: Place, change: str, finding: str) -> None:
    async with told(place, 10) as database:
        assert await verify(database) == Verdict(True, 10, 1, 10, (await verify(database)).head)
        for statement in change.split(";"):
            place.sql(statement)
        verdict = await verify(database)
        assert not verdict.ok
        assert finding in str(verdict.problem)


async def test_an_event_inserted_between_two_shows_though_the_others_make_room(place: Place) -> None:
    async with told(place, 10) as database:
        for seq in range(10, 4, -1):
            place.sql(f"UPDATE events SET seq = {seq + 1} WHERE seq = {seq}")
        place.sql(COPY.format(seq=5) + " WHERE seq = 4")
        assert (await verify(database)).problem == "event 5 is not as it was written"


async def test_a_cut_off_end_shows_to_who_kept_the_head(place: Place) -> None:
    async with told(place, 10) as database:
        head = (await verify(database)).head
        await tell(database, 5)
        assert (await verify(database, head)).ok
        kept = (await verify(database)).head
        place.sql("DELETE FROM events WHERE seq > 12")
        assert (await verify(database)).ok  # nothing in the table tells of it
        assert (await verify(database, head)).ok
        assert f"the expected head {kept} is not in the chain" == (await verify(database, kept)).problem
        place.sql("DELETE FROM events")
        assert not (await verify(database, head)).ok


BROKEN_TYPES = {
    "text that is no UTF-8": "UPDATE events SET actor = CAST(X'ff' AS TEXT) WHERE seq = 4",
    "a blob for text": "UPDATE events SET kind = CAST(kind AS BLOB) WHERE seq = 4",
    "a number for a hash": "UPDATE events SET hash = 5 WHERE seq = 4",
    "text for a hash": "UPDATE events SET prev = 'abc' WHERE seq = 4",
    "text for a time": "UPDATE events SET time = 'noon' WHERE seq = 4",
    "a fraction for a time": "UPDATE events SET time = time + 0.5 WHERE seq = 4",
    "text for a number": "UPDATE events SET seq = 'four' WHERE seq = 4",
    "data that is no JSON": "UPDATE events SET data = '{' WHERE seq = 4",
}


@pytest.mark.parametrize("change", BROKEN_TYPES.values(), ids=BROKEN_TYPES.keys())
async def test_values_of_other_types_than_were_written_show_and_break_nothing(sqlite_place: Place, change: str) -> None:
    async with told(sqlite_place, 10) as database:
        sqlite_place.sql(change)
        verdict = await verify(database)
        assert not verdict.ok
        assert verdict.last == 3
        assert verdict.problem


# The chain as such: any change of any byte ----------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
drafts = st.builds(
    lambda kind, actor, via, data, project, agent, subject: Draft.of(
        kind, Actor(actor, via), data, project, agent, subject
    ),
    texts, texts, st.none() | texts, st.dictionaries(texts, texts | st.integers()), st.none() | texts,
    st.none() | texts, st.none() | texts,
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(drafts, min_size=1, max_size=4), st.data())
def test_any_single_change_of_an_event_breaks_the_chain(made: list[Draft], data: st.DataObject) -> None:
    events = list(chained(made, 1_700_000_000_000_000, 7, bytes(32)))
    assert [intact(event, prev) for event, prev in zip(events, [GENESIS, *(e.hash for e in events)], strict=False)] == [
        True
    ] * len(events)
    event = data.draw(st.sampled_from(events))
    prev = event.prev
    column = data.draw(st.sampled_from(list(event.columns())))
    changed = Event(**event.columns() | {column: _changed(getattr(event, column), data)})
    assert not intact(changed, prev)


def _changed(value: Any, data: st.DataObject) -> Any:
    """The value with one byte other than it was, or one more or less."""
    match value:
        case None:
            return data.draw(texts)
        case int():
            return value ^ (1 << data.draw(st.integers(0, 62)))
        case bytes():
            place, bit = data.draw(st.integers(0, len(value) - 1)), data.draw(st.integers(0, 7))
            return value[:place] + bytes([value[place] ^ (1 << bit)]) + value[place + 1 :]
        case _:
            raw = value.encode()
            place = data.draw(st.integers(0, len(raw)))
            other = data.draw(st.binary(min_size=1, max_size=1))
            changed = raw[:place] + other + raw[place + data.draw(st.sampled_from([0, 1])) :]
            text = changed.decode("utf-8", "surrogateescape")
            return text if text != value else None


def test_facts_cannot_move_from_one_column_to_the_next() -> None:
    def hashed(**facts: str | None) -> bytes:
        draft = Draft("k", SYSTEM, "{}", **{"project": None, "agent": None, "subject": None} | facts)
        return next(chained([draft], 1, 1, b"")).hash

    assert len({hashed(project="a"), hashed(agent="a"), hashed(subject="a"), hashed(project=""), hashed()}) == 5


# Pruning --------------------------------------------------------------------------------------------------------------


async def test_a_pruned_chain_is_whole_and_says_where_it_was_cut(place: Place) -> None:
    clock = TestClock()
    async with told(place, 10, clock) as database:
        clock.advance(100)
        await tell(database, 5)
        boundary = clock.now() - 50 * SECOND
        assert await database.write(lambda tx: prune(tx, boundary)) == 10
        verdict = await verify(database)
        assert (verdict.ok, verdict.first, verdict.last, verdict.checked) == (True, 11, 16, 6)
        ((told_of,),) = place.sql("SELECT data FROM events WHERE kind = 'events_pruned'")
        assert json.loads(told_of)["through"] == 10
        clock.advance(100)
        await tell(database, 3)
        assert await database.write(lambda tx: prune(tx, clock.now() - 50 * SECOND)) == 6
        assert (await verify(database)).first == 17
        assert await database.write(lambda tx: prune(tx, clock.now() - 50 * SECOND)) == 0  # nothing is told twice
        assert (await verify(database)).last == 20
        place.sql("DELETE FROM events WHERE seq = 17")
        assert not (await verify(database)).ok


async def test_pruning_everything_keeps_the_newest_event_and_the_order_of_numbers(place: Place) -> None:
    async with told(place, 10) as database:
        assert await database.write(lambda tx: prune(tx, tx.now + SECOND)) == 9
        assert [seq for (seq,) in place.sql("SELECT seq FROM events ORDER BY seq")] == [10, 11]
        await tell(database, 1)
        assert (await verify(database)).last == 12


async def test_nothing_is_pruned_from_an_empty_log(place: Place) -> None:
    async with told(place, 0) as database:
        assert await database.write(lambda tx: prune(tx, tx.now)) == 0
        verdict = await verify(database)
        assert (verdict.ok, verdict.checked, verdict.head) == (True, 0, GENESIS.hex())


async def test_a_log_that_is_pruned_while_it_is_walked_is_whole(place: Place) -> None:
    async with told(place, 0) as database:
        await tell_at_once(database, 4500)

        async def keep_pruning() -> None:
            for through in range(200, 4400, 200):
                await database.write(lambda tx, seq=through: _prune_to(tx, seq))  # type: ignore[misc]

        walks = asyncio.gather(*(verify(database) for _ in range(6)))
        await keep_pruning()
        assert [verdict.problem for verdict in await walks] == [None] * 6


def _prune_to(tx: Transaction, seq: int) -> None:
    """All events of one batch have one time, so a pruning between them is made by hand."""
    (kept,) = read_after(tx, seq - 1, 1)
    gone = tx.run(DELETE_BEFORE, seq=seq)
    tx.record("events_pruned", SYSTEM, {"through": seq - 1, "hash": kept.prev.hex(), "count": gone})


# Refusals -------------------------------------------------------------------------------------------------------------

moments = st.lists(
    st.tuples(st.integers(0, 90 * SECOND), st.sampled_from("abc"), st.sampled_from(["busy", "late"]), st.booleans()),
    max_size=60,
)


@given(moments)
def test_every_refusal_is_recorded_or_counted_and_few_are_recorded(
    made: list[tuple[int, str, str, bool]],
) -> None:
    """Some batches are not committed: what they refused was not answered, and does not count."""
    refusals, now, wanted, recorded, counted = Refusals(), 0, 0, 0, 0
    windows: set[tuple[str, str, int]] = set()

    def take(drafts: list[Draft]) -> None:
        nonlocal recorded, counted
        for draft in drafts:
            repeated = json.loads(draft.data).get("repeated")
            counted, recorded = (counted + repeated, recorded) if repeated else (counted, recorded + 1)

    for waited, who, code, committed in made:
        now += waited
        told = refusals.record(Conflict("no", code=code), Actor(who), now)
        refusals.settle(committed)
        if committed:
            take(told)
            wanted += 1
            windows.add((who, code, now // Refusals.WINDOW))
    lost = refusals.due(now + Refusals.WINDOW)
    refusals.settle(False)  # a disk that was full
    told = refusals.due(now + Refusals.WINDOW)
    refusals.settle(True)
    assert [draft.data for draft in told] == [draft.data for draft in lost]
    take(told)
    assert recorded + counted == wanted
    assert recorded <= len(windows)


def test_refusals_remember_no_more_than_so_many() -> None:
    refusals, recorded, counted = Refusals(), 0, 0
    for number in range(3 * Refusals.KNOWN):
        for _ in range(2):
            for draft in refusals.record(Conflict("no", subject=str(number)), SYSTEM, number):
                repeated = json.loads(draft.data).get("repeated", 0)
                recorded, counted = recorded + (not repeated), counted + repeated
        refusals.settle(True)
        assert len(refusals._repeats) <= Refusals.KNOWN
    for draft in refusals.due(10**18):
        counted += json.loads(draft.data)["repeated"]
    assert recorded == counted == 3 * Refusals.KNOWN


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=5), st.binary() | st.text() | st.floats() | st.none()), st.text() | st.none())
def test_a_refusal_can_be_recorded_whatever_it_was_refused_for(details: dict[str, object], subject: str | None) -> None:
    refusal = Refused("\ud800\0", subject=subject)
    refusal.details = details
    draft = Draft.of_refusal(refusal, SYSTEM)
    for part in (draft.data, draft.subject or ""):
        part.encode()
        assert "\0" not in part


# Who sees what --------------------------------------------------------------------------------------------------------


def event(kind: str, actor: str = "operator:root", **more: Any) -> Event:
    draft = Draft.of(
        kind, Actor(actor), more.pop("data", {}), more.get("project"), more.get("agent"), more.get("subject")
    )
    return next(chained([draft], 1, 1, b""))


def sees(principal: Principal, seen: Event) -> bool:
    may = visible(principal, lambda who, project: who.sees(project))
    return may is None or may(seen)


AGENT = Principal(TokenKind.AGENT, "claude")
PERSON = Principal(TokenKind.SESSION, "ann", Role.VIEWER)
LIMITED = Principal(TokenKind.SESSION, "bob", Role.OPERATOR, projects=frozenset({"prj_a"}))
TO = "message_sent"


@pytest.mark.parametrize(
    ("who", "what", "may"),
    [
        (AGENT, event("task_claimed", project="prj_a"), True),
        (AGENT, event(TO, agent="codex", data={"to": "goose"}), False),
        (AGENT, event(TO, agent="codex", data={"to": "claude"}), True),
        (AGENT, event(TO, agent="claude", data={"to": "codex"}), True),
        (AGENT, event(TO, agent="codex", data={"to": "*"}), True),
        (AGENT, event("token_created"), False),
        (AGENT, event("token_revoked", agent="claude"), False),
        (AGENT, event("person_invited"), False),
        (AGENT, event("refused", agent="claude"), False),
        (AGENT, event("events_pruned"), False),
        (PERSON, event("token_created"), True),
        (PERSON, event("refused", project="prj_b"), True),
        (PERSON, event(TO, agent="codex", data={"to": "goose"}), True),
        (LIMITED, event("task_claimed", project="prj_a"), True),
        (LIMITED, event("task_claimed", project="prj_b"), False),
        (LIMITED, event("refused", project="prj_a"), True),
        (LIMITED, event("refused", project="prj_b"), False),
        (LIMITED, event("refused"), False),
        (LIMITED, event("token_created"), False),
        (LIMITED, event("token_created", "operator:bob"), True),
        (LIMITED, event("agent_registered", agent="claude"), True),
    ],
)
def test_events_are_shown_to_whom_they_concern(who: Principal, what: Event, may: bool) -> None:
    assert sees(who, what) is may
