"""What is asked and told of files over HTTP.

A name may be any bytes. In an answer it is text, and beside it base64 where the text is not all there is to it; in a
body it is text, or `{"base64": …}`; in a URL it is percent-encoded, byte for byte.
"""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ringfence.fence.files.model import LISTED, PATH, Change, Entry, Port
from ringfence.kernel.clock import iso
from ringfence.kernel.http.endpoint import Fields
from ringfence.kernel.http.octets import RawWord, written

Mode = Annotated[str, Field(pattern="^0?[0-7]{3,4}$", description="As chmod has it: 0644.")]
Given = Annotated[str, Field(min_length=1, max_length=PATH)] | RawWord
InUrl = Annotated[str, Field(min_length=1, max_length=PATH)]
Count = Annotated[int, Field(ge=0, le=1 << 62)]
PATH_IN_URL = "Absolute, or relative to /workspace; percent-encoded byte for byte."


class PathQuery(Fields):
    path: InUrl = Field(description=PATH_IN_URL)


class ReadQuery(PathQuery):
    offset: Count = 0
    length: Count | None = Field(None, description="At most so many bytes.")


class WriteQuery(PathQuery):
    how: Literal["replace", "create", "append"] = Field(
        "replace", description="replace: atomically; create: refused when it is there; append: at its end."
    )
    mode: Mode | None = Field(None, description="As chmod has it; 0644 for a new file when missing.")
    parents: bool = Field(False, description="Make the folders above it.")


class ListQuery(Fields):
    path: InUrl = Field("/workspace", description=PATH_IN_URL)
    depth: Annotated[int, Field(ge=0, le=4096)] = Field(1, description="How deep; 0: all there is.")
    limit: Annotated[int, Field(ge=1, le=LISTED)] = Field(10_000, description="Entries at most; `cut` tells of more.")


class RemoveQuery(PathQuery):
    recursive: bool = Field(False, description="A folder with all that is in it.")


class WatchQuery(Fields):
    path: InUrl = Field("/workspace", description=PATH_IN_URL)
    recursive: bool = Field(False, description="Folders below it, too.")


class NewDirectory(Fields):
    path: Given
    mode: Mode = "0755"
    parents: bool = Field(False, description="Make the folders above it, and be content when it is there.")


class Move(Fields):
    path: Given
    to: Given
    replace: bool = Field(False, description="Take the place of a file that is there.")


class EntryView(TypedDict):
    name: str
    name_base64: str | None
    kind: str
    size: int
    mode: str
    uid: int
    gid: int
    modified: str
    target: str | None
    target_base64: str | None


class EntriesView(TypedDict):
    items: list[EntryView]
    count: int
    cut: bool


class FileWritten(TypedDict):
    path: str
    size: int


class FileMoved(TypedDict):
    path: str
    to: str


class FilesRemoved(TypedDict):
    path: str
    count: int


class DirectoryMade(TypedDict):
    path: str


class ArchiveUnpacked(TypedDict):
    path: str
    count: int
    bytes: int


class ChangeView(TypedDict):
    path: str
    path_base64: str | None
    to: str | None
    to_base64: str | None
    directory: bool


class PortView(TypedDict):
    port: int
    addresses: list[str]
    reachable: bool


class PortsView(TypedDict):
    items: list[PortView]


def permissions(mode: str) -> int:
    return int(mode, 8)


def entry_view(entry: Entry) -> EntryView:
    name, name_base64 = written(entry.name)
    target, target_base64 = (None, None) if entry.target is None else written(entry.target)
    return {
        "name": name, "name_base64": name_base64, "kind": entry.kind, "size": entry.size, "mode": f"{entry.mode:04o}",
        "uid": entry.uid, "gid": entry.gid, "modified": iso(min(entry.modified, LAST_MOMENT)), "target": target,
        "target_base64": target_base64,
    }  # fmt: skip


LAST_MOMENT = 253_402_300_799_000_000  # the year 9999: a file may say that it is of a later one


def change_view(change: Change) -> ChangeView:
    path, path_base64 = written(change.path)
    to, to_base64 = (None, None) if change.to is None else written(change.to)
    return {"path": path, "path_base64": path_base64, "to": to, "to_base64": to_base64, "directory": change.directory}


def port_view(port: Port) -> PortView:
    return {"port": port.port, "addresses": list(port.addresses), "reachable": port.reachable}
