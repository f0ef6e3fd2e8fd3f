"""The database: one writer that commits in batches, and readers beside it.

    use case ──► queue ──► writer thread:  BEGIN
                                             SAVEPOINT, use case, RELEASE      (one that fails rolls back alone)
                                             SAVEPOINT, use case, RELEASE
                                             number and chain the events of all of them
                                           COMMIT                              (one fsync for all)
                                       ──► answers, and the events to whoever listens

A use case is a synchronous function of a `Transaction`. Nobody is answered before the commit. The same statements run
on SQLite and on PostgreSQL; there, other servers write too, so numbering takes one advisory lock, last, and the order
of numbers is the order of commits.

Statements are SQLAlchemy Core, built once as module constants, compiled once per dialect, and handed to the driver as
text: the driver's own cursor costs a fifth of what a compiled-cache execution does.
"""

import asyncio
import contextlib
import itertools
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from ringfence.kernel.clock import Clock
from ringfence.kernel.errors import Refused, StorageFull, Unavailable
from ringfence.kernel.events.model import SYSTEM, Actor, Draft, Event, chained
from ringfence.kernel.events.store import HEAD, INSERT

T = TypeVar("T")
Row = tuple[Any, ...]

BATCH = 128
WAITING = 10_000
READERS = 4
USE_CASE_ATTEMPTS = 3
BATCH_ATTEMPTS = 4
_EVENTS_LOCK = 0x52494E47  # one number for every server on this database

log = logging.getLogger("ringfence.database")


class Query:
    """A statement built once; its text per dialect is compiled at first use."""

    def __init__(self, statement: sa.ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, dict[str, Any]]] = {}

    def on(self, backend: "Backend") -> tuple[str, dict[str, Any]]:
        """The text, and the values of literals that stand in it."""
        found = self._compiled.get(backend.name)
        if found is None:
            compiled = self._statement.compile(dialect=backend.dialect)
            literals = {name: value for name, value in compiled.params.items() if value is not None}
            found = self._compiled[backend.name] = (str(compiled), literals)
        return found


class Cursor(Protocol):
    rowcount: int

    def execute(self, text: str, params: Any = ..., /) -> Any: ...
    def executemany(self, text: str, params: Any, /) -> Any: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> Any: ...
    def close(self) -> Any: ...


class Connection(Protocol):
    def cursor(self) -> Any: ...
    def close(self) -> None: ...


class Backend(Protocol):
    """What differs between the databases."""

    name: str
    dialect: sa.Dialect

    def connect(self, *, writes: bool) -> Connection: ...
    def begin(self, *, writes: bool) -> str: ...
    def before_numbering(self, cursor: Cursor) -> None: ...
    def after_numbering(self, cursor: Cursor, seq: int) -> None: ...
    def translate(self, error: Exception) -> Exception:
        """A driver's error as one of ours, or the same."""

    def broken(self, connection: Any) -> bool:
        """Whether the batch's transaction is gone, with everything in it."""

    def lost_race(self, error: Exception) -> bool:
        """Whether the same use case may succeed when run again: another server was faster."""

    def lost_locks(self, error: Exception) -> bool:
        """Whether the batch may succeed when run again: another server's batch and this one waited for each other."""


class SQLite:
    name = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dialect: sa.Dialect = sqlite.dialect(paramstyle="named")

    def connect(self, *, writes: bool) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=10, cached_statements=512
            )
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-32000"):
                connection.execute(f"PRAGMA {pragma}")
            if not writes:
                connection.execute("PRAGMA query_only=ON")
        except sqlite3.Error as error:
            raise self.translate(error) from None
        return connection

    def begin(self, *, writes: bool) -> str:
        return "BEGIN IMMEDIATE" if writes else "BEGIN"

    def before_numbering(self, cursor: Cursor) -> None:
        """There is one writer."""

    def after_numbering(self, cursor: Cursor, seq: int) -> None:
        """The writer itself tells who listens."""

    def translate(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.OperationalError):
            if is_no_space(error):
                return StorageFull(
                    "the disk that holds the data is full; nothing was changed: free some space, then repeat"
                )
            if _code(error) & 0xFF in _NOT_NOW:
                return Unavailable(f"the database cannot be used now ({error}); nothing was changed: repeat later")
        return error

    def broken(self, connection: sqlite3.Connection) -> bool:
        return not connection.in_transaction

    def lost_race(self, error: Exception) -> bool:
        return False

    def lost_locks(self, error: Exception) -> bool:
        return False


# A quota, a limit on file sizes and some network filesystems answer a full disk with a plain write error.
_NO_SPACE = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_FSYNC,
}

_NOT_NOW = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PROTOCOL,
}


def is_no_space(error: sqlite3.Error) -> bool:
    return _code(error) in _NO_SPACE


def _code(error: sqlite3.Error) -> int:
    """SQLite's own number; the driver's own errors have none."""
    return getattr(error, "sqlite_errorcode", 0)


class PostgreSQL:
    name = "postgresql"

    def __init__(self, url: str) -> None:
        self.url = url
        self.dialect: sa.Dialect = postgresql.psycopg.dialect()  # type: ignore[no-untyped-call]

    def connect(self, *, writes: bool) -> Connection:
        import psycopg

        try:
            connection = psycopg.connect(
                self.url, autocommit=True, connect_timeout=10, keepalives_idle=15, tcp_user_timeout=30_000
            )
            # A server that was stopped in the middle of a batch must not hold up the others for ever.
            connection.execute("SET lock_timeout = '20s'")
            connection.execute("SET idle_in_transaction_session_timeout = '15s'")
            return connection
        except psycopg.OperationalError as error:
            raise Unavailable(f"PostgreSQL does not answer: {error}") from None

    def begin(self, *, writes: bool) -> str:
        return "BEGIN" if writes else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def before_numbering(self, cursor: Cursor) -> None:
        cursor.execute(f"SELECT pg_advisory_xact_lock({_EVENTS_LOCK})")

    def after_numbering(self, cursor: Cursor, seq: int) -> None:
        cursor.execute(f"NOTIFY ringfence_events, '{seq:d}'")

    def translate(self, error: Exception) -> Exception:
        import psycopg

        if isinstance(error, psycopg.errors.DiskFull):
            return StorageFull("the database's disk is full; nothing was changed: free some space, then repeat")
        if self.lost_locks(error) or isinstance(error, psycopg.errors.LockNotAvailable):
            return Unavailable(f"other servers hold what this needs ({error}); nothing was changed: repeat in a moment")
        if isinstance(error, psycopg.OperationalError):
            return Unavailable(f"PostgreSQL does not answer: {error}")
        return error

    def broken(self, connection: Any) -> bool:
        return bool(connection.closed) or connection.info.transaction_status == 0

    def lost_race(self, error: Exception) -> bool:
        import psycopg

        return isinstance(error, psycopg.errors.UniqueViolation | psycopg.errors.ForeignKeyViolation)

    def lost_locks(self, error: Exception) -> bool:
        import psycopg

        return isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure)


class Transaction:
    """What a use case may do: run statements, and record the events that tell of it."""

    def __init__(self, backend: Backend, cursor: Cursor, now: int) -> None:
        self.now = now
        self.drafts: list[Draft] = []
        self._backend = backend
        self._cursor = cursor

    def row(self, query: Query, /, **params: Any) -> Row | None:
        self._execute(query, params)
        found: Row | None = self._cursor.fetchone()
        return found

    def rows(self, query: Query, /, **params: Any) -> list[Row]:
        self._execute(query, params)
        found: list[Row] = self._cursor.fetchall()
        return found

    def run(self, query: Query, /, **params: Any) -> int:
        """The number of rows that were changed."""
        self._execute(query, params)
        return self._cursor.rowcount

    def run_many(self, query: Query, many: Sequence[dict[str, Any]]) -> None:
        text, literals = query.on(self._backend)
        self._cursor.executemany(text, [literals | one for one in many] if literals else many)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part that, when it fails, is undone alone: its statements and what it recorded."""
        told = len(self.drafts)
        self._cursor.execute("SAVEPOINT part")
        try:
            yield
        except Exception:
            self._cursor.execute("ROLLBACK TO part")
            self._cursor.execute("RELEASE part")
            del self.drafts[told:]
            raise
        self._cursor.execute("RELEASE part")

    def record(
        self,
        kind: str,
        by: Actor,
        data: dict[str, Any],
        *,
        project: str | None = None,
        agent: str | None = None,
        subject: str | None = None,
    ) -> None:
        """Tell of what this transaction does: the event is committed with it, or not at all."""
        self.drafts.append(Draft.of(kind, by, data, project, agent, subject))

    def _execute(self, query: Query, params: dict[str, Any]) -> None:
        text, literals = query.on(self._backend)
        self._cursor.execute(text, literals | params if literals else params)


UseCase = Callable[[Transaction], T]


@dataclass(slots=True)
class _Job(Generic[T]):
    use_case: UseCase[T]
    by: Actor
    answer: "asyncio.Future[T]"
    value: T | None = None
    error: Exception | None = None

    def deliver(self) -> None:
        if self.answer.done():  # the caller went away; what it asked for is done all the same
            return
        if self.error is not None:
            self.answer.set_exception(self.error)
        else:
            self.answer.set_result(self.value)  # type: ignore[arg-type]


Listener = Callable[[list[Event]], None]  # on the loop, with the events of a batch, before anybody is answered
OnRefusal = Callable[[Refused, Actor, int], list[Draft]]  # on the writer's thread: what to record of it


class Database:
    """`await db.write(use_case)` and `await db.read(use_case)`; `open` before, `close` after."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self.backend = backend
        self.clock = clock
        self.on_commit: list[Listener] = []
        self.on_refusal: OnRefusal = lambda refusal, by, now: [Draft.of_refusal(refusal, by)]
        self.on_settled: Callable[[bool], None] = lambda committed: None  # on the writer's thread: a batch is over
        self.batches = 0
        self.commits = 0
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self.waiting = 0
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._local = threading.local()
        self._read_connections: list[Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        connection = await self._loop.run_in_executor(None, lambda: self.backend.connect(writes=True))
        self._writer = threading.Thread(target=self._write_batches, args=(connection,), name="writer", daemon=True)
        self._writer.start()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")

    async def close(self) -> None:
        """Commits what waits, then stops."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        self._jobs.put(None)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, writer.join)
        readers, self._readers = self._readers, None
        if readers is not None:
            await loop.run_in_executor(None, readers.shutdown)
        for connection in self._read_connections:
            connection.close()
        self._read_connections.clear()

    async def write(self, use_case: UseCase[T], by: Actor = SYSTEM) -> T:
        """Run the use case in the next batch; its value after the commit, or its error after its rollback."""
        return await self.submit(use_case, by)

    def submit(self, use_case: UseCase[T], by: Actor = SYSTEM) -> "asyncio.Future[T]":
        """The same, for who has something else to do meanwhile."""
        if self._writer is None:
            raise Unavailable("the server is stopping")
        if self.waiting >= WAITING:
            raise Unavailable(f"{WAITING} changes are waiting to be written; repeat in a moment")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.waiting += 1
        self._jobs.put(_Job(use_case, by, answer))
        return answer

    async def read(self, use_case: UseCase[T]) -> T:
        """Run the use case on a consistent snapshot; it cannot change anything."""
        if self._readers is None:
            raise Unavailable("the server is stopping")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, use_case)

    def _read(self, use_case: UseCase[T]) -> T:
        for attempt in itertools.count(1):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self.backend.connect(writes=False)
                self._read_connections.append(connection)
            cursor = connection.cursor()
            try:
                cursor.execute(self.backend.begin(writes=False))
                value = use_case(Transaction(self.backend, cursor, self.clock.now()))
                cursor.execute("COMMIT")
                return value
            except Exception as error:
                self._local.connection = self._recovered(connection, writes=False)
                if self._local.connection is None:
                    self._read_connections.remove(connection)
                    if attempt == 1:  # it died while idle, most likely
                        continue
                ours = self.backend.translate(error)
                raise ours from (None if ours is error else error)
            finally:
                cursor.close()
        raise AssertionError("unreachable")

    def _recovered(self, connection: Any, *, writes: bool) -> Any:
        """The connection out of its transaction; a new one (None for a reader) where it died."""
        try:
            if not self.backend.broken(connection):
                connection.cursor().execute("ROLLBACK")
            if not self._lost(connection):
                return connection
        except Exception:
            log.warning("connection_lost", exc_info=True)
        try:
            connection.close()
        except Exception:
            log.debug("connection_close_failed", exc_info=True)
        return self.backend.connect(writes=True) if writes else None

    # The writer's thread ------------------------------------------------------------------------------------------

    def _write_batches(self, connection: Any) -> None:
        stopping = False
        while not stopping:
            jobs: list[_Job[Any]] = []
            job = self._jobs.get()
            while job is not None:
                jobs.append(job)
                if len(jobs) >= BATCH:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            stopping = job is None
            if jobs:
                connection = self._write_batch(connection, jobs)
        connection.close()

    def _write_batch(self, connection: Any, jobs: list[_Job[Any]]) -> Any:
        """Commit the jobs together, deliver their answers, and return the connection for the next batch."""
        events: list[Event] = []
        for attempt in itertools.count(1):
            committing = False
            try:
                cursor = connection.cursor()
                events = self._run_all(connection, cursor, jobs)
                committing = True
                cursor.execute("COMMIT")
                cursor.close()
                self.on_settled(True)
            except Exception as error:
                self.on_settled(False)
                events = []
                lost = self._lost(connection)
                repeat = self.backend.lost_race(error) or self.backend.lost_locks(error) or (lost and not committing)
                try:
                    connection = self._recovered(connection, writes=True)
                except Exception as unreachable:
                    log.error("reconnect_failed: %s", unreachable)
                    repeat = False
                if repeat and attempt < BATCH_ATTEMPTS:
                    continue
                ours = self.backend.translate(error)
                if lost and committing:
                    ours = Unavailable(
                        "the connection to the database broke while this was committed: look whether it was"
                    )
                log.error("batch_failed", exc_info=error, extra={"jobs": len(jobs)})
                for job in jobs:
                    job.value, job.error = None, ours
            break
        self.batches += 1
        self.commits += len(jobs)
        self._deliver(jobs, events)
        return connection

    def _lost(self, connection: Any) -> bool:
        return bool(getattr(connection, "closed", False))

    def _run_all(self, connection: Any, cursor: Cursor, jobs: list[_Job[Any]]) -> list[Event]:
        """Everything but the commit."""
        now = self.clock.now()
        cursor.execute(self.backend.begin(writes=True))
        drafts: list[Draft] = []
        for job in jobs:
            drafts += self._run(connection, cursor, job, now)
        events: list[Event] = []
        if drafts:
            self.backend.before_numbering(cursor)
            numbering = Transaction(self.backend, cursor, now)
            seq, last = numbering.row(HEAD_QUERY) or (0, b"")
            events = list(chained(drafts, now, seq, bytes(last)))
            numbering.run_many(INSERT_QUERY, [event.columns() for event in events])
            self.backend.after_numbering(cursor, events[-1].seq)
        return events

    def _run(self, connection: Any, cursor: Cursor, job: _Job[Any], now: int) -> Iterable[Draft]:
        """One use case in its savepoint; what it, or its refusal, wants recorded."""
        for attempt in itertools.count(1):
            transaction = Transaction(self.backend, cursor, now)
            job.value = job.error = None
            cursor.execute("SAVEPOINT use_case")
            try:
                job.value = job.use_case(transaction)
                cursor.execute("RELEASE use_case")
                return transaction.drafts
            except Exception as error:
                if self.backend.broken(connection) or self.backend.lost_locks(error):
                    raise
                cursor.execute("ROLLBACK TO use_case")
                cursor.execute("RELEASE use_case")
                if attempt < USE_CASE_ATTEMPTS and self.backend.lost_race(error):
                    continue
                job.error = self.backend.translate(error)
                if isinstance(error, StopIteration):  # which no future can carry
                    job.error = RuntimeError("the use case raised StopIteration")
                if isinstance(error, Refused):
                    error.recorded = True
                    return self.on_refusal(error, job.by, now)
                return []
        raise AssertionError("unreachable")

    def _deliver(self, jobs: list[_Job[Any]], events: list[Event]) -> None:
        def on_loop() -> None:
            self.waiting -= len(jobs)
            if events:
                for listener in self.on_commit:
                    listener(events)
            for job in jobs:
                job.deliver()

        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(on_loop)
        except RuntimeError:  # the loop is closed: nobody is left to answer
            log.debug("answers_undelivered", extra={"jobs": len(jobs)})


HEAD_QUERY = Query(HEAD)
INSERT_QUERY = Query(INSERT)


def connect(database_url: str, data: Path, clock: Clock) -> Database:
    backend = PostgreSQL(database_url) if database_url else SQLite(data / "ringfence.db")
    return Database(backend, clock)
