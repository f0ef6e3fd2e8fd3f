"""One layer: a tar becomes a folder that overlay can use, whatever the tar holds.

`.wh.NAME` hides NAME of the layers below, `.wh..wh..opq` all that they have in its folder; overlay wants a device 0:0
of that name, and the mark `user.overlay.opaque` on the folder. Device nodes are left out; so are extended attributes,
and the setuid and setgid bits of programs: none would count in a sandbox.
"""

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HIDES, HIDES_ALL, OTHER_MARKS = ".wh.", ".wh..wh..opq", ".wh..wh."
OPAQUE = "user.overlay.opaque"
CHUNK = 1 << 18
IDS = 65536
DEEPEST = 256


class Refused(Exception):
    """What the stranger is told, and how: `invalid`, `too_large`, `full`."""

    def __init__(self, why: str, kind: str = "invalid") -> None:
        super().__init__(why)
        self.kind = kind


@dataclass
class Bounds:
    """What may still be unpacked."""

    bytes: int
    entries: int
    owners: bool  # whether there is more than one id that files can belong to

    def take(self, size: int) -> None:
        self.bytes -= size
        self.entries -= 1
        if self.bytes < 0 or self.entries < 0:
            raise Refused("unpacked, it has more bytes, or more files, than are taken here", "too_large")


def unpack_layer(stream: Any, folder: str, bounds: Bounds) -> None:
    """Into `folder`; whoever calls this lives in a chroot."""
    layer = _Layer(folder, bounds)
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as tar:
        while (member := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]
            bounds.take(member.size if member.isreg() else 0)
            layer.add(tar, member)


class _Layer:
    def __init__(self, folder: str, bounds: Bounds) -> None:
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._bounds = bounds

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        with _naming(member.name):
            parts = _parts(member.name)
        if not parts:
            return
        with _naming(member.name):
            os.fchdir(self._root)
            for part in parts[:-1]:
                self._enter(part)
            self._put(tar, member, parts[-1])

    def _enter(self, part: str) -> None:
        try:
            mode = os.lstat(part).st_mode
        except FileNotFoundError:
            self._bounds.take(0)
            Path(part).mkdir(0o755)
        else:
            if stat.S_ISCHR(mode):
                self._replace_whiteout(part)
            elif not stat.S_ISDIR(mode):
                raise Refused(f"{part[:200]!r} is a file or a link, and something is in it")
        os.chdir(part)

    def _replace_whiteout(self, name: str) -> None:
        """A folder where one of the layers below was hidden begins empty."""
        Path(name).unlink()
        Path(name).mkdir(0o755)
        os.setxattr(name, OPAQUE, b"y")

    def _put(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        if name == HIDES_ALL:
            os.setxattr(".", OPAQUE, b"y")
        elif name.startswith(OTHER_MARKS):
            return
        elif name.startswith(HIDES):
            self._hide(_name(name.removeprefix(HIDES)))
        elif member.isdir():
            self._put_folder(member, name)
        elif member.isreg() or member.issym() or member.isfifo() or member.islnk():
            self._put_other(tar, member, name)

    def _hide(self, name: str) -> None:
        try:
            if stat.S_ISDIR(os.lstat(name).st_mode):
                os.setxattr(name, OPAQUE, b"y")  # what this layer has there stays
        except FileNotFoundError:
            os.mknod(name, stat.S_IFCHR, os.makedev(0, 0))

    def _put_folder(self, member: tarfile.TarInfo, name: str) -> None:
        try:
            mode = os.lstat(name).st_mode
        except FileNotFoundError:
            Path(name).mkdir()
        else:
            if stat.S_ISCHR(mode):
                self._replace_whiteout(name)
            elif not stat.S_ISDIR(mode):
                Path(name).unlink()
                Path(name).mkdir()
        self._own(name, member, stat.S_IMODE(member.mode))

    def _put_other(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        if member.islnk():
            self._put_hard_link(member, name)
            return
        self._clear(name)
        if member.issym():
            Path(name).symlink_to(member.linkname)
            self._chown(name, member)
        elif member.isfifo():
            os.mkfifo(name, 0o600)
            self._own(name, member, member.mode & 0o777)
        else:
            self._write(tar, member, name)

    def _put_hard_link(self, member: tarfile.TarInfo, name: str) -> None:
        """Both ends are found from the layer's root, through folders alone."""
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            target = _parts(member.linkname)
            if not target:
                raise Refused("it is a hard link to a folder")
            os.fchdir(self._root)
            for part in target[:-1]:
                if not stat.S_ISDIR(os.lstat(part).st_mode):
                    raise Refused("it is a hard link through something that is no folder")
                os.chdir(part)
            linked = os.lstat(target[-1])
            if stat.S_ISDIR(linked.st_mode) or stat.S_ISCHR(linked.st_mode):
                raise Refused("it is a hard link to something that is no file")
            from_ = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fchdir(here)
                if not _is(name, linked):
                    self._clear(name)
                    os.link(target[-1], name, src_dir_fd=from_, dst_dir_fd=here, follow_symlinks=False)
            finally:
                os.close(from_)
        finally:
            os.close(here)

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        content = tar.extractfile(member)
        assert content is not None
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb", buffering=0) as file:
            left = member.size
            while left and (chunk := content.read(min(CHUNK, left))):
                file.write(chunk)
                left -= len(chunk)
            if left:
                raise Refused("it was cut short")
            self._own(name, member, member.mode & 0o1777)
        os.utime(name, (member.mtime, member.mtime), follow_symlinks=False)

    def _clear(self, name: str) -> None:
        """The same name twice in one tar: the later one counts."""
        try:
            is_folder = stat.S_ISDIR(os.lstat(name).st_mode)
        except FileNotFoundError:
            return
        if is_folder:
            shutil.rmtree(name)
        else:
            Path(name).unlink()

    def _own(self, name: str, member: tarfile.TarInfo, mode: int) -> None:
        self._chown(name, member)
        Path(name).chmod(mode)

    def _chown(self, name: str, member: tarfile.TarInfo) -> None:
        """Where there is but one id, everything is its."""
        if not self._bounds.owners:
            return
        if not (0 <= member.uid < IDS and 0 <= member.gid < IDS):
            raise Refused(f"it belongs to {member.uid}:{member.gid}, and ids end at {IDS - 1}")
        os.chown(name, member.uid, member.gid, follow_symlinks=False)


def _parts(name: str) -> list[str]:
    parts = [_name(part) for part in name.split("/") if part not in ("", ".")]
    if len(parts) > DEEPEST:
        raise Refused(f"it lies {len(parts)} folders deep; at most {DEEPEST} are made")
    return parts


def _name(part: str) -> str:
    if part in ("", ".", "..") or "\0" in part or "/" in part:
        raise Refused(f"the name {part[:120]!r} leads elsewhere")
    return part


def _is(name: str, other: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(name), other)
    except FileNotFoundError:
        return False


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Refusals say of which entry they speak."""
    try:
        yield
    except Refused as refused:
        raise Refused(f"{name[-200:]!r}: {refused}", refused.kind) from None
    except (OSError, ValueError, OverflowError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused(f"{name[-200:]!r}: {what}", "full" if full else "invalid") from None
