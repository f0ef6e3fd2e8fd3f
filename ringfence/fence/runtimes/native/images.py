"""Images of this host: layers, each kept once by its digest, and names for lists of them.

    images/
      layers/DIGEST/       a layer's files, as archive.py unpacked them; DIGEST is of its tar, uncompressed
      named/NAME.json      an image: its layers, and what it says of programs
      fit/DIGEST/          what we lay over an image: mount points, names, users
      staging/             what is being unpacked; nobody's, after a crash
      owner                run by root: the first of the ids that all of it belongs to

A layer that no image, sandbox or snapshot names is removed by `collect`. Everything there is once whole: it is unpacked
and written to the disk under another name first.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from ringfence.fence.model import Image, ImageConfig
from ringfence.fence.runtimes.native import host_image, maps, tree
from ringfence.fence.runtimes.native.layer import OPAQUE
from ringfence.kernel.errors import Invalid, NotFound, Unavailable

MOST_ENTRIES = 2_000_000  # files of an image
WITHIN = 3600.0
COLLECT_WITHIN = 2.0
MOST_PATHS = 3000
MOST_USERS = 1 << 20  # bytes of an image's /etc/passwd
_AGENT = {"passwd": "agent:x:1000:1000:agent:/home/agent:/bin/sh\n", "group": "agent:x:1000:\n"}
_ROOT = {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n"}


@dataclass(frozen=True, slots=True)
class Images:
    folder: Path
    first: int | None  # of the ids that everything belongs to; None: it is ours
    map: maps.Map

    def open(self) -> None:
        for name, mode in (("layers", 0o711), ("fit", 0o711), ("named", 0o700), ("staging", 0o711)):
            (self.folder / name).mkdir(exist_ok=True, mode=mode)
            (self.folder / name).chmod(mode)

    # What there is

    def names(self) -> list[str]:
        return sorted(image.name for path in self._named() if (image := _read(path)) is not None)

    def find(self, name: str) -> Image:
        if (found := _read(self._path(name))) is None:
            raise NotFound(
                f"there is no image {name!r:.200} on this host: `ringfence image list` tells which there are"
            )
        return found

    def paths(self, names: Sequence[str]) -> list[Path]:
        """Of the layers of an image and, the last, its fit."""
        return [*(self._layer(digest) for digest in names[:-1]), self.folder / "fit" / names[-1]]

    @contextlib.contextmanager
    def held(self, *, alone: bool = False) -> Iterator[None]:
        """While it lasts, nothing is collected; `alone`: nobody else holds it."""
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if alone:
                _lock_alone(fd)
            else:
                fcntl.flock(fd, fcntl.LOCK_SH)
            yield
        finally:
            os.close(fd)

    # Making and removing

    def add(self, name: str, archive: BinaryIO, most: int) -> Image:
        """The archive as the image `name`; whoever has that name already gives it up."""
        staging = self.folder / "staging" / uuid.uuid4().hex
        staging.mkdir(mode=0o700)
        try:
            with self.held():
                return self._keep(name, self._unpack(name, archive.fileno(), staging, most), staging)
        finally:
            tree.remove(staging)

    def _unpack(self, name: str, archive: int, staging: Path, most: int) -> dict[str, Any]:
        if self.first is not None:
            os.chown(staging, self.first, self.first)
        known = [entry.name for entry in (self.folder / "layers").iterdir()]
        folder = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            asked = {
                "name": name, "known": known, "bytes": most, "entries": MOST_ENTRIES, "owners": self.map.is_range,
            }  # fmt: skip
            answer = maps.do("unpack", self.map, [archive, folder], asked, WITHIN)
            maps.to_disk(folder)
        finally:
            os.close(folder)
        return answer

    def _keep(self, name: str, answer: dict[str, Any], staging: Path) -> Image:
        digests: list[str] = []
        for number, layer in enumerate(answer["layers"]):
            digest = str(layer["diff"])
            if layer["fresh"]:
                _move(staging / str(number), self._layer(digest))
            digests = [digest] if _is_opaque(self._layer(digest)) else [*digests, digest]
        _sync(self.folder / "layers")
        config = ImageConfig(**{key: _frozen(value) for key, value in answer["config"].items()})
        content = json.dumps([digests, asdict(config)], sort_keys=True).encode()
        image = Image(
            name=name, digest=sha256(content).hexdigest(), layers=tuple(digests), config=config,
            size=sum(int(layer["size"]) for layer in answer["layers"]), format=str(answer["format"]),
        )  # fmt: skip
        self._check_depth(image)
        self._fit(image)
        _write(self._path(name), json.dumps(asdict(image)))
        return image

    def _check_depth(self, image: Image) -> None:
        """The kernel takes one page of paths, each of which bubblewrap makes a little longer."""
        used = sum(len(os.fsencode(path)) + len("/oldroot:") for path in self.paths([*image.layers, image.digest]))
        if used > MOST_PATHS:
            raise Invalid(
                f"its {len(image.layers)} layers are more than can be laid over each other in {self.folder}: "
                "flatten it (`docker export` of a container), or choose a data folder with a shorter path"
            )

    def forget(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def collect(self, kept: Sequence[Sequence[str]]) -> int:
        """Remove layers that neither an image nor any of `kept`, lists of names of layers and fits, needs; how many."""
        images = [image for path in self._named() if (image := _read(path)) is not None]
        needed = {name for names in kept for name in names}
        needed.update(digest for image in images for digest in (*image.layers, image.digest))
        gone = 0
        for kind in ("layers", "fit"):
            for entry in (self.folder / kind).iterdir():
                if entry.name not in needed:
                    away = self.folder / "staging" / uuid.uuid4().hex
                    entry.rename(away)
                    tree.remove(away)
                    gone += kind == "layers"
        return gone

    def sweep(self) -> None:
        """What a crash left half done."""
        for entry in (self.folder / "staging").iterdir():
            tree.remove(entry)

    # What we lay over it

    def _fit(self, image: Image) -> None:
        target = self.folder / "fit" / image.digest
        if target.is_dir():
            return
        half = self.folder / "staging" / uuid.uuid4().hex
        homeless = not any(os.path.lexists(self._layer(digest) / "root") for digest in image.layers)
        host_image.make_fit(half, {name: self._users(image, name) for name in _AGENT}, home_of_root=homeless)
        if self.first is not None:
            for path in (half, *half.rglob("*")):
                os.chown(path, self.first, self.first, follow_symlinks=False)
        try:
            half.rename(target)
        except OSError:
            tree.remove(half)

    def _users(self, image: Image, name: str) -> str:
        """The image's own, and the agent, where it has no user of that id or name."""
        text = next(
            (found for digest in reversed(image.layers) if (found := _etc(self._layer(digest), name)) is not None), ""
        )
        lines = [line for line in text.splitlines() if line.count(":") >= 2]
        for own in (_ROOT[name], _AGENT[name]):
            called, _, number = own.split(":")[:3]
            if not any(line.split(":")[0] == called or line.split(":")[2] == number for line in lines):
                lines.append(own.rstrip("\n"))
        return "".join(f"{line}\n" for line in lines)

    def _layer(self, digest: str) -> Path:
        return self.folder / "layers" / digest

    def _path(self, name: str) -> Path:
        return self.folder / "named" / f"{quote(name, safe=':')}.json"

    def _named(self) -> list[Path]:
        return [path for path in (self.folder / "named").iterdir() if not path.name.startswith(".")]


def _lock_alone(fd: int) -> None:
    """Imports hold it for as long as they take."""
    give_up = time.monotonic() + COLLECT_WITHIN
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise Unavailable("images are being imported: nothing is collected meanwhile") from None
            time.sleep(0.01)
        else:
            return


def _etc(layer: Path, name: str) -> str | None:
    """A file of its /etc; None: it does not say. No link is followed: a stranger wrote it."""
    with contextlib.suppress(OSError):
        etc = os.open(layer / "etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=etc)
        except OSError:
            return None
        finally:
            os.close(etc)
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(fd)
            if stat.S_ISREG(about.st_mode) and about.st_size <= MOST_USERS:
                return file.read(MOST_USERS).decode("utf-8", "replace")
    return None


def _move(unpacked: Path, to: Path) -> None:
    """Unless another was faster, with the same."""
    try:
        unpacked.rename(to)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _is_opaque(layer: Path) -> bool:
    """Whether it hides everything below. Overlay heeds no mark on the root of a layer."""
    try:
        return os.getxattr(layer, OPAQUE) == b"y"
    except OSError:
        return False


def _write(path: Path, text: str) -> None:
    half = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with half.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read(path: Path) -> Image | None:
    try:
        found = json.loads(path.read_bytes())
        config = ImageConfig(**{key: _frozen(value) for key, value in found.pop("config").items()})
        return Image(**{key: _frozen(value) for key, value in found.items()}, config=config)
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
