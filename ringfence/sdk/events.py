"""The event stream: bytes in, events out, and where to go on after the connection broke.

Every event has a number. A broken stream is asked for again with `Last-Event-ID`, and the server sends what came after:
nothing is missed, and what is sent twice all the same is dropped here.
"""

import asyncio
import codecs
import json
import random
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

from ringfence.sdk.errors import RingfenceError, Unavailable, UnexpectedAnswer, Unreachable, answered
from ringfence.sdk.retrying import distrusted, unreachable

ACCEPTED = "text/event-stream"
SILENCE = 45.0  # the server says something every 15 seconds
LONGEST_LINE = 16 << 20

_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One change: its number, its kind, when and by whom, and what the kind says more of it."""

    seq: int
    kind: str
    time: str
    actor: str
    data: dict[str, Any]


@dataclass(slots=True)
class Frame:
    """What a server-sent event says, before anybody knows what it means."""

    id: str | None
    event: str
    data: str


@dataclass(slots=True)
class Decoder:
    """Server-sent events from bytes, however they are cut; as the HTML standard reads them."""

    retry: float = 1.0
    id: str | None = None
    _text: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8-sig")("replace"))
    _rest: str = ""
    _event: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        lines = self._lines(self._text.decode(chunk))
        for line in lines:
            if line:
                self._read(line)
            elif frame := self._complete():
                yield frame

    def _lines(self, text: str) -> Iterator[str]:
        text = self._rest + text
        start = 0
        for end in _END.finditer(text):
            if end.group() == "\r" and end.end() == len(text):
                break  # a newline may follow in the next chunk
            yield text[start : end.start()]
            start = end.end()
        self._rest = text[start:]
        if len(self._rest) > LONGEST_LINE:
            raise UnexpectedAnswer("a line of the event stream does not end")

    def _read(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.id = value
        elif name == "retry" and value.isdecimal():
            self.retry = min(30.0, int(value) / 1000)

    def _complete(self) -> Frame | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return Frame(self.id, event, "\n".join(data)) if data else None


class Following:
    """One reader's place in the stream, over as many connections as it takes."""

    def __init__(
        self,
        query: dict[str, Any],
        after: int | None,
        give_up_after: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.given = after
        self._seen = after
        self._query = query
        self._decoder = Decoder()
        self._give_up_after = give_up_after
        self._clock = clock
        self._lost_at: float | None = None
        self._failures = 0

    def request(self, client: httpx.Client | httpx.AsyncClient, headers: dict[str, str]) -> httpx.Request:
        headers = {**headers, "accept": ACCEPTED, "cache-control": "no-store"}
        if self._seen is not None:
            headers["last-event-id"] = str(self._seen)
        timeout = httpx.Timeout(**{**client.timeout.as_dict(), "read": SILENCE})
        return client.build_request("GET", "/events", params=self._query, headers=headers, timeout=timeout)

    def opened(self, response: httpx.Response) -> None:
        """The answer's head is there; `response` has been read if it is no stream."""
        if not response.is_success:
            raise answered(response, "GET /events")
        if not response.headers.get("content-type", "").startswith(ACCEPTED):
            raise UnexpectedAnswer("the answer is no event stream: is this URL a Ringfence?", asked="GET /events")
        self._decoder = Decoder(self._decoder.retry)

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._lost_at, self._failures = None, 0
        for frame in self._decoder.feed(chunk):
            event = _event(frame)
            if self._seen is None or event.seq > self._seen:
                self._seen = event.seq
                yield event
        if self._seen is None and (self._decoder.id or "").isdecimal():
            self._seen = int(self._decoder.id or 0)  # where the stream begins, said before any event

    def give(self, event: Event) -> Event:
        self.given = event.seq
        return event

    def pause(self, error: Exception | None) -> float:
        """Seconds until the next try; raises what can only go on failing, and what has failed for too long."""
        if error is not None and not isinstance(error, httpx.TransportError | Unavailable):
            raise error
        if isinstance(error, httpx.TransportError) and distrusted(error):
            raise unreachable("GET /events", error)
        now = self._clock()
        self._lost_at = now if self._lost_at is None else self._lost_at
        if self._give_up_after is not None and now - self._lost_at > self._give_up_after:
            raise Unreachable(
                f"the event stream was lost for more than {self._give_up_after:g} s: {error or 'it ended'}",
                asked="GET /events",
            ) from error
        self._failures += 1
        grown = min(10.0, 0.1 * 2.0 ** min(self._failures - 1, 10))
        if error is not None and isinstance(error, Unavailable):
            grown = max(grown, min(self._decoder.retry, 30.0))
        return grown * random.uniform(0.5, 1.0)  # noqa: S311


def _event(frame: Frame) -> Event:
    try:
        data = json.loads(frame.data)
        seq = int(data.pop("seq"))
        return Event(seq, frame.event, data.pop("time", ""), data.pop("actor", ""), data)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnexpectedAnswer(f"this is no event of Ringfence: {frame.data[:80]!r}", asked="GET /events") from None


class EventStream:
    """Events for `for`; `with` connects at once, so that what happens from there on is in it.

    `after` is the number of the last event given: kept somewhere, it lets another process go on from there.
    """

    def __init__(self, http: httpx.Client, authorization: Callable[[], dict[str, str]], following: Following) -> None:
        self._http = http
        self._authorization = authorization
        self._following = following
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._ready: deque[Event] = deque()
        self._closed = False

    @property
    def after(self) -> int | None:
        return self._following.given

    @property
    def _over(self) -> bool:
        return self._closed or self._http.is_closed

    def __enter__(self) -> Self:
        while self._response is None:
            self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while not self._ready:
            if self._over:
                raise StopIteration
            self._read()
        return self._following.give(self._ready.popleft())

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    def _read(self) -> None:
        """The next chunk, of this connection or a new one; or a pause."""
        lost: Exception | None = None
        try:
            if self._response is None:
                self._connect()
            for chunk in self._chunks:
                self._ready.extend(self._following.feed(chunk))
                return
        except (httpx.TransportError, RingfenceError) as error:
            lost = error
        self._disconnect()
        if not self._over:
            time.sleep(self._following.pause(lost))

    def _connect(self) -> None:
        request = self._following.request(self._http, self._authorization())
        self._response = response = self._http.send(request, stream=True)
        if not response.is_success:
            response.read()
        self._following.opened(response)
        self._chunks = response.iter_bytes()

    def _disconnect(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()


class AsyncEventStream:
    """`EventStream` for `async for` and `async with`."""

    def __init__(
        self, http: httpx.AsyncClient, authorization: Callable[[], dict[str, str]], following: Following
    ) -> None:
        self._http = http
        self._authorization = authorization
        self._following = following
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._ready: deque[Event] = deque()
        self._closed = False

    @property
    def after(self) -> int | None:
        return self._following.given

    @property
    def _over(self) -> bool:
        return self._closed or self._http.is_closed

    async def __aenter__(self) -> Self:
        while self._response is None:
            await self._read()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            await self._read()
        return self._following.give(self._ready.popleft())

    async def close(self) -> None:
        self._closed = True
        await self._disconnect()

    async def _read(self) -> None:
        lost: Exception | None = None
        try:
            if self._response is None:
                self._chunks = await self._connect()
            assert self._chunks is not None
            async for chunk in self._chunks:
                self._ready.extend(self._following.feed(chunk))
                return
        except (httpx.TransportError, RingfenceError) as error:
            lost = error
        await self._disconnect()
        if not self._over:
            await asyncio.sleep(self._following.pause(lost))

    async def _connect(self) -> AsyncIterator[bytes]:
        request = self._following.request(self._http, self._authorization())
        self._response = response = await self._http.send(request, stream=True)
        if not response.is_success:
            await response.aread()
        self._following.opened(response)
        return response.aiter_bytes()

    async def _disconnect(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()
