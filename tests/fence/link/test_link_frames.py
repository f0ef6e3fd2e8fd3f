"""Frames: whatever the chunks, the same frames; whatever the bytes, a frame or a Violation, and bounded memory."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.fence.link import frames
from ringfence.fence.link.frames import Frame, Kind, Splitter, Violation
from ringfence.fence.link.model import Channel, Exit, Start, Whom, Why

PIECES = st.lists(st.tuples(st.integers(0, 255), st.integers(0, frames.U32), st.binary(max_size=300)), max_size=20)


def fed(data: bytes, cuts: list[int], most: int = 64) -> list[tuple[int, int, bytes]]:
    splitter = Splitter()
    found: list[tuple[int, int, bytes]] = []
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        # The buffer is reused, as the shell's is: a view that outlived its turn would show.
        buffer = bytearray(data[start:end])
        found += [(one.kind, one.stream, bytes(one.payload)) for one in splitter.feed(buffer, most)]
        while splitter.has_frame:
            found += [(one.kind, one.stream, bytes(one.payload)) for one in splitter.feed(b"", most)]
        buffer[:] = b"\xff" * len(buffer)
    return found


@given(PIECES, st.lists(st.integers(0, 10_000), max_size=40), st.integers(1, 5))
def test_frames_are_the_same_however_their_bytes_are_cut(
    pieces: list[tuple[int, int, bytes]], cuts: list[int], most: int
) -> None:
    data = b"".join(frames.HEADER.pack(len(payload), kind, stream) + payload for kind, stream, payload in pieces)
    assert fed(data, cuts, most) == pieces


@given(st.binary(max_size=2000), st.lists(st.integers(0, 2000), max_size=20))
def test_any_bytes_are_frames_or_a_violation_and_cuts_change_neither(data: bytes, cuts: list[int]) -> None:
    def outcome(cuts: list[int]) -> tuple[list[tuple[int, int, bytes]], bool]:
        splitter, found = Splitter(), []
        places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
        try:
            for start, end in itertools.pairwise(places):
                found += [(f.kind, f.stream, bytes(f.payload)) for f in splitter.feed(data[start:end])]
                while splitter.has_frame:
                    found += [(f.kind, f.stream, bytes(f.payload)) for f in splitter.feed(b"")]
        except Violation:
            return found, True
        return found, False

    assert outcome(cuts) == outcome([])


def test_a_frame_that_is_too_long_is_refused_by_its_header_alone() -> None:
    with pytest.raises(Violation, match="262145"):
        Splitter().feed(struct.pack(">IBI", frames.PAYLOAD + 1, Kind.OUTPUT, 1))
    assert Splitter().feed(struct.pack(">IBI", frames.PAYLOAD, Kind.OUTPUT, 1)) == []


def test_a_splitter_gives_no_more_frames_at_once_than_asked() -> None:
    splitter = Splitter()
    many = frames.ping(b"12345678") * 1000
    assert len(splitter.feed(many, 64)) == 64
    assert splitter.has_frame
    assert sum(len(splitter.feed(b"", 64)) for _ in range(15)) == 936
    assert not splitter.has_frame


@given(st.integers(0, 255), st.integers(0, 5), st.binary(max_size=600))
def test_any_frame_is_understood_or_a_violation(kind: int, stream: int, payload: bytes) -> None:
    for understand in (frames.to_server, frames.to_warden):
        try:
            understand(Frame(kind, stream, memoryview(payload)))
        except Violation:
            pass


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.binary(max_size=40))
LISTS = st.lists(SCALARS, max_size=4)
VALUES = (
    SCALARS
    | LISTS
    | st.lists(st.dictionaries(st.sampled_from(["id", "out", "stream"]), SCALARS | LISTS, max_size=3), max_size=3)
)
NAMES = st.sampled_from(
    ["v", "boot", "mac", "next", "sessions", "stream", "id", "pid", "out", "err", "taken", "seen", "ended", "cause",
     "code", "signal", "user", "errno", "error", "result"]
)  # fmt: skip
LISTS = st.lists(SCALARS, max_size=4)
VALUES = (
    SCALARS
    | LISTS
    | st.lists(st.dictionaries(st.sampled_from(["id", "out", "stream"]), SCALARS | LISTS, max_size=3), max_size=3)
)
NAMES = st.sampled_from(
    [
        "v",
        "boot",
        "mac",
        "next",
        "sessions",
        "stream",
        "id",
        "pid",
        "out",
        "err",
        "taken",
        "seen",
        "ended",
        "cause",
        "code",
        "signal",
        "user",
        "errno",
        "error",
        "result",
    ]
)


@given(st.sampled_from([Kind.HELLO, Kind.STARTED, Kind.EXITED]), st.dictionaries(NAMES, VALUES))
def test_any_map_is_understood_or_a_violation(kind: Kind, fields: dict[str, object]) -> None:
    data = frames.packed(kind, 0 if kind is Kind.HELLO else 1, fields)
    try:
        frames.to_server(Splitter().feed(data)[0])
    except Violation:
        pass


WORDS = st.lists(st.binary(max_size=20), max_size=5).map(tuple)


@given(
    st.builds(
        Start, id=st.binary(min_size=16, max_size=16), argv=WORDS, env=WORDS, cwd=st.binary(min_size=1, max_size=30),
        pty=st.none() | st.tuples(st.integers(1, 65535), st.integers(1, 65535)), stdin=st.booleans(),
        timeout=st.none() | st.integers(1, 10**6).map(lambda ms: ms / 1000),
    )
)  # fmt: skip
def test_a_start_comes_out_as_it_went_in(start: Start) -> None:
    read = frames.to_warden(Splitter().feed(frames.start(7, start))[0])
    assert read == frames.Begin(7, start)


def test_an_act_comes_out_as_it_went_in() -> None:
    start = Start(id=bytes(16), act="read", arguments={"path": b"/a\xff", "offset": 5, "length": 2**40}, stdin=True)
    assert frames.to_warden(Splitter().feed(frames.start(1, start))[0]) == frames.Begin(1, start)


def test_an_end_comes_out_as_it_went_in() -> None:
    exit = Exit(
        why=Why.FAILED, code=127, out=5, err=2**40, user_us=1, system_us=2, memory_kib=3, errno=2,
        error="No such file", result={"size": 2**50, "cut": True, "name": b"\xff"},
    )  # fmt: skip
    assert frames.to_server(Splitter().feed(frames.exited(3, exit))[0]) == frames.Exited(3, exit)


@pytest.mark.parametrize(
    "data",
    [
        frames.frame(Kind.OUTPUT, 1, b"\x01" + bytes(8)),  # no byte
        frames.frame(Kind.OUTPUT, 1, b"\x03" + bytes(8) + b"x"),  # no such channel
        frames.frame(Kind.OUTPUT, 0, b"\x01" + bytes(8) + b"x"),  # the connection
        frames.frame(Kind.OUTPUT, 1, b"\x01" + bytes(8) + bytes(frames.OUTPUT + 1)),
        frames.frame(Kind.TAKEN, 1, bytes(7)),
        frames.frame(Kind.PING, 0, bytes(9)),
        frames.frame(Kind.PING, 1, bytes(8)),
        frames.frame(Kind.START, 1, b"\x80"),  # what a server says
        frames.packed(Kind.STARTED, 1, {"pid": -1}),
        frames.packed(Kind.STARTED, 1, {"pid": True}),
        frames.packed(Kind.STARTED, 1, {}),
        frames.frame(Kind.STARTED, 1, b"\x81\xa3pid\x05\xc0"),  # something after the map
        frames.frame(Kind.STARTED, 1, b"\xdf\xff\xff\xff\xff"),  # a map of 4 billion fields
        frames.frame(Kind.STARTED, 1, b"\x91" * 1000 + b"\xc0"),  # nested a thousand deep
        frames.packed(Kind.EXITED, 1, {"cause": "lost", "code": 0, "out": 0, "err": 0}),
        frames.packed(Kind.EXITED, 1, {"cause": "exited", "code": 256, "out": 0, "err": 0}),
        frames.packed(Kind.EXITED, 1, {"cause": "exited", "code": 0, "out": 0, "err": 0, "error": "x" * 1025}),
        frames.packed(Kind.EXITED, 1, {"cause": "exited", "code": 0, "out": 0, "err": 0, "result": {"a": [1]}}),
    ],
    ids=range(18),
)
def test_what_is_not_as_written_is_a_violation(data: bytes) -> None:
    with pytest.raises(Violation):
        frames.to_server(Splitter().feed(data)[0])


def test_what_a_start_cannot_carry_is_said() -> None:
    def said(**fields: object) -> str | None:
        return frames.check_start(Start(id=bytes(16), **fields))  # type: ignore[arg-type]

    assert said(argv=(b"x",) * 1024) is None
    assert "1024" in str(said(argv=(b"x",) * 1025))
    assert "65536" in str(said(argv=(b"x" * 65_537,)))
    assert "131072" in str(said(argv=(b"x" * 65_000,), env=(b"A=" + b"x" * 65_000, b"B=" + b"x" * 65_000)))
    assert "zero" in str(said(argv=(b"a\0b",)))


def test_numbers_of_kinds_are_those_of_the_document() -> None:
    assert [kind.value for kind in Kind] == [*range(1, 6), *range(0x10, 0x1B)]
    assert [int(one) for one in (*Channel, *Whom)] == [1, 2, 0, 1, 2]
