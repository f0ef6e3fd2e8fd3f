"""The spawner in a process of its own, started and introduced as the supervisor does it."""

import json
import socket
from pathlib import Path
from typing import Any

from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.spawner import Audit, Desk, serve
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.privileges.users import FIXED
from ringfence.supervisor import Log, introduce
from tests.forks import forks


def _spawn(doorstep: socket.socket, folder: Path, programs: Tools, listener: int, log: Path) -> None:
    serve(doorstep, Desk(lambda: Boxes(folder, programs, listener=listener), Audit(Log(log))))


class SpawnerProcess:
    def __init__(self, folder: Path, programs: Tools, listener: int = FIXED) -> None:
        self._made = (folder, programs, listener, folder.parent / "spawner.log")
        self._caller: socket.socket | None = None
        self.start()

    def start(self) -> None:
        self._doorstep, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = forks.Process(target=_spawn, args=(theirs, *self._made), daemon=True)
        self.process.start()
        theirs.close()
        if self._caller is not None:
            introduce(self._caller, self._doorstep)

    def caller(self) -> socket.socket:
        """The doorstep of a new server; an earlier one is not listened to any more."""
        if self._caller is not None:
            self._caller.close()
        self._caller, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        introduce(self._caller, self._doorstep)
        return theirs

    def pairs(self) -> list[socket.socket]:
        """What a new server is handed."""
        with self.caller() as doorstep:
            found = socket.recv_fds(doorstep, 16, 64)[1]
        return [socket.socket(fileno=descriptor) for descriptor in found]

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._doorstep.close()

    def lines(self) -> list[dict[str, Any]]:
        """What it wrote down."""
        return [json.loads(line) for line in self._made[3].read_text().splitlines()]

    def close(self) -> None:
        self.kill()
        if self._caller is not None:
            self._caller.close()
