"""Archives of images, made by hand: what tools write, and what none would."""

import gzip
import hashlib
import io
import json
import lzma
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Entry:
    name: str
    content: bytes | None = None  # None: a folder
    mode: int = 0o755
    kind: bytes | None = None
    link: str = ""
    owner: tuple[int, int] = (0, 0)
    device: tuple[int, int] = (0, 0)
    pax: Mapping[str, str] = field(default_factory=dict)


def tar(entries: Iterable[Entry]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as opened:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.type = entry.kind or (tarfile.DIRTYPE if entry.content is None else tarfile.REGTYPE)
            member.mode, member.linkname, member.size = entry.mode, entry.link, len(entry.content or b"")
            member.uid, member.gid = entry.owner
            member.devmajor, member.devminor = entry.device
            member.pax_headers = dict(entry.pax)
            opened.addfile(member, io.BytesIO(entry.content or b""))
    return packed.getvalue()


def busybox() -> bytes:
    """A program that is a whole system, and needs no library."""
    for name in ("/bin/busybox", shutil.which("busybox")):
        if name and Path(name).exists():
            static = subprocess.run(["ldd", name], capture_output=True, text=True, check=False)
            if "not a dynamic" in static.stdout + static.stderr:
                return Path(name).read_bytes()
    pytest.skip("no static busybox (Debian: busybox-static)")


def tiny() -> list[Entry]:
    """A system that is busybox."""
    names = "sh cat ls id mount touch mkdir rm chown chmod stat hostname echo su env pwd dd find grep sleep"
    links = [Entry(f"bin/{name}", kind=tarfile.SYMTYPE, link="busybox") for name in names.split()]
    return [Entry("bin"), Entry("bin/busybox", busybox()), *links]


def layout(layers: list[bytes], config: Mapping[str, Any] | None = None, *, wrong: str = "") -> bytes:
    """An OCI layout, packed; `wrong`: which part is not as it says."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    packed = [gzip.compress(layer, mtime=0) for layer in layers]
    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    if wrong == "diff":
        diffs[-1] = f"sha256:{'0' * 64}"
    document = {"os": "linux", "rootfs": {"type": "layers", "diff_ids": diffs}, "config": dict(config or {})}
    manifest = {
        "schemaVersion": 2,
        "config": blob(json.dumps(document).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(layer, "application/vnd.oci.image.layer.v1.tar+gzip") for layer in packed],
    }
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), "…manifest.v1+json")]}
    if wrong == "blob":
        blobs[hashlib.sha256(packed[-1]).hexdigest()] = gzip.compress(layers[-1] + bytes(512), mtime=0)
    if wrong == "missing":
        del blobs[hashlib.sha256(packed[-1]).hexdigest()]
    return tar([
        Entry("oci-layout", b'{"imageLayoutVersion": "1.0.0"}'), Entry("blobs"), Entry("blobs/sha256"),
        *(Entry(f"blobs/sha256/{digest}", content) for digest, content in blobs.items()),
        Entry("index.json", json.dumps(index).encode()),
    ])  # fmt: skip


def saved(layers: list[bytes], config: Mapping[str, Any], tags: list[str]) -> bytes:
    """What `docker save` wrote before it wrote layouts too."""
    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    document = json.dumps({"rootfs": {"type": "layers", "diff_ids": diffs}, "config": dict(config)}).encode()
    name = f"{hashlib.sha256(document).hexdigest()}.json"
    ids = [hashlib.sha256(layer + b"id").hexdigest() for layer in layers]
    manifest = [{"Config": name, "RepoTags": tags, "Layers": [f"{each}/layer.tar" for each in ids]}]
    return tar([
        *(entry for each, layer in zip(ids, layers, strict=True) for entry in (
            Entry(each), Entry(f"{each}/VERSION", b"1.0"), Entry(f"{each}/layer.tar", layer))),
        Entry(name, document), Entry("manifest.json", json.dumps(manifest).encode()),
    ])  # fmt: skip


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}
