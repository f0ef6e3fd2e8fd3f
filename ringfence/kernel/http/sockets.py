"""WebSockets: who connects, whether they may, and how a refusal is told.

    @sockets.route("/api/v1/…/ws", access=Access.ACT)
    async def shell(call: SocketCall) -> None:
        await call.socket.accept()

A refusal before `accept` is an HTTP answer with problem+json; after it a close, with the error's code as the reason. A
browser sends its session cookie and its Origin, which `application.py` has checked by then; programs send a token.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ringfence.kernel.auth.model import Principal, TokenKind
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.errors import Forbidden, Invalid, RingfenceError, Unauthenticated
from ringfence.kernel.http.application import cookie_name
from ringfence.kernel.http.endpoint import Access
from ringfence.settings import Settings

POLICY, INTERNAL, LATER = 1008, 1011, 1013


class SocketCall:
    """One connection, and who made it."""

    def __init__(self, socket: WebSocket, principal: Principal) -> None:
        self.socket = socket
        self.principal = principal

    def __getitem__(self, name: str) -> str:
        return cast(str, self.socket.path_params[name])

    async def message(self) -> str | bytes | None:
        """What the client says next; None: it is gone."""
        said = await self.socket.receive()
        if said["type"] == "websocket.disconnect":
            return None
        text: str | bytes | None = said.get("text")
        return text if text is not None else said.get("bytes") or b""

    async def tell(self, fields: object) -> None:
        await self.socket.send_text(json.dumps(fields, ensure_ascii=False))


Handler = Callable[[SocketCall], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Socket:
    path: str
    access: Access
    handler: Handler

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or self.handler.__name__).strip().split("\n", 1)[0].rstrip(".")


class Sockets:
    """The WebSockets of one room."""

    def __init__(self) -> None:
        self.all: list[Socket] = []

    def route(self, path: str, *, access: Access) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            self.all.append(Socket(path, access, handler))
            return handler

        return declare

    def routes(self, auth: Auth, settings: Settings) -> list[BaseRoute]:
        return [WebSocketRoute(socket.path, _Door(socket, auth, settings)) for socket in self.all]


class _Door:
    def __init__(self, socket: Socket, auth: Auth, settings: Settings) -> None:
        self._socket, self._auth, self._settings = socket, auth, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        try:
            principal = await self._principal(socket)
            if not self._socket.access.admits(principal):
                raise Forbidden(
                    f"{self._socket.summary}: this is for {self._socket.access.value}", code="role",
                    subject=self._socket.path,
                )  # fmt: skip
            await self._socket.handler(SocketCall(socket, principal))
        except WebSocketDisconnect:
            return
        except RingfenceError as error:
            if socket.application_state is WebSocketState.CONNECTING:
                raise  # the gatekeeper answers
            await _close(socket, error)
        else:
            if socket.application_state is WebSocketState.CONNECTED:
                await socket.close()

    async def _principal(self, socket: WebSocket) -> Principal:
        header = socket.headers.get("authorization")
        if header is not None:
            scheme, _, secret = header.partition(" ")
            if scheme.lower() != "bearer" or not secret.strip():
                raise Unauthenticated("the Authorization header is not `Bearer TOKEN`")
            socket.scope["ringfence.secret"] = secret.strip()
            return await self._auth.principal(secret.strip())
        session = socket.cookies.get(cookie_name(self._settings, socket.scope))
        if session is None:
            raise Unauthenticated("who are you? Send `Authorization: Bearer TOKEN`, or sign in")
        if "origin" not in socket.headers:
            raise Forbidden("a session cookie counts with the Origin that browsers send", code="csrf")
        socket.scope["ringfence.secret"] = session
        principal = await self._auth.principal(session)
        if principal.kind is not TokenKind.SESSION:
            raise Unauthenticated("this cookie is no session: sign in again")
        return principal


async def _close(socket: WebSocket, error: RingfenceError) -> None:
    if socket.application_state is WebSocketState.CONNECTED:
        try:
            told: dict[str, object] = {"type": "error", "code": error.code, "detail": error.message}
            told |= {"status": error.http_status or error.status, "title": error.default_code.replace("_", " ")}
            await socket.send_text(json.dumps(told))
            await socket.close(LATER if error.status == 503 else POLICY, error.code)
        except (WebSocketDisconnect, RuntimeError):
            pass


def said_json(text: str) -> dict[str, Any]:
    """A message's fields."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid("a text message is a JSON object", code="invalid_message") from None
    if not isinstance(found, dict):
        raise Invalid("a text message is a JSON object", code="invalid_message")
    return found
