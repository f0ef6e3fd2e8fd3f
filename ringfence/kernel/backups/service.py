"""A copy of everything in one tar, taken while the server works, and put back into an empty data folder.

    files linked aside ──► the database copied, as it is at one moment ──► files linked again ──► tar

A file that is deleted while this goes on was linked before, and one that is new is linked after: what the copied
database names is there.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ringfence.kernel.database import is_no_space
from ringfence.kernel.errors import Conflict, Invalid, StorageFull, Unavailable

DATABASE, FILES, SETTINGS = "ringfence.db", "files", "ringfence.toml"
PREFIX = ".backup-"
CHUNK = 1 << 18
_BLOB = re.compile(r"files/([0-9a-f]{2})/(\1[0-9a-f]{62})")


# Making one -----------------------------------------------------------------------------------------------------------


def take(data: Path) -> Path:
    """A folder beside the data with a copy of all there is; whoever asked removes it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=data))
        try:
            _link_files(data, folder)
            _copy_database(data / DATABASE, folder / DATABASE)
            _link_files(data, folder)
            if (data / SETTINGS).is_file():
                shutil.copyfile(data / SETTINGS, folder / SETTINGS)
        except BaseException:
            discard(folder)
            raise
    except sqlite3.Error as error:
        raise _full() if is_no_space(error) else Unavailable(f"the database cannot be copied: {error}") from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise _full() if full else Unavailable(f"the data folder cannot be copied: {error}") from None
    return folder


def _full() -> StorageFull:
    return StorageFull("a backup takes as much space again as the database: free some on the disk of the data folder")


def _copy_database(source: Path, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=60)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))


def _link_files(data: Path, folder: Path) -> None:
    for blob in (data / FILES).glob("??/*"):
        name = f"{FILES}/{blob.parent.name}/{blob.name}"
        if not _BLOB.fullmatch(name) or (folder / name).exists():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            try:
                (folder / name).hardlink_to(blob)
            except FileNotFoundError:
                raise
            except OSError:  # another disk, or one without links
                shutil.copyfile(blob, folder / name)


def discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def sweep(data: Path) -> None:
    """Remove what a backup that was killed left behind; for who alone works on the folder."""
    for left in data.glob(f"{PREFIX}*"):
        discard(left)


def chunks(folder: Path) -> Iterator[bytes]:
    """The folder as a tar."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size, entry.mtime, entry.mode = facts.st_size, int(facts.st_mtime), 0o600
            yield entry.tobuf(tarfile.PAX_FORMAT)
            while chunk := file.read(CHUNK):
                yield chunk
        yield bytes(-facts.st_size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


# Putting one back -----------------------------------------------------------------------------------------------------


def restore(source: IO[bytes], data: Path) -> int:
    """Put a backup into a data folder that holds no database, all of it or nothing; how many files it has."""
    if (data / DATABASE).exists():
        raise Conflict(f"{data} holds a database already: name another folder with --data, or move that one away")
    aside = Path(tempfile.mkdtemp(prefix=PREFIX, dir=data))
    try:
        _unpack(source, aside)
        _check_database(aside / DATABASE)
        found = _check_files(aside)
        if (aside / FILES).exists():
            shutil.copytree(aside / FILES, data / FILES, dirs_exist_ok=True, copy_function=os.replace)
        if (aside / SETTINGS).exists() and not (data / SETTINGS).exists():
            (aside / SETTINGS).replace(data / SETTINGS)
        (aside / DATABASE).replace(data / DATABASE)  # last: with it the folder counts
    finally:
        discard(aside)
    return found


def _unpack(source: IO[bytes], folder: Path) -> None:
    """Only what a backup holds, under its own names: a tar from elsewhere may name anything."""
    try:
        with tarfile.open(fileobj=source, mode="r|") as tar:
            for entry in tar:
                if not entry.isreg() or not (entry.name in (DATABASE, SETTINGS) or _BLOB.fullmatch(entry.name)):
                    raise Invalid(f"this is no backup of Ringfence: it holds {entry.name!r:.120}")
                content = tar.extractfile(entry)
                assert content is not None
                (folder / entry.name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                with os.fdopen(os.open(folder / entry.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    shutil.copyfileobj(content, file, CHUNK)
                    file.flush()
                    os.fsync(file.fileno())
    except (tarfile.TarError, EOFError) as error:
        raise Invalid(f"this is no whole backup of Ringfence: {error}") from None
    if not (folder / DATABASE).exists():
        raise Invalid("this is no backup of Ringfence: there is no database in it")


def _check_database(path: Path) -> None:
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            said = connection.execute("PRAGMA integrity_check").fetchall()
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise Invalid(f"the database of this backup is damaged: {error}") from None
    if said != [("ok",)] or not {"events", "alembic_version"} <= tables:
        raise Invalid("the database of this backup is damaged, or is none of Ringfence's")


def _check_files(folder: Path) -> int:
    found = 0
    for blob in (folder / FILES).glob("??/*"):
        with blob.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob.name:
                raise Invalid(f"the file {blob.name} of this backup is damaged")
        found += 1
    return found
