"""Files of projects and attachments of tasks: rows that name blobs, and blobs kept once, by their checksum.

A blob is on the disk before the row that names it is committed; a blob that no row names is swept, once it is older
than any upload can be.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ringfence.board import store
from ringfence.board.acting import Acting
from ringfence.kernel.auth.model import Principal, Role
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Forbidden, NotFound, StorageFull, Unavailable
from ringfence.kernel.ids import new

SETTLED_AFTER = 60.0  # seconds
PIECE, OVERLAP = 64 * 1024, 4096  # characters judged at once: one pass over megabytes lets no other thread run
SWEPT_AFTER = 3600.0  # seconds: an upload's blob may be older than its row by this much


@dataclass(frozen=True, slots=True)
class File:
    filename: str
    checksum: str
    size: int
    uploader: str
    updated_at: int


class Blobs:
    """Content on disk, by SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes) -> str:
        """Keep the content, durably; its checksum."""
        checksum = hashlib.sha256(content).hexdigest()
        path = self._path(checksum)
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)  # so that who removes blobs leaves it to us
            if path.read_bytes() == content:  # else it was damaged, and this mends it
                return checksum
        temporary = path.parent / f".{new('tmp')}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StorageFull(f"the file cannot be stored ({error.strerror}): free some space, then repeat") from None
        return checksum

    def get(self, checksum: str) -> bytes:
        try:
            content = self._path(checksum).read_bytes()
        except FileNotFoundError:
            raise NotFound("File not found: its content is gone from the data folder", code="content_missing") from None
        except OSError as error:
            raise Unavailable(f"the file's content cannot be read ({error.strerror}): look at the disk") from None
        if hashlib.sha256(content).hexdigest() != checksum:
            raise NotFound(
                "Checksum mismatch: the stored content was damaged; upload it again", code="checksum_mismatch"
            )
        return content

    def remove(self, checksums: Iterable[str]) -> None:
        """Remove blobs that nothing names any more; a new one may be on its way to a row: the sweep sees to it."""
        for checksum in checksums:
            self._discard(self._path(checksum), SETTLED_AFTER)

    def sweep(self, tx: Transaction) -> int:
        """Remove blobs that no row names."""
        removed = 0
        for path in self._folder.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                if _untouched(path, SWEPT_AFTER) and tx.row(store.CHECKSUM_USED, checksum=path.name) is None:
                    removed += self._discard(path, SWEPT_AFTER)
        return removed

    def _discard(self, path: Path, after: float) -> bool:
        """Remove a blob that was left alone for so long. It is looked at again out of the way, where no upload of the
        same content can still find it and believe it kept."""
        aside = path.parent / f".{new('old')}"
        with contextlib.suppress(FileNotFoundError):
            if _untouched(path, after):
                path.rename(aside)
                if _untouched(aside, after):
                    aside.unlink()
                    return True
                aside.rename(path)
        return False

    def _path(self, checksum: str) -> Path:
        return self._folder / checksum[:2] / checksum


def _untouched(path: Path, seconds: float) -> bool:
    return time.time() - path.stat().st_mtime > seconds


class Files:
    def __init__(self, acting: Acting, *, filter_links: bool) -> None:
        self._acting = acting
        self._projects = acting.projects
        self._filter_links = filter_links

    def check(self, by: Principal, content: bytes) -> None:
        """Refuse an agent's text that holds links out, where that is configured."""
        if self._filter_links and by.is_agent:
            with contextlib.suppress(UnicodeDecodeError):
                text = content.decode()
                for start in range(0, len(text), PIECE):
                    self._acting.no_links(by, text[start : start + PIECE + OVERLAP])

    def add(
        self,
        tx: Transaction,
        by: Principal,
        project_id: str,
        task_id: str,
        uploader: str | None,
        filename: str,
        checksum: str,
        size: int,
    ) -> File:
        project = self._projects.find(tx, by, project_id)
        if task_id:
            self._acting.to_change(tx, by, project_id, task_id)
        doer = self._acting.doer(tx, by, uploader, "upload files")
        known = self._find(tx, project.id, task_id, filename)
        if known is not None:
            tx.run(store.DELETE_FILE, project=project.id, task=task_id, filename=filename)
        file = File(filename, checksum, size, doer.name, tx.now)
        tx.run(
            store.ADD_FILE,
            project_id=project.id, task_id=task_id, filename=filename, checksum=checksum, size=size,
            uploader=doer.name, updated_at=tx.now,
        )  # fmt: skip
        told = {"project": project.id, "filename": filename, "uploader": doer.name, "size": size, "checksum": checksum}
        tx.record(
            "file_uploaded", doer.actor, told | _on_task(task_id), project=project.id, subject=task_id or filename
        )
        return file

    def get(self, tx: Transaction, by: Principal, project_id: str, task_id: str, filename: str) -> File:
        self._projects.find(tx, by, project_id, change=False)
        file = self._find(tx, project_id, task_id, filename)
        if file is None:
            raise NotFound(f"File not found: {filename!r:.120}; GET …/files lists those there are")
        return file

    def page(
        self, tx: Transaction, by: Principal, project_id: str, task_id: str, cursor: str, limit: int
    ) -> list[File]:
        self._projects.find(tx, by, project_id, change=False)
        return [
            File(*row) for row in tx.rows(store.FILES, project=project_id, task=task_id, cursor=cursor, limit=limit)
        ]

    def delete(self, tx: Transaction, by: Principal, project_id: str, task_id: str, filename: str) -> File:
        project = self._projects.find(tx, by, project_id)
        file = self._find(tx, project.id, task_id, filename)
        if file is None:
            raise NotFound(f"File not found: {filename!r:.120}")
        doer = self._acting.doer(tx, by, None, "delete files")
        if not by.may(Role.OPERATOR) and file.uploader != by.name:
            raise Forbidden(f"{filename!r} was uploaded by {file.uploader}: only they or an operator delete it")
        tx.run(store.DELETE_FILE, project=project.id, task=task_id, filename=filename)
        told = {"project": project.id, "filename": filename} | _on_task(task_id)
        tx.record("file_deleted", doer.actor, told, project=project.id, subject=task_id or filename)
        return file

    def _find(self, tx: Transaction, project_id: str, task_id: str, filename: str) -> File | None:
        row = tx.row(store.FILE, project=project_id, task=task_id, filename=filename)
        return None if row is None else File(*row)


def _on_task(task_id: str) -> dict[str, str]:
    return {"task_id": task_id} if task_id else {}
