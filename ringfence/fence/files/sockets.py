"""A TCP port inside a sandbox, over a WebSocket: binary messages both ways, as they come.

client                                   server
  binary ─────────────────────────────►    goes to the port
  ◄─────────────────────────────── binary  what comes back
  {"type": "end_input"} ──────────────►    nothing more will go there
  ◄──────── the connection is closed       the port has said its last
"""

import asyncio

from starlette.websockets import WebSocketDisconnect

from ringfence.fence.files.acts import Act
from ringfence.fence.files.routes import PORTS
from ringfence.fence.files.service import Files
from ringfence.fence.link.model import InputClosed
from ringfence.kernel.errors import Invalid
from ringfence.kernel.http.endpoint import Access
from ringfence.kernel.http.sockets import SocketCall, Sockets, said_json


def sockets(files: Files) -> Sockets:
    found = Sockets()

    @found.route(f"{PORTS}/{{port}}", access=Access.ACT)
    async def dial(call: SocketCall) -> None:
        """Be connected to a port in a sandbox."""
        async with await files.dial(call.principal, call["sandbox"], _port(call["port"])) as act:
            await call.socket.accept()
            await _connect(call, act)

    return found


def _port(given: str) -> int:
    if not given.isascii() or not given.isdecimal() or not 0 < int(given[:6]) < 65536:
        raise Invalid(f"{given!r:.40} is not a port: 1 to 65535", code="invalid_port")
    return int(given)


async def _connect(call: SocketCall, act: Act) -> None:
    """Until the port has said its last, or the client is gone."""
    sending = asyncio.create_task(_send(call, act), name="port input")
    telling = asyncio.create_task(_tell(call, act), name="port output")
    try:
        await asyncio.wait({sending, telling}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, telling):
            task.cancel()
        await asyncio.gather(sending, telling, return_exceptions=True)
    for task in (telling, sending):
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, WebSocketDisconnect | InputClosed):
                return
            raise error


async def _tell(call: SocketCall, act: Act) -> None:
    async for piece in act.pieces():
        await call.socket.send_bytes(piece)


async def _send(call: SocketCall, act: Act) -> None:
    while (said := await call.message()) is not None:
        if isinstance(said, bytes):
            await act.send(said)
        elif said_json(said).get("type") == "end_input":
            await act.end_input()
        else:
            raise Invalid("a text message is an end_input", code="invalid_message")
