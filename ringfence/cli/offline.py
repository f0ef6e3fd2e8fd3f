"""What can be done to a data folder while no server runs on it. Imported when needed, for it imports the kernel."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
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
from ringfence.settings import Settings
from ringfence.supervisor import Lock, StartError

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

    database = connect(settings.database, settings.data, Clock())
    with _alone(settings.data):
        migrations.upgrade(settings)
        return asyncio.run(_write(database, make))


@contextlib.contextmanager
def backed_up(data: Path) -> Iterator[Iterator[bytes]]:
    """A backup of the folder, piece by piece."""
    if not (data / backups.DATABASE).exists():
        if load_settings(data=data).database:
            raise Conflict(backup_routes.ON_POSTGRESQL)
        raise NotFound(f"{data} holds no database of Ringfence: name its folder with --data")
    with _alone(data):
        folder = backups.take(data)
        try:
            yield backups.chunks(folder)
        finally:
            backups.discard(folder)


def restored(source: IO[bytes], data: Path) -> dict[str, int]:
    """How many files and events the folder holds now."""
    with _alone(data):
        files = backups.restore(source, data)
        settings = load_settings(data=data, database="")
        migrations.upgrade(settings)
        verdict = asyncio.run(_verify(connect("", data, Clock())))
    if not verdict.ok:
        raise Problem(f"it is restored, but its log is not what was written: {verdict.problem}")
    return {"files": files, "events": verdict.checked}


async def _verify(database: Any) -> Verdict:
    await database.open()
    try:
        return await verify(database)
    finally:
        await database.close()


@contextlib.contextmanager
def _alone(data: Path) -> Iterator[None]:
    """While nobody else works on the folder; errors of the kernel as the command tells them."""
    lock = Lock(data)
    _take(lock)
    try:
        yield
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
