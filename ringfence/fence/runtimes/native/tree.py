"""Removing trees that a hostile program wrote: any depth, any name, any mode, a million files.

Everything goes by descriptor and never through a symbolic link, so that no name can lead elsewhere. Nothing is
recursive and no path is built: a deep tree costs no more descriptors and no more stack than a flat one.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(path: Path) -> None:
    """What is at `path`, whatever it is; harmless when there is nothing. Nobody may still write there."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not _is_folder(parent, path.name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=parent)
            return
        top = _open(parent, path.name)
        try:
            empty(top)
        finally:
            os.close(top)
        os.rmdir(path.name, dir_fd=parent)
    finally:
        os.close(parent)


def empty(top: int) -> None:
    """What is in it. Folders that are not empty are moved up into `top`, and looked at in the next round."""
    moved = 0
    while names := os.listdir(top):
        for name in names:
            if not _is_folder(top, name):
                os.unlink(name, dir_fd=top)
                continue
            folder = _open(top, name)
            try:
                while not _is_empty(folder):  # what is removed while it is read may hide something from one look
                    for inner in _unlink_files(folder):
                        moved = _move_up(folder, inner, top, moved)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)


def _is_empty(folder: int) -> bool:
    with os.scandir(folder) as entries:
        return next(entries, None) is None


def _unlink_files(folder: int) -> list[str]:
    """Leaves the folders that are not empty, and names them."""
    left = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                continue
            try:
                os.rmdir(entry.name, dir_fd=folder)
            except OSError:
                left.append(entry.name)
    return left


def _move_up(folder: int, name: str, top: int, moved: int) -> int:
    _let_in(folder, name)  # moving a folder needs the right to write in it
    while True:
        moved += 1
        try:
            os.rename(name, f".{moved}", src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return moved


def _is_folder(parent: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _open(parent: int, name: str) -> int:
    """A folder whose owner is us, or whom root may enter; its mode (overlay's `work` has none) does not matter."""
    _let_in(parent, name)
    return os.open(name, _FOLDER, dir_fd=parent)


def _let_in(parent: int, name: str) -> None:
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(fd).st_mode
        if mode & 0o700 != 0o700:
            Path(f"/proc/self/fd/{fd}").chmod(stat.S_IMODE(mode) | 0o700)
    finally:
        os.close(fd)
