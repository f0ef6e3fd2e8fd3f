"""A program in a sandbox on this terminal, or in this pipe: its output, our input, signals and the window's size.

Signals are handed to a thread of their own: what a handler may do between any two steps of the program is little.
"""

import contextlib
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringfence.sdk import Process

PIECE = 64 << 10
PATIENCE = 3  # interrupts after which we leave


def terminal_size() -> tuple[int, int]:
    """Rows and columns: the terminal's own, and where it does not say, what the environment says."""
    columns, rows = shutil.get_terminal_size((80, 24))
    with contextlib.suppress(OSError):
        own = os.get_terminal_size(sys.stdout.fileno())
        columns, rows = own.columns or columns, own.lines or rows
    return rows, columns


class Relay:
    """`raw`: every key goes there. `feeds`: what comes on standard input does."""

    def __init__(self, process: "Process", *, raw: bool, feeds: bool) -> None:
        self._process, self._raw, self._feeds = process, raw, feeds
        self._to_do: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._interrupts = 0

    def run(self) -> Any:
        """To its end, which is the answer."""
        threads = [threading.Thread(target=self._work, daemon=True)]
        threads += [threading.Thread(target=self._feed, daemon=True)] if self._feeds else []
        with self._listening(), self._raw_terminal():
            for thread in threads:
                thread.start()
            try:
                for output in self._process:
                    stream = sys.stdout.buffer if output.channel == "stdout" else sys.stderr.buffer
                    stream.write(output.data)
                    stream.flush()
            finally:
                self._to_do.put(None)
        return self._process.wait()

    def _work(self) -> None:
        while (what := self._to_do.get()) is not None:
            with contextlib.suppress(Exception):  # it has ended, which is told where its output is read
                what()

    def _feed(self) -> None:
        with contextlib.suppress(Exception):
            while data := os.read(0, PIECE):
                self._process.write(data)
            if not self._raw:
                self._process.end_input()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        handlers: dict[int, Callable[[int, FrameType | None], None]] = {
            signal.SIGINT: self._interrupted, signal.SIGTERM: self._terminated, signal.SIGHUP: self._terminated,
        }  # fmt: skip
        if self._raw:
            handlers[signal.SIGWINCH] = lambda *_: self._to_do.put(lambda: self._process.resize(*terminal_size()))
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts >= PATIENCE:
            raise KeyboardInterrupt
        self._to_do.put(lambda: self._process.signal("INT"))

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self._to_do.put(lambda: self._process.signal(number))

    @contextlib.contextmanager
    def _raw_terminal(self) -> Iterator[None]:
        if not self._raw:
            yield
            return
        import termios
        import tty

        before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)  # what was typed already is for the program
        try:
            yield
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is under way as Ctrl-C does, so that it is cleaned up after."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
