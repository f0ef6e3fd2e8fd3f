"""The data folder, made over to the server's user once.

    DATA/                 root's, its group the server's; 1771: the server adds entries, and moves none of root's
      run/, sandboxes/    root's
      ringfence.toml      root's; the server may read it
      everything else     the server's

Everything is done by descriptor and through no link. What should not be there (a link, a device, a file with a second
name, another user's) is not made over but told: a hostile server may have put it there, before root came again.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from ringfence.privileges.users import User

RUN, SANDBOXES, SETTINGS = "run", "sandboxes", "ringfence.toml"
MODE = 0o1771
_FOLDERS = {RUN: 0o700, SANDBOXES: 0o711}
_OURS = re.compile(r"ringfence\.db.*|files|fence|execs|incoming|\.backup-.*")  # what a server run by root has left
_ROOTS = re.compile(r"run|sandboxes|ringfence\.toml|lost\+found|\.doctor-.*")


class Surprise(Exception):
    """Something in the data folder is not as we left it: the message names it, and says what to do."""


def check(data: Path, server: User) -> None:
    """Before anything is opened in it: it is root's, and so are the folders that root works in."""
    with contextlib.suppress(FileNotFoundError):
        _must_be_roots(data, data.stat(), also=server.uid)
        for name in _FOLDERS:
            with contextlib.suppress(FileNotFoundError):
                facts = (data / name).lstat()
                _must_be_roots(data / name, facts)
                if not stat.S_ISDIR(facts.st_mode):
                    raise Surprise(f"{data / name} is no folder: look at what it is, and remove it")


def make_over(data: Path, server: User) -> None:
    """For who holds its lock. Harmless again."""
    check(data, server)
    with _opened(data, os.O_DIRECTORY) as folder:
        before = os.fstat(folder)
        made = (before.st_uid, before.st_gid, stat.S_IMODE(before.st_mode)) == (0, server.gid, MODE)
        servers = [] if made else [name for name in _names(folder) if not _ROOTS.fullmatch(name)]
        for name in servers:
            if not _OURS.fullmatch(name):
                raise Surprise(f"{data} holds {name!r:.80}, which is not Ringfence's: choose another with --data")
        for name, mode in _FOLDERS.items():
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
            with _opened(name, os.O_DIRECTORY | os.O_NOFOLLOW, folder) as own:
                os.fchmod(own, mode)
        _show_settings(data, folder, server)
        for name in servers:
            _give(data / name, folder, name, before, server)
        if not made:
            os.fchown(folder, 0, server.gid)
            os.fchmod(folder, MODE)


def _show_settings(data: Path, folder: int, server: User) -> None:
    try:
        file = os.open(SETTINGS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        _must_be_roots(data / SETTINGS, os.fstat(file))
        os.fchown(file, 0, server.gid)
        os.fchmod(file, 0o640)
    finally:
        os.close(file)


def _give(path: Path, parent: int, name: str, before: os.stat_result, server: User) -> None:
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    known = facts.st_uid in (0, server.uid) or facts.st_gid == before.st_gid
    whole = stat.S_ISDIR(facts.st_mode) or (stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1)
    if not known or not whole or facts.st_dev != before.st_dev:
        raise Surprise(f"{path} is not what Ringfence put there: look at what it is, and remove it")
    with _opened(name, os.O_NOFOLLOW | os.O_NONBLOCK, parent) as entry:
        now = os.fstat(entry)
        if (now.st_ino, now.st_dev) != (facts.st_ino, facts.st_dev):
            raise Surprise(f"{path} changes while it is looked at: somebody else works in this folder")
        if stat.S_ISDIR(now.st_mode):
            for inner in _names(entry):
                _give(path / inner, entry, inner, before, server)
        os.fchown(entry, server.uid, server.gid)
        os.fchmod(entry, stat.S_IMODE(now.st_mode) & 0o700)


def _must_be_roots(path: Path, facts: os.stat_result, also: int = 0) -> None:
    if facts.st_uid not in (0, also):
        raise Surprise(
            f"{path} belongs to user {facts.st_uid}, and root works on folders of root's only: run Ringfence as that "
            f"user, or, if you trust what is in it, `chown -h root {path}`"
        )


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


@contextlib.contextmanager
def _opened(path: Path | str, flags: int, parent: int | None = None) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=parent)
    try:
        yield opened
    finally:
        os.close(opened)
