"""A call to Ringfence as a fact: what is asked, how the answer reads, and whether it may be asked twice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, cast
from urllib.parse import quote, urlencode

import httpx

from ringfence.sdk.errors import UnexpectedAnswer

T = TypeVar("T")


class Repeat(Enum):
    """Whether a call may be sent again when nobody knows if it was carried out."""

    SAFE = "changes nothing, or the same as before"
    KEYED = "carries an Idempotency-Key, by which the server knows a repeat"
    NEVER = "would be done twice"


@dataclass(frozen=True, slots=True)
class Upload:
    filename: str
    content: bytes


PIECE = 256 << 10  # bytes of a file that are in memory at once


@dataclass(frozen=True, slots=True)
class Content:
    """What a file on this machine holds, as the body of a call; from its beginning with each try."""

    file: Path

    def pieces(self) -> Iterator[bytes]:
        with self.file.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece

    async def pieces_awaited(self) -> AsyncIterator[bytes]:
        pieces = self.pieces()
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece


@dataclass(frozen=True, slots=True)
class Sink:
    """The file on this machine that takes an answer's bytes; from its beginning with each try."""

    file: IO[bytes]

    def begin(self) -> None:
        self.file.seek(0)
        self.file.truncate()

    def take(self, piece: bytes) -> None:
        self.file.write(piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    method: str
    path: str
    reads: Callable[[httpx.Response], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    upload: Upload | None = None
    content: bytes | Content | None = None
    sink: Sink | None = None
    within: float | None = None
    """Seconds an answer may take, where that is longer than the client waits otherwise."""
    repeat: Repeat = Repeat.SAFE
    patient: bool = True
    """Whether it is worth asking again at all; a heartbeat is not: the next one comes soon."""

    @property
    def asked(self) -> str:
        return f"{self.method} {self.path}"

    def request(self, client: httpx.Client | httpx.AsyncClient, headers: dict[str, str]) -> httpx.Request:
        if self.upload is not None:
            files = {"file": (self.upload.filename, self.upload.content, "application/octet-stream")}
            return client.build_request(
                self.method, self.path, headers=headers, files=files, data=dict(self.body or {})
            )
        asked = _with_query(self.path, _given(self.query))
        timeout = client.timeout
        if self.within is not None:
            timeout = httpx.Timeout(**{**timeout.as_dict(), "read": self.within})
        if self.content is not None:
            content: Any = self.content
            if isinstance(content, Content):
                content = content.pieces_awaited() if isinstance(client, httpx.AsyncClient) else content.pieces()
            return client.build_request(self.method, asked, headers=headers, content=content, timeout=timeout)
        return client.build_request(self.method, asked, headers=headers, json=self.body, timeout=timeout)


def _with_query(where: str, query: dict[str, Any]) -> str:
    """Byte for byte: a file's name may be no text, and is a string with surrogates then."""
    told = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
    return f"{where}?{urlencode(told, doseq=True, errors='surrogateescape')}" if told else where


def path(*parts: str) -> str:
    """`/a/b` from single names, each quoted: no name can lead elsewhere."""
    for part in parts:
        if not isinstance(part, str) or not part:
            raise ValueError(f"a name or an id is wanted here, not {part!r}")
    return "/" + "/".join(_quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


def file_path(*parts: str, name: str) -> str:
    """A path that ends in a file's name, which may hold `/`."""
    return path(*parts) + path(*name.split("/"))


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given: the server knows what the others default to."""
    return _given(fields)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Json(Generic[T]):
    """Reads an answer as `kind`, which both sides agree on: a test holds it to the server's document."""

    kind: type[T]

    def __call__(self, response: httpx.Response) -> T:
        return cast(T, body(response))


def body(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        start = response.text[:80]
        raise UnexpectedAnswer(f"the answer is not JSON but {start!r}: is this URL a Ringfence?") from None


def content(response: httpx.Response) -> bytes:
    return response.content
