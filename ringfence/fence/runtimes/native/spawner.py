"""The spawner: the one process that stays root. It does to sandboxes what the server asks by `spawning`'s operations.

    supervisor ──doorstep──► socket pairs, anew whenever the server or the spawner was started
    server ──a pair──► thread: read, check, one act on a sandbox at a time, answer, a line in DATA/run/spawner.log

Started by the supervisor as `python -m ringfence.fence.runtimes.native.spawner READY_FD ORDER_FD`. It lives until its
supervisor does not. New pairs end the old ones: what an earlier server asked and what has not begun is refused, and
what has begun is waited for by whoever asks about the same sandbox next.
"""

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringfence.fence.runtimes.model import Found
from ringfence.fence.runtimes.native import spawning
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.ids import Ids
from ringfence.fence.runtimes.native.spawning import Garbled, Opened, Request
from ringfence.fence.runtimes.native.tools import Tools
from ringfence.kernel.errors import RingfenceError, Unavailable
from ringfence.privileges import view
from ringfence.supervisor import Log

log = logging.getLogger("ringfence.spawner")


class Turns:
    """One act on a sandbox at a time."""

    def __init__(self) -> None:
        self._turns: dict[str, threading.Lock] = {}
        self._wanted: Counter[str] = Counter()
        self._mutex = threading.Lock()

    @contextlib.contextmanager
    def of(self, sandbox: str) -> Iterator[None]:
        with self._mutex:
            turn = self._turns.setdefault(sandbox, threading.Lock())
            self._wanted[sandbox] += 1
        try:
            with turn:
                yield
        finally:
            with self._mutex:
                self._wanted[sandbox] -= 1
                if not self._wanted[sandbox]:
                    del self._wanted[sandbox], self._turns[sandbox]


class Audit:
    """A line for each act and each refusal, where the server can neither read nor write."""

    def __init__(self, file: Log) -> None:
        self._file = file
        self._mutex = threading.Lock()

    def note(self, operation: str, sandbox: str, began: float, outcome: str) -> None:
        line = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "operation": operation, "sandbox": sandbox,
            "took_ms": round((time.monotonic() - began) * 1000, 1), "outcome": outcome,
        }  # fmt: skip
        with self._mutex:
            self._file.write(json.dumps(line).encode() + b"\n")


class Desk:
    """Answers requests, whatever they are."""

    def __init__(self, make: Callable[[], Boxes], audit: Audit) -> None:
        self._make = make
        self._audit = audit
        self._turns = Turns()
        self._boxes: Boxes | None = None
        self._opening = threading.Lock()

    def answer(self, raw: bytes, is_over: Callable[[], bool]) -> bytes | None:
        """`is_over`: who asked is gone, and another server asks. None: nobody could be answered."""
        began = time.monotonic()
        try:
            number, rest = spawning.read_number(raw)
        except Garbled as error:
            self._audit.note("garbled", "", began, str(error))
            return None
        operation = sandbox = ""
        try:
            request = spawning.read_request(number, rest)
            operation, sandbox = request.operation, _subject(request)
            answer = spawning.done(request, self._do(request, sandbox, is_over))
            if len(answer) > spawning.ANSWER_MOST:
                raise Unavailable(f"the answer to {operation} has {len(answer)} bytes, which are too many")
        except Exception as error:
            if not isinstance(error, RingfenceError | OSError):
                log.exception("%s of %s failed", operation, sandbox)
            self._audit.note(operation or "refused", sandbox, began, f"{type(error).__name__}: {error}"[:400])
            return spawning.refused(number, error)
        if spawning.OPERATIONS[operation].acts:
            self._audit.note(operation, sandbox, began, spawning.DONE)
        return answer

    def _do(self, request: Request, sandbox: str, is_over: Callable[[], bool]) -> object:
        boxes = self._opened()
        if request.operation == "open":
            return Opened(folder=str(boxes.folder), capabilities=boxes.capabilities(), images=boxes.images())
        if request.operation == "find_page":
            return self._page(boxes, *request.arguments)
        act = getattr(boxes, request.operation)
        if not sandbox:
            return act(*request.arguments)
        with self._turns.of(sandbox):
            if is_over():
                raise Unavailable("another server has taken over")
            return act(*request.arguments)

    def _opened(self) -> Boxes:
        with self._opening:
            if self._boxes is None:
                boxes = self._make()
                boxes.open()
                # What is to be removed may be a million files: nobody waits for that.
                threading.Thread(target=boxes.sweep, name="sweep", daemon=True).start()
                self._boxes = boxes
            return self._boxes

    def _page(self, boxes: Boxes, after: str) -> list[Found]:
        names = [name for name in boxes.names() if name > after][: spawning.PAGE]
        found = []
        for name in names:
            with self._turns.of(name):
                if (one := boxes.found(name)) is not None:
                    found.append(one)
        return found


def _subject(request: Request) -> str:
    if not request.arguments or request.operation in ("lives", "find_page"):
        return ""
    subject: str = getattr(request.arguments[0], "id", request.arguments[0])
    return subject


@dataclass(slots=True)
class Caller:
    """A server, as long as its socket pairs are the newest."""

    desk: Desk
    pairs: list[socket.socket]
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        for pair in self.pairs:
            threading.Thread(target=self._serve, args=(pair,), daemon=True).start()

    def end(self) -> None:
        self._over.set()
        for pair in self.pairs:
            with contextlib.suppress(OSError):
                pair.shutdown(socket.SHUT_RDWR)

    def _serve(self, pair: socket.socket) -> None:
        # Without room for ancillary data, a descriptor that is sent along is dropped by the kernel.
        with pair, contextlib.suppress(OSError):
            while raw := pair.recv(spawning.REQUEST_MOST + 1):
                if (answer := self.desk.answer(raw, self._over.is_set)) is not None:
                    pair.send(answer)


def serve(doorstep: socket.socket, desk: Desk) -> None:
    """Until the supervisor has gone."""
    caller: Caller | None = None
    while pairs := receive_pairs(doorstep):
        if caller is not None:
            caller.end()
        caller = Caller(desk, pairs)
        caller.begin()


def receive_pairs(doorstep: socket.socket) -> list[socket.socket]:
    """What the supervisor hands over; empty when it is gone."""
    _, descriptors, _, _ = socket.recv_fds(doorstep, 16, spawning.AT_ONCE, socket.MSG_CMSG_CLOEXEC)
    return [socket.socket(fileno=descriptor) for descriptor in descriptors]


# The process ----------------------------------------------------------------------------------------------------------


def main() -> None:
    ready_fd, order_fd = map(int, sys.argv[1:3])
    with os.fdopen(order_fd, "rb") as file:
        order: dict[str, Any] = json.load(file)
    data = Path(order["data"])
    audit = Audit(Log(data / "run/spawner.log"))
    host = os.open("/", os.O_PATH | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # where we may not, opening says what sandboxes cannot reach
        view.enter([*view.program(), view.Needed(data, writable=True)])
    os.umask(0o077)
    os.chdir("/")

    def make() -> Boxes:
        ids = Ids(order["uid_base"], host=host)
        return Boxes(data / order["folder"], Tools.find(), ids, listener=order["listener"])

    os.write(ready_fd, b"{}\n")
    os.close(ready_fd)
    serve(socket.socket(fileno=order["doorstep"]), Desk(make, audit))


if __name__ == "__main__":
    main()
