"""Folders of this machine as tars, and tars from a sandbox as folders.

Whatever is in a tar from a sandbox was put there by whoever works in it. So nothing of it is written outside the folder
it is for: names that lead out are refused, links are made last, when nothing can be written through them any more, and
those that lead out are refused too; of devices, FIFOs and rights beyond rwx nothing is taken.
"""

import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from ringfence.sdk.errors import UnexpectedAnswer


def pack(folder: Path, into: IO[bytes]) -> None:
    """A folder, `.` first; owners and what is no file, folder or link are left out."""

    def taken(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member if member.isreg() or member.isdir() or member.issym() else None

    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT, dereference=False) as tar:
        tar.add(folder, ".", filter=taken)
    into.seek(0)


def unpack(tar: IO[bytes], folder: Path) -> None:
    links: list[tuple[Path, str]] = []
    folder.mkdir(parents=True, exist_ok=True)
    tar.seek(0)
    try:
        with tarfile.open(fileobj=tar, mode="r:") as found:
            for member in found:
                path = folder.joinpath(*_parts(member.name))
                if member.issym():
                    links.append((path, _target(member)))
                elif member.isdir():
                    _enter(folder, path)
                elif member.isreg():
                    _write(found, member, folder, path)
                else:
                    raise _refused(member.name, "neither a file nor a folder nor a link")
    except tarfile.TarError as error:
        raise UnexpectedAnswer(f"what came from the sandbox is no tar: {error}") from None
    for path, target in links:
        _enter(folder, path.parent)
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    odd = any(part == ".." or (os.name == "nt" and set(part) & set('\\:*?"<>|')) for part in parts)
    if name.startswith("/") or odd:
        raise _refused(name, "it leads out of the folder")
    return parts


def _target(member: tarfile.TarInfo) -> str:
    depth = len(_parts(member.name)) - 1
    for part in PurePosixPath(member.linkname).parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise _refused(member.name, f"a link to {member.linkname!r}, which leads out of the folder")
    return member.linkname


def _enter(top: Path, folder: Path) -> None:
    """Make it, through folders only: a link that was there before is not gone through."""
    for parent in [*reversed(folder.relative_to(top).parents), folder.relative_to(top)]:
        here = top / parent
        if here != top and here.is_symlink():
            raise _refused(str(parent), "a link is there already")
        here.mkdir(exist_ok=True)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, top: Path, path: Path) -> None:
    _enter(top, path.parent)
    path.unlink(missing_ok=True)  # not written through, if it is a link
    content = tar.extractfile(member)
    assert content is not None
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 | member.mode & 0o777), "wb") as file:
        while piece := content.read(1 << 20):
            file.write(piece)


def _refused(name: str, why: str) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"{name!r:.200} in what came from the sandbox is not taken: {why}")
