"""The server's end of the link against a warden that says anything: bytes, frames that are almost right, right ones.

Whatever it says, nothing but a `Violation` comes of it, and it ends that connection alone; what is held stays bounded.
"""

import itertools
import time

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ringfence.fence.link import frames
from ringfence.fence.link.core import Conversation, Core, Ended, Event, Full, Run, Said
from ringfence.fence.link.frames import Kind
from ringfence.fence.link.model import Channel, Exit, Start, Whom, Why

KEY, NONCE = bytes(range(32)), bytes(range(50, 82))
STREAMS = st.integers(0, 6) | st.sampled_from([frames.U32 - 1, frames.U32])
OFFSETS = st.integers(0, 40) | st.sampled_from(
    [frames.INPUT, frames.RING - 1, frames.RING, frames.RING + 1, frames.U64]
)
IDS = st.integers(0, 8).map(lambda number: number.to_bytes(16, "big"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20) | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["out", "id"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
SPANS = st.lists(OFFSETS, min_size=2, max_size=2).map(sorted)
HELD = st.fixed_dictionaries(
    {
        "stream": STREAMS, "id": IDS, "pid": st.integers(0, 9), "out": SPANS, "err": SPANS, "taken": st.integers(0, 9),
        "seen": st.integers(0, 30), "ended": st.booleans(),
    }
)  # fmt: skip
OUTPUTS = st.builds(
    lambda stream, channel, offset, data: frames.frame(
        Kind.OUTPUT, stream, bytes([channel]) + offset.to_bytes(8, "big") + data
    ),
    STREAMS, st.integers(0, 3), OFFSETS, st.binary(min_size=1, max_size=30),
)  # fmt: skip
ENDS = st.builds(
    lambda stream, why, out, err: frames.exited(stream, Exit(why=why, code=0, out=out, err=err)),
    STREAMS, st.sampled_from([Why.EXITED, Why.KILLED, Why.FAILED]), OFFSETS, st.integers(0, 3),
)  # fmt: skip
FIELDS = st.sampled_from(["pid", "code", "cause", "out"])
SAID = st.one_of(
    OUTPUTS,
    ENDS,
    st.builds(lambda stream, at: frames.frame(Kind.TAKEN, stream, at.to_bytes(8, "big")), STREAMS, OFFSETS),
    st.builds(lambda stream: frames.packed(Kind.STARTED, stream, {"pid": 3}), STREAMS),
    st.builds(
        frames.packed,
        st.sampled_from(Kind), STREAMS, st.dictionaries(FIELDS, VALUES, max_size=4),
    ),
    st.builds(lambda kind, stream, data: frames.HEADER.pack(len(data), kind, stream) + data,
              st.integers(0, 255), STREAMS, st.binary(max_size=40)),
    st.builds(lambda length: frames.HEADER.pack(length, Kind.OUTPUT, 1), st.integers(0, frames.U32)),
    st.binary(max_size=60),
)  # fmt: skip


class HostileWarden(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[bytes, list[int]] = {}  # what the ledger holds of each session
        self.core = Core(self._stored)
        self.conversations: list[Conversation] = []
        self.numbers = itertools.count(1)

    def _stored(self, session: bytes) -> tuple[int, int] | None:
        kept = self.kept.get(session)
        return None if kept is None else (kept[1], kept[2])

    # What the server does

    @rule(number=st.integers(0, 8), stdin=st.booleans())
    def starts(self, number: int, stdin: bool) -> None:
        start = Start(id=number.to_bytes(16, "big"), argv=(b"true",), stdin=stdin)
        if start.id in self.core.runs:
            return
        self.kept[start.id] = [0, 0, 0]
        try:
            self.core.start(start)
        except Full:
            assert len(self.core.runs) == frames.SESSIONS or self.core._next >= frames.U32

    @precondition(lambda self: self.core.runs)
    @rule(data=st.data(), what=st.integers(0, 4), size=st.integers(1, 70_000))
    def steers(self, data: st.DataObject, what: int, size: int) -> None:
        run: Run = data.draw(st.sampled_from(sorted(self.core.runs.values(), key=lambda run: run.id)))
        match what:
            case 0:
                assert self.core.write(run, memoryview(bytes(size))) <= size
            case 1:
                self.core.end_input(run)
            case 2:
                self.core.signal(run, 9 if size % 2 else 2, Whom.ALL)
            case 3:
                self.core.resize(run, 1 + size % 50, 80)
            case 4 if run.exit is not None:
                self.core.forget(run)

    @rule()
    def restarts(self) -> None:
        """The server is another, with the same ledger."""
        for conversation in self.conversations:
            conversation.close()
        self.core, self.conversations = Core(self._stored), []

    # What the warden does

    @rule()
    def connects(self) -> None:
        if len(self.conversations) < 3:
            self.conversations.append(Conversation(self.core, KEY, NONCE))

    @precondition(lambda self: self.conversations)
    @rule(data=st.data(), sessions=st.lists(HELD, max_size=4), boot=st.sampled_from([bytes(16), bytes(15) + b"1"]))
    def greets(self, data: st.DataObject, sessions: list[dict[str, object]], boot: bytes) -> None:
        fields = {"v": 1, "boot": boot, "mac": frames.mac(KEY, NONCE, boot), "next": 7, "sessions": sessions}
        self._say(data, frames.packed(Kind.HELLO, 0, fields))

    @precondition(lambda self: self.conversations)
    @rule(data=st.data(), said=st.lists(SAID, min_size=1, max_size=4), cut=st.integers(0, 200))
    def says(self, data: st.DataObject, said: list[bytes], cut: int) -> None:
        whole = b"".join(said)
        self._say(data, whole[:cut])
        self._say(data, whole[cut:])

    @precondition(lambda self: self.conversations)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        conversation = data.draw(st.sampled_from(self.conversations))
        conversation.close()
        self.conversations.remove(conversation)

    def _say(self, data: st.DataObject, said: bytes) -> None:
        conversation = data.draw(st.sampled_from(self.conversations)) if self.conversations else None
        if conversation is None:
            return
        events = conversation.receive(said)
        self._keep(events)
        while conversation.more:
            self._keep(conversation.receive(b""))
        if conversation.violation is not None:
            assert conversation.receive(said) == [], "nothing more is read"
            conversation.close()
            self.conversations.remove(conversation)

    def _keep(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Said(run, channel, new):
                    kept = self.kept.setdefault(run.id, [0, 0, 0])
                    kept[channel] += len(new)
                    assert run.flow(channel).delivered == kept[channel], "a byte came twice, or not at all"
                    self.core.credit(run, channel, kept[channel])
                case Ended(run, exit):
                    assert exit.why is Why.LOST or exit.out == run.out.delivered
                    self.core.forget(run)
                    self.kept.pop(run.id, None)

    # What is always so

    @invariant()
    def is_bounded(self) -> None:
        assert len(self.core.runs) <= frames.SESSIONS
        for run in self.core.runs.values():
            assert len(run.input) <= frames.INPUT
            assert len(run.signals) <= 16
            for channel in Channel:
                flow = run.flow(channel)
                assert flow.told <= flow.delivered <= flow.told + frames.RING
        for conversation in self.conversations:
            assert len(conversation._splitter._held) <= frames.HEADER.size + frames.PAYLOAD

    @invariant()
    def has_one_link_at_most(self) -> None:
        assert self.core.live is None or self.core.live in self.conversations


def fuzz(seconds: float) -> str:
    """Ever new wardens for so long."""
    give_up, wardens = time.monotonic() + seconds, 0
    while time.monotonic() < give_up:
        quiet = settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(HostileWarden, settings=quiet)
        wardens += 100
    return f"{wardens} wardens"
