"""What an exec said on one channel, as far as it is kept.

    in memory, and at the end in the exec's row     up to `AT_HAND` bytes
    in a file                                       more

A file is as long as what was said, so that its size is the offset where a restarted server goes on; only its first
`KEPT` bytes hold anything, and the rest of it takes no space.
"""

import os
from pathlib import Path

from ringfence.sessions.model import AT_HAND, KEPT


class Output:
    def __init__(self, path: Path, kept: int = KEPT) -> None:
        self.size = 0  # bytes said
        self.kept = 0  # the first so many can be read
        self.durable = 0  # said, and not lost with this process
        self._path, self._most = path, kept
        self._memory: bytearray | None = bytearray()
        self._full = False  # nothing more is kept

    @classmethod
    def found(cls, path: Path, kept: int = KEPT) -> "Output":
        """As an earlier server left it."""
        output = cls(path, kept)
        try:
            output.size = output.durable = path.stat().st_size
        except FileNotFoundError:
            return output
        output._memory = None
        output.kept = min(output.size, kept)
        return output

    @property
    def in_file(self) -> bool:
        return self._memory is None

    def append(self, data: memoryview) -> int:
        """Up to where it outlives this process."""
        before, self.size = self.size, self.size + len(data)
        if self._memory is not None:
            if self.size <= AT_HAND:
                self._memory += data
                self.kept = self.size
                return self.durable
            data = memoryview(bytes(self._memory) + bytes(data))
            before, self._memory, self.kept = 0, None, 0
        part = b"" if self._full else data[: max(0, self._most - before)]
        try:
            self._write(before, part)
        except OSError:  # the disk is full: what was said goes on being counted
            self._full = True
        self.durable = self.size
        return self.durable

    def read(self, offset: int, most: int) -> bytes:
        most = min(most, self.kept - offset)
        if most <= 0:
            return b""
        if self._memory is not None:
            return bytes(self._memory[offset : offset + most])
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(file, most, offset)
        finally:
            os.close(file)

    def at_hand(self) -> bytes | None:
        """All of it, when it is in no file."""
        return None if self._memory is None else bytes(self._memory)

    def _write(self, offset: int, part: memoryview | bytes) -> None:
        if offset == 0:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            at = offset
            while part:
                written = os.pwrite(file, part, at)
                part, at = part[written:], at + written
                self.kept = max(self.kept, at)
            if at < self.size:
                os.ftruncate(file, self.size)
        finally:
            os.close(file)
