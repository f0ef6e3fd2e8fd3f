"""`Boxes` as the server has it when root runs Ringfence: every act is the spawner's, who is asked over a socket pair.

When the spawner dies, the supervisor starts another and hands over new pairs. What only looks, or is harmless when it
was done already, is asked once more; the rest is an error, as it would be had the machine failed.
"""

import itertools
import os
import socket
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ringfence.fence.model import Blueprint, Cause, Enforced, Image, Life, Stats
from ringfence.fence.runtimes.model import Capabilities, Found
from ringfence.fence.runtimes.native import spawning
from ringfence.fence.runtimes.native.spawning import OPERATIONS, Answer, Garbled, Opened
from ringfence.kernel.errors import Unavailable

PAIRS_WITHIN = 30.0  # seconds: a spawner that died is started again


class _Gone(Exception):
    """The spawner has closed this pair."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    socket: socket.socket
    set: int  # which of the sets that were handed over


class Spawned:
    def __init__(self, doorstep: socket.socket) -> None:
        """`doorstep`: where the supervisor hands socket pairs over."""
        self._doorstep = doorstep
        self._numbers = itertools.count(1)
        self._idle: list[_Pair] = []
        self._set = 0
        self._changed = threading.Condition()
        self._what: Opened | None = None

    def open(self) -> None:
        os.set_inheritable(self._doorstep.fileno(), False)
        threading.Thread(target=self._receive, name="spawner pairs", daemon=True).start()
        self._what = self._ask("open")

    def sweep(self) -> None:
        """The spawner does that by itself."""

    @property
    def _opened(self) -> Opened:
        assert self._what is not None, "open it first"
        return self._what

    def capabilities(self) -> Capabilities:
        return self._opened.capabilities

    def images(self) -> list[str]:
        return self._opened.images

    def link_folder(self, sandbox: str) -> Path:
        return Path(self._opened.folder, "boxes", sandbox, "run")

    def import_image(self, name: str, archive: str, most: int) -> Image:
        image: Image = self._ask("import_image", name, archive, most)
        return image

    def forget_image(self, name: str) -> None:
        self._ask("forget_image", name)

    def create(self, blueprint: Blueprint) -> Enforced:
        enforced: Enforced = self._ask("create", _without_env(blueprint))
        return enforced

    def start(self, blueprint: Blueprint, key: bytes) -> Life:
        life: Life = self._ask("start", _without_env(blueprint), key)
        return life

    def stop(self, sandbox: str) -> None:
        self._ask("stop", sandbox)

    def pause(self, sandbox: str) -> None:
        self._ask("pause", sandbox)

    def resume(self, sandbox: str) -> None:
        self._ask("resume", sandbox)

    def destroy(self, sandbox: str) -> None:
        self._ask("destroy", sandbox)

    def found(self, sandbox: str) -> Found | None:
        found: Found | None = self._ask("found", sandbox)
        return found

    def find_all(self) -> list[Found]:
        found: list[Found] = []
        while page := self._ask("find_page", found[-1].id if found else ""):
            found += page
        return found

    def cause(self, sandbox: str) -> Cause:
        cause: Cause = self._ask("cause", sandbox)
        return cause

    def lives(self, life: Life) -> bool:
        lives: bool = self._ask("lives", life)
        return lives

    def stats(self, sandbox: str) -> Stats:
        stats: Stats = self._ask("stats", sandbox)
        return stats

    def said(self, sandbox: str) -> bytes:
        said: bytes = self._ask("said", sandbox)
        return said

    def snapshot(self, sandbox: str, name: str) -> int:
        size: int = self._ask("snapshot", sandbox, name)
        return size

    def forget_snapshot(self, name: str) -> None:
        self._ask("forget_snapshot", name)

    # Asking

    def _ask(self, operation: str, *arguments: object) -> Any:
        try:
            return self._ask_once(operation, *arguments)
        except _Gone:
            if OPERATIONS[operation].again:
                try:
                    return self._ask_once(operation, *arguments)
                except _Gone:
                    pass
            raise Unavailable(
                f"the spawner ended while it was to {operation} a sandbox: repeat it", code="spawner"
            ) from None

    def _ask_once(self, operation: str, *arguments: object) -> Any:
        number = next(self._numbers)
        message = spawning.request(number, operation, *arguments)
        within = OPERATIONS[operation].within
        pair = self._sent(message, within)
        try:
            answer = _answer(pair.socket, number, operation, time.monotonic() + within)
        except TimeoutError:
            self._put_back(pair, 0)
            raise Unavailable(
                f"the spawner did not {operation} a sandbox within {within:.0f} s", code="spawner"
            ) from None
        except (OSError, Garbled):
            pair.socket.close()
            raise _Gone from None
        self._put_back(pair, len(self._idle))
        if answer.error is not None:
            raise answer.error
        return answer.given

    def _sent(self, message: bytes, within: float) -> _Pair:
        """The pair that it went through; those of a spawner that has died are thrown away."""
        while True:
            pair = self._take()
            try:
                pair.socket.settimeout(within)
                pair.socket.send(message)
                return pair
            except OSError:
                pair.socket.close()

    # Pairs

    def _take(self) -> _Pair:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._idle), PAIRS_WITHIN):
                raise Unavailable("the spawner, which starts and stops sandboxes, does not run", code="spawner")
            return self._idle.pop()

    def _put_back(self, pair: _Pair, place: int) -> None:
        """The last is taken next."""
        with self._changed:
            if pair.set == self._set:
                self._idle.insert(place, pair)
                self._changed.notify()
            else:
                pair.socket.close()

    def _receive(self) -> None:
        while descriptors := socket.recv_fds(self._doorstep, 16, spawning.AT_ONCE)[1]:
            with self._changed:
                for old in self._idle:
                    old.socket.close()
                self._set += 1
                self._idle = [_Pair(socket.socket(fileno=descriptor), self._set) for descriptor in descriptors]
                self._changed.notify_all()


def _answer(pair: socket.socket, number: int, operation: str, give_up: float) -> Answer:
    while True:
        pair.settimeout(max(0.001, give_up - time.monotonic()))
        if not (raw := pair.recv(spawning.ANSWER_MOST + 1)):
            raise Garbled("it was closed")
        if (answer := spawning.read_answer(raw, number, operation)) is not None:
            return answer


def _without_env(blueprint: Blueprint) -> Blueprint:
    """The warden is told the environment by the server, over the link."""
    return replace(blueprint, env={})
