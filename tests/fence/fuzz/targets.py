"""The warden's parsers and its end of the link, each a program that is fed what nobody would say.

driver.c        changes inputs, and keeps those that reach new code
target_*.c      what is fed: `pack`, `start`, `tar`, `link`
regressions/    what broke a target once, tried first ever since
"""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack

from ringfence.fence.link import frames
from ringfence.fence.link.model import Start, Whom
from warden.build import HERE as WARDEN
from warden.build import STRICT

HERE = Path(__file__).parent
SANITIZED = ["-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
LONGEST = 60.0  # seconds beyond those that were asked for: for what is tried first


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    sources: tuple[str, ...]  # of the warden
    seeds: Callable[[], Iterator[bytes]]

    def build(self, folder: Path) -> Path:
        program, driver = folder / self.name, folder / f"driver-{self.name}.o"
        compiler = str(shutil.which("gcc"))
        _run(compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-g", "-c", HERE / "driver.c", "-o", driver)
        _run(
            compiler, *STRICT, *SANITIZED, "-fsanitize-coverage=trace-pc", f"-I{WARDEN}",
            HERE / f"target_{self.name}.c", *(WARDEN / source for source in self.sources), driver, "-o", program,
        )  # fmt: skip
        return program

    def run(self, program: Path, seconds: float, seed: int, crashes: Path) -> str:
        """What it says of itself; `Broken` when something broke it."""
        corpus = program.with_name(f"corpus-{self.name}")
        shutil.rmtree(corpus, ignore_errors=True)
        corpus.mkdir()
        crashes.mkdir(parents=True, exist_ok=True)
        for number, seed_input in enumerate(self.seeds()):
            (corpus / f"seed-{number}").write_bytes(seed_input)
        for known in sorted((HERE / "regressions").glob(f"{self.name}-*")):
            shutil.copy(known, corpus)
        ran = subprocess.run(
            [program, str(seconds), str(seed), corpus, crashes], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=seconds + LONGEST, check=False,
        )  # fmt: skip
        if ran.returncode != 0:
            raise Broken(f"{self.name}: status {ran.returncode}\n{ran.stderr[-8000:]}")
        return ran.stdout.strip()


class Broken(Exception):
    """Something broke a target; what it was is where the message says."""


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"it could not be compiled:\n{done.stderr[-4000:]}")


# What the fuzzer begins with ------------------------------------------------------------------------------------------


def starts() -> list[Start]:
    program = Start(id=bytes(range(16)), argv=(b"sh", b"-c", b"true"), env=(b"PATH=/bin", b"A=b"), cwd=b"/workspace")
    return [
        program,
        Start(id=bytes(16), argv=(b"cat",), stdin=True, timeout=5.0),
        Start(id=bytes(15) + b"1", argv=(b"bash",), pty=(24, 80), stdin=True),
        Start(
            id=bytes(15) + b"2", act="write", arguments={"path": b"/tmp/x", "mode": 0o644, "how": b"append"}, stdin=True
        ),
        Start(id=bytes(15) + b"3", act="list", arguments={"path": b"/", "depth": 2, "most": 5}),
        Start(id=bytes(15) + b"4", act="move", arguments={"path": b"/a", "to": b"/b", "replace": True}),
    ]


def _starts() -> Iterator[bytes]:
    for start in starts():
        yield frames.start(1, start)[frames.HEADER.size :]


def _packed() -> Iterator[bytes]:
    values = [
        {"a": [1, -1, 2**40, None, True, 1.5, b"x" * 300, "text"], "b": {"c": [[[1]]]}},
        list(range(300)),
        2**64 - 1,
    ]
    for value in values:
        packed = bytes(msgpack.packb(value))
        yield packed
        yield bytes(range(14)) + packed


_ENTRIES = [
    ("folder", tarfile.DIRTYPE, ""),
    ("folder/file", tarfile.REGTYPE, ""),
    ("link", tarfile.SYMTYPE, "folder"),
    ("hard", tarfile.LNKTYPE, "folder/file"),
    ("l/" * 70 + "long", tarfile.REGTYPE, ""),
]


def tars() -> Iterator[bytes]:
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w", format=form) as tar:
            for name, kind, target in _ENTRIES:
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname, entry.mtime = kind, target, 10**9
                entry.size = 600 if kind == tarfile.REGTYPE else 0
                tar.addfile(entry, io.BytesIO(bytes(range(256)) * 3))
        yield written.getvalue()


CONNECT, GREET, HEAR, OUT, ERR, READABLE, WRITABLE, BEGAN, ENDED, GONE, LATER = 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12


def _step(what: int, more: bytes = b"", slot: int = 0) -> bytes:
    """As target_link.c reads it; what the warden says is read at once."""
    return bytes([slot, what]) + more + b"\1"


def _hear(said: bytes) -> bytes:
    return _step(HEAR, len(said).to_bytes(2, "big") + said)


def _conversations() -> Iterator[bytes]:
    greeting = _step(GREET) + _hear(frames.welcome([]))
    for start in starts():
        yield greeting + b"".join(
            (
                _hear(frames.start(1, start)), _step(BEGAN, b"\5"), _hear(frames.input_at(1, 0, b"some input")),
                _step(WRITABLE), _step(OUT, b"\x40"), _step(READABLE, b"\0"), _step(ERR, b"\1"), _step(READABLE, b"\1"),
                _hear(frames.stored(1, 1, 5000) + frames.resize(1, 50, 90)), _hear(frames.input_end(1, 10)),
                _step(CONNECT), _step(GREET), _hear(frames.welcome([(1, 6000, 10)])), _hear(frames.ping(b"12345678")),
                _hear(frames.signal(1, 9, Whom.ALL)), _step(LATER, b"\xff"), _step(ENDED, b"\0"), _step(GONE),
                _step(LATER, b"\2"), _step(LATER, b"\2"), _hear(frames.forget(1)),
            )
        )  # fmt: skip


TARGETS = {
    target.name: target
    for target in (
        Target("pack", ("pack.c",), _packed),
        Target("start", ("pack.c", "start.c"), _starts),
        Target("tar", ("acts/tar.c",), tars),
        Target("link", ("pack.c", "start.c", "session.c", "ring.c", "sha256.c", "text.c"), _conversations),
    )
}


def missing() -> str | None:
    """Why nothing can be fuzzed here."""
    if shutil.which("gcc") is None:
        return "there is no gcc: `apt-get install gcc libc6-dev`"
    if not os.access("/usr/include/linux/seccomp.h", os.R_OK):
        return "the kernel's headers are missing: `apt-get install linux-libc-dev libc6-dev`"
    return None
