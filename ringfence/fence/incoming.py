"""Archives of images on their way in: a body as it comes, or a file or folder of this host that an admin names."""

import asyncio
import contextlib
import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from ringfence.kernel.errors import Invalid, StorageFull, TooLarge
from ringfence.kernel.ids import new

PAUSE = 60.0  # seconds a sender may say nothing


class Incoming:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """What a crash left here is nobody's."""
        self._folder.mkdir(exist_ok=True, mode=0o700)
        for entry in self._folder.iterdir():
            entry.unlink()

    @contextlib.asynccontextmanager
    async def received(self, chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[Path]:
        """The body as a file, for as long as this lasts."""
        with self._spool() as spool:
            with _as_full():
                await _receive(chunks, spool, most)
            yield spool

    @contextlib.asynccontextmanager
    async def named(self, path: Path, most: int) -> AsyncIterator[Path]:
        """A file of this host; a folder, an OCI layout or a root, as an archive of it."""
        is_file, is_folder = await asyncio.to_thread(lambda: (path.is_file(), path.is_dir()))
        if not is_file and not is_folder:
            raise Invalid(f"there is no file or folder {str(path)!r:.300} on the server's host that it can read")
        with self._spool() as spool:
            with _as_full():
                await asyncio.to_thread(_copy if is_file else _pack, path, spool, most)
            yield spool

    @contextlib.contextmanager
    def _spool(self) -> Iterator[Path]:
        spool = self._folder / new("tar")
        try:
            yield spool
        finally:
            spool.unlink(missing_ok=True)


@contextlib.contextmanager
def _as_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFull(f"the archive cannot be stored ({error.strerror}): free some space, then repeat") from None


async def _receive(chunks: AsyncIterator[bytes], spool: Path, most: int) -> None:
    size = 0
    with spool.open("xb") as file:
        while True:
            try:
                chunk = await asyncio.wait_for(anext(chunks, None), PAUSE)
            except TimeoutError:
                raise Invalid(f"nothing came for {PAUSE:g} s", code="too_slow", http_status=408) from None
            if chunk is None:
                break
            if (size := size + len(chunk)) > most:
                raise TooLarge(f"the archive has more than {most} bytes (max_image)")
            await asyncio.to_thread(file.write, chunk)
    if size == 0:
        raise Invalid("the body is empty: send the archive, or name its `path` on the server's host")


def _copy(file: Path, spool: Path, most: int) -> None:
    if (size := file.stat().st_size) > most:
        raise TooLarge(f"{file} has {size} bytes; at most {most} are taken (max_image)")
    shutil.copyfile(file, spool)


def _pack(folder: Path, spool: Path, most: int) -> None:
    """In one order, so that the same folder has the same digest."""
    with tarfile.open(spool, "x:", format=tarfile.PAX_FORMAT) as tar:
        for path in (folder, *sorted(folder.rglob("*"))):
            if path.is_socket():
                continue
            entry = tar.gettarinfo(path, str(path.relative_to(folder)))
            entry.mtime = int(entry.mtime)
            if tar.offset + entry.size > most:
                raise TooLarge(f"the folder has more than {most} bytes (max_image)")
            if entry.isreg():
                with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
