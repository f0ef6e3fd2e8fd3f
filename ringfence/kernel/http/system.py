"""The server about itself: is it there, is it ready, how is it doing, what can be asked."""

import html
import os
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from typing_extensions import TypedDict

import ringfence
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Database
from ringfence.kernel.errors import RingfenceError
from ringfence.kernel.events.service import Feed
from ringfence.kernel.http.application import Metrics
from ringfence.kernel.http.endpoint import Access, Api, Call, Endpoint, Fields
from ringfence.kernel.http.openapi import document
from ringfence.settings import Settings


class Ok(TypedDict):
    status: str


class Ready(TypedDict):
    status: str
    database: str
    disk: str
    version: str


class Setting(TypedDict):
    name: str
    value: Any
    default: Any
    description: str


def routes(
    database: Database,
    feed: Feed,
    settings: Settings,
    metrics: Metrics,
    endpoints: list[Endpoint],
    *,
    page: str | None,
) -> Api:
    """`page` is where the dashboard lives, when there is one."""
    api = Api("system")
    documents: list[dict[str, Any]] = []

    @api.route("GET", "/ping", access=Access.OPEN, answers=Ok, hot=True)
    @api.route("POST", "/ping", access=Access.OPEN, answers=Ok, hot=True)
    async def ping(call: Call[Fields, Fields]) -> Ok:
        """Whether the server answers."""
        return {"status": "ok"}

    @api.route("GET", "/healthz", access=Access.OPEN, answers=Ok)
    async def healthz(call: Call[Fields, Fields]) -> Ok:
        """Whether the process lives."""
        return {"status": "ok"}

    @api.route("GET", "/readyz", access=Access.OPEN, answers=Ready)
    async def readyz(call: Call[Fields, Fields]) -> Response:
        """Whether requests can be served: the database can be read and written.

        With a `disk` that is `full` what is there is served, and changes are refused."""
        try:
            await database.read(lambda tx: None)
            await database.write(lambda tx: None)
            state = "draining" if feed.closing else "ok"
        except RingfenceError as error:
            state = error.code
        answer: Ready = {
            "status": "ok" if state == "ok" else "not ready",
            "database": state,
            "disk": "ok" if _has_room(settings.data) else "full",
            "version": ringfence.__version__,
        }
        return JSONResponse(answer, 200 if state == "ok" else 503)

    @api.route("GET", "/metrics", access=Access.VIEW, media="text/plain")
    async def metrics_page(call: Call[Fields, Fields]) -> Response:
        """Figures for Prometheus."""
        return Response(generate_latest(metrics.registry), headers={"content-type": CONTENT_TYPE_LATEST})

    @api.route("GET", "/openapi.json", access=Access.OPEN)
    async def openapi(call: Call[Fields, Fields]) -> dict[str, Any]:
        """This document."""
        if not documents:
            documents.append(document(endpoints))
        return documents[0]

    @api.route("GET", "/api/v1/config", access=Access.CONFIGURE, answers=list[Setting])
    async def config(call: Call[Fields, Fields]) -> list[Setting]:
        """The settings in force, and what each means."""
        return [
            {
                "name": name,
                "value": _shown(name, getattr(settings, name)),
                "default": None if field.is_required() else _shown(name, field.default),
                "description": field.description or "",
            }
            for name, field in Settings.model_fields.items()
        ]

    @api.route("GET", "/", access=Access.OPEN, media="text/html", also={303: None})
    async def front(call: Call[Fields, Fields]) -> Response:
        """To the dashboard; where it is not built, a page that says what runs here and how to sign in."""
        if page is not None:
            return RedirectResponse(page, 303)
        return HTMLResponse(
            front_page(call.principal),
            headers={
                "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
                "referrer-policy": "no-referrer",
                "cache-control": "no-store",
            },
        )

    return api


def _has_room(data: Path) -> bool:
    """Whether the disk takes another mebibyte: changes are refused before the last block is taken."""
    disk = os.statvfs(data)
    free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail  # some blocks are kept for root
    return free * disk.f_frsize >= 1 << 20 or disk.f_blocks == 0  # filesystems there are that do not say


def _shown(name: str, value: object) -> Any:
    if name == "database" and value:
        return "postgresql://…"  # it may hold a password
    return (
        list(value)
        if isinstance(value, tuple)
        else str(value)
        if value is not None and not isinstance(value, int | float)
        else value
    )


def front_page(principal: Principal) -> str:
    if principal.name == "nobody":
        who = (
            "<p>You are not signed in. On the machine that runs Ringfence:</p>"
            "<pre>ringfence login --link</pre><p>prints a link that signs this browser in, once.</p>"
        )
    else:
        role = html.escape(str(principal.role or principal.kind))
        who = f"<p>Signed in as <b>{html.escape(principal.name)}</b> ({role}).</p>"
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Ringfence</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 38rem; margin: 12vh auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.8rem; margin-bottom: .2rem; }} p {{ margin: .6rem 0; }} .dim {{ opacity: .7; }}
pre {{ padding: .8rem 1rem; border-radius: .5rem; background: rgba(127,127,127,.15); overflow-x: auto; }}
</style>
<h1>Ringfence</h1>
<p class="dim">A workplace for autonomous coding agents. Version {html.escape(ringfence.__version__)} is running.</p>
{who}
<p>The HTTP interface is described by <a href="/openapi.json">/openapi.json</a>; changes are streamed at
<code>/events</code>; <code>ringfence --help</code> shows the commands.</p>
</html>"""
