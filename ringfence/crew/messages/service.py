"""Use cases of messages."""

from collections.abc import Callable
from datetime import timedelta

from ringfence.crew.links import LinkPolicy
from ringfence.crew.messages import store
from ringfence.crew.messages.model import (
    EVERYBODY,
    EXCERPT,
    Delivery,
    Edge,
    Message,
    Outgoing,
    Thread,
)
from ringfence.crew.service import Crew
from ringfence.kernel.auth.model import Principal, check_name
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.clock import DAY, MINUTE, SECOND, iso
from ringfence.kernel.database import Row, Transaction
from ringfence.kernel.errors import Conflict, Forbidden, NotFound, RateLimited
from ringfence.kernel.events.model import SYSTEM, Actor
from ringfence.kernel.ids import new
from ringfence.kernel.retention.service import Kept, Retention
from ringfence.settings import Settings

FIRST, LAST = "", "zzzz"  # below and above every id
CHUNK = 64  # messages read at once
PAGE_SIZE = 1 << 20  # characters of content after which a page ends early
REMOVED_AT_ONCE = 2000

Fetch = Callable[[str, int], list[Message]]  # (cursor, limit) -> the messages beyond


class Messages:
    def __init__(self, settings: Settings, crew: Crew, auth: Auth, retention: Retention) -> None:
        self._settings = settings
        self._retention = retention
        self._crew = crew
        self._auth = auth
        self.links = LinkPolicy(frozenset(settings.link_hosts))  # what `compose` asks
        crew.on_flush.append(self.set_aside)

    # Sending --------------------------------------------------------------------------------------------------------

    def send(self, tx: Transaction, message: Outgoing) -> Message:
        """Store it, with a delivery for each recipient: for a name that does not exist yet, too."""
        if not message.personal:
            if message.by.via is not None:
                self._not_a_person(tx, message.sender)
            self._crew.may_work(tx, message.sender, "send messages")
        self._check_rate(tx, message.sender)
        thread = self._thread(tx, message)
        lives = message.lives or int(self._settings.message_ttl_days * DAY)
        sent = Message(
            new("msg"), message.sender, message.to, message.content, message.type, thread, message.reply_to,
            tx.now, tx.now + lives, None if message.to == EVERYBODY else Delivery(message.to),
        )  # fmt: skip
        tx.run(
            store.ADD_MESSAGE,
            id=sent.id, sender=sent.sender, recipient=sent.to, content=sent.content, type=sent.type,
            thread=thread, reply_to=sent.reply_to, sent_at=sent.sent_at, expires_at=sent.expires_at,
        )  # fmt: skip
        delivery = {"message": sent.id, "sender": sent.sender, "expires_at": sent.expires_at}
        if message.to == EVERYBODY:
            others = [name for name, _ in self._crew.roster(tx) if name != sent.sender]
            tx.run_many(store.ADD_DELIVERY, [{**delivery, "recipient": name} for name in others])
        else:
            tx.run(store.ADD_DELIVERY, recipient=sent.to, **delivery)
        told = {
            "id": sent.id, "from": sent.sender, "to": sent.to, "content": sent.content[:EXCERPT], "type": sent.type,
            "timestamp": iso(sent.sent_at), "thread": thread,
        }  # fmt: skip
        concerned = sent.sender if not message.personal else None if sent.to == EVERYBODY else sent.to
        tx.record("message_sent", message.by, told, agent=concerned, subject=sent.id)
        return sent

    def _check_rate(self, tx: Transaction, sender: str) -> None:
        """Refuse the sender whose last `message_rate` messages are all younger than a minute.

        A message from the future (the clock was set back, or is another server's) counts while it is near.
        """
        rate = self._settings.message_rate
        if not rate:
            return
        blocking = tx.row(store.BLOCKING, sender=sender, since=tx.now - MINUTE, until=tx.now + MINUTE, newer=rate - 1)
        if blocking is not None:
            seconds = min(-(-(blocking[0] + MINUTE - tx.now) // SECOND), 60)
            raise RateLimited(
                f"{sender!r} may send {rate} messages a minute, and did: the next one in {seconds} s",
                retry_after=seconds,
                agent=sender,
            )

    def _thread(self, tx: Transaction, message: Outgoing) -> str | None:
        """The thread it belongs to. A reply joins that of what it answers, which begins one if it had none."""
        if message.reply_to is None:
            return message.thread
        answered = self._message(tx, message.reply_to)
        if message.sender != answered.sender and self._delivery(tx, answered.id, message.sender) is None:
            raise Forbidden(
                f"{message.sender!r} neither sent nor got the message {answered.id}: it cannot answer it",
                code="not_your_message",
                agent=message.sender,
            )
        thread = answered.thread or answered.id
        if message.thread not in (None, thread):
            raise Conflict(
                f"the message {answered.id} belongs to the thread {thread!r}: leave thread out, or name that one",
                code="other_thread",
                agent=message.sender,
            )
        if answered.thread is None:
            tx.run(store.START_THREAD, which=answered.id)
        return thread

    def _not_a_person(self, tx: Transaction, name: str) -> None:
        if self._auth.find_person(tx, name) is not None:
            raise Forbidden(f"{name!r} is a person: nobody can act as them", code="not_yourself")

    # Reading --------------------------------------------------------------------------------------------------------

    def inbox(
        self,
        tx: Transaction,
        by: Principal,
        recipient: str,
        *,
        unread: bool = False,
        thread: str | None = None,
        newest_first: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> tuple[list[Message], str | None]:
        """What the recipient was sent, a page of it, and where the next page begins."""
        check_name(recipient)
        _own(by, recipient, "inbox")
        query = store.inbox(unread=unread, threaded=thread is not None, newest_first=newest_first)
        more: dict[str, object] = {} if thread is None else {"thread": thread}
        if unread:
            more["now"] = tx.now

        def fetch(beyond: str, count: int) -> list[Message]:
            return [_message(row) for row in tx.rows(query, recipient=recipient, cursor=beyond, limit=count, **more)]

        return _page(fetch, cursor or (LAST if newest_first else FIRST), limit)

    def everything(
        self,
        tx: Transaction,
        *,
        thread: str | None = None,
        newest_first: bool = False,
        cursor: str | None = None,
        limit: int,
    ) -> tuple[list[Message], str | None]:
        """Everybody's messages: for people only."""
        query = store.everything(threaded=thread is not None, newest_first=newest_first)
        more = {} if thread is None else {"thread": thread}

        def fetch(beyond: str, count: int) -> list[Message]:
            return [_message(row) for row in tx.rows(query, cursor=beyond, limit=count, **more)]

        return _page(fetch, cursor or (LAST if newest_first else FIRST), limit)

    def history(
        self, tx: Transaction, by: Principal, one: str, other: str, *, cursor: str | None = None, limit: int
    ) -> tuple[list[Message], str | None]:
        """What two sent each other, newest first; a broadcast of one is in it, as the other got it."""
        check_name(one)
        check_name(other)
        if by.is_agent and by.name not in (one, other):
            _own(by, one, "conversations")
        ways = {(one, other), (other, one)}

        def fetch(beyond: str, count: int) -> list[Message]:
            found = [
                _message(row)
                for sender, recipient in ways
                for row in tx.rows(store.BETWEEN, sender=sender, recipient=recipient, cursor=beyond, limit=count)
            ]
            return sorted(found, key=lambda message: message.id, reverse=True)[:count]

        return _page(fetch, cursor or LAST, limit)

    def message(self, tx: Transaction, by: Principal, message_id: str) -> tuple[Message, list[Delivery]]:
        """One message with its deliveries: all of them for people and its sender, their own for a recipient."""
        found = self._message(tx, message_id)
        if not by.is_agent or by.name == found.sender:
            return found, [Delivery(*row) for row in tx.rows(store.DELIVERIES, message=message_id)]
        own = self._delivery(tx, message_id, by.name)
        if own is None:
            raise _not_yours(by, message_id)
        return found, [own]

    def threads(
        self, tx: Transaction, by: Principal, *, cursor: str | None = None, limit: int
    ) -> tuple[list[Thread], str | None]:
        """Threads by their last message, newest first; an agent's are those it sent to or got from, as it sees them."""
        query, more = (store.THREADS_OF, {"name": by.name}) if by.is_agent else (store.THREADS, {})
        found = [Thread(*row) for row in tx.rows(query, cursor=cursor or LAST, limit=limit, **more)]
        return found, found[-1].last_message if len(found) == limit else None

    def thread(
        self, tx: Transaction, by: Principal, thread: str, *, cursor: str | None = None, limit: int
    ) -> tuple[list[Message], str | None]:
        """A thread's messages, oldest first; an agent sees those that it sent or got."""
        if not by.is_agent:
            found, following = self.everything(tx, thread=thread, cursor=cursor, limit=limit)
        else:

            def fetch(beyond: str, count: int) -> list[Message]:
                rows = tx.rows(store.THREAD_OF, name=by.name, thread=thread, cursor=beyond, limit=count)
                return [_message(row) for row in rows]

            found, following = _page(fetch, cursor or FIRST, limit)
        if not found and cursor is None:
            raise NotFound(f"there is no thread {thread[:80]!r} that you take part in")
        return found, following

    def graph(self, tx: Transaction, by: Principal) -> tuple[list[tuple[str, str]], list[Edge]]:
        """The registered agents with their types, and how often one wrote to another; an agent sees its own edges."""
        agents = self._crew.roster(tx)
        rows = (
            [*tx.rows(store.EDGES_FROM, name=by.name), *tx.rows(store.EDGES_TO, name=by.name)]
            if by.is_agent
            else tx.rows(store.EDGES)
        )
        names = {name for name, _ in agents}
        return agents, [Edge(*row) for row in rows if row[0] in names and row[1] in names]

    def _message(self, tx: Transaction, message_id: str) -> Message:
        row = tx.row(store.MESSAGE, id=message_id)
        if row is None:
            raise NotFound(f"message not found: {message_id[:80]!r}")
        return Message(*row)

    def _delivery(self, tx: Transaction, message_id: str, recipient: str) -> Delivery | None:
        row = tx.row(store.DELIVERY, message=message_id, recipient=recipient)
        return None if row is None else Delivery(*row)

    # What becomes of a delivery -------------------------------------------------------------------------------------

    def mark_delivered(self, tx: Transaction, recipient: str, ids: list[str]) -> None:
        tx.run_many(store.MARK_DELIVERED, [{"which": which, "who": recipient, "at": tx.now} for which in ids])

    def acknowledge(self, tx: Transaction, by: Principal, message_id: str, recipient: str | None = None) -> None:
        """The recipient has dealt with it. A repeat changes nothing; of a broadcast, the others keep theirs."""
        if recipient is None:
            recipient = by.name if by.is_agent else self._only_recipient(tx, by, message_id)
        actor = by.acting_for(recipient)
        if actor.via is not None:
            self._not_a_person(tx, recipient)
        who = actor.via or actor.name
        if tx.run(store.ACKNOWLEDGE, which=message_id, who=recipient, at=tx.now, actor=who):
            return
        self._message(tx, message_id)
        if self._delivery(tx, message_id, recipient) is None:
            raise _not_yours(by, message_id)

    def _only_recipient(self, tx: Transaction, by: Principal, message_id: str) -> str:
        """For whom a person acknowledges who does not say it."""
        to = self._message(tx, message_id).to
        if to == EVERYBODY:
            raise Conflict(
                f"the message {message_id} went to several: say in `agent` for whom you acknowledge it",
                code="agent_required",
            )
        return to

    def set_aside(self, tx: Transaction, by: Actor, agent: str, reason: str) -> int:
        """Take what the agent has not read out of its way; history still shows it. Returns how many those were."""
        return tx.run(store.SET_ASIDE, who=agent, at=tx.now)

    def erase(self, tx: Transaction, agent: str) -> None:
        """Remove what an agent sent and was sent; of what went to all, its own delivery. The events stay."""
        tx.run(store.ERASE_DELIVERIES, who=agent)
        tx.run(store.ERASE_MESSAGES, who=agent)

    # Retention ------------------------------------------------------------------------------------------------------

    def tidy(self, tx: Transaction) -> int:
        """A chore: remove what expired, and what was kept long enough; at most so many at a time."""
        days = self._retention.days(tx, Kept.MESSAGES)
        return self.prune(tx, SYSTEM, None if days == 0 else timedelta(days=days))

    def prune(self, tx: Transaction, by: Actor, older_than: timedelta | None) -> int:
        """Remove what expired, and what was acknowledged or set aside before; at most `REMOVED_AT_ONCE` deliveries of
        each, so repeat until it is 0. Returns how many deliveries went. The last minute stays, for the rate limit
        counts it."""
        expired = tx.now - MINUTE
        removed = tx.rows(store.REMOVE_EXPIRED, before=expired, limit=REMOVED_AT_ONCE)
        if older_than is not None:
            before = min(tx.now - older_than // timedelta(microseconds=1), expired)
            removed += tx.rows(store.REMOVE_ACKNOWLEDGED, before=before, limit=REMOVED_AT_ONCE)
            removed += tx.rows(store.REMOVE_SET_ASIDE, before=before, limit=REMOVED_AT_ONCE)
        tx.run_many(store.REMOVE_MESSAGE, [{"which": which} for which in {row[0] for row in removed}])
        unheard = tx.run(store.REMOVE_UNHEARD, before=expired)
        if removed or unheard:
            tx.record("messages_pruned", by, {"count": len(removed)})
        return len(removed)


def _own(by: Principal, name: str, what: str) -> None:
    if by.is_agent and by.name != name:
        raise Forbidden(
            f"you are agent {by.name!r}: you see your own {what} only, not {name!r}'s",
            code="not_yourself",
            agent=by.name,
        )


def _not_yours(by: Principal, message_id: str) -> Forbidden:
    return Forbidden(
        f"the message {message_id[:80]} is not addressed to {by.name!r}",
        code="not_your_message",
        agent=by.name if by.is_agent else None,
        subject=message_id[:80],
    )


def _message(row: Row) -> Message:
    delivery = None if row[9] is None else Delivery(*row[9:])
    return Message(*(*row[:9], delivery))


def _page(fetch: Fetch, cursor: str, limit: int) -> tuple[list[Message], str | None]:
    """Up to `limit` messages, fewer when they are long, and the cursor of the next page if there may be one."""
    found: list[Message] = []
    size = 0
    while len(found) < limit and size < PAGE_SIZE:
        wanted = min(limit - len(found), CHUNK)
        some = fetch(cursor, wanted)
        found += some
        if len(some) < wanted:
            return found, None
        cursor = some[-1].id
        size += sum(len(message.content) for message in some)
    return found, cursor
