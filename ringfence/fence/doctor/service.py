"""The doctor: looks at this host and tries it; from the command with no server, and in a server with its runtime."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ringfence.fence.doctor.findings import findings
from ringfence.fence.doctor.host import Host
from ringfence.fence.doctor.model import Diagnosis, Finding
from ringfence.fence.doctor.trial import Trial, tried
from ringfence.fence.posture.service import PROBE
from ringfence.fence.runtimes.model import Runtime
from ringfence.fence.runtimes.native import tree
from ringfence.fence.runtimes.native.boxes import Boxes
from ringfence.fence.runtimes.native.bwrap import NoBubblewrap
from ringfence.fence.runtimes.native.ids import Ids
from ringfence.fence.runtimes.native.runtime import Native
from ringfence.fence.runtimes.native.tools import BUILT, NotBuilt, Tools
from ringfence.kernel.errors import RingfenceError
from ringfence.settings import Settings


async def diagnosed(settings: Settings, runtime: Runtime | None = None, why_none: str = "") -> Diagnosis:
    """`runtime`: that of a server; without one a runtime of its own, in a folder that is gone afterwards."""
    began = time.monotonic()
    if runtime is not None or why_none:
        trial = await tried(runtime, why_none)
    else:
        async with _own_runtime(settings) as (own, why):
            trial = await tried(own, why)
    by_root = os.geteuid() == 0 or (isinstance(runtime, Native) and runtime.by_root)
    found = await asyncio.to_thread(_judged, settings.data, trial, by_root)
    return Diagnosis(findings=tuple(found), seconds=round(time.monotonic() - began, 3))


def _judged(data: Path, trial: Trial, by_root: bool) -> list[Finding]:
    built = all(os.access(path, os.X_OK) for path in (BUILT / "warden", BUILT / "launch", PROBE))
    return findings(Host(is_root=by_root), data, trial, built=built)


@asynccontextmanager
async def _own_runtime(settings: Settings) -> AsyncIterator[tuple[Runtime | None, str]]:
    """Beside the data folder, so that what is tried is tried on its disk."""
    try:
        near = next(parent for parent in (settings.data, *settings.data.parents) if os.access(parent, os.W_OK))
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".doctor-", dir=near))
    except (OSError, StopIteration):
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="ringfence-doctor-"))
    try:
        folder.chmod(0o711)
        try:
            boxes = Boxes(folder / "sandboxes", Tools.find(), Ids(settings.uid_base))
            runtime = Native(boxes)
            await runtime.open()
        except (RingfenceError, OSError, NotBuilt, NoBubblewrap) as error:
            yield None, str(error)
            return
        try:
            yield runtime, ""
        finally:
            await runtime.close()
            boxes.forget_groups()
    finally:
        await asyncio.to_thread(tree.remove, folder)
