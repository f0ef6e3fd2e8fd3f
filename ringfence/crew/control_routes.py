"""What people decide about agents, over HTTP: autonomy, pausing, revoking."""

from typing import NotRequired

from typing_extensions import TypedDict

from ringfence.crew.control import Control
from ringfence.crew.model import Mode, Policy, Status
from ringfence.crew.views import (
    AckBody,
    AllAutonomyBody,
    AutonomyBody,
    Done,
    HistoryQuery,
    PageQuery,
    PauseAllBody,
    PauseBody,
    ResumeAllBody,
    RevocationView,
    RevokeBody,
    revocation_view,
)
from ringfence.kernel.clock import iso
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import NotFound
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing, Page
from ringfence.kernel.http.openapi import Listed


class AutonomyView(TypedDict):
    name: str
    autonomy_mode: Mode
    autonomy_ceiling: Mode


class AllAutonomy(TypedDict):
    mode: Mode
    ceiling: Mode
    agent_type: str | None
    updated_agents: list[str]


class TypePolicy(TypedDict):
    agent_type: str
    mode: Mode
    ceiling: Mode
    set_at: str
    set_by: str


class PolicyView(TypedDict):
    mode: Mode
    ceiling: Mode
    types: list[TypePolicy]


class StatusView(TypedDict):
    name: str
    status: Status


class Paused(TypedDict):
    paused: list[str]


class Resumed(TypedDict):
    resumed: list[str]


class Revoked(TypedDict):
    revocation_id: str
    agent: str
    issued_at: str


class Pending(TypedDict):
    pending: bool
    revocation_id: NotRequired[str]
    reason: NotRequired[str]
    flush_required: NotRequired[bool]
    issued_at: NotRequired[str]


def routes(control: Control) -> Api:
    api = Api("crew")
    _autonomy(api, control)
    _pausing(api, control)
    _revoking(api, control)
    return api


def _autonomy(api: Api, control: Control) -> None:
    @api.route(
        "POST", "/agents/{name}/autonomy", "/api/v1/crew/{name}/autonomy",
        access=Access.ACT, body=AutonomyBody, answers=AutonomyView,
    )  # fmt: skip
    async def set_mode(call: Call[AutonomyBody, Fields]) -> AutonomyView:
        """Set how far an agent goes alone: operators any mode, an agent its own up to its ceiling."""
        agent = await call.write(
            lambda tx: control.set_mode(tx, call.principal, call["name"], call.body.mode, call.body.ceiling)
        )
        return {"name": agent.name, "autonomy_mode": agent.mode, "autonomy_ceiling": agent.ceiling}

    async def set_all(call: Call[AllAutonomyBody, Fields]) -> AllAutonomy:
        """Set how far agents go alone, for those there are and those to come."""
        body = call.body
        kind = body.agent_type or ""
        chosen, names = await call.write(
            lambda tx: control.set_all_modes(tx, call.principal, body.mode, body.ceiling, kind)
        )
        return {"mode": chosen.mode, "ceiling": chosen.ceiling, "agent_type": kind or None, "updated_agents": names}

    api.route("POST", "/autonomy/set-mode", access=Access.STEER, body=AllAutonomyBody, answers=AllAutonomy)(set_all)
    api.route("PUT", "/api/v1/crew/autonomy", access=Access.STEER, body=AllAutonomyBody, answers=AllAutonomy)(set_all)

    @api.route("GET", "/api/v1/crew/autonomy", access=Access.READ, answers=PolicyView)
    async def get_policy(call: Call[Fields, Fields]) -> PolicyView:
        """How far agents to come may go, in general and by type."""
        general = Policy()
        types: list[TypePolicy] = []
        for kind, chosen, set_at, set_by in await call.read(control.policies):
            if kind:
                types.append(
                    {
                        "agent_type": kind,
                        "mode": chosen.mode,
                        "ceiling": chosen.ceiling,
                        "set_at": iso(set_at),
                        "set_by": set_by,
                    }
                )
            else:
                general = chosen
        return {"mode": general.mode, "ceiling": general.ceiling, "types": types}


def _pausing(api: Api, control: Control) -> None:
    @api.route(
        "POST", "/agents/{name}/pause", "/api/v1/crew/{name}/pause",
        access=Access.STEER, body=PauseBody, answers=StatusView,
    )  # fmt: skip
    async def pause(call: Call[PauseBody, Fields]) -> StatusView:
        """Pause an agent, at once: it keeps what it holds, and may do nothing.

        With `freeze: false` only new work stops: it claims nothing, and may end what it has begun.
        """
        body = call.body
        agent = await call.write(
            lambda tx: control.pause(tx, call.principal, call["name"], body.reason, freeze=body.freeze)
        )
        return {"name": agent.name, "status": agent.status}

    @api.route(
        "POST", "/agents/{name}/resume", "/api/v1/crew/{name}/resume",
        access=Access.STEER, body=Nothing, answers=StatusView,
    )  # fmt: skip
    async def resume(call: Call[Nothing, Fields]) -> StatusView:
        """Let a paused agent go on."""
        agent = await call.write(lambda tx: control.resume(tx, call.principal, call["name"]))
        return {"name": agent.name, "status": agent.status}

    @api.route("POST", "/api/v1/crew/pause", access=Access.STEER, body=PauseAllBody, answers=Paused)
    async def pause_all(call: Call[PauseAllBody, Fields]) -> Paused:
        """Pause all agents, or all of a type."""
        body = call.body
        kind = body.agent_type or ""
        names = await call.write(
            lambda tx: control.pause_all(tx, call.principal, body.reason, kind, freeze=body.freeze)
        )
        return {"paused": names}

    @api.route("POST", "/api/v1/crew/resume", access=Access.STEER, body=ResumeAllBody, answers=Resumed)
    async def resume_all(call: Call[ResumeAllBody, Fields]) -> Resumed:
        """Let all paused agents go on, or all of a type; also those that were paused one by one."""
        body = call.body
        kind = body.agent_type or ""
        return {"resumed": await call.write(lambda tx: control.resume_all(tx, call.principal, body.reason, kind))}


def _revoking(api: Api, control: Control) -> None:
    @api.route(
        "POST", "/agents/{name}/revoke", "/api/v1/crew/{name}/revoke",
        access=Access.STEER, body=RevokeBody, answers=Revoked, creates=True,
    )  # fmt: skip
    async def revoke(call: Call[RevokeBody, Fields]) -> Answer:
        """Halt an agent until it acknowledges. With a flush its claims return, and what waits for it is set aside."""
        body = call.body

        def use_case(tx: Transaction) -> Revoked:
            made = control.revoke(tx, call.principal, call["name"], body.reason, flush_required=body.flush_required)
            return {"revocation_id": made.id, "agent": made.agent, "issued_at": iso(made.issued_at)}

        return await call.commit(use_case)

    @api.route(
        "GET", "/agents/{name}/revocation", "/api/v1/crew/{name}/revocation",
        access=Access.READ, answers=Pending, hot=True,
    )  # fmt: skip
    async def pending(call: Call[Fields, Fields]) -> Pending:
        """The directive that waits for an agent: the same at every poll, until it is acknowledged."""
        try:
            revocation = await call.read(lambda tx: control.pending(tx, call.principal, call["name"]))
        except NotFound:
            if not call.at_root:
                raise
            revocation = None  # as the hub says of agents it does not know
        if revocation is None:
            return {"pending": False}
        return {
            "pending": True,
            "revocation_id": revocation.id,
            "reason": revocation.reason,
            "flush_required": revocation.flush_required,
            "issued_at": iso(revocation.issued_at),
        }

    @api.route(
        "POST", "/agents/{name}/revocation/ack", "/api/v1/crew/{name}/revocation/ack",
        access=Access.ACT, body=AckBody, answers=Done,
    )  # fmt: skip
    async def acknowledge(call: Call[AckBody, Fields]) -> Done:
        """The agent has halted. What people paused stays paused."""
        await call.write(lambda tx: control.acknowledge(tx, call.principal, call["name"], call.body.revocation_id))
        return {"status": "ok"}

    @api.route("GET", "/revocation/history", access=Access.READ, query=HistoryQuery, answers=list[RevocationView])
    async def history(call: Call[Fields, HistoryQuery]) -> Answer:
        """The last revocations, oldest first; an agent sees its own."""
        whose = call.principal.name if call.principal.is_agent else ""
        found = await call.read(lambda tx: control.history(tx, whose, "", call.query.limit))
        return Answer([revocation_view(revocation) for revocation in reversed(found)])

    @api.route("GET", "/api/v1/revocations", access=Access.VIEW, query=PageQuery, answers=Listed(RevocationView))
    async def revocations(call: Call[Fields, PageQuery]) -> Page:
        """Revocations of all agents, newest first."""
        return await _page(call, control, "")

    @api.route(
        "GET", "/api/v1/crew/{name}/revocations", access=Access.READ, query=PageQuery, answers=Listed(RevocationView)
    )
    async def revocations_of(call: Call[Fields, PageQuery]) -> Page:
        """Revocations of one agent, newest first; an agent sees its own."""
        if call.principal.is_agent:
            call.principal.acting_for(call["name"])
        return await _page(call, control, call["name"])


async def _page(call: Call[Fields, PageQuery], control: Control, agent: str) -> Page:
    limit = call.query.limit or call.server.settings.page_size
    found = await call.read(lambda tx: control.history(tx, agent, call.query.cursor or "", limit))
    return Page([revocation_view(one) for one in found], found[-1].id if len(found) == limit else None)
