"""Messages over HTTP: the hub's paths at the root, with threads, states and cursors under /api/v1."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from ringfence.crew.links import beside
from ringfence.crew.messages.model import (
    LARGEST,
    LONGEST_LIFE,
    PLAIN,
    THREAD,
    TYPE,
    Delivery,
    Message,
    Outgoing,
    Thread,
    compose,
)
from ringfence.crew.messages.service import Messages
from ringfence.kernel.auth.model import Principal, Role, check_name
from ringfence.kernel.clock import SECOND, iso, iso_or_none
from ringfence.kernel.errors import Invalid, NotFound
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Page
from ringfence.kernel.http.openapi import Listed
from ringfence.kernel.http.system import Ok
from ringfence.settings import Settings

INBOX_AT_ROOT = 1000  # the hub had no pages

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
_TO = rf"^\*$|{_NAME}"
Cursor = Annotated[str, Field(pattern="^[a-z0-9_]{1,64}$")]
Limit = Annotated[int, Field(ge=1, le=1000)]
Name = Annotated[str, Field(json_schema_extra={"pattern": _NAME})]


class Writing(Fields):
    model_config = ConfigDict(populate_by_name=False)

    sender: Name | None = Field(None, alias="from", description="Yourself when left out; people may name an agent.")
    to: str = Field(description="An agent or a person, or `*`: every agent.", json_schema_extra={"pattern": _TO})
    content: str = Field("", json_schema_extra={"maxLength": LARGEST})
    type: str = Field(PLAIN, json_schema_extra={"pattern": TYPE})
    thread: str | None = Field(None, json_schema_extra={"pattern": THREAD})
    reply_to: Annotated[str, Field(max_length=64)] | None = Field(None, description="The message it answers.")
    expires_in: Annotated[float, Field(ge=1, le=LONGEST_LIFE / SECOND, allow_inf_nan=False)] | None = Field(
        None, description="Seconds after which it is no longer delivered; by default the setting message_ttl_days."
    )


class Sending(Writing):
    @model_validator(mode="before")
    @classmethod
    def _as_the_hub_said(cls, given: object) -> object:
        if isinstance(given, dict) and given.get("to") in (None, ""):
            raise ValueError("from and to required")
        return given


class Acknowledging(Fields):
    agent: Name | None = Field(None, description="For whom, when a person acknowledges in an agent's place.")


class InboxQuery(Fields):
    unread: bool = False
    limit: Limit = INBOX_AT_ROOT
    cursor: Cursor | None = None


class HistoryQuery(Fields):
    limit: Limit = 50
    cursor: Cursor | None = None


class PageQuery(Fields):
    limit: Limit | None = None
    cursor: Cursor | None = None


class ListQuery(PageQuery):
    agent: Name | None = Field(None, description="Whose inbox; people who leave it out see all messages.")
    unread: bool = Field(False, description="Only what its recipient has not acknowledged.")
    thread: Annotated[str, Field(max_length=64)] | None = None
    newest_first: bool = False


class PruneMessages(Fields):
    days: Annotated[float, Field(ge=0, le=36500, allow_inf_nan=False)] = Field(
        description="What was acknowledged or set aside more than this many days ago is removed."
    )


class PrunedMessages(TypedDict):
    removed: int


class GraphNode(TypedDict):
    id: str
    type: str


class ThreadView(TypedDict):
    id: str
    messages: int
    started_at: str
    last_at: str
    last_message: str


class DeliveryView(TypedDict):
    recipient: str
    delivered_at: str | None
    acknowledged_at: str | None
    acknowledged_by: str | None
    set_aside_at: str | None


_Flag = bool | None  # None: of a broadcast as a whole, which each recipient has in a state of its own
Sent = TypedDict("Sent", {"id": str, "from": str, "to": str, "timestamp": str})
Received = TypedDict(
    "Received",
    {
        "id": str, "from": str, "content": str, "type": str, "timestamp": str,
        "delivered": bool, "acknowledged": bool,
    },
)  # fmt: skip
Said = TypedDict("Said", {"id": str, "from": str, "to": str, "content": str, "timestamp": str})
MessageView = TypedDict(
    "MessageView",
    {
        "id": str, "from": str, "to": str, "content": str, "type": str, "thread": str | None,
        "reply_to": str | None, "timestamp": str, "expires_at": str,
        "delivered": _Flag, "acknowledged": _Flag, "set_aside": _Flag,
    },
)  # fmt: skip
GraphEdge = TypedDict("GraphEdge", {"from": str, "to": str, "count": int})


class MessageDetail(MessageView):
    deliveries: list[DeliveryView]


class MessageGraph(TypedDict):
    nodes: list[GraphNode]
    edges: list[GraphEdge]


def sent_view(message: Message) -> Sent:
    return {"id": message.id, "from": message.sender, "to": message.to, "timestamp": iso(message.sent_at)}


def received_view(message: Message, delivered: bool) -> Received:
    delivery = message.delivery or Delivery("")
    return {
        "id": message.id,
        "from": message.sender,
        "content": message.content,
        "type": message.type,
        "timestamp": iso(message.sent_at),
        "delivered": delivered or delivery.delivered_at is not None,
        "acknowledged": delivery.acknowledged_at is not None,
    }


def said_view(message: Message) -> Said:
    return {
        "id": message.id,
        "from": message.sender,
        "to": message.to,
        "content": message.content,
        "timestamp": iso(message.sent_at),
    }


def message_view(message: Message) -> MessageView:
    delivery = message.delivery
    return {
        "id": message.id,
        "from": message.sender,
        "to": message.to,
        "content": message.content,
        "type": message.type,
        "thread": message.thread,
        "reply_to": message.reply_to,
        "timestamp": iso(message.sent_at),
        "expires_at": iso(message.expires_at),
        "delivered": None if delivery is None else delivery.delivered_at is not None,
        "acknowledged": None if delivery is None else delivery.acknowledged_at is not None,
        "set_aside": None if delivery is None else delivery.set_aside_at is not None,
    }


def delivery_view(delivery: Delivery) -> DeliveryView:
    return {
        "recipient": delivery.recipient,
        "delivered_at": iso_or_none(delivery.delivered_at),
        "acknowledged_at": iso_or_none(delivery.acknowledged_at),
        "acknowledged_by": delivery.acknowledged_by,
        "set_aside_at": iso_or_none(delivery.set_aside_at),
    }


def thread_view(thread: Thread) -> ThreadView:
    return {
        "id": thread.id,
        "messages": thread.messages,
        "started_at": iso(thread.started_at),
        "last_at": iso(thread.last_at),
        "last_message": thread.last_message,
    }


def _name(call: Call[Any, Any], part: str) -> str:
    """A name in the path: what cannot be one has no inbox."""
    try:
        return check_name(call[part])
    except Invalid as error:
        raise NotFound(error.message, code=error.code) from None


def _undelivered(messages: list[Message]) -> list[str]:
    return [found.id for found in messages if found.delivery is not None and found.delivery.delivered_at is None]


def routes(messages: Messages, settings: Settings) -> Api:
    api = Api("messages")

    async def composed(by: Principal, sender: str, body: Writing) -> Outgoing:
        def work() -> Outgoing:
            return compose(
                by, messages.links, sender=sender, to=body.to, content=body.content, type=body.type,
                thread=body.thread, reply_to=body.reply_to, expires_in=body.expires_in,
            )  # fmt: skip

        return await beside(work, len(body.content))

    async def hand_out(call: Call[Any, Any], recipient: str, found: list[Message]) -> None:
        if fresh := _undelivered(found):
            await call.write(lambda tx: messages.mark_delivered(tx, recipient, fresh))

    @api.route("POST", "/messages/send", access=Access.ACT, body=Sending, answers=Sent, creates=True, hot=True)
    async def send(call: Call[Sending, Fields]) -> Answer:
        """Send a message to an agent, a person, or `*`.

        An agent may leave `from` out; whoever is not an agent says for whom, or as whom, it is sent."""
        sender = call.body.sender or (call.principal.name if call.principal.is_agent else "")
        if not sender:
            raise Invalid("from and to required", code="invalid_body")
        message = await composed(call.principal, sender, call.body)
        return await call.commit(lambda tx: sent_view(messages.send(tx, message)), message.by)

    @api.route("POST", "/api/v1/messages", access=Access.ACT, body=Writing, answers=MessageView, status=201)
    async def create(call: Call[Writing, Fields]) -> Answer:
        """Send a message to an agent, a person, or `*`, as yourself unless `from` names an agent to act for."""
        sender = call.principal.name if call.body.sender is None else call.body.sender
        message = await composed(call.principal, sender, call.body)
        return await call.commit(lambda tx: message_view(messages.send(tx, message)), message.by)

    @api.route("GET", "/messages/graph", "/api/v1/messages/graph", access=Access.READ, answers=MessageGraph)
    async def graph(call: Call[Fields, Fields]) -> MessageGraph:
        """Who wrote to whom: the registered agents, and how many messages went each way.

        An agent sees its own edges. What retention removed is no longer counted."""
        agents, edges = await call.read(lambda tx: messages.graph(tx, call.principal))
        return {
            "nodes": [{"id": name, "type": kind} for name, kind in agents],
            "edges": [{"from": edge.sender, "to": edge.recipient, "count": edge.count} for edge in edges],
        }

    @api.route("GET", "/messages/{agent}", access=Access.READ, query=InboxQuery, answers=Listed(Received), hot=True)
    async def inbox(call: Call[Fields, InboxQuery]) -> Page:
        """What an agent, or a person, was sent, oldest first.

        `unread=true`: what was neither acknowledged nor has expired. Otherwise the newest `limit`, which are marked
        delivered when it is the recipient who asks, or an operator in its place."""
        agent, query, by = _name(call, "agent"), call.query, call.principal
        found, following = await call.read(
            lambda tx: messages.inbox(
                tx, by, agent,
                unread=query.unread, newest_first=not query.unread, cursor=query.cursor, limit=query.limit,
            )
        )  # fmt: skip
        handed = not query.unread and (by.name == agent or by.may(Role.OPERATOR))
        if handed:
            await hand_out(call, agent, found)
        items = [received_view(message, handed) for message in found]
        return Page(items if query.unread else items[::-1], following)

    @api.route(
        "POST", "/messages/{message_id}/ack", "/api/v1/messages/{message_id}/ack",
        access=Access.ACT, body=Acknowledging, answers=Ok,
    )  # fmt: skip
    async def acknowledge(call: Call[Acknowledging, Fields]) -> Answer:
        """Say that a message was dealt with, so that it is not delivered again. Only its recipient can."""
        await call.write(lambda tx: messages.acknowledge(tx, call.principal, call["message_id"], call.body.agent))
        return Answer({"status": "ok"})

    @api.route("GET", "/messages/history/{one}/{other}", access=Access.READ, query=HistoryQuery, answers=Listed(Said))
    async def said(call: Call[Fields, HistoryQuery]) -> Page:
        """What two sent each other, newest first. An agent sees its own conversations."""
        found, following = await history(call, call.query.limit)
        return Page([said_view(message) for message in found], following)

    @api.route(
        "GET", "/api/v1/messages/history/{one}/{other}",
        access=Access.READ, query=PageQuery, answers=Listed(MessageView),
    )  # fmt: skip
    async def conversation(call: Call[Fields, PageQuery]) -> Page:
        """What two sent each other, newest first, with its states. An agent sees its own conversations."""
        found, following = await history(call, call.query.limit or settings.page_size)
        return Page([message_view(message) for message in found], following)

    async def history(call: Call[Fields, Any], limit: int) -> tuple[list[Message], str | None]:
        one, other = _name(call, "one"), _name(call, "other")
        return await call.read(
            lambda tx: messages.history(tx, call.principal, one, other, cursor=call.query.cursor, limit=limit)
        )

    @api.route("GET", "/api/v1/messages", access=Access.READ, query=ListQuery, answers=Listed(MessageView))
    async def list_messages(call: Call[Fields, ListQuery]) -> Page:
        """Messages, oldest first: an agent's own inbox; for people anybody's, or everything.

        Whose inbox is asked for with `unread` is yours when `agent` is left out."""
        query, by = call.query, call.principal
        agent = by.name if query.agent is None and (by.is_agent or query.unread) else query.agent
        limit = query.limit or settings.page_size
        if agent is None:
            found, following = await call.read(
                lambda tx: messages.everything(
                    tx, thread=query.thread, newest_first=query.newest_first, cursor=query.cursor, limit=limit
                )
            )
        else:
            found, following = await call.read(
                lambda tx: messages.inbox(
                    tx, by, agent,
                    unread=query.unread, thread=query.thread, newest_first=query.newest_first,
                    cursor=query.cursor, limit=limit,
                )
            )  # fmt: skip
            if by.name == agent and not query.unread:
                await hand_out(call, agent, found)
        return Page([message_view(message) for message in found], following)

    @api.route("POST", "/api/v1/messages/prune", access=Access.CONFIGURE, body=PruneMessages, answers=PrunedMessages)
    async def prune(call: Call[PruneMessages, Fields]) -> PrunedMessages:
        """Remove what expired, and what was acknowledged or set aside long ago; counted in deliveries."""
        age, removed = timedelta(days=call.body.days), 0
        while some := await call.write(lambda tx: messages.prune(tx, call.principal.actor, age)):
            removed += some
        return {"removed": removed}

    @api.route("GET", "/api/v1/messages/{message_id}", access=Access.READ, answers=MessageDetail)
    async def show(call: Call[Fields, Fields]) -> MessageDetail:
        """One message, and what became of it for each recipient (a recipient sees its own)."""
        found, deliveries = await call.read(lambda tx: messages.message(tx, call.principal, call["message_id"]))
        return {**message_view(found), "deliveries": [delivery_view(delivery) for delivery in deliveries]}

    @api.route("GET", "/api/v1/threads", access=Access.READ, query=PageQuery, answers=Listed(ThreadView))
    async def list_threads(call: Call[Fields, PageQuery]) -> Page:
        """Threads, that with the newest message first. An agent's are counted as it sees them."""
        limit = call.query.limit or settings.page_size
        found, following = await call.read(
            lambda tx: messages.threads(tx, call.principal, cursor=call.query.cursor, limit=limit)
        )
        return Page([thread_view(thread) for thread in found], following)

    @api.route("GET", "/api/v1/threads/{thread_id}", access=Access.READ, query=PageQuery, answers=Listed(MessageView))
    async def show_thread(call: Call[Fields, PageQuery]) -> Page:
        """The messages of a thread, oldest first; an agent sees those that it sent or got."""
        limit = call.query.limit or settings.page_size
        found, following = await call.read(
            lambda tx: messages.thread(tx, call.principal, call["thread_id"], cursor=call.query.cursor, limit=limit)
        )
        return Page([message_view(message) for message in found], following)

    return api
