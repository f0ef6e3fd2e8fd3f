"""Agents over HTTP: registering, signs of life, capabilities, the roster."""

from typing import Any

from ringfence.crew.service import Crew, Registration
from ringfence.crew.views import (
    AgentDetail,
    AgentsQuery,
    AgentView,
    CapabilitiesBody,
    Done,
    Matched,
    MatchQuery,
    PageQuery,
    Profile,
    PulseView,
    RegisterBody,
    Registered,
    Tagged,
    agent_detail,
    agent_view,
    profile,
    pulse_view,
    registered,
)
from ringfence.kernel.errors import Invalid
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Nothing, Page
from ringfence.kernel.http.openapi import Listed

AT_ROOT = 1000  # the hub's clients expect the whole list; what is beyond is in the Link header


def page_size(call: Call[Any, Any], limit: int | None) -> int:
    return limit or (call.server.settings.page_size if not call.at_root else AT_ROOT)


def routes(crew: Crew) -> Api:
    api = Api("crew")

    @api.route(
        "POST", "/agents/register", "/api/v1/crew",
        access=Access.ENROL, body=RegisterBody, answers=Registered, status=201,
    )  # fmt: skip
    async def register(call: Call[RegisterBody, Fields]) -> Answer:
        """Register an agent, or register it again.

        With an operator's token, an enrolment token, or the agent's own. The answer holds the agent's token, unless it
        came with its own. Registering again lifts no pause, no revocation, no mode and no ceiling.
        """
        body = call.body
        wanted = Registration(
            name=body.name, type=body.type, metadata=body.metadata, mode=body.autonomy_mode,
            capabilities=body.capabilities, scopes=tuple(body.scopes),
        )  # fmt: skip
        return await call.commit(lambda tx: registered(*crew.register(tx, call.principal, wanted, call.seed)))

    @api.route(
        "POST", "/agents/{name}/heartbeat", "/api/v1/crew/{name}/heartbeat",
        access=Access.ACT, body=Nothing, answers=PulseView, hot=True,
    )  # fmt: skip
    async def heartbeat(call: Call[Nothing, Fields]) -> PulseView:
        """A sign of life. The answer says whether a checkpoint is due, and whether people paused or revoked you."""
        return pulse_view(await call.write(lambda tx: crew.heartbeat(tx, call.principal, call["name"])))

    @api.route("DELETE", "/agents/{name}", "/api/v1/crew/{name}", access=Access.ACT, answers=Done)
    async def unregister(call: Call[Fields, Fields]) -> Done:
        """Take an agent off the roster: its claims return, its tokens end."""
        await call.write(lambda tx: crew.unregister(tx, call.principal, call["name"]))
        return {"status": "ok"}

    @api.route("GET", "/agents", "/api/v1/crew", access=Access.READ, query=AgentsQuery, answers=Listed(AgentView))
    async def list_agents(call: Call[Fields, AgentsQuery]) -> Page:
        """The agents, by name."""
        query = call.query
        limit = page_size(call, query.limit)
        found = await call.read(
            lambda tx: crew.page(
                tx, query.cursor or "", limit,
                status=query.status or "", type=query.type or "", capability=query.capability or "",
            )
        )  # fmt: skip
        return Page([agent_view(agent) for agent in found], found[-1].name if len(found) == limit else None)

    @api.route("GET", "/api/v1/crew/{name}", access=Access.READ, answers=AgentDetail)
    async def get_agent(call: Call[Fields, Fields]) -> AgentDetail:
        """One agent, with its metadata."""
        return agent_detail(await call.read(lambda tx: crew.agent(tx, call["name"])))

    @api.route(
        "POST", "/agents/{name}/capabilities", "/api/v1/crew/{name}/capabilities",
        access=Access.ACT, body=CapabilitiesBody, answers=Tagged,
    )  # fmt: skip
    async def set_capabilities(call: Call[CapabilitiesBody, Fields]) -> Tagged:
        """Say what an agent can do."""
        body = call.body
        tags = await call.write(
            lambda tx: crew.set_capabilities(tx, call.principal, call["name"], body.tags, body.description)
        )
        return {"name": call["name"], "tags": list(tags)}

    @api.route(
        "GET", "/capabilities", "/api/v1/capabilities", access=Access.READ, query=PageQuery, answers=Listed(Profile)
    )
    async def list_capabilities(call: Call[Fields, PageQuery]) -> Page:
        """What each agent can do: its tags in lower case, each once."""
        limit = page_size(call, call.query.limit)
        found = await call.read(lambda tx: crew.page(tx, call.query.cursor or "", limit))
        return Page([profile(agent) for agent in found], found[-1].name if len(found) == limit else None)

    @api.route(
        "GET", "/capabilities/match", "/api/v1/capabilities/match",
        access=Access.READ, query=MatchQuery, answers=Matched,
    )  # fmt: skip
    async def match(call: Call[Fields, MatchQuery]) -> Matched:
        """The agents that have a capability; upper and lower case are the same."""
        tag = call.query.tag
        if not tag.strip():
            raise Invalid("tag required")
        return {"tag": tag, "agents": await call.read(lambda tx: crew.able(tx, tag))}

    return api
