"""Checks of sandboxes' fences, from inside.

    find ──► the probe lies in /run/ringfence ──► it runs, told of the host on its input ──► judged ──► event

The probe is put where the sandbox can only execute it, and without the right to be read: so nobody inside can replace
it, trace it, or see what it was told. It is removed when it has run.
"""

import asyncio
import contextlib
import errno
import os
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path

from ringfence.fence.link.model import Channel, Exit, InputClosed, Link, Session, Start
from ringfence.fence.lives import Lives
from ringfence.fence.model import Sandbox, User
from ringfence.fence.posture import host
from ringfence.fence.posture.model import Report, Said, Verdict, judged
from ringfence.fence.service import Fence
from ringfence.kernel.auth.model import Principal
from ringfence.kernel.database import Database, Transaction
from ringfence.kernel.errors import Unavailable
from ringfence.settings import Settings

PROBE = Path(__file__).parents[1] / "warden" / "probe"  # where warden/build.py puts it
WITHIN = 30.0
MOST_SAID = 128 << 10
TRIES = 5  # whoever forks while the probe is written holds it open for a moment, and then it cannot be executed


class Posture:
    def __init__(self, settings: Settings, database: Database, fence: Fence, lives: Lives) -> None:
        self._settings = settings
        self._database = database
        self._fence = fence
        self._lives = lives

    async def check(self, by: Principal, ident: str) -> Report:
        """Try its fence from inside; the event is written when this returns."""
        sandbox = await self._database.read(lambda tx: self._fence.find_to_use(tx, by, ident))
        link = await self._lives.link(sandbox)
        began = time.monotonic()
        root = sandbox.user is User.ROOT
        given = await asyncio.to_thread(host.told, self._settings.port, self._settings.data, root=root)
        said = Said.read(await self._probed(link, sandbox, given))
        held = {} if sandbox.life is None else await asyncio.to_thread(host.held, sandbox.life.pid)
        findings = judged(said, sandbox, host.Host.here(), held)
        report = Report(findings=tuple(findings), seconds=round(time.monotonic() - began, 3))
        await self._database.write(lambda tx: _tell(tx, by, sandbox, report), by.actor)
        return report

    async def _probed(self, link: Link, sandbox: Sandbox, given: bytes) -> bytes:
        folder = self._lives.link_folder(sandbox)
        for _ in range(TRIES):
            async with _placed(folder) as name:
                said, exit = await _run(link, sandbox, f"/run/ringfence/{name}", given)
            if exit.errno != errno.ETXTBSY:
                break
        if exit.errno:
            raise Unavailable(f"the probe could not be run in sandbox {sandbox.name!r}: {exit.error}", code="no_probe")
        return said


@contextlib.asynccontextmanager
async def _placed(folder: Path) -> AsyncIterator[str]:
    name = f"probe-{secrets.token_hex(8)}"
    try:
        await asyncio.to_thread(_write, folder / name)
        yield name
    finally:
        (folder / name).unlink(missing_ok=True)


def _write(path: Path) -> None:
    try:
        program = PROBE.read_bytes()
    except FileNotFoundError:
        raise Unavailable(f"{PROBE} is not there: build it with `python warden/build.py`", code="no_probe") from None
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o111)
    with os.fdopen(fd, "wb") as file:
        file.write(program)
        os.fchmod(fd, 0o111)


async def _run(link: Link, sandbox: Sandbox, path: str, given: bytes) -> tuple[bytes, Exit]:
    start = Start(id=os.urandom(16), argv=(path.encode(),), env=(b"PATH=/usr/bin:/bin",), stdin=True, timeout=WITHIN)
    said = bytearray()
    try:
        async with asyncio.timeout(WITHIN + 5):
            session = await link.start(start)
            feeding = asyncio.ensure_future(_feed(session, given))
            async for channel, data in session.output():
                if channel is Channel.OUT and len(said) < MOST_SAID:
                    said += data
            feeding.cancel()
            return bytes(said), await session.exit()
    except TimeoutError:
        raise Unavailable(f"the probe did not end within {WITHIN:.0f} s: repeat", code="no_probe") from None


async def _feed(session: Session, given: bytes) -> None:
    with contextlib.suppress(InputClosed):
        await session.send(given)
        await session.end_input()


def _tell(tx: Transaction, by: Principal, sandbox: Sandbox, report: Report) -> None:
    failed = report.of(Verdict.FAIL)
    told = {
        "sandbox": sandbox.id, "name": sandbox.name, "node": sandbox.node, "state": sandbox.state,
        "verdict": report.verdict, "failed": failed, "warned": report.of(Verdict.WARN),
        "passed": len(report.of(Verdict.PASS)), "alert": bool(failed),
    }  # fmt: skip
    tx.record("sandbox_checked", by.actor, told, project=sandbox.project, agent=sandbox.agent, subject=sandbox.id)
