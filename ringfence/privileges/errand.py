"""A piece of work that root has done by the server's user, in a process that cannot become root again."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from ringfence.kernel.errors import RingfenceError
from ringfence.privileges import view
from ringfence.privileges.users import User

Work = Callable[[], Iterator[bytes]]
CHUNK = 1 << 16


class Failed(Exception):
    """The work was refused, or went wrong: what an error of the kernel says."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def done_as(user: User, data: Path, work: Work) -> Iterator[bytes]:
    """What it yields, piece by piece. `Failed` at the end, when it did not get there."""
    pieces, piece_end = os.pipe()
    word, word_end = os.pipe()
    if (child := os.fork()) == 0:
        os.close(pieces)
        _do(user, data, work, piece_end, word_end)
    os.close(piece_end)
    os.close(word_end)
    try:
        with os.fdopen(word, "rb") as last:
            with os.fdopen(pieces, "rb", buffering=0) as source:
                while chunk := source.read(CHUNK):
                    yield chunk
            _judge(last.read(CHUNK))
    finally:
        os.waitpid(child, 0)


def _judge(word: bytes) -> None:
    try:
        match json.loads(word):
            case {"done": True}:
                return
            case {"status": int(status), "message": str(message)}:
                raise Failed(status, "".join(sign if sign.isprintable() else " " for sign in message))
    except (ValueError, RecursionError):
        pass
    raise Failed(500, "the work on the data folder ended before it was done")


def _do(user: User, data: Path, work: Work, pieces: int, word: int) -> NoReturn:
    said: dict[str, object] = {"done": True}
    try:
        os.setsid()  # our terminal is not its
        view.enter([*view.program(), view.Needed(data, writable=True)])
        view.become(user)
        view.check_readable(user, view.program())
        for chunk in work():
            written = 0
            while written < len(chunk):
                written += os.write(pieces, chunk[written:])
    except RingfenceError as error:
        said = {"status": error.status, "message": error.message}
    except BaseException as error:
        said = {"status": 500, "message": f"{type(error).__name__}: {error}"}
    finally:
        os.write(word, json.dumps(said).encode()[:CHUNK])
        os._exit(0)
