"""Copying and removing a hostile tree as nobody (mapped.py): any depth, any name, sparse files, links, whiteouts.

Two descriptors are open at a time, however deep it goes: the way back is `..`, which nobody can move, because nothing
runs in a sandbox that is copied.
"""

import errno
import os
import stat
from collections.abc import Mapping
from typing import Any

from ringfence.fence.runtimes.native import tree
from ringfence.fence.runtimes.native.layer import OPAQUE, Refused

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOATIME | os.O_CLOEXEC
CHUNK = 1 << 22
LINKS = ".links"  # beside the copy, while it is made: each file that has several names


def copy(descriptors: list[int], asked: Mapping[str, Any]) -> dict[str, Any]:
    """`descriptors`: the folder to copy, and an empty one that gets `files`. Ids become larger by `shift`."""
    source, target = descriptors
    os.mkdir("files", dir_fd=target)
    os.mkdir(LINKS, dir_fd=target)
    copied = os.open("files", _FOLDER, dir_fd=target)
    links = os.open(LINKS, _FOLDER, dir_fd=target)
    copier = _Copier(links, int(asked["shift"]), int(asked["entries"]))
    copier.tree(os.dup(source), copied)
    with os.scandir(links) as entries:
        for entry in entries:
            os.unlink(entry.name, dir_fd=links)
    os.rmdir(LINKS, dir_fd=target)
    return {"size": copier.size, "entries": copier.entries}


class _Copier:
    def __init__(self, links: int, shift: int, most: int) -> None:
        self._links, self._shift, self._most = links, shift, most
        self.size = self.entries = 0

    def tree(self, source: int, target: int) -> None:
        waiting: list[list[str]] = [self._folder(source, target)]
        while waiting:
            if waiting[-1]:
                source, target = self._down(source, target, waiting[-1].pop())
                waiting.append(self._folder(source, target))
                continue
            waiting.pop()
            self._about(source, target)
            if waiting:
                source, target = _up(source), _up(target)

    def _down(self, source: int, target: int, name: str) -> tuple[int, int]:
        os.mkdir(name, 0o700, dir_fd=target)
        inner = os.open(name, _FOLDER, dir_fd=source), os.open(name, _FOLDER, dir_fd=target)
        os.close(source)
        os.close(target)
        return inner

    def _folder(self, source: int, target: int) -> list[str]:
        """Copy what is in it but folders; their names."""
        folders = []
        with os.scandir(source) as entries:
            for entry in entries:
                self.entries += 1
                if self.entries > self._most:
                    raise Refused(f"it has more than {self._most} files", "too_large")
                about = os.stat(entry.name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    folders.append(entry.name)
                elif about.st_nlink > 1:
                    self._linked(source, target, entry.name, about)
                else:
                    self._other(source, target, entry.name, entry.name, about)
        return folders

    def _linked(self, source: int, target: int, name: str, about: os.stat_result) -> None:
        """A file of many names is copied once."""
        once = f"{about.st_dev}-{about.st_ino}"
        try:
            os.stat(once, dir_fd=self._links, follow_symlinks=False)
        except FileNotFoundError:
            self._other(source, self._links, name, once, about)
        try:
            os.link(once, name, src_dir_fd=self._links, dst_dir_fd=target, follow_symlinks=False)
        except FileNotFoundError:  # a socket, which is not copied
            return
        except OSError as error:  # our own name for it was one more than there can be
            if error.errno != errno.EMLINK:
                raise
            self._other(source, target, name, name, about)

    def _other(self, source: int, target: int, name: str, as_: str, about: os.stat_result) -> None:
        mode = about.st_mode
        if stat.S_ISREG(mode):
            self._file(source, target, name, as_, about)
            return
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=source), as_, dir_fd=target)
        elif stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and about.st_rdev == 0):
            os.mknod(as_, stat.S_IFMT(mode) | 0o600, about.st_rdev, dir_fd=target)
        else:
            return
        self._own(as_, target, about)
        if not stat.S_ISLNK(mode):
            os.chmod(as_, mode & 0o777, dir_fd=target)
        os.utime(as_, ns=(about.st_atime_ns, about.st_mtime_ns), dir_fd=target, follow_symlinks=False)

    def _file(self, source: int, target: int, name: str, as_: str, about: os.stat_result) -> None:
        read = os.open(name, _FILE, dir_fd=source)
        written = os.open(as_, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
        try:
            self.size += _content(read, written, about.st_size)
            _marks(read, written)
            self._own(written, None, about)
            os.fchmod(written, about.st_mode & 0o1777)  # without setuid, which counts nowhere
            os.utime(written, ns=(about.st_atime_ns, about.st_mtime_ns))
        finally:
            os.close(read)
            os.close(written)

    def _about(self, source: int, target: int) -> None:
        """A folder's own, once everything is in it."""
        about = os.fstat(source)
        _marks(source, target)
        self._own(target, None, about)
        os.fchmod(target, stat.S_IMODE(about.st_mode))
        os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))

    def _own(self, what: int | str, folder: int | None, about: os.stat_result) -> None:
        user, group = about.st_uid + self._shift, about.st_gid + self._shift
        if folder is None:
            os.chown(what, user, group)
        else:
            os.chown(what, user, group, dir_fd=folder, follow_symlinks=False)


def _up(folder: int) -> int:
    above = os.open("..", _FOLDER, dir_fd=folder)
    os.close(folder)
    return above


def _content(read: int, written: int, size: int) -> int:
    """Holes stay holes."""
    copied, at = 0, 0
    while at < size:
        try:
            at = os.lseek(read, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        end = os.lseek(read, at, os.SEEK_HOLE)
        os.lseek(written, at, os.SEEK_SET)
        while at < end:
            if not (done := os.sendfile(written, read, at, min(CHUNK, end - at))):
                break
            at += done
            copied += done
    os.ftruncate(written, size)
    return copied


def _marks(read: int, written: int) -> None:
    """Of overlay's own, the one that a layer needs."""
    for name in os.listxattr(read):
        if name == OPAQUE or (name.startswith("user.") and not name.startswith("user.overlay.")):
            os.setxattr(written, name, os.getxattr(read, name))


def remove(descriptors: list[int], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Everything in the folder."""
    tree.empty(descriptors[0])
    return {}
