"""Snapshots: what sandboxes had written, kept as layers that others begin with.

    snapshots/ID/
      record.json   what it lies over: an image's layers, and other snapshots; written last
      files/        a copy of what its sandbox had written

A new sandbox lays them under what it writes itself, so that it costs nothing to begin with one. A snapshot that is
forgotten loses its record, and its files when no sandbox and no other snapshot lies over them.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringfence.fence.runtimes.native import maps, tree
from ringfence.fence.runtimes.native.box import NAME
from ringfence.fence.runtimes.native.ids import RANGE
from ringfence.kernel.errors import Conflict, Invalid, NotFound

MOST_FILES = 10_000_000
MOST_BELOW = 8  # snapshots under a snapshot: each is one more path in the page that the kernel takes of them
WITHIN = 3600.0


@dataclass(frozen=True, slots=True)
class Snapshots:
    folder: Path
    first: int | None  # of the ids that everything belongs to; None: it is ours
    map: maps.Map

    def find(self, name: str) -> dict[str, Any]:
        """What a sandbox lies over that begins with it."""
        if (record := self._record(self._path(name))) is None:
            raise NotFound(f"there is no snapshot {name} on this host")
        return record

    def paths(self, names: Sequence[str]) -> list[Path]:
        return [self.folder / name / "files" for name in names]

    def records(self) -> list[dict[str, Any]]:
        return [record for entry in self.folder.iterdir() if (record := self._record(entry)) is not None]

    def take(self, name: str, below: dict[str, Any], upper: Path, owner: int | None) -> int:
        """A copy of what `owner`'s sandbox wrote, which nobody writes now; the bytes in it."""
        others = below.get("snapshots", [])
        if len(others) >= MOST_BELOW:
            raise Conflict(
                f"{len(others)} snapshots lie under this sandbox already, one over the other: begin a new one with its "
                "image, and copy what you need",
                code="too_deep",
            )
        half = self.folder / f".{uuid.uuid4().hex}"
        half.mkdir(mode=0o700)
        try:
            size = self._copy(upper, half, owner)
            record = {**below, "snapshots": [*others, name]}
            with (half / "record.json").open("x") as file:
                json.dump(record, file)
                file.flush()
                os.fsync(file.fileno())
            half.chmod(0o711)
            half.rename(self._path(name))
        except BaseException:
            self._remove(half)
            raise
        return size

    def _copy(self, upper: Path, half: Path, owner: int | None) -> int:
        """By nobody: whoever copies is root among the ids of the sandbox and of what is kept, and of nothing else."""
        under, shift = self.map, 0
        if owner is not None and self.first is not None:
            os.chown(half, self.first, self.first)
            under, shift = maps.of_range(owner, self.first), RANGE
        with contextlib.ExitStack() as opened:
            folders = []
            for path in (upper, half):
                folders.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
                opened.callback(os.close, folders[-1])
            answer = maps.do("copy", under, folders, {"shift": shift, "entries": MOST_FILES}, WITHIN)
            maps.to_disk(folders[1])
        return int(answer["size"])

    def forget(self, name: str) -> None:
        (self._path(name) / "record.json").unlink(missing_ok=True)

    def collect(self, needed: Sequence[str]) -> None:
        """Remove what is no snapshot any more and lies under nothing; and what a crash left half done."""
        kept = {*needed, *(name for record in self.records() for name in record["snapshots"])}
        for entry in self.folder.iterdir():
            if entry.name not in kept:
                self._remove(entry)

    def _remove(self, folder: Path) -> None:
        if os.geteuid() != 0 and self.map.is_range:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                maps.do("remove", self.map, [fd], {}, WITHIN)
            finally:
                os.close(fd)
        tree.remove(folder)

    def _record(self, entry: Path) -> dict[str, Any] | None:
        try:
            return json.loads((entry / "record.json").read_bytes())  # type: ignore[no-any-return]
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise Invalid(f"{name!r:.80} is not a snapshot's id")
        return self.folder / name
