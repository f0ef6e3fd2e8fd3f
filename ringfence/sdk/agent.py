"""What an agent does as itself: register, live, report, and deal with its messages."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ringfence.sdk import identity
from ringfence.sdk.board import V1, Projects, Tasks
from ringfence.sdk.calls import Call, Json, Repeat, given, path
from ringfence.sdk.crew import Crew, Messages
from ringfence.sdk.errors import (
    Conflict,
    NotFound,
    NotRegistered,
    Refused,
    RingfenceError,
    ServerError,
    Unauthenticated,
    Unreachable,
)
from ringfence.sdk.inbox import Fate, Inbox
from ringfence.sdk.retrying import perform
from ringfence.sdk.sandboxes import SeesSandboxes
from ringfence.sdk.steps import Steps, Tell, Wait, operation
from ringfence.sdk.views import (
    Done,
    Heartbeat,
    Message,
    Mode,
    NonePending,
    Pending,
    Proposal,
    Registered,
    Submitted,
    Tagged,
    TaskItem,
)

Handler = Callable[[Message], object] | Callable[[dict[str, Any]], object]
Metadata = Mapping[str, Any]

log = logging.getLogger("ringfence.sdk")


class AgentOperations(Projects, Tasks, Crew, Messages, SeesSandboxes):
    hub_url: str
    agent_name: str
    agent_type: str

    _identity: identity.Identity
    _inbox: Inbox
    _tags: list[str] | None = None  # as set here, so that registering again does not lose them

    @property
    def _me(self) -> str:
        return path("agents", self.agent_name)

    # Registering ----------------------------------------------------------------------------------------------------

    @operation
    def register(self, metadata: Metadata | None = None) -> Steps[Registered]:
        """Register this agent, or register it again: pause, revocation and mode stay as people left them."""
        return self._register(metadata)

    @operation
    def ensure_registered(self, metadata: Metadata | None = None) -> Steps[bool]:
        """Register this agent unless it is; False when that is refused, or the server cannot be reached."""
        try:
            yield from self._ensure_registered(metadata)
        except (Refused, NotFound, ServerError, Unreachable) as error:
            log.warning("%s is not registered: %s", self.agent_name, error)
            return False
        return True

    def _ensure_registered(self, metadata: Metadata | None) -> Steps[None]:
        if self._identity.is_agent:
            try:
                yield from self._heartbeat()
                return
            except (NotFound, Unauthenticated):
                pass
        yield from self._register(metadata)

    def _register(self, metadata: Metadata | None) -> Steps[Registered]:
        """With the first token that the server takes."""
        wanted = given(name=self.agent_name, type=self.agent_type, metadata=metadata, capabilities=self._tags)
        call = Call(
            method="POST", path="/agents/register", reads=Json(Registered), body=wanted, repeat=Repeat.KEYED
        )  # fmt: skip
        refused: Unauthenticated | None = None
        for token in self._identity.for_registering:
            try:
                registered = yield from perform(call, lambda token=token: identity.header(token), self._patience)  # type: ignore[misc]
            except Unauthenticated as error:
                refused = refused or error
            except Conflict as error:
                if error.code != "agent_exists" or not self._identity.learn():
                    raise
                return (yield from self._register(metadata))
            else:
                self._identity.registered(token, registered.get("token"))
                return registered
        assert refused is not None
        raise refused

    @operation
    def unregister(self) -> Steps[bool]:
        """Leave: what was claimed returns to the queue, and this agent's token ends."""
        try:
            yield from self._remove(self._me, Done)
        except (Refused, NotFound, NotRegistered, ServerError, Unreachable) as error:
            log.warning("%s is not unregistered: %s", self.agent_name, error)
            return False
        self._identity.unregistered()
        return True

    @operation
    def heartbeat(self) -> Steps[bool]:
        """Give a sign of life; False when it did not arrive, or is of an agent that the server does not know."""
        try:
            yield from self._heartbeat()
        except (Refused, NotFound, NotRegistered, ServerError, Unreachable) as error:
            log.warning("no heartbeat of %s: %s", self.agent_name, error)
            return False
        return True

    @operation
    def heartbeat_info(self) -> Steps[Heartbeat]:
        """Give a sign of life, and hear what the server has to say: a checkpoint is due, a pause, a revocation."""
        return self._heartbeat()

    def _heartbeat(self, *, patient: bool = True) -> Steps[Heartbeat]:
        where = f"{self._me}/heartbeat"
        return self._ask(Call(method="POST", path=where, reads=Json(Heartbeat), patient=patient))

    # Itself ---------------------------------------------------------------------------------------------------------

    @operation
    def set_autonomy_mode(self, mode: str) -> Steps[Mode]:
        """fully_autonomous, advisory or manual; no further than the ceiling that operators gave this agent."""
        return self._change("POST", f"{self._me}/autonomy", Mode, {"mode": mode})

    @operation
    def set_capabilities(self, tags: Iterable[str] | str, description: str = "") -> Steps[Tagged]:
        """Say what this agent can do: a list, or a text with commas."""
        wanted = tags if isinstance(tags, str) else list(tags)
        tagged = yield from self._change(
            "POST", f"{self._me}/capabilities", Tagged, {"tags": wanted, "description": description}
        )
        self._tags = tagged["tags"]
        return tagged

    @operation
    def submit_checkpoint(
        self, task_id: str | None = None, state: str = "", rationale: str = "", metadata: Metadata | None = None
    ) -> Steps[Submitted]:
        """Say where the work stands; the server expects it every few heartbeats (`heartbeat_info`)."""
        wanted = given(task_id=task_id, state=state, rationale=rationale, metadata=metadata)
        return self._create(f"{self._me}/checkpoint", Submitted, **wanted)

    @operation
    def get_my_tasks(self, project_id: str | None = None) -> Steps[list[TaskItem]]:
        """What is assigned to this agent, or claimed by it."""
        return self._list(path("tasks"), TaskItem, agent=self.agent_name, project_id=project_id)

    @operation
    def check_revocation(self) -> Steps[Pending | NonePending]:
        """Whether an operator revoked this agent; told until it is acknowledged."""
        steps: Steps[Pending | NonePending] = self._get(f"{self._me}/revocation", Pending)
        return steps

    @operation
    def acknowledge_revocation(self, revocation_id: str) -> Steps[bool]:
        """Say that this agent has halted, so that it may begin again."""
        return self._acknowledge_revocation(revocation_id)

    def _acknowledge_revocation(self, revocation_id: str) -> Steps[bool]:
        return self._agreed(self._change("POST", f"{self._me}/revocation/ack", Done, {"revocation_id": revocation_id}))

    @operation
    def withdraw_proposal(self, proposal_id: str) -> Steps[Proposal]:
        return self._decide(proposal_id, "withdraw", "withdrawn")

    @operation
    def wait_for_decision(
        self, proposal_id: str, timeout_seconds: float = 300.0, poll_interval: float = 2.0
    ) -> Steps[Proposal]:
        """Wait until a person has decided; gives the proposal as it is then, still `pending` when time ran out."""
        until = self._patience.clock() + timeout_seconds
        while True:
            proposal = yield from self._get(path(*V1, "proposals", proposal_id), Proposal)
            left = until - self._patience.clock()
            if proposal["state"] != "pending" or left <= 0:
                return proposal
            yield Wait(min(poll_interval, left))

    # Messages -------------------------------------------------------------------------------------------------------

    @operation
    def get_messages(self, unread_only: bool = False) -> Steps[list[Message]]:
        """This agent's messages, oldest first; unread are those not yet acknowledged."""
        return self._messages(unread_only)

    def _messages(self, unread_only: bool) -> Steps[list[Message]]:
        unread = "true" if unread_only else None
        return self._list(path(*V1, "messages"), Message, agent=self.agent_name, unread=unread)

    @operation
    def ack(self, message_id: str) -> Steps[bool]:
        """Say that a message was dealt with, so that it does not come again."""
        return self._acknowledge(message_id)

    def _acknowledge(self, message_id: str) -> Steps[bool]:
        where = path("messages", message_id, "ack")
        return self._agreed(self._change("POST", where, Done, {"agent": self.agent_name}))

    @operation
    def wait_for_messages(
        self, timeout_seconds: float = 30.0, poll_interval: float = 1.0, unread_only: bool = True
    ) -> Steps[list[Message]]:
        """Messages as soon as there are any; none when time ran out."""
        until = self._patience.clock() + timeout_seconds
        while True:
            messages = yield from self._messages(unread_only)
            left = until - self._patience.clock()
            if messages or left <= 0:
                return messages
            yield Wait(min(poll_interval, left))

    @operation
    def process_inbox(
        self, handler: Handler, unread_only: bool = True, auto_ack: bool = True, max_messages: int | None = None
    ) -> Steps[int]:
        """Hand every message to `handler` once, and acknowledge it; how many were handled.

        What the handler raises is raised here; the message stays unread, and comes again.
        """
        processed = 0
        for message in (yield from self._messages(unread_only)):
            if max_messages is not None and processed >= max_messages:
                break
            fate = self._inbox.begin(message["id"])
            if fate is Fate.DUE:
                yield from self._handle(message, handler)
                processed += 1
            if fate is not Fate.NOT_NOW and auto_ack and not message["acknowledged"]:
                yield from self._acknowledge_or_later(message)
        return processed

    def _handle(self, message: Message, handler: Handler) -> Steps[None]:
        try:
            yield Tell(handler, message)
        except BaseException:
            self._inbox.put_back(message["id"])
            raise
        self._inbox.done(message["id"])

    def _acknowledge_or_later(self, message: Message) -> Steps[None]:
        """Unacknowledged it comes again, and is then acknowledged without being handled again."""
        try:
            yield from self._acknowledge(message["id"])
        except (Unreachable, ServerError) as error:
            log.warning("message %s was handled, and is to be acknowledged later: %s", message["id"], error)


def not_registered(agent: str, error: RingfenceError) -> NotRegistered:
    return NotRegistered(f"agent {agent!r} cannot begin, for it could not be registered: {error}")
