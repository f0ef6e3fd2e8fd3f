"""A call to Ringfence as a fact: what is asked, how the answer reads, and whether it may be asked twice."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import httpx

from ringfence.sdk.errors import UnexpectedAnswer

T = TypeVar("T")
CHUNK = 1 << 18
UNPACKED_WITHIN = 3600.0  # seconds until an archive that was sent is answered


class Repeat(Enum):
    """Whether a call may be sent again when nobody knows if it was carried out."""

    SAFE = "changes nothing, or the same as before"
    KEYED = "carries an Idempotency-Key, by which the server knows a repeat"
    NEVER = "would be done twice"


@dataclass(frozen=True, slots=True)
class Upload:
    filename: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    method: str
    path: str
    reads: Callable[[httpx.Response], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    upload: Upload | None = None
    file: Path | None = None  # that is the body, read while it is sent
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
        if self.file is not None:
            chunks = _chunks(self.file) if isinstance(client, httpx.Client) else _async_chunks(self.file)
            sized = {**headers, "content-length": str(self.file.stat().st_size)}
            return client.build_request(
                self.method, self.path, params=_given(self.query), headers=sized, content=chunks,
                timeout=httpx.Timeout(client.timeout.connect, read=UNPACKED_WITHIN),
            )  # fmt: skip
        return client.build_request(
            self.method, self.path, params=_given(self.query), headers=headers, json=self.body
        )  # fmt: skip


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            yield chunk


async def _async_chunks(file: Path) -> AsyncIterator[bytes]:
    opened = await asyncio.to_thread(file.open, "rb")
    try:
        while chunk := await asyncio.to_thread(opened.read, CHUNK):
            yield chunk
    finally:
        opened.close()


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
