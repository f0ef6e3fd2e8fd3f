"""Checkpoints over HTTP."""

import asyncio

from typing_extensions import TypedDict

from ringfence.crew.checkpoints import NEWEST, Checkpoints
from ringfence.crew.views import CheckpointBody, CheckpointView, NumberedQuery, checkpoint_view
from ringfence.kernel.clock import iso
from ringfence.kernel.database import Transaction
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Page
from ringfence.kernel.http.openapi import Listed


class Submitted(TypedDict):
    id: str
    sequence: int
    timestamp: str


def routes(checkpoints: Checkpoints) -> Api:
    api = Api("crew")

    @api.route(
        "POST", "/agents/{name}/checkpoint", "/api/v1/crew/{name}/checkpoint",
        access=Access.ACT, body=CheckpointBody, answers=Submitted, creates=True,
    )  # fmt: skip
    async def submit(call: Call[CheckpointBody, Fields]) -> Answer:
        """Say what an agent is doing, and why. It is no longer stalled."""
        body = call.body
        await asyncio.to_thread(
            checkpoints.check_links, call["name"], body.task_id, body.state, body.rationale, body.metadata
        )

        def use_case(tx: Transaction) -> Submitted:
            made = checkpoints.submit(
                tx, call.principal, call["name"],
                task_id=body.task_id, state=body.state, rationale=body.rationale, metadata=body.metadata,
            )  # fmt: skip
            return {"id": made.id, "sequence": made.sequence, "timestamp": iso(made.submitted_at)}

        return await call.commit(use_case)

    @api.route(
        "GET", "/agents/{name}/checkpoint", "/api/v1/crew/{name}/checkpoint",
        access=Access.READ, answers=CheckpointView,
    )  # fmt: skip
    async def latest(call: Call[Fields, Fields]) -> CheckpointView:
        """An agent's latest checkpoint; an agent sees its own."""
        return checkpoint_view(await call.read(lambda tx: checkpoints.latest(tx, call.principal, call["name"])))

    @api.route(
        "GET", "/api/v1/crew/{name}/checkpoints",
        access=Access.READ, query=NumberedQuery, answers=Listed(CheckpointView),
    )  # fmt: skip
    async def history(call: Call[Fields, NumberedQuery]) -> Page:
        """An agent's checkpoints, newest first; also of an agent that is gone."""
        limit = call.query.limit or call.server.settings.page_size
        cursor = NEWEST if call.query.cursor is None else int(call.query.cursor)
        found = await call.read(lambda tx: checkpoints.history(tx, call.principal, call["name"], cursor, limit))
        return Page([checkpoint_view(one) for one in found], str(found[-1].sequence) if len(found) == limit else None)

    return api
