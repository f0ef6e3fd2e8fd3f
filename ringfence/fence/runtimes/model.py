"""What a runtime is: how a sandbox is isolated. `dummy` implements it in memory, `native` with bubblewrap.

Every runtime passes the same tests (tests/fence/runtimes). What one cannot do, it says in its capabilities; asking for
it is `Unsupported`, never a silent nothing. A runtime keeps no state that a restart of the server would lose: what it
must remember of a sandbox lies in that sandbox's folder, and what lives is told by the kernel, not by a file.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ringfence.fence.model import Blueprint, Cause, Enforced, Image, Life, Stats
from ringfence.kernel.errors import Invalid


class Unsupported(Invalid):
    """This runtime, or this host, cannot do that: the message says what would."""

    default_code = "unsupported"
    status = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    pause: bool
    snapshot: bool
    users: frozenset[str]  # of `User`
    limits: dict[str, str]  # what it can hold up, and how
    lacks: dict[str, str]  # what it cannot, and the command or change that would let it


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A sandbox as it is on this host, whatever any database says."""

    id: str
    life: Life | None  # None: files, and nothing that runs
    paused: bool = False


class Runtime(Protocol):
    name: str

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Let go; sandboxes go on."""

    def capabilities(self) -> Capabilities: ...

    def images(self) -> list[str]: ...

    async def import_image(self, name: str, archive: Path, most: int) -> Image:
        """The archive (a root filesystem, an OCI layout, a `docker save`) becomes the image `name`, of at most so many
        bytes. Whoever had the name gives it up. It lies where archives come in (incoming.py)."""

    async def forget_image(self, name: str) -> None:
        """Its name; what sandboxes and snapshots need of it stays until they do not. Harmless when there is none."""

    async def create(self, blueprint: Blueprint) -> Enforced:
        """Its files, and the folder of its link; nothing runs. Refuses what it cannot hold up. Harmless again."""

    def link_folder(self, sandbox: str) -> Path:
        """The host's folder that it sees as /run/ringfence: the server listens on `link.sock` there."""

    async def start(self, blueprint: Blueprint, key: bytes) -> Life:
        """Its warden runs; it dials when it is ready. `key` is the 32 bytes it greets with."""

    async def ended(self, sandbox: str, life: Life) -> Cause:
        """Wait until this life is over."""

    async def stop(self, sandbox: str) -> None:
        """End everything that runs in it, at once, paused or not; files stay. Done when nothing is left."""

    async def pause(self, sandbox: str) -> None: ...

    async def resume(self, sandbox: str) -> None: ...

    async def destroy(self, sandbox: str) -> None:
        """Stop it and remove all there is of it: files, mounts, cgroups, sockets. Harmless when there is nothing."""

    async def found(self, sandbox: str) -> Found | None: ...

    async def find_all(self) -> list[Found]:
        """Everything there is, known to a database or not."""

    async def stats(self, sandbox: str) -> Stats: ...

    async def said(self, sandbox: str) -> bytes:
        """What its warden, and what starts it, wrote to standard error: at most the last 64 KiB, of its last life."""

    async def snapshot(self, sandbox: str, name: str) -> int:
        """Keep its files as the snapshot `name`; how many bytes that took. It must be paused or stopped."""

    async def forget_snapshot(self, name: str) -> None: ...
