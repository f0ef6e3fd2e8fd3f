"""WebSockets to the server: opened with the client's token and trust, and refusals as the errors of any other call."""

import ssl
from collections.abc import Callable
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection as AsyncConnection
from websockets.asyncio.client import connect as connect_awaited
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection as Connection
from websockets.sync.client import connect

from ringfence.sdk.errors import RingfenceError, Unreachable, answered

OPEN_WITHIN = 20.0
Closed = ConnectionClosed


class Sockets:
    def __init__(
        self, url: str, trust: ssl.SSLContext | bool, proxies: bool, authorization: Callable[[], dict[str, str]]
    ) -> None:
        self._url = "ws" + url.removeprefix("http")
        self._trust = trust if isinstance(trust, ssl.SSLContext) else None
        self._proxy = True if proxies else None
        self._authorization = authorization

    def open(self, where: str) -> Connection:
        try:
            opened: Connection = connect(self._url + where, **self._options()).__enter__()
            return opened
        except (OSError, InvalidHandshake, TimeoutError) as error:
            raise _refused(where, error) from error

    async def open_awaited(self, where: str) -> AsyncConnection:
        try:
            connection: AsyncConnection = await connect_awaited(self._url + where, **self._options())
            return connection
        except (OSError, InvalidHandshake, TimeoutError) as error:
            raise _refused(where, error) from error

    def _options(self) -> dict[str, Any]:
        return {
            "additional_headers": self._authorization(), "ssl": self._trust, "proxy": self._proxy, "compression": None,
            "max_size": None, "open_timeout": OPEN_WITHIN, "user_agent_header": "ringfence-sdk",
        }  # fmt: skip


def _refused(where: str, error: Exception) -> RingfenceError:
    asked = f"GET {where}"
    if isinstance(error, InvalidStatus):
        it = error.response
        response = httpx.Response(it.status_code, headers=list(it.headers.raw_items()), content=bytes(it.body or b""))
        return answered(response, asked)
    return Unreachable(f"Ringfence cannot be reached: {error or type(error).__name__}", asked=asked, maybe_done=False)


def broken(where: str, error: ConnectionClosed) -> RingfenceError:
    """A connection that ended before what it was for."""
    return Unreachable(f"the connection broke: {error}", asked=f"GET {where}")
