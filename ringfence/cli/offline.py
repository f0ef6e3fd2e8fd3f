"""What can be done to a data folder while no server runs on it. Imported when needed, for it imports the kernel."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ringfence.cli.problems import Conflict, Problem, of_status
from ringfence.kernel import migrations
from ringfence.kernel.auth.model import Principal, Role, TokenKind
from ringfence.kernel.auth.routes import NewToken, token_view
from ringfence.kernel.auth.service import Auth
from ringfence.kernel.clock import Clock
from ringfence.kernel.database import UseCase, connect
from ringfence.kernel.errors import RingfenceError
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
    with_lock = Lock(settings.data)
    _take(with_lock)
    try:
        migrations.upgrade(settings)
        return asyncio.run(_write(database, make))
    except RingfenceError as error:
        raise of_status(error.status)(error.message) from None
    finally:
        with_lock.release()


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
