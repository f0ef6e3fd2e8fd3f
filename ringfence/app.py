"""The composition root: the only file that knows every room.

settings ──► database ──► auth, feed ──► rooms ──► endpoints ──► ASGI application
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from prometheus_client import Gauge
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from ringfence.board import routes as board_routes
from ringfence.board.service import Board
from ringfence.board.service import board as make_board
from ringfence.crew import checkpoint_routes, control_routes
from ringfence.crew import routes as crew_routes
from ringfence.crew.checkpoints import Checkpoints
from ringfence.crew.control import Control
from ringfence.crew.liveness import Liveness
from ringfence.crew.messages import routes as message_routes
from ringfence.crew.messages.service import Messages
from ringfence.crew.proposals import routes as proposal_routes
from ringfence.crew.proposals.service import Proposals
from ringfence.crew.service import Crew
from ringfence.dashboard.pages import ROOT, Dashboard
from ringfence.demo import routes as demo_routes
from ringfence.demo.model import PACE
from ringfence.demo.service import Demos, Rooms
from ringfence.fence import routes as fence_routes
from ringfence.fence.doctor import routes as doctor_routes
from ringfence.fence.files import routes as file_routes
from ringfence.fence.files import sockets as port_sockets
from ringfence.fence.files.service import Files
from ringfence.fence.incoming import Incoming
from ringfence.fence.link.links import WardenLinks
from ringfence.fence.lives import Lives
from ringfence.fence.posture import routes as posture_routes
from ringfence.fence.posture.service import Posture
from ringfence.fence.runtimes.model import Runtime
from ringfence.fence.runtimes.native.boxes import INCOMING, Boxes
from ringfence.fence.runtimes.native.ids import Ids
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.tools import NotBuilt, Tools
from ringfence.fence.service import Fence
from ringfence.kernel import database as db
from ringfence.kernel.auth import routes as auth_routes
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.backups import routes as backup_routes
from ringfence.kernel.clock import SECOND, Clock
from ringfence.kernel.errors import Unavailable
from ringfence.kernel.events import routes as event_routes
from ringfence.kernel.events.model import Refusals
from ringfence.kernel.events.service import Feed, prune_old
from ringfence.kernel.housekeeping import Chore, Housekeeping
from ringfence.kernel.http import system
from ringfence.kernel.http.application import Metrics, application
from ringfence.kernel.http.endpoint import Endpoint, Server
from ringfence.kernel.retention import routes as retention_routes
from ringfence.kernel.retention.service import Kept, Retention
from ringfence.privileges.folder import SANDBOXES
from ringfence.sessions import routes as exec_routes
from ringfence.sessions import sockets as exec_sockets
from ringfence.sessions.places import FencePlaces
from ringfence.sessions.service import Execs
from ringfence.settings import Settings


@dataclass(frozen=True, slots=True)
class House:
    """Everything that was built, for the process that runs it."""

    settings: Settings
    database: db.Database
    feed: Feed
    auth: Auth
    endpoints: list[Endpoint]
    asgi: ASGIApp
    housekeeping: Housekeeping
    crew: Crew
    liveness: Liveness
    proposals: Proposals
    board: Board
    fence: Fence
    lives: Lives
    execs: Execs
    demos: Demos


def build(settings: Settings, clock: Clock | None = None, runtime: Runtime | None = None) -> House:
    """The whole service, not yet started: the ASGI lifespan opens and closes it. `runtime`: instead of what is set."""
    database = db.connect(settings.database, settings.data, clock or Clock())
    refusals = Refusals()
    database.on_refusal = refusals.record
    feed = Feed(database)
    auth = Auth(database, settings)
    feed.listen(auth.observe)
    crew = Crew(settings, auth, database.clock)
    auth.on_use.append(lambda who: crew.seen(who.name) if who.is_agent else None)
    liveness = Liveness(settings, crew)
    proposals = Proposals(crew)
    retention = Retention(settings)
    messages = Messages(settings, crew, auth, retention)
    board = make_board(settings, crew, proposals)
    feed.listen(board.projects.observe)
    fence = Fence(settings, lambda tx, by, project: board.projects.find(tx, by, project, change=False))
    execs = Execs(settings, database)
    lives = Lives(settings, database, fence, WardenLinks(), execs, lambda: runtime or _runtime(settings))
    incoming = Incoming(settings.data / INCOMING)
    places = execs.sandboxes = FencePlaces(
        database, fence, lives.link, lives.touch, lambda tx, agent: crew.check_awake(tx, agent, "run programs")
    )
    fence.is_frozen = lambda tx, agent: crew.standing(tx, agent).frozen
    crew.on_halt.append(fence.halt)
    crew.on_freeze.append(fence.freeze)
    crew.on_thaw.append(fence.thaw)
    files = Files(database, places)
    for observe in (places.observe, lives.observe, execs.observe):
        feed.listen(observe)
    control, checkpoints = Control(crew), Checkpoints(settings, crew)
    demos = Demos(Rooms(auth, crew, control, checkpoints, proposals, messages, board))
    server = Server(database, settings)
    dashboard = Dashboard()
    metrics = Metrics()
    _measure(metrics, database, feed)

    def record_repeats(tx: db.Transaction) -> None:
        tx.drafts += refusals.due(tx.now)

    chores = [
        Chore("refusals", 10, record_repeats),
        Chore("tokens", 30, auth.flush_used),
        Chore("forget", 3600, auth.forget),
        Chore("liveness", settings.sweep_every, liveness.sweep),
        Chore("messages", 30, messages.tidy),
        Chore("files", 3600, board.blobs.sweep),
        Chore("sandboxes", 2, fence.sweep),
        Chore("destroyed", 3600, fence.forget),
        Chore("execs", 600, execs.prune),
        Chore("demo", PACE / SECOND, demos.step),
        Chore("retention", 60, lambda tx: prune_old(tx, retention.days(tx, Kept.EVENTS))),
    ]
    housekeeping = Housekeeping(database, chores, liveness.woke)

    endpoints: list[Endpoint] = []
    for api in (
        auth_routes.routes(auth, settings, page=ROOT if dashboard.is_built else None),
        event_routes.routes(feed, database, board.projects.sees),
        crew_routes.routes(crew),
        control_routes.routes(control),
        checkpoint_routes.routes(checkpoints),
        proposal_routes.routes(proposals),
        message_routes.routes(messages, settings),
        *board_routes.routes(board),
        fence_routes.routes(fence, lives, incoming, settings),
        doctor_routes.routes(settings, lives.runtime),
        posture_routes.routes(Posture(settings, database, fence, lives)),
        exec_routes.routes(execs, settings),
        file_routes.routes(files),
        demo_routes.routes(demos, board.blobs),
        backup_routes.routes(settings),
        retention_routes.routes(database, retention),
        system.routes(database, feed, settings, metrics, endpoints, page=ROOT if dashboard.is_built else None),
    ):
        endpoints += api.endpoints

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await database.open()
        await database.read(board.projects.load)
        await feed.open()
        housekeeping.open()
        await execs.open()
        incoming.open()
        lives.open()
        try:
            yield
        finally:
            await housekeeping.close()
            await lives.close()
            await feed.close()
            await database.close()

    others: list[BaseRoute] = [
        *exec_sockets.sockets(execs).routes(auth, settings),
        *port_sockets.sockets(files).routes(auth, settings),
        Route(ROOT + "{path:path}", dashboard, methods=["GET", "HEAD"]),
    ]
    asgi = application(endpoints, server, auth, metrics, routes=others, lifespan=lifespan)
    return House(
        settings, database, feed, auth, endpoints, asgi, housekeeping, crew, liveness, proposals, board, fence, lives,
        execs, demos,
    )  # fmt: skip


def _runtime(settings: Settings) -> Runtime:
    if settings.runtime == "none":
        raise Unavailable("the setting `runtime` is none")
    try:
        tools = Tools.find()
    except NotBuilt as error:
        raise Unavailable(str(error)) from None
    return Native(Boxes(settings.data / SANDBOXES, tools, Ids(settings.uid_base)))


def _measure(metrics: Metrics, database: db.Database, feed: Feed) -> None:
    def gauge(name: str, what: str, value: "object") -> None:
        Gauge(name, what, registry=metrics.registry).set_function(value)  # type: ignore[arg-type]

    gauge("ringfence_events_last", "Number of the newest event.", lambda: feed.last)
    gauge("ringfence_event_subscribers", "Open event streams.", lambda: feed.subscribers)
    gauge("ringfence_writes", "Changes written since the start.", lambda: database.commits)
    gauge("ringfence_write_batches", "Commits they took.", lambda: database.batches)
    gauge("ringfence_writes_waiting", "Changes waiting to be written.", lambda: database.waiting)


__all__ = ["House", "build"]
