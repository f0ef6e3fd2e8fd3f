"""Sandboxes over HTTP: their lives, snapshots and images. What runs in them is the room `sessions`'."""

from pathlib import Path
from typing import Any

from ringfence.fence import views
from ringfence.fence.incoming import Incoming
from ringfence.fence.lives import Lives
from ringfence.fence.model import Action, Sandbox
from ringfence.fence.service import Fence
from ringfence.kernel.auth.model import Role
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden
from ringfence.kernel.events.model import Event
from ringfence.kernel.events.service import Wanted, page
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing, Page
from ringfence.kernel.http.openapi import Listed
from ringfence.settings import Settings

ALL = "/api/v1/sandboxes"
ONE = f"{ALL}/{{sandbox}}"
SNAPSHOTS = "/api/v1/snapshots"
IMAGES = "/api/v1/images"


def routes(fence: Fence, lives: Lives, incoming: Incoming, settings: Settings) -> Api:
    api = Api("sandboxes")

    @api.route(
        "POST", ALL, access=Access.STEER, body=views.NewSandbox, answers=views.SandboxView, status=201,
        also={202: views.SandboxView},
    )  # fmt: skip
    async def create(call: Call[views.NewSandbox, Fields]) -> Answer:
        """Create a sandbox, and start it.

        Answered when its warden has greeted; with `wait: false` at once. Limits that are asked for are held up, or
        refused (422) with the way to enable them, unless `best_effort`."""
        await lives.ready()
        by, wish = call.principal, call.body.wish()
        answer = await call.commit(lambda tx: views.sandbox_view(fence.create(tx, by, wish)))
        made: Any = answer.body
        if not call.body.wait:
            lives.settle(made["id"], by.actor)
            return Answer(made, 202, answer.headers)
        sandbox = await lives.begun(made["id"], by.actor)
        return Answer(views.sandbox_view(sandbox), 201, answer.headers)

    @api.route("GET", ALL, access=Access.READ, query=views.SandboxesQuery, answers=Listed(views.SandboxView))
    async def list_sandboxes(call: Call[Fields, views.SandboxesQuery]) -> Page:
        """The sandboxes you may see, newest first; destroyed ones when they are asked for."""
        query = call.query
        limit = query.limit or settings.page_size
        found = await call.read(
            lambda tx: fence.page(
                tx, call.principal, query.cursor or "", limit, filters=query.filters(), labels=query.labels()
            )
        )
        return Page([views.sandbox_view(each) for each in found], found[-1].id if len(found) == limit else None)

    @api.route("GET", ONE, access=Access.READ, answers=views.SandboxView)
    async def show(call: Call[Fields, Fields]) -> views.SandboxView:
        """One sandbox, by its id or name."""
        return views.sandbox_view(await call.read(lambda tx: fence.find(tx, call.principal, call["sandbox"])))

    @api.route("PATCH", ONE, access=Access.STEER, body=views.SandboxChange, answers=views.SandboxView)
    async def change(call: Call[views.SandboxChange, Fields]) -> Answer:
        """Change its name, labels, time to live or idle timeout."""
        body = call.body
        return await call.commit(
            lambda tx: views.sandbox_view(
                fence.change(
                    tx, call.principal, call["sandbox"],
                    name=body.name, labels=body.labels, ttl=body.ttl, idle_timeout=body.idle_timeout,
                )
            )
        )  # fmt: skip

    async def acted(call: Call[Any, Any], action: Action, grace: float = 0) -> views.SandboxView:
        return views.sandbox_view(await lives.act(call.principal, call["sandbox"], action, grace))

    async def acted_once(call: Call[Any, Any], action: Action, grace: float = 0) -> Answer:
        if (answered := await call.answered()) is not None:
            return answered
        view = await acted(call, action, grace)
        return await call.commit(lambda tx: view)

    def grace_of(call: Call[views.StopBody, Fields]) -> float:
        return settings.sandbox_grace if call.body.grace is None else call.body.grace

    @api.route("DELETE", ONE, access=Access.STEER, answers=views.SandboxView)
    async def destroy(call: Call[Fields, Fields]) -> views.SandboxView:
        """End it at once, and remove its files."""
        return await acted(call, Action.DESTROY)

    @api.route("POST", f"{ONE}/start", access=Access.STEER, body=Nothing, answers=views.SandboxView)
    async def start(call: Call[Nothing, Fields]) -> views.SandboxView:
        """Start it again, with its files."""
        return await acted(call, Action.START)

    @api.route("POST", f"{ONE}/stop", access=Access.STEER, body=views.StopBody, answers=views.SandboxView)
    async def stop(call: Call[views.StopBody, Fields]) -> views.SandboxView:
        """End what runs in it: SIGTERM, a grace, then everything. Its files stay."""
        return await acted(call, Action.STOP, grace_of(call))

    @api.route(
        "POST", f"{ONE}/restart", access=Access.STEER, body=views.StopBody, answers=views.SandboxView, creates=True
    )
    async def restart(call: Call[views.StopBody, Fields]) -> Answer:
        """Stop it, and start it again."""
        return await acted_once(call, Action.RESTART, grace_of(call))

    @api.route("POST", f"{ONE}/pause", access=Access.STEER, body=Nothing, answers=views.SandboxView)
    async def pause(call: Call[Nothing, Fields]) -> views.SandboxView:
        """Freeze everything in it, where it stands."""
        return await acted(call, Action.PAUSE)

    @api.route("POST", f"{ONE}/resume", access=Access.STEER, body=Nothing, answers=views.SandboxView)
    async def resume(call: Call[Nothing, Fields]) -> views.SandboxView:
        """Let it go on where it stood."""
        return await acted(call, Action.RESUME)

    @api.route("POST", f"{ONE}/recreate", access=Access.STEER, body=Nothing, answers=views.SandboxView, creates=True)
    async def recreate(call: Call[Nothing, Fields]) -> Answer:
        """Make it anew from its image or snapshot: its files are gone, its id, name and limits stay."""
        return await acted_once(call, Action.RECREATE)

    @api.route("GET", f"{ONE}/logs", access=Access.READ, query=views.LogsQuery, answers=views.LogsView)
    async def logs(call: Call[Fields, views.LogsQuery]) -> views.LogsView:
        """What happened to it, oldest first, and what its warden said last."""

        def find(tx: Transaction) -> tuple[Sandbox, list[Event]]:
            sandbox = fence.find(tx, call.principal, call["sandbox"])
            found, _ = page(tx, Wanted({"subject": sandbox.id}), None, call.query.limit, newest_first=True)
            return sandbox, found

        sandbox, events = await call.read(find)
        seen = [views.life_event(event) for event in reversed(events) if not event.kind.startswith("refused")]
        return {"events": seen, "said": (await lives.said(sandbox)).decode("utf-8", "replace")}

    @api.route("GET", f"{ONE}/stats", access=Access.READ, answers=views.StatsView)
    async def stats(call: Call[Fields, Fields]) -> views.StatsView:
        """What it uses now; null: this host does not say."""
        sandbox = await call.read(lambda tx: fence.find(tx, call.principal, call["sandbox"]))
        return views.stats_view(sandbox, await lives.stats(sandbox))

    @api.route(
        "POST", f"{ONE}/snapshots", access=Access.STEER, body=views.SnapshotBody, answers=views.SnapshotView,
        status=201,
    )  # fmt: skip
    async def take_snapshot(call: Call[views.SnapshotBody, Fields]) -> Answer:
        """Keep its files as they are now; a running sandbox stands still meanwhile."""
        if (answered := await call.answered()) is not None:
            return answered
        taken = await lives.take_snapshot(call.principal, call["sandbox"], call.body.name)
        return await call.commit(lambda tx: views.snapshot_view(taken))

    @api.route("GET", SNAPSHOTS, access=Access.VIEW, query=views.PageQuery, answers=Listed(views.SnapshotView))
    async def list_snapshots(call: Call[Fields, views.PageQuery]) -> Page:
        """The snapshots you may see, newest first."""
        limit = call.query.limit or settings.page_size
        found = await call.read(lambda tx: fence.snapshots(tx, call.principal, call.query.cursor or "", limit))
        return Page([views.snapshot_view(each) for each in found], found[-1].id if len(found) == limit else None)

    @api.route("GET", f"{SNAPSHOTS}/{{snapshot}}", access=Access.VIEW, answers=views.SnapshotView)
    async def show_snapshot(call: Call[Fields, Fields]) -> views.SnapshotView:
        """One snapshot, by its id or name."""
        return views.snapshot_view(await call.read(lambda tx: fence.snapshot(tx, call.principal, call["snapshot"])))

    @api.route("DELETE", f"{SNAPSHOTS}/{{snapshot}}", access=Access.STEER, answers=views.SnapshotView)
    async def remove_snapshot(call: Call[Fields, Fields]) -> views.SnapshotView:
        """Remove a snapshot that no sandbox begins with."""
        return views.snapshot_view(await lives.remove_snapshot(call.principal, call["snapshot"]))

    @api.route(
        "POST", IMAGES, access=Access.STEER, query=views.NewImageQuery, answers=views.ImageView, status=201, raw=True
    )
    async def import_image(call: Call[Fields, views.NewImageQuery]) -> Answer:
        """Import an image: the body is a root filesystem as tar, an OCI layout as tar, or what `docker save` writes.

        Also compressed by gzip or xz. Layers are kept once, whatever images have them."""
        if (answered := await call.answered()) is not None:
            return answered
        by, query = call.principal, call.query
        await call.read(lambda tx: fence.check_import(tx, by, query.name))
        if query.path is not None and not by.may(Role.ADMIN):
            raise Forbidden("naming files of the server's host is for admins: send the archive instead", code="role")
        await lives.ready()
        most = settings.max_image
        async with (
            incoming.received(call.request.stream(), most)
            if query.path is None
            else incoming.named(Path(query.path), most)
        ) as archive:
            imported = await lives.import_image(by, query.name, archive)
        return await call.commit(lambda tx: views.image_view(imported))

    @api.route("GET", IMAGES, access=Access.VIEW, query=views.ImagesQuery, answers=Listed(views.ImageView))
    async def list_images(call: Call[Fields, views.ImagesQuery]) -> Page:
        """The images on this host, by name; beside them there is always `host`."""
        limit = call.query.limit or settings.page_size
        found = await call.read(lambda tx: fence.images(tx, call.query.cursor or "", limit))
        return Page([views.image_view(each) for each in found], found[-1].image.name if len(found) == limit else None)

    @api.route("POST", f"{IMAGES}/prune", access=Access.CONFIGURE, body=Nothing, answers=views.PrunedView)
    async def prune_images(call: Call[Nothing, Fields]) -> views.PrunedView:
        """Remove every image that no sandbox and no snapshot is made of."""
        return {"removed": [views.image_view(each) for each in await lives.prune_images(call.principal)]}

    @api.route("GET", f"{IMAGES}/{{image}}", access=Access.VIEW, answers=views.ImageView)
    async def show_image(call: Call[Fields, Fields]) -> views.ImageView:
        """One image, with its layers and what it says of programs."""
        return views.image_view(await call.read(lambda tx: fence.image(tx, call["image"])))

    @api.route("DELETE", f"{IMAGES}/{{image}}", access=Access.STEER, answers=views.ImageView)
    async def remove_image(call: Call[Fields, Fields]) -> views.ImageView:
        """Remove an image that no sandbox and no snapshot is made of, with the layers that nothing else needs."""
        return views.image_view(await lives.remove_image(call.principal, call["image"]))

    return api
