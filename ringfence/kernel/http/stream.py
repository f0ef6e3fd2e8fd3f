"""Responses that are sent piece by piece: server-sent events for as long as both sides want, and downloads of any
length."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Stream(Response):
    patience: float | None = None  # seconds a reader may take nothing

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], media: str, headers: Mapping[str, str], status: int = 200
    ) -> None:
        super().__init__(None, status, headers, media)
        if "content-length" not in headers:
            del self.headers["content-length"]
        self._chunks = chunks
        self.allowed: Callable[[], Awaitable[bool]] | None = None  # asked before every chunk; no: the stream ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["ringfence.stream"] = True
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        sending = asyncio.create_task(self._send(send), name="event stream")
        gone = asyncio.create_task(_until_gone(receive), name="event stream reader")
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, send: Send) -> None:
        async with contextlib.aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                if self.allowed is not None and not await self.allowed():
                    break
                async with asyncio.timeout(self.patience):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class EventStream(Stream):
    def __init__(self, chunks: AsyncGenerator[bytes, None], headers: Mapping[str, str] | None = None) -> None:
        unbuffered = {"cache-control": "no-cache", "x-accel-buffering": "no", **(headers or {})}
        super().__init__(chunks, "text/event-stream", unbuffered)


class Download(Stream):
    def __init__(self, chunks: AsyncGenerator[bytes, None], media: str, name: str) -> None:
        super().__init__(chunks, media, {"content-disposition": f'attachment; filename="{name}"'})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
