"""One act of a warden, from its begin to its end, whatever becomes of who asked for it.

    begun ──► fed, or read piece by piece ──► result
                     │
                     └─ nobody wants it any more: SIGTERM, and the act takes back what is half done

Bytes go through as they come: what the other side does not take is not asked for. A side that does nothing for
`STALLED` seconds ends it.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ringfence.fence.files.model import failure
from ringfence.fence.link.model import Channel, InputClosed, Session, Whom
from ringfence.kernel.errors import Unavailable

QUICK = 30.0  # seconds for what takes a moment
STALLED = 60.0
LONG = 600.0  # for what takes as long as there are files
GRACE = 5.0  # seconds to take back what is half done


class Act:
    """What it fails with is raised as one of our errors, wherever it is waited for."""

    def __init__(self, session: Session, what: str, sandbox: str, closed: Callable[[], object]) -> None:
        self.patience: float | None = STALLED
        self._session, self._what, self._sandbox = session, what, sandbox
        self._output = session.output()
        self._first: bytes | None = None
        self._over = False
        self._closed: Callable[[], object] | None = closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nobody wants the rest."""
        closed, self._closed = self._closed, None
        if closed is None:
            return
        closed()
        self._output.close()
        if not self._over:
            self._session.signal(signal.SIGTERM, Whom.ALL)
            asyncio.get_running_loop().call_later(GRACE, self._session.signal, signal.SIGKILL, Whom.ALL)

    async def begun(self) -> None:
        """Until what was asked for can begin."""
        async with self._within(QUICK):
            await self._session.begun()
        if self._session.pid is None:  # it ended without
            await self.result()

    async def answering(self) -> None:
        """Until it says something, or has ended."""
        self._first = await self._piece(QUICK)
        if self._first is None:
            await self.result()

    async def pieces(self) -> AsyncIterator[bytes]:
        """What it says, to its end."""
        piece, self._first = self._first, None
        while piece or (piece := await self._piece(self.patience)):
            yield piece
            piece = None
        await self.result()

    async def piece(self, within: float) -> bytes | None:
        """What it says next; None: nothing more. TimeoutError when that takes longer."""
        async with asyncio.timeout(within):
            found = await self._said()
        if found is None:
            await self.result()
        return found

    async def send(self, data: bytes | memoryview) -> None:
        async with self._within(self.patience):
            await self._session.send(data)

    async def end_input(self) -> None:
        await self._session.end_input()

    async def fed(self, pieces: AsyncIterator[bytes]) -> Mapping[str, Any]:
        """Give it all of them; what it answers. When it fails the rest is not asked for."""
        feeding = asyncio.create_task(self._feed(pieces), name="act input")
        ending = asyncio.create_task(self._session.exit(), name="act end")
        try:
            await asyncio.wait({feeding, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await feeding
            return await self.result(STALLED)
        finally:
            for task in (feeding, ending):
                task.cancel()
            await asyncio.gather(feeding, ending, return_exceptions=True)

    async def result(self, within: float = QUICK) -> Mapping[str, Any]:
        async with self._within(within):
            exit = await self._session.exit()
        self._over = True
        if (error := failure(exit, self._what, self._sandbox)) is not None:
            raise error
        return exit.result

    async def _piece(self, within: float | None) -> bytes | None:
        async with self._within(within):
            return await self._said()

    async def _said(self) -> bytes | None:
        async for channel, data in self._output:
            if channel is Channel.OUT:
                return data
        return None

    async def _feed(self, pieces: AsyncIterator[bytes]) -> None:
        with contextlib.suppress(InputClosed):  # its end says why
            async for piece in pieces:
                if piece:
                    await self.send(piece)
            await self.end_input()

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float | None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise Unavailable(
                f"nothing came of {self._what} in the sandbox for {seconds:g} s", code="sandbox_stalled"
            ) from None
