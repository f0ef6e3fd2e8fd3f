"""A ledger in memory, that survives the server a test throws away."""

from collections import defaultdict
from collections.abc import Callable

from ringfence.fence.link.model import Channel, Exit


class MemoryLedger:
    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.kept: dict[tuple[bytes, Channel], bytearray] = defaultdict(bytearray)
        self.exits: dict[bytes, Exit] = {}
        self.greetings: list[frozenset[bytes]] = []
        self.forgets: list[Callable[[], None]] = []
        self.forgets_at_once = True

    def greeted(self, sandbox: str, held: frozenset[bytes]) -> None:
        self.greetings.append(held)

    def stored(self, session: bytes) -> tuple[int, int] | None:
        if session not in self.known:
            return None
        return len(self.kept[session, Channel.OUT]), len(self.kept[session, Channel.ERR])

    def keep(self, session: bytes, channel: Channel, data: memoryview) -> int:
        kept = self.kept[session, channel]
        kept += data
        return len(kept)

    def ended(self, session: bytes, exit: Exit, forget: Callable[[], None]) -> None:
        self.exits[session] = exit
        if self.forgets_at_once:
            forget()
        else:
            self.forgets.append(forget)

    def out(self, session: bytes) -> bytes:
        return bytes(self.kept[session, Channel.OUT])
