"""What a message is, and the rules that need nothing but the message.

    compose ──► Outgoing ──► send ──► one message, and a delivery for each recipient

                 ┌─ acknowledged ─► kept for keep_messages_days
    delivery ────┼─ set aside (its agent was revoked with flush) ─► the same
      (unread)   └─ expired ─► removed

A delivery is unread until one of the three; that it was handed out (`delivered_at`) changes nothing.
"""

import re
from dataclasses import dataclass

from ringfence.crew.links import LinkPolicy, external_link
from ringfence.kernel.auth.model import Principal, check_name
from ringfence.kernel.clock import DAY, SECOND
from ringfence.kernel.errors import Invalid, RuleBroken
from ringfence.kernel.events.model import Actor

EVERYBODY = "*"  # every agent that is registered at that moment
LARGEST = 64 * 1024  # bytes of content
LONGEST_LIFE = 365 * DAY
EXCERPT = 200  # characters of content in an event
PLAIN = "text"  # the type of a message that says nothing else
TYPE = r"^[a-z0-9_.-]{1,32}$"
THREAD = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}$"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that may be sent, as far as can be told without looking anything up."""

    sender: str
    by: Actor
    to: str
    content: str
    type: str
    thread: str | None
    reply_to: str | None
    lives: int | None

    @property
    def personal(self) -> bool:
        """Whether a person writes it as themself, and not an agent, or somebody for an agent."""
        return self.by.name.startswith("operator:")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message's way to one recipient."""

    recipient: str
    delivered_at: int | None = None
    acknowledged_at: int | None = None
    acknowledged_by: str | None = None
    set_aside_at: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message as one recipient has it; `delivery` None: a broadcast as a whole."""

    id: str
    sender: str
    to: str
    content: str
    type: str
    thread: str | None
    reply_to: str | None
    sent_at: int
    expires_at: int
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    id: str
    messages: int
    started_at: int
    last_at: int
    last_message: str


@dataclass(frozen=True, slots=True)
class Edge:
    """How many messages of one agent another has got."""

    sender: str
    recipient: str
    count: int


def compose(
    by: Principal,
    policy: LinkPolicy,
    *,
    sender: str,
    to: str,
    content: str = "",
    type: str = PLAIN,
    thread: str | None = None,
    reply_to: str | None = None,
    expires_in: float | None = None,
) -> Outgoing:
    """The message, if this principal may write it: as themself, or (people) for an agent, without links for agents."""
    check_name(sender, "sender")
    actor = by.acting_for(sender)
    if to != EVERYBODY:
        check_name(to, "recipient")
    if not re.fullmatch(TYPE, type):
        raise Invalid(f"type {type[:80]!r} is not possible: use 1 to 32 of a-z 0-9 _ . -", code="invalid_type")
    if thread is not None and not re.fullmatch(THREAD, thread):
        raise Invalid(
            f"thread {thread[:80]!r} is not possible: use 1 to 64 of A-Z a-z 0-9 . _ : @ -, beginning with a letter or "
            "digit",
            code="invalid_thread",
        )
    size = len(content.encode())
    if size > LARGEST:
        raise Invalid(
            f"the content has {size} bytes; a message holds at most {LARGEST}: upload it as a file of the project "
            "and send its name",
            code="content_too_large",
        )
    lives = None if expires_in is None else int(expires_in * SECOND)
    if lives is not None and not 0 < lives <= LONGEST_LIFE:
        raise Invalid(f"expires_in {expires_in!r} is not possible: give seconds, up to a year", code="invalid_expiry")
    outgoing = Outgoing(sender, actor, to, content, type, thread, reply_to, lives)
    if not outgoing.personal:
        _keep_inside(outgoing, policy)
    return outgoing


def _keep_inside(message: Outgoing, policy: LinkPolicy) -> None:
    texts = {"content": message.content, "type": message.type, "thread": message.thread or ""}
    for where, text in texts.items():
        if text and text != PLAIN and (link := external_link(text, policy)):
            raise RuleBroken(
                f"Sandbox: message {where} blocked (external URL detected): {link!r} leads outside; take it out, or "
                "ask an admin to allow its host in the setting link_hosts",
                code="external_link",
                agent=message.sender,
            )
