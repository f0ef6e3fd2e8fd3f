"""Archives of images, read and unpacked: a root filesystem as tar, an OCI layout, what `docker save` writes.

    tar ──► is it an image archive? ──no──► one layer
                    │ yes
                    ▼
        index.json or manifest.json ──► config, and blobs, each checked against its digest ──► layers

It runs in a chroot of the folder it unpacks to, as nobody (mapped.py): no name, link or hard link in an archive can
lead out of it. Nothing but the standard library is imported, and nothing late.
"""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import platform
import re
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from ringfence.fence.runtimes.native.layer import Bounds, Refused, unpack_layer

try:  # with Python 3.14
    from compression import zstd  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    zstd = None

MOST_DOCUMENT = 4 << 20
MOST_LAYERS = 128
MOST_MEMBERS = 10_000  # of an image archive: blobs, not files
MOST_NESTED = 3
MOST_PATH = 4096
PLAIN = "/unpacked.tar"
CHUNK = 1 << 18
XZ_MEMORY = 256 << 20
# What an image archive has at its top, and a root filesystem has not.
_OF_ARCHIVE = re.compile(
    r"oci-layout|index\.json|manifest\.json|repositories|blobs(/.*)?|[0-9a-f]{64}(\.json|\.tar|/.*)?|version"
)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def unpack(descriptors: list[int], asked: Mapping[str, Any]) -> dict[str, Any]:
    """`descriptors`: the archive, and the empty folder that its layers come into, numbered, the lowest first."""
    file, folder = descriptors
    os.fchdir(folder)
    os.chroot(".")
    bounds = Bounds(bytes=int(asked["bytes"]), entries=int(asked["entries"]), owners=bool(asked["owners"]))
    with os.fdopen(file, "rb") as packed, _plain(packed, bounds.bytes) as plain:
        return Reader(plain, set(asked["known"]), bounds).image(str(asked["name"]))


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


# Compression ----------------------------------------------------------------------------------------------------------


def decompressed(file: io.BufferedReader) -> Readable:
    """What is in it, by how it begins."""
    magic = file.peek(6)[:6]
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if magic == b"\xfd7zXZ\0":
        return _Decompressing(file, lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY))
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        if zstd is None:
            raise Refused("it is compressed with zstd, which this Python cannot read: decompress it first (`zstd -d`)")
        return cast(Readable, zstd.ZstdFile(file))
    return file


class _Stream(io.RawIOBase):
    """What can be read, once, by its `read`."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        found = self.read(len(into))
        into[: len(found)] = found
        return len(found)


class _Decompressing(_Stream):
    """xz with a bound on its memory, which `lzma.LZMAFile` cannot have."""

    def __init__(self, file: io.BufferedReader, decompressor: lzma.LZMADecompressor) -> None:
        self._file, self._decompressor = file, decompressor

    def read(self, size: int = -1) -> bytes:
        assert size > 0
        while not self._decompressor.eof:
            more = self._file.read(CHUNK) if self._decompressor.needs_input else b""
            if not more and self._decompressor.needs_input:
                raise EOFError
            if found := self._decompressor.decompress(more, size):
                return found
        return b""


_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError)


def _plain(file: io.BufferedReader, most: int) -> io.BufferedReader:
    """The archive itself, in which one can go back: decompressed beside the layers where it must be."""
    opened = decompressed(file)
    if opened is file:
        return file
    try:
        with Path(PLAIN).open("wb") as plain:
            size = 0
            while chunk := opened.read(CHUNK):
                if (size := size + len(chunk)) > most:
                    raise Refused(f"unpacked, it has more than {most} bytes", "too_large")
                plain.write(chunk)
        return Path(PLAIN).open("rb")
    except _DAMAGED as error:
        raise Refused(f"it is damaged, or was cut short: {error}") from None
    finally:
        Path(PLAIN).unlink(missing_ok=True)


# Images ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """Which of the archive's images, by the names of its blobs."""

    config: str
    layers: list[str]
    digests: dict[str, str]  # of blobs whose digest is said, sha256 as hex


class Reader:
    def __init__(self, file: io.BufferedReader, known: set[str], bounds: Bounds) -> None:
        self._file, self._known, self._bounds, self._most = file, known, bounds, bounds.bytes
        self._blobs: dict[str, tuple[int, int]] = {}

    def image(self, name: str) -> dict[str, Any]:
        try:
            return self._image(name)
        except _DAMAGED as error:
            raise Refused(f"it is damaged, or no archive: {error}") from None

    def _image(self, name: str) -> dict[str, Any]:
        if not self._index():
            layer = self._layer(0, (0, self._file.seek(0, os.SEEK_END)), None, None)
            return {"layers": [layer], "config": {}, "format": "rootfs"}
        is_oci = "index.json" in self._blobs and "oci-layout" in self._blobs
        chosen = self._of_oci(name) if is_oci else self._of_docker(name)
        config = self._document(chosen.config, chosen.digests.get(chosen.config))
        diffs = _texts(_table(config, "rootfs"), "diff_ids")
        if len(diffs) != len(chosen.layers) or len(diffs) > MOST_LAYERS:
            raise Refused(
                f"its config tells of {len(diffs)} layers, it has {len(chosen.layers)}, of at most {MOST_LAYERS}"
            )
        layers = [
            self._layer(number, self._blob(blob), chosen.digests.get(blob), _digest(diff))
            for number, (blob, diff) in enumerate(zip(chosen.layers, diffs, strict=True))
        ]
        return {"layers": layers, "config": _settings(config), "format": "oci" if is_oci else "docker"}

    def _index(self) -> bool:
        """Whether it is an image archive; then where its blobs are."""
        links: dict[str, str] = {}
        with tarfile.open(fileobj=self._file, mode="r:") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]
                name = member.name.removeprefix("./").rstrip("/")
                if name in ("", "."):
                    continue
                if not _OF_ARCHIVE.fullmatch(name) or len(self._blobs) > MOST_MEMBERS:
                    return False
                if member.isfile():
                    self._blobs[name] = (member.offset_data, member.size)
                elif member.issym() or member.islnk():  # an older `docker save` keeps a layer once so
                    base = Path(name).parent if member.issym() else Path()
                    links[name] = os.path.normpath(base / member.linkname)
        for name, target in links.items():
            if target in self._blobs:
                self._blobs[name] = self._blobs[target]
        return "index.json" in self._blobs or "manifest.json" in self._blobs

    def _blob(self, name: str) -> tuple[int, int]:
        if name not in self._blobs:
            raise Refused(f"it lacks the blob {name[:120]}")
        return self._blobs[name]

    def _document(self, name: str, digest: str | None) -> dict[str, Any]:
        offset, size = self._blob(name)
        if size > MOST_DOCUMENT:
            raise Refused(f"{name[:120]} has {size} bytes; at most {MOST_DOCUMENT} are read")
        self._file.seek(offset)
        text = self._file.read(size)
        if digest is not None and hashlib.sha256(text).hexdigest() != digest:
            raise Refused(f"{name[:120]} is not what its digest says")
        try:
            found = json.loads(text)
        except ValueError:
            raise Refused(f"{name[:120]} is no JSON") from None
        if name == "manifest.json":
            found = {"images": found}
        if not isinstance(found, dict):
            raise Refused(f"{name[:120]} is no JSON object")
        return found

    def _of_docker(self, name: str) -> Chosen:
        images = [each for each in _list(self._document("manifest.json", None), "images") if isinstance(each, dict)]
        if (found := _one(images, name, lambda each: _texts(each, "RepoTags") if each.get("RepoTags") else [])) is None:
            tags = [tag for each in images for tag in (_texts(each, "RepoTags") if each.get("RepoTags") else [])]
            raise Refused(f"it holds {len(images)} images ({', '.join(tags)[:300]}): import it under the name of one")
        config, layers = str(found.get("Config")), _texts(found, "Layers")
        said = {blob: digest for blob in (config, *layers) if (digest := blob.removeprefix("blobs/sha256/")) != blob}
        named = re.fullmatch(r"([0-9a-f]{64})\.json", config)
        return Chosen(config, layers, said | ({config: named[1]} if named else {}))

    def _of_oci(self, name: str) -> Chosen:
        manifest = self._manifest(self._document("index.json", None), name, MOST_NESTED)
        config, layers = _table(manifest, "config"), _list(manifest, "layers")
        digests = {f"blobs/sha256/{hex}": hex for each in (config, *layers) for hex in (_digest_of(each),)}
        names = [f"blobs/sha256/{_digest_of(each)}" for each in layers]
        return Chosen(f"blobs/sha256/{_digest_of(config)}", names, digests)

    def _manifest(self, index: dict[str, Any], name: str, deeper: int) -> dict[str, Any]:
        """The manifest for this machine, of the image that is asked for."""
        listed = [each for each in _list(index, "manifests") if isinstance(each, dict) and _is_for_us(each)]
        if (found := _one(listed, name, _names_of)) is None:
            names = ", ".join(tag for each in listed for tag in _names_of(each))
            raise Refused(
                f"it holds {len(listed)} images for this machine ({names[:300]}): import it under the name of one"
            )
        digest = _digest_of(found)
        document = self._document(f"blobs/sha256/{digest}", digest)
        if "manifests" not in document:
            return document
        if deeper == 0:
            raise Refused("its indexes are nested too deep")
        return self._manifest(document, name, deeper - 1)

    def _layer(self, number: int, place: tuple[int, int], blob: str | None, diff: str | None) -> dict[str, Any]:
        """Unpacked to the folder `number`, unless it is known; both digests are of what was read, to its end."""
        packed = _Hashing(_Part(self._file, *place))
        plain = _Hashing(decompressed(io.BufferedReader(packed, CHUNK)))
        known = diff is not None and diff in self._known
        if not known:
            folder = f"/{number}"  # of the chroot
            Path(folder).mkdir()
            unpack_layer(plain, folder, self._bounds)
        while plain.read(CHUNK):
            if plain.size > self._most:
                raise Refused(f"unpacked, it has more than {self._most} bytes", "too_large")
        while packed.read(CHUNK):
            pass
        for what, said, is_ in (("digest", blob, packed), ("diff id", diff, plain)):
            if said is not None and is_.digest() != said:
                raise Refused(f"layer {number + 1} is not what its {what} says: sha256:{said}")
        return {"diff": plain.digest(), "size": plain.size, "fresh": not known}


class _Part(_Stream):
    """A piece of a file."""

    def __init__(self, file: io.BufferedReader, offset: int, size: int) -> None:
        self._file, self._at, self._end = file, offset, offset + size

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._at
        self._file.seek(self._at)
        found = self._file.read(left if size < 0 else min(size, left))
        self._at += len(found)
        return found


class _Hashing(_Stream):
    """Passes bytes on, and knows their digest."""

    def __init__(self, file: Readable) -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size)
        self._hash.update(found)
        self.size += len(found)
        return found

    def digest(self) -> str:
        return self._hash.hexdigest()


# What strangers' documents say ----------------------------------------------------------------------------------------


def _list(of: Mapping[str, Any], key: str) -> list[Any]:
    found = of.get(key)
    if not isinstance(found, list):
        raise Refused(f"its `{key}` is no list")
    return found


def _texts(of: Mapping[str, Any], key: str) -> list[str]:
    found = _list(of, key)
    if not all(isinstance(each, str) for each in found):
        raise Refused(f"its `{key}` is no list of texts")
    return found


def _table(of: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = of.get(key)
    if not isinstance(found, dict):
        raise Refused(f"its `{key}` is no object")
    return found


def _digest(said: object) -> str:
    found = _DIGEST.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        raise Refused(f"{said!r:.120} is no sha256 digest")
    return found[1]


def _digest_of(descriptor: object) -> str:
    return _digest(descriptor.get("digest") if isinstance(descriptor, dict) else None)


def _is_for_us(descriptor: Mapping[str, Any]) -> bool:
    on = descriptor.get("platform")
    if not isinstance(on, dict):
        return True
    return on.get("os") == "linux" and on.get("architecture") == _MACHINES.get(platform.machine(), platform.machine())


def _names_of(descriptor: Mapping[str, Any]) -> list[str]:
    said = descriptor.get("annotations")
    keys = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
    return [said[key] for key in keys if isinstance(said.get(key), str)] if isinstance(said, dict) else []


def _one(
    images: list[dict[str, Any]], name: str, names: Callable[[dict[str, Any]], list[str]]
) -> dict[str, Any] | None:
    """The only one, or the only one whose name ends like this."""
    if len(images) == 1:
        return images[0]
    fitting = [each for each in images if any(tag == name or tag.endswith(f"/{name}") for tag in names(each))]
    return fitting[0] if len(fitting) == 1 else None


def _workdir(said: object) -> str:
    if not isinstance(said, str) or len(said) > MOST_PATH or "\0" in said:
        raise Refused("its `WorkingDir` is no path")
    return f"/{said.strip('/')}" if said else ""


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What it says of the programs to be run in it."""
    inner = config.get("config") or {}
    if not isinstance(inner, dict):
        raise Refused("its `config` is no object")
    return {
        "env": _texts(inner, "Env") if inner.get("Env") else [],
        "workdir": _workdir(inner.get("WorkingDir") or ""),
        "user": str(inner.get("User") or ""),
        "entrypoint": _texts(inner, "Entrypoint") if inner.get("Entrypoint") else [],
        "cmd": _texts(inner, "Cmd") if inner.get("Cmd") else [],
    }
