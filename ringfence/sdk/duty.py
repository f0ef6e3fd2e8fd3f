"""What `run_autonomous_loop` does, for both twins: two courses of steps, carried out side by side.

    work     every `poll_interval`: how do I stand? ─┬─ free: each unread message to the handler, then acknowledged
                                                     ├─ paused: wait
                                                     ├─ revoked: tell `on_revocation`, acknowledge, register again
                                                     └─ unknown: register again
    pulse    every `heartbeat_interval`: a heartbeat, however long a handler takes

An outage ends nothing: both go on until they are stopped. What time does not heal is raised: a token that is refused, a
mistake of the program.
"""

import logging
from collections.abc import Callable

from ringfence.sdk.agent import AgentOperations, Handler, Metadata, not_registered
from ringfence.sdk.calls import path
from ringfence.sdk.errors import (
    NotFound,
    RateLimited,
    Refused,
    RingfenceError,
    ServerError,
    Unauthenticated,
    UnexpectedAnswer,
    Unreachable,
)
from ringfence.sdk.inbox import Fate
from ringfence.sdk.steps import Steps, Tell, Wait
from ringfence.sdk.views import AgentDetail, Message, NonePending, Pending

OUTAGE = (Unreachable, ServerError, RateLimited, UnexpectedAnswer)
SOON = 1.0  # seconds until a lost heartbeat is followed by another

log = logging.getLogger("ringfence.sdk")


class Pulse:
    """Heartbeats, until stopped."""

    def __init__(self, agent: AgentOperations, interval: float) -> None:
        self._agent = agent
        self._interval = interval

    def steps(self) -> Steps[None]:
        well = True
        while True:
            pause = self._interval
            try:
                yield from self._agent._heartbeat(patient=False)
                well = True
            except RingfenceError as error:
                log.log(
                    logging.WARNING if well else logging.DEBUG, "no heartbeat of %s: %s", self._agent.agent_name, error
                )
                well = False
                pause = min(SOON, self._interval)
            if (yield Wait(pause)):
                return


class Duty:
    def __init__(
        self,
        agent: AgentOperations,
        handler: Handler,
        *,
        poll_interval: float,
        metadata: Metadata | None,
        auto_ack: bool,
        on_revocation: Callable[[Pending], object] | None,
    ) -> None:
        self._agent = agent
        self._handler = handler
        self._poll_interval = poll_interval
        self._metadata = metadata
        self._auto_ack = auto_ack
        self._on_revocation = on_revocation
        self._clock = agent._patience.clock
        self._looked_at = 0.0
        self._said = ""  # what keeps the agent from working, so that it is logged once

    def begin(self) -> Steps[None]:
        try:
            yield from self._agent._ensure_registered(self._metadata)
        except (Refused, NotFound, *OUTAGE) as error:
            raise not_registered(self._agent.agent_name, error) from error

    def work(self) -> Steps[None]:
        while True:
            try:
                yield from self._round()
            except OUTAGE as error:
                self._say("waits for the server", error)
            if (yield Wait(self._poll_interval)):
                return

    def _round(self) -> Steps[None]:
        if not (yield from self._free()):
            return
        for message in (yield from self._agent._messages(unread_only=True)):
            if self._clock() - self._looked_at > self._poll_interval and not (yield from self._free()):
                return
            if (yield Wait(0)):
                return
            yield from self._attend(message)

    # How the agent stands -------------------------------------------------------------------------------------------

    def _free(self) -> Steps[bool]:
        """Whether it may work now; what an operator ordered is done here."""
        standing = yield from self._standing()
        self._looked_at = self._clock()
        if standing["revocation_id"] is not None:
            yield from self._obey()
            return False
        if standing["paused_at"] is not None:
            self._say("is paused, and waits to be resumed", standing["pause_reason"] or "no reason given")
            return False
        self._say("")
        return True

    def _standing(self) -> Steps[AgentDetail]:
        where = path("api", "v1", "crew", self._agent.agent_name)
        try:
            return (yield from self._agent._get(where, AgentDetail))
        except (NotFound, Unauthenticated) as error:
            log.warning("%s registers again: %s", self._agent.agent_name, error)
        yield from self._agent._register(self._metadata)
        return (yield from self._agent._get(where, AgentDetail))

    def _obey(self) -> Steps[None]:
        """Halt, acknowledge, and begin again as the operators left it."""
        directive: Pending | NonePending = yield from self._agent._get(f"{self._agent._me}/revocation", Pending)
        if not directive["pending"]:
            return
        log.warning("%s was revoked: %s", self._agent.agent_name, directive["reason"] or "no reason given")
        if self._on_revocation is not None:
            yield Tell(self._on_revocation, directive)
        if (yield from self._agent._acknowledge_revocation(directive["revocation_id"])):
            yield from self._agent._register(self._metadata)

    def _say(self, what: str, why: object = "") -> None:
        if what and what != self._said:
            log.warning("%s %s: %s", self._agent.agent_name, what, why)
        self._said = what

    # Messages -------------------------------------------------------------------------------------------------------

    def _attend(self, message: Message) -> Steps[None]:
        inbox = self._agent._inbox
        fate = inbox.begin(message["id"])
        if fate is Fate.DUE:
            try:
                yield Tell(self._handler, message)
            except Exception:
                again = inbox.failed(message["id"])
                what = "it will be tried again" if again else "given up: the message stays unread"
                log.exception("the handler failed on message %s from %s; %s", message["id"], message["from"], what)
                return
            except BaseException:
                inbox.put_back(message["id"])
                raise
            inbox.done(message["id"])
        if fate is not Fate.NOT_NOW and self._auto_ack:
            yield from self._agent._acknowledge_or_later(message)
