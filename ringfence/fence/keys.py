"""What the server remembers on its host, beside the database: which server it is, and the keys its wardens greet with.

A key is made for each life of a sandbox, so that a warden of an older one cannot come back. It lies in a file of its
own, for the server alone, because a sandbox goes on while the server is away.
"""

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from ringfence.kernel.ids import new

KEY_BYTES = 32


class Keys:
    def __init__(self, data: Path) -> None:
        self._folder = data / "fence"

    def node(self) -> str:
        """Which server this is, the same for as long as its data folder lives."""
        path = self._folder / "node"
        try:
            return path.read_text("ascii").strip()
        except FileNotFoundError:
            node = new("nod")
            self._write(path, node.encode())
            return node

    def make(self, sandbox: str) -> bytes:
        key = os.urandom(KEY_BYTES)
        self._write(self._path(sandbox), key)
        return key

    def find(self, sandbox: str) -> bytes | None:
        try:
            key = self._path(sandbox).read_bytes()
        except FileNotFoundError:
            return None
        return key if len(key) == KEY_BYTES else None

    def drop(self, sandbox: str) -> None:
        self._path(sandbox).unlink(missing_ok=True)

    def prune(self, living: Collection[str]) -> int:
        """Remove those of sandboxes that are not `living`; how many there were."""
        found = 0
        with contextlib.suppress(FileNotFoundError):
            for path in (self._folder / "keys").iterdir():
                if path.name.partition(".")[0] not in living:
                    path.unlink(missing_ok=True)
                    found += 1
        return found

    def _path(self, sandbox: str) -> Path:
        return self._folder / "keys" / sandbox

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        beside.replace(path)
