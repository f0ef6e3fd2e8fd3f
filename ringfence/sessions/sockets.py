"""An exec over a WebSocket.

    client                                      server
      {"argv": ["bash"], "pty": {…}} ─────────►            what POST exec takes
      ◄──────────── {"type": "started", …exec}
      ◄──────────── binary: u8 channel (1, 2), bytes       output
      binary: u8 0, bytes ────────────────────►            input
      {"type": "signal", "signal": "INT"} ────►
      {"type": "resize", "rows": 50, "columns": 100} ─►
      {"type": "end_input"} ──────────────────►
      ◄──────────── {"type": "ended", …exec}   and the connection is closed

A client that goes away ends the program, unless it asked for `detach`.
"""

import asyncio
import contextlib

from pydantic_core import to_json
from starlette.websockets import WebSocketDisconnect

from ringfence.fence.link.model import InputClosed, Session
from ringfence.kernel.errors import Invalid
from ringfence.kernel.http.endpoint import Access, parse_body
from ringfence.kernel.http.sockets import SocketCall, Sockets, said_json
from ringfence.sessions import views
from ringfence.sessions.model import signal_number
from ringfence.sessions.routes import EXEC, WHOM
from ringfence.sessions.service import Execs, Running

FIRST = 30.0  # seconds until the command must have come


def sockets(execs: Execs) -> Sockets:
    found = Sockets()

    @found.route(f"{EXEC}/ws", access=Access.ACT)
    async def run(call: SocketCall) -> None:
        """Run a program, and be connected to it."""
        await call.socket.accept()
        body = await _first(call)
        if body is None:
            return
        command = body.wish(waits=False)
        running = await execs.start(call.principal, call["sandbox"], command)
        assert isinstance(running, Running) and running.session is not None  # without a key it is a new one
        session = running.session
        ended = False
        try:
            await _tell(call, "started", views.exec_view(running.now()))
            await _connect(call, execs, running, session)
            if running.exec.exit is not None:
                end = await running.end()
                ended = True
                await _tell(call, "ended", views.exec_view(end))
        finally:
            if not ended and not command.detached:
                execs.kill(running)

    return found


async def _first(call: SocketCall) -> views.NewExec | None:
    try:
        async with asyncio.timeout(FIRST):
            said = await call.message()
    except TimeoutError:
        raise Invalid(f"the command did not come within {FIRST:g} s", code="too_slow") from None
    if isinstance(said, bytes):
        raise Invalid("the first message is the command, as JSON", code="invalid_message")
    return None if said is None else parse_body(views.NewExec, said.encode())


async def _connect(call: SocketCall, execs: Execs, running: Running, session: Session) -> None:
    """Both ways, until the program has ended or the client is gone."""
    listening = asyncio.create_task(_listen(call, session), name="exec input")
    telling = asyncio.create_task(_say(call, execs, running), name="exec output")
    try:
        await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listening, telling):
            task.cancel()
        await asyncio.gather(listening, telling, return_exceptions=True)
    for task in (telling, listening):
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, WebSocketDisconnect):
                return
            raise error


async def _say(call: SocketCall, execs: Execs, running: Running) -> None:
    send = call.socket.send_bytes
    async for channel, _, data in execs.follow(running):
        await send(bytes((channel,)) + data)


async def _listen(call: SocketCall, session: Session) -> None:
    while (said := await call.message()) is not None:
        if isinstance(said, bytes):
            if not said or said[0] != 0:
                raise Invalid("a binary message is a zero byte and input", code="invalid_message")
            with contextlib.suppress(InputClosed):
                await session.send(memoryview(said)[1:])
            continue
        fields = said_json(said)
        match fields.pop("type", None):
            case "signal":
                body = parse_body(views.SignalBody, to_json(fields))
                session.signal(signal_number(body.signal), WHOM[body.whom])
            case "resize":
                size = parse_body(views.Size, to_json(fields))
                session.resize(size.rows, size.columns)
            case "end_input":
                await session.end_input()
            case other:
                raise Invalid(f"a message of type {other!r:.40}: signal, resize, end_input", code="invalid_message")


async def _tell(call: SocketCall, kind: str, fields: views.ExecView) -> None:
    await call.tell({"type": kind, **fields})
