"""The demo over HTTP."""

import asyncio

from typing_extensions import TypedDict

from ringfence.board.files import Blobs
from ringfence.demo.model import Demo
from ringfence.demo.service import Demos
from ringfence.kernel.clock import iso
from ringfence.kernel.database import Transaction
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing


class DemoView(TypedDict):
    present: bool
    living: bool
    project: str | None
    agents: list[str]
    started_at: str | None
    started_by: str | None
    lives_until: str | None


class Removed(TypedDict):
    status: str


NONE: DemoView = {
    "present": False,
    "living": False,
    "project": None,
    "agents": [],
    "started_at": None,
    "started_by": None,
    "lives_until": None,
}


def view(demo: Demo | None, now: int) -> DemoView:
    if demo is None:
        return NONE
    return {
        "present": True,
        "living": now < demo.lives_until,
        "project": demo.project,
        "agents": list(demo.agents),
        "started_at": iso(demo.started_at),
        "started_by": demo.started_by,
        "lives_until": iso(demo.lives_until),
    }


def routes(demos: Demos, blobs: Blobs) -> Api:
    api = Api("demo")
    path = "/api/v1/demo"

    @api.route("GET", path, access=Access.VIEW, answers=DemoView)
    async def find(call: Call[Fields, Fields]) -> DemoView:
        """Whether there is a demo, and whether its agents move."""
        return await call.read(lambda tx: view(demos.find(tx, call.principal), tx.now))

    @api.route("POST", path, access=Access.STEER, body=Nothing, answers=DemoView, status=201)
    async def start(call: Call[Fields, Fields]) -> Answer:
        """Make the demo: a project whose agents work by themselves for 15 minutes. If there is one, it goes on."""

        def make(tx: Transaction) -> DemoView:
            return view(demos.start(tx, call.principal), tx.now)

        return await call.commit(make)

    @api.route("DELETE", path, access=Access.STEER, answers=Removed)
    async def remove(call: Call[Fields, Fields]) -> Removed:
        """Remove the demo: its project, agents, messages and proposals. The events stay."""
        unused = await call.write(lambda tx: demos.remove(tx, call.principal))
        await asyncio.to_thread(blobs.remove, unused)
        return {"status": "ok"}

    return api
