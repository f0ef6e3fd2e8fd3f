"""Agents, proposals and messages: what agents and operators see alike."""

from ringfence.sdk.asking import Asking
from ringfence.sdk.board import V1
from ringfence.sdk.calls import given, path
from ringfence.sdk.errors import Conflict
from ringfence.sdk.steps import Steps, operation
from ringfence.sdk.views import (
    Agent,
    AgentDetail,
    Checkpoint,
    Graph,
    Matched,
    Message,
    MessageDetail,
    Profile,
    Proposal,
    Thread,
)


class Crew(Asking):
    @operation
    def list_agents(
        self,
        *,
        status: str | None = None,
        type: str | None = None,
        capability: str | None = None,
        limit: int | None = None,
    ) -> Steps[list[Agent]]:
        return self._list(path(*V1, "crew"), Agent, limit, status=status, type=type, capability=capability)

    @operation
    def get_agent(self, agent: str | None = None) -> Steps[AgentDetail]:
        return self._get(path(*V1, "crew", self._whom(agent)), AgentDetail)

    @operation
    def list_capabilities(self) -> Steps[list[Profile]]:
        """What each agent can do."""
        return self._list(path(*V1, "capabilities"), Profile)

    @operation
    def match_capability(self, tag: str) -> Steps[list[str]]:
        """The agents that have a capability."""
        matched = yield from self._get(path("capabilities", "match"), Matched, tag=tag)
        return matched["agents"]

    @operation
    def get_checkpoint(self, agent: str | None = None) -> Steps[Checkpoint]:
        """The latest checkpoint; `NotFound` when there is none yet."""
        return self._get(path(*V1, "crew", self._whom(agent), "checkpoint"), Checkpoint)

    @operation
    def checkpoints(self, agent: str | None = None, *, limit: int | None = None) -> Steps[list[Checkpoint]]:
        return self._list(path(*V1, "crew", self._whom(agent), "checkpoints"), Checkpoint, limit)

    # Proposals ------------------------------------------------------------------------------------------------------

    @operation
    def proposals(
        self,
        state: str | None = "pending",
        *,
        agent: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> Steps[list[Proposal]]:
        """What waits for approval (state None: what was decided, too); an agent sees its own."""
        return self._list(path(*V1, "proposals"), Proposal, limit, state=state, agent=agent, project=project)

    @operation
    def get_proposal(self, proposal_id: str) -> Steps[Proposal]:
        return self._get(path(*V1, "proposals", proposal_id), Proposal)

    def _decide(self, proposal_id: str, how: str, becomes: str, note: str | None = None) -> Steps[Proposal]:
        """What is decided is decided once, so a repeat looks whether the lost try had decided it."""
        where = path(*V1, "proposals", proposal_id)
        try:
            return (yield from self._change("POST", f"{where}/{how}", Proposal, given(note=note)))
        except Conflict as error:
            if not error.repeated or error.code != "proposal_decided" or error.details.get("state") != becomes:
                raise
            return (yield from self._get(where, Proposal))


class Messages(Asking):
    @operation
    def send_message(
        self,
        to: str,
        content: str,
        message_type: str = "text",
        *,
        thread: str | None = None,
        reply_to: str | None = None,
        expires_in: float | None = None,
    ) -> Steps[Message]:
        """Send a message to an agent or a person; one that answers another (`reply_to`) joins its thread."""
        return self._create(
            path(*V1, "messages"), Message,
            **{"from": self._acting}, to=to, content=content, type=message_type,
            thread=thread, reply_to=reply_to, expires_in=expires_in,
        )  # fmt: skip

    @operation
    def broadcast(self, content: str, message_type: str = "text", *, thread: str | None = None) -> Steps[Message]:
        """Send a message to every agent there is now."""
        return self._create(
            path(*V1, "messages"), Message,
            **{"from": self._acting}, to="*", content=content, type=message_type, thread=thread,
        )  # fmt: skip

    @operation
    def get_message(self, message_id: str) -> Steps[MessageDetail]:
        """A message, and what became of it."""
        return self._get(path(*V1, "messages", message_id), MessageDetail)

    @operation
    def history(self, other: str, agent: str | None = None, *, limit: int | None = 50) -> Steps[list[Message]]:
        """What `other` and an agent, yourself when not named, sent each other, newest first."""
        return self._list(path(*V1, "messages", "history", self._whom(agent), other), Message, limit)

    @operation
    def threads(self, *, limit: int | None = None) -> Steps[list[Thread]]:
        return self._list(path(*V1, "threads"), Thread, limit)

    @operation
    def thread(self, thread_id: str, *, limit: int | None = None) -> Steps[list[Message]]:
        """A thread's messages, oldest first."""
        return self._list(path(*V1, "threads", thread_id), Message, limit)

    @operation
    def graph(self) -> Steps[Graph]:
        """Who wrote to whom, and how often."""
        return self._get(path("messages", "graph"), Graph)
