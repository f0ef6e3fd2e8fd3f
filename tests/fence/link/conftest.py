import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop

from ringfence.fence.link.links import WardenLink, WardenLinks
from ringfence.fence.link.model import Start
from tests.fence.fake_files import Files
from tests.fence.fake_warden import FakeWarden
from tests.fence.ledger import MemoryLedger
from tests.fence.programs import PROGRAMS

KEY = bytes(range(32))


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the server runs on."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class Ends:
    """Both ends of a link, and how to replace the server's."""

    folder: Path
    links: WardenLinks
    ledger: MemoryLedger
    warden: FakeWarden
    numbers: "list[int]" = field(default_factory=lambda: [0])

    async def link(self) -> WardenLink:
        return await self.links.link("sbx", 5)

    async def restart_server(self) -> WardenLink:
        """As after kill -9: all that is left is the ledger."""
        await self.links.close()
        self.links = WardenLinks()
        await self.links.listen("sbx", self.folder, KEY, self.ledger)
        return await self.link()

    def start(self, *argv: str, known: bool = True, **fields: object) -> Start:
        self.numbers[0] += 1
        id = self.numbers[0].to_bytes(16, "big")
        if known:
            self.ledger.known.add(id)
        return Start(id=id, argv=tuple(map(str.encode, argv)), **fields)  # type: ignore[arg-type]


@pytest.fixture
async def ends(tmp_path: Path) -> AsyncIterator[Ends]:
    folder = tmp_path / ("a long name " * 12)  # longer than a socket's address may be
    folder.mkdir()
    links, ledger = WardenLinks(), MemoryLedger()
    await links.listen("sbx", folder, KEY, ledger)
    async with FakeWarden(folder / "link.sock", KEY, PROGRAMS, Files()) as warden:
        found = Ends(folder, links, ledger, warden)
        yield found
        assert warden.refused == []
    await found.links.close()
