"""What can be done to a data folder while no server runs on it. Imported when needed, for it imports the kernel.

Run by root, the work is done by the server's user, in a process of its own: what lies in the folder is the server's,
and may have been laid there for root to stumble over. What comes back is bytes, and a sentence where it failed.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from ringfence.cli.problems import Conflict, NotFound, Problem, of_status
from ringfence.cli.running import load_settings
from ringfence.kernel import migrations
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.auth.routes import NewToken, token_view
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.backups import routes as backup_routes
from ringfence.kernel.backups import service as backups
from ringfence.kernel.clock import Clock
from ringfence.kernel.database import UseCase, connect
from ringfence.kernel.errors import RingfenceError
from ringfence.kernel.events.service import Verdict, verify
from ringfence.privileges.errand import Failed, Work, done_as
from ringfence.settings import Settings
from ringfence.supervisor import Lock, StartError, make_over, servers_user

WAITING = 5.0  # seconds for another command that does the same

# Whoever can write to the folder can do anything with it: the kernel of the machine has let them in.
HOST = Principal(TokenKind.API, "host", Role.ADMIN)


def create_token(
    settings: Settings, name: str, role: str, *, projects: Sequence[str] | None, note: str, days: float | None
) -> NewToken:
    def make(tx: Any) -> NewToken:
        auth = Auth(database, settings)
        made, secret = auth.create_token(tx, HOST, name, Role(role), projects=projects, note=note, days=days)
        return {**token_view(made), "token": secret}

    def work() -> Iterator[bytes]:
        migrations.upgrade(settings)
        yield json.dumps(asyncio.run(_write(database, make))).encode()

    database = connect(settings.database, settings.data, Clock())
    with _alone(settings.data) as done:
        made: NewToken = json.loads(b"".join(done(work)))
        return made


@contextlib.contextmanager
def backed_up(data: Path) -> Iterator[Iterator[bytes]]:
    """A backup of the folder, piece by piece."""
    if not (data / backups.DATABASE).exists():
        if load_settings(data=data).database:
            raise Conflict(backup_routes.ON_POSTGRESQL)
        raise NotFound(f"{data} holds no database of Ringfence: name its folder with --data")

    def work() -> Iterator[bytes]:
        folder = backups.take(data)
        try:
            yield from backups.chunks(folder)
        finally:
            backups.discard(folder)

    with _alone(data) as done:
        yield done(work)


def restored(source: IO[bytes], data: Path) -> dict[str, int]:
    """How many files and events the folder holds now."""

    def work() -> Iterator[bytes]:
        files = backups.restore(source, data)
        settings = load_settings(data=data, database="")
        migrations.upgrade(settings)
        verdict = asyncio.run(_verify(connect("", data, Clock())))
        yield json.dumps({"files": files, "events": verdict.checked, "problem": verdict.problem}).encode()

    with _alone(data) as done:
        found = json.loads(b"".join(done(work)))
    if problem := found.pop("problem"):
        raise Problem(f"it is restored, but its log is not what was written: {problem}")
    return dict(found)


async def _verify(database: Any) -> Verdict:
    await database.open()
    try:
        return await verify(database)
    finally:
        await database.close()


@contextlib.contextmanager
def _alone(data: Path) -> Iterator[Callable[[Work], Iterator[bytes]]]:
    """While nobody else works on the folder, what does some; errors of the kernel as the command tells them."""
    lock = Lock(data)
    _take(lock)
    try:
        user = servers_user()
        make_over(data, user)
        yield lambda work: work() if user is None else done_as(user, data, work)
    except StartError as error:
        raise Problem(str(error)) from None
    except Failed as error:
        raise of_status(error.status)(error.message) from None
    except RingfenceError as error:
        raise of_status(error.status)(error.message) from None
    finally:
        lock.release()


async def _write(database: Any, use_case: UseCase[NewToken]) -> NewToken:
    await database.open()
    try:
        made: NewToken = await database.write(use_case)
        return made
    finally:
        await database.close()


def _take(lock: Lock) -> None:
    give_up = time.monotonic() + WAITING
    try:
        while not lock.take():
            if time.monotonic() > give_up:
                raise Conflict(f"process {Lock.holder(lock.data)} works on {lock.data}: wait for it, then repeat")
            time.sleep(0.02)
    except StartError as error:
        raise Problem(str(error)) from None
