"""Which of the host's users a sandbox is, when root runs us: a range of ids that nobody and nothing else has.

The register in /run is shared by every Ringfence on the host: a file for each range in use, naming the folder that
uses it. A range whose folder is gone is free, so that a crash loses none. After a boot the register is empty, and each
Ringfence enters the sandboxes it finds.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ringfence.privileges.users import reserved

BASE = 1_900_000_000
RANGE = 65536
MOST = ((1 << 31) - BASE) // RANGE  # above 2³¹ some programs take an id for a negative number
REGISTER = Path("/run/ringfence/ids")


class NoIdsLeft(Exception):
    """Every range is taken."""


@dataclass(frozen=True, slots=True)
class Ids:
    base: int = BASE
    register: Path = REGISTER
    host: int | None = None  # a descriptor of the host's own root, where ours hides some folders

    def take(self, folder: Path) -> int:
        """The first id of a free range, which is `folder`'s from now on."""
        spans = [(start, count) for _, start, count in reserved()]
        with self._locked():
            taken = {int(entry.name) for entry in self.register.iterdir() if entry.name.isdigit()}
            for first in range(self.base, self.base + MOST * RANGE, RANGE):
                if first in taken and self._in_use(first):
                    continue
                if not any(start < first + RANGE and first < start + count for start, count in spans):
                    (self.register / str(first)).write_text(str(folder))
                    return first
        raise NoIdsLeft(f"all {MOST} ranges of user ids from {self.base} on are taken by sandboxes")

    def hold(self, first: int, folder: Path) -> bool:
        """Enter what `folder` has already; False: another has it."""
        with self._locked():
            entry = self.register / str(first)
            if entry.exists() and self._in_use(first) and entry.read_text() != str(folder):
                return False
            entry.write_text(str(folder))
            return True

    def release(self, first: int, folder: Path) -> None:
        with self._locked(), contextlib.suppress(FileNotFoundError):
            if (self.register / str(first)).read_text() == str(folder):
                (self.register / str(first)).unlink()

    def _in_use(self, first: int) -> bool:
        try:
            folder = (self.register / str(first)).read_text()
            os.stat(folder.lstrip("/") if self.host is not None else folder, dir_fd=self.host, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.register.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.register / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
