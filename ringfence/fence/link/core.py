"""The server's end of the link: bytes in, events out; methods, bytes out. No socket, no clock.

    Core           what is known of one warden's sessions, over all its connections
     └── Conversation   one connection: greeting, frames, and who is live

A warden that comes back has kept every byte that was not STORED, and sends it again from there. `delivered` says what
of it is a repeat; so each byte is an event once, whatever broke in between. In the other direction a session holds
what was not TAKEN, and sends again what the warden has not seen.

A session's memory here is bounded by what a warden may send beyond STORED: one ring for each channel.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ringfence.fence.link import frames
from ringfence.fence.link.frames import Exited, Frame, Held, Hello, Output, Ping, Pong, Started, Taken, Violation
from ringfence.fence.link.model import Channel, Exit, Start, Whom, Why

CREDIT = frames.RING // 8  # bytes worth a STORED
SIGNALS = 16  # kept for a warden that is away

Stored = Callable[[bytes], tuple[int, int] | None]


class Full(Exception):
    """As many sessions as a warden holds, or no stream is left."""


@dataclass(slots=True)
class Flow:
    """One channel of a session."""

    told: int = 0  # STORED up to here
    expected: int = 0  # the next byte on this connection
    delivered: int = 0  # was an event up to here


@dataclass(slots=True, eq=False)
class Run:
    """A session, from START to FORGET."""

    id: bytes
    start: Start | None  # until the warden is known to have it
    stream: int = 0  # 0: START was not sent
    pid: int | None = None
    out: Flow = field(default_factory=Flow)
    err: Flow = field(default_factory=Flow)
    taken: int = 0
    base: int = 0  # where `input` begins: at `taken`, or after what an earlier server sent
    input: bytearray = field(default_factory=bytearray)  # sent, and not taken
    input_ended: bool = False
    size: tuple[int, int] | None = None
    signals: list[tuple[int, Whom]] = field(default_factory=list)  # while the warden is away
    killed: bool = False
    exit: Exit | None = None
    over: bool = False  # EXITED came on this connection

    @property
    def sent(self) -> int:
        return self.base + len(self.input)

    @property
    def room(self) -> int:
        return frames.INPUT - (self.sent - self.taken)

    def flow(self, channel: Channel) -> Flow:
        return self.out if channel is Channel.OUT else self.err


@dataclass(frozen=True, slots=True)
class Greeted:
    """This conversation is the live one."""

    boot: bytes
    held: frozenset[bytes]  # the sessions that go on


@dataclass(frozen=True, slots=True)
class Returned:
    """A session of an earlier server, that the ledger knows."""

    run: Run


@dataclass(frozen=True, slots=True)
class Began:
    run: Run


@dataclass(frozen=True, slots=True)
class Said:
    """New output. `data` is good until more bytes are received."""

    run: Run
    channel: Channel
    data: memoryview


@dataclass(frozen=True, slots=True)
class Room:
    """The program read some of its input."""

    run: Run


@dataclass(frozen=True, slots=True)
class Ended:
    run: Run
    exit: Exit


Event = Greeted | Returned | Began | Said | Room | Ended


class Core:
    def __init__(self, stored: Stored) -> None:
        self.runs: dict[bytes, Run] = {}
        self.live: Conversation | None = None
        self._stored = stored
        self._streams: dict[int, Run] = {}
        self._next = 1
        self._boot: bytes | None = None

    # What the server wants ----------------------------------------------------------------------------------------

    def start(self, it: Start) -> Run:
        if len(self.runs) >= frames.SESSIONS:
            raise Full(f"{frames.SESSIONS} sessions are open in this sandbox: end one first")
        if self._next >= frames.U32:
            raise Full("every stream of this sandbox was used: restart it")
        run = Run(it.id, it)
        self.runs[it.id] = run
        if self.live is not None:
            self._send_start(run)
        return run

    def write(self, run: Run, data: memoryview) -> int:
        """Input; how many bytes of it there was room for."""
        part = data[: run.room]
        if not part or run.exit is not None:
            return len(part)
        at = run.sent
        run.input += part
        self._send(run, lambda: frames.input_at(run.stream, at, part))
        return len(part)

    def end_input(self, run: Run) -> None:
        if not run.input_ended:
            run.input_ended = True
            self._send(run, lambda: frames.input_end(run.stream, run.sent))

    def signal(self, run: Run, number: int, whom: Whom) -> None:
        if number == 9 and whom is Whom.ALL:
            run.killed = True  # said again to a warden that comes back
        elif self.live is None and len(run.signals) < SIGNALS:
            run.signals.append((number, whom))
        self._send(run, lambda: frames.signal(run.stream, number, whom))

    def resize(self, run: Run, rows: int, columns: int) -> None:
        run.size = (rows, columns)
        self._send(run, lambda: frames.resize(run.stream, rows, columns))

    def credit(self, run: Run, channel: Channel, offset: int) -> None:
        """The warden may forget what is before `offset`: it is kept, and was read by whoever reads it."""
        flow = run.flow(channel)
        if offset - flow.told >= CREDIT and not run.over:
            flow.told = offset
            self._send(run, lambda: frames.stored(run.stream, channel, offset))

    def forget(self, run: Run) -> None:
        """Its end is kept."""
        if self.runs.get(run.id) is run:
            self._send(run, lambda: frames.forget(run.stream))
            self._drop(run)

    def lose(self) -> list[Event]:
        """The warden is gone for good."""
        self.live = None
        return [self._lost(run) for run in list(self.runs.values()) if run.exit is None]

    def ping(self, token: bytes) -> None:
        if self.live is not None:
            self.live.outgoing.append(frames.ping(token))

    # What the warden says -----------------------------------------------------------------------------------------

    def greet(self, conversation: "Conversation", hello: Hello) -> list[Event]:
        """Make it the live conversation, and meet what the warden holds with what is known."""
        if self.live is not None:
            self.live.superseded = True
        self.live = conversation
        self._next = max(self._next, hello.next)
        reborn, self._boot = self._boot not in (None, hello.boot), hello.boot
        events: list[Event] = []
        kept: list[Run] = []
        for held in hello.sessions:
            run = self._meet(held, events)
            if run is not None:
                kept.append(run)
        seen = {held.id: held.seen for held in hello.sessions}
        welcome = [(run.stream, run.out.told, run.err.told) for run in kept]
        conversation.outgoing.append(frames.welcome(welcome))
        for run in list(self.runs.values()):
            if run.id in seen:
                self._repeat(run, seen[run.id])
                if run.exit is None:
                    events.append(Room(run))  # what it took meanwhile was told by the greeting
            elif run.exit is not None:
                self._unbind(run)  # its end is being kept, and the warden has forgotten it
            elif run.stream and (reborn or run.start is None):
                events.append(self._lost(run))
            else:
                self._unbind(run)
                self._send_start(run)
                self._repeat(run, 0)
        events.insert(0, Greeted(hello.boot, frozenset(self.runs)))
        return events

    def take(self, said: frames.ToServer) -> Event | None:
        """One frame of the live conversation, after its greeting."""
        match said:
            case Output():
                return self._output(said)
            case Taken():
                return self._taken(said)
            case Started():
                return self._started(said)
            case Exited():
                return self._exited(said)
            case Ping():
                assert self.live is not None
                self.live.outgoing.append(frames.pong(said.token))
            case Pong():
                pass
            case Hello():
                raise Violation("a second HELLO")
        return None

    def _find(self, stream: int) -> Run | None:
        """None: one that was forgotten, and whose warden has not heard of it yet."""
        run = self._streams.get(stream)
        if run is None and stream >= self._next:
            raise Violation(f"stream {stream} was not used")
        return run

    def _output(self, said: Output) -> Event | None:
        run = self._find(said.stream)
        if run is None:
            return None
        flow = run.flow(said.channel)
        end = said.offset + len(said.data)
        if said.offset != flow.expected or run.over:
            raise Violation(f"output at {said.offset} where {flow.expected} was to come")
        if end > flow.told + frames.RING:
            raise Violation(f"output up to {end} where {flow.told} is stored")
        flow.expected = end
        if run.start is not None:
            run.start = None
        if end <= flow.delivered:
            return None
        if run.exit is not None:
            raise Violation("output after the end")
        new = said.data[max(0, flow.delivered - said.offset) :]
        flow.delivered = end
        return Said(run, said.channel, new)

    def _taken(self, said: Taken) -> Event | None:
        run = self._find(said.stream)
        if run is None or run.exit is not None:
            return None
        if not run.taken <= said.offset <= run.sent:
            raise Violation(f"took input up to {said.offset} of {run.taken} to {run.sent}")
        _take_input(run, said.offset)
        return Room(run)

    def _started(self, said: Started) -> Event | None:
        run = self._find(said.stream)
        if run is None or run.pid is not None or run.exit is not None:
            return None
        run.pid, run.start = said.pid or None, None
        return Began(run)

    def _exited(self, said: Exited) -> Event | None:
        run = self._find(said.stream)
        if run is None or run.over:
            return None
        if (said.exit.out, said.exit.err) != (run.out.expected, run.err.expected):
            raise Violation(f"an end at {said.exit.out} and {said.exit.err}, where other bytes were sent")
        run.over, run.start = True, None
        if run.exit is not None:  # told again
            return None
        run.exit = said.exit
        run.input.clear()
        return Ended(run, said.exit)

    # Meeting again ------------------------------------------------------------------------------------------------

    def _meet(self, held: Held, events: list[Event]) -> Run | None:
        """The session that goes on; None: it is not named in the WELCOME, and so ends."""
        run = self.runs.get(held.id)
        if run is None:
            at = self._stored(held.id)
            if at is None or len(self.runs) >= frames.SESSIONS:
                return None
            run = Run(held.id, None, out=Flow(at[0], at[0], at[0]), err=Flow(at[1], at[1], at[1]))
            run.taken, run.base = held.taken, held.seen  # what it has and did not take is not here
            self.runs[held.id] = run
            events.append(Returned(run))
        if not _fits(run, held):
            self._unbind(run)
            if run.exit is None:
                events.append(self._lost(run))
            return None
        self._unbind(run)
        if run.exit is None and run.pid is None and held.pid is not None:
            events.append(Began(run))  # its STARTED may be lost
        run.stream, run.pid, run.start, run.over = held.stream, held.pid or run.pid, None, False
        run.out.expected, run.err.expected = run.out.told, run.err.told
        self._streams[run.stream] = run
        return run

    def _repeat(self, run: Run, seen: int) -> None:
        """What may not have reached a warden that was away."""
        if run.exit is not None:
            return
        assert self.live is not None
        out = self.live.outgoing
        if run.sent > seen:
            out.append(frames.input_at(run.stream, seen, bytes(run.input[seen - run.base :])))
        if run.input_ended:
            out.append(frames.input_end(run.stream, run.sent))
        if run.size is not None:
            out.append(frames.resize(run.stream, *run.size))
        signals, run.signals = run.signals, []
        for number, whom in signals + ([(9, Whom.ALL)] if run.killed else []):
            out.append(frames.signal(run.stream, number, whom))

    def _send_start(self, run: Run) -> None:
        assert run.start is not None and self.live is not None
        run.stream, self._next = self._next, self._next + 1
        self._streams[run.stream] = run
        self.live.outgoing.append(frames.start(run.stream, run.start))

    def _send(self, run: Run, it: Callable[[], bytes]) -> None:
        if self.live is not None and run.stream and self._streams.get(run.stream) is run:
            self.live.outgoing.append(it())

    def _lost(self, run: Run) -> Ended:
        out, err = run.out.delivered, run.err.delivered
        run.exit = Exit(why=Why.LOST, code=-1, out=out, err=err)
        self._drop(run)
        return Ended(run, run.exit)

    def _drop(self, run: Run) -> None:
        self._unbind(run)
        self.runs.pop(run.id, None)

    def _unbind(self, run: Run) -> None:
        if self._streams.get(run.stream) is run:
            del self._streams[run.stream]


def _take_input(run: Run, offset: int) -> None:
    if offset > run.base:
        del run.input[: offset - run.base]
        run.base = offset
    run.taken = offset


def _fits(run: Run, held: Held) -> bool:
    """Whether what the warden holds can go on where this end stands; and moves the input there."""
    for flow, (first, end) in ((run.out, held.out), (run.err, held.err)):
        if first > flow.told or end < flow.delivered:
            return False
    if run.exit is not None:
        return True
    if not run.taken <= held.taken or not run.base <= held.seen <= run.sent:
        return False
    _take_input(run, held.taken)
    return True


class Conversation:
    """One connection with whoever dialled: nobody, until its HELLO is right."""

    def __init__(self, core: Core, key: bytes, nonce: bytes) -> None:
        self.outgoing: list[bytes] = [frames.challenge(nonce)]
        self.greeted = False
        self.superseded = False  # a newer one is live
        self.violation: Violation | None = None  # it is over: nothing more is read
        self._core, self._key, self._nonce = core, key, nonce
        self._splitter = frames.Splitter()

    def receive(self, data: frames.Bytes) -> list[Event]:
        """What these bytes say, up to a `violation`. Bounded: `more` says that it is not all."""
        events: list[Event] = []
        if self.is_over:
            return events
        try:
            for frame in self._splitter.feed(data):
                if self.greeted:
                    event = self._core.take(frames.to_server(frame))
                    if event is not None:
                        events.append(event)
                else:
                    events += self._greet(frame)
        except Violation as violation:
            self.violation = violation
        return events

    @property
    def more(self) -> bool:
        """Whether `receive(b"")` would say more."""
        return not self.is_over and self._splitter.has_frame

    @property
    def is_over(self) -> bool:
        return self.superseded or self.violation is not None

    def close(self) -> None:
        self.superseded = True
        if self._core.live is self:
            self._core.live = None

    def _greet(self, frame: Frame) -> list[Event]:
        if frame.kind != frames.Kind.HELLO:
            raise Violation("something else than a HELLO first")
        hello = frames.to_server(frame)
        assert isinstance(hello, Hello)
        if not hello.is_right(self._key, self._nonce):
            raise Violation("a HELLO without the key")
        self.greeted = True
        return self._core.greet(self, hello)
