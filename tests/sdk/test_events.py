"""The event stream: read however it is cut, and followed over restarts without a gap and without a repeat."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence import AgentClient, AsyncAgentClient
from ringfence.kernel.events.model import SYSTEM
from ringfence.sdk import errors
from ringfence.sdk.events import Decoder, Event, Following
from tests.harness import Ringfence
from tests.sdk.conftest import DEADLINE, Twin

LINES = st.sampled_from(["\n", "\r", "\r\n"])


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.text()), max_size=5),
    LINES,
    st.lists(st.integers(0, 400), max_size=20),
)
def test_a_stream_reads_the_same_however_it_is_cut(
    events: list[tuple[int, str, str]], end: str, cuts: list[int]
) -> None:
    expected, text = [], f"retry: 1000{end}: connected{end}{end}"
    for number, kind, content in events:
        lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        expected.append((str(number), kind, "\n".join(lines)))
        data = "".join(f"data: {line}{end}" for line in lines)
        text += f"id: {number}{end}event: {kind}{end}{data}{end}: keepalive{end}{end}"
    raw = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    expected = [
        (one, kind, data.encode("utf-8", "surrogatepass").decode("utf-8", "replace")) for one, kind, data in expected
    ]
    decoder = Decoder()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    frames = [frame for at, to in itertools.pairwise(edges) for frame in decoder.feed(raw[at:to])]
    frames += decoder.feed(b"\n") if end == "\r" else []
    assert [(frame.id, frame.event, frame.data) for frame in frames] == expected
    assert decoder.retry == 1.0


@given(st.binary(max_size=500))
def test_no_bytes_break_the_decoder(raw: bytes) -> None:
    list(Decoder().feed(raw))


def following(**options: Any) -> Following:
    return Following({}, **{"after": None, "give_up_after": 60.0, **options})


def frame(number: int) -> bytes:
    return b'id: %d\nevent: e\ndata: {"seq":%d,"time":"t","actor":"a","x":1}\n\n' % (number, number)


def test_what_is_sent_twice_is_given_once() -> None:
    place = following()
    assert [event.seq for event in place.feed(frame(5) + frame(6))] == [5, 6]
    assert [event.seq for event in place.feed(frame(5) + frame(6) + frame(7))] == [7]


def test_an_event_holds_what_it_tells() -> None:
    (event,) = following().feed(frame(5))
    assert event == Event(seq=5, kind="e", time="t", actor="a", data={"x": 1})


def test_the_next_connection_goes_on_after_the_last_event() -> None:
    place = following()
    client = httpx.Client(base_url="http://hub")
    assert "last-event-id" not in place.request(client, {}).headers
    list(place.feed(frame(5)))
    assert place.request(client, {}).headers["last-event-id"] == "5"


def test_a_place_that_is_told_before_any_event_is_where_the_next_connection_goes_on() -> None:
    place = following()
    assert list(place.feed(b"id: 41\nretry: 1000\n: connected\n\n")) == []
    assert place.request(httpx.Client(base_url="http://hub"), {}).headers["last-event-id"] == "41"


def test_an_outage_is_survived_for_a_while_and_no_longer() -> None:
    now = 0.0
    place = following(clock=lambda: now, give_up_after=10.0)
    pauses = []
    with pytest.raises(errors.Unreachable, match="lost for more than 10 s: connection refused"):
        while True:
            pauses.append(place.pause(httpx.ConnectError("connection refused")))
            now += pauses[-1]
    assert 0.04 < pauses[0] < 0.11
    assert sum(pauses) > 9
    list(place.feed(frame(1)))
    place.pause(None)  # an answer began a new count


def test_a_refusal_ends_the_stream() -> None:
    refusal = errors.Forbidden("no", status=403)
    with pytest.raises(errors.Forbidden):
        following().pause(refusal)


def test_what_is_no_event_stream_is_said_to_be_none() -> None:
    response = httpx.Response(200, html="<h1>Welcome</h1>")
    with pytest.raises(errors.UnexpectedAnswer, match="no event stream"):
        following().opened(response)
    with pytest.raises(errors.UnexpectedAnswer, match="no event of Ringfence"):
        list(following().feed(b"data: hello\n\n"))


# With a server ------------------------------------------------------------------------------------------------------


class Reader:
    """Reads a stream beside the test, blocking or by asyncio."""

    def __init__(self, twin: Twin, client: Any, **options: Any) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        connected = threading.Event()

        def keep(event: Event) -> None:
            with self._changed:
                self.events.append(event)
                self._changed.notify_all()

        if twin.loop is None:
            stream = client.events(**options)

            def read() -> None:
                with stream:
                    connected.set()
                    for event in stream:
                        keep(event)

            threading.Thread(target=read, daemon=True).start()
            self._end: Callable[[], object] = lambda: None
        else:

            async def read_async() -> None:
                async with client.client.events(**options) as stream:
                    connected.set()
                    async for event in stream:
                        keep(event)

            future = twin.loop.start(read_async())
            self._end = future.cancel
        assert connected.wait(DEADLINE)

    def wait(self, enough: Callable[[list[Event]], bool], within: float = DEADLINE) -> list[Event]:
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self.events), within), self.events
            return list(self.events)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


def titles(events: list[Event]) -> list[str]:
    return [event.data["task"]["title"] for event in events if event.kind == "task_created"]


def test_events_arrive_as_they_happen(twin: Twin) -> None:
    agent = twin.registered()
    with Reader(twin, agent) as reader:
        project = agent.create_project("p")["id"]
        events = reader.wait(lambda events: len(events) >= 1)
        assert (events[0].kind, events[0].actor, events[0].data["name"]) == ("project_created", "agent:claude", "p")
        assert events[0].data["id"] == project
        assert events[0].time.startswith("20")


def test_a_restart_leaves_no_gap_and_no_repeat(twin: Twin, server: Ringfence) -> None:
    agent = twin.registered()
    project = agent.create_project("p")["id"]
    with Reader(twin, agent) as reader:
        sent: list[str] = []

        def work(count: int) -> None:
            for _ in range(count):
                sent.append(f"task {len(sent)}")
                agent.create_task(project, sent[-1])

        work(5)
        for _ in range(3):
            server.restart()
            work(5)
        events = reader.wait(lambda events: len(titles(events)) >= len(sent))
        assert titles(events) == sent
        assert [event.seq for event in events] == sorted({event.seq for event in events})


def test_work_while_the_server_restarts_is_all_in_the_stream(twin: Twin, server: Ringfence) -> None:
    agent, worker = twin.registered(), AgentClient(server.url, "worker", token=server.admin_token)
    worker.register()
    project = worker.create_project("p")["id"]
    with Reader(twin, agent, project=project) as reader:
        sent = [f"task {number}" for number in range(60)]
        begun = threading.Event()

        def work() -> None:
            for number, title in enumerate(sent):
                worker.create_task(project, title)
                if number == 5:
                    begun.set()

        working = threading.Thread(target=work)
        working.start()
        assert begun.wait(DEADLINE)
        server.restart()
        server.restart()
        working.join(DEADLINE)
        events = reader.wait(lambda events: len(titles(events)) >= len(sent))
        assert titles(events) == sent
        worker.close()


def test_a_reader_who_has_seen_nothing_yet_misses_nothing_either(twin: Twin, server: Ringfence) -> None:
    agent = twin.registered()
    with Reader(twin, agent) as reader:
        server.stop()
        known = server.settings
        server.settings = known.model_copy(update={"port": 0})
        server.start()  # where the reader does not find it
        server.write(lambda tx: tx.record("happened_meanwhile", SYSTEM, {}))
        server.stop()
        server.settings = known
        server.start()
        server.write(lambda tx: tx.record("happened_later", SYSTEM, {}))
        events = reader.wait(lambda events: "happened_later" in [event.kind for event in events], 3.0)
        assert [event.kind for event in events] == ["happened_meanwhile", "happened_later"]


def test_a_stream_can_begin_where_another_ended(twin: Twin) -> None:
    agent = twin.registered()
    project = agent.create_project("p")["id"]
    with Reader(twin, agent) as first:
        for number in range(4):
            agent.create_task(project, f"task {number}")
        events = first.wait(lambda events: len(titles(events)) == 4)
        with Reader(twin, agent, after=events[1].seq) as again:
            assert titles(again.wait(lambda events: len(titles(events)) == 2)) == ["task 2", "task 3"]


def test_a_stream_can_be_narrowed(twin: Twin) -> None:
    agent = twin.registered()
    wanted, other = agent.create_project("wanted")["id"], agent.create_project("other")["id"]
    with Reader(twin, agent, project=wanted, kind="task_created") as reader:
        agent.create_task(other, "not this")
        agent.join_project(wanted)
        agent.create_task(wanted, "this")
        assert titles(reader.wait(bool)) == ["this"]


def test_a_refused_stream_is_raised(twin: Twin) -> None:
    agent = twin.agent(token="rfag_wrong")
    if twin.loop is None:
        with pytest.raises(errors.Unauthenticated):
            next(agent.events())
    else:
        stream = agent.client.events()
        with pytest.raises(errors.Unauthenticated):
            twin.loop.run(anext(stream))


def test_a_closed_stream_ends(server: Ringfence) -> None:
    with AgentClient(server.url, "claude", token=server.admin_token) as agent:
        agent.register()
        with agent.events(after=0) as stream:
            first = next(stream)
            assert stream.after == first.seq
        assert isinstance(list(stream), list)


async def test_a_stream_whose_reader_is_cancelled_closes_its_connection(server: Ringfence) -> None:
    async with AsyncAgentClient(server.url, "claude", token=server.admin_token) as agent:
        await agent.register()
        reading = asyncio.Event()

        async def read() -> None:
            async with agent.events() as stream:
                reading.set()
                async for _ in stream:
                    pass

        task = asyncio.create_task(read())
        await asyncio.wait_for(reading.wait(), DEADLINE)
        assert server.house.feed.subscribers == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert agent._http._transport._pool.connections == []  # type: ignore[attr-defined]


def test_a_long_history_is_read_in_the_order_it_happened(twin: Twin, server: Ringfence) -> None:
    def use_case(tx: Any) -> None:
        for number in range(3000):
            tx.record("counted", SYSTEM, {"number": number})

    server.write(use_case)
    agent = twin.registered()
    with Reader(twin, agent, after=0, kind="counted") as reader:
        events = reader.wait(lambda events: len(events) == 3000)
        assert [event.data["number"] for event in events] == list(range(3000))
