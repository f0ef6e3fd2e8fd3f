"""The server process: migrate, listen, say that we are ready, serve, drain.

Started by the supervisor as `python -m ringfence.server READY_FD ORDER_FD`. It reads its `Order` from the one
descriptor, and writes one line of JSON to the other once it serves: a `Welcome`, or `{"error": sentence}`.
"""

import asyncio
import json
import logging
import os
import resource
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from pydantic import BaseModel
from typing_extensions import TypedDict

from ringfence.app import House, build
from ringfence.fence.runtimes.model import Runtime
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.spawned import Spawned
from ringfence.kernel import logs, migrations
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.auth.routes import signin_url
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.backups import service as backups
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, Invalid, RingfenceError, Unauthenticated
from ringfence.kernel.events.model import SYSTEM
from ringfence.kernel.http.protocol import Protocol
from ringfence.settings import Settings
from ringfence.supervisor import BACKLOG
from ringfence.supervisor import listen as listen  # for who runs a server without a supervisor

OPEN_FILES = 65_536
SOCKET_MESSAGE = 1 << 20  # bytes in one message of a WebSocket

log = logging.getLogger("ringfence.server")


class Order(BaseModel):
    """What the supervisor wants served."""

    settings: Settings
    socket: int  # listens already; the supervisor keeps it when we die
    origin: str  # how this machine reaches it
    owner: str  # the first person's name, when there is nobody yet
    tokens: list[str]  # the command line's, as far as they are known: a good one is kept
    link: bool  # whether a sign-in link is wanted
    doorstep: int  # where the supervisor hands over what comes later
    spawned: bool = False  # run by root: sandboxes are the spawner's, whose socket pairs come there


class Welcome(TypedDict):
    """What lets the one who started us in."""

    person: str
    token: str
    link: str | None


class Server(uvicorn.Server):
    """uvicorn, which first lets event streams end when it is told to stop."""

    def __init__(self, config: uvicorn.Config, house: House) -> None:
        super().__init__(config)
        self._house = house
        self.on_started: Callable[[], Awaitable[None]] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.on_started is not None:
            await self.on_started()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._house.feed.drain()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._house.feed.drain()
        await super().shutdown(sockets)


def prepare(settings: Settings) -> None:
    """The data folder, for its owner only, and the schema in it."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    backups.sweep(settings.data)
    migrations.upgrade(settings)


def server(house: House) -> Server:
    settings = house.settings
    config = uvicorn.Config(
        house.asgi,
        http=Protocol,
        ws="websockets-sansio",
        ws_max_size=SOCKET_MESSAGE,
        ws_per_message_deflate=False,  # a client's few bytes could ask for many of our milliseconds
        loop="uvloop",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.drain_seconds) or 1,
        timeout_keep_alive=75,
        backlog=BACKLOG,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    return Server(config, house)


# Letting the first person in ------------------------------------------------------------------------------------------


async def welcome(house: House, order: Order) -> Welcome:
    """The first person, made when there is nobody yet, a sign-in link, and a token for this machine's command line."""
    known = await _good_token(house.auth, order.tokens)
    return await house.database.write(lambda tx: _welcome(tx, house.auth, order, known))


async def _good_token(auth: Auth, tokens: list[str]) -> tuple[str, str] | None:
    """The first of these that still opens everything, and whose it is."""
    for secret in tokens:
        try:
            principal = await auth.holder(secret)
        except Unauthenticated:
            continue
        if principal.may(Role.ADMIN) and principal.projects is None:
            return secret, principal.name
    return None


def _welcome(tx: Transaction, auth: Auth, order: Order, known: tuple[str, str] | None) -> Welcome:
    admins = [person.name for person in auth.list_people(tx) if person.role is Role.ADMIN and not person.disabled_at]
    code = None
    if not admins:
        person, code = _first_person(tx, auth, order.owner)
    else:
        preferred = (known[1] if known else "", order.owner, admins[0])
        person = next(name for name in preferred if name in admins)
        if order.link:
            code = auth.signin_link(tx, SYSTEM, person)
    token = known[0] if known else _local_token(tx, auth, order.settings, person)
    return {"person": person, "token": token, "link": code and signin_url(order.settings, order.origin, code)}


def _first_person(tx: Transaction, auth: Auth, wanted: str) -> tuple[str, str]:
    """Invited under the wanted name, if it is possible and nobody's: an agent or a script may have it."""
    for name in (wanted, "admin", *(f"admin{number}" for number in range(2, 100))):
        try:
            return name, auth.invite(tx, None, name, Role.ADMIN)[1]
        except (Invalid, Conflict):
            continue
    raise Conflict("every name for the first admin is taken: `ringfence token create --role admin` lets you in")


def _local_token(tx: Transaction, auth: Auth, settings: Settings, person: str) -> str:
    """It does not expire, and takes the place of the one before it."""
    note = f"command line on {socket.gethostname()}, {settings.data}"[:200]
    oneself = Principal(TokenKind.API, person, Role.VIEWER)
    for token in auth.list_tokens(tx, oneself, "", 1000):
        if token.note == note and token.revoked_at is None:
            auth.revoke_token(tx, oneself, token.id)
    return auth.issue(tx, SYSTEM, TokenKind.API, person, role=Role.ADMIN, note=note)[1]


# The process ----------------------------------------------------------------------------------------------------------


def serve(order: Order, ready_fd: int) -> None:
    def say(word: object) -> None:
        os.write(ready_fd, json.dumps(word).encode() + b"\n")
        os.close(ready_fd)

    try:
        prepare(order.settings)
        house = build(order.settings, runtime=_runtime(order))
        running = server(house)
        running.config.load()
    except (RingfenceError, OSError) as error:
        say({"error": _reason(error, order.settings)})
        sys.exit(1)

    async def greet() -> None:
        try:
            say(await welcome(house, order))
        except RingfenceError as error:
            say({"error": str(error)})
            running.should_exit = True

    running.on_started = greet
    with asyncio.Runner(loop_factory=running.config.get_loop_factory()) as runner:
        runner.run(running.serve(sockets=[socket.socket(fileno=order.socket)]))


def _runtime(order: Order) -> Runtime | None:
    """Run by root, that of the spawner."""
    doorstep = socket.socket(fileno=order.doorstep)
    return Native(Spawned(doorstep)) if order.spawned and order.settings.runtime == "native" else None


def _reason(error: Exception, settings: Settings) -> str:
    if settings.tls_cert and isinstance(error, OSError):  # ssl.SSLError is one
        return f"the certificate {settings.tls_cert} and its key {settings.tls_key} cannot be used: {error}"
    return str(error)


def allow_open_files() -> None:
    """As many connections as this machine lets us have: each stream of events is one, and a shell allows 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def main() -> None:
    allow_open_files()
    ready_fd, order_fd = map(int, sys.argv[1:3])
    with os.fdopen(order_fd, "rb") as file:
        order = Order.model_validate_json(file.read())
    logs.configure(order.settings)
    serve(order, ready_fd)


if __name__ == "__main__":
    main()
