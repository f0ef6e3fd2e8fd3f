"""Images: bring them, look at them, remove them."""

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated

from typer import Argument, Option

from ringfence.cli.api import path
from ringfence.cli.invocation import Invocation, Noun
from ringfence.cli.problems import Usage
from ringfence.cli.screen import Column, when
from ringfence.kernel.sizes import written

image = Noun("image", "Images: root filesystems that sandboxes begin with.")

ALL = "/api/v1/images"
CHUNK = 1 << 18
_ENDINGS = re.compile(r"(\.(tar|tgz|txz|oci|docker|gz|xz|bz2|zst))+$")


COLUMNS = [
    Column("name", "name", whole=True),
    Column("size", lambda it: written(it["size"]), right=True),
    Column("layers", lambda it: len(it["layers"]), right=True),
    Column("format", "format"),
    Column("owner", "owner"),
    Column("imported", when("created_at")),
]
FACTS = [
    *COLUMNS[:2],
    Column("digest", "digest"),
    Column("layers", "layers"),
    *COLUMNS[3:],
    Column("env", lambda it: it["config"]["env"]),
    Column("programs begin in", lambda it: it["config"]["workdir"] or "/workspace"),
    Column("its user (not used)", lambda it: it["config"]["user"] or None),
    Column("its entrypoint (not run)", lambda it: it["config"]["entrypoint"]),
    Column("its command (not run)", lambda it: it["config"]["cmd"]),
]
Name = Annotated[str, Argument(metavar="IMAGE", help="Its name.")]


@image.verb("import")
def import_image(
    run: Invocation,
    file: Annotated[
        str, Argument(metavar="PATH", help="A tar of a root or of an OCI layout, `docker save`, a folder.")
    ],
    name: Annotated[str | None, Option("--name", "-n", help="As tools or debian:12. [the file's name]")] = None,
    on_server: Annotated[bool, Option("--on-server", help="PATH is on the server's host; for admins.")] = False,
) -> None:
    """Import an image: a root filesystem (a folder, or a tar), an OCI layout, or what `docker save` wrote."""
    called = name or _ENDINGS.sub("", Path(file).name).lower()
    if on_server:
        made = run.api.send(ALL, None, name=called, path=file)
    else:
        with _archive(Path(file)) as archive:
            size = os.fstat(archive.fileno()).st_size
            made = run.api.send(ALL, run.screen.sending(_chunks(archive), size, file), size, name=called)
    told = f"Imported {made['name']}: {len(made['layers'])} layers, {written(made['size'])}."
    run.screen.done(made, told, made["name"])


@contextmanager
def _archive(path: Path) -> Iterator[IO[bytes]]:
    """A folder is packed first."""
    if not path.is_dir():
        try:
            opened = path.open("rb")
        except OSError as error:
            raise Usage(f"{path} cannot be read: {error.strerror}") from None
        with opened:
            yield opened
        return
    with TemporaryFile() as packed:
        with tarfile.open(fileobj=packed, mode="w:") as tar:
            for entry in (path, *sorted(path.rglob("*"))):
                if not entry.is_socket():
                    tar.add(entry, str(entry.relative_to(path)), recursive=False)
        packed.seek(0)
        yield packed


def _chunks(archive: IO[bytes]) -> Iterator[bytes]:
    while chunk := archive.read(CHUNK):
        yield chunk


@image.verb("list")
def list_images(run: Invocation) -> None:
    """The images of this server; beside them there is always `host`, its own programs."""
    run.screen.items(run.api.every(ALL), COLUMNS, "no images but `host`")


@image.verb("show")
def show(run: Invocation, image: Name) -> None:
    """One image, with its layers and what it says of programs."""
    run.screen.facts(run.api.get(ALL + path(image)), FACTS)


@image.verb("rm")
def remove(run: Invocation, image: Name) -> None:
    """Remove an image that no sandbox and no snapshot is made of."""
    run.screen.confirm(f"Remove the image {image}?")
    gone = run.api.delete(ALL + path(image)).body
    run.screen.done(gone, f"Removed {gone['name']}.", gone["name"])


@image.verb("prune")
def prune(run: Invocation) -> None:
    """Remove every image that no sandbox and no snapshot is made of."""
    run.screen.confirm("Remove every image that nothing is made of?")
    gone = run.api.post(f"{ALL}/prune").body
    names = [each["name"] for each in gone["removed"]]
    run.screen.done(gone, f"Removed {', '.join(names) or 'nothing'}.", "\n".join(names))
