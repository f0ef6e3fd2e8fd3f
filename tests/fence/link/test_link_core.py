"""The core against a model warden, through any order of breaks and repeats; and against one that lies."""

import itertools
import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.fence.link import frames
from ringfence.fence.link.core import Began, Conversation, Core, Ended, Full, Greeted, Returned, Room, Run, Said
from ringfence.fence.link.frames import Kind
from ringfence.fence.link.model import Channel, Exit, Start, Whom, Why

KEY = bytes(range(32))
NONCE = bytes(range(50, 82))
BOOT = bytes(16)


def nobody(_: bytes) -> None:
    return None


def start(number: int = 0, **fields: object) -> Start:
    return Start(id=number.to_bytes(16, "big"), argv=(b"true",), **fields)  # type: ignore[arg-type]


def hello(
    sessions: list[dict[str, object]] | None = None, *, boot: bytes = BOOT, key: bytes = KEY, following: int = 1
) -> bytes:
    mac = frames.mac(key, NONCE, boot)
    fields = {"v": 1, "boot": boot, "mac": mac, "next": following, "sessions": sessions or []}
    return frames.packed(Kind.HELLO, 0, fields)


def held(stream: int, number: int = 0, **fields: object) -> dict[str, object]:
    one = {
        "stream": stream, "id": number.to_bytes(16, "big"), "pid": 5, "out": [0, 0], "err": [0, 0], "taken": 0,
        "seen": 0, "ended": False,
    }  # fmt: skip
    return one | fields


def output(stream: int, offset: int, data: bytes, channel: int = 1) -> bytes:
    return frames.frame(Kind.OUTPUT, stream, bytes([channel]) + offset.to_bytes(8, "big") + data)


def taken(stream: int, offset: int) -> bytes:
    return frames.frame(Kind.TAKEN, stream, offset.to_bytes(8, "big"))


def ended(stream: int, out: int = 0, err: int = 0) -> bytes:
    return frames.exited(stream, Exit(why=Why.EXITED, code=0, out=out, err=err))


def sent(conversation: Conversation) -> list[frames.ToWarden]:
    found = [frames.to_warden(one) for one in frames.Splitter().feed(b"".join(conversation.outgoing), 1000)]
    conversation.outgoing.clear()
    return found


def greeted(core: Core, *sessions: dict[str, object], boot: bytes = BOOT, following: int = 1) -> Conversation:
    conversation = Conversation(core, KEY, NONCE)
    assert sent(conversation) == [frames.Challenge(NONCE)]
    conversation.receive(hello(list(sessions), boot=boot, following=following))
    assert conversation.greeted and conversation.violation is None
    return conversation


def test_nothing_is_said_to_a_stranger_but_the_challenge() -> None:
    for wrong in (hello(key=bytes(32)), output(1, 0, b"x"), frames.ping(bytes(8)), b"\0\0\0\0\2\0\0\0\0"):
        core = Core(nobody)
        conversation = Conversation(core, KEY, NONCE)
        conversation.outgoing.clear()
        assert conversation.receive(wrong) == []
        assert conversation.violation is not None
        assert conversation.outgoing == [] and core.live is None
        assert conversation.receive(hello()) == []
        assert not conversation.greeted


def test_a_start_before_the_warden_comes_is_sent_after_the_welcome() -> None:
    core = Core(nobody)
    run = core.start(start())
    core.write(run, memoryview(b"early"))
    core.end_input(run)
    conversation = greeted(core, following=40)
    assert sent(conversation) == [
        frames.Welcome(()), frames.Begin(40, start()), frames.Input(40, 0, memoryview(b"early")),
        frames.InputEnd(40, 5),
    ]  # fmt: skip


def test_a_start_that_was_under_way_when_the_connection_broke_is_sent_again_unless_the_warden_has_it() -> None:
    core = Core(nobody)
    first = greeted(core)
    core.start(start())
    sent(first)
    first.close()
    assert sent(greeted(core, following=2)) == [frames.Welcome(()), frames.Begin(2, start())]
    assert sent(greeted(core, held(2), following=3)) == [frames.Welcome(((2, 0, 0),))]


def test_a_session_that_began_and_is_gone_from_the_same_warden_is_lost() -> None:
    core = Core(nobody)
    core.start(start())
    conversation = greeted(core)
    conversation.receive(frames.packed(Kind.STARTED, 1, {"pid": 9}))
    conversation.close()
    again = Conversation(core, KEY, NONCE)
    events = again.receive(hello(following=2))
    assert [type(event) for event in events] == [Greeted, Ended]
    assert isinstance(events[1], Ended) and events[1].exit.why is Why.LOST
    assert core.runs == {}


def test_a_warden_that_was_born_again_has_lost_everything_it_was_sent() -> None:
    core = Core(nobody)
    greeted(core)
    core.start(start(1))
    assert core.live is not None
    core.live.close()
    core.start(start(2))  # never sent
    again = Conversation(core, KEY, NONCE)
    lost = [event for event in again.receive(hello(boot=bytes(15) + b"1")) if isinstance(event, Ended)]
    assert [event.run.id[-1] for event in lost] == [1]
    assert list(core.runs) == [start(2).id]


def test_the_newest_right_greeting_is_the_link_and_a_wrong_one_is_not() -> None:
    core = Core(nobody)
    run = core.start(start())
    first = greeted(core)
    stranger = Conversation(core, KEY, NONCE)
    stranger.receive(hello(key=bytes(32)))
    assert core.live is first
    second = greeted(core, held(1), following=2)
    assert core.live is second and first.superseded
    assert first.receive(output(1, 0, b"late")) == [] and run.out.delivered == 0
    [said] = second.receive(output(1, 0, b"good"))
    assert isinstance(said, Said) and bytes(said.data) == b"good"


def test_a_restarted_server_goes_on_where_its_ledger_stands() -> None:
    core = Core(lambda session: (100, 7) if session[-1] == 1 else None)
    conversation = Conversation(core, KEY, NONCE)
    conversation.outgoing.clear()
    sessions = [held(3, 1, out=[90, 200], err=[7, 7], taken=10, seen=30), held(4, 2)]
    events = conversation.receive(hello(sessions, following=5))
    assert [type(event) for event in events] == [Greeted, Returned, Began, Room]
    assert sent(conversation) == [frames.Welcome(((3, 100, 7),))]  # the other is nobody's, and ends
    run = core.runs[start(1).id]
    [said] = conversation.receive(output(3, 100, b"x" * 100))
    assert isinstance(said, Said) and run.out.delivered == 200
    assert core.write(run, memoryview(b"y" * 70_000)) == frames.INPUT - 20
    assert isinstance(sent(conversation)[0], frames.Input)
    conversation.receive(taken(3, 20) + taken(3, 30) + taken(3, 31))
    assert conversation.violation is None and run.taken == 31


def test_a_hole_in_the_output_loses_that_session_alone() -> None:
    core = Core(lambda _: (100, 0))
    conversation = Conversation(core, KEY, NONCE)
    events = conversation.receive(hello([held(1, 1, out=[101, 200]), held(2, 2, out=[100, 200])], following=3))
    assert [event.run.id[-1] for event in events if isinstance(event, Ended)] == [1]
    assert [run.stream for run in core.runs.values()] == [2]


def test_an_end_is_told_once_and_forgotten_when_it_is_kept() -> None:
    core = Core(nobody)
    run = core.start(start())
    conversation = greeted(core)
    events = conversation.receive(output(1, 0, b"abc") + ended(1, 3))
    assert [type(event) for event in events] == [Said, Ended]
    conversation.close()
    again = greeted(core, held(1, out=[0, 3], ended=True), following=2)
    assert again.receive(output(1, 0, b"abc") + ended(1, 3)) == []
    sent(again)
    core.forget(run)
    assert sent(again) == [frames.Forget(1)]
    assert again.receive(ended(1, 3)) == [] and again.violation is None  # it had not heard yet


def test_a_kill_is_said_again_to_a_warden_that_comes_back() -> None:
    core = Core(nobody)
    run = core.start(start())
    first = greeted(core)
    core.signal(run, 9, Whom.ALL)
    first.close()
    core.signal(run, 2, Whom.FIRST)
    core.resize(run, 50, 100)
    again = greeted(core, held(1), following=2)
    assert sent(again)[1:] == [
        frames.Resize(1, 50, 100), frames.Signal(1, 2, Whom.FIRST), frames.Signal(1, 9, Whom.ALL)
    ]  # fmt: skip


def test_no_more_sessions_are_started_than_a_warden_holds() -> None:
    core = Core(nobody)
    for number in range(frames.SESSIONS):
        core.start(start(number))
    with pytest.raises(Full):
        core.start(start(999))


def running(core: Core) -> Conversation:
    run = core.start(start(stdin=True))
    conversation = greeted(core)
    core.write(run, memoryview(b"12345"))
    return conversation


@pytest.mark.parametrize(
    "lie",
    [
        output(1, 1, b"x"),  # a gap
        output(1, 0, b"abc") + output(1, 2, b"c"),  # a step back
        b"".join(output(1, at * 100_000, bytes(100_000)) for at in range(11)),  # more than a ring
        output(2, 0, b"x"),  # a stream that was not used
        taken(1, 6),  # more than was sent
        taken(1, 4) + taken(1, 3),
        ended(1, 1),  # bytes that were not sent
        output(1, 0, b"abc") + ended(1, 2),
        ended(1) + output(1, 0, b"x"),  # after the end
        hello(),
        frames.challenge(NONCE),
    ],
    ids=range(11),
)
def test_a_lie_ends_the_connection(lie: bytes) -> None:
    conversation = running(Core(nobody))
    conversation.receive(lie)
    while conversation.more:
        conversation.receive(b"")
    assert conversation.violation is not None


LIES: list[Callable[[dict[str, object]], object]] = [
    lambda one: one.update(out=[5, 4]),
    lambda one: one.update(out=[0, frames.RING + 1]),
    lambda one: one.update(taken=5, seen=4),
    lambda one: one.update(seen=frames.INPUT + 1),
    lambda one: one.update(stream=0),
    lambda one: one.update(stream=9),
    lambda one: one.update(id=b"short"),
]


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_a_lie_in_the_greeting_ends_the_connection(lie: Callable[[dict[str, object]], object]) -> None:
    one = held(1)
    lie(one)
    conversation = Conversation(Core(nobody), KEY, NONCE)
    conversation.receive(hello([one], following=9))
    assert conversation.violation is not None and not conversation.greeted


# Properties -----------------------------------------------------------------------------------------------------------

PLAUSIBLE = st.one_of(
    st.builds(output, st.integers(0, 3), st.integers(0, 50), st.binary(min_size=1, max_size=40), st.integers(0, 3)),
    st.builds(taken, st.integers(0, 3), st.integers(0, 10)),
    st.builds(ended, st.integers(0, 3), st.integers(0, 50), st.integers(0, 3)),
    st.builds(frames.packed, st.just(Kind.STARTED), st.integers(0, 3), st.just({"pid": 3})),
    st.just(frames.ping(bytes(8))),
    st.just(frames.pong(bytes(8))),
    st.binary(max_size=30),
)


def outcome(said: bytes, cuts: list[int]) -> tuple[list[object], bool, bytes]:
    core = Core(nobody)
    conversation = running(core)
    core.start(start(2))
    conversation.outgoing.clear()
    told: list[object] = []
    places = sorted({cut % (len(said) + 1) for cut in cuts} | {0, len(said)})
    for begin, end in itertools.pairwise(places):
        events = conversation.receive(said[begin:end])
        while True:
            told += [
                (type(e), e.run.stream, getattr(e, "exit", None)) for e in events if not isinstance(e, Greeted | Said)
            ]
            told += [(e.run.stream, e.channel, byte) for e in events if isinstance(e, Said) for byte in bytes(e.data)]
            if not conversation.more:
                break
            events = conversation.receive(b"")
    for run in core.runs.values():
        assert run.out.delivered <= frames.RING and len(run.input) <= frames.INPUT
    return told, conversation.violation is not None, b"".join(conversation.outgoing)


@settings(max_examples=300)
@given(st.lists(PLAUSIBLE, max_size=12), st.lists(st.integers(0, 2000), max_size=20), st.data())
def test_any_conversation_ends_alike_however_it_is_cut(said: list[bytes], cuts: list[int], data: st.DataObject) -> None:
    whole = bytearray(b"".join(said))
    if whole and data.draw(st.booleans()):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    # Said events of one channel may be joined by a cut, so bytes are compared, in order, apart from the rest.
    (told, broke, out), (told_cut, broke_cut, out_cut) = outcome(bytes(whole), []), outcome(bytes(whole), cuts)
    assert (sorted(map(str, told)), broke, out) == (sorted(map(str, told_cut)), broke_cut, out_cut)


class ModelWarden:
    """One session of a right warden, byte for byte."""

    def __init__(self, total: int) -> None:
        self.data = os.urandom(total)
        self.produced = 0
        self.first = 0  # STORED
        self.sent = 0
        self.seen = self.taken = 0
        self.typed = bytearray()
        self.buffered = bytearray()
        self.begun = False
        self.forgotten = False

    def hello(self) -> bytes:
        if not self.begun or self.forgotten:
            return hello(following=9)
        one = held(8, out=[self.first, self.produced], taken=self.taken, seen=self.seen)
        return hello([one], following=9)

    def hear(self, said: list[frames.ToWarden]) -> bytes:
        answer = b""
        for one in said:
            match one:
                case frames.Begin():
                    self.begun, self.stream = True, one.stream
                    answer += frames.packed(Kind.STARTED, one.stream, {"pid": 7})
                case frames.Welcome(keep):
                    for _, out, _err in keep:
                        assert self.first <= out <= self.produced
                        self.first = self.sent = out
                case frames.Stored(_, _, offset):
                    assert self.first <= offset <= self.sent
                    self.first = offset
                case frames.Input(_, offset, data):
                    assert offset <= self.seen, "a gap"
                    new = bytes(data)[self.seen - offset :]
                    self.seen += len(new)
                    self.buffered += new
                    assert self.seen <= self.taken + frames.INPUT
        return answer


STEPS = st.lists(
    st.sampled_from(["produce", "send", "deliver", "break", "restart", "type", "take", "hear"]), min_size=5, max_size=60
)


@settings(max_examples=300)
@given(STEPS, st.data())
def test_every_byte_of_both_ways_arrives_once_whatever_breaks(steps: list[str], data: st.DataObject) -> None:
    """Connections break with bytes under way, and the server is thrown away and made anew from its ledger."""
    kept, to_type, typed_so_far = bytearray(), os.urandom(400), 0
    known = False

    def stored(_: bytes) -> tuple[int, int] | None:
        return (len(kept), 0) if known else None

    warden = ModelWarden(2000)
    core = Core(stored)
    run: Run = core.start(start(stdin=True))
    known = True
    conversation: Conversation | None = None
    wire = b""  # from the warden, not yet read

    def connect() -> Conversation:
        fresh = Conversation(core, KEY, NONCE)
        fresh.outgoing.clear()
        one = warden.hello()
        if warden.begun:
            one = hello(
                [held(warden.stream, out=[warden.first, warden.produced], taken=warden.taken, seen=warden.seen)],
                following=warden.stream + 1,
            )
        take(fresh, one)
        return fresh

    def take(on: Conversation, said: bytes) -> None:
        events = on.receive(said)
        assert on.violation is None, on.violation
        for event in events:
            if isinstance(event, Said):
                kept.extend(event.data)
                core.credit(event.run, Channel.OUT, len(kept))

    for step in [*steps, "break"]:
        if conversation is None:
            conversation, wire = connect(), b""
            wire += warden.hear(sent(conversation))
        match step:
            case "produce" if warden.begun:
                warden.produced = min(len(warden.data), warden.produced + data.draw(st.integers(1, 300)))
            case "send" if warden.begun and warden.sent < warden.produced:
                end = min(warden.produced, warden.sent + data.draw(st.integers(1, 200)))
                wire += output(warden.stream, warden.sent, warden.data[warden.sent : end])
                warden.sent = end
            case "deliver":
                part = data.draw(st.integers(0, len(wire)))
                take(conversation, wire[:part])
                wire = wire[part:]
            case "break":
                if data.draw(st.booleans()):  # what the server said last did not arrive
                    conversation.outgoing.clear()
                conversation.close()
                conversation = None
            case "restart" if warden.begun:
                core = Core(stored)
                conversation, wire = connect(), b""
                wire += warden.hear(sent(conversation))
                run = core.runs[run.id]
                typed_so_far = run.sent  # a client goes on at the offset it is told
            case "type":
                more = to_type[typed_so_far : typed_so_far + data.draw(st.integers(1, 60))]
                typed_so_far += core.write(run, memoryview(more))
            case "take" if warden.buffered:
                count = data.draw(st.integers(1, len(warden.buffered)))
                warden.typed += warden.buffered[:count]
                del warden.buffered[:count]
                warden.taken += count
                wire += taken(warden.stream, warden.taken)
            case "hear":
                wire += warden.hear(sent(conversation))
    conversation = connect()
    warden.hear(sent(conversation))
    if warden.begun:
        take(
            conversation,
            output(warden.stream, warden.sent, warden.data[warden.sent : warden.produced])
            if warden.sent < warden.produced
            else b"",
        )
    assert bytes(kept) == warden.data[: warden.produced]
    assert bytes(warden.typed + warden.buffered) == to_type[: warden.seen]
    assert run.sent == typed_so_far
    if warden.begun:
        assert warden.seen == typed_so_far
